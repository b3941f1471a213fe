"""Load the pages' templates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from grader.phrases import counted

_HERE = Path(__file__).parent


def page_environment(before: Sequence[Path] = (), cache: BytecodeCache | None = None) -> Environment:
    """Return an environment that escapes all text and refuses unknown names. It has the filters `counted` and `prose`.

    before: folders that are searched before this one.
    """
    environment = Environment(
        loader=FileSystemLoader([*before, _HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=cache,
    )
    environment.filters["counted"] = counted
    environment.filters["prose"] = _prose
    return environment


def _prose(text: str) -> Markup:
    """Return a sentence with text between backticks as code. Unpaired backticks stay."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    marked = (
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece) for place, piece in enumerate(pieces)
    )
    return Markup("").join(marked)
