"""Read planted mistakes: patches against a correct base, and whole files.

reference/<name>/wrong/base_<what>.py   correct, plain and short; judged like a file in honest/
reference/<name>/wrong/<mistake>.patch  what the mistake must get, then a unified diff against one base
reference/<name>/wrong/<mistake>.py     a whole file, where a mistake shares little with any base

The text above a diff becomes the docstring of the submission, in place of the base's. A patch that does not fit its
base to the letter is an error: nothing is guessed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grader.errors import SpecError
from grader.syntax import tree_of

if TYPE_CHECKING:
    from unidiff.patch import PatchedFile

BASE = "base_"


@dataclass(frozen=True)
class PlantedMistake:
    """A submission with one known mistake. path: the file that it was read from; text: the whole submission."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The name without a suffix."""
        return self.path.stem


def bases(folder: Path) -> tuple[Path, ...]:
    """Return the correct files in `folder` that its patches start from, sorted."""
    return tuple(sorted(folder.glob(f"{BASE}*.py")))


def planted(folder: Path) -> Iterator[PlantedMistake]:
    """Read the mistakes in `folder`, sorted by name. Raise SpecError where a patch does not fit its base."""
    correct = bases(folder)
    paths = [path for suffix in ("py", "patch") for path in folder.glob(f"*.{suffix}") if path not in correct]
    for path in sorted(paths, key=lambda one: one.stem):
        yield read(path)


def read(path: Path) -> PlantedMistake:
    """Read a mistake: a whole file as it is, a patch applied to its base. Raise SpecError where it does not fit."""
    text = path.read_text(encoding="utf-8")
    return PlantedMistake(path, _patched(path, text) if path.suffix == ".patch" else text)


def _patched(path: Path, text: str) -> str:
    header, change = _parsed(path, text)
    base = path.parent / change.source_file
    if not base.name.startswith(BASE) or not base.is_file():
        raise SpecError(f"{path.name}: the line '---' must name a file {BASE}*.py beside it, got {change.source_file}")
    if change.target_file != f"{path.stem}.py":
        raise SpecError(f"{path.name}: the line '+++' must name {path.stem}.py, got {change.target_file}")
    lines = _applied(path, base, change)
    return f'"""{header}\n"""\n' + "".join(lines[_docstring_end(path, "".join(lines)) :])


def _parsed(path: Path, text: str) -> tuple[str, PatchedFile]:
    """Split a patch into the text on top and the change of one file."""
    # Most commands read no patch.
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    header, _, diff = text.partition("\n--- ")
    diff = f"--- {diff}"
    try:
        changes = PatchSet(diff)
    except UnidiffParseError as broken:
        raise SpecError(f"{path.name} must hold a unified diff: {broken}") from broken
    if len(changes) != 1 or not changes[0]:
        raise SpecError(f"{path.name} must hold text and then a unified diff of one file, got {len(changes)} files")
    read_lines = 2 + sum(1 + len(hunk) for hunk in changes[0])
    # What stands behind the last line that a hunk counts is no part of it.
    if diff.count("\n") != read_lines:
        raise SpecError(f"{path.name} must end where its last hunk ends, got other lines than '@@' counts")
    if '"""' in header or "\\" in header:
        raise SpecError(f'{path.name}: the text on top becomes a docstring, so it must have no \\ and no """')
    return header.strip(), changes[0]


def _applied(path: Path, base: Path, change: PatchedFile) -> list[str]:
    """Return the base's lines with the change made, each hunk exactly where it says."""
    lines = base.read_text(encoding="utf-8").splitlines(keepends=True)
    result: list[str] = []
    done = 0
    for hunk in change:
        # A hunk without a line of the base names the line that it comes behind.
        first = hunk.source_start - (1 if hunk.source_length else 0)
        last = first + hunk.source_length
        here = [line.value for line in hunk.source_lines()]
        if first < done or lines[first:last] != here:
            raise SpecError(
                f"{path.name} must fit {base.name}, got other lines at hunk '@@ -{hunk.source_start},"
                f"{hunk.source_length} +{hunk.target_start},{hunk.target_length} @@'; make the patch anew: see "
                "docs/adding-an-exercise.md, 'A mistake as a patch'"
            )
        result += [*lines[done:first], *(line.value for line in hunk.target_lines())]
        done = last
    return [*result, *lines[done:]]


def _docstring_end(path: Path, text: str) -> int:
    """Return the number of lines up to the end of the module's docstring."""
    try:
        tree = tree_of(text)
    except SyntaxError as broken:
        raise SpecError(f"{path.name} must give a Python file, got {broken.msg} in line {broken.lineno}") from broken
    if ast.get_docstring(tree) is None:
        raise SpecError(f"{path.name} must leave the docstring of its base alone: its own text takes that place")
    return tree.body[0].end_lineno or 0
