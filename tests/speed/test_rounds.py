"""One timed case, with contenders that are invented: who is sampled when, on which inputs, and what is looked at."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.exercise.catalogue import Entry
from grader.protocol.answers import Prepared, Raised, Sampled, TunedChoice
from grader.protocol.baseline_messages import PrepareBaseline, Reveal, Revealed
from grader.protocol.requests import Method, Prepare, Sample, Show
from grader.sandbox.outcome import Died, TimedOut
from grader.speed import rounds
from grader.speed.baseline_process import BaselineProcessFailed
from grader.speed.rounds import Exposed, NotCapturable, Rounds, Samples, TimedCase
from grader.speed.verify import CannotBeTimed
from tests.racing import TINY, band_of

OURS = ""
OUTPUT = 4
WARM_UPS = 2
RAISED = Raised("raised", "crash", "ValueError", "no such luck", ())
CHOICE = TunedChoice(7, (2.0, 1.0), 1)
PREPARED = Prepared("prepared", (), (CHOICE,), 1)

# Of the n-th sample (warm-ups included) and its seed: what every element of the output is.
Answer = Callable[[int, int], float]


def right(_: int, seed: int) -> float:
    """The true answer for the inputs of a seed."""
    return float(seed % 997 + 1)


def wrong(count: int, seed: int) -> float:
    return right(count, seed) + 500.0


def sampled(value: float, device_us: float, *, exposed: bool) -> Sampled:
    return Sampled("sampled", device_us, ((value,),), ((abs(value),),), exposed, 4096)


@dataclass
class Track:
    """Who was sampled, in order, with which seed; and what was asked besides."""

    taken: list[tuple[str, Sample]] = field(default_factory=list)
    prepared: list[str] = field(default_factory=list)
    revealed: list[Reveal] = field(default_factory=list)

    def rounds(self) -> list[list[tuple[str, Sample]]]:
        """Return the samples of each round, warm-ups included."""
        found: dict[int, list[tuple[str, Sample]]] = {}
        for name, sample in self.taken:
            found.setdefault(sample.seed, []).append((name, sample))
        return [*found.values()]

    def looked_at(self) -> list[int]:
        """Return the rounds whose inputs were looked at, counted from the first that counts."""
        own = [sample for name, sample in self.taken if name == OURS]
        return [place - WARM_UPS for place, sample in enumerate(own) if sample.examines]


@dataclass
class Replayer:
    """In place of the process that replays the submission."""

    track: Track
    answer: Answer = right
    prepares: Any = PREPARED
    fails: dict[int, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    exposed: tuple[bool, ...] = ()
    runs_on_gpu: bool = True
    pid: int | None = None
    restarted: int = 0
    asked: list[Prepare] = field(default_factory=list)
    left: float = 0.0

    def prepare(self, wanted: Prepare, limit_s: float) -> Any:
        self.asked.append(wanted)
        return self.prepares

    def sample(self, wanted: Sample, limit_s: float) -> Any:
        count = sum(name == OURS for name, _ in self.track.taken)
        self.track.taken.append((OURS, wanted))
        if count in self.fails:
            return self.fails[count]
        self.left = self.answer(count, wanted.seed)
        found = sampled(self.left, 100.0, exposed=count < len(self.exposed) and self.exposed[count])
        return replace(found, changed=self.changes) if wanted.examines else found

    def show(self, wanted: Show) -> bytes:
        raw = torch.full((OUTPUT,), self.left).numpy().tobytes()
        return raw[wanted.first : wanted.first + wanted.count]

    def restart(self) -> int:
        self.restarted += 1
        return 0


@dataclass
class Baselines:
    """In place of the baseline process. answers: a baseline's, if they are wrong. unfit: those that cannot be
    prepared; breaks: those that fail at their n-th sample.
    """

    track: Track
    answers: dict[str, Answer] = field(default_factory=dict)
    times_us: dict[str, float] = field(default_factory=dict)
    exposed: frozenset[str] = frozenset()
    unfit: frozenset[str] = frozenset()
    breaks: dict[str, int] = field(default_factory=dict)
    is_running: bool = True
    pid: int = 0
    asked: list[PrepareBaseline] = field(default_factory=list)

    def prepare(self, wanted: PrepareBaseline) -> Prepared:
        self.asked.append(wanted)
        if wanted.baseline in self.unfit:
            raise BaselineProcessFailed(f"RuntimeError: no {wanted.baseline}")
        return Prepared("prepared", ())

    def sample(self, wanted: Sample) -> Sampled:
        count = sum(name == wanted.baseline for name, _ in self.track.taken)
        self.track.taken.append((wanted.baseline, wanted))
        if self.breaks.get(wanted.baseline) == count:
            raise BaselineProcessFailed(f"RuntimeError: {wanted.baseline} broke")
        value = self.answers.get(wanted.baseline, right)(count, wanted.seed)
        return sampled(value, self.times_us.get(wanted.baseline, 50.0), exposed=wanted.baseline in self.exposed)

    def reveal(self, wanted: Reveal) -> tuple[Revealed, bytes, bytes]:
        self.track.revealed.append(wanted)
        truth = torch.full((wanted.count,), right(0, wanted.recipe.seed), dtype=torch.float64)
        return (
            Revealed("float32", 0, OUTPUT),
            truth.numpy().tobytes(),
            torch.full_like(truth, 1e-3).numpy().tobytes(),
        )


@dataclass
class Contest:
    """A case whose baseline is eager torch, which the answers are compared with as well."""

    case: TimedCase
    track: Track
    replayer: Replayer
    baseline_process: Baselines
    running: Rounds

    def run(self, count: int = 12, **limits: Any) -> Samples:
        """Run so many rounds."""
        given = {"least": count, "most": count, "budget_s": 60.0, **limits}
        return self.running.run(given.pop("enough", lambda samples: True), **given)


Stage = Callable[..., Contest]


@pytest.fixture
def stage(ex_15: Entry, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Set up a contest: stage(beside=(…), replayer={…}, baseline_process={…}). Every run has the same chance."""
    part = ex_15.exercise.part("vector_add")
    assert part is not None
    case = band_of(part, TINY).suite.named_cases[0]

    def set_up(
        *,
        method: Method = "stream",
        baseline: str = "torch_eager",
        beside: tuple[str, ...] = (),
        witness: str | None = "torch_eager",
        chance: int = 17,
        replayer: dict[str, Any] | None = None,
        baseline_process: dict[str, Any] | None = None,
    ) -> Contest:
        monkeypatch.setattr(rounds, "_CHANCE", random.Random(chance))
        track = Track()
        ours, theirs = Replayer(track, **(replayer or {})), Baselines(track, **(baseline_process or {}))
        told: Any = SimpleNamespace(message={"a": "trace"}, untried=frozenset())
        timed = TimedCase(part, case, method, 1 << 12, (told,))
        running = Rounds(
            timed=timed,
            replayer=ours,  # type: ignore[arg-type]
            baseline_process=theirs,  # type: ignore[arg-type]
            path="/learner/ex_15.py",
            baseline=baseline,
            beside=beside,
            witness=witness,
        )
        return Contest(timed, track, ours, theirs, running)

    return set_up


def refused(contest: Contest, count: int = 12, **limits: Any) -> tuple[str, str]:
    """(status, kind) of the refusal that rounds end in."""
    with pytest.raises(CannotBeTimed) as found:
        contest.run(count, **limits)
    return found.value.failure.status, found.value.failure.cause.kind


# -- order and seeds -------------------------------------------------------------------------------------------------


def test_chance_comes_from_the_operating_system_where_nobody_foretells_it() -> None:
    assert isinstance(rounds._CHANCE, random.SystemRandom)


def test_every_contender_gets_the_round_s_seed_and_no_two_rounds_have_the_same(stage: Stage) -> None:
    contest = stage(beside=("cuda_cpp",))
    contest.run(6)
    found = contest.track.rounds()
    assert len(found) == WARM_UPS + 6
    for taken in found[WARM_UPS:]:
        assert sorted(name for name, _ in taken) == [OURS, "cuda_cpp", "torch_eager"]
    assert max(sample.seed for _, sample in contest.track.taken) > 1 << 50


def test_the_order_within_a_round_is_drawn_anew_every_time(stage: Stage) -> None:
    contest = stage(baseline="copy_roofline")
    contest.run(200)
    orders = Counter(tuple(name for name, _ in taken) for taken in contest.track.rounds())
    assert len(orders) == 6
    assert min(orders.values()) > 200 / 6 / 2


def test_baselines_are_prepared_on_all_cores_and_sampled_on_their_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = stage()
    seen: list[tuple[int, int]] = []

    @contextmanager
    def watched(processes: Sequence[int]) -> Iterator[None]:
        seen.append((len(contest.baseline_process.asked), len(contest.track.taken)))
        yield

    monkeypatch.setattr(rounds, "separate_cores", watched)
    contest.run(6)
    assert seen == [(1, 0)]


def test_warm_ups_do_not_count_and_the_n_th_samples_of_all_belong_together(stage: Stage) -> None:
    contest = stage(baseline_process={"times_us": {"torch_eager": 63.0}})
    samples = contest.run(7)
    assert len(contest.track.rounds()) == WARM_UPS + 7
    assert [len(samples.submission), len(samples.baselines["torch_eager"])] == [7, 7]
    assert {one.device_us for one in samples.submission} == {100.0}
    assert {one.device_us for one in samples.baselines["torch_eager"]} == {63.0}
    assert all(one.outside_us > 0 and one.peak_bytes == 4096 for one in samples.submission)


def test_what_is_only_shown_is_not_warmed_up(stage: Stage) -> None:
    contest = stage(baseline="copy_roofline", beside=("cuda_cpp",))
    contest.run(5)
    for taken in contest.track.rounds()[:WARM_UPS]:
        assert sorted(name for name, _ in taken) == [OURS, "copy_roofline", "torch_eager"]


def test_both_sides_prepare_the_same_case_and_what_was_tuned_is_kept(stage: Stage) -> None:
    contest = stage(beside=("copy_roofline",), method="graph")
    samples = contest.run(5)
    (ours,) = contest.replayer.asked
    assert ours.traces == ({"a": "trace"},)
    for theirs in contest.baseline_process.asked:
        assert (theirs.recipe, theirs.method) == (ours.call.recipe, ours.method)
        assert (theirs.cover_bytes, theirs.arguments) == (ours.cover_bytes, ours.call.arguments)
    assert [one.baseline for one in contest.baseline_process.asked] == ["torch_eager", "copy_roofline"]
    assert samples.choices == (CHOICE,)


# -- how many --------------------------------------------------------------------------------------------------------


def counts(samples: Samples) -> dict[str, int]:
    return {name: len(taken) for name, taken in samples.baselines.items()}


def test_what_is_only_shown_ends_early_and_the_slow_one_earlier(stage: Stage) -> None:
    contest = stage(
        beside=("cuda_cpp", "copy_roofline"),
        baseline_process={"times_us": {"cuda_cpp": 4e4, "copy_roofline": 10.0}},
    )
    samples = contest.run(20)
    assert counts(samples) == {"torch_eager": 20, "cuda_cpp": 3, "copy_roofline": 8}
    assert len(samples.submission) == 20


def test_the_baseline_and_what_answers_are_compared_with_take_part_in_every_round(stage: Stage) -> None:
    contest = stage(
        baseline="copy_roofline",
        beside=("cuda_cpp",),
        baseline_process={"times_us": {"copy_roofline": 4e4, "torch_eager": 4e4}},
    )
    assert counts(contest.run(20)) == {"copy_roofline": 20, "torch_eager": 20, "cuda_cpp": 8}


def test_it_ends_when_there_are_enough_which_is_asked_now_and_then_and_not_before_the_least(stage: Stage) -> None:
    asked: list[int] = []

    def enough(samples: Samples) -> bool:
        asked.append(len(samples.submission))
        return len(samples.submission) >= 20

    samples = stage().run(enough=enough, least=12, most=400)
    assert asked == [12, 17, 22]
    assert len(samples.submission) == 22


def test_it_ends_at_the_most_however_little_is_known(stage: Stage) -> None:
    assert len(stage().run(enough=lambda samples: False, least=4, most=33).submission) == 33


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let every sample of the submission take so many seconds by the clock that budgets go by."""
    now = [0.0]

    def by(seconds: float) -> None:
        real = Replayer.sample

        def sample(self: Replayer, wanted: Sample, limit_s: float) -> Any:
            now[0] += seconds
            return real(self, wanted, limit_s)

        monkeypatch.setattr(Replayer, "sample", sample)
        monkeypatch.setattr(rounds, "monotonic", lambda: now[0])

    return by


def test_a_budget_that_is_spent_ends_it_at_the_next_time_of_asking(
    stage: Stage, slowly: Callable[[float], None]
) -> None:
    slowly(0.1)
    samples = stage().run(enough=lambda samples: False, least=12, most=400, budget_s=1.5)
    assert len(samples.submission) == 17


@pytest.mark.parametrize("chance", range(12))
def test_samples_of_seconds_are_not_waited_for_as_often_but_one_is_always_looked_at(
    stage: Stage, slowly: Callable[[float], None], chance: int
) -> None:
    slowly(10.0)
    contest = stage(chance=chance)
    samples = contest.run(enough=lambda samples: False, least=12, most=400, budget_s=1.5)
    (looked_at,) = contest.track.looked_at()
    assert len(samples.submission) == max(5, looked_at + 1)


# -- exposed ---------------------------------------------------------------------------------------------------------


def test_launches_that_nothing_hides_are_told_before_anything_is_counted(stage: Stage) -> None:
    contest = stage(replayer={"exposed": (True, True)})
    with pytest.raises(Exposed):
        contest.run()
    assert len(contest.track.rounds()) == WARM_UPS
    assert contest.running.samples.submission == []


def test_so_are_those_of_the_baseline_but_not_of_what_answers_are_compared_with(stage: Stage) -> None:
    with pytest.raises(Exposed):
        stage(baseline_process={"exposed": {"torch_eager"}}).run()
    shown = stage(baseline="copy_roofline", baseline_process={"exposed": {"torch_eager"}})
    assert len(shown.run().submission) == 12


def test_so_are_those_that_only_warm_ups_hid_once_there_are_enough_rounds(stage: Stage) -> None:
    contest = stage(replayer={"exposed": (False, True, *[True] * 7)})
    with pytest.raises(Exposed):
        contest.run(12, most=100)
    assert len(contest.track.rounds()) == WARM_UPS + 12


@pytest.mark.parametrize(
    ("exposed", "method", "hidden", "gpu"),
    [
        ((True, False), "stream", True, True),
        ((False, True), "stream", True, True),
        ((True, True), "graph", True, True),
        ((True, True), "stream", False, True),
        ((True, True), "stream", True, False),
        ((False, False, *[True] * 6), "stream", True, True),
        ((False, False, *[True] * 12), "graph", True, True),
    ],
    ids=["the first", "the second", "a graph", "where nobody asks", "without a GPU", "half of them", "all of a graph"],
)
def test_otherwise_exposed_launches_are_timed_as_they_are(
    stage: Stage, exposed: tuple[bool, ...], method: Method, hidden: bool, gpu: bool
) -> None:
    contest = stage(method=method, replayer={"exposed": exposed, "runs_on_gpu": gpu})
    assert len(contest.run(hidden=hidden).submission) == 12


# -- what fails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [None, 0, 7], ids=["prepared", "warmed up", "sampled"])
def test_a_graph_that_fails_cannot_be_captured_and_the_process_is_replaced(stage: Stage, place: int | None) -> None:
    broken: dict[str, Any] = {"prepares": RAISED} if place is None else {"fails": {place: RAISED}}
    contest = stage(method="graph", replayer=broken)
    with pytest.raises(NotCapturable):
        contest.run()
    assert contest.replayer.restarted == 1


@pytest.mark.parametrize(
    ("outcome", "kind"), [(RAISED, "crash"), (TimedOut(20.0), "timeout"), (Died("was killed"), "crash")]
)
@pytest.mark.parametrize("place", [None, 0, 7], ids=["prepared", "warmed up", "sampled"])
def test_a_stream_that_fails_is_the_submission_s_failure(
    stage: Stage, place: int | None, outcome: Any, kind: str
) -> None:
    broken: dict[str, Any] = {"prepares": outcome} if place is None else {"fails": {place: outcome}}
    status, found = refused(stage(replayer=broken))
    assert found == kind
    assert status != "pass"


def test_a_baseline_beside_that_cannot_be_prepared_is_named_and_the_others_go_on(stage: Stage) -> None:
    contest = stage(beside=("cuda_cpp", "xla"), baseline_process={"unfit": {"xla"}})
    samples = contest.run()
    assert samples.dropped == {"xla": "RuntimeError: no xla"}
    assert counts(samples) == {"torch_eager": 12, "cuda_cpp": 8}


def test_a_baseline_beside_that_breaks_on_the_way_is_named_and_asked_no_more(stage: Stage) -> None:
    contest = stage(beside=("cuda_cpp",), baseline_process={"breaks": {"cuda_cpp": 5}})
    samples = contest.run()
    assert samples.dropped == {"cuda_cpp": "RuntimeError: cuda_cpp broke"}
    assert sum(name == "cuda_cpp" for name, _ in contest.track.taken) == 6
    assert len(samples.submission) == 12


@pytest.mark.parametrize("broken", [{"unfit": {"torch_eager"}}, {"breaks": {"torch_eager": 5}}])
def test_without_the_baseline_itself_there_is_no_verdict(stage: Stage, broken: dict[str, Any]) -> None:
    with pytest.raises(BaselineProcessFailed):
        stage(baseline_process=broken).run()


@pytest.mark.parametrize(("alive", "raised"), [(True, NotCapturable), (False, BaselineProcessFailed)])
def test_a_baseline_that_cannot_be_captured_is_no_fault_while_its_process_lives(
    stage: Stage, alive: bool, raised: type[Exception]
) -> None:
    contest = stage(method="graph", baseline_process={"unfit": {"torch_eager"}, "is_running": alive})
    with pytest.raises(raised):
        contest.run()


# -- what is looked at -----------------------------------------------------------------------------------------------


def test_one_round_is_looked_at_and_which_is_drawn_among_the_first_that_are_always_run(stage: Stage) -> None:
    found = []
    for chance in range(120):
        contest = stage(chance=chance)
        contest.run(least=6, most=9, enough=lambda samples: False)
        (place,) = contest.track.looked_at()
        # The oracle sees the very inputs of that round.
        own = [sample for name, sample in contest.track.taken if name == OURS]
        assert {one.recipe.seed for one in contest.track.revealed} == {own[WARM_UPS + place].seed}
        found.append(place)
    assert set(found) == set(range(6))


def test_answers_like_the_baseline_s_need_no_oracle_but_in_that_round_and_there_a_portion_will_do(
    stage: Stage,
) -> None:
    contest = stage()
    contest.run(30, least=12)
    assert {one.chance is None for one in contest.track.revealed} == {False}
    assert len({one.recipe.seed for one in contest.track.revealed}) == 1


@pytest.mark.parametrize("place", [0, 1, 5, 11])
def test_one_wrong_answer_in_any_round_is_wrong_when_timed(stage: Stage, place: int) -> None:
    def once(count: int, seed: int) -> float:
        return (wrong if count == place else right)(count, seed)

    contest = stage(replayer={"answer": once})
    assert refused(contest) == ("fail", "wrong_when_timed")
    assert len(contest.track.rounds()) == place + 1
    # All of it is looked at, and no portion.
    assert contest.track.revealed[-1].chance is None


def test_the_answer_to_an_earlier_round_s_inputs_is_wrong_when_timed(stage: Stage) -> None:
    contest = stage()
    first: list[float] = []

    def stale(count: int, seed: int) -> float:
        first.append(right(count, seed))
        return first[0]

    contest.replayer.answer = stale
    assert refused(contest) == ("fail", "wrong_when_timed")
    assert len(contest.track.rounds()) == 2


def test_where_the_oracle_agrees_with_the_submission_a_baseline_that_differs_does_not_matter(stage: Stage) -> None:
    contest = stage(baseline_process={"answers": {"torch_eager": wrong}})
    assert len(contest.run().submission) == 12
    assert len({one.recipe.seed for one in contest.track.revealed}) == WARM_UPS + 12


def test_without_a_baseline_that_computes_answers_are_compared_in_the_round_that_is_looked_at(stage: Stage) -> None:
    contest = stage(baseline="copy_roofline", witness=None, replayer={"answer": wrong})
    assert refused(contest) == ("fail", "wrong_when_timed")
    (place,) = contest.track.looked_at()
    assert len(contest.track.rounds()) == WARM_UPS + place + 1


def test_an_input_that_is_changed_is_found_in_the_round_that_is_looked_at(stage: Stage) -> None:
    contest = stage(replayer={"changes": ("x",)})
    assert refused(contest) == ("fail", "input_changed")
    (place,) = contest.track.looked_at()
    assert len(contest.track.rounds()) == WARM_UPS + place + 1
