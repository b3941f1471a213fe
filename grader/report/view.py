"""Words that several renderers share: points, numbers, mismatches, the next command to type."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.phrases import in_percent, listed, two_decimals
from grader.record.causes import Cause, Counterexample, Mismatch
from grader.record.checks import CheckResult, PartInfo
from grader.record.json_numbers import Number
from grader.record.record import Environment, Record
from grader.record.statuses import UNJUDGED, Status
from grader.record.verdicts import parts_left_out, worst_of
from grader.report.status import LOOKS, PARTLY, StatusMark
from grader.text import clean, one_line

# Outcomes that the submission caused; the next step is about these.
LEARNERS: frozenset[Status] = frozenset(
    {"fail", "policy", "compile_error", "crash", "timeout", "oom", "invalid_submission", "not_implemented"}
)

_WHERE_WRONG = {
    "all": "everywhere",
    "tail": "only at the end",
    "head": "only at the beginning",
    "rows": "in whole rows",
    "columns": "in whole columns",
    "scattered": "scattered",
}


def parts_of(record: Record) -> list[PartInfo]:
    """Return the record's parts, and a part for every name that only checks have, so that no check is lost."""
    known = {part.name for part in record.parts}
    others = dict.fromkeys(check.part for check in record.checks if check.part not in known)
    return [*record.parts, *(PartInfo(name, line(name, 100).replace("_", " ") or "The file") for name in others)]


@dataclass(frozen=True)
class Tally:
    """The points of some checks: earned, lost, and not judged."""

    earned: float
    lost: float
    unjudged: float

    @property
    def judged(self) -> float:
        """Return the points that could be earned here."""
        return self.earned + self.lost


def tally(checks: Iterable[CheckResult]) -> Tally:
    """Return the points of these checks."""
    earned = lost = unjudged = 0.0
    for check in checks:
        if check.status in UNJUDGED:
            unjudged += check.max_points
        else:
            earned += check.points
            lost += check.max_points - check.points
    return Tally(earned, lost, unjudged)


def points(value: float) -> str:
    """Return points with at most two decimals: 4, 2.5, 0.33."""
    return two_decimals(value)


def check_points(check: CheckResult) -> str:
    """Return a check's points: "3/4", or "–/4" if it was not judged."""
    return group_points((check,))


def group_points(checks: Sequence[CheckResult]) -> str:
    """Return the points of checks that share a line: "3/4", or "–/4" if none was judged."""
    sums = tally(checks)
    earned = "–" if all(check.status in UNJUDGED for check in checks) else points(sums.earned)
    return f"{earned}/{points(sums.judged or sums.unjudged)}"


def short_name(check: CheckResult) -> str:
    """Return a check's name within its part, in words: "full blocks"."""
    return line(check.id, 60).removeprefix(f"{check.part}.").replace("_", " ")


def tally_points(sums: Tally) -> str:
    """Return the points of a part or an objective, with those not judged apart: "12/15, 5 not judged"."""
    if sums.unjudged and not sums.judged:
        return f"{points(sums.unjudged)} not judged"
    text = f"{points(sums.earned)}/{points(sums.judged)}"
    return f"{text}, {points(sums.unjudged)} not judged" if sums.unjudged else text


def line(text: str, most: int = 400) -> str:
    """Return text as one printable line. A cut is marked."""
    return one_line(text, most)


def block(text: str, most: int = 4000) -> str:
    """Return text as printable lines without blank lines at its ends. A cut is marked."""
    return clean(text, most).expandtabs(4).strip("\n")


def number(value: Number, digits: int = 6) -> str:
    """Return a number with few digits; "nan" and "inf" stay."""
    return line(value, 40) if isinstance(value, str) else f"{value:.{digits}g}"


def pair(expected: Number, got: Number) -> tuple[str, str]:
    """Return two numbers with enough digits to show that they differ."""
    for digits in (6, 9, 17):
        texts = number(expected, digits), number(got, digits)
        if texts[0] != texts[1]:
            break
    return texts


def index(where: tuple[int, ...]) -> str:
    """Return an element's index: "[64, 0]"."""
    return f"[{', '.join(map(str, where))}]"


def share(count: int, total: int) -> str:
    """Return a percentage, with one decimal; none is above 100%."""
    return in_percent(min(count / max(total, 1), 1), 1)


def where(mismatch: Mismatch) -> str:
    """Return the place of the errors in an output, in words."""
    return _WHERE_WRONG.get(mismatch.pattern, line(mismatch.pattern, 60))


def how_wrong(mismatch: Mismatch) -> str:
    """Return how many elements differ, where, and by how much at most."""
    noun = "element" if mismatch.total == 1 else "elements"
    verb = "differs" if mismatch.count == 1 else "differ"
    text = f"{mismatch.count} of {mismatch.total} {noun} of {line(mismatch.output, 60)} {verb}"
    text += f" ({share(mismatch.count, mismatch.total)}), {where(mismatch)}"
    if mismatch.tile:
        text += f" ({line(mismatch.tile, 80)})"
    text += f"; worst at {index(mismatch.worst_index)}"
    # NaN has no distance, and an error relative to 0 says nothing.
    if mismatch.max_abs == "nan":
        return text
    relative = "" if isinstance(mismatch.max_rel, float) and mismatch.max_rel > 1e9 else f" ({ratio(mismatch.max_rel)})"
    return f"{text}: off by {number(mismatch.max_abs)}{relative}"


def spread(mismatch: Mismatch) -> str:
    """Return the share, the place and the greatest error of the wrong elements: what the other words leave open."""
    part = share(mismatch.count, mismatch.total)
    text = f"{part[:1].upper()}{part[1:]} of {line(mismatch.output, 60)} differs, {where(mismatch)}"
    if mismatch.tile:
        text += f" ({line(mismatch.tile, 80)})"
    if len(mismatch.first) == 1 and mismatch.count == 1:
        return f"{text}; an error of {number(mismatch.first[0].allowed, 3)} is allowed"
    return text if mismatch.max_abs == "nan" else f"{text}; off by up to {number(mismatch.max_abs)}"


def ratio(value: Number) -> str:
    """Return a relative error in words."""
    return f"relative {number(value, 3)}"


def device(env: Environment) -> str:
    """Return the GPU's name, or that the interpreter ran on the CPU."""
    if env.mode == "gpu":
        return f"GPU: {line(env.gpu, 60)}" if env.gpu else "GPU"
    return "interpreter on the CPU, no GPU used"


def verdict_look(record: Record) -> StatusMark:
    """Return the verdict's mark: "in part" if a check lacks points or a whole part was left out."""
    return PARTLY if _passed_without_parts(record) else _look(record.verdict, record.checks)


def look_of_all(checks: Sequence[CheckResult]) -> StatusMark:
    """Return the mark of these checks together."""
    return _look(worst_of(checks), checks)


def _look(verdict: Status, checks: Iterable[CheckResult]) -> StatusMark:
    return PARTLY if verdict == "pass" and any(check.passed_in_part for check in checks) else LOOKS[verdict]


def counted(checks: Sequence[CheckResult]) -> str:
    """Return how many of the judged checks passed ("2 of 7"), or "not judged"."""
    judged = [check for check in checks if check.status not in UNJUDGED]
    return f"{sum(check.status == 'pass' for check in judged)} of {len(judged)}" if judged else "not judged"


def verdict_words(record: Record) -> str:
    """Return the verdict as words that never claim more than was judged and earned."""
    if _passed_without_parts(record):
        return "passed as far as judged here; whole parts were not judged"
    words = LOOKS[record.verdict].word
    if record.verdict == "pass" and any(check.passed_in_part for check in record.checks):
        words += ", not with all points"
    if record.verdict == "pass" and any(check.status in UNJUDGED for check in record.checks):
        words += ", as far as judged here"
    return words


def _passed_without_parts(record: Record) -> bool:
    return record.verdict == "skipped_environment" and record.judged_score > 0


def moment(when: str) -> str:
    """Return a time of the record for a reader: "2026-11-02 09:00:00 UTC"."""
    text = line(when, 60)
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)", text)
    return f"{found[1]} {found[2]} UTC" if found else text


def replay_command(example: Counterexample, record: Record) -> str:
    """Return the command that runs one case again, on the same file and in the same mode; '' without a token."""
    token = line(example.replay, 300)
    return " ".join(["grade replay", token, *_options_of_replay(record.command)]) if token else ""


def _options_of_replay(command: str) -> list[str]:
    """Return the options of the grading command that a replay needs too: the file, and --cpu."""
    try:
        words = shlex.split(line(command, 600))
    except ValueError:
        return []
    replay_options = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--submission":
            replay_options += [word, shlex.quote(following)]
        elif word == "--cpu":
            replay_options.append(word)
    return replay_options


def cause_key(check: CheckResult) -> tuple[str, ...]:
    """Return a key that is equal for checks with the same cause."""
    if check.cause is None:
        return check.status, check.reason
    return check.status, check.cause.kind, check.cause.title, check.cause.rationale


def by_cause(checks: Iterable[CheckResult]) -> list[list[CheckResult]]:
    """Group the checks by cause, in the order of their first members."""
    groups: dict[tuple[str, ...], list[CheckResult]] = {}
    for check in checks:
        groups.setdefault(cause_key(check), []).append(check)
    return list(groups.values())


def kind_key(check: CheckResult) -> tuple[str, str]:
    """Return a key that is equal for checks with the same status and the same likeliest kind of cause."""
    ranked = check.cause.suspects if check.cause else ()
    return check.status, ranked[0].kind if ranked else check.cause.kind if check.cause else check.reason


def by_kind(checks: Iterable[CheckResult]) -> list[list[CheckResult]]:
    """Group the checks by status and kind of cause, in the order of their first members."""
    groups: dict[tuple[str, str], list[CheckResult]] = {}
    for check in checks:
        groups.setdefault(kind_key(check), []).append(check)
    return list(groups.values())


def suspected(cause: Cause) -> list[tuple[str, str]]:
    """Return labels and lines: the evidence for the likeliest suspect, then the other suspects.

    The card shows the likeliest suspect's title and help elsewhere.
    """
    if not cause.suspects:
        return []
    first, *others = cause.suspects
    found = [("Confirmed: " if first.confirmed else "Because: ", line(first.evidence, 600))] if first.evidence else []
    if others:
        found.append(("Also possible: ", "; ".join(_as_item(line(one.title, 200)) for one in others)))
    return found


def _as_item(title: str) -> str:
    """Return a title as an item of a list: "looks like …"."""
    return f"{title[:1].lower()}{title[1:]}"


def why(check: CheckResult) -> str:
    """Return one sentence on a check that did not pass."""
    return line(check.reason or (check.cause.rationale if check.cause else ""))


_RAISED = re.compile(r"NotImplementedError \(line (?P<line>\d+)\): (?P<said>.*)")


def left_to_write(check: CheckResult) -> str:
    """Return what an unwritten part says of itself, to stand behind its name: " (line 115): write a kernel …"."""
    found = _RAISED.fullmatch(why(check))
    if found is None:
        return f": {why(check)}"
    return f" (line {found['line']}): {found['said'].removeprefix(f'{check.part}: ')}"


def details(check: CheckResult, record: Record) -> str:
    """Return the help for repairing a check, one thing per line; a traceback follows after an empty line."""
    cause, example = check.cause, check.counterexample
    # The status stands before these lines already.
    is_new = cause is not None and check.status != "not_implemented" and cause.title != LOOKS[check.status].word
    lines = [check.title, cause.title if cause is not None and is_new else "", why(check)]
    if cause is not None:
        lines += [cause.rationale] if cause.rationale != check.reason else []
        if cause.expected or cause.actual:
            lines.append(f"Expected: {line(cause.expected)}; got: {line(cause.actual)}")
        if cause.mismatch is not None:
            lines.append(how_wrong(cause.mismatch))
    if example is not None:
        lines.append(f"Smallest failing case: {line(example.words)}" if example.words else "")
        lines.append(f"Passes: {line(example.passes)}" if example.passes else "")
    if cause is not None and cause.help:
        lines.append(f"Help: {line(cause.help)}")
    if cause is not None:
        lines += [f"{label}{text}" for label, text in suspected(cause)]
    if example is not None and replay_command(example, record):
        lines.append(f"Replay: {replay_command(example, record)}")
    text = "\n".join(line(entry) for entry in lines if entry)
    return f"{text}\n\n{block(cause.traceback)}" if cause is not None and cause.traceback else text


def measured(check: CheckResult, most: int = 4) -> str:
    """Return the first metrics of a check: "ratio 0.978 · median us 412.5"."""
    # Counts in full, measurements in four digits.
    texts = [f"{value:,}" if isinstance(value, int) else number(value, 4) for value in check.metrics.values()]
    names = [line(name, 60).replace("_", " ") for name in check.metrics]
    return listed([f"{name} {value}" for name, value in zip(names, texts, strict=True)], most, " · ")


@dataclass(frozen=True)
class Step:
    """The next step: a few words, then the command to type."""

    words: str
    command: str


def next_step(record: Record) -> Step:
    """Return the next command to type after this record."""
    again = line(record.command, 300) or f"grade {line(record.exercise.id, 60)}"
    blamed = [check for check in record.checks if check.status in LEARNERS]
    failed = [check for check in blamed if check.status != "not_implemented"]
    replays = [replay_command(check.counterexample, record) for check in failed if check.counterexample is not None]
    command = next((replay for replay in replays if replay), "")
    if command:
        return Step("run the first failing case again", command)
    if blamed:
        verb = "edit" if failed else f"write {line(blamed[0].part, 60)} in"
        return Step(f"{verb} {line(record.submission.path, 300)}, then", again)
    statuses = {check.status for check in record.checks}
    if "grader_error" in statuses:
        return Step("try again: your code was not the cause", again)
    if "inconclusive" in statuses:
        return Step("read why some checks could not be judged, then", again)
    if parts_left_out(record.checks):
        return Step("see what this machine lacks", "grade doctor")
    return Step("see what is left to do", "grade list")
