"""Render the page of similar sources: clusters, and pairs side by side. It shows similarity and gives no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from grader.class_pages.page import environment
from grader.class_pages.similarity import Cluster, SimilarPair, Source
from grader.phrases import in_percent, listed
from grader.report import view

_MOST_LINES, _MOST_CHARACTERS, _AROUND, _MOST_NAMES = 400, 200, 3, 40


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
    """One exercise's clusters, the number of its sources, and the students whose source was not compared.

    earlier: the number of an earlier class's sources. absent: the file is gone or has changed since it was graded.
    invalid: it was an invalid file when it was graded.
    """

    id: str
    title: str
    clusters: Sequence[Cluster]
    compared: int
    absent: Sequence[str]
    invalid: Sequence[str] = ()
    earlier: int = 0


@dataclass(frozen=True)
class ClusterView:
    """A cluster in words, and its pairs: the share, and both sides."""

    size: int
    members: str
    shares: str
    pairs: tuple[tuple[str, Side, Side], ...]


def render(exercises: Sequence[ComparedExercise], title: str, names: Mapping[str, str], threshold: float) -> str:
    """Return the whole page."""
    shown = [
        (
            one,
            [_cluster(cluster, names) for cluster in one.clusters],
            _listed(one.absent, names),
            _listed(one.invalid, names),
        )
        for one in exercises
    ]
    template = environment().get_template("alike.html.j2")
    return template.render(title=title, exercises=shown, threshold=in_percent(threshold)).lstrip()


def _listed(students: Sequence[str], names: Mapping[str, str]) -> str:
    return Markup(listed([_name(student, names) for student in students], _MOST_NAMES))  # noqa: S704  names are escaped


def _name(student: str, names: Mapping[str, str]) -> Markup:
    """Return a name that does not change the direction in which the text around it is read."""
    return Markup("<bdi>{}</bdi>").format(view.line(names.get(student, student), 120))


def _cluster(cluster: Cluster, names: Mapping[str, str]) -> ClusterView:
    shares = sorted(pair.share for pair in cluster.pairs)
    return ClusterView(
        len(cluster.members),
        _listed([one.student for one in cluster.members], names),
        " to ".join(dict.fromkeys(in_percent(share) for share in (*shares[:1], *shares[-1:]))),
        tuple(_pair(pair, names) for pair in cluster.pairs),
    )


def _pair(pair: SimilarPair, names: Mapping[str, str]) -> tuple[str, Side, Side]:
    first, second = _side(pair.first, pair.first_lines, names), _side(pair.second, pair.second_lines, names)
    return in_percent(pair.share), first, second


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
    return Side(_name(source.student, names), tuple(lines), max(0, len(kept) - _MOST_LINES))
