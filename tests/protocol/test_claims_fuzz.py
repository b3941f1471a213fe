"""Whatever a process claims, within the bounds of what is decoded: a verdict and a record come of it, no failure of the
grader's own, and the record holds clean text, finite numbers, and not too much of either.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.compile.findings import described
from grader.exercise.plan import default_seed
from grader.exercise.tensors import bytes_of
from grader.gpus import ARCHITECTURES
from grader.grading import Job, grade
from grader.judge.access_findings import cause_of
from grader.judge.truth import Truth
from grader.judge.unanswered import why_not_finished
from grader.protocol.answers import (
    Binary,
    Loaded,
    Prepared,
    Raised,
    Ready,
    Returned,
    Sampled,
    TunedChoice,
    decode_answer,
)
from grader.protocol.decode import DecodeError
from grader.protocol.observations import GuardFinding
from grader.protocol.requests import Call, ReplayCall
from grader.protocol.requests import RecordCall as Recording
from grader.protocol.trace import Choose, Launch, Recorded, Trace
from grader.protocol.trace_decoding import decode_trace
from grader.record.record import Record, from_json, to_json
from grader.report import junit
from grader.report.text import terminal
from grader.sandbox.outcome import Died, Finished, Garbled, Outcome
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Printed
from grader.sanitizer.words import sighting_of
from grader.speed.rounds import Samples, TimedCase, TimingSample
from grader.speed.suite import Suite
from grader.speed.tuned import tuned_tables
from grader.speed.verify import CannotBeTimed, are_alike, changed_failure
from grader.text import as_json
from tests.conftest import SHORT, limited, plan_of, shortened
from tests.hostile import TEXTS, commands_in, unseen_in
from tests.racing import GAUGED, TINY, band_of

pytestmark = pytest.mark.process

FEW = settings(max_examples=100, suppress_health_check=list(HealthCheck))
FEWER = settings(max_examples=80, suppress_health_check=list(HealthCheck))
# Read once, not for every example.
ENTRY = limited(SHORT)
PART = ENTRY.exercise.parts[0]

# -- claims of every kind --------------------------------------------------------------------------------------------

INTS = st.sampled_from([0, 1, -1, 2, 7, 63, 64, 1 << 30, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1])
FLOATS = st.sampled_from([0.0, -0.0, 5e-324, 1.0, -1.0, 7.5, 1e15, -1e15, 1e-300])
WORDS = st.sampled_from([*(text[:4000] for text in TEXTS.values()), "", "x", "tensor", "float32", "cpu", "aten.sum"])


def claims(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a kind, as JSON has them."""
    arguments = typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return st.fixed_dictionaries({one.name: claims(hints[one.name]) for one in dataclasses.fields(kind)})
    match typing.get_origin(kind):
        case typing.Literal:
            return st.sampled_from(arguments)
        case types.UnionType | typing.Union:
            return st.one_of(*map(claims, arguments))
    if typing.get_origin(kind) is tuple:
        return (
            st.lists(claims(arguments[0]), max_size=3) | st.builds(lambda one: [one] * 70, claims(arguments[0]))
            if not dataclasses.is_dataclass(arguments[0])
            else st.lists(claims(arguments[0]), max_size=3)
        )
    if typing.get_origin(kind) is dict:
        return st.dictionaries(WORDS, claims(arguments[1]), max_size=3)
    known = {int: INTS, float: FLOATS, str: WORDS, bool: st.booleans(), types.NoneType: st.none()}
    return known[kind]


def claimed(kind: type) -> st.SearchStrategy[Any]:
    """Answers of that kind, decoded as those of a process are."""
    return claims(kind).map(lambda value: decode_answer(json.loads(json.dumps(value))))


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif dataclasses.is_dataclass(value):
        for one in dataclasses.fields(value):
            yield from texts_in(getattr(value, one.name))
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from texts_in(name)
            yield from texts_in(one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from texts_in(one)


def is_presentable(value: Any, most: int) -> None:
    """Fit to be shown, and to be written: raises ValueError where a number is not finite."""
    assert unseen_in("".join(texts_in(value))) == set()
    assert max(map(len, texts_in(value)), default=0) < 8000
    assert len(as_json(dataclasses.asdict(value))) < most


# -- one by one ------------------------------------------------------------------------------------------------------


@FEW
@given(claims(GuardFinding))
def test_a_finding_is_told_in_a_few_clean_words(finding: dict[str, Any]) -> None:
    answer = decode_answer({**RETURNED, "findings": [finding]})
    assert isinstance(answer, Returned)
    cause = cause_of(answer.findings)
    is_presentable(cause, 8000)
    is_presentable(sighting_of(answer.findings[0]), 12_000)


@FEW
@given(claimed(Raised))
def test_an_exception_is_told_in_clean_words(raised: Raised) -> None:
    is_presentable(why_not_finished(raised, "/learner/\x1b[31mex.py"), 24_000)


@FEW
@given(claims(Binary), st.sampled_from(list(ARCHITECTURES.values())))
def test_a_binary_is_described_or_not_believed(binary: dict[str, Any], target: Any) -> None:
    answer = decode_answer({"answer": "compiled", "binaries": [binary], "cut": 0, "stopped": ""})
    kernel = described(answer.binaries[0], target, "N=65")  # type: ignore[union-attr]
    if kernel is not None:
        is_presentable(kernel, 40_000)


RETURNED = {"answer": "returned", "outputs": [], "changed": [], "overrun": [], "launches": []}


# -- a whole grading -------------------------------------------------------------------------------------------------


NOTHING: dict[str, Any] = {"arguments": {}, "windows": [], "kernels": [], "steps": [], "outputs": []}


class Claiming:
    """A session without a process: every call is answered with the same claims."""

    answer: Any = None
    right: bool = True
    truth: Truth
    parts: dict[str, Any]

    def __init__(self, *_: object, **__: object) -> None:
        self.printed = Printed()
        self.ready = Ready("ready", (), "cpu")
        self.loaded = Loaded("loaded", tuple(self.parts), ())
        self.pid = None
        self.runs_on_gpu = False
        self.worked_s = 0.0
        self.starts = 1

    def __enter__(self) -> Claiming:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def another(self, text: str = "", *, multiprocessors: int = 0) -> Claiming:
        return self

    def load(self) -> Loaded:
        return self.loaded

    def wake(self) -> None:
        pass

    def restart(self) -> int:
        return -1

    def record(self, wanted: Recording) -> tuple[Recorded, Trace]:
        return Recorded("recorded", NOTHING), decode_trace(NOTHING)

    def replay(self, wanted: ReplayCall, most_s: float = math.inf) -> Outcome:
        return self.call(wanted.call)

    def call(self, call: Call) -> Outcome:
        answer = self.answer
        if not isinstance(answer, Returned):
            return answer
        expected = self.truth.expect(self.parts[call.recipe.part], call.recipe)
        raws = [bytes(one.nbytes) for one in expected]
        if self.right:
            raws = [bytes_of(one.value.to(one.dtype)).numpy().tobytes() for one in expected]
            forms = [
                {"kind": "tensor", "dtype": slot.dtype, "shape": slot.shape, "device": "cpu", "copied": True}
                for slot in call.slots
            ]
            answer = decode_answer(json.loads(json.dumps({**dataclasses.asdict(answer), "outputs": forms})))
        copied = [form.copied for form in answer.outputs] + [False] * len(raws)
        return Finished(answer, tuple(raw if there else None for raw, there in zip(raws, copied, strict=False)))


@pytest.fixture(scope="module")
def grounds() -> tuple[Job, Truth]:
    truth = Truth.of(ENTRY)
    few = shortened(plan_of(ENTRY, default_seed(ENTRY.id), gpu=False, parts=frozenset({PART.name})), 1)
    job = Job(ENTRY, "/learner/ex_15.py", "", few, "grade", "", shrink=False, timed=False, compiled=False)
    return job, truth


UNANSWERED = st.builds(Garbled, WORDS) | st.builds(Died, st.just("ended")) | claimed(Raised)


@FEWER
@given(st.one_of(claimed(Returned), claimed(Returned), UNANSWERED), st.booleans())
def test_whatever_is_claimed_in_every_call_a_record_comes_of_it(
    grounds: tuple[Job, Truth], answer: Any, right: bool
) -> None:
    record = graded(grounds, answer, right)
    assert "grader_error" not in {check.status for check in record.checks}, record.checks
    is_presentable(record, 400_000)
    assert from_json(to_json(record)) == record
    for text in (terminal.render(record), junit.render(record)):
        assert commands_in(text) == []
        assert unseen_in(text) == set()


def graded(grounds: tuple[Job, Truth], answer: Any, right: bool) -> Record:
    job, truth = grounds
    parts = {part.name: part for part in job.entry.exercise.parts}
    kind = type("Answering", (Claiming,), {"answer": answer, "right": right, "truth": truth, "parts": parts})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grader.grading.workplace.Session", kind)
        patch.setattr("grader.sandbox.pair.Session", kind)
        # Nothing is started: the session that would ask it is not there.
        return grade(job, object.__new__(_NoServer), truth=truth)


class _NoServer(ForkServer):
    mode = "interpret"


def test_honest_claims_earn_what_they_are_worth(grounds: tuple[Job, Truth]) -> None:
    launches = [{"kernel": "k", "grid": [1], "constants": {}}]
    record = graded(grounds, decode_answer({**RETURNED, "launches": launches}), right=True)
    assert {check.status for check in record.checks if check.id == "vector_add.tail"} == {"pass"}


# -- time ------------------------------------------------------------------------------------------------------------


@FEW
@given(st.lists(claims(float), min_size=5, max_size=5), claims(int), st.booleans(), claims(TunedChoice))
def test_whatever_time_is_claimed_a_size_has_finite_numbers_or_is_refused(
    times: list[float], peak_bytes: int, steady: bool, choice: dict[str, Any]
) -> None:
    part, band = PART, band_of(PART, TINY)
    case = band.suite.named_cases[0]
    suite = Suite(part, band, {}, None, None, GAUGED, "", "")  # type: ignore[arg-type]
    base = [TimingSample(1000.0 + i, 1100.0 + i) for i in range(20)]
    prepared = decode_answer({"answer": "prepared", "outputs": [], "choices": [choice], "launches": 1})
    assert isinstance(prepared, Prepared)
    # What the grader's own clock saw is no longer than the submission is waited for.
    mine = [
        TimingSample(times[0] if steady else times[i % 5], min(2e7, 100 + abs(times[i % 5])), peak_bytes)
        for i in range(20)
    ]
    told: Any = types.SimpleNamespace(trace=choosing(choice["line"]), kernels=())
    timed = TimedCase(part, case, "stream", 1 << 12, (told,))
    samples = Samples(mine, {band.baseline: base}, choices=prepared.choices)
    try:
        timing = suite._size_timing(timed, samples)
        suite._is_settled(samples)
    except CannotBeTimed as refused:
        is_presentable(refused.failure, 4000)
        return
    as_json(dataclasses.asdict(timing))
    speed = suite._make_speed([timing])
    as_json(dataclasses.asdict(speed))
    assert all(math.isfinite(one) for one in (timing.share, timing.outside_us, timing.clock_us))


def choosing(line: int) -> Trace:
    """Return a trace of one autotuned launch in that line, with two configurations."""
    kernel = {"name": "add", "line": 3, "kind": "jit", "names": {}, "options": {}}
    alternatives = tuple((Launch(0, (1,), (), {"BLOCK": block}, {}, 7),) for block in (64, 128))
    kernels = decode_trace({**NOTHING, "kernels": [kernel]}).kernels
    return dataclasses.replace(decode_trace(NOTHING), kernels=kernels, steps=(Choose(alternatives, line),))


@FEW
@given(claims(TunedChoice))
def test_whatever_a_tuning_came_to_its_table_can_be_shown_or_there_is_none(choice: dict[str, Any]) -> None:
    prepared = decode_answer({"answer": "prepared", "outputs": [], "choices": [choice], "launches": 1})
    assert isinstance(prepared, Prepared)
    for table in tuned_tables(choosing(choice["line"]), prepared.choices):
        is_presentable(table, 4000)
        assert sum(row.chosen for row in table.configurations) == 1


@FEW
@given(claims(Sampled), claims(Sampled))
def test_whatever_a_sample_says_it_is_compared_and_what_it_names_is_clean(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    first, second = (decode_answer({**sampled, "answer": "sampled"}) for sampled in (one, other))
    assert isinstance(first, Sampled)
    assert isinstance(second, Sampled)
    assert are_alike(first, second) in (True, False)
    case = band_of(PART, TINY).suite.named_cases[0]
    is_presentable(changed_failure(case, first.changed), 4000)


@pytest.mark.parametrize("device_us", [1e308, -1e308, 1e16])
def test_a_time_that_no_clock_shows_is_no_answer(device_us: float) -> None:
    answer = {"answer": "sampled", "device_us": device_us, "projections": [], "scales": []}
    with pytest.raises(DecodeError):
        decode_answer(answer)
    assert isinstance(decode_answer({**answer, "device_us": 1e15}), Sampled)
