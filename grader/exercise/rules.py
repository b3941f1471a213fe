"""Define the rules that checks are decided by, as frozen data: what each asks for, and the facts it states of itself.

A rule imports no torch and runs nothing: `grader.judge.rules` decides by it, `grader.speed` times by a SpeedBand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import TYPE_CHECKING, ClassVar

from grader.errors import require
from grader.exercise.cases import Case, Cases, Size, Value
from grader.exercise.curves import Curves
from grader.exercise.formula import evaluate
from grader.gpus import ARCHITECTURES

if TYPE_CHECKING:
    # A part holds checks, and so rules.
    from grader.exercise.model import Part


class Rule:
    """Facts that a rule states about itself. Planning, grading and reports ask for these facts, never for types.

    order: checks of a part are judged in ascending order. judges_values: compares outputs with the oracle, case by
    case. demands_kernels: judges by what ran, and so the part's calls are recorded and replayed. counts_bytes: counts
    in the interpreter. gates_speed: a part is timed only after the check passed. is_shrunk: a failing case is shrunk.
    """

    order: ClassVar[int] = 0
    judges_values: ClassVar[bool] = False
    demands_kernels: ClassVar[bool] = False
    counts_bytes: ClassVar[bool] = False
    gates_speed: ClassVar[bool] = False
    is_shrunk: ClassVar[bool] = False

    @property
    def own_cases(self) -> Cases | None:
        """Cases that the judge runs; None for a rule that runs none of its own."""
        return None

    @property
    def sizes(self) -> Cases | None:
        """Cases that the rule is about, run by the judge or timed."""
        return self.own_cases

    def with_sizes(self, sizes: Cases) -> Rule:  # noqa: ARG002  for rules that have some
        """Return the same rule about other cases."""
        return self

    @property
    def band(self) -> SpeedBand | None:
        """The rule itself where it is timed; None for others."""
        return None

    @property
    def is_timed(self) -> bool:
        """True for a check on speed, which needs a GPU."""
        return self.band is not None

    @property
    def needs_interpreter(self) -> bool:
        """True where calls are interpreted even on a machine with a GPU."""
        return self.counts_bytes

    @property
    def targets(self) -> tuple[int, ...]:
        """Compute capabilities that kernels are compiled for; empty for a rule that asks no compiler."""
        return ()

    @property
    def carried(self) -> tuple[str, ...]:
        """Arguments that stay in memory from call to call."""
        return ()

    @property
    def allowed_operators(self) -> tuple[str, ...]:
        """ATen operators that the part permits beside its kernels."""
        return ()


@dataclass(frozen=True)
class RunsCases(Rule):
    """A rule that is decided by calls on cases."""

    cases: Cases

    @property
    def own_cases(self) -> Cases:
        """Cases that the judge runs."""
        return self.cases

    def with_sizes(self, sizes: Cases) -> Rule:
        """Return the same rule about other cases."""
        return replace(self, cases=sizes)


@dataclass(frozen=True)
class Agrees(RunsCases):
    """The rule that every output agrees with the oracle on every case.

    every_configuration: the largest named case is also run in every configuration of autotuned kernels, in the
    interpreter. Such a case should be small, and no usual tile should divide it.
    """

    judges_values = gates_speed = is_shrunk = True

    every_configuration: bool = False

    @property
    def needs_interpreter(self) -> bool:
        """True where some case is run in every configuration."""
        return self.every_configuration


@dataclass(frozen=True)
class Stateful(RunsCases):
    """The rule that calls that build on each other agree with the oracle at every step.

    A step calls the parts of `before`, in their order, and then the check's own part; a case has as many steps as its
    axis `steps` says. The builder of inputs makes the arguments named in `carries` for the very first call only; each
    later call finds them, in the same memory, as the call before left them. A builder gets `step` (0, 1, …), which is
    added to the case: it decides the other arguments, and what the carried ones must hold by then.
    """

    steps: str
    before: tuple[Part, ...]
    carries: tuple[str, ...]

    def __post_init__(self) -> None:
        counted = isinstance(self.cases.space.axes.get(self.steps), Size)
        require(counted, "Stateful.steps", "name a number among the axes, a Size", self.steps)
        require(len(self.carries) > 0, "Stateful.carries", "name at least one argument", self.carries)
        for part in self.before:
            known = set(self.carries) <= set(part.arguments)
            require(known, "Stateful.carries", f"be arguments of {part.name}", self.carries)

    @property
    def carried(self) -> tuple[str, ...]:
        """Arguments that stay in memory from call to call."""
        return self.carries


@dataclass(frozen=True)
class Fresh(RunsCases):
    """The rule that every call computes anew.

    Calls see new bytes in the same storage, one changed stretch, and the same bytes again. Results may not alias an
    input or an earlier result, and repeated calls agree: to the bit if the part says so.
    """

    gates_speed = True


@dataclass(frozen=True)
class UsesKernels(RunsCases):
    """The rule that the learner's kernels do the work, judged by what ran.

    Kernels were launched in every call, and no ATen operator computed. Kernels are replayed where nothing else of the
    submission runs, so a right answer is theirs; without them, a part's other checks earn nothing either.
    `allowed_operators` names ATen operators (such as "aten.sum") that this part permits beyond allocation, fills,
    views, copies, dtype casts and indices. `operations` names operations of CuTe (such as "cute.gemm") that must stand
    in what a call runs. `products_by_cute`: nothing else in it multiplies fractions. `program_axes`: axes of cases that
    show in a program of CuTe's: calls that differ in these alone do not run the same one on the same numbers.
    """

    demands_kernels = gates_speed = True
    # Last: it sums up what all other checks of the part saw.
    order = 1

    allowed_operators: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    products_by_cute: bool = False
    program_axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launches(RunsCases):
    """The rule that no call launches more than `most` kernels."""

    most: int = 1

    def __post_init__(self) -> None:
        require(self.most >= 1, "Launches.most", "be at least 1", self.most)


@dataclass(frozen=True)
class Allowance:
    """Bytes that a call may use, and how points fall with more of them.

    bytes: a formula (grader.exercise.formula) for what a good kernel uses. All points up to `full` times that, none
    from `none` times on, linear in between.
    """

    bytes: str
    full: float = 1.1
    none: float = 2.0

    def __post_init__(self) -> None:
        require(self.full >= 1, "Allowance.full", "be at least 1", self.full)
        require(self.full < self.none, "Allowance.full", f"lie in 1 … none ({self.none})", self.full)

    def bounds(self, case: Case) -> tuple[int, int]:
        """Return the most bytes that earn all points of the case, and the fewest that earn none."""
        needed = evaluate(self.bytes, case)
        return floor(self.full * needed), max(ceil(self.none * needed), floor(self.full * needed) + 1)

    def share(self, used: int, case: Case) -> float:
        """Return the share of the points for this many bytes."""
        return _linear_share(used, *self.bounds(case))


@dataclass(frozen=True)
class WorkModel(RunsCases):
    """The rule that bytes moved, stored and taken up stay within allowances: counted in the interpreter.

    moved: loaded and stored bytes together, each access counted. stored: the different bytes that are stored; storing
    again into the same place counts once, and so do atomics. extra: the most memory that tensors take up at one time
    beyond inputs and results. enlarged: the bytes by which copies that PyTorch makes are larger than what they copy:
    repeated for several heads, or cast to a wider type. again: what a program loads although it loaded it before, and
    has stored no result since. in_a_row: what it loads although its last load of the same tensor had it; for parts in
    which a program may pass over its inputs twice. A count without an allowance is not judged. The worst share of all
    counts and cases decides. copies: what PyTorch reads and writes to copy and cast counts as moved; for parts where
    kernels do the copying. everywhere: calls of other checks on cases of the space are judged as well; for parts whose
    honest designs never move more at small sizes than the formula says. models: small copies of timed sizes, with the
    same tiles; they are counted as well, judged by nothing, and scaled to predict the times of those sizes.
    """

    counts_bytes = True

    moved: Allowance | None = None
    stored: Allowance | None = None
    extra: Allowance | None = None
    enlarged: Allowance | None = None
    again: Allowance | None = None
    in_a_row: Allowance | None = None
    copies: bool = False
    everywhere: bool = False
    models: tuple[Mapping[str, Value], ...] = ()

    def __post_init__(self) -> None:
        counts = ("moved", "stored", "extra", "enlarged", "again", "in_a_row")
        limits: dict[str, Allowance | None] = {name: getattr(self, name) for name in counts}
        require(any(limits.values()), "WorkModel", "allow something", None)
        for name, limit in limits.items():
            for case in self.cases.named_cases if limit else ():
                least = evaluate(limit.bytes, case) if limit else 0.0
                require(least >= 0, f"WorkModel.{name}", f"be at least 0 for {case.words()}", least)
        require(isinstance(self.models, tuple), "WorkModel.models", "be a tuple of mappings", self.models)
        # A case outside the space is refused here.
        _ = self.model_cases

    @property
    def model_cases(self) -> tuple[Case, ...]:
        """Return the small copies, completed with the simplest value of every axis they leave open."""
        space = self.cases.space.without_bounds()
        return tuple(space.case(**values) for values in self.models)


@dataclass(frozen=True)
class Compiles(Rule):
    """The rule that a call's kernels compile for every target, whether such a GPU is there or not.

    The call is the one that is compiled for the scorecard (grader.grading.target_compiler.case_for). capabilities: the
    targets (grader.gpus). Each kernel must fit the target's shared memory and spill no registers; with
    `tensor_cores`, some kernel must multiply on tensor cores. Nothing besides the kernels may compute.
    """

    capabilities: tuple[int, ...]
    tensor_cores: bool = False

    def __post_init__(self) -> None:
        known = sorted(ARCHITECTURES)
        for capability in self.capabilities:
            require(capability in ARCHITECTURES, "Compiles.capabilities", f"be among {known}", capability)
        require(len(self.capabilities) > 0, "Compiles.capabilities", "name at least one target", self.capabilities)

    @property
    def targets(self) -> tuple[int, ...]:
        """Compute capabilities that kernels are compiled for."""
        return self.capabilities


@dataclass(frozen=True)
class RegretGroup:
    """Cases of a check on choices whose regret is bounded on its own: all points up to `full`, none from `none`.

    name: in the learner's words, as in "N at least 4·M". where: whether a case belongs to it.
    """

    name: str
    where: Callable[[Case], bool]
    full: float
    none: float

    def __post_init__(self) -> None:
        require(len(self.name) > 0, "RegretGroup.name", "be words", self.name)
        require(0 <= self.full < self.none, "RegretGroup.full", f"lie in 0 … none ({self.none})", self.full)

    def share(self, regret: float) -> float:
        """Return the share of the points for a regret of this group."""
        return _linear_share(regret, self.full, self.none)


@dataclass(frozen=True)
class Regret(RunsCases):
    """The rule that a part's choices cost little more than the best ones; for a part that returns one of its things.

    The oracle gives the cost of every possible answer: `<part>(*arguments)` returns costs [number of things], NaN if
    not known. A choice's regret is its cost over the least, less 1; over several cases the geometric mean of the ratios
    counts. All points at a regret of `full` or less, none at `none` or more, linear in between. `groups` have bounds of
    their own, so that a choice which ignores what they share is not hidden by all other cases; the least share counts.
    """

    full: float
    none: float
    groups: tuple[RegretGroup, ...] = ()

    def __post_init__(self) -> None:
        require(0 <= self.full < self.none, "Regret.full", f"lie in 0 … none ({self.none})", self.full)
        names = [group.name for group in self.groups]
        require(len(set(names)) == len(names), "Regret.groups", "have distinct names", names)

    def share(self, regret: float) -> float:
        """Return the share of the points for a regret."""
        return _linear_share(regret, self.full, self.none)


@dataclass(frozen=True)
class SpeedBand(Rule):
    """The rule on speed relative to a baseline over a suite of sizes: no points up to the `floor` ratio, all at `full`.

    A size's share of the points lies linearly between the two; the check's is the mean over the sizes that can be
    judged. A ratio is the baseline's time over the submission's, so above 1 the submission is faster.

    suite: the sizes, as named cases. bytes, flops: formulas (grader.exercise.formula) for the bytes that a call
    must move and the floating-point operations that it must do. baseline, fallbacks and shown_beside name baselines of
    grader.speed.baselines: if the baseline cannot run, the first of `fallbacks` that can takes its place, with the same
    floor and full. curves: what the scorecard draws over one of the axes.
    """

    baseline: str
    floor: float
    full: float
    suite: Cases
    bytes: str
    flops: str = "0"
    shown_beside: tuple[str, ...] = ()
    note: str = ""
    curves: Curves | None = None
    fallbacks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.baseline), "SpeedBand.baseline", "name a baseline", self.baseline)
        require(isinstance(self.fallbacks, tuple), "SpeedBand.fallbacks", "be a tuple of names", self.fallbacks)
        chain = (self.baseline, *self.fallbacks)
        require(len(set(chain)) == len(chain), "SpeedBand.fallbacks", "name other baselines, each once", self.fallbacks)
        require(0 <= self.floor < self.full, "SpeedBand.floor", f"lie in 0 … full ({self.full})", self.floor)
        require(self.suite.generated == 0, "SpeedBand.suite", "hold named cases only", self.suite.generated)
        for name in ("bytes", "flops"):
            for case in self.suite.named_cases:
                least = evaluate(getattr(self, name), case)
                require(least >= 0, f"SpeedBand.{name}", f"be at least 0 for {case.words()}", least)
        if self.curves is not None:
            known = self.suite.space.axes
            for axis in (self.curves.over, *self.curves.apart):
                require(axis in known, "SpeedBand.curves", f"name axes of the suite ({', '.join(known)})", axis)
            names = ("", self.baseline, *self.fallbacks, *self.shown_beside)
            require(self.curves.versus in names, "SpeedBand.curves", "name a baseline of the band", self.curves.versus)

    @property
    def sizes(self) -> Cases:
        """Cases that are timed."""
        return self.suite

    def with_sizes(self, sizes: Cases) -> Rule:
        """Return the same rule about another suite."""
        return replace(self, suite=sizes)

    @property
    def band(self) -> SpeedBand:
        """The rule itself."""
        return self


def _linear_share(value: float, full: float, none: float) -> float:
    """Return 1 up to `full`, 0 from `none` on, and linear values in between."""
    return min(max((none - value) / (none - full), 0.0), 1.0)
