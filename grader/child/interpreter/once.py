"""Lets the interpreter prepare Triton's language once: it does so anew for every launch and every call of a helper.

In a process that only replays, nothing else wants the language as it is compiled.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class _NothingToRestore:
    """Stands for what the interpreter undoes when a launch is over."""

    def restore(self) -> None:
        """Leave the language as the interpreter needs it."""


def patch_language_once() -> None:
    """Prepare the language for the interpreter, for good; after everything that changes the interpreter, and after
    whatever looks at the language as it was.
    """
    from triton.runtime import interpreter
    from triton.runtime.interpreter import tl

    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    scope = _NothingToRestore()
    interpreter._patch_lang = lambda _: scope
    _remember_dtypes(interpreter)


def _remember_dtypes(interpreter: Any) -> None:
    """Look a dtype up once: the interpreter makes its whole table for every value."""
    plain, known = interpreter._get_np_dtype, {}

    def get_np_dtype(tt_dtype: Any) -> Any:
        if type(tt_dtype) is not interpreter.tl.dtype:
            return plain(tt_dtype)
        if tt_dtype.name not in known:
            known[tt_dtype.name] = plain(tt_dtype)
        return known[tt_dtype.name]

    interpreter._get_np_dtype = get_np_dtype
