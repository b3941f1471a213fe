"""A worker of a batch: grades one submission after another; its fork servers live as long as it does.

A task comes as text and an outcome goes as text, both JSON of our own types. No submission is imported here, and no
output of a submission is unpickled.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING

from grader import machine
from grader.batch import result_key
from grader.batch.result_key import Terms
from grader.errors import GradeError
from grader.exercise.catalogue import Entry, discover, find_root
from grader.protocol.decode import decode
from grader.report.isolation import missing
from grader.speed.cores import stay_on

if TYPE_CHECKING:
    from grader.exercise.plan import Plan
    from grader.judge.truth import Truth
    from grader.sandbox.server import ForkServer
    from grader.speed.baseline_process import BaselineProcess

# Names a worker's share of the machine's processors in its environment.
CORES = "GRADE_CORES"

# How many cases' tensors are kept for the next submission: all of an exercise's plan.
_KNOWN_CASES = 256


@dataclass(frozen=True)
class Task:
    """One grading, as a worker gets it.

    key: names the result. exercise: its name. owner: whose compiled kernels are shared. parts: empty for all.
    unconfined: grade it even on a machine that cannot confine it.
    """

    key: str
    exercise: str
    text: str
    seed: str
    terms: Terms
    graded_at: str
    parts: tuple[str, ...] = ()
    compiled: bool = False
    cpu: bool = False
    unconfined: bool = False
    owner: str = ""


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task: a record as JSON text; or trouble that is not the submission's, and no record.

    lost: the trouble is that workers kept ending with it. attempts: how often we submitted the task, 1 or 2. The
    scheduler's retries after lost workers do not count.
    """

    record: str = ""
    trouble: str = ""
    seconds: float = 0.0
    worker: str = ""
    lost: bool = False
    attempts: int = 1


def encode(value: Task | TaskOutcome | Terms) -> str:
    """Return one of these as JSON text."""
    return json.dumps(dataclasses.asdict(value))


def introduce(cpu: bool) -> str:
    """Return a worker's Terms: its fork server has started when this returns. Raises nothing."""
    try:
        return encode(_state(cpu).introduced())
    except Exception as fault:
        # Report every fault of this machine to the instructor, in words.
        return encode(Terms(trouble=_words(fault)))


def work(task_text: str) -> str:
    """Grade one submission, and return the TaskOutcome. Raises nothing: an exception would travel in pickled form."""
    started = monotonic()
    record = trouble = ""
    try:
        task = decode(Task, json.loads(task_text), "task")
        record = _state(task.cpu).grade(task)
    except Exception as fault:
        trouble = _words(fault)
    return encode(TaskOutcome(record, trouble, round(monotonic() - started, 3), _address()))


def _address() -> str:
    """Return the address of this worker."""
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:
        return ""


def _words(fault: Exception) -> str:
    return str(fault) if isinstance(fault, GradeError) else f"{type(fault).__name__}: {fault}"


_opening = threading.Lock()
# Hypothesis draws on one thread at a time; a worker of somebody else's cluster may have several.
_drawing = threading.Lock()


def _state(cpu: bool) -> _WorkerState:
    # Of this thread; all that it starts inherits them.
    stay_on(os.environ.get(CORES, ""))
    with _opening:
        return _opened(cpu)


@cache
def _opened(cpu: bool) -> _WorkerState:
    # A worker's stderr is the instructor's terminal. Hypothesis, for one, warns while it draws and shrinks: Dask's own
    # threads use Python's random numbers meanwhile. No plan does, but Hypothesis cannot know.
    warnings.simplefilter("ignore")
    return _WorkerState(cpu)


class _WorkerState:
    """The processes, plans, and oracle's answers that a worker holds between submissions."""

    def __init__(self, cpu: bool) -> None:
        from grader.processes import Processes

        # First: it loads while we do.
        self._processes = Processes(cpu=cpu)
        try:
            self._furnish(uses_gpu=self._processes.settled().mode == "gpu")
        except BaseException:
            self._processes.close()
            raise

    def _furnish(self, *, uses_gpu: bool) -> None:
        self._entries: Mapping[str, Entry] = {entry.name: entry for entry in discover(find_root())}
        self._truths: dict[str, Truth] = {}
        self._plans: dict[tuple[str, str, tuple[str, ...]], Plan] = {}
        self._terms = result_key.terms(self._entries.values(), gpu=uses_gpu)
        self._lending = threading.Lock()

    def introduced(self) -> Terms:
        """Return the terms with the layers: starts a child like a submission's to see these."""
        from grader.sandbox.process_spec import ProcessSpec
        from grader.sandbox.session import Session

        self._processes.check()
        if not self._terms.layers:
            entry = next(iter(self._entries.values()))
            with Session(ProcessSpec.of(self._processes.settled(), entry, "")) as session:
                session.load()
                self._terms = dataclasses.replace(self._terms, layers=session.ready.isolation if session.ready else ())
        return self._terms

    def grade(self, task: Task) -> str:
        """Return the record as text. Raises GradeError if this worker differs from the terms of the class."""
        from grader.grading import Job, grade
        from grader.record.record import to_json

        self._agree(task)
        self._processes.check()
        entry = self._entries[task.exercise]
        job = Job(
            entry,
            f"{entry.name}.py",
            task.text,
            self._plan(entry, task),
            f"grade {entry.id}",
            task.graded_at,
            compiled=task.compiled,
            patience_s=20.0,
            owner=task.owner,
        )
        with self._borrowed(entry) as (server, baselines):
            return to_json(grade(job, server, baseline_process=baselines, truth=self._truth(entry)))

    @contextmanager
    def _borrowed(self, entry: Entry) -> Iterator[tuple[ForkServer, BaselineProcess | None]]:
        """Lend the fork server and the baseline process; a second thread gets a baseline process of its own."""
        if not self._lending.acquire(blocking=False):
            yield self._processes.settled(), None
            return
        try:
            yield self._processes.ready(entry)
        finally:
            self._lending.release()

    def _agree(self, task: Task) -> None:
        """Refuse a worker that differs from the others: it joined later, or its checkout was changed."""
        mine, asked = self._terms, task.terms
        pairs = (
            ("grader", mine.grader, asked.grader),
            ("exercise", mine.exercises.get(task.exercise, ""), asked.exercises[task.exercise]),
            ("environment", mine.environment, asked.environment),
        )
        for what, got, wanted in pairs:
            if got != wanted:
                raise GradeError(f"a worker's {what} must be {wanted}, got {got}")
        if not task.unconfined and (open_to := missing(self.introduced().layers)):
            raise GradeError(f"a worker must confine what it runs, got none for {'; '.join(open_to)}")

    def _truth(self, entry: Entry) -> Truth:
        from grader.grading import truth_of

        if entry.name not in self._truths:
            on_gpu = self._processes.mode == "gpu"
            self._truths[entry.name] = truth_of(entry, on_gpu=on_gpu, keep=_KNOWN_CASES)
        return self._truths[entry.name]

    def _plan(self, entry: Entry, task: Task) -> Plan:
        from grader.exercise.plan import draw

        name = (entry.name, task.seed, task.parts)
        with _drawing:
            if name not in self._plans:
                parts = frozenset(task.parts) or None
                abilities = machine.abilities(gpu=self._processes.mode == "gpu")
                self._plans[name] = draw(entry.exercise, int(task.seed, 16), abilities, parts=parts)
        return self._plans[name]
