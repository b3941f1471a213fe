"""Fixtures that start processes: one fork server for the whole run, and gradings with short limits."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.exercise.abilities import Abilities
from grader.exercise.catalogue import Entry, resolve
from grader.exercise.model import Limits
from grader.exercise.plan import Plan, default_seed, draw
from grader.grading import Job, grade
from grader.record.record import Record
from grader.sandbox.server import ForkServer

# What tests import stays, and so do thousands of tests: pytest_collection_finish looks for garbage again.
gc.disable()

# Its assertions say what they found.
pytest.register_assert_rewrite("tests.canaries")

from tests.canaries import Canaries, watched  # noqa: E402

# The same examples in every run, on every machine; no clock decides.
settings.register_profile("grade", deadline=None, database=None, derandomize=True)
settings.load_profile("grade")

ROOT = Path(__file__).resolve().parents[1]
# Long enough for an honest call on a busy machine, short enough to wait for an endless one.
# Libraries of CUDA, where torch has them, take up most of a gibibyte of addresses.
SHORT = Limits(load_s=6.0, call_s=4.0, memory_bytes=1 << 30, processes=32)
# For submissions that misbehave: what fills memory or its folder does so at once. What ends by itself may take long.
HASTY = replace(
    SHORT, call_s=30.0, memory_bytes=384 << 20, scratch_bytes=64 << 20, scratch_files=2500, file_bytes=32 << 20
)

Grade = Callable[..., Record]


# The files that take longest, the longest first: with `--dist loadfile`, one that began last would keep all waiting.
_LONGEST = (
    *("attacks/test_attacks", "attacks/test_elsewhere", "attacks/test_faults", "interpreter/test_backwards"),
    *("diagnosis/test_ranking", "batch/test_whole_batch", "exercises/test_attention_designs"),
    *("attacks/test_timing", "recorder/test_recorder", "protocol/test_claims_fuzz", "test_escaping"),
    *("templates/test_templates", "exercise/test_plan", "interpreter/test_guard", "sanitizer/test_sanitize"),
    *("diagnosis/test_known_mistakes", "judge/test_configurations", "test_rooms", "watch/test_terminal"),
    *("grading/test_part_compiler", "speed/test_counters", "diagnosis/test_edits", "docs/test_first_hour"),
    *("exercises/test_exercises", "test_installed", "diagnosis/test_repairs", "docs/test_quoted_outputs"),
    *("cli/test_release", "report/test_html", "export/test_gradescope_autograder", "protocol/test_channel_fuzz"),
    *("compile/test_kernels", "replay/test_kernels", "speed/test_baseline_process", "report/test_curves"),
    *("report/test_speed", "judge/test_portions", "confinement/test_confinement", "cli/test_command_line"),
    *("docs/test_every_command", "cli/test_exercise_commands", "compile/test_cutedsl", "attacks/test_killed_grader"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest. Mark tests that use a fork server: `tox -e quick` leaves them out."""
    places = {ROOT / "tests" / f"{name}.py": place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        if "server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.process)


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from walking all tests, and what they import, again and again."""
    # Hypothesis looks once for what refers to its random numbers, and warns if it finds nothing: it must look before
    # the freeze. Before Python 3.14, the collector did not track a dictionary of plain values, and froze none.
    given(st.none())(lambda _: None)()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: half as many again as there are cores, for tests wait for processes a third of the time."""
    return max(1, len(os.sched_getaffinity(0)) * 3 // 2)


@pytest.fixture(scope="session", autouse=True)
def _caches_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither use nor fill what the user's gradings have kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def without_cutlass(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where the extra `cutlass` was not installed."""
    found = importlib.util.find_spec

    def hidden(name: str, package: str | None = None) -> object:
        return None if name in ("cutlass", "cuda") else found(name, package)

    monkeypatch.setattr("importlib.util.find_spec", hidden)


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    """An interpreting fork server."""
    server = ForkServer("interpret")
    yield server
    server.close()


@pytest.fixture(scope="session")
def compiler(server: ForkServer) -> ForkServer:
    """A fork server whose children only compile."""
    return server.beside("compile")


class Lent:
    """A fork server on loan: its borrowers use it, and do not end it."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server

    def __getattr__(self, name: str) -> object:
        return getattr(self._server, name)

    def close(self) -> None:
        """Leave it running: the next test uses it too."""


# The modules that start one.
_STARTERS = (
    "grader.processes",
    "grader.cli.doctor",
    "grader.cli.model_solution",
    "grader.cli.profile",
    "grader.cli.roofline",
    "grader.cli.sanitize",
    "grader.cli.trace",
)


def lend(server: ForkServer, patch: pytest.MonkeyPatch) -> None:
    """Let commands called in this process use the fork servers of the run: to start one takes seconds."""
    for module in _STARTERS:
        patch.setattr(f"{module}.ForkServer", lambda mode: Lent(server.beside(mode)))


@pytest.fixture
def lent(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands called in this process use the fork servers of the run."""
    lend(server, monkeypatch)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the exercises; the working directory is in it."""
    ignored = shutil.ignore_patterns("__pycache__", "wrong", "honest")
    for folder in ("exercises", "reference"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADE_ROOT", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def gpu_server() -> Iterator[ForkServer]:
    """A fork server on a GPU, for the tests of one file."""
    server = ForkServer("gpu")
    yield server
    server.close()


@pytest.fixture(scope="session")
def ex_15() -> Entry:
    """The first exercise, with short limits."""
    return limited(SHORT)


@pytest.fixture
def graded(server: ForkServer, ex_15: Entry) -> Grade:
    """Grade a text or a file in the interpreter: graded(source, "vector_add", …) -> Record; cases=2: by two a check."""
    return grader_with(server, ex_15)


@pytest.fixture(scope="session")
def canaries() -> Iterator[Canaries]:
    """What no submission may touch, reach or outlive."""
    with watched(ROOT) as one:
        yield one


@pytest.fixture
def briefly(server: ForkServer, ex_15: Entry, canaries: Canaries) -> Grade:
    """Grade a hostile file by one case each of the checks that are named, briefly(path, "vector_add.fresh", ...), and
    see that nothing but its verdict is left of it.
    """
    return one_case_each(server, ex_15, canaries)


@pytest.fixture
def hastily(server: ForkServer, canaries: Canaries) -> Grade:
    """The same with limits of memory and of disk space that are reached soon."""
    return one_case_each(server, limited(HASTY), canaries)


@pytest.fixture
def at_once(server: ForkServer, canaries: Canaries) -> Grade:
    """The same with a limit of time that no honest call comes near: for what never answers."""
    return one_case_each(server, limited(replace(HASTY, call_s=1.0)), canaries)


_PLANS: dict[object, Plan] = {}


def plan_of(entry: Entry, seed: int, *, gpu: bool, parts: frozenset[str] | None = None) -> Plan:
    """Draw a plan, part by part, or take what was drawn for the same part before: drawing takes half a second.

    The plan of some parts is the whole one without the others (tests/exercise/test_plan.py).
    """
    found = []
    for part in entry.exercise.parts:
        if parts is None or part.name in parts:
            key = (entry.folder, seed, gpu, part.name)
            if key not in _PLANS:
                _PLANS[key] = draw(entry.exercise, seed, Abilities(gpu=gpu, lacks=()), parts=frozenset({part.name}))
            found += _PLANS[key].checks
    return Plan(seed, tuple(found))


def answered(
    server: ForkServer,
    entry: Entry,
    source: str | Path,
    plan: Plan,
    *,
    shrink: bool = False,
    diagnosed: bool = True,
) -> Record:
    """Grade a text or a file by a plan: answers only, for speed and compiled kernels have tests of their own."""
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    options = {"shrink": shrink, "diagnosed": diagnosed, "timed": False, "compiled": False}
    return grade(Job(entry, "/learner/ex_15.py", text, plan, "grade ex_15", "", **options), server)


def plan_with(entry: Entry, *checks: str, cases: int | None = None) -> Plan:
    """A plan with the first cases (None: all) of the checks that are named."""
    parts = frozenset(name.partition(".")[0] for name in checks)
    whole = plan_of(entry, default_seed(entry.id), gpu=False, parts=parts)
    assert {*checks} <= {one.id for one in whole.checks}, checks
    return shortened(replace(whole, checks=tuple(one for one in whole.checks if one.id in checks)), cases)


def shortened(plan: Plan, cases: int | None) -> Plan:
    """Leave the first cases of each check; None: all."""
    return replace(plan, checks=tuple(replace(one, cases=one.cases[:cases]) for one in plan.checks))


def one_case_each(server: ForkServer, entry: Entry, canaries: Canaries) -> Grade:
    """A function that grades between canaries, by the first case of each of some checks. It searches for no causes."""

    def run(path: Path, *checks: str) -> Record:
        plan = plan_with(entry, *checks, cases=1)
        with canaries.untouched():
            record = answered(server, entry, path, plan, diagnosed=False)
        assert not any(check.status == "grader_error" for check in record.checks), record.checks
        return record

    return run


def limited(limits: Limits) -> Entry:
    """The first exercise with other limits."""
    entry, _ = resolve(ROOT, "ex_15")
    # The specification is read once and kept: this entry keeps a copy of it.
    entry.__dict__["exercise"] = replace(entry.exercise, limits=limits)
    return entry


def grader_with(server: ForkServer, entry: Entry) -> Grade:
    """A function that grades whole parts with this server."""

    def run(
        source: str | Path, *parts: str, shrink: bool = False, seed: int | None = None, cases: int | None = None
    ) -> Record:
        # A plan leaves out what it does not know without a word.
        assert {*parts} <= {one.name for one in entry.exercise.parts}, parts
        chosen = default_seed(entry.id) if seed is None else seed
        plan = plan_of(entry, chosen, gpu=server.mode == "gpu", parts=frozenset(parts) or None)
        return answered(server, entry, source, shortened(plan, cases), shrink=shrink)

    return run
