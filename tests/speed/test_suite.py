"""From samples to a verdict: which sizes count, what they are worth, and what is said where none does.

The first half goes through real processes on the CPU; there no clock decides. The second invents the samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from grader.exercise.cases import Case, Value
from grader.exercise.catalogue import Entry
from grader.protocol.answers import Form, Raised, TunedChoice
from grader.protocol.baseline_messages import Gauged
from grader.protocol.trace import Choose, KernelText, Launch, Output, Trace, TraceNote, Window
from grader.record.checks import CheckResult
from grader.record.record import from_json, to_json
from grader.record.speed import Speed
from grader.sandbox.outcome import TimedOut
from grader.sandbox.server import ForkServer
from grader.speed import suite
from grader.speed.baseline_process import BaselineProcess, BaselineProcessFailed
from grader.speed.baselines import SLOW
from grader.speed.estimate import share
from grader.speed.rounds import Exposed, NotCapturable, Samples, TimedCase, TimingSample
from grader.speed.suite import Suite, Traced, Verdict
from grader.speed.verify import CannotBeTimed, changed_failure
from tests.claims import SUBMISSIONS
from tests.racing import GAUGED, TINY, band_of, hurry, judge, running_baselines
from tests.recordings import HEAD
from tests.records import samples as records

# -- through real processes ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def baseline_process(ex_15: Entry) -> Iterator[BaselineProcess]:
    with running_baselines(ex_15) as running:
        yield running


def survives(speed: Speed) -> bool:
    """Whether a record that holds these measurements is the same after a round trip through JSON."""
    check = CheckResult("vector_add.speed", "vector_add", "Fast", records.PROFILES, "pass", 0.0, 5.0, speed=speed)
    record = records.record((check,), (records.VECTOR_ADD,))
    return from_json(to_json(record)) == record


def test_an_honest_submission_is_not_refused_and_its_record_is_complete(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    verdict = judge(server, ex_15, baseline_process, ex_15.solution)
    # How fast it is nobody asks here: the interpreter has no speed.
    assert verdict.failure is None or verdict.failure.cause.kind == "too_slow"
    speed = verdict.speed
    assert speed is not None
    assert (speed.baseline, speed.floor, speed.full) == ("torch_eager", 0.5, 0.95)
    (size,) = speed.sizes
    assert (size.words, size.method, size.rounds) == ("N=4101, dtype=float32, values=normal, offset=0", "stream", 4)
    assert [one.name for one in size.contenders] == ["submission", "torch_eager"]
    for one in size.contenders:
        assert 0 < one.low_us <= one.median_us <= one.high_us
        assert one.ratio_low <= one.ratio <= one.ratio_high
    assert bool(size.reason) != size.judged
    assert [(one.name, one.missing) for one in speed.baselines] == [("torch_eager", "")]
    assert survives(speed)


def test_a_baseline_that_cannot_run_leaves_the_check_undecided_and_says_why(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess
) -> None:
    verdict = judge(server, ex_15, baseline_process, ex_15.solution, baseline="cublas")
    why = "the exercise's baselines.py must define vector_add_cublas for it"
    assert verdict.undecided == f"cuBLAS cannot run here: {why}"
    assert (verdict.failure, verdict.share) == (None, 0.0)
    assert verdict.speed is not None
    assert [(one.name, one.missing) for one in verdict.speed.baselines] == [("cublas", why)]
    assert survives(verdict.speed)


def test_where_the_baseline_cannot_run_the_next_of_the_chain_is_measured_against_and_named(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    chain: dict[str, Any] = {"baseline": "cublas", "fallbacks": ("sdpa_flash", "torch_eager"), "shown_beside": ("xla",)}
    verdict = judge(server, ex_15, baseline_process, ex_15.solution, **chain)
    assert "cannot run here" not in verdict.undecided
    speed = verdict.speed
    assert speed is not None
    assert speed.baseline == "torch_eager"
    assert speed.fallback == (
        "Measured against eager torch, because cuBLAS cannot run here: the exercise's baselines.py must define "
        "vector_add_cublas for it; FlashAttention (SDPA) cannot run here: the exercise's baselines.py must define "
        "vector_add_sdpa for it"
    )
    assert [(one.name, bool(one.missing)) for one in speed.baselines] == [
        ("cublas", True),
        ("sdpa_flash", True),
        ("torch_eager", False),
        ("xla", True),
    ]
    (size,) = speed.sizes
    assert [one.name for one in size.contenders] == ["submission", "torch_eager"]
    assert survives(speed)


def test_a_baseline_shown_beside_that_cannot_run_or_compiles_slowly_is_reported(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    verdict = judge(
        server, ex_15, baseline_process, ex_15.solution, shown_beside=("cublas", "torch_compile", "copy_roofline")
    )
    assert verdict.speed is not None
    assert {one.name: one.missing for one in verdict.speed.baselines} == {
        "torch_eager": "",
        "cublas": "the exercise's baselines.py must define vector_add_cublas for it",
        "torch_compile": "not timed: takes seconds to compile (grade … --baseline torch_compile times it)",
        "copy_roofline": "",
    }
    (size,) = verdict.speed.sizes
    assert [one.name for one in size.contenders] == ["submission", "torch_eager", "copy_roofline"]


def test_a_part_that_works_on_matrices_is_measured_against_a_copy(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    verdict = judge(
        server,
        ex_15,
        baseline_process,
        ex_15.solution,
        "row_softmax",
        size={"M": 7, "N": 63},
        shown_beside=("torch_eager",),
    )
    assert verdict.failure is None or verdict.failure.cause.kind == "too_slow"
    assert verdict.speed is not None
    assert verdict.speed.baseline == "copy_roofline"


# Longer than any vector whose answer is judged: by that these files know that they are timed.
LONG: dict[str, Value] = {"N": 1 << 17}
TIMING = SUBMISSIONS / "timing"


def on_a_long_one(
    server: ForkServer, entry: Entry, baseline_process: BaselineProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> Verdict:
    """The verdict on a file of tests/submissions/timing that has had a short call before."""
    hurry(monkeypatch)
    return judge(server, entry, baseline_process, TIMING / f"{name}.py", size=LONG, before=[TINY])


@pytest.mark.parametrize(
    "name",
    ["looks_like_an_answer", "prepared_in_an_earlier_call", "counts_its_calls"],
)
def test_what_is_right_at_other_sizes_or_in_other_calls_is_wrong_when_timed(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    verdict = on_a_long_one(server, ex_15, baseline_process, name, monkeypatch)
    assert verdict.failure is not None
    assert (verdict.failure.status, verdict.failure.cause.kind) == ("fail", "wrong_when_timed")
    assert verdict.share == 0


@pytest.mark.parametrize("name", ["looks_like_an_answer", "prepared_in_an_earlier_call"])
def test_where_such_a_file_behaves_it_is_not_refused(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    hurry(monkeypatch)
    verdict = judge(server, ex_15, baseline_process, TIMING / f"{name}.py")
    assert verdict.failure is None or verdict.failure.cause.kind == "too_slow"


def test_a_configuration_that_skips_work_is_refused_if_it_is_the_one_that_tuning_takes(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = on_a_long_one(server, ex_15, baseline_process, "configuration_that_skips", monkeypatch)
    if verdict.failure is not None and verdict.failure.cause.kind == "wrong_when_timed":
        return
    # In the interpreter both take about as long.
    assert verdict.speed is not None
    ((table,),) = (size.tuned for size in verdict.speed.sizes)
    assert [row.words for row in table.configurations if row.chosen] == ["SKIPS=False"]


@pytest.mark.parametrize("name", ["control_autotuned", "control_workspace_kept", "control_counter_put_back"])
def test_an_honest_file_that_does_something_like_it_is_not_refused(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    verdict = on_a_long_one(server, ex_15, baseline_process, name, monkeypatch)
    assert verdict.failure is None or verdict.failure.cause.kind == "too_slow"
    assert verdict.speed is not None
    (size,) = verdict.speed.sizes
    assert size.rounds == 4
    assert survives(verdict.speed)
    if name == "control_autotuned":
        (table,) = size.tuned
        assert [row.words for row in table.configurations] == ["BLOCK=1024", "BLOCK=4096"]
        assert [row.time_us > 0 for row in table.configurations] == [True, True]
        assert sum(row.chosen for row in table.configurations) == 1


REFUSED = {
    "library_call": "def vector_add(x, y):\n    z = added(x, y)\n    return z * 1.0\n",
    "no_kernel": "def vector_add(x, y):\n    return torch.empty_like(x)\n",
    "alias": "def vector_add(x, y):\n    add[(1,)](x, y, torch.empty_like(x), 1, BLOCK=64)\n    return x\n",
    "input_changed": "def vector_add(x, y):\n    z = added(x, y)\n    add[(1,)](x, y, x, 1, BLOCK=64)\n    return z\n",
    "crash": "def vector_add(x, y):\n    raise ValueError(x.numel())\n",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_call_of_that_size_does_besides_is_refused_by_its_name(
    server: ForkServer, ex_15: Entry, baseline_process: BaselineProcess, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    hurry(monkeypatch)
    verdict = judge(server, ex_15, baseline_process, HEAD + REFUSED[kind])
    assert verdict.failure is not None
    assert verdict.failure.cause.kind == kind
    assert verdict.share == 0


# -- with invented samples ---------------------------------------------------------------------------------------------

# One kernel, launched once; the output lies in memory of its own.
TRACE = Trace(
    {"x": 0, "y": 1},
    (Window(0, "float32", 0, (7,), (1,)), Window(2, "float32", 0, (7,), (1,))),
    (KernelText("add_kernel", 3, "jit", {}),),
    (Launch(0, (1,), (), {"BLOCK": 64}, {}, 7),),
    (Output(1, Form("tensor", "float32", (7,), "cpu")),),
)


def told(
    trace: Trace = TRACE, *, outside_work: tuple[str, ...] = (), unrecordable: tuple[str, ...] = (), kernels: int = 1
) -> Any:
    """As much of a recorded call as a verdict needs."""
    names = tuple(text.name for text in trace.kernels)[:kernels]
    found, missing = (tuple(TraceNote(name, 7) for name in given) for given in (outside_work, unrecordable))
    return SimpleNamespace(message={}, trace=trace, outside_work=found, unrecordable=missing, kernels=names)


def samples(
    submission_us: float,
    baseline_us: float,
    *,
    spread: float = 0.0,
    noise: float = 0.0,
    unseen_us: float = 0.0,
    jitter_us: float = 0.0,
) -> Samples:
    """Twenty rounds. How far the submission's times lie apart is `spread`, how far the baseline's, `noise`; what the
    grader's own clock saw of the submission beyond that is `unseen_us`, and how far that lies apart, `jitter_us`.
    """
    ours = [submission_us * (1 + spread * (i % 5 - 2)) for i in range(20)]
    theirs = [baseline_us * (1 + noise * (i % 5 - 2)) for i in range(20)]
    return Samples(
        [TimingSample(one, one + 1000 + unseen_us + jitter_us * (i % 5 - 2)) for i, one in enumerate(ours)],
        {"torch_eager": [TimingSample(one, one + 1000) for one in theirs]},
    )


@dataclass
class Asked:
    """One size that was timed: how, and beside whom."""

    size: int
    method: str
    hidden: bool
    beside: tuple[str, ...]
    witness: str | None


@dataclass
class Invented:
    """Takes the place of rounds: every size gets the samples that are told of it, or raises what is told."""

    tell: Callable[[TimedCase, bool], Samples | Exception]
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, *, timed: TimedCase, beside: tuple[str, ...], witness: str | None, **_: Any) -> Any:
        def run(enough: Callable[[Samples], bool], *, hidden: bool, **limits: Any) -> Samples:
            self.asked.append(Asked(int(timed.case["N"]), timed.method, hidden, beside, witness))
            found = self.tell(timed, hidden)
            if isinstance(found, Exception):
                raise found
            assert limits["least"] <= limits["most"]
            enough(found)
            return found

        return SimpleNamespace(run=run)


Arena = Callable[..., tuple[Verdict, list[Asked]]]


@pytest.fixture
def arena(ex_15: Entry, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """Judge sizes by invented samples: arena({1000: samples(…)}, …) -> the verdict, and what was timed.

    graph: what a size comes to as a graph; open: what it comes to where launches need not hide. traced: what the
    submission does at a size, where that is not one honest launch.
    """
    part = ex_15.exercise.part("vector_add")
    assert part is not None

    def run(
        found: dict[int, Any],
        *,
        graph: Any = None,
        open_: Any = None,
        gauged: Gauged = GAUGED,
        traced: dict[int, Traced] | None = None,
        slow: Sequence[str] = (),
        **changes: Any,
    ) -> tuple[Verdict, list[Asked]]:
        def tell(timed: TimedCase, hidden: bool) -> Samples | Exception:
            of_size = found[int(timed.case["N"])] if hidden else open_
            answer = graph if timed.method == "graph" else of_size
            assert isinstance(answer, Samples | Exception), "nobody told what this comes to"
            return answer

        invented = Invented(tell)
        monkeypatch.setattr(suite, "Rounds", invented)
        baseline_process: Any = SimpleNamespace(missing=lambda recipe, names: dict.fromkeys(names, ""))
        replayer: Any = SimpleNamespace(pid=None)
        sizes: list[dict[str, Value]] = [{"N": n} for n in found]
        band = band_of(part, *sizes, **changes)
        calls: dict[Case, Traced] = {
            case: (traced or {}).get(int(case["N"]), (told(),)) for case in band.suite.named_cases
        }
        judging = Suite(part, band, calls, replayer, baseline_process, gauged, "none", "/learner/ex_15.py", slow)
        return judging.judge(), invented.asked

    return run


def speed_of(verdict: Verdict) -> Speed:
    assert verdict.speed is not None
    assert survives(verdict.speed)
    return verdict.speed


def kind_of(verdict: Verdict) -> tuple[str, str]:
    """(status, kind) of the failure; a verdict that has one earns nothing."""
    assert verdict.failure is not None
    assert verdict.share == 0
    return verdict.failure.status, verdict.failure.cause.kind


# What the points are worth.


@pytest.mark.parametrize(
    ("submission_us", "earned"), [(2100.0, 0.0), (2000.0, 0.0), (1600.0, 0.2778), (1000.0, 1.0), (100.0, 1.0)]
)
def test_points_follow_the_ratio_between_floor_and_full(arena: Arena, submission_us: float, earned: float) -> None:
    verdict, _ = arena({500: samples(submission_us, 1000.0)})
    assert verdict.share == pytest.approx(earned, abs=1e-4)
    assert bool(verdict.failure) == (not earned)


def test_a_submission_worth_nothing_is_told_how_fast_it_is_and_where_points_begin(arena: Arena) -> None:
    verdict, _ = arena({500: samples(4000.0, 1000.0), 1000: samples(4000.0, 1000.0)})
    assert kind_of(verdict) == ("fail", "too_slow")
    assert verdict.failure is not None
    assert verdict.failure.cause.rationale == (
        "Over 2 sizes it reaches 0.25 to 0.25 of the speed of eager torch; points begin above 0.5."
    )


def test_points_are_the_mean_over_the_sizes_and_the_ratio_is_their_geometric_mean(arena: Arena) -> None:
    verdict, _ = arena({500: samples(500.0, 1000.0), 1000: samples(2000.0, 1000.0)})
    assert verdict.share == pytest.approx(0.5)
    assert speed_of(verdict).ratio == pytest.approx(1.0)


@pytest.mark.parametrize("disturbed", [{"spread": 0.3}, {"noise": 0.3}, {"spread": 0.3, "noise": 0.3}])
def test_noise_that_moves_no_point_does_not_matter(arena: Arena, disturbed: dict[str, float]) -> None:
    verdict, _ = arena({500: samples(300.0, 1000.0, **disturbed)})
    assert verdict.share == 1


def test_a_submission_whose_own_times_vary_wildly_is_judged_by_its_slower_end(arena: Arena) -> None:
    verdict, _ = arena({500: samples(1400.0, 1000.0, spread=0.3)})
    (size,) = speed_of(verdict).sizes
    assert (size.judged, size.reason, verdict.undecided) == (True, "", "")
    ours = size.submission
    assert ours.ratio_low < ours.ratio < ours.ratio_high
    assert verdict.share == pytest.approx(share(ours.ratio_low, 0.5, 0.95), abs=1e-4)
    assert verdict.share < share(ours.ratio, 0.5, 0.95) - 0.1


def test_a_submission_that_varies_a_little_is_judged_by_its_middle(arena: Arena) -> None:
    verdict, _ = arena({500: samples(1400.0, 1000.0, spread=0.005)})
    assert verdict.share == pytest.approx(share(1 / 1.4, 0.5, 0.95))


def test_what_a_contender_moved_and_did_is_stated_in_the_band_s_own_terms(arena: Arena) -> None:
    verdict, _ = arena({1000: samples(1000.0, 2000.0)}, gauged=replace(GAUGED, copy_tbps=1e-5))
    (size,) = speed_of(verdict).sizes
    ours, theirs = size.contenders
    assert ours.tbps == pytest.approx(12_000 / 1e-3 / 1e12)
    assert ours.tflops == pytest.approx(1000 / 1e-3 / 1e12)
    # 12 000 bytes at 10⁻⁵ TB/s take 1200 µs; a time below that is possible, as the cache is large.
    assert ours.roofline_share == pytest.approx(1.2)
    assert (ours.ratio, theirs.ratio) == pytest.approx((2.0, 1.0))
    assert size.bound == "memory"


# Which sizes count.


def test_a_size_too_short_to_tell_two_processes_apart_is_shown_and_not_judged(arena: Arena) -> None:
    verdict, _ = arena({500: samples(20.0, 9.9), 1000: samples(10.0, 10.0)})
    short, long = speed_of(verdict).sizes
    assert (short.judged, long.judged) == (False, True)
    assert short.reason == "too short: the baseline takes 9.9 µs, and 10 are needed"
    assert verdict.share == 1


def test_a_size_whose_points_the_baseline_s_own_noise_leaves_open_is_not_judged(arena: Arena) -> None:
    verdict, _ = arena({500: samples(1400.0, 1000.0, noise=0.3)})
    (size,) = speed_of(verdict).sizes
    assert not size.judged
    assert size.reason.startswith("too noisy: the ratio lies between ")
    assert verdict.undecided == f"no size could be judged: {size.reason}"


def test_without_any_size_that_could_be_judged_the_check_is_undecided_and_says_why(arena: Arena) -> None:
    verdict, _ = arena({500: samples(1.0, 1.0), 1000: samples(2.0, 2.0)})
    assert verdict.undecided == "no size could be judged: too short: the baseline takes 2.0 µs, and 10 are needed"
    assert (verdict.failure, verdict.share) == (None, 0.0)
    assert (speed_of(verdict).ratio, speed_of(verdict).ratio_low) == ("nan", "nan")


def test_a_size_that_the_gpu_has_no_memory_for_is_left_out(arena: Arena) -> None:
    verdict, asked = arena({500: samples(1000.0, 1000.0), 1 << 20: samples(1000.0, 1000.0)})
    assert [one.size for one in asked] == [500]
    assert len(speed_of(verdict).sizes) == 1


def test_where_every_size_needs_too_much_memory_the_check_is_undecided_and_says_so(arena: Arena) -> None:
    verdict, asked = arena({1 << 20: samples(1000.0, 1000.0)})
    assert asked == []
    assert verdict.undecided == "no size could be judged: each needs more memory than this GPU has"
    assert (verdict.failure, verdict.share) == (None, 0.0)


# What was recorded.


def test_a_part_whose_calls_could_not_be_recorded_is_undecided_and_nothing_is_timed(arena: Arena) -> None:
    both = {500: samples(1000.0, 1000.0), 1000: samples(1000.0, 1000.0)}
    verdict, asked = arena(both, traced={1000: (told(unrecordable=("a lambda",)),)})
    assert verdict.undecided == "what is timed could not be recorded: a lambda (line 7)"
    assert (verdict.failure, verdict.share, asked) == (None, 0.0, [])
    assert speed_of(verdict).sizes == ()


ARGUMENT = replace(TRACE, outputs=(replace(TRACE.outputs[0], window=0),))


@pytest.mark.parametrize(
    ("traced", "status", "kind"),
    [
        ((told(outside_work=("aten.add",)),), "policy", "library_call"),
        ((told(), told(outside_work=("aten.add",))), "policy", "library_call"),
        ((told(kernels=0),), "policy", "no_kernel"),
        ((told(), told(kernels=0)), "policy", "no_kernel"),
        ((told(ARGUMENT),), "fail", "alias"),
        ((told(), told(ARGUMENT)), "fail", "alias"),
        (Raised("raised", "crash", "ValueError", "no", ()), "crash", "crash"),
        (Raised("raised", "compile_error", "CompilationError", "no", ()), "compile_error", "compile_error"),
        (TimedOut(4.0), "timeout", "timeout"),
    ],
)
def test_what_a_call_did_at_a_timed_size_decides_before_anything_is_timed_there(
    arena: Arena, traced: Traced, status: str, kind: str
) -> None:
    both = {500: samples(1000.0, 1000.0), 1000: samples(1000.0, 1000.0)}
    verdict, asked = arena(both, traced={1000: traced})
    assert kind_of(verdict) == (status, kind)
    # What was timed before stays in the record.
    assert [one.size for one in asked] == [500]
    assert [size.case["N"] for size in speed_of(verdict).sizes] == [500]


def test_the_names_of_what_computed_beside_the_kernels_are_told(arena: Arena) -> None:
    verdict, _ = arena({500: samples(1.0, 1.0)}, traced={500: (told(outside_work=("aten.add", "aten.mul")),)})
    assert verdict.failure is not None
    assert "aten.add, aten.mul" in verdict.failure.cause.rationale
    assert "N=500" in verdict.failure.cause.rationale


def test_what_was_timed_before_a_refusal_stays_in_the_record(arena: Arena) -> None:
    refused = CannotBeTimed(changed_failure(Case({"N": 1000}), ["x"]))
    verdict, _ = arena({500: samples(1000.0, 1000.0), 1000: refused, 2000: samples(1.0, 1.0)})
    assert kind_of(verdict) == ("fail", "input_changed")
    assert [size.case["N"] for size in speed_of(verdict).sizes] == [500]


def test_what_was_tuned_stands_beside_the_size(arena: Arena) -> None:
    launches = [Launch(0, (1,), (), {"BLOCK": block}, {}, 7) for block in (64, 128)]
    trace = replace(TRACE, steps=(Choose(tuple((one,) for one in launches), 7),))
    found = replace(samples(1000.0, 1000.0), choices=(TunedChoice(7, (2.0, 1.0), 1),))
    verdict, _ = arena({500: found}, traced={500: (told(trace),)})
    (size,) = speed_of(verdict).sizes
    (table,) = size.tuned
    assert [(row.words, row.time_us, row.chosen) for row in table.configurations] == [
        ("BLOCK=64", 2.0, False),
        ("BLOCK=128", 1.0, True),
    ]


# Times that cannot be, or that the events do not say.


def test_a_time_that_the_gpu_cannot_reach_is_refused(arena: Arena) -> None:
    # 3 · 4 · 500 bytes beyond the cache, at 10⁻⁷ TB/s: about 50 ms.
    slow = replace(GAUGED, l2_bytes=1000, read_tbps=1e-7)
    verdict, _ = arena({500: samples(300.0, 1000.0)}, gauged=slow)
    assert kind_of(verdict) == ("policy", "impossible_time")
    assert verdict.failure is not None
    assert "the call took 300.0 µs" in verdict.failure.cause.rationale


def test_time_that_only_the_grader_s_own_clock_saw_counts_and_is_noted(arena: Arena) -> None:
    verdict, _ = arena({500: samples(100.0, 1000.0, unseen_us=9000.0)})
    (size,) = speed_of(verdict).sizes
    # 9100 µs, known to 2000.
    assert (size.outside_us, size.clock_us) == pytest.approx((9100.0, 2000.0))
    assert size.submission.median_us == pytest.approx(7100.0)
    assert size.notes == ("the GPU's events say 100.0 µs, the grader's own clock at least 7100.0 µs: that counts",)
    assert kind_of(verdict) == ("fail", "too_slow")


@pytest.mark.parametrize("unseen_us", [-900.0, 0.0, 1900.0])
def test_what_the_clock_outside_cannot_know_better_does_not_count(arena: Arena, unseen_us: float) -> None:
    verdict, _ = arena({500: samples(1000.0, 1000.0, unseen_us=unseen_us)})
    (size,) = speed_of(verdict).sizes
    assert size.submission.median_us == 1000.0
    assert (size.notes, verdict.share) == ((), 1.0)


def test_what_the_clock_outside_saw_in_some_rounds_only_does_not_count(arena: Arena) -> None:
    verdict, _ = arena({500: samples(1000.0, 1000.0, unseen_us=3000.0, jitter_us=2000.0)})
    (size,) = speed_of(verdict).sizes
    assert size.outside_us == pytest.approx(4000.0)
    assert (size.submission.median_us, size.notes, verdict.share) == (1000.0, (), 1.0)


def test_of_a_long_call_the_clock_outside_knows_half_of_the_baseline_s_time(arena: Arena) -> None:
    verdict, _ = arena({500: samples(1e4, 1e4, unseen_us=4900.0), 1000: samples(1e4, 1e4, unseen_us=6000.0)})
    hidden, seen = speed_of(verdict).sizes
    assert (hidden.submission.median_us, seen.submission.median_us) == pytest.approx((1e4, 1.1e4))


# Baselines.


def test_a_baseline_that_failed_on_the_way_is_reported_with_its_reason(arena: Arena) -> None:
    broken = replace(samples(1000.0, 1000.0), dropped={"cuda_cpp": "RuntimeError: no compiler"})
    both = {500: broken, 1000: samples(1000.0, 1000.0)}
    verdict, asked = arena(both, shown_beside=("cuda_cpp",))
    assert [(one.name, one.missing) for one in speed_of(verdict).baselines] == [
        ("torch_eager", ""),
        ("cuda_cpp", "RuntimeError: no compiler"),
    ]
    assert [one.beside for one in asked] == [("cuda_cpp",), ()]


def test_a_baseline_beside_that_was_slow_is_not_tried_where_there_is_more_to_do(arena: Arena) -> None:
    def beside_took(us: float) -> Samples:
        found = samples(1000.0, 1000.0)
        found.baselines["cuda_cpp"] = [TimingSample(us, us + 1000)] * 5
        return found

    found = {500: beside_took(1000.0), 2000: beside_took(3e5), 1000: beside_took(1000.0), 4000: samples(1000.0, 1000.0)}
    verdict, asked = arena(found, shown_beside=("cuda_cpp",), flops="N")
    assert {one.size: one.beside for one in asked} == {
        500: ("cuda_cpp",),
        2000: ("cuda_cpp",),
        1000: ("cuda_cpp",),
        4000: (),
    }
    # It is not missing: where there is less to do it ran.
    assert [(one.name, one.missing) for one in speed_of(verdict).baselines] == [("torch_eager", ""), ("cuda_cpp", "")]


@pytest.mark.parametrize(
    ("baseline", "beside", "witness"),
    [
        ("torch_eager", (), "torch_eager"),
        ("copy_roofline", ("torch_eager",), "torch_eager"),
        ("copy_roofline", ("torch_compile", "cuda_cpp"), "cuda_cpp"),
        ("copy_roofline", (), None),
    ],
)
def test_answers_are_compared_with_the_first_baseline_that_computes_and_is_not_slow(
    arena: Arena, baseline: str, beside: tuple[str, ...], witness: str | None
) -> None:
    found = samples(1000.0, 1000.0)
    found.baselines[baseline] = found.baselines["torch_eager"]
    _, (asked,) = arena({500: found}, baseline=baseline, shown_beside=beside, slow=SLOW)
    assert asked.witness == witness


def test_without_the_baseline_itself_the_grader_has_failed_and_not_the_submission(arena: Arena) -> None:
    with pytest.raises(BaselineProcessFailed):
        arena({500: BaselineProcessFailed("RuntimeError: no")})


# Streams and graphs.


def test_launches_that_the_cover_does_not_hide_are_timed_as_a_graph(arena: Arena) -> None:
    verdict, asked = arena({500: Exposed(), 1000: samples(1000.0, 1000.0)}, graph=samples(500.0, 500.0))
    assert [(one.size, one.method) for one in asked] == [(500, "stream"), (500, "graph"), (1000, "stream")]
    assert [size.method for size in speed_of(verdict).sizes] == ["graph", "stream"]
    assert verdict.share == 1


def test_what_cannot_be_captured_either_is_timed_as_a_stream_with_its_launches(arena: Arena) -> None:
    verdict, asked = arena({500: Exposed()}, graph=NotCapturable(), open_=samples(2500.0, 1000.0))
    assert [(one.method, one.hidden) for one in asked] == [("stream", True), ("graph", True), ("stream", False)]
    (size,) = speed_of(verdict).sizes
    assert (size.method, size.submission.median_us) == ("stream", 2500.0)


def test_a_baseline_that_compiles_for_itself_takes_no_part_in_a_graph(arena: Arena) -> None:
    beside = ("torch_compile", "cuda_cpp")
    _, asked = arena({500: Exposed()}, graph=samples(500.0, 500.0), shown_beside=beside, slow=SLOW)
    assert [one.beside for one in asked] == [beside, ("cuda_cpp",)]


# How long.


@pytest.fixture
def judging(ex_15: Entry) -> Suite:
    part = ex_15.exercise.part("vector_add")
    assert part is not None
    nobody: Any = None
    return Suite(part, band_of(part, TINY), {}, nobody, nobody, GAUGED, "none", "x.py")


def test_more_rounds_are_asked_for_until_the_points_are_sure(judging: Suite) -> None:
    assert judging._is_settled(samples(1000.0, 1000.0))
    assert judging._is_settled(samples(300.0, 1000.0, spread=0.3)), "full points, whatever the noise"
    assert not judging._is_settled(samples(1400.0, 1000.0, spread=0.3)), "the ratio could be worth anything"
    assert judging._is_settled(samples(1400.0, 1000.0, spread=0.001)), "half a per cent is well enough"
    assert judging._is_settled(samples(1400.0, 1000.0, spread=0.006)), "two per cent of the points are open"
    assert not judging._is_settled(samples(1400.0, 1000.0, spread=0.02)), "seven per cent are"
    assert judging._is_settled(samples(5.0, 5.0, spread=0.3)), "so short a time is never judged"


def test_of_short_calls_more_samples_are_taken_before_anything_is_sure(judging: Suite) -> None:
    def first(count: int, us: float) -> Samples:
        whole = samples(us, us)
        return Samples(whole.submission[:count], {"torch_eager": whole.baselines["torch_eager"][:count]})

    assert not judging._is_settled(first(15, 100.0))
    assert judging._is_settled(first(16, 100.0))
    assert judging._is_settled(first(6, 1000.0))


def test_this_process_is_quiet_while_it_times_and_as_before_afterwards() -> None:
    import gc

    import torch

    usual = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with suite._undisturbed():
            assert (torch.get_num_threads(), gc.isenabled()) == (1, False)
        with pytest.raises(ZeroDivisionError), suite._undisturbed():
            raise ZeroDivisionError
        assert (torch.get_num_threads(), gc.isenabled()) == (3, True)
    finally:
        torch.set_num_threads(usual)


def test_every_number_of_a_speed_record_is_one_that_json_has(arena: Arena) -> None:
    verdict, _ = arena({500: samples(1000.0, 1000.0, noise=0.9), 1000: samples(1.0, 0.0)})
    json.dumps([vars(one) for size in speed_of(verdict).sizes for one in size.contenders], allow_nan=False)
