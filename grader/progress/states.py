"""Tell how far a learner is with an exercise, part by part, and what comes next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from grader.phrases import counted, two_decimals
from grader.progress.kept import Kept
from grader.progress.part_text import part_hashes
from grader.record.checks import CheckResult
from grader.record.statuses import UNJUDGED
from grader.record.verdicts import left_out_in_words, parts_left_out

# no file: nothing to grade. not started: the untouched stub. not graded: no results of this file. changed: all results
# are of earlier texts. begun: a check failed or was left out, or a whole part was not judged or has changed. done: all
# that could be judged here passed.
State = Literal["no file", "not started", "not graded", "changed", "begun", "done"]

# not started: the stub's text, or a function that only raises NotImplementedError. not graded: never judged. changed:
# judged with an earlier text. open: a check failed or was left out. not judged: this machine cannot judge it.
PartState = Literal["passed", "open", "changed", "not graded", "not started", "not judged"]

# Statuses of a machine or a measurement, not of the learner: neither keeps an exercise from being done.
_ELSEWHERE = frozenset({"skipped_environment", "inconclusive"})
# What comes next: first what fails, then what is written but not judged, then what is not written.
_ORDER: tuple[PartState, ...] = ("open", "changed", "not graded", "not started")
# How many parts a sentence names.
_MOST_NAMED = 3


@dataclass(frozen=True)
class PartProgress:
    """A learner's progress with one part."""

    name: str
    state: PartState


@dataclass(frozen=True)
class Progress:
    """A learner's progress with one exercise.

    earned, judged: points of the results that hold for the file as it is (of the earlier ones if none do), earned and
    judged. whole: all their points. open: the checks that keep the exercise from being done. left_out: the number of
    checks that judged parts lack. unjudged: a sentence on the whole parts that this machine could not judge. parts: of
    the exercise, in order. checks: the results behind the points.
    """

    state: State
    earned: float = 0.0
    judged: float = 0.0
    whole: float = 0.0
    open: tuple[CheckResult, ...] = ()
    left_out: int = 0
    unjudged: str = ""
    parts: tuple[PartProgress, ...] = ()
    checks: tuple[CheckResult, ...] = ()

    @property
    def is_done(self) -> bool:
        """Return whether all that could be judged here passed, in the file as it is now."""
        return self.state == "done"

    @property
    def next_part(self) -> PartProgress | None:
        """Return the part that comes next: one that fails, else one that is not judged yet, else an unwritten one."""
        return next((part for state in _ORDER for part in self.parts if part.state == state), None)


@dataclass(frozen=True)
class File:
    """A learner's file: its text (None: there is none), and the text of the untouched stub."""

    text: str | None
    stub: str | None


def progress_of_file(file: File, kept: Kept | None, checks: Collection[str], spec_sha256: str) -> Progress:
    """Return the progress of a file.

    kept: the results of the learner's own gradings. `checks` are the ids of all checks of the exercise; spec_sha256 is
    the hash of their specification.
    """
    if file.text is None:
        return Progress("no file")
    ids: dict[str, set[str]] = {}
    for name in checks:
        ids.setdefault(name.partition(".")[0], set()).add(name)
    untouched = _untouched_parts(file.text, file.stub, ids)
    same_spec = kept is not None and kept.spec_sha256 == spec_sha256
    current = kept.current(file.text, ids) if kept is not None and same_spec else {}
    earlier = {name: one.checks for name, one in kept.parts.items() if name not in current} if kept is not None else {}
    parts = tuple(PartProgress(name, _part_state(name, own, current, earlier, untouched)) for name, own in ids.items())
    if file.text == file.stub:
        return _with_points(Progress("not started", parts=parts), current)
    if not current:
        return _with_points(Progress("changed" if earlier else "not graded", parts=parts), earlier)
    begun = _with_points(Progress("begun", parts=parts), current)
    left_out = sum(len(ids[name] - {check.id for check in own}) for name, own in current.items() if name in ids)
    missing = tuple(check for check in begun.checks if _is_open(check))
    unjudged = left_out_in_words(begun.checks)
    passed = any(check.status == "pass" for check in begun.checks)
    is_done = passed and not missing and not left_out and not unjudged and set(ids) <= set(current)
    return replace(begun, state="done" if is_done else "begun", open=missing, left_out=left_out, unjudged=unjudged)


def _untouched_parts(text: str, stub: str | None, parts: Collection[str]) -> frozenset[str]:
    """Return the parts whose text is the stub's."""
    if stub is None:
        return frozenset()
    if text == stub:
        return frozenset(parts)
    mine, given = part_hashes(text, parts), part_hashes(stub, parts)
    return frozenset(name for name in parts if mine[name] == given[name])


def _part_state(
    name: str,
    ids: set[str],
    current: Mapping[str, Sequence[CheckResult]],
    earlier: Mapping[str, Sequence[CheckResult]],
    untouched: frozenset[str],
) -> PartState:
    checks = current.get(name, ())
    judged = [check for check in checks if check.status not in _ELSEWHERE]
    if judged and all(check.status == "not_implemented" for check in judged):
        return "not started"
    if not checks:
        if name in untouched:
            return "not started"
        return "changed" if name in earlier else "not graded"
    if any(map(_is_open, checks)) or ids - {check.id for check in checks}:
        return "open"
    return "not judged" if parts_left_out(checks) else "passed"


def _is_open(check: CheckResult) -> bool:
    return check.status != "pass" and check.status not in _ELSEWHERE


def _with_points(progress: Progress, results: Mapping[str, Sequence[CheckResult]]) -> Progress:
    """Return the progress with these results and their points."""
    checks = tuple(check for part in results.values() for check in part)
    judged = [check for check in checks if check.status not in UNJUDGED]
    return replace(
        progress,
        checks=checks,
        earned=sum(check.points for check in judged),
        judged=sum(check.max_points for check in judged),
        whole=sum(check.max_points for check in checks),
    )


def words(progress: Progress) -> str:
    """Return the progress in words: "12 of 75 points", "done: 75 of 75 points, 25 more cannot be judged here"."""
    points = f"{two_decimals(progress.earned)} of {two_decimals(progress.judged)} points"
    match progress.state:
        case "no file":
            return "no file"
        case "not started":
            return "not started"
        case "not graded":
            return "not graded yet"
        case "changed":
            return f"changed since it got {points}"
        case "begun":
            count = progress.left_out
            left_out = counted(count, "check was left out", "checks were left out") if count else ""
            return "; ".join(filter(None, (points, left_out, *_without_results(progress), progress.unjudged)))
        case "done":
            beyond = progress.whole - progress.judged
            return f"done: {points}" + (f", {two_decimals(beyond)} more cannot be judged here" if beyond else "")


def _without_results(progress: Progress) -> tuple[str, ...]:
    """Return which parts have no results that hold: "changed since: gemm", "not started: gemm and 2 more"."""
    judged = {check.part for check in progress.checks}
    said = []
    states: tuple[tuple[PartState, str], ...] = (
        ("changed", "changed since"),
        ("not graded", "not graded yet"),
        ("not started", "not started"),
    )
    for state, label in states:
        names = [part.name for part in progress.parts if part.state == state and part.name not in judged]
        if len(names) > _MOST_NAMED:
            names = [*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} more"]
        said += [f"{label}: {', '.join(names)}"] if names else []
    return tuple(said)


def bar(progresses: Collection[Progress], *, width: int, ascii_only: bool = False) -> str:
    """Return a bar of `width` characters and a number: how many exercises are done."""
    done = sum(progress.is_done for progress in progresses)
    # An exercise that is begun counts for the share of its points, and never for a whole one.
    part = sum(_share(progress) for progress in progresses)
    filled = int(width * part / max(len(progresses), 1) + 1e-9)
    full, empty = ("#", "-") if ascii_only else ("█", "░")
    return f"{full * filled}{empty * (width - filled)} {done} of {len(progresses)} done"


def _share(progress: Progress) -> float:
    if progress.is_done:
        return 1.0
    if progress.state != "begun" or not progress.judged:
        return 0.0
    # A part without results that hold counts as nothing earned.
    judged = {check.part for check in progress.checks}
    known = sum(part.name in judged for part in progress.parts) / len(progress.parts) if progress.parts else 1.0
    return 0.99 * known * progress.earned / progress.judged
