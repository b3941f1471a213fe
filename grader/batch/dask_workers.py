"""Workers of Dask distributed: those of this machine, or those of a cluster that runs already.

Takes tasks, and the workers' environments or a scheduler's address. Yields each task when it is submitted, and its
outcome when it ended. Loads no submission in this process, and writes no record. Results are text and are never
unpickled.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import queue
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from grader.batch import work
from grader.batch.result_key import Terms
from grader.batch.work import Task, TaskOutcome
from grader.errors import GradeError, MissingEnvironment
from grader.protocol.decode import DecodeError, decode
from grader.speed.cores import shares

if TYPE_CHECKING:
    from distributed import Client, Future

# A grading takes seconds to minutes; beyond this it hangs, and so does its worker.
LIMIT_S = 1800.0
_INTRODUCTION_S = 300.0
_CONNECT_S = 20.0
_FIRST_WORKER_S = 300.0
# The client decodes results as text only. An exception of a worker would need unpickling, but the work raises none.
_PLAIN = ["msgpack"]
_WITHOUT_WORKERS_S = 600.0
_POLL_S = 1.0
# No dashboard, and none of Dask's profiles for it: for two workers they took a tenth of a core.
_FRUGAL: dict[str, object] = {
    **{f"distributed.{name}.http.routes": [] for name in ("scheduler", "worker", "nanny")},
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}
_GPU = "GPU"
# A submitted task, the number of its try, and when it was submitted, on the clock of `monotonic`.
_Running = tuple[Task, int, float]


def local_workers(gpus: Sequence[str], wanted: int | None = None) -> tuple[dict[str, str], ...]:
    """Return the environments of this machine's workers: one per GPU, or one per core if there is no GPU.

    wanted: the number of workers instead. Each worker with a GPU gets cores of its own: compiling in one must not
    disturb timing in another. With one worker, or with too few cores, no cores are named.
    """
    if gpus:
        count = wanted or len(gpus)
        return tuple(
            {"CUDA_VISIBLE_DEVICES": gpus[place % len(gpus)], **({work.CORES: share} if share else {})}
            for place, share in enumerate(shares(count))
        )
    return tuple({} for _ in range(wanted or len(os.sched_getaffinity(0))))


def is_installed() -> bool:
    """Return whether Dask distributed is installed."""
    return importlib.util.find_spec("distributed") is not None


def is_private() -> bool:
    """Return whether a local cluster can close its ports to other users of this machine.

    That needs the package cryptography.
    """
    return importlib.util.find_spec("cryptography") is not None


@contextlib.contextmanager
def start_local(workers: Sequence[Mapping[str, str]]) -> Iterator[Client]:
    """Start workers on this machine, one process for each environment; they end with the block.

    Anyone who can reach a scheduler can run code as its user. If `is_private`, nobody else can reach it.
    """
    import dask
    from distributed import Client, Nanny, Scheduler, SpecCluster
    from distributed.security import Security

    security = Security.temporary() if is_private() else Security()
    common = {"protocol": "tls://" if is_private() else "tcp://", "host": "127.0.0.1", "security": security}
    with (
        tempfile.TemporaryDirectory(prefix="grade-workers-") as folder,
        dask.config.set(_FRUGAL, temporary_directory=folder),
    ):
        scheduler = {**common, "port": 0, "dashboard": False, "dashboard_address": ":0", "allowed_failures": 1}
        specs = {
            place: {
                "cls": Nanny,
                "options": {
                    **common,
                    "nthreads": 1,
                    "env": dict(environment),
                    "resources": {_GPU: 1} if environment else None,
                    # The grader limits its children's memory, and a killed worker would lose a grading.
                    "memory_limit": 0,
                    "local_directory": folder,
                    "silence_logs": logging.CRITICAL,
                },
            }
            for place, environment in enumerate(workers)
        }
        with contextlib.ExitStack() as stack:
            # Ctrl-C is for this process only. Workers, also later ones, come from threads that block SIGINT.
            with _deaf_to_interrupts():
                cluster = stack.enter_context(
                    SpecCluster(
                        scheduler={"cls": Scheduler, "options": scheduler},
                        workers=specs,
                        security=security,
                        silence_logs=logging.CRITICAL,
                    )
                )
                client = stack.enter_context(Client(cluster, security=security, deserializers=_PLAIN))
            yield client


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Keep SIGINT from the threads that are started in the block, and from their processes.

    After the block this thread gets SIGINT as before.
    """
    from distributed.utils import get_mp_context

    # Start the resource tracker's process now: its start unblocks SIGINT on the thread that starts it.
    get_mp_context().Lock()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def connect(address: str) -> Iterator[Client]:
    """Connect to the workers of a cluster that runs already; they stay when the block ends.

    Raises MissingEnvironment if no scheduler answers at the address.
    """
    from distributed import Client

    try:
        client = Client(address, timeout=_CONNECT_S, deserializers=_PLAIN, set_as_default=False)
    except (OSError, ValueError, TypeError) as refused:
        raise MissingEnvironment(f"a scheduler must answer at {address}, got: {refused}") from refused
    with client:
        yield client


def terms_by_worker(client: Client, *, cpu: bool) -> dict[str, Terms]:
    """Return every worker's terms, by address.

    Raises MissingEnvironment if no worker comes within 300 s, or if one does not answer within 300 s, or has no grader.
    Raises GradeError if a worker reports trouble, DecodeError if its answer is none.
    """
    from distributed import TimeoutError as TooLate

    try:
        # A cluster's queue may start the first worker late. Workers that come after this are not asked here.
        client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
    except TooLate:
        said = f"a cluster must have a worker within {_FIRST_WORKER_S:g} s, got none"
        raise MissingEnvironment(said) from None
    asked = {
        address: client.submit(work.introduce, cpu, workers=[address], pure=False, priority=10)
        for address in list(_workers(client))
    }
    found = {}
    for address, future in asked.items():
        try:
            text = future.result(timeout=_INTRODUCTION_S)
        except TooLate:
            said = f"a worker must answer within {_INTRODUCTION_S:g} s, got no word from {address}"
            raise MissingEnvironment(said) from None
        except Exception as broken:
            # The usual reason is that there is no grader: the function cannot be imported there.
            said = f"a worker must have this grader, got {type(broken).__name__}: {broken} from {address}"
            raise MissingEnvironment(said) from broken
        terms = decode(Terms, json.loads(text), "introduction")
        if terms.trouble:
            raise GradeError(f"{address}: {terms.trouble}")
        found[address] = terms
    return found


def run_tasks(
    client: Client,
    tasks: Iterable[Task],
    limit_s: float = LIMIT_S,
    waited: Callable[[int], None] = lambda places: None,
) -> Iterator[tuple[Task, TaskOutcome | None]]:
    """Have the tasks done, as many at a time as there are places; yield each with None when it is submitted.

    Every task is yielded once more with its outcome, in any order, unless this raises. limit_s: the seconds for one
    task, from its submission; then its worker is restarted. waited: called at least once a second with the number of
    gradings that the workers do at a time; 0 without a worker. A task without a verdict, for a reason outside the
    submission (`can_try_again`), is submitted once more; not if its workers were lost.

    Raises GradeError if no worker is there for 600 s, or if the scheduler went.
    """
    news: queue.Queue[Future[str]] = queue.Queue()
    waiting = deque((task, 1, "") for task in tasks)
    running: dict[Future[str], _Running] = {}
    over: list[tuple[Task, TaskOutcome]] = []
    alone_since: float | None = None
    while waiting or running:
        at_a_time = tasks_at_a_time(client)
        alone_since = None if at_a_time else alone_since or monotonic()
        if alone_since and monotonic() - alone_since > _WITHOUT_WORKERS_S:
            said = f"a worker must be there within {_WITHOUT_WORKERS_S:g} s, got none"
            raise GradeError(f"{said}; start workers, then grade batch --resume goes on")
        while waiting and len(running) < at_a_time:
            task, attempts, avoided = waiting.popleft()
            future = _submit(client, task, avoided)
            future.add_done_callback(news.put)
            running[future] = task, attempts, monotonic()
            yield task, None
        # Submit the new tasks first: the caller takes time to store the outcomes.
        yield from over
        waited(at_a_time)
        over = []
        for future, outcome in _ended(client, news, running, limit_s):
            task, attempts, _ = running.pop(future)
            # After a lost worker the scheduler has already retried the task, as often as it may.
            if attempts == 1 and not outcome.lost and can_try_again(outcome):
                waiting.appendleft((task, 2, outcome.worker))
            else:
                over.append((task, replace(outcome, attempts=attempts)))
    yield from over


def _submit(client: Client, task: Task, avoided: str) -> Future[str]:
    """Submit a task, if possible to another worker than `avoided` ('': any)."""
    workers = _workers(client)
    elsewhere = [address for address in workers if address != avoided] if avoided else []
    future: Future[str] = client.submit(
        work.work,
        work.encode(task),
        key=f"grade-{task.key}-{monotonic()}",
        pure=False,
        resources={_GPU: 1} if any(_GPU in one.get("resources", {}) for one in workers.values()) else None,
        workers=elsewhere or None,
        allow_other_workers=bool(elsewhere),
    )
    return future


def _ended(
    client: Client, news: queue.Queue[Future[str]], running: Mapping[Future[str], _Running], limit_s: float
) -> Iterator[tuple[Future[str], TaskOutcome]]:
    """Yield the next task that ended, and every task beyond its limit.

    Waits at most a second for the first; there may be none.
    """
    with contextlib.suppress(queue.Empty):
        future = news.get(timeout=_POLL_S)
        if future in running:
            yield future, _outcome(future)
    for future, (_, _, since) in list(running.items()):
        if monotonic() - since > limit_s:
            trouble = f"graded for longer than {limit_s:g} s"
            yield future, TaskOutcome(trouble=trouble, worker=_give_up(client, future))


def _give_up(client: Client, future: Future[str]) -> str:
    """Give up a task, and restart its worker if possible. Return the worker's address, or ''."""
    busy = [address for address, keys in client.processing().items() if future.key in keys]
    future.cancel()
    # Only a worker with a nanny can be restarted; another one keeps hanging, and its next task goes elsewhere.
    with contextlib.suppress(ValueError):
        if busy:
            client.restart_workers(busy, timeout=60, raise_for_error=False)
    return str(next(iter(busy), ""))


def _workers(client: Client) -> dict[str, Any]:
    """Return the scheduler's data on its workers, by address; nothing if it does not answer.

    This does not use `scheduler_info`: every few seconds the client replaces that answer by one without workers.
    """
    # After a lost connection the client has no scheduler.
    if client.scheduler is None:
        return {}
    try:
        info: dict[str, Any] = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    except OSError:
        return {}
    return info


def tasks_at_a_time(client: Client) -> int:
    """Return the number of tasks that the workers can do at a time.

    No more are submitted: a lost worker then loses only its current task.
    """
    return sum(int(one.get("resources", {}).get(_GPU, one["nthreads"])) for one in _workers(client).values())


def _outcome(future: Future[str]) -> TaskOutcome:
    """Return the outcome of a task that ended. Raises GradeError if the scheduler went."""
    from distributed.scheduler import KilledWorker

    if future.status == "finished":
        try:
            return decode(TaskOutcome, json.loads(future.result()), "outcome")
        except (DecodeError, ValueError) as broken:
            return TaskOutcome(trouble=f"a worker must return an outcome, got: {broken}")
    if future.status == "error":
        fault = future.exception()
        if isinstance(fault, KilledWorker):
            return TaskOutcome(trouble=f"its worker was lost {fault.allowed_failures + 1} times", lost=True)
        return TaskOutcome(trouble=f"{type(fault).__name__}: {fault}")
    raise GradeError("the scheduler must stay until all is graded, but it went; grade batch --resume goes on")


def can_try_again(outcome: TaskOutcome) -> bool:
    """Return whether to try again: there is no verdict, and the submission is not the reason.

    This is so for trouble, a check with status grader_error or inconclusive, and a record that cannot be read.
    """
    if outcome.trouble:
        return True
    try:
        return any(
            check["status"] in ("grader_error", "inconclusive") for check in json.loads(outcome.record)["checks"]
        )
    except (ValueError, KeyError, TypeError):
        return True
