"""The key of a result: a hash over all that the result depends on. A result is used again only for the same key."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from grader import machine
from grader.exercise.catalogue import Entry, discover, find_root
from grader.protocol.decode import decode
from grader.record.record import Environment
from grader.syntax import tree_of

_PACKAGE = Path(__file__).resolve().parents[1]
# Rooms that decide no result. A test ensures that no grading imports them.
WITHOUT = (
    "batch",
    "class_pages",
    "cli",
    "export",
    "progress",
    "release",
    "report",
    "sanitizer",
    "selftest.py",
    "soundness",
    "watch",
)


@dataclasses.dataclass(frozen=True)
class Terms:
    """The grader, exercises and environment of a worker: the same for a whole class, or marks cannot be compared.

    grader: a hash of its code that decides results. exercises: their hashes by name. environment: the machine's, as one
    text (`environment`). A worker also reports two fields before its first task, which may differ: layers: those that
    confine a submission there; trouble: why it cannot grade.
    """

    grader: str = ""
    exercises: dict[str, str] = dataclasses.field(default_factory=dict)
    environment: str = ""
    layers: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    trouble: str = dataclasses.field(default="", compare=False)


def terms(entries: Iterable[Entry], *, gpu: bool) -> Terms:
    """Return the terms of this machine for these exercises."""
    return Terms(grader_hash(), {entry.name: entry.sha256() for entry in entries}, environment(gpu=gpu))


@cache
def grader_hash() -> str:
    """Return a hash of the grader's code that decides results. Comments, docstrings and the version do not count."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        place = path.relative_to(_PACKAGE)
        # The package's own __init__ holds the version; a wheel's course has hashes of its own, exercise by exercise.
        if place.parts[0] not in (*WITHOUT, "__init__.py", "course"):
            digest.update(str(place).encode() + b"\0" + _code(path.read_text(encoding="utf-8")).encode() + b"\0")
    return digest.hexdigest()[:16]


def _code(text: str) -> str:
    """Return a module's code without comments, layout and docstrings."""
    tree = tree_of(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            del node.body[0]
    return ast.dump(tree)


def environment(*, gpu: bool) -> str:
    """Return what results depend on here: versions, packages that parts lack, and the GPU if one is used."""
    found = machine.environment("gpu" if gpu else "interpret", (), machine.find_gpu() if gpu else None)
    values = dataclasses.asdict(found)
    del values["isolation"]
    values["lacks"] = {entry.name: lacks for entry in discover(find_root()) if (lacks := _lacks(entry))}
    return json.dumps(values, sort_keys=True)


def _lacks(entry: Entry) -> list[str]:
    return sorted({one.module for part in entry.exercise.parts for one in machine.missing_packages(part)})


def environment_of(text: str) -> Environment:
    """Return the environment in such a text, in a record's form."""
    values = {name: value for name, value in json.loads(text).items() if name != "lacks"}
    return decode(Environment, {**values, "isolation": []}, "environment")


def content_key(text: str, exercise: str, asked: Terms, seed: int, options: str = "") -> str:
    """Return the key of grading this text against the exercise of that name. options: those that change a result."""
    values = json.loads(asked.environment)
    # Packages that only another exercise lacks do not matter here.
    here = json.dumps({**values, "lacks": values.get("lacks", {}).get(exercise, [])}, sort_keys=True)
    parts = (text, exercise, asked.exercises[exercise], asked.grader, here, f"{seed:#x}", options)
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:40]
