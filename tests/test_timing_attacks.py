"""Ways to look faster than one is, and honest code that looks odd: tests/submissions/timing/.

The first line of each file says what it must come to, in one of three forms:

    refused KIND[ or KIND…]: …   its speed check ends with a cause of that kind
    gains nothing: …             no size that is judged takes it less time, or gives it a better ratio, than the honest
                                 twin beside it; or its time is refused as impossible
    passes: …                    it is honest, and must not be refused

Answers of all of them are right while they are judged: they misbehave only when they are timed. What can be noticed
without a GPU is tested on the CPU as well, where no clock decides.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader.catalogue import Entry
from grader.grading import Job, grade
from grader.model.exercise import Limits, SpeedBand
from grader.plan import default_seed, draw
from grader.record import CheckResult, Speed
from grader.sandbox.server import ForkServer
from grader.speed.anchor import Anchor
from tests.claims import SUBMISSIONS, files, link
from tests.conftest import limited
from tests.racing import anchored, band_of, hurry, judge

ROOT = Path(__file__).resolve().parents[1]
FILES = files("timing")
# How an attack on a clock may end as well.
WORTH_NOTHING = ("impossible_time", "too_slow")
# Streams, graphs, events and the addresses of a device's allocator.
ONLY_ON_A_GPU = {found.path.stem for found in map(link, FILES) if found and found.device == "GPU"}


def claims(path: Path) -> tuple[str, set[str]]:
    """("refused", "gains nothing" or "passes", the kinds of cause that the first line names)."""
    found = re.match(r'"""(refused|gains nothing|passes)((?: \w+)(?: or \w+)*)?: ', path.read_text(encoding="utf-8"))
    assert found is not None, path
    return found[1], set((found[2] or "").strip().split(" or ")) - {""}


def those(*said: str) -> list[Path]:
    return [path for path in FILES if claims(path)[0] in said]


def named(path: Path) -> str:
    return path.stem


def test_every_file_says_what_it_must_come_to() -> None:
    assert all(bool(kinds) == (said == "refused") for said, kinds in map(claims, FILES))
    assert {path.stem for path in FILES} > ONLY_ON_A_GPU
    assert len(those("passes")) >= 5


# -- without a GPU ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def anchor(ex_15: Entry) -> Iterator[Anchor]:
    with anchored(ex_15) as running:
        yield running


@pytest.mark.parametrize("path", [one for one in those("refused") if one.stem not in ONLY_ON_A_GPU], ids=named)
def test_what_is_no_timed_call_of_what_was_judged_is_refused(
    path: Path, server: ForkServer, ex_15: Entry, anchor: Anchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    failure = judge(server, ex_15, anchor, path).failure
    assert failure is not None
    assert failure.cause.kind in claims(path)[1], failure


@pytest.mark.parametrize("path", those("passes", "gains nothing"), ids=named)
def test_what_is_honest_behind_every_call_is_not_refused(
    path: Path, server: ForkServer, ex_15: Entry, anchor: Anchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an attack gains, it does not gain by a wrong answer; how long it takes, nobody asks here."""
    hurry(monkeypatch)
    failure = judge(server, ex_15, anchor, path).failure
    assert failure is None or failure.cause.kind in WORTH_NOTHING, failure


# -- on a GPU --------------------------------------------------------------------------------------------------------

# Long enough for the clock outside to know them to a twentieth.
LONG = ({"N": 1 << 28}, {"N": 1 << 29, "dtype": "float16"})
# Two gradings of the same file differ by less.
SAME = 0.97


@pytest.fixture(scope="module")
def gpu_server() -> Iterator[ForkServer]:
    server = ForkServer("gpu")
    yield server
    server.close()


@pytest.fixture(scope="module")
def gpu_entry() -> Entry:
    """The exercise, timed at a few long sizes and against nothing but the baseline itself."""
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
def gpu_anchor(gpu_entry: Entry) -> Iterator[Anchor]:
    with Anchor(gpu_entry) as running:
        yield running


Timing = Callable[[Path], CheckResult]


@pytest.fixture(scope="module")
def timing(gpu_server: ForkServer, gpu_entry: Entry, gpu_anchor: Anchor) -> Timing:
    """The speed check of a whole grading of a file."""
    return lambda path: speed_check(gpu_server, gpu_entry, gpu_anchor, path)


def speed_check(server: ForkServer, entry: Entry, anchor: Anchor, path: Path) -> CheckResult:
    plan = draw(entry.exercise, default_seed(entry.id), gpu=True, parts=frozenset({"vector_add"}))
    text = path.read_text(encoding="utf-8")
    job = Job(entry, f"/learner/{path.name}", text, plan, "grade ex_15", "", shrink=False, compiled=False)
    return next(check for check in grade(job, server, anchor=anchor).checks if check.id == "vector_add.speed")


@pytest.fixture(scope="module")
def twin(timing: Timing) -> Speed:
    """The honest twin's speed, measured in this very run."""
    check = timing(SUBMISSIONS / "timing" / "honest_twin.py")
    assert check.speed is not None, check
    assert any(size.judged for size in check.speed.sizes), check.speed.sizes
    return check.speed


def told(path: Path, check: CheckResult, twin: Speed) -> str:
    """A line for people: what came of it."""
    came = check.cause.kind if check.cause else check.status
    sizes = {size.words: size for size in check.speed.sizes} if check.speed else {}
    times = [
        f"{sizes[one.words].submission.median_us:.0f}/{one.submission.median_us:.0f} µs, "
        f"{sizes[one.words].submission.ratio:.2f}/{one.submission.ratio:.2f}"
        for one in twin.sizes
        if one.words in sizes
    ]
    return f"\n{path.stem:32} {came:22} {'; '.join(times)}"


@pytest.mark.gpu
@pytest.mark.parametrize("path", those("refused"), ids=named)
def test_on_a_gpu_it_is_refused_by_name(path: Path, timing: Timing, twin: Speed) -> None:
    check = timing(path)
    print(told(path, check, twin))
    assert check.status != "pass"
    assert check.cause is not None, check
    assert check.cause.kind in claims(path)[1], check
    assert check.points == 0


@pytest.mark.gpu
@pytest.mark.parametrize("path", those("gains nothing"), ids=named)
def test_on_a_gpu_it_gains_nothing(path: Path, timing: Timing, twin: Speed) -> None:
    check = timing(path)
    print(told(path, check, twin))
    assert check.speed is not None, check
    assert check.cause is None or check.cause.kind in WORTH_NOTHING, check
    honest = {size.words: size for size in twin.sizes}
    for size in check.speed.sizes:
        if size.judged and check.cause is None:
            known = honest[size.words].submission
            least_us = SAME * known.median_us - size.clock_us
            assert size.submission.median_us >= least_us, size
            # A baseline that was slowed down would show in the ratio alone.
            assert size.submission.ratio <= known.ratio * known.median_us / least_us / SAME, size


@pytest.mark.gpu
@pytest.mark.parametrize("path", those("passes"), ids=named)
def test_on_a_gpu_honest_code_that_looks_odd_is_not_refused(path: Path, timing: Timing, twin: Speed) -> None:
    check = timing(path)
    print(told(path, check, twin))
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
