"""What an exercise is: frozen data that checks itself when it is built.

    Exercise ─┬─ Part ─┬─ Check ── one rule: Agrees | Stateful | Fresh | UsesKernels | Launches |
              │        │           WorkModel | Compiles | Regret | SpeedBand
              │        ├─ Tolerance
              │        └─ Package
              └─ Limits

A bad specification raises SpecError and names the field. Nobody subclasses anything to add an exercise, and nothing
here imports torch: reading every specification takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import ClassVar, Literal

from grader.errors import require
from grader.exercise.cases import Case, Cases, Size, Value
from grader.exercise.causes import Contrast, Kind
from grader.exercise.formula import evaluate
from grader.exercise.gpus import ARCHITECTURES


@dataclass(frozen=True)
class Tolerance:
    """How far an output may lie from the float64 oracle. Derived on every case, never a constant:

        allowed = factor × honest error + result_ulps × ulp(expected) + accumulation_ulps × ulp32(oracle(|inputs|))

    The honest error is the largest that the oracle's `<part>_honest` variants, plain computations in the working
    precision, make on that very case, within `group` consecutive elements of the last axis (0: the whole row), so that
    a row of small numbers is not judged by a row of large ones. The last term is a componentwise rounding bound for
    sums: it keeps a lucky honest error of zero from failing another summation order.
    """

    factor: float = 4.0
    result_ulps: float = 1.0
    accumulation_ulps: float = 0.0
    group: int = 0

    def __post_init__(self) -> None:
        require(self.factor >= 0, "Tolerance.factor", "be at least 0", self.factor)
        require(
            self.result_ulps >= 0.5, "Tolerance.result_ulps", "be at least 0.5 (one correct rounding)", self.result_ulps
        )
        require(self.accumulation_ulps >= 0, "Tolerance.accumulation_ulps", "be at least 0", self.accumulation_ulps)
        require(self.group >= 0, "Tolerance.group", "be at least 0", self.group)


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
    """Passes when every output agrees with the oracle on every case.

    every_configuration: the largest canonical case is also run in every configuration of autotuned kernels, in the
    interpreter: such a case should be small, and no usual tile should divide it.
    """

    judges_values = gates_speed = is_shrunk = True

    every_configuration: bool = False

    @property
    def needs_interpreter(self) -> bool:
        """True where some case is run in every configuration."""
        return self.every_configuration


@dataclass(frozen=True)
class Stateful(RunsCases):
    """Passes when calls that build on each other agree with the oracle at every step.

    A step calls the parts of `before`, in their order, and then the check's own part; a case has as many steps as its
    axis `steps` says. Arguments named in `carries` come from the builder of inputs in the very first call only: after
    that each call finds them, in the same memory, as the call before left them. A builder learns from `step` (0, 1, …),
    which is added to the case, what the other arguments are, and what those that are carried must by then hold.
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
    """Passes when every call computes anew: new bytes in the same storage, one changed stretch, the same bytes again.

    Results may not alias an input or an earlier result, and repeated calls agree: to the bit where the part says so.
    """

    gates_speed = True


@dataclass(frozen=True)
class UsesKernels(RunsCases):
    """Passes when the learner's kernels do the work, judged by what ran.

    Kernels were launched in every call, and no ATen operator computed. Kernels are replayed where nothing else of the
    submission runs, so a right answer is theirs; without them, a part's other checks earn nothing either.
    `allowed_operators` names ATen operators (such as
    "aten.sum") that this part permits beyond allocation, fills, views, copies, dtype casts and indices. `operations`
    names operations of CuTe (such as "cute.gemm") that must stand in what a call runs.
    """

    demands_kernels = gates_speed = True
    # Last: it sums up what all other checks of the part saw.
    order = 1

    allowed_operators: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launches(RunsCases):
    """Passes when no call launches more than `most` kernels."""

    most: int = 1

    def __post_init__(self) -> None:
        require(self.most >= 1, "Launches.most", "be at least 1", self.most)


@dataclass(frozen=True)
class Allowance:
    """Bytes that a call may use, and what more of them costs.

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
        """The most bytes that earn all points of the case, and the fewest that earn none."""
        needed = evaluate(self.bytes, case)
        return floor(self.full * needed), max(ceil(self.none * needed), floor(self.full * needed) + 1)

    def share(self, used: int, case: Case) -> float:
        """The share of the points that so many bytes earn."""
        full, none = self.bounds(case)
        return min(max((none - used) / (none - full), 0.0), 1.0)


@dataclass(frozen=True)
class WorkModel(RunsCases):
    """Bytes that calls move, store and take up, each within an allowance: counted in the interpreter.

    moved: what is loaded and stored together, each access counted. stored: the different bytes that are stored; storing
    again into the same place counts once, and so do atomics. extra: the most memory that tensors take up at one time
    beyond inputs and results. What has no allowance is not judged. The worst share of all counts and cases decides.
    everywhere: calls of other checks on cases of the space are meant as well; for parts of which no honest design
    moves more at small sizes than the formula says.
    """

    counts_bytes = True

    moved: Allowance | None = None
    stored: Allowance | None = None
    extra: Allowance | None = None
    everywhere: bool = False

    def __post_init__(self) -> None:
        limits = {"moved": self.moved, "stored": self.stored, "extra": self.extra}
        require(any(limits.values()), "WorkModel", "allow something", None)
        for name, limit in limits.items():
            for case in self.cases.named if limit else ():
                least = evaluate(limit.bytes, case) if limit else 0.0
                require(least >= 0, f"WorkModel.{name}", f"be at least 0 for {case.words()}", least)


@dataclass(frozen=True)
class Compiles(Rule):
    """Passes when the kernels that a call launches compile for every target, whether such a GPU is there or not.

    The call is the one that is compiled for the scorecard (grader.judge.compiler.case_for). capabilities: the targets
    (grader.exercise.gpus). Each kernel must fit the target's shared memory and spill no registers; with
    `tensor_cores`, some kernel must multiply on tensor cores.
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
class Regret(RunsCases):
    """How much more than the best its choices cost, for a part that chooses one of the things it is given.

    What every possible answer costs is the oracle's to say: `<part>(*arguments)` gives the costs [number of things],
    NaN for what is not known. A choice's regret is its cost over the least, less 1; over several cases the geometric
    mean of the ratios counts. All points at a regret of `full` or less, none at `none` or more, linear in between.
    """

    full: float
    none: float

    def __post_init__(self) -> None:
        require(0 <= self.full < self.none, "Regret.full", f"lie in 0 … none ({self.none})", self.full)

    def share(self, regret: float) -> float:
        """The share of the points that a regret earns."""
        return min(max((self.none - regret) / (self.none - self.full), 0.0), 1.0)


@dataclass(frozen=True)
class Curves:
    """Figures over one axis of a suite: how fast every contender is along it, and how much memory it takes.

    over: the axis. apart: axes whose values get a panel each; other axes may vary along with `over`. quantity: what
    speed is drawn as. versus: the baseline that the submission's speed-up and saved memory are told of, and what it is
    called there; empty for none.
    """

    over: str
    quantity: Literal["tflops", "tbps", "time"]
    apart: tuple[str, ...] = ()
    versus: str = ""
    versus_title: str = ""


@dataclass(frozen=True)
class SpeedBand(Rule):
    """Speed relative to a baseline over a suite of sizes: no points at or below the `floor` ratio, all at `full`.

    A size's share of the points lies linearly between the two; the check's is the mean over the sizes that can be
    judged. A ratio is the baseline's time over the submission's, so above 1 the submission is faster.

    suite: the sizes, as canonical cases. bytes, flops: formulas (grader.exercise.formula) for the bytes that a call
    must move and the floating-point operations that it must do. baseline, fallbacks and shown_beside name baselines of
    grader.speed.baselines: where the baseline cannot run, the first of `fallbacks` that can takes its place, with the
    same floor and full. curves: what the scorecard draws over one of the axes.
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
        require(self.suite.generated == 0, "SpeedBand.suite", "hold canonical cases only", self.suite.generated)
        for name in ("bytes", "flops"):
            for case in self.suite.named:
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


@dataclass(frozen=True)
class Check:
    """One line of the scorecard: a sentence about behaviour, its points, and the rule that decides it."""

    name: str
    title: str
    points: float
    objective: str
    rule: Rule

    def __post_init__(self) -> None:
        require(
            self.name.isidentifier() and len(self.name) <= 32,
            "Check.name",
            "be an identifier of at most 32 characters",
            self.name,
        )
        require(bool(self.title.strip()), "Check.title", "be a sentence", self.title)
        require(self.points >= 0, "Check.points", "be at least 0", self.points)
        require(bool(self.objective.strip()), "Check.objective", "name a learning objective", self.objective)
        require(isinstance(self.rule, Rule), "Check.rule", "be one of the rules of grader.exercise.model", self.rule)

    @property
    def cases(self) -> Cases | None:
        """The cases that the rule runs, or None for a rule that runs none of its own."""
        return self.rule.own_cases


@dataclass(frozen=True)
class Package:
    """What a part cannot be judged without: a module, and the command that installs it."""

    module: str
    command: str

    def __post_init__(self) -> None:
        require(self.module.isidentifier(), "Package.module", "be a top-level module's name", self.module)
        require(bool(self.command.strip()), "Package.command", "be a command", self.command)


@dataclass(frozen=True)
class Part:
    """One function of the stub: how it is called, what it is judged by, and three hints from vague to plain.

    `mutates` names arguments that the contract changes in place: their contents after the call are outputs, listed
    after the returned ones. `deterministic` promises equal bits for equal inputs. `on` says where the function runs: on
    the "cpu" or the "gpu", whatever the machine has, or where kernels run. `tensors` says what it is given: torch's, or
    CuTe's, as cutlass.cute.runtime.from_dlpack makes them. `chooses` names the argument that holds the things of which
    it returns one. `needs` are packages that an installation may lack. `defaults` are the values of the last arguments
    that a caller may leave out, by name; some cases do. `bounds` says in words of shapes what bounds the values of
    arguments, by name: what launch code may use in their place.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    tolerance: Tolerance
    checks: tuple[Check, ...]
    hints: tuple[str, str, str]
    mutates: tuple[str, ...] = ()
    deterministic: bool = True
    on: Literal["", "cpu", "gpu"] = ""
    tensors: Literal["torch", "cute"] = "torch"
    chooses: str = ""
    needs: tuple[Package, ...] = ()
    defaults: Mapping[str, Value | None] = field(default_factory=dict)
    bounds: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.name.isidentifier(), "Part.name", "be the name of the stub's function", self.name)
        for listed in ("arguments", "outputs", "mutates"):
            value = getattr(self, listed)
            require(isinstance(value, tuple), f"Part {self.name}: {listed}", "be a tuple of names", value)
        require(len(self.arguments) > 0, f"Part {self.name}: arguments", "name at least one argument", self.arguments)
        require(
            len(self.outputs) + len(self.mutates) > 0,
            f"Part {self.name}: outputs",
            "name at least one output",
            self.outputs,
        )
        last = self.arguments[len(self.arguments) - len(self.defaults) :]
        require(last == tuple(self.defaults), f"Part {self.name}: defaults", "name the last arguments", self.defaults)
        chosen_from = ("", *self.arguments)
        require(self.chooses in chosen_from, f"Part {self.name}: chooses", "name an argument", self.chooses)
        require(set(self.mutates) <= set(self.arguments), f"Part {self.name}: mutates", "name arguments", self.mutates)
        require(set(self.bounds) <= set(self.arguments), f"Part {self.name}: bounds", "name arguments", self.bounds)
        require(len(self.hints) == 3 and all(self.hints), f"Part {self.name}: hints", "be three sentences", self.hints)
        require(len(self.checks) > 0, f"Part {self.name}: checks", "hold at least one check", self.checks)
        names = [check.name for check in self.checks]
        require(len(set(names)) == len(names), f"Part {self.name}: checks", "have distinct names", names)
        carried = {name for check in self.checks for name in check.rule.carried}
        require(carried <= set(self.arguments), f"Part {self.name}: Stateful.carries", "name arguments", carried)

    @property
    def points(self) -> float:
        """The points of all its checks."""
        return sum(check.points for check in self.checks)

    @property
    def bands(self) -> tuple[SpeedBand, ...]:
        """The rules of its checks on speed."""
        return tuple(check.rule.band for check in self.checks if check.rule.band)

    @property
    def is_replayed(self) -> bool:
        """Whether its calls are recorded and replayed: where kernels must do the work."""
        return any(check.rule.demands_kernels for check in self.checks)


@dataclass(frozen=True)
class Limits:
    """What one submission may use; a call beyond its time ends as `timeout`, beyond its memory or its disk as `oom`.

    part_s: what the calls of one part may take together.
    """

    load_s: float = 20.0
    call_s: float = 10.0
    part_s: float = 180.0
    memory_bytes: int = 4 << 30
    processes: int = 64
    file_bytes: int = 1 << 30
    scratch_bytes: int = 2 << 30
    # More than any compiler makes, and few enough to be removed in seconds.
    scratch_files: int = 50_000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require(value > 0, f"Limits.{name}", "be positive", value)


@dataclass(frozen=True)
class Exercise:
    """A stub's parts and how each is judged; all points together make 100.

    `kinds` are causes of failure that only this exercise knows, beside the general ones (grader.diagnosis.kinds);
    `contrasts` say what it points to where failing cases have some value of an axis and passing ones have not.
    """

    title: str
    version: str
    parts: tuple[Part, ...]
    limits: Limits = field(default_factory=Limits)
    kinds: tuple[Kind, ...] = ()
    contrasts: tuple[Contrast, ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.title.strip()), "Exercise.title", "be a title", self.title)
        require(bool(self.version.strip()), "Exercise.version", "be a version", self.version)
        require(len(self.parts) > 0, "Exercise.parts", "hold at least one part", self.parts)
        names = [part.name for part in self.parts]
        require(len(set(names)) == len(names), "Exercise.parts", "have distinct names", names)
        kinds = [kind.name for kind in self.kinds]
        require(len(set(kinds)) == len(kinds), "Exercise.kinds", "have distinct names", kinds)
        axes = {axis for part in self.parts for check in part.checks if check.cases for axis in check.cases.space.axes}
        for one in self.contrasts:
            require(one.axis in axes, "Exercise.contrasts", "name axes of the parts' cases", one.axis)
        total = sum(part.points for part in self.parts)
        require(abs(total - 100) < 1e-9, "Exercise.parts", "carry 100 points together", total)

    def checks(self) -> Iterator[tuple[Part, Check]]:
        """Every check with its part, in the order of the stub."""
        for part in self.parts:
            for check in part.checks:
                yield part, check

    @property
    def packages(self) -> tuple[str, ...]:
        """The modules that some part needs, each once."""
        return tuple(dict.fromkeys(package.module for part in self.parts for package in part.needs))

    def part(self, name: str) -> Part | None:
        """The part of that name, or None."""
        return next((part for part in self.parts if part.name == name), None)


def check_id(part: Part, check: Check) -> str:
    """The check's name within its exercise: "vector_add.tail"."""
    return f"{part.name}.{check.name}"
