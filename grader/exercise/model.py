"""Exercises as frozen data that checks itself when it is built.

    Exercise ─┬─ Part ─┬─ Check ── one rule of grader.exercise.rules
              │        ├─ Tolerance
              │        └─ Package
              └─ Limits

A bad specification raises SpecError and names the field. Nobody subclasses anything to add an exercise, and nothing
here imports torch: reading every specification takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from grader.errors import require
from grader.exercise.cases import Cases, Value
from grader.exercise.causes import Contrast, Kind, Remedy
from grader.exercise.rules import Rule, SpeedBand
from grader.protocol.requests import Call, Recipe


@dataclass(frozen=True)
class Tolerance:
    """The allowed distance of an output from the float64 oracle. Derived on every case, never a constant.

        allowed = factor × honest error + result_ulps × ulp(expected) + accumulation_ulps × ulp32(oracle(|inputs|))

    The honest error is the largest error of the oracle's `<part>_honest` variants, plain computations in the working
    precision, on that very case. It is taken within `group` consecutive elements of the last axis (0: the whole row),
    so that a row of small numbers is not judged by a row of large ones. The last term is a componentwise rounding bound
    for sums: without it, a lucky honest error of zero would fail another summation order.

    copies: outputs hold elements of inputs bit for bit, so that a zero has the sign of the expected one.
    """

    factor: float = 4.0
    result_ulps: float = 1.0
    accumulation_ulps: float = 0.0
    group: int = 0
    copies: bool = False

    def __post_init__(self) -> None:
        require(self.factor >= 0, "Tolerance.factor", "be at least 0", self.factor)
        require(
            self.result_ulps >= 0.5, "Tolerance.result_ulps", "be at least 0.5 (one correct rounding)", self.result_ulps
        )
        require(self.accumulation_ulps >= 0, "Tolerance.accumulation_ulps", "be at least 0", self.accumulation_ulps)
        require(self.group >= 0, "Tolerance.group", "be at least 0", self.group)


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
        require(isinstance(self.rule, Rule), "Check.rule", "be one of the rules of grader.exercise.rules", self.rule)

    @property
    def cases(self) -> Cases | None:
        """Return the cases that the rule runs, or None for a rule that runs none of its own."""
        return self.rule.own_cases


@dataclass(frozen=True)
class Package:
    """A module that a part cannot be judged without, and the command that installs it."""

    module: str
    command: str

    def __post_init__(self) -> None:
        require(self.module.isidentifier(), "Package.module", "be a top-level module's name", self.module)
        require(bool(self.command.strip()), "Package.command", "be a command", self.command)


@dataclass(frozen=True)
class Part:
    """One function of the stub: its arguments and outputs, its checks, and three hints from vague to plain.

    `mutates` names arguments that the contract changes in place: their contents after the call are outputs, listed
    after the returned ones. `deterministic` promises equal bits for equal inputs; `in_any_order`, whatever the order of
    programs: the stub must say so. `on`: the device that the function runs on, "cpu" or "gpu", whatever the machine
    has; '' means wherever kernels run. `tensors`: the kind of tensors that it gets, torch's or CuTe's
    (cutlass.cute.runtime.from_dlpack). `chooses` names the argument that holds the things, one of them the result.
    `needs` are packages that an installation may lack. `defaults` are the values of the last arguments that a caller
    may leave out, by name; some cases do. `bounds` gives, by name and in words of shapes, limits on the values of
    arguments: launch code may use them in place of the values. `reduces`: a result comes from several elements of an
    input; without that, no card names a mistake in a sum or a maximum.
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
    in_any_order: bool = False
    on: Literal["", "cpu", "gpu"] = ""
    tensors: Literal["torch", "cute"] = "torch"
    chooses: str = ""
    needs: tuple[Package, ...] = ()
    defaults: Mapping[str, Value | None] = field(default_factory=dict)
    bounds: Mapping[str, str] = field(default_factory=dict)
    reduces: bool = True

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
        """Return the points of all its checks."""
        return sum(check.points for check in self.checks)

    @property
    def speed_bands(self) -> tuple[SpeedBand, ...]:
        """The rules of its checks on speed."""
        return tuple(check.rule.band for check in self.checks if check.rule.band)

    @property
    def is_replayed(self) -> bool:
        """Return whether its calls are recorded and replayed: parts whose kernels must do the work."""
        return any(check.rule.demands_kernels for check in self.checks)

    def call(self, recipe: Recipe) -> Call:
        """Return a call of the function with all its arguments. The call has no place for outputs."""
        on_cpu = self.on == "cpu"
        return Call(recipe, self.arguments, self.mutates, (), on_cpu=on_cpu, tensors=self.tensors, chooses=self.chooses)


@dataclass(frozen=True)
class Limits:
    """The resources of one submission. A call beyond its time ends as `timeout`, beyond its memory or disk as `oom`.

    part_s: seconds for all calls of one part together. sparse_bytes: of addresses beside memory_bytes, without
    a GPU: tensors whose slices lie far apart take many addresses and little memory.
    """

    load_s: float = 20.0
    call_s: float = 10.0
    part_s: float = 180.0
    memory_bytes: int = 4 << 30
    processes: int = 64
    file_bytes: int = 1 << 30
    scratch_bytes: int = 2 << 30
    # More files than any compiler makes, and few enough to be removed in seconds.
    scratch_files: int = 50_000
    sparse_bytes: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name == "sparse_bytes":
                require(value >= 0, f"Limits.{name}", "be at least 0", value)
            else:
                require(value > 0, f"Limits.{name}", "be positive", value)


@dataclass(frozen=True)
class Exercise:
    """A stub's parts and their checks; all points together make 100.

    `kinds` are causes of failure beside the general ones (grader.diagnosis.general_kinds): those that only this
    exercise knows, and those of grader.exercise.attention_kinds that its parts may have. `contrasts` are its clues from
    the axes of failing and passing cases, and `remedies` its words of help for a kind where two axes differ.
    """

    title: str
    version: str
    parts: tuple[Part, ...]
    limits: Limits = field(default_factory=Limits)
    kinds: tuple[Kind, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    remedies: tuple[Remedy, ...] = ()

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
        for remedy in self.remedies:
            require(remedy.part in names, "Exercise.remedies", "name parts", remedy.part)
            known = {remedy.axis, remedy.other} <= axes
            require(known, "Exercise.remedies", "name axes of the parts' cases", (remedy.axis, remedy.other))
        total = sum(part.points for part in self.parts)
        require(abs(total - 100) < 1e-9, "Exercise.parts", "carry 100 points together", total)

    def checks(self) -> Iterator[tuple[Part, Check]]:
        """Yield every check with its part, in the order of the stub."""
        for part in self.parts:
            for check in part.checks:
                yield part, check

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the modules that some part needs, each once."""
        return tuple(dict.fromkeys(package.module for part in self.parts for package in part.needs))

    def part(self, name: str) -> Part | None:
        """Return the part of that name, or None."""
        return next((part for part in self.parts if part.name == name), None)


def check_id(part: Part, check: Check) -> str:
    """Return the check's name within its exercise: "vector_add.tail"."""
    return f"{part.name}.{check.name}"
