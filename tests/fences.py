"""The fenced blocks of a page of the documentation: their languages, their labels, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A line that begins with one of these, behind variables of the environment, is a command.
_PROGRAM = re.compile(r"(?:\w+=\S* )*(?:\. |grade|docker|pip3?|python3?|tox|pytest|dask|kubectl|mkdocs|git)\b ?.*")
FENCE = re.compile(r"^```(?P<head>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_IN_THE_IMAGE = re.compile(r"docker run (?:-\S+ |\"\S+\" )+grade ")


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page: its language, its labels and its text."""

    page: Path
    line: int
    language: str
    labels: tuple[str, ...]
    body: str

    @property
    def where(self) -> str:
        """Return the page and the line, as an editor takes them."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def tests(self) -> tuple[str, ...]:
        """Return the test files that the labels name."""
        return tuple(label.removeprefix("test=") for label in self.labels if label.startswith("test="))

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the commands, one a piece: the lines behind `$`, or where no line has one, those of a program."""
        lines = [line.strip() for line in self.body.replace("\\\n", " ").splitlines()]
        marked = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        pieces = [piece.strip() for line in marked or lines for piece in re.split(r" && | & |; ", plain(line))]
        return tuple(piece for piece in pieces if _PROGRAM.fullmatch(piece))

    @property
    def grades(self) -> tuple[tuple[str, ...], ...]:
        """Return the words behind `grade` of each such command, in a container too."""
        inside = (_IN_THE_IMAGE.sub("grade ", command) for command in self.commands)
        return tuple(tuple(shlex.split(command)[1:]) for command in inside if command.startswith("grade "))


def plain(line: str) -> str:
    """Return a line without its comment, without what its output goes into, and on one side of a pipe."""
    return re.sub(r"\s+#\s.*$|\s+\d?>\s*\S+|\s+\|\s.*$", "", line)


def fences(page: Path) -> Iterator[Fence]:
    """Give the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        language, *labels = found["head"].split() or [""]
        yield Fence(page, text.count("\n", 0, found.start()) + 1, language, tuple(labels), found["body"])
