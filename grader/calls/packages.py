"""Find the files of installed packages' modules by their dotted names. Imports nothing, and reads no file."""

from __future__ import annotations

import re
import site
import sysconfig
from functools import cache
from pathlib import Path

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def file_of(module: str) -> Path | None:
    """Return the file of an installed module, such as "package.part"; None where no installed package has it."""
    if len(module) > 200 or not _DOTTED.fullmatch(module):
        return None
    below = Path(*module.split("."))
    endings = (below.with_suffix(".py"), below / "__init__.py")
    places = (folder / ending for folder in _folders() for ending in endings)
    return next((place for place in places if place.is_file()), None)


@cache
def _folders() -> tuple[Path, ...]:
    """Return the folders that pip installs packages into for this interpreter."""
    folders = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages())
    return tuple(Path(one) for one in dict.fromkeys(folders))
