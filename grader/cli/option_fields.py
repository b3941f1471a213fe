"""Read a command's options from a dataclass, so that each is said once: its name, type, default and help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")


def command_of(options: type[Options], run: Callable[[Options], None]) -> Callable[..., None]:
    """Return the function that typer reads: it takes the options of a command line, and runs the command with them.

    options: a dataclass. Each field has a default, and is annotated as a parameter of a typer command is; a field of
    type tuple[str, ...] is an option that may be repeated.
    """

    def command(**given: Any) -> None:
        run(options(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}))

    hints = get_type_hints(options, include_extras=True)
    signature = Signature(
        [_parameter(one.name, hints[one.name], one.default) for one in fields(options)], return_annotation=None
    )
    # typer asks `inspect.signature`, which looks here first.
    command.__signature__ = signature  # type: ignore[attr-defined]
    return command


def _parameter(name: str, hint: Any, default: object) -> Parameter:
    """Return a field as a parameter for typer, which knows a repeated option as a list."""
    kind, *about = get_args(hint)
    if kind == tuple[str, ...]:
        hint, default = Annotated[(list[str], *about)], []
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
