"""Load the pages' templates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined

from grader.phrases import counted

_HERE = Path(__file__).parent


def page_environment(before: Sequence[Path] = (), cache: BytecodeCache | None = None) -> Environment:
    """Return an environment that escapes all text and refuses unknown names. It has the filter `counted`.

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
    return environment
