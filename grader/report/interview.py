"""Answer an exercise's questions with the figures of records: pure, and silent about figures that are not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grader.errors import SpecError
from grader.exercise.formula import evaluate
from grader.exercise.interview import TIME, Figures, Question
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import Environment, Record
from grader.record.speed import Speed
from grader.record.work import Prediction, Work
from grader.report import kernels
from grader.report import speed as timing
from grader.report.efficiency import amount, with_article


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question, its answer in paragraphs, and sentences on the learner's own figures."""

    question: str
    paragraphs: tuple[str, ...]
    own: tuple[str, ...]


def answers(questions: Iterable[Question], records: Mapping[str, Record]) -> tuple[AnsweredQuestion, ...]:
    """Return the answers.

    records: the learner's own, by the exercise's id; '' stands for the exercise that the questions are of.
    """
    return tuple(_answer(one, records) for one in questions)


def _answer(question: Question, records: Mapping[str, Record]) -> AnsweredQuestion:
    paragraphs = tuple(" ".join(text.split()) for text in question.answer.strip().split("\n\n"))
    own = (_sentence(one, records.get(one.exercise)) for one in question.figures)
    return AnsweredQuestion(question.question, paragraphs, tuple(sentence for sentence in own if sentence))


def _sentence(figures: Figures, record: Record | None) -> str:
    check = next((one for one in record.checks if one.id == figures.check_id), None) if record else None
    if record is None or check is None:
        return ""
    part = next((one for one in record.parts if one.name == check.part), None)
    found = facts(check, part, record.env)
    try:
        case = _case(check)
        found |= {name: amount(round(evaluate(formula, case))) for name, formula in figures.values.items()}
    except SpecError:
        # A record from a file may lack an axis.
        return ""
    known = all(found.get(place, timing.NONE) != timing.NONE for place in figures.places)
    return figures.text.format_map(found) if known else ""


def facts(check: CheckResult, part: PartInfo | None, env: Environment) -> dict[str, str]:
    """Return what is known of a check in words, by the names of grader.exercise.interview.PLACES."""
    found: dict[str, str] = {}
    if check.judged_work:
        found |= _of_work(check.judged_work)
    if one := _longest(check.predictions):
        found |= _of_prediction(one, timing.length_words([one])[0])
    if check.speed is not None:
        found |= _of_speed(check.speed)
    if check.selection is not None:
        best = sum(
            0 <= chosen < len(row) and row[chosen] == 1.0
            for row, chosen in zip(check.selection.ratios, check.selection.chosen, strict=False)
        )
        found |= {"choices": str(len(check.selection.chosen)), "best": str(best)}
    return found | (_of_kernel(part, kernels.shown_target(env)) if part else {})


def _case(check: CheckResult) -> Mapping[str, int | float | bool | str]:
    if check.judged_work:
        return _largest(check.judged_work).case
    if check.speed is not None and (judged := timing.judged_sizes(check.speed)):
        return judged[-1].case
    one = _longest(check.predictions)
    return one.case if one else {}


def _largest(counted: Sequence[Work]) -> Work:
    return max(counted, key=lambda one: one.moved_bytes)


def _longest(predictions: Iterable[Prediction]) -> Prediction | None:
    """Return the prediction that takes longest on the first GPU named."""
    known = [one for one in predictions if timing.usable(one.time_us)]
    return max((one for one in known if one.gpu == known[0].gpu), key=lambda one: one.time_us, default=None)


def _of_work(counted: Sequence[Work]) -> dict[str, str]:
    work = _largest(counted)
    bytes_by_name = {
        "moved": work.moved_bytes,
        "loaded": work.loaded_bytes,
        "stored": work.stored_bytes,
        "model": work.model_bytes,
        "extra": work.extra_bytes,
        "launches": work.launches,
    }
    words = {name: amount(count) for name, count in bytes_by_name.items()}
    return words | {"case": timing.length_words([work])[0]}


def _of_prediction(one: Prediction, words: str) -> dict[str, str]:
    return {
        "size": words,
        "gpu": with_article(one.gpu),
        "time": timing.duration(one.time_us),
        "bound": one.bound,
        "intensity": timing.three_digits(one.flops / one.bytes) if one.bytes > 0 else timing.NONE,
    }


def _of_speed(speed: Speed) -> dict[str, str]:
    judged = timing.judged_sizes(speed)
    found = {"ratio": timing.three_digits(speed.ratio), "baseline": timing.title_of(speed, speed.baseline)}
    if not judged:
        return found
    size = judged[-1]
    own = timing.own(size)
    found |= {f"{TIME}{one.name}": timing.duration(one.median_us) for one in size.contenders}
    found |= {"size": timing.length_words([size])[0], "bound": size.bound}
    if own is not None:
        found |= {
            "time": timing.duration(own.median_us),
            "tbps": timing.three_digits(own.tbps),
            "roofline": timing.percent(own.roofline_share),
        }
    return found


def _of_kernel(part: PartInfo, target: str) -> dict[str, str]:
    for kernel in kernels.kernels(part):
        for row in kernel.rows:
            if row.target == target and row.compiled:
                name = kernel.title.partition(",")[0]
                return {"kernel": name, "target": target, "registers": row.registers, "loads": row.loads}
    return {}
