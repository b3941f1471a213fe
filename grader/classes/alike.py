"""Render the page of similar sources: pairs side by side. It shows similarity and gives no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.classes.page import environment
from grader.classes.similarity import SimilarPair, Source
from grader.report import view

_MOST_LINES, _MOST_CHARACTERS, _AROUND = 400, 200, 3


@dataclass(frozen=True)
class SourceLine:
    """One line of a source. Number 0 stands for lines that are left out."""

    number: int
    text: str
    alike: bool


@dataclass(frozen=True)
class Side:
    """One of two compared sources."""

    student: str
    lines: tuple[SourceLine, ...]
    cut: int


@dataclass(frozen=True)
class ComparedExercise:
    """One exercise's pairs, the number of its sources, and the students whose source was missing."""

    id: str
    title: str
    pairs: Sequence[SimilarPair]
    compared: int
    absent: Sequence[str]


def render(exercises: Sequence[ComparedExercise], title: str, names: Mapping[str, str], threshold: float) -> str:
    """Return the whole page."""
    shown = [
        (
            one,
            [
                (
                    f"{100 * pair.share:.0f} %",
                    _side(pair.first, pair.first_lines, names),
                    _side(pair.second, pair.second_lines, names),
                )
                for pair in one.pairs
            ],
            ", ".join(view.line(names.get(student, student), 100) for student in one.absent[:20]),
            max(0, len(one.absent) - 20),
        )
        for one in exercises
    ]
    template = environment().get_template("alike.html.j2")
    return template.render(title=title, exercises=shown, threshold=f"{100 * threshold:.0f} %").lstrip()


def _side(source: Source, alike: frozenset[int], names: Mapping[str, str]) -> Side:
    """Return the similar lines with some context. Gaps are marked."""
    texts = source.text.split("\n")
    near = {line + off for line in alike for off in range(-_AROUND, _AROUND + 1)}
    kept = [number for number in range(1, len(texts) + 1) if number in near]
    lines: list[SourceLine] = []
    for number in kept[:_MOST_LINES]:
        if number > 1 and number - 1 not in near:
            lines.append(SourceLine(0, "…", alike=False))
        text = view.block(texts[number - 1], _MOST_CHARACTERS).replace("\n", " ")
        lines.append(SourceLine(number, text, number in alike))
    return Side(
        view.line(names.get(source.student, source.student), 120), tuple(lines), max(0, len(kept) - _MOST_LINES)
    )
