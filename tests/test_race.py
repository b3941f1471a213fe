"""A race: everybody runs on the same fresh inputs, in random order, and every call of the submission is looked behind.

Session and anchor are played by fakes: the protocol has tests of its own, and here whatever they do is said in a line.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.catalogue import Entry
from grader.protocol.messages import Clocked, Form, Launch, Open, Raised, Recipe, Revealed, Timed
from grader.protocol.spans import spans, word_sum
from grader.sandbox.outcome import Clocking, Died
from grader.speed import race
from grader.speed.anchor import AnchorFailed
from grader.speed.race import Course, Laps, NotCapturable, Race, alone
from grader.speed.verify import Refused
from tests.racing import TINY, band_of

KERNEL = (Launch("kernel", (), {}),)


def answer_of(seed: int) -> Tensor:
    """What every honest contender computes from the inputs of a seed."""
    return torch.randn(int(TINY["N"]), generator=torch.Generator().manual_seed(seed % 2**32))


def raw(tensor: Tensor) -> bytes:
    return tensor.view(torch.uint8).numpy().tobytes()


def clocking(output: Tensor, cover: int, device_us: float = 1.0, launches: tuple[Launch, ...] = KERNEL) -> Clocking:
    data = raw(output)
    sums = tuple(word_sum(data[first : first + count]) for first, count in spans(len(data)))
    form = Form("tensor", str(output.dtype).removeprefix("torch."), tuple(output.shape), "cpu")
    return Clocking(Clocked("clocked", device_us, (form,), launches, ()), (*sums, cover), device_us + 100)


@dataclass
class FakeSession:
    """A submission: honest, but for what is changed."""

    pid: int | None = None
    log: list[tuple[str, int, float]] = field(default_factory=list)
    restarts: int = 0
    stopped: bool = False
    _output: Tensor = field(default_factory=lambda: torch.zeros(1))

    def timed(self, timed: Timed, seed: int, limit_s: float) -> Any:
        assert timed.recipe.seed == 0
        assert not self.stopped
        self.log.append((timed.function, seed, limit_s))
        self._output = self.compute(seed)
        return self.answered(seed)

    def compute(self, seed: int) -> Tensor:
        return answer_of(seed)

    def answered(self, seed: int) -> Any:
        return clocking(self._output, seed % 997)

    def open(self, wanted: Open) -> bytes | None:
        return raw(self._output)[wanted.first : wanted.first + wanted.count]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        self.stopped = True
        try:
            yield
        finally:
            self.stopped = False

    def restart(self) -> None:
        self.restarts += 1


@dataclass
class FakeAnchor:
    """Baselines that all compute the truth; those in `failing` raise from their `after`-th call on."""

    failing: dict[str, int] = field(default_factory=dict)
    pid: int = 0
    log: list[tuple[str, int]] = field(default_factory=list)
    revealed: list[Recipe] = field(default_factory=list)
    _output: Tensor = field(default_factory=lambda: torch.zeros(1))

    def timed(self, timed: Timed, seed: int) -> Clocking:
        self.log.append((timed.function, seed))
        calls = sum(name == timed.function for name, _ in self.log)
        if calls > self.failing.get(timed.function, 1 << 30):
            raise AnchorFailed(f"{timed.function} broke")
        self._output = answer_of(seed)
        return clocking(self._output, seed % 997, 2.0)

    def open(self, wanted: Open) -> bytes:
        return raw(self._output)[wanted.first : wanted.first + wanted.count]

    def reveal(self, recipe: Recipe, output: int, first: int, count: int) -> tuple[Revealed, bytes, bytes]:
        self.revealed.append(recipe)
        part = answer_of(recipe.seed)[first : first + count].double()
        return Revealed("float32", (int(TINY["N"]),)), raw(part), raw(torch.full_like(part, 1e-6))


@pytest.fixture(autouse=True)
def _the_same_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "_CHANCE", random.Random(17))


@pytest.fixture
def course(ex_15: Entry) -> Course:
    part = ex_15.exercise.part("vector_add")
    assert part is not None
    return Course(part, band_of(part, TINY).suite.named[0], "stream", 1 << 20)


def raced(course: Course, session: FakeSession, anchor: FakeAnchor | None = None, **changes: Any) -> Race:
    given = {"baseline": "torch_eager", "witness": "torch_eager", "allowed_operators": ()}
    return Race(course, session, anchor or FakeAnchor(), "/learner/ex_15.py", **{**given, **changes})  # type: ignore[arg-type]


def run(one: Race, rounds: int = 7, **limits: Any) -> Laps:
    given = {"least": rounds, "most": rounds, "budget_s": 600.0}
    return one.run(lambda laps, spent: False, **{**given, **limits})


def refusal(one: Race) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        run(one)
    return refused.value.failure.status, refused.value.failure.cause.kind


# -- rounds ----------------------------------------------------------------------------------------------------------


def test_everybody_runs_once_in_every_round_on_the_inputs_of_that_round(course: Course) -> None:
    session, anchor = FakeSession(), FakeAnchor()
    laps = run(raced(course, session, anchor, beside=("cuda_cpp",)))
    assert len(laps.submission) == len(laps.baselines["torch_eager"]) == len(laps.baselines["cuda_cpp"]) == 7
    seeds = [seed for _, seed, _ in session.log]
    assert len(set(seeds)) == len(seeds) == 9
    for name in ("torch_eager", "cuda_cpp"):
        assert [seed for one, seed in anchor.log if one == name] == seeds


def test_the_clocks_of_a_lap_are_the_process_s_own_and_the_one_outside(course: Course) -> None:
    laps = run(raced(course, FakeSession()))
    assert {(lap.device_us, lap.outside_us) for lap in laps.submission} == {(1.0, 101.0)}
    assert {(lap.device_us, lap.outside_us) for lap in laps.baselines["torch_eager"]} == {(2.0, 102.0)}


def test_the_order_within_a_round_is_left_to_chance(course: Course) -> None:
    orders = set()
    session, anchor = FakeSession(), FakeAnchor()
    shared: list[str] = []
    session.log, anchor.log = _Told(shared, "submission"), _Told(shared, "anchor")  # type: ignore[assignment]
    run(raced(course, session, anchor), rounds=20)
    orders = {tuple(shared[i : i + 2]) for i in range(4, len(shared), 2)}
    assert orders == {("submission", "anchor"), ("anchor", "submission")}


def test_the_submission_stands_still_while_a_baseline_runs(course: Course) -> None:
    session, seen = FakeSession(), []

    class Looking(FakeAnchor):
        def timed(self, timed: Timed, seed: int) -> Clocking:
            seen.append(session.stopped)
            return super().timed(timed, seed)

    run(raced(course, session, Looking(), beside=("cuda_cpp",)))
    # Two baselines, in two warm-ups and seven rounds.
    assert seen == [True] * 18
    assert not session.stopped


class _Told(list[Any]):
    """A log that also says in a shared one whose turn it was."""

    def __init__(self, shared: list[str], name: str) -> None:
        super().__init__()
        self._shared, self._name = shared, name

    def append(self, value: Any) -> None:
        self._shared.append(self._name)
        super().append(value)


def test_warm_ups_do_not_count_and_the_first_call_may_take_its_time(course: Course) -> None:
    session = FakeSession()
    assert len(run(raced(course, session), rounds=1).submission) == 1
    assert [limit_s for _, _, limit_s in session.log] == [180.0, 180.0, 20.0]


def test_it_ends_when_enough_is_known_and_asks_now_and_then(course: Course) -> None:
    asked: list[int] = []

    def enough(laps: Laps, spent: float) -> bool:
        asked.append(len(laps.submission))
        return len(asked) == 3

    laps = raced(course, FakeSession()).run(enough, least=4, most=400, budget_s=600.0, every=5)
    assert asked == [4, 9, 14]
    assert len(laps.submission) == 14


@pytest.mark.parametrize(("budget_s", "rounds"), [(-1.0, 4), (-1000.0, 4), (600.0, 17)])
def test_it_ends_when_the_time_is_over_but_not_before_the_least_rounds(
    course: Course, budget_s: float, rounds: int
) -> None:
    assert len(run(raced(course, FakeSession()), least=4, most=17, budget_s=budget_s).submission) == rounds


def test_where_calls_take_seconds_a_few_rounds_must_do(course: Course) -> None:
    assert len(run(raced(course, FakeSession()), least=20, most=400, budget_s=-1000.0).submission) == 5


def test_those_beside_leave_after_their_rounds_and_the_witness_stays(course: Course) -> None:
    one = raced(course, FakeSession(), baseline="copy_roofline", beside=("cuda_cpp", "xla"), beside_rounds=3)
    laps = run(one)
    assert {name: len(found) for name, found in laps.baselines.items()} == {
        "copy_roofline": 7,
        "torch_eager": 7,
        "cuda_cpp": 3,
        "xla": 3,
    }


class Slow(FakeAnchor):
    """All but the baseline of the points take `seconds` a call, by their own process's clock; the first call longer."""

    seconds = 0.0

    def timed(self, timed: Timed, seed: int) -> Clocking:
        ran = super().timed(timed, seed)
        if timed.function == "torch_eager":
            return ran
        seconds = self.seconds if any(name == timed.function for name, _ in self.log[:-1]) else 30.0
        return replace(ran, answer=replace(ran.answer, device_us=seconds * 1e6))


@pytest.mark.parametrize(
    ("seconds", "calls", "kept"),
    [(0.02, 2 + 20, 20), (0.16, 2 + 10, 10), (0.29, 2 + 6, 6), (0.31, 2, 0)],
)
def test_a_slow_baseline_beside_runs_a_few_times_and_one_that_is_slower_still_not_at_all(
    course: Course, seconds: float, calls: int, kept: int
) -> None:
    anchor = Slow()
    anchor.seconds = seconds
    laps = run(raced(course, FakeSession(), anchor, beside=("xla",)), rounds=30)
    assert sum(name == "xla" for name, _ in anchor.log) == calls
    assert len(laps.baselines.get("xla", [])) == kept
    assert len(laps.baselines["torch_eager"]) == len(laps.submission) == 30
    # It did not fail: at other sizes it takes part.
    assert laps.dropped == {}


def test_what_baselines_beside_take_is_not_taken_from_the_time_of_the_others(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(race, "monotonic", lambda: now[0])

    class Ticking(FakeAnchor):
        def timed(self, timed: Timed, seed: int) -> Clocking:
            now[0] += 100.0 if timed.function == "xla" else 1.0
            return super().timed(timed, seed)

    laps = run(raced(course, FakeSession(), Ticking(), beside=("xla",)), least=1, rounds=9, budget_s=9.5, every=1)
    assert len(laps.submission) == 9


@pytest.mark.parametrize(("after", "kept"), [(0, 0), (1, 0), (4, 2)])
def test_a_baseline_beside_that_fails_is_left_out_and_the_reason_kept(course: Course, after: int, kept: int) -> None:
    laps = run(raced(course, FakeSession(), FakeAnchor({"cuda_cpp": after}), beside=("cuda_cpp",)))
    assert laps.dropped == {"cuda_cpp": "cuda_cpp broke"}
    assert len(laps.baselines.get("cuda_cpp", [])) == kept
    assert len(laps.submission) == 7


def test_by_itself_the_baseline_runs_a_few_times_on_inputs_of_their_own_and_warm_ups_do_not_count(
    course: Course,
) -> None:
    class Warming(FakeAnchor):
        def timed(self, timed: Timed, seed: int) -> Clocking:
            ran = super().timed(timed, seed)
            return replace(ran, answer=replace(ran.answer, device_us=float(len(self.log))))

    anchor = Warming()
    assert alone(course, anchor, "torch_eager") == [float(i) for i in range(3, 18)]  # type: ignore[arg-type]
    assert [name for name, _ in anchor.log] == ["torch_eager"] * 17
    assert len({seed for _, seed in anchor.log}) == 17


@pytest.mark.parametrize("after", [0, 4])
def test_without_the_baseline_itself_there_is_no_race(course: Course, after: int) -> None:
    with pytest.raises(AnchorFailed, match="torch_eager broke"):
        run(raced(course, FakeSession(), FakeAnchor({"torch_eager": after})))


# -- what is looked for behind every call ----------------------------------------------------------------------------


class Late(FakeSession):
    """Commits to nothing in particular; what it shows is right."""

    def answered(self, seed: int) -> Any:
        honest = clocking(self._output, seed % 997)
        return replace(honest, sums=tuple(one + 1 for one in honest.sums[:-1]) + honest.sums[-1:])


class Stale(FakeSession):
    def compute(self, seed: int) -> Tensor:
        return answer_of(7)


class StaleFromThirdCall(FakeSession):
    """Alternates between two old answers: no two in a row are alike."""

    def compute(self, seed: int) -> Tensor:
        return answer_of(seed if len(self.log) <= 2 else len(self.log) % 2)


class SkipsTheCover(FakeSession):
    def answered(self, seed: int) -> Any:
        return clocking(self._output, 0)


class OfAnotherDtype(FakeSession):
    def compute(self, seed: int) -> Tensor:
        return answer_of(seed).half()


class WithoutKernels(FakeSession):
    def answered(self, seed: int) -> Any:
        return clocking(self._output, seed % 997, launches=())


class Silent(FakeSession):
    def open(self, wanted: Open) -> bytes | None:
        return None


class Slightly(FakeSession):
    """Wrong by less than two honest roundings could be told by."""

    def compute(self, seed: int) -> Tensor:
        return answer_of(seed) * 1.001


@pytest.mark.parametrize(
    ("session", "status", "kind"),
    [
        (Late, "fail", "changed_after_timing"),
        (Silent, "fail", "changed_after_timing"),
        (Stale, "fail", "wrong_when_timed"),
        (StaleFromThirdCall, "fail", "wrong_when_timed"),
        (Slightly, "fail", "wrong_when_timed"),
        (SkipsTheCover, "policy", "measurement_skipped"),
        (OfAnotherDtype, "fail", "wrong_form"),
        (WithoutKernels, "policy", "no_kernel"),
    ],
)
def test_a_call_that_was_not_what_it_should_be_is_refused(
    course: Course, session: type[FakeSession], status: str, kind: str
) -> None:
    assert refusal(raced(course, session())) == (status, kind)


def test_an_answer_from_before_is_stale_where_the_first_one_was_right(course: Course) -> None:
    class Remembering(FakeSession):
        def compute(self, seed: int) -> Tensor:
            return answer_of(self.log[0][1])

    assert refusal(raced(course, Remembering())) == ("fail", "stale_result")


def test_without_a_witness_the_truth_alone_finds_a_wrong_answer(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "_STRICT_CHANCE", 1.0)
    assert refusal(raced(course, StaleFromThirdCall(), witness=None)) == ("fail", "wrong_when_timed")


def test_where_no_technique_is_asked_for_none_is_needed(course: Course) -> None:
    assert len(run(raced(course, WithoutKernels(), allowed_operators=None)).submission) == 7


def test_a_submission_that_raises_or_dies_gets_the_verdict_that_it_would_get_untimed(course: Course) -> None:
    class Raising(FakeSession):
        def answered(self, seed: int) -> Any:
            return Raised("raised", "oom", "OutOfMemoryError", "CUDA out of memory", (), False)

    class Dying(FakeSession):
        def answered(self, seed: int) -> Any:
            return Died("was killed by SIGSEGV", 11)

    assert refusal(raced(course, Raising()))[0] == "oom"
    assert refusal(raced(course, Dying()))[0] == "crash"


def test_a_graph_that_cannot_be_captured_costs_the_process_and_no_verdict(course: Course) -> None:
    class Raising(FakeSession):
        def answered(self, seed: int) -> Any:
            return Raised("raised", "crash", "RuntimeError", "operation not permitted", (), False)

    session = Raising()
    with pytest.raises(NotCapturable):
        run(raced(replace(course, method="graph"), session))
    assert session.restarts == 1


def test_a_graph_s_replay_launches_nothing_of_python_s_and_needs_no_technique(course: Course) -> None:
    assert len(run(raced(replace(course, method="graph"), WithoutKernels())).submission) == 7


def test_the_truth_is_asked_for_several_pieces_of_the_first_call_and_now_and_then(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(race, "_STRICT_CHANCE", 0.0)
    session, anchor = FakeSession(), FakeAnchor()
    run(raced(course, session, anchor))
    first = session.log[0][1]
    # Once for the form, then for four pieces.
    assert [recipe.seed for recipe in anchor.revealed] == [first] * 5
