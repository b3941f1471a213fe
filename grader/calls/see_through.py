"""Lets operators that a submission registers with torch be seen through: torch runs them behind every mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any


def see_through(modes: Callable[[], AbstractContextManager[None]]) -> None:
    """Run what implements an operator inside these modes, for all operators that are registered from now on."""
    import torch.library

    register: Callable[..., Any] = torch.library.Library.impl

    def impl(library: Any, name: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not callable(function) or isinstance(function, type):
            return register(library, name, function, *args, **kwargs)

        @wraps(function)
        def seen(*given: Any, **named: Any) -> Any:
            with modes():
                return function(*given, **named)

        return register(library, name, seen, *args, **kwargs)

    torch.library.Library.impl = impl  # type: ignore[method-assign,assignment]
