"""Ways to look faster than one is, and honest code that looks odd: tests/submissions/timing/.

The first line of each file says what its speed must come to, in one of three forms:

    refused KIND[ or KIND…]: …   it earns nothing, for a cause of that kind ("inconclusive": the check is open)
    gains nothing: …             it earns no more, and takes no less time, than the honest twin beside it; or nothing
    passes: …                    it is honest, and must not be refused

Answers of all of them are right at the sizes at which answers are judged: they misbehave where they are timed. What is
timed is a trace, and kernels of the text. So what they come to is found out without a clock as well: from what the
recorder says of a call of that size, and from the replay of each configuration, on inputs and memory of its own. Where
all of that is right, it moves as many bytes as the twin.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.exercise import tensors
from grader.exercise.abilities import WHOLE_GPU
from grader.exercise.catalogue import Entry
from grader.exercise.model import Limits
from grader.exercise.plan import default_seed, draw
from grader.exercise.rules import SpeedBand
from grader.grading import Job, grade
from grader.judge.unanswered import why_not_finished
from grader.protocol.answers import Returned
from grader.record.checks import CheckResult
from grader.record.speed import Speed
from grader.sandbox.outcome import Finished
from grader.sandbox.pair import RecordedAnswer
from grader.sandbox.server import ForkServer
from grader.speed.baseline_process import BaselineProcess
from tests.claims import SUBMISSIONS, files, link
from tests.conftest import Grade, limited
from tests.racing import band_of
from tests.recordings import Recording, answer_in, recording

ROOT = Path(__file__).resolve().parents[2]
FILES = files("timing")
# How the speed check of a file that gains nothing may end: its time is impossible, or its answer is one of an earlier
# call, which the recorder may have seen or not. That call may have had inputs of another dtype at the same addresses.
WORTH_NOTHING = {"alias", "impossible_time", "no_kernel", "stale_result", "too_slow", "wrong_form", "wrong_when_timed"}
# Streams, graphs, assembly and the GPU's own clock.
ONLY_ON_A_GPU = {found.path.stem for found in map(link, FILES) if found and found.device == "GPU"}


def claims(path: Path) -> tuple[str, set[str]]:
    """Return "refused", "gains nothing" or "passes", and the kinds of cause that the first line names."""
    found = re.match(r'"""(refused|gains nothing|passes)((?: \w+)(?: or \w+)*)?: ', path.read_text(encoding="utf-8"))
    assert found is not None, path
    return found[1], set((found[2] or "").strip().split(" or ")) - {""}


def those(*said: str) -> list[Path]:
    return [path for path in FILES if claims(path)[0] in said]


def here(*said: str) -> list[Path]:
    return [path for path in those(*said) if path.stem not in ONLY_ON_A_GPU]


def named(path: Path) -> str:
    return path.stem


def test_every_file_says_what_it_must_come_to() -> None:
    assert all(bool(kinds) == (said == "refused") for said, kinds in map(claims, FILES))
    assert {path.stem for path in FILES} > ONLY_ON_A_GPU
    assert len(those("passes")) >= 5


# -- without a GPU ---------------------------------------------------------------------------------------------------

# Longer than any vector whose answer is judged: the files tell the two apart by that. A type of each width.
LENGTH = 1 << 17
DTYPES = ("float32", "float16")
SEEDS = (11, 12)


@dataclass(frozen=True)
class Came:
    """What came of calls.

    kinds: the causes for which they are worth nothing. nbytes: what the kernels of each moved at least.
    """

    kinds: frozenset[str]
    nbytes: int = 0


def recorded(one: Recording, most: int | None = None) -> Came:
    """Record a call that finds nothing but what the submission kept, and replay it on fresh memory.

    most: how many configurations are tried; None: all.
    """
    one.pair.skip()
    told = one.pair.record(one.call())
    if not isinstance(told, RecordedAnswer):
        return Came(frozenset({why_not_finished(told, "ex_15.py").cause.kind}))
    kinds = {"inconclusive" for _ in told.unrecordable} | {"library_call" for _ in told.outside_work}
    kinds |= set() if told.kernels else {"no_kernel"}
    if kinds:
        return Came(frozenset(kinds))
    return together([replayed(one, each, seed) for each in alternatives(told)[:most] for seed in SEEDS])


def alternatives(told: RecordedAnswer) -> list[RecordedAnswer]:
    """Return the trace once for each configuration that it could be timed with."""
    most = max((len(step[1]) for step in told.message["steps"] if step[0] == "choose"), default=1)
    return [replace(told, message=with_configuration(told.message, place)) for place in range(most)]


def with_configuration(message: Mapping[str, Any], place: int) -> dict[str, Any]:
    steps = [step[1][min(place, len(step[1]) - 1)] if step[0] == "choose" else [step] for step in message["steps"]]
    return {**message, "steps": [*itertools.chain(*steps)]}


def replayed(one: Recording, told: RecordedAnswer, seed: int) -> Came:
    assert told.afresh
    outcome = one.replay(told, seed)
    if not isinstance(outcome, Finished):
        return Came(frozenset({why_not_finished(outcome, "ex_15.py").cause.kind}))
    wanted = one.wanted(seed)
    kinds = set(against(outcome.answer, wanted))
    if not kinds and not torch.equal(answer_in(outcome, wanted.dtype), wanted):
        kinds.add("wrong_when_timed")
    moved = [launch.traffic for launch in outcome.answer.launches if launch.traffic]
    return Came(frozenset(kinds), sum(one.loaded_bytes + one.stored_bytes for one in moved))


def against(answer: Returned, wanted: torch.Tensor) -> Iterator[str]:
    """Yield what is wrong with the form of an answer."""
    (form,) = answer.outputs
    if form.kind != "tensor":
        yield "wrong_type"
    elif (form.dtype, form.shape) != (tensors.dtype_name(wanted.dtype), tuple(wanted.shape)):
        yield "wrong_form"
    if form.alias:
        yield "alias"
    if answer.changed:
        yield "input_changed"


def together(several: Sequence[Came]) -> Came:
    return Came(frozenset[str]().union(*(one.kinds for one in several)), min(one.nbytes for one in several))


@contextmanager
def submitted(path: Path, server: ForkServer, entry: Entry) -> Iterator[Recording]:
    """Yield the processes of a file that have judged an answer before, as they have when its speed is asked for."""
    with recording(server, entry, path.read_text(encoding="utf-8"), head="") as one:
        # There, the first configuration that works is taken.
        assert not recorded(one.at(N=1000), most=1).kinds
        yield one.at(N=LENGTH)


@pytest.fixture(scope="module")
def least_bytes(server: ForkServer, ex_15: Entry) -> dict[str, int]:
    """What the honest twin moves."""
    with submitted(SUBMISSIONS / "timing" / "honest_twin.py", server, ex_15) as one:
        return {dtype: recorded(one.at(dtype=dtype)).nbytes for dtype in DTYPES}


@pytest.mark.parametrize("path", here("refused"), ids=named)
def test_what_earns_nothing_is_told_by_recorder_or_replay(path: Path, server: ForkServer, ex_15: Entry) -> None:
    with submitted(path, server, ex_15) as one:
        came = together([recorded(one.at(dtype=dtype)) for dtype in DTYPES])
    assert came.kinds & claims(path)[1], came


@pytest.mark.parametrize("path", here("passes", "gains nothing"), ids=named)
def test_what_is_left_of_a_trick_is_right_and_moves_as_much_as_the_twin(
    path: Path, server: ForkServer, ex_15: Entry, least_bytes: dict[str, int]
) -> None:
    with submitted(path, server, ex_15) as one:
        for dtype, least in least_bytes.items():
            first, second = (recorded(one.at(dtype=dtype)) for _ in range(2))
            assert not first.kinds
            assert first.nbytes >= least > 0
            # A second record of the size need not be worth anything: there, the first one's answer may be handed out.
            assert not second.kinds or (claims(path)[0] == "gains nothing" and second.kinds <= WORTH_NOTHING), second
            assert second.kinds or second.nbytes >= least


@pytest.mark.parametrize("path", [path for path in FILES if path.stem in ONLY_ON_A_GPU], ids=named)
def test_what_shows_on_a_gpu_alone_is_right_where_answers_are_judged(path: Path, briefly: Grade) -> None:
    record = briefly(path, "vector_add.tail", "vector_add.fresh", "vector_add.kernels")
    assert {check.status for check in record.checks} == {"pass"}, record.checks


# -- on a GPU --------------------------------------------------------------------------------------------------------

# One that the L2 cache holds, and two that take hundreds of microseconds.
LONG = ({"N": 1 << 20}, {"N": 1 << 28}, {"N": 1 << 29, "dtype": "float16"})
# Two gradings of the same file differ by less.
SAME = 0.97


@pytest.fixture(scope="module")
def gpu_entry() -> Entry:
    """The exercise, timed at a few sizes and against nothing but the baseline itself."""
    entry = limited(Limits(load_s=60.0, call_s=20.0))
    parts = []
    for part in entry.exercise.parts:
        checks = [
            replace(check, rule=band_of(part, *LONG))
            if isinstance(check.rule, SpeedBand) and part.name == "vector_add"
            else check
            for check in part.checks
        ]
        parts.append(replace(part, checks=tuple(checks)))
    entry.__dict__["exercise"] = replace(entry.exercise, parts=tuple(parts))
    return entry


@pytest.fixture(scope="module")
def gpu_anchor(gpu_entry: Entry) -> Iterator[BaselineProcess]:
    with BaselineProcess(gpu_entry) as running:
        yield running


Timing = Callable[[Path], CheckResult]


@pytest.fixture(scope="module")
def timing(gpu_server: ForkServer, gpu_entry: Entry, gpu_anchor: BaselineProcess) -> Timing:
    """The speed check of a whole grading of a file."""
    return lambda path: speed_check(gpu_server, gpu_entry, gpu_anchor, path)


def speed_check(server: ForkServer, entry: Entry, anchor: BaselineProcess, path: Path) -> CheckResult:
    plan = draw(entry.exercise, default_seed(entry.id), WHOLE_GPU, parts=frozenset({"vector_add"}))
    text = path.read_text(encoding="utf-8")
    job = Job(entry, f"/learner/{path.name}", text, plan, "grade ex_15", "", shrink=False, compiled=False)
    return next(check for check in grade(job, server, baseline_process=anchor).checks if check.id == "vector_add.speed")


@pytest.fixture(scope="module")
def twin(timing: Timing) -> Speed:
    """The honest twin's speed, measured in this very run."""
    check = timing(SUBMISSIONS / "timing" / "honest_twin.py")
    assert check.speed is not None, check
    assert any(size.judged for size in check.speed.sizes), check.speed.sizes
    return check.speed


def told_of(path: Path, check: CheckResult, twin: Speed) -> str:
    """Return a line for people: what came of it."""
    came = check.cause.kind if check.cause else check.status
    sizes = {size.words: size for size in check.speed.sizes} if check.speed else {}
    times = [
        f"{sizes[one.words].submission.median_us:.0f}/{one.submission.median_us:.0f} µs, "
        f"{sizes[one.words].submission.ratio:.2f}/{one.submission.ratio:.2f}"
        for one in twin.sizes
        if one.words in sizes
    ]
    return f"\n{path.stem:36} {came:20} {check.points:g} points; {'; '.join(times)}"


@pytest.mark.gpu
@pytest.mark.parametrize("path", those("refused"), ids=named)
def test_on_a_gpu_it_earns_nothing_and_the_card_says_why(path: Path, timing: Timing, twin: Speed) -> None:
    check = timing(path)
    print(told_of(path, check, twin))
    assert check.points == 0
    # A file that gives wrong answers before it is timed is not timed.
    assert check.status == "skipped_dependency" or (check.cause and check.cause.kind in claims(path)[1]), check


@pytest.mark.gpu
@pytest.mark.parametrize("path", those("gains nothing"), ids=named)
def test_on_a_gpu_it_gains_nothing(path: Path, timing: Timing, twin: Speed) -> None:
    check = timing(path)
    print(told_of(path, check, twin))
    if check.status == "skipped_dependency":
        # It gives wrong answers before it is timed, so it is not timed.
        assert check.points == 0
        return
    if check.cause is not None:
        assert (check.points, check.cause.kind in WORTH_NOTHING) == (0, True), check
        return
    assert check.speed is not None, check
    honest = {size.words: size for size in twin.sizes}
    for size in check.speed.sizes:
        known = honest[size.words].submission
        assert not size.judged or size.submission.median_us >= SAME * known.median_us, size
        # A baseline that was slowed down would show in the ratio alone.
        assert not size.judged or size.submission.ratio <= known.ratio / SAME**2, size
    # A size at which it is not judged, and the twin is, earns nothing.
    shares = [size.share for size in check.speed.sizes if size.judged]
    assert check.points <= check.max_points * sum(shares) / sum(size.judged for size in twin.sizes) + 0.01


@pytest.mark.gpu
@pytest.mark.parametrize("path", those("passes"), ids=named)
def test_on_a_gpu_honest_code_that_looks_odd_is_not_refused(path: Path, timing: Timing, twin: Speed) -> None:
    check = timing(path)
    print(told_of(path, check, twin))
    assert check.cause is None or check.cause.kind == "too_slow", check
    assert check.speed is not None
    assert any(size.judged for size in check.speed.sizes)
    assert not any(size.notes for size in check.speed.sizes)


# -- two at once -----------------------------------------------------------------------------------------------------

# Grades, and tells when it timed; the clock is the host's, the same for every process.
DRIVER = """
import json, sys, time
from grader.speed import suite

judge, stamps = suite.Suite.judge, []

def stamped(judging):
    entered = time.monotonic_ns()
    try:
        return judge(judging)
    finally:
        stamps.append((entered, time.monotonic_ns()))

suite.Suite.judge = stamped
from grader.cli.main import dispatch

print("ready", flush=True)
sys.stdin.readline()
started = time.monotonic_ns()
dispatch(sys.argv[1:])
print("\\n" + json.dumps({"graded": [started, time.monotonic_ns()], "timed": stamps}), flush=True)
"""


@pytest.mark.gpu
def test_two_gradings_at_once_never_time_at_the_same_time(gpu_entry: Entry, tmp_path: Path) -> None:
    """The exercise's own suite, so that both are busy for long enough to meet."""
    drivers = []
    for name in ("one", "other"):
        command = [sys.executable, "-c", DRIVER, "ex_15", "--part", "vector_add", "-q"]
        outputs = [
            "--submission",
            str(gpu_entry.solution),
            "--json",
            str(tmp_path / f"{name}.json"),
            "--html",
            str(tmp_path / f"{name}.html"),
        ]
        driver = subprocess.Popen(
            [*command, *outputs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "GRADE_ROOT": str(ROOT)},
        )
        drivers.append(driver)
    for driver in drivers:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "ready\n"
    for driver in drivers:
        assert driver.stdin is not None
        driver.stdin.write("go\n")
        driver.stdin.flush()
    told = [json.loads(driver.communicate()[0].splitlines()[-1]) for driver in drivers]
    # Both were at work at the same time, so somebody had to wait; and nobody timed while the other did.
    assert max(one["graded"][0] for one in told) < min(one["graded"][1] for one in told)
    assert all(len(one["timed"]) == 1 for one in told)
    stamps = sorted(tuple(stamp) for one in told for stamp in one["timed"])
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(stamps)), stamps
