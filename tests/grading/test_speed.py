"""When a part is timed: after its answers and its technique, alone on the GPU, and never where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.model import check_id
from grader.exercise.plan import PlannedCheck
from grader.grading import answers, speed, workplace
from grader.judge.bench import Bench
from grader.judge.failure import Failure
from grader.judge.rules import decide
from grader.judge.ruling import Ruling
from grader.protocol.baseline_messages import Gauged
from grader.protocol.requests import Call
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.sandbox.pair import Pair, RecordedAnswer
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from grader.speed.setup import TimingSetup
from grader.speed.suite import Traced, Verdict
from grader.speed.verify import impossible_failure
from tests.conftest import Grade, answered, plan_with
from tests.racing import GAUGED
from tests.records import samples

SPEED = samples.gemm_speed()
# It has memory for the smallest size of each part.
SMALL = replace(GAUGED, memory_bytes=1 << 28)


@dataclass
class FakeLock:
    """Says who uses the GPU, and how."""

    log: list[str] = field(default_factory=list)

    @contextmanager
    def shared(self) -> Iterator[None]:
        self.log.append("shared")
        yield
        self.log.append("left")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        self.log.append("exclusive")
        yield
        self.log.append("left")


class FakeAnchor:
    def gauge(self) -> Gauged:
        return SMALL


@dataclass
class Suites:
    """What suites were given, and the sessions of the submission itself."""

    given: list[dict[str, Any]] = field(default_factory=list)
    submissions: list[Session] = field(default_factory=list)

    def traced(self) -> dict[Case, Traced]:
        """Return what the only suite was told of the sizes."""
        (one,) = self.given
        found: dict[Case, Traced] = one["traced"]
        return found


Set = Callable[..., Suites]


@pytest.fixture
def graded(server: ForkServer, ex_15: Entry) -> Grade:
    """Grade parts by a case each of the checks on which timing waits, and their speed: graded(source, "vector_add")."""
    names = "full_blocks", "tail", "kernels", "launches", "speed"
    known = {check_id(part, check) for part, check in ex_15.exercise.checks()}

    def run(source: str | Path, *parts: str) -> Record:
        checks = known & {f"{part}.{name}" for part in parts for name in names}
        return answered(server, ex_15, source, plan_with(ex_15, *checks, cases=1))

    return run


@pytest.fixture
def lock() -> FakeLock:
    return FakeLock()


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch, lock: FakeLock) -> Set:
    """Grade as on a machine with a GPU, where the suite of a part comes to this: timing(vector_add=Verdict(...)).

    Parts that are not named get full points. The lock's log says what happens in which order.
    """

    def logged(method: str, words: Callable[..., str]) -> None:
        real = getattr(Pair, method)

        def call(pair: Pair, *args: Any) -> Any:
            lock.log.append(words(*args))
            return real(pair, *args)

        monkeypatch.setattr(Pair, method, call)

    def set_up(**verdicts: Verdict | Exception) -> Suites:
        seen = Suites()

        class FakeSuite:
            def __init__(self, **given: Any) -> None:
                seen.given.append(given)
                self._name = given["part"].name
                left = [session.pid for session in seen.submissions if session.pid]
                lock.log.append(f"timed {self._name}, {len(left)} left of the submission")

            def judge(self) -> Verdict:
                verdict = verdicts.get(self._name, Verdict(SPEED, share=1.0))
                if isinstance(verdict, Exception):
                    raise verdict
                return verdict

        class Submission(Session):
            def __init__(self, *given: Any, **more: Any) -> None:
                super().__init__(*given, **more)
                seen.submissions.append(self)

        @contextmanager
        def stadium(*given: object, **asked: object) -> Iterator[TimingSetup]:
            yield TimingSetup(FakeAnchor(), lock, "GPU-7")  # type: ignore[arg-type]

        monkeypatch.setattr(speed, "Suite", FakeSuite)
        monkeypatch.setattr(workplace, "Session", Submission)
        monkeypatch.setattr(workplace, "open_setup", stadium)
        logged("record_timed", lambda call: f"recorded {call.recipe.part}")
        logged("precompile", lambda calls: f"compiled {len(calls)}")
        logged("end_all_but_one", lambda: "ended")
        return seen

    return set_up


def speed_check(record: Record) -> CheckResult:
    return next(check for check in record.checks if check.id == "vector_add.speed")


def test_without_a_gpu_speed_is_left_open_and_says_so(graded: Grade, ex_15: Entry) -> None:
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert (check.status, check.points, check.speed) == ("skipped_environment", 0, None)
    assert check.reason == "speed is judged on a GPU only, and none is used here"


def test_a_part_earns_the_share_of_the_points_that_its_speed_is_worth(graded: Grade, ex_15: Entry, timing: Set) -> None:
    timing(vector_add=Verdict(SPEED, share=0.337))
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert (check.status, check.points, check.max_points) == ("pass", 1.69, 5)
    assert check.speed == SPEED


@pytest.mark.parametrize("wrong", ["vector_add_floor_grid", "vector_add_torch"])
def test_a_part_with_a_wrong_answer_or_technique_is_not_timed(
    graded: Grade, ex_15: Entry, timing: Set, lock: FakeLock, wrong: str
) -> None:
    timing()
    record = graded(ex_15.mistake(wrong).text, "vector_add")
    failed = next(check for check in record.checks if check.status not in ("pass", "skipped_environment"))
    check = speed_check(record)
    assert (check.status, check.points, check.speed) == ("skipped_dependency", 0, None)
    assert check.reason == f"timed once {failed.id} passes"
    assert not any(said.startswith(("recorded", "timed")) for said in lock.log)


@pytest.mark.parametrize(
    ("ruling", "status"),
    [
        (Ruling(None, undecided="the call cannot be replayed"), "inconclusive"),
        (Ruling(None, unfit="a GPU has to run this"), "skipped_environment"),
        (RuntimeError("the truth sank"), "grader_error"),
    ],
)
def test_speed_stays_open_where_a_check_that_it_needs_could_not_be_judged(
    graded: Grade, ex_15: Entry, timing: Set, monkeypatch: pytest.MonkeyPatch, ruling: Ruling | Exception, status: str
) -> None:
    def decided(bench: Bench, planned: PlannedCheck) -> Ruling:
        if planned.id != "vector_add.tail":
            return decide(bench, planned)
        if isinstance(ruling, Exception):
            raise ruling
        return ruling

    timing()
    monkeypatch.setattr(answers, "decide", decided)
    check = speed_check(graded(ex_15.solution, "vector_add"))

    assert (check.status, check.points) == (status, 0)
    assert check.reason == "timed once vector_add.tail passes"


def test_too_many_launches_do_not_keep_a_part_from_being_timed(graded: Grade, ex_15: Entry, timing: Set) -> None:
    timing()
    record = graded(ex_15.mistake("vector_add_two_launches").text, "vector_add")
    assert speed_check(record).points == 5


def test_an_untouched_stub_is_not_timed(graded: Grade, ex_15: Entry, timing: Set) -> None:
    timing()
    assert speed_check(graded(ex_15.pristine_stub, "vector_add")).status == "not_implemented"


def test_a_refusal_costs_the_points_and_keeps_what_was_measured(graded: Grade, ex_15: Entry, timing: Set) -> None:
    failure: Failure = impossible_failure(Case({"N": 500}), 3.0, 63.0)
    timing(vector_add=Verdict(SPEED, failure))
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert (check.status, check.points, check.cause, check.speed) == ("policy", 0, failure.cause, SPEED)


def test_what_could_not_be_decided_costs_nothing(graded: Grade, ex_15: Entry, timing: Set) -> None:
    timing(vector_add=Verdict(SPEED, undecided="no size could be judged: too short"))
    record = graded(ex_15.solution, "vector_add")
    check = speed_check(record)
    assert (check.status, check.points, check.reason) == ("inconclusive", 0, "no size could be judged: too short")
    assert record.verdict == "pass"


def test_a_fault_of_ours_is_not_the_learner_s(graded: Grade, ex_15: Entry, timing: Set) -> None:
    timing(vector_add=RuntimeError("the anchor sank"))
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert check.status == "grader_error"
    assert "RuntimeError: the anchor sank" in check.reason


def test_after_a_fault_of_ours_the_next_part_is_timed_in_a_fresh_process(
    graded: Grade, ex_15: Entry, timing: Set
) -> None:
    seen = timing(vector_add=RuntimeError("the anchor sank"))
    record = graded(ex_15.solution, "vector_add", "global_sum")
    assert [(check.status, check.points > 0) for check in record.checks if check.id.endswith(".speed")] == [
        ("grader_error", False),
        ("pass", True),
    ]
    first, second = (given["replayer"] for given in seen.given)
    assert first is second
    assert second.starts == 1, "it had ended, and nothing has asked it since"
    assert second.pid is None


def test_a_fault_while_a_part_is_recorded_leaves_the_others_alone(
    graded: Grade, ex_15: Entry, timing: Set, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = timing()
    real = Pair.record_timed

    def broken(pair: Pair, call: Call) -> Any:
        if call.recipe.part == "vector_add":
            raise RuntimeError("the recorder sank")
        return real(pair, call)

    monkeypatch.setattr(Pair, "record_timed", broken)
    record = graded(ex_15.solution, "vector_add", "global_sum")
    check = speed_check(record)
    assert (check.status, check.points) == ("grader_error", 0)
    assert "RuntimeError: the recorder sank" in check.reason
    assert [given["part"].name for given in seen.given] == ["global_sum"]


def test_every_size_that_the_gpu_has_memory_for_is_recorded_and_no_other(
    graded: Grade, ex_15: Entry, timing: Set, lock: FakeLock
) -> None:
    seen = timing()
    graded(ex_15.solution, "vector_add")
    ((case, told),) = seen.traced().items()
    assert case["N"] == 1 << 20
    assert lock.log.count("recorded vector_add") == 1
    assert isinstance(told, tuple)
    (once,) = told
    assert isinstance(once, RecordedAnswer)
    assert once.is_replayable
    assert once.call.recipe.case == dict(case)


def test_all_parts_are_recorded_and_compiled_before_the_submission_ends_and_the_first_is_timed(
    graded: Grade, ex_15: Entry, timing: Set, lock: FakeLock
) -> None:
    timing()
    graded(ex_15.solution, "vector_add", "global_sum")
    assert lock.log[lock.log.index("recorded vector_add") :] == [
        *("recorded vector_add", "recorded global_sum", "compiled 2", "ended"),
        *("exclusive", "timed vector_add, 0 left of the submission", "left"),
        *("exclusive", "timed global_sum, 0 left of the submission", "left"),
    ]


def test_what_is_timed_runs_in_a_process_that_replayed_before_and_never_in_the_submission_s(
    graded: Grade, ex_15: Entry, timing: Set
) -> None:
    seen = timing()
    graded(ex_15.solution, "vector_add")
    (given,) = seen.given
    assert given["replayer"] not in seen.submissions
    assert given["replayer"].starts == 1
    (submission,) = seen.submissions
    assert submission.starts == 1


def test_answers_are_judged_beside_others_and_speed_alone_and_last(
    graded: Grade, ex_15: Entry, timing: Set, lock: FakeLock
) -> None:
    timing()
    graded(ex_15.solution, "vector_add")
    exclusive = lock.log.index("exclusive")
    assert lock.log[exclusive:] == ["exclusive", "timed vector_add, 0 left of the submission", "left"]
    answers = lock.log[: lock.log.index("recorded vector_add")]
    assert answers
    assert answers == ["shared", "left"] * (len(answers) // 2)
