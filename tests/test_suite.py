"""From laps to a verdict: which sizes count, what they are worth, and what is said where none does.

The first half races on the CPU, through real processes; there no clock decides. The second invents the laps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from grader.speed.clock import CLOCK_OFFSET_US, Lap, time_of_record
from grader.speed.race import Course, Laps, NotCapturable

from grader.catalogue import Entry
from grader.protocol.messages import Gauged
from grader.record import CheckResult, Speed, from_json, to_json
from grader.sandbox.server import ForkServer
from grader.speed import suite
from grader.speed.anchor import Anchor, AnchorFailed
from grader.speed.estimate import share
from grader.speed.suite import Suite, Verdict
from grader.speed.verify import Refused, tampered
from tests.racing import GAUGED, TINY, anchored, band_of, hurry, judge
from tests.records import samples

# -- through real processes ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def anchor(ex_15: Entry) -> Iterator[Anchor]:
    with anchored(ex_15) as running:
        yield running


def survives(speed: Speed) -> bool:
    """Whether a record that holds these measurements is the same after a round trip through JSON."""
    check = CheckResult("vector_add.speed", "vector_add", "Fast", samples.PROFILES, "pass", 0.0, 5.0, speed=speed)
    record = samples.record((check,), (samples.VECTOR_ADD,))
    return from_json(to_json(record)) == record


def test_an_honest_submission_is_not_refused_and_its_record_is_complete(
    server: ForkServer, ex_15: Entry, anchor: Anchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    verdict = judge(server, ex_15, anchor, ex_15.solution)
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
    server: ForkServer, ex_15: Entry, anchor: Anchor
) -> None:
    verdict = judge(server, ex_15, anchor, ex_15.solution, baseline="cublas")
    why = "the exercise's baselines.py must define vector_add_cublas for it"
    assert verdict.undecided == f"cuBLAS cannot run here: {why}"
    assert (verdict.failure, verdict.share) == (None, 0.0)
    assert verdict.speed is not None
    assert [(one.name, one.missing) for one in verdict.speed.baselines] == [("cublas", why)]
    assert survives(verdict.speed)


def test_where_the_baseline_cannot_run_the_next_of_the_chain_is_measured_against_and_named(
    server: ForkServer, ex_15: Entry, anchor: Anchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    chain: dict[str, Any] = {"baseline": "cublas", "fallbacks": ("sdpa_flash", "torch_eager"), "shown_beside": ("xla",)}
    verdict = judge(server, ex_15, anchor, ex_15.solution, **chain)
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
    server: ForkServer, ex_15: Entry, anchor: Anchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    verdict = judge(server, ex_15, anchor, ex_15.solution, shown_beside=("cublas", "torch_compile", "copy_roofline"))
    assert verdict.speed is not None
    assert {one.name: one.missing for one in verdict.speed.baselines} == {
        "torch_eager": "",
        "cublas": "the exercise's baselines.py must define vector_add_cublas for it",
        "torch_compile": "not timed: takes seconds to compile (grade … --all-baselines times it)",
        "copy_roofline": "",
    }
    (size,) = verdict.speed.sizes
    assert [one.name for one in size.contenders] == ["submission", "torch_eager", "copy_roofline"]


def test_a_part_that_works_on_matrices_races_against_a_copy(
    server: ForkServer, ex_15: Entry, anchor: Anchor, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    part = ex_15.exercise.part("row_softmax")
    assert part is not None
    sizes = band_of(part, {"M": 7, "N": 63}).suite
    verdict = judge(server, ex_15, anchor, ex_15.solution, "row_softmax", suite=sizes, shown_beside=("torch_eager",))
    assert verdict.failure is None or verdict.failure.cause.kind == "too_slow"
    assert verdict.speed is not None
    assert verdict.speed.baseline == "copy_roofline"


# -- with invented laps ----------------------------------------------------------------------------------------------


def laps(
    submission_us: float,
    baseline_us: float,
    *,
    claims: float | None = None,
    spread: float = 0.0,
    noise: float = 0.0,
    jitter_us: float = 0.0,
) -> Laps:
    """Twenty rounds. How far the submission's times lie apart is `spread`, how far the baseline's, `noise`, and how far
    the ways there and back, `jitter_us`.
    """
    claimed = submission_us if claims is None else claims
    submission = [Lap(claimed * (1 + spread * (i % 5 - 2)), submission_us + 1000) for i in range(20)]
    times = [baseline_us * (1 + noise * (i % 5 - 2)) for i in range(20)]
    return Laps(
        submission, {"torch_eager": [Lap(one, one + 1000 + jitter_us * (i % 7)) for i, one in enumerate(times)]}
    )


@dataclass
class Invented:
    """Takes the place of a race: every size gets the laps that its length asks for."""

    told: Callable[[Course], Any]
    asked: list[tuple[int, str]]
    beside: dict[int, tuple[str, ...]]

    def __call__(self, *, course: Course, beside: tuple[str, ...], **_: Any) -> Any:
        self.asked.append((int(course.case["N"]), course.method))
        self.beside[int(course.case["N"])] = beside
        found = self.told(course)

        def run(enough: Callable[[Laps, float], bool], **limits: Any) -> Laps:
            if isinstance(found, Exception):
                raise found
            return found  # type: ignore[no-any-return]

        return SimpleNamespace(run=run)


@pytest.fixture
def arena(ex_15: Entry, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """Judge sizes by invented laps: arena({1000: laps(...)}, ...) -> the verdict and what was raced.

    With `by_itself`, how long the baseline takes there at each size, the verdict is confirmed as well. `beside` is
    filled with the baselines that were raced beside at each size.
    """
    part = ex_15.exercise.part("vector_add")
    assert part is not None

    def run(
        told: dict[int, Any],
        *,
        gpu: bool = False,
        graph: Any = None,
        gauged: Gauged = GAUGED,
        by_itself: dict[int, float] | None = None,
        beside: dict[int, tuple[str, ...]] | None = None,
        **changes: Any,
    ) -> tuple[Verdict, list[tuple[int, str]]]:
        invented = Invented(
            lambda course: graph if course.method == "graph" else told[int(course.case["N"])],
            [],
            {} if beside is None else beside,
        )
        monkeypatch.setattr(suite, "Race", invented)
        session = SimpleNamespace(runs_on_gpu=gpu)
        anchor = SimpleNamespace(missing=lambda recipe, names: dict.fromkeys(names, ""))
        band = band_of(part, *({"N": n} for n in told), **changes)
        judging = Suite(part, band, session, anchor, gauged, "none", "/learner/ex_15.py")  # type: ignore[arg-type]
        verdict = judging.judge()
        if by_itself is not None:

            def alone(course: Course, anchor: object, baseline: str) -> list[float]:
                invented.asked.append((int(course.case["N"]), f"{baseline} by itself"))
                times = by_itself[int(course.case["N"])]
                return times if isinstance(times, list) else [times] * 15

            monkeypatch.setattr(suite, "alone", alone)
            monkeypatch.setattr(suite, "heat", lambda *_: None)
            verdict = judging.confirm(verdict)
        return verdict, invented.asked

    return run


Arena = Callable[..., tuple[Verdict, list[tuple[int, str]]]]
TOO_SHORT = f"too short: the clock outside knows 100 µs to ±{CLOCK_OFFSET_US:.0f} µs"


def speed_of(verdict: Verdict) -> Speed:
    assert verdict.speed is not None
    assert survives(verdict.speed)
    return verdict.speed


def test_a_time_that_the_gpu_cannot_reach_is_refused(arena: Arena) -> None:
    # 3 · 4 · 500 bytes beyond the cache, at 10⁻⁷ TB/s: about 50 ms.
    slow = replace(GAUGED, l2_bytes=1000, read_tbps=1e-7)
    verdict, _ = arena({500: laps(300.0, 1000.0)}, gauged=slow)
    assert verdict.failure is not None
    assert (verdict.failure.status, verdict.failure.cause.kind) == ("policy", "impossible_time")
    assert "the call took 300.0 µs" in verdict.failure.cause.rationale
    assert verdict.share == 0


def test_a_claim_of_nothing_is_no_impossible_time_but_the_one_that_the_clock_outside_knows(arena: Arena) -> None:
    verdict, _ = arena({500: laps(1000.0, 1000.0, claims=0.0)})
    (size,) = speed_of(verdict).sizes
    assert size.submission.median_us == pytest.approx(1000 - CLOCK_OFFSET_US)
    assert size.notes


@pytest.mark.parametrize(
    ("submission_us", "earned"), [(2100.0, 0.0), (2000.0, 0.0), (1600.0, 0.2778), (1000.0, 1.0), (100.0, 1.0)]
)
def test_points_follow_the_ratio_between_floor_and_full(arena: Arena, submission_us: float, earned: float) -> None:
    verdict, _ = arena({500: laps(submission_us, 1000.0)})
    assert verdict.share == pytest.approx(earned, abs=1e-4)
    assert bool(verdict.failure) == (not earned)


def test_a_submission_worth_nothing_is_told_how_fast_it_is_and_where_points_begin(arena: Arena) -> None:
    verdict, _ = arena({500: laps(4000.0, 1000.0), 1000: laps(4000.0, 1000.0)})
    assert verdict.failure is not None
    cause = verdict.failure.cause
    assert (verdict.failure.status, cause.kind) == ("fail", "too_slow")
    assert cause.rationale == (
        "Over 2 sizes it reaches 0.25 to 0.25 of the speed of eager torch; points begin above 0.5."
    )


def test_points_are_the_mean_over_the_sizes_and_the_ratio_is_their_geometric_mean(arena: Arena) -> None:
    verdict, _ = arena({500: laps(500.0, 1000.0), 1000: laps(2000.0, 1000.0)})
    assert verdict.share == pytest.approx(0.5)
    assert speed_of(verdict).ratio == pytest.approx(1.0)


def test_a_size_whose_time_the_clock_outside_cannot_know_is_shown_and_not_judged(arena: Arena) -> None:
    verdict, _ = arena({500: laps(100.0, 100.0), 1000: laps(1000.0, 1000.0)})
    short, long = speed_of(verdict).sizes
    assert (short.judged, long.judged) == (False, True)
    assert short.reason == TOO_SHORT
    assert verdict.share == 1


def test_a_size_whose_points_the_baseline_s_own_noise_leaves_open_is_not_judged(arena: Arena) -> None:
    verdict, _ = arena({500: laps(1400.0, 1000.0, noise=0.3)})
    (size,) = speed_of(verdict).sizes
    assert not size.judged
    assert size.reason.startswith("too noisy: the ratio lies between ")
    assert verdict.undecided == f"no size could be judged: {size.reason}"


@pytest.mark.parametrize("disturbed", [{"spread": 0.3}, {"noise": 0.3}, {"spread": 0.3, "noise": 0.3}])
def test_noise_that_moves_no_point_does_not_matter(arena: Arena, disturbed: dict[str, float]) -> None:
    verdict, _ = arena({500: laps(300.0, 1000.0, **disturbed)})
    assert verdict.share == 1


def test_a_submission_whose_own_times_vary_wildly_is_judged_by_its_slower_end(arena: Arena) -> None:
    verdict, _ = arena({500: laps(1400.0, 1000.0, spread=0.3)})
    (size,) = speed_of(verdict).sizes
    assert (size.judged, size.reason, verdict.undecided) == (True, "", "")
    ours = size.submission
    assert ours.ratio_low < ours.ratio < ours.ratio_high
    assert verdict.share == pytest.approx(share(ours.ratio_low, 0.5, 0.95), abs=1e-4)
    assert verdict.share < share(ours.ratio, 0.5, 0.95) - 0.1


def test_a_submission_that_varies_a_little_is_judged_by_its_middle(arena: Arena) -> None:
    verdict, _ = arena({500: laps(1400.0, 1000.0, spread=0.005)})
    assert verdict.share == pytest.approx(share(1 / 1.4, 0.5, 0.95))


def test_without_any_size_that_could_be_judged_the_check_is_undecided_and_says_each_reason_once(arena: Arena) -> None:
    verdict, _ = arena({500: laps(100.0, 100.0), 1000: laps(100.0, 100.0)})
    assert verdict.undecided == f"no size could be judged: {TOO_SHORT}"
    assert (verdict.failure, verdict.share) == (None, 0.0)
    assert (speed_of(verdict).ratio, speed_of(verdict).ratio_low) == ("nan", "nan")


def test_a_size_that_the_gpu_has_no_memory_for_is_left_out(arena: Arena) -> None:
    verdict, asked = arena({500: laps(1000.0, 1000.0), 1 << 20: laps(1000.0, 1000.0)})
    assert asked == [(500, "stream")]
    assert len(speed_of(verdict).sizes) == 1


def test_where_every_size_needs_too_much_memory_the_check_is_undecided_and_says_so(arena: Arena) -> None:
    verdict, asked = arena({1 << 20: laps(1000.0, 1000.0)})
    assert asked == []
    assert verdict.undecided == "no size could be judged: each needs more memory than this GPU has"
    assert (verdict.failure, verdict.share) == (None, 0.0)


def test_what_was_timed_before_a_refusal_stays_in_the_record(arena: Arena) -> None:
    verdict, _ = arena({500: laps(1000.0, 1000.0), 1000: Refused(tampered())})
    assert verdict.failure is not None
    assert verdict.failure.cause.kind == "measurement_skipped"
    assert [size.case["N"] for size in speed_of(verdict).sizes] == [500]
    assert verdict.share == 0


def test_a_baseline_that_failed_on_the_way_is_reported_with_its_reason(arena: Arena) -> None:
    broken = replace(laps(1000.0, 1000.0), dropped={"cuda_cpp": "RuntimeError: no compiler"})
    verdict, _ = arena({500: broken}, shown_beside=("cuda_cpp",))
    assert [(one.name, one.missing) for one in speed_of(verdict).baselines] == [
        ("torch_eager", ""),
        ("cuda_cpp", "RuntimeError: no compiler"),
    ]


def test_a_baseline_beside_that_was_slow_is_not_tried_where_there_is_more_to_do(arena: Arena) -> None:
    def beside_took(us: float) -> Laps:
        found = laps(1000.0, 1000.0)
        found.baselines["cuda_cpp"] = [Lap(us, us + 1000)] * 5
        return found

    told = {500: beside_took(1000.0), 2000: beside_took(3e5), 1000: beside_took(1000.0), 4000: laps(1000.0, 1000.0)}
    raced: dict[int, tuple[str, ...]] = {}
    verdict, _ = arena(told, shown_beside=("cuda_cpp",), flops="N", beside=raced)
    assert raced == {500: ("cuda_cpp",), 2000: ("cuda_cpp",), 1000: ("cuda_cpp",), 4000: ()}
    # It is not missing: where there is less to do it ran.
    assert [(one.name, one.missing) for one in speed_of(verdict).baselines] == [("torch_eager", ""), ("cuda_cpp", "")]


def test_without_the_baseline_itself_the_grader_has_failed_and_not_the_submission(arena: Arena) -> None:
    with pytest.raises(AnchorFailed):
        arena({500: AnchorFailed("RuntimeError: no")})


@pytest.mark.parametrize(("gpu", "base_us", "graphs"), [(True, 199.0, 1), (True, 201.0, 0), (False, 199.0, 0)])
def test_where_launches_rule_a_size_is_timed_as_a_graph_as_well(
    arena: Arena, gpu: bool, base_us: float, graphs: int
) -> None:
    verdict, asked = arena({500: laps(20.0, base_us)}, gpu=gpu, graph=laps(10.0, 10.0))
    assert [method for _, method in asked] == ["stream"] + ["graph"] * graphs
    replayed = speed_of(verdict).sizes[1:]
    assert [size.reason for size in replayed] == ["timed as a CUDA graph, beside the stream's figures"] * graphs
    assert not any(size.judged for size in replayed)


def test_a_submission_that_cannot_be_captured_keeps_its_stream_s_figures(arena: Arena) -> None:
    verdict, _ = arena({500: laps(20.0, 20.0)}, gpu=True, graph=NotCapturable())
    assert [size.method for size in speed_of(verdict).sizes] == ["stream"]


def test_what_a_contender_moved_and_did_is_stated_in_the_band_s_own_terms(arena: Arena) -> None:
    verdict, _ = arena({1000: laps(1000.0, 2000.0)}, gauged=replace(GAUGED, copy_tbps=1e-5))
    (size,) = speed_of(verdict).sizes
    ours, theirs = size.contenders
    assert ours.tbps == pytest.approx(12_000 / 1e-3 / 1e12)
    assert ours.tflops == pytest.approx(1000 / 1e-3 / 1e12)
    # 12 000 bytes at 10⁻⁵ TB/s take 1200 µs; a time below that is possible, as the cache is large.
    assert ours.roofline_share == pytest.approx(1.2)
    assert (ours.ratio, theirs.ratio) == pytest.approx((2.0, 1.0))
    assert size.bound == "memory"


def test_more_rounds_are_asked_for_until_the_points_are_sure(ex_15: Entry) -> None:
    part = ex_15.exercise.part("vector_add")
    assert part is not None
    judging = Suite(part, band_of(part, TINY), None, None, GAUGED, "none", "x.py")  # type: ignore[arg-type]
    assert judging._known_well(laps(1000.0, 1000.0), 0.1)
    assert judging._known_well(laps(300.0, 1000.0, spread=0.3), 0.1), "full points, whatever the noise"
    assert not judging._known_well(laps(1400.0, 1000.0, spread=0.3), 0.1), "the ratio could be worth anything"
    assert not judging._known_well(laps(1000.0, 1000.0, claims=0.0), 0.1), "the clocks disagree"
    assert judging._known_well(laps(50.0, 50.0), 0.1), "the clock will never know so short a time better"


def test_a_size_ends_early_once_the_clock_will_not_know_it_well_enough_in_time(ex_15: Entry) -> None:
    part = ex_15.exercise.part("vector_add")
    assert part is not None
    judging = Suite(part, band_of(part, TINY), None, None, GAUGED, "none", "x.py")  # type: ignore[arg-type]
    unsteady = laps(600.0, 600.0, jitter_us=80.0)
    assert not time_of_record(unsteady.submission, unsteady.baselines["torch_eager"]).known
    assert not judging._known_well(unsteady, 0.001), "hundreds of rounds are to come"
    assert judging._known_well(unsteady, 0.9)
    nearly = laps(600.0, 600.0, jitter_us=40.0)
    assert not time_of_record(nearly.submission, nearly.baselines["torch_eager"]).known
    assert not judging._known_well(nearly, 0.9), "what disturbs the clock may go away"


def test_this_process_is_quiet_while_it_times_and_as_before_afterwards() -> None:
    import gc

    import torch

    threads = torch.get_num_threads()
    with suite._undisturbed():
        assert (torch.get_num_threads(), gc.isenabled()) == (1, False)
    with pytest.raises(ZeroDivisionError), suite._undisturbed():
        raise ZeroDivisionError
    assert (torch.get_num_threads(), gc.isenabled()) == (threads, True)


def test_every_number_of_a_speed_record_is_one_that_json_has(arena: Arena) -> None:
    verdict, _ = arena({500: laps(1000.0, 1000.0, claims=0.0), 1000: laps(0.0, 100.0)})
    json.dumps([vars(one) for size in speed_of(verdict).sizes for one in size.contenders], allow_nan=False)


# -- confirmed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone_us", [935.0, 1000.0, 4000.0])
def test_a_baseline_about_as_slow_by_itself_confirms_the_verdict(arena: Arena, alone_us: float) -> None:
    told = {500: laps(1600.0, 1000.0)}
    plain, _ = arena(told)
    confirmed, asked = arena(told, by_itself={500: alone_us})
    assert asked == [(500, "stream"), (500, "torch_eager by itself")]
    assert (confirmed.failure, confirmed.share, confirmed.undecided) == (None, plain.share, "")


@pytest.mark.parametrize(("alone_us", "ratio"), [(934.0, 0.934), (500.0, 0.5)])
def test_a_baseline_more_than_seven_per_cent_faster_by_itself_is_what_counts(
    arena: Arena, alone_us: float, ratio: float
) -> None:
    sizes = {500: laps(1000.0, 1000.0), 1000: laps(1000.0, 1000.0)}
    plain, _ = arena(sizes, floor=0.5, full=1.0)
    verdict, _ = arena(sizes, by_itself={500: 1000.0, 1000: alone_us}, floor=0.5, full=1.0)
    kept, compared = speed_of(verdict).sizes
    assert kept == speed_of(plain).sizes[0]
    assert compared.submission.ratio == pytest.approx(ratio)
    assert compared.submission.median_us == 1000.0
    assert compared.share == pytest.approx(2 * ratio - 1)
    assert verdict.share == pytest.approx((1 + compared.share) / 2)
    assert compared.notes == (
        f"the baseline took 1000 µs in turns with the submission, and {alone_us:.0f} µs once no process of it was left:"
        " the ratios are to the latter",
    )
    assert speed_of(verdict).ratio == pytest.approx(ratio**0.5, rel=1e-3)


def test_points_that_rest_on_a_slowed_baseline_alone_are_lost(arena: Arena) -> None:
    verdict, _ = arena({500: laps(1000.0, 1000.0)}, by_itself={500: 400.0}, floor=0.5, full=1.0)
    assert verdict.failure is not None
    assert verdict.failure.cause.kind == "too_slow"


def test_a_machine_too_noisy_to_tell_changes_nothing(arena: Arena) -> None:
    noisy = [850.0, 1000.0, 1150.0] * 5
    verdict, _ = arena({500: laps(1000.0, 1000.0)}, by_itself={500: noisy})
    assert (verdict.failure, speed_of(verdict).sizes[0].notes) == (None, ())


def test_only_sizes_that_count_are_timed_again(arena: Arena) -> None:
    sizes = {500: laps(20.0, 20.0), 1000: laps(1000.0, 1000.0)}
    verdict, asked = arena(sizes, gpu=True, graph=laps(10.0, 10.0), by_itself={1000: 1000.0})
    assert asked == [(500, "stream"), (500, "graph"), (1000, "stream"), (1000, "torch_eager by itself")]
    assert verdict.failure is None


@pytest.mark.parametrize(
    "told",
    [laps(4000.0, 1000.0), Refused(tampered()), laps(100.0, 100.0)],
    ids=["too slow", "refused", "undecided"],
)
def test_a_verdict_that_gives_no_points_needs_no_confirmation(arena: Arena, told: Laps | Refused) -> None:
    assert arena({500: told}, by_itself={}) == arena({500: told})
