"""When a part is timed: after its answers and its technique, alone on the GPU, and never where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from grader.catalogue import Entry
from grader.grading import speed, whole
from grader.judge.causes import Failure
from grader.model.exercise import Part
from grader.record import CheckResult, Record
from grader.speed.stadium import Stadium, scouted
from grader.speed.suite import Verdict
from grader.speed.verify import tampered
from tests.conftest import Grade
from tests.records import samples

SPEED = samples.gemm_speed()


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
    def alone(self) -> Iterator[None]:
        self.log.append("alone")
        yield
        self.log.append("left")


class FakeAnchor:
    def gauge(self) -> None: ...


class FakeScout:
    """Compiles nothing in advance; says in the lock's log what it is told."""

    def __init__(self, server: object, start: object, limits: object, scratch: object, lock: FakeLock) -> None:
        self._log = lock.log

    def __enter__(self) -> FakeScout:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.append("scout ended")

    def send(self, parts: Sequence[Part]) -> None:
        self._log.append(f"scout sent to {', '.join(part.name for part in parts)}")

    def recall(self) -> None:
        self._log.append("scout recalled")


@pytest.fixture
def lock() -> FakeLock:
    return FakeLock()


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch, lock: FakeLock) -> Callable[..., None]:
    """Grade as on a machine with a GPU, where a suite comes to this verdict: timing(Verdict(...)). When it is asked to
    confirm it, it does, or comes to the second one.
    """

    def set_up(verdict: Verdict | Exception, confirmed: Verdict | Exception | None = None) -> None:
        class FakeSuite:
            def __init__(self, **given: Any) -> None:
                lock.log.append(f"timed {given['part'].name}")

                self._part, self._session = given["part"], given["session"]

            def judge(self) -> Verdict:
                if isinstance(verdict, Exception):
                    raise verdict
                return verdict

            def confirm(self, found: Verdict) -> Verdict:
                assert found is verdict
                left = "something" if self._session.pid else "nothing"
                lock.log.append(f"confirmed {self._part.name}, {left} left of the submission")
                if isinstance(confirmed, Exception):
                    raise confirmed
                return confirmed or found

        @contextmanager
        def stadium(*given: object, **asked: object) -> Iterator[Stadium]:
            yield Stadium(FakeAnchor(), lock, "GPU-7")  # type: ignore[arg-type]

        monkeypatch.setattr(speed, "Suite", FakeSuite)
        monkeypatch.setattr(whole, "Scout", FakeScout)
        monkeypatch.setattr(whole, "opened", stadium)

    return set_up


def speed_check(record: Record) -> CheckResult:
    return next(check for check in record.checks if check.id == "vector_add.speed")


def test_without_a_gpu_speed_is_left_open_and_says_so(graded: Grade, ex_15: Entry) -> None:
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert (check.status, check.points, check.speed) == ("skipped_environment", 0, None)
    assert check.reason == "speed is judged on a GPU only, and none is used here"


def test_a_part_earns_the_share_of_the_points_that_its_speed_is_worth(
    graded: Grade, ex_15: Entry, timing: Callable[..., None]
) -> None:
    timing(Verdict(SPEED, share=0.337))
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert (check.status, check.points, check.max_points) == ("pass", 1.69, 5)
    assert check.speed == SPEED


@pytest.mark.parametrize("wrong", ["vector_add_floor_grid.py", "vector_add_torch.py"])
def test_a_part_with_a_wrong_answer_or_technique_is_not_timed(
    graded: Grade, ex_15: Entry, timing: Callable[..., None], lock: FakeLock, wrong: str
) -> None:
    timing(Verdict(SPEED, share=1.0))
    record = graded(ex_15.folder / "wrong" / wrong, "vector_add")
    failed = next(check for check in record.checks if check.status not in ("pass", "skipped_environment"))
    check = speed_check(record)
    assert (check.status, check.points, check.speed) == ("skipped_dependency", 0, None)
    assert check.reason == f"timed once {failed.id} passes"
    assert "timed vector_add" not in lock.log


def test_too_many_launches_do_not_keep_a_part_from_being_timed(
    graded: Grade, ex_15: Entry, timing: Callable[..., None]
) -> None:
    timing(Verdict(SPEED, share=1.0))
    record = graded(ex_15.folder / "wrong" / "vector_add_two_launches.py", "vector_add")
    assert speed_check(record).points == 5


def test_an_untouched_stub_is_not_timed(graded: Grade, ex_15: Entry, timing: Callable[..., None]) -> None:
    timing(Verdict(SPEED, share=1.0))
    assert speed_check(graded(ex_15.pristine_stub, "vector_add")).status == "not_implemented"


def test_a_refusal_costs_the_points_and_keeps_what_was_measured(
    graded: Grade, ex_15: Entry, timing: Callable[..., None]
) -> None:
    failure: Failure = tampered()
    timing(Verdict(SPEED, failure))
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert (check.status, check.points, check.cause, check.speed) == ("policy", 0, failure.cause, SPEED)


def test_what_could_not_be_decided_costs_nothing(graded: Grade, ex_15: Entry, timing: Callable[..., None]) -> None:
    timing(Verdict(SPEED, undecided="no size could be judged: too short"))
    record = graded(ex_15.solution, "vector_add")
    check = speed_check(record)
    assert (check.status, check.points, check.reason) == ("inconclusive", 0, "no size could be judged: too short")
    assert record.verdict == "pass"


def test_a_fault_of_ours_is_not_the_learner_s(graded: Grade, ex_15: Entry, timing: Callable[..., None]) -> None:
    timing(RuntimeError("the anchor sank"))
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert check.status == "grader_error"
    assert "RuntimeError: the anchor sank" in check.reason


def test_a_fault_of_ours_while_a_verdict_is_confirmed_is_not_the_learner_s(
    graded: Grade, ex_15: Entry, timing: Callable[..., None]
) -> None:
    timing(Verdict(SPEED, share=1.0), RuntimeError("the anchor sank"))
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert (check.status, check.points) == ("grader_error", 0)
    assert "RuntimeError: the anchor sank" in check.reason


def test_a_verdict_that_is_not_confirmed_costs_the_points_and_keeps_what_was_measured(
    graded: Grade, ex_15: Entry, timing: Callable[..., None]
) -> None:
    failure = tampered()
    timing(Verdict(SPEED, share=1.0), Verdict(SPEED, failure, share=1.0))
    check = speed_check(graded(ex_15.solution, "vector_add"))
    assert (check.status, check.points, check.cause, check.speed) == ("policy", 0, failure.cause, SPEED)


def test_all_parts_are_timed_before_the_first_is_confirmed(
    graded: Grade, ex_15: Entry, timing: Callable[..., None], lock: FakeLock
) -> None:
    timing(Verdict(SPEED, share=1.0))
    graded(ex_15.solution, "vector_add", "global_sum")
    assert [said for said in lock.log if said.startswith(("timed", "confirmed"))] == [
        "timed vector_add",
        "timed global_sum",
        "confirmed vector_add, nothing left of the submission",
        "confirmed global_sum, nothing left of the submission",
    ]


def test_answers_are_judged_beside_others_and_speed_alone_and_last(
    graded: Grade, ex_15: Entry, timing: Callable[..., None], lock: FakeLock
) -> None:
    timing(Verdict(SPEED, share=1.0))
    graded(ex_15.solution, "vector_add")
    assert lock.log[-6:] == [
        *("alone", "timed vector_add", "left"),
        *("alone", "confirmed vector_add, nothing left of the submission", "left"),
    ]
    before = [said for said in lock.log[:-6] if not said.startswith("scout")]
    assert before == ["shared", "left"] * (len(before) // 2)
    assert len(before) // 2 == 9


def test_a_scout_goes_ahead_of_the_answers_and_has_ended_before_anything_is_timed(
    graded: Grade, ex_15: Entry, timing: Callable[..., None], lock: FakeLock
) -> None:
    timing(Verdict(SPEED, share=1.0))
    graded(ex_15.solution, "vector_add", "global_sum")
    assert lock.log[:2] == ["scout sent to vector_add, global_sum", "shared"]
    timed = lock.log.index("alone")
    assert lock.log[timed - 3 : timed] == ["left", "scout recalled", "scout ended"]
    assert [said for said in lock.log[timed:] if said.startswith("scout")] == []


@dataclass(frozen=True)
class Named:
    """As much of a part as a scout's sending says."""

    name: str


def test_a_scout_ends_even_where_judging_does_not(lock: FakeLock) -> None:
    stadium = Stadium(FakeAnchor(), lock, "GPU-7")  # type: ignore[arg-type]
    with (
        pytest.raises(KeyboardInterrupt),
        scouted(stadium, [Named("vector_add")], lambda lock: FakeScout(None, None, None, None, lock)),  # type: ignore[arg-type, list-item, return-value]
    ):
        raise KeyboardInterrupt
    assert lock.log == ["scout sent to vector_add", "scout ended"]


def test_where_nothing_is_timed_nobody_goes_ahead(lock: FakeLock) -> None:
    stadium = Stadium(None, lock, "GPU-7")  # type: ignore[arg-type]
    with scouted(stadium, [], lambda lock: pytest.fail("a scout was made")):
        pass
    assert lock.log == []
