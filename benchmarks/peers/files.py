"""Choose the files that are fed: honest ones, planted mistakes, other means than kernels, attacks on the clock.

Nobody picks them by hand: they are spread evenly over the sorted names, so many of each kind for each part.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from benchmarks.peers.tasks import TASKS, Task
from grader.exercise.catalogue import Entry, resolve
from grader.exercise.triton_version import lacking
from grader.soundness.claims import claim_of

ROOT = Path(__file__).resolve().parents[2]
TIMING = ROOT / "tests" / "submissions" / "timing"
Kind = Literal["honest", "wrong", "other means", "attack"]
KINDS: tuple[Kind, ...] = ("honest", "wrong", "other means", "attack")
# What the others do not ask of a file: its cost, and tensors that are no whole contiguous ones.
NOT_ASKED = ("launches", "traffic", "speed", "strides", "slices")
T = TypeVar("T")


@dataclass(frozen=True)
class Fed:
    """A file to feed. text: without the docstring, which says what is wrong. says: the docstring's first sentence."""

    kind: Kind
    task: Task
    name: str
    text: str
    says: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells the file from all others."""
        return self.kind, self.task.part, self.name


def chosen(each: int) -> tuple[Fed, ...]:
    """Return the files to feed: `each` of every kind (0: all), as evenly over the parts as they come."""
    found = [fed for task in TASKS for fed in _of(task)]
    result: list[Fed] = []
    for kind in KINDS:
        by_part = [[fed for fed in found if fed.kind == kind and fed.task is task] for task in TASKS]
        by_part = [feds for feds in by_part if feds]
        shares = _shares(each, len(by_part))
        result += [fed for feds, share in zip(by_part, shares, strict=True) for fed in spread(feds, share)]
    return tuple(result)


def spread(items: Sequence[T], count: int) -> list[T]:
    """Return `count` of the items, evenly spread; all for 0."""
    if count <= 0 or count >= len(items):
        return list(items)
    return [items[int((place + 0.5) * len(items) / count)] for place in range(count)]


def without_docstring(text: str) -> str:
    """Return a module's text with its docstring blanked. Line numbers stay."""
    first = next(iter(ast.parse(text).body), None)
    if not (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    ):
        return text
    lines = text.splitlines(keepends=True)
    return "\n" * (first.end_lineno or 0) + "".join(lines[first.end_lineno :])


def _shares(each: int, parts: int) -> Iterator[int]:
    return (each and max(1, each * (place + 1) // parts - each * place // parts) for place in range(parts))


def _of(task: Task) -> Iterator[Fed]:
    entry, _ = resolve(ROOT, task.exercise)
    for path in (entry.solution, *entry.honest):
        if task.part in entry.parts_in(path):
            yield from _read("honest", task, path)
    yield from _planted(entry, task)
    if task.part == "vector_add":
        paths = sorted(path for path in TIMING.glob("*.py") if not path.name.startswith(("control_", "honest_")))
        for path in paths:
            yield from _read("attack", task, path)


def _planted(entry: Entry, task: Task) -> Iterator[Fed]:
    for mistake in entry.wrong:
        claim = claim_of(mistake)
        part, _, check = claim.check.partition(".")
        if part == task.part and check not in NOT_ASKED:
            kind: Kind = "other means" if claim.status == "policy" else "wrong"
            yield Fed(kind, task, mistake.name, without_docstring(mistake.text), claim.why)


def _read(kind: Kind, task: Task, path: Path) -> Iterable[Fed]:
    text = path.read_text(encoding="utf-8")
    says = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    # A file for another version of Triton is nobody's mistake.
    return () if lacking(text) else (Fed(kind, task, path.stem, without_docstring(text), says),)
