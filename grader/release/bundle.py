"""List the files of a student bundle and their bytes, which depend on the checkout alone.

It works by an allow-list: an exercise's other files (solution, planted mistakes, honest variants, probes, measuring
programs) are not handed out. It writes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from grader.errors import UsageError
from grader.exercise.catalogue import Entry

# The files of an exercise that `grade` reads. An oracle looks numbers up in measured.json.
_NEEDED = ("spec.py", "inputs.py", "oracle.py", "stub.py")
_WHERE_THERE = ("mistakes.py", "baselines.py", "measured.json", "interview.py")
_INSTALL = ("pyproject.toml", "constraints.txt")
_SOURCES = frozenset({".py", ".j2", ".md", ".typed"})

MANIFEST = "release.json"


def files(entries: Sequence[Entry], package: Path, version: str) -> dict[str, bytes]:
    """Return every file's bytes by its path in the bundle, in order.

    `package` is the grader's folder, `version` its version. release.json lists the other files with their SHA-256.
    Raises UsageError, and SpecError if an exercise is incomplete.
    """
    if not entries:
        raise UsageError("a bundle must hold an exercise, got none")
    found = dict([*_grader(package), *_installation(package), *_exercises(entries), *_words(entries, version)])
    ordered = {name: found[name] for name in sorted(found)}
    return {**ordered, MANIFEST: _manifest(ordered, entries, version)}


def _grader(package: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(package.rglob("*")):
        place = path.relative_to(package)
        # A wheel carries the answers inside the package.
        if place.parts[:2] == ("course", "reference"):
            continue
        if path.is_file() and path.suffix in _SOURCES and "__pycache__" not in path.parts:
            yield f"grader/{place.as_posix()}", path.read_bytes()


def _installation(package: Path) -> Iterator[tuple[str, bytes]]:
    for name in _INSTALL:
        path = next((one / name for one in (package / "course", package.parent) if (one / name).is_file()), None)
        if path is None:
            raise UsageError(f"a bundle must be made from a checkout with {name}, got none in {package.parent}")
        yield name, path.read_bytes()


def _exercises(entries: Sequence[Entry]) -> Iterator[tuple[str, bytes]]:
    for entry in entries:
        folder = f"reference/{entry.name}"
        for name in _NEEDED:
            yield f"{folder}/{name}", entry.source(name).encode()
        for name in _WHERE_THERE:
            if (entry.folder / name).is_file():
                yield f"{folder}/{name}", (entry.folder / name).read_bytes()
        # The original stub, not the edited file in exercises/.
        yield f"exercises/{entry.name}.py", entry.source("stub.py").encode()


def _words(entries: Sequence[Entry], version: str) -> Iterator[tuple[str, bytes]]:
    environment = Environment(  # noqa: S701  Markdown from an author's own titles
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name in ("README.md", "AGENTS.md"):
        text = environment.get_template(f"{name}.j2").render(entries=entries, version=version)
        yield name, text.encode()
    yield ".gitignore", b"__pycache__/\n*.egg-info/\n.venv/\n/scorecards/\n/solutions/\n*.bak\n"


def _manifest(listed: dict[str, bytes], entries: Sequence[Entry], version: str) -> bytes:
    document = {
        "schema": "grade/release/v1",
        "version": version,
        "exercises": {
            entry.id: {"version": entry.exercise.version, "spec_sha256": entry.sha256()} for entry in entries
        },
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in listed.items()},
    }
    return (json.dumps(document, indent=1) + "\n").encode()
