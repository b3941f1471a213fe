"""The key of a result: a hash over all that the result depends on. A result is used again only for the same key."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from functools import cache
from pathlib import Path

from grader import __version__, machine
from grader.exercise.catalogue import discover, find_root
from grader.protocol.decode import decode
from grader.record import Environment

_PACKAGE = Path(__file__).resolve().parents[1]
# Rooms that show, keep and hand round results, and decide none.
_WITHOUT = ("batch", "cli", "export", "report", "release", "similarity", "sanitizer")


@dataclasses.dataclass(frozen=True)
class Terms:
    """The grader, exercises and environment of a class: the same for all, or marks cannot be compared.

    grader: its version and a hash of its code. exercises: their hashes by name. environment: what the machine has, as
    one text (`environment`).
    """

    grader: str
    exercises: dict[str, str]
    environment: str


@cache
def grader() -> str:
    """Return the grader's version, and a hash of all of its code that decides results."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        place = path.relative_to(_PACKAGE)
        if place.parts[0] not in _WITHOUT:
            digest.update(str(place).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{__version__}+{digest.hexdigest()[:16]}"


def environment(*, gpu: bool) -> str:
    """Return what results depend on of this machine: versions, packages that parts lack, and the GPU if one is used."""
    found = machine.environment("gpu" if gpu else "interpret", (), machine.find_gpu() if gpu else None)
    values = dataclasses.asdict(found)
    del values["isolation"]
    parts = [part for entry in discover(find_root()) for part in entry.exercise.parts]
    values["lacks"] = sorted({package.module for part in parts for package in machine.missing_packages(part)})
    return json.dumps(values, sort_keys=True)


def environment_of(text: str) -> Environment:
    """Return the environment in such a text, as records have it."""
    values = {name: value for name, value in json.loads(text).items() if name != "lacks"}
    return decode(Environment, {**values, "isolation": []}, "environment")


def content_key(text: str, exercise: str, terms: Terms, seed: int, manner: str = "") -> str:
    """Return the key of grading this text against the exercise of that name. manner: options that change a result."""
    parts = (text, exercise, terms.exercises[exercise], terms.grader, terms.environment, f"{seed:#x}", manner)
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:40]
