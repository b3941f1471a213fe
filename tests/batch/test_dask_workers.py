"""Workers come and go, hang and lie: no task is lost, and none is given out for ever.

The workers are played by a client that answers from a script; tests/batch/test_whole_batch.py has real ones.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from grader.batch import dask_workers
from grader.batch import work as module
from grader.batch.dask_workers import can_try_again, local_workers, run_tasks
from grader.batch.result_key import Terms
from grader.batch.work import Task, TaskOutcome, encode, introduce, work
from grader.errors import GradeError

# Not importorskip: every worker collects this file, and one runs it.
pytestmark = pytest.mark.skipif(not dask_workers.is_installed(), reason="distributed is not installed")

TASK = Task("k1", "ex_15_triton_basics", "x = 1", "0x5f", Terms(), "")
GOOD = TaskOutcome(json.dumps({"checks": [{"status": "pass"}]}), worker="tcp://a")
UNDECIDED = TaskOutcome(json.dumps({"checks": [{"status": "pass"}, {"status": "inconclusive"}]}), worker="tcp://a")
FAULT = TaskOutcome(trouble="out of paper", worker="tcp://a")


class Played:
    """A future whose end is known."""

    def __init__(self, key: str, status: str, result: str = "", fault: BaseException | None = None) -> None:
        self.key, self.status, self._result, self._fault = key, status, result, fault
        self.cancelled = False

    def add_done_callback(self, callback: Callable[[Played], None]) -> None:
        if self.status != "pending":
            callback(self)

    def result(self) -> str:
        return self._result

    def exception(self) -> BaseException | None:
        return self._fault

    def cancel(self) -> None:
        self.cancelled = True


class Scripted:
    """A client whose tasks end as the script says, one entry for each that is given out."""

    def __init__(self, script: Sequence[Any], workers: int = 2) -> None:
        self._script = list(script)
        self.given: list[dict[str, Any]] = []
        self.workers = {f"tcp://{'abcd'[place]}": {"nthreads": 1} for place in range(workers)}
        self.restarted: list[str] = []
        self.busy: dict[str, list[str]] = {}

        self.scheduler = self

    def identity(self, n_workers: int) -> dict[str, Any]:
        return {"workers": self.workers if n_workers == -1 else {}}

    def sync(self, function: Callable[..., dict[str, Any]], **how: int) -> dict[str, Any]:
        return function(**how)

    def submit(self, *_: object, key: str, **how: Any) -> Played:
        self.given.append(how)
        match self._script.pop(0):
            case TaskOutcome() as outcome:
                return Played(key, "finished", encode(outcome))
            case BaseException() as fault:
                return Played(key, "error", fault=fault)
            case "hangs":
                self.busy = {"tcp://a": [key]}
                return Played(key, "pending")
            case status:
                return Played(key, str(status), result="no JSON")

    def processing(self) -> dict[str, list[str]]:
        return self.busy

    def restart_workers(self, workers: list[str], **_: object) -> None:
        self.restarted += workers


def ended(script: Sequence[Any], tasks: int = 1, limit_s: float = 60.0) -> tuple[list[TaskOutcome], Scripted]:
    client = Scripted(script)
    given = [replace(TASK, key=f"k{place}") for place in range(tasks)]
    return [outcome for _, outcome in run_tasks(client, given, limit_s) if outcome is not None], client


def test_no_more_is_given_out_than_the_workers_do_at_a_time() -> None:
    tasks, places, done = [replace(TASK, key=f"k{place}") for place in range(5)], [], []
    client = Scripted([GOOD] * 5)
    for _, outcome in run_tasks(client, tasks, waited=lambda count: places.append((count, len(client.given)))):
        done.append(outcome)
    assert places[0] == (2, 2)
    # One more for each that came out, before that is told: the workers need not wait for it to be kept.
    assert done[:4] == [None, None, None, GOOD]
    assert done.count(GOOD) == 5


@pytest.mark.parametrize("first", [FAULT, UNDECIDED, ValueError("of the worker's"), "finished"])
def test_what_is_not_the_submission_s_fault_is_tried_once_more(first: object) -> None:
    ((end,), client) = ended([first, GOOD])
    assert end == replace(GOOD, attempts=2)
    assert len(client.given) == 2


def test_the_second_try_goes_to_another_worker() -> None:
    _, client = ended([FAULT, GOOD])
    assert client.given[0]["workers"] is None
    assert (client.given[1]["workers"], client.given[1]["allow_other_workers"]) == (["tcp://b"], True)


@pytest.mark.parametrize("last", [FAULT, UNDECIDED])
def test_a_second_failure_is_the_result(last: TaskOutcome) -> None:
    ((end,), client) = ended([FAULT, last])
    assert (end, len(client.given)) == (replace(last, attempts=2), 2)


def test_a_task_whose_workers_were_lost_is_not_given_a_third_one() -> None:
    from distributed.scheduler import KilledWorker

    ((end, other), client) = ended([KilledWorker("k0", None, 1), GOOD], tasks=2)
    assert end.trouble == "its worker was lost 2 times"
    assert other == GOOD
    assert len(client.given) == 2


def test_a_grading_that_hangs_is_given_up_and_its_worker_starts_anew() -> None:
    ((end,), client) = ended(["hangs", GOOD], limit_s=0.0)
    assert client.restarted == ["tcp://a"]
    assert end == replace(GOOD, attempts=2)
    assert client.given[1]["workers"] == ["tcp://b"]


def test_a_scheduler_that_went_ends_the_run_in_words() -> None:
    with pytest.raises(GradeError, match=r"the scheduler must stay until all is graded, but it went; .*--resume"):
        ended(["cancelled"])


def test_workers_that_stay_away_end_the_run_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_workers, "_WITHOUT_WORKERS_S", -1.0)
    monkeypatch.setattr(dask_workers, "_POLL_S", 0.01)
    with pytest.raises(GradeError, match=r"a worker must be there within .*grade batch --resume"):
        list(run_tasks(Scripted([], workers=0), [TASK]))


def test_where_workers_have_gpus_every_grading_takes_one() -> None:
    client = Scripted([GOOD])
    client.workers["tcp://a"]["resources"] = {"GPU": 1.0}
    list(run_tasks(client, [TASK]))
    assert client.given[0]["resources"] == {"GPU": 1}


def test_a_result_is_open_where_the_grader_or_the_clock_could_not_decide() -> None:
    assert [can_try_again(one) for one in (GOOD, UNDECIDED, FAULT, TaskOutcome("no JSON"))] == [False, True, True, True]


def test_there_is_a_worker_per_gpu_or_per_core() -> None:
    assert local_workers(("0", "1")) == ({"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"})
    assert [one["CUDA_VISIBLE_DEVICES"] for one in local_workers(("7", "9"), 3)] == ["7", "9", "7"]
    assert local_workers((), 3) == ({}, {}, {})
    assert local_workers(())


def test_no_warning_of_a_library_reaches_the_instructor_from_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    class Noisy:
        def __init__(self, cpu: bool) -> None:
            warnings.warn("drawn on another thread", FutureWarning, stacklevel=1)

        def introduced(self) -> Terms:
            warnings.warn("shrunk on another thread", FutureWarning, stacklevel=1)
            return Terms(environment="quiet")

    monkeypatch.setattr(module, "_WorkerState", Noisy)
    module._opened.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        said = json.loads(introduce(True))
    module._opened.cache_clear()
    assert said["environment"] == "quiet", said
    assert seen == []


def test_a_worker_raises_nothing_and_refuses_what_it_cannot_stand_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(work("no task"))["trouble"].startswith("JSONDecodeError")
    monkeypatch.setenv("GRADE_ROOT", "/nowhere")
    assert "must name the folder of a course" in json.loads(introduce(True))["trouble"]
    assert "must name the folder of a course" in json.loads(work(encode(replace(TASK, cpu=True))))["trouble"]
