"""Compute what a call should return: the values of the oracle, and the error allowed at each element.

Takes recipes of calls; runs inputs.py, oracle.py and mistakes.py of the exercise, and never the submission.
"""

from __future__ import annotations

import json
import threading
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any

import torch
from torch import Tensor

from grader.errors import GradeError
from grader.exercise import tensors
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part
from grader.judge.distinct_inputs import whole_numbers
from grader.judge.tolerance import allowed_error
from grader.phrases import counted
from grader.protocol.requests import Recipe, Slot
from grader.timeline import spent

# Number of cases to store. The same case is needed again when a check repeats calls or shrinks.
MOST_KNOWN = 64
# A GPU is faster from this many elements on.
_LARGE = 1 << 16
# Cases to compute at once: an oracle is many short steps, and more threads only wait for Python's lock.
_AT_ONCE = 2


@dataclass(frozen=True, eq=False)
class Expected:
    """One expected output: the value (float64, or exact integers), its dtype, and the error allowed.

    elsewhere: value and allowed error on a GPU, which compares large outputs faster. signed: the sign of a zero counts.
    mutated: it is an argument, which the call changes in place and does not return.
    """

    name: str
    value: Tensor
    dtype: torch.dtype
    allowed: Tensor
    elsewhere: tuple[Tensor, Tensor] | None = None
    signed: bool = False
    mutated: bool = False

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.value.numel() * torch.empty(0, dtype=self.dtype).element_size()


@dataclass(frozen=True, eq=False)
class Portion:
    """A stretch of an expected output, and the index of its first element."""

    expected: Expected
    start: int


@dataclass(frozen=True, eq=False)
class KnownMistake:
    """A usual mistake, as the exercise's mistakes.py describes it.

    title: what it looks like. help: what to do. outputs: in float64. kind: of the exercise, or a general one.
    """

    title: str
    help: str
    outputs: tuple[Tensor, ...]
    kind: str = "likely_mistake"


@dataclass(frozen=True)
class Offer:
    """Something to choose, and its cost over the least cost; NaN where unknown."""

    thing: object
    ratio: float


@dataclass(eq=False)
class _Known:
    """The outputs of one case, once computed. The thread that computes them holds the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    outputs: tuple[Expected, ...] | None = None


class Truth:
    """Inputs and expected outputs of an exercise's cases, computed in this process in float64.

    device: where inputs and expected outputs lie: the CPU to judge answers, the GPU to verify large timed calls.
    computes_on: where the oracle runs, if elsewhere. keep: number of cases whose outputs are stored. measured: text of
    the exercise's measured.json; oracle.py finds it as MEASURED (None without). mistakes: text of its mistakes.py.
    """

    def __init__(
        self,
        inputs_source: str,
        oracle_source: str,
        device: str = "cpu",
        keep: int = MOST_KNOWN,
        *,
        measured: str = "",
        mistakes: str = "",
        computes_on: str = "",
    ) -> None:
        self._device = device
        self._computes_on = computes_on or device
        self._keep = keep
        self._inputs = tensors.module_from_text("inputs.py", inputs_source)
        self._oracle = tensors.module_from_text("oracle.py", oracle_source)
        self._oracle.MEASURED = json.loads(measured) if measured else None  # type: ignore[attr-defined]
        self._mistakes = tensors.module_from_text("mistakes.py", mistakes, self._oracle)
        self._known: dict[tuple[object, ...], _Known] = {}
        self._numbers: dict[tuple[object, ...], tuple[bytes, ...]] = {}
        self._numbered: dict[str, bool] = {}
        self._guard = threading.Lock()
        self._turns = threading.BoundedSemaphore(_AT_ONCE)

    @classmethod
    def of(cls, entry: Entry, device: str = "cpu", keep: int = MOST_KNOWN, *, computes_on: str = "") -> Truth:
        """Return the truth of an exercise. Raises SpecError if a file is missing."""
        return cls(
            entry.source("inputs.py"),
            entry.source("oracle.py"),
            device,
            keep,
            measured=entry.measured,
            mistakes=entry.mistakes,
            computes_on=computes_on,
        )

    def inputs(self, recipe: Recipe) -> tuple[object, ...]:
        """Return the arguments of a call, bit for bit those that the submission's process builds."""
        # Without that function, the error names the file.
        _function_of(self._inputs, recipe.part)
        return tensors.build(self._inputs, recipe.part, recipe.case, recipe.seed, recipe.patch_seed, self._device)

    def whole_numbers(self, recipe: Recipe) -> tuple[bytes, ...]:
        """Return the bytes of the whole-number tensors among the arguments of a call."""
        key = _key_of(recipe)
        found = self._numbers.get(key)
        if found is None:
            found = whole_numbers(
                tensors.whole_inputs(self._inputs, recipe.part, recipe.case, recipe.seed, self._device)
            )
            with self._guard:
                _make_room(self._numbers, self._keep)
                self._numbers[key] = found
        return found

    def has_whole_numbers(self, recipe: Recipe) -> bool:
        """Return whether calls of the recipe's part take whole-number tensors; one call shows it for all."""
        if recipe.part not in self._numbered:
            self._numbered[recipe.part] = bool(self.whole_numbers(recipe))
        return self._numbered[recipe.part]

    @property
    def has_measurements(self) -> bool:
        """The exercise has a table of measured costs."""
        return self._oracle.MEASURED is not None

    @property
    def measured_in(self) -> str:
        """Environment of the measurements, in the words of the table."""
        environment = (self._oracle.MEASURED or {}).get("environment") or {}
        return ", ".join(f"{name} {value}" for name, value in environment.items())

    def offers(self, part: Part, recipe: Recipe) -> tuple[Offer, ...]:
        """Return the things that a choosing part is given, in order, each with its cost over the least cost.

        Unknown costs are NaN. Raises GradeError for impossible costs.
        """
        inputs = self.inputs(recipe)
        costs = [float(cost) for cost in _function_of(self._oracle, part.name)(*inputs)]
        things = list(inputs[part.arguments.index(part.chooses)])  # type: ignore[call-overload]
        known = [cost for cost in costs if not isnan(cost)]
        if len(costs) != len(things) or not all(cost > 0 for cost in known):
            raise GradeError(f"oracle.py: {part.name} must give a positive cost or NaN for each, got {costs[:8]}")
        least = min(known, default=nan)
        return tuple(Offer(thing, cost / least) for thing, cost in zip(things, costs, strict=True))

    def expect(self, part: Part, recipe: Recipe) -> tuple[Expected, ...]:
        """Return the expected outputs: those returned, then the arguments changed in place.

        The first thread that asks computes them; others wait, and compute them themselves if it fails.
        """
        key = _key_of(recipe)
        with self._guard:
            if key not in self._known:
                _make_room(self._known, self._keep)
            known = self._known.setdefault(key, _Known())
        with known.lock:
            if known.outputs is None:
                with self._turns, spent("oracle"):
                    known.outputs = self._compute(part, recipe)
            return known.outputs

    def portion(self, part: Part, recipe: Recipe, chance: float) -> tuple[Portion, ...]:
        """Return stretches of the expected outputs, in the order of `expect`.

        chance: 0 … 1, selects the portion. `<part>_portion(chance, *inputs)` in oracle.py gives the inputs of one
        portion, and where its results begin in each output. Without that function the whole outputs are returned.
        """
        cut = getattr(self._oracle, f"{part.name}_portion", None)
        if cut is None:
            return tuple(Portion(expected, 0) for expected in self.expect(part, recipe))
        small, starts = cut(chance, *self.inputs(recipe))
        found = self._compute_with(part, [value.clone() if isinstance(value, Tensor) else value for value in small])
        return tuple(Portion(expected, start) for expected, start in zip(found, starts, strict=True))

    def answer(self, part: Part, inputs: Sequence[object]) -> tuple[Tensor, ...]:
        """Return the oracle's outputs for other inputs than a case's, in float64."""
        return tuple(_as_list(_function_of(self._oracle, part.name)(*map(_to_double, inputs))))

    def known_mistakes(self, part: Part, recipe: Recipe) -> Iterator[KnownMistake]:
        """Yield the known mistakes with their outputs for this case; none where mistakes.py knows none."""
        mistakes = getattr(self._mistakes, f"{part.name}_mistakes", None)
        if mistakes is None:
            return
        inputs = self._inputs_for_oracle(recipe)
        for kind, title, help_text, outputs in _each_beside(inputs, mistakes(*map(_to_double, inputs))):
            yield KnownMistake(title, help_text, tuple(one.to(self._device) for one in _as_list(outputs)), kind)

    def roundings(self, part: Part, recipe: Recipe) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
        """Yield kinds of too low a precision with their outputs for this case; none where mistakes.py knows none."""
        found = getattr(self._mistakes, f"{part.name}_roundings", None)
        if found is not None:
            inputs = self._inputs_for_oracle(recipe)
            for kind, outputs in _each_beside(inputs, found(*inputs)):
                yield kind, tuple(one.double().to(self._device) for one in _as_list(outputs))

    def _inputs_for_oracle(self, recipe: Recipe) -> Sequence[object]:
        """Return new inputs of a call, where the oracle runs."""
        drawn = self.inputs(recipe)
        elements = sum(value.numel() for value in drawn if isinstance(value, Tensor))
        if self._computes_on == self._device or elements < _LARGE:
            # For a small case the CPU is quicker than a GPU that others use.
            return drawn
        return [value.to(self._computes_on) if isinstance(value, Tensor) else value for value in drawn]

    def _compute(self, part: Part, recipe: Recipe) -> tuple[Expected, ...]:
        return self._compute_with(part, self._inputs_for_oracle(recipe))

    def _compute_with(self, part: Part, inputs: Sequence[object]) -> tuple[Expected, ...]:
        """Compute the expected outputs of inputs of this call's own: a part may change them."""
        oracle = _function_of(self._oracle, part.name)
        honest = _function_of(self._oracle, f"{part.name}_honest")
        values = _as_list(oracle(*map(_to_double, inputs)))
        magnitudes: Sequence[Tensor | None] = [None] * len(values)
        if part.tolerance.accumulation_ulps:
            magnitudes = _as_list(oracle(*[_absolute(_to_double(value)) for value in inputs]))
        # Last: honest code gets the inputs themselves, and may change them.
        variants = [_as_list(result) for result in honest(*inputs)]
        _check_counts(part, len(values), [len(variant) for variant in variants])
        names = (*part.outputs, *part.mutates)
        allowed = (
            allowed_error(value, [variant[i] for variant in variants], magnitudes[i], part.tolerance)
            for i, value in enumerate(values)
        )
        return tuple(
            self._place_expected(name, value, variants[0][i].dtype, error, part)
            for i, (name, value, error) in enumerate(zip(names, values, allowed, strict=True))
        )

    def _place_expected(self, name: str, value: Tensor, dtype: torch.dtype, allowed: Tensor, part: Part) -> Expected:
        there = value.device.type != self._device and value.numel() >= _LARGE
        elsewhere = (value, allowed) if there else None
        signed, mutated = part.tolerance.copies, name in part.mutates
        return Expected(name, value.to(self._device), dtype, allowed.to(self._device), elsewhere, signed, mutated)


def _check_counts(part: Part, count: int, honest_counts: Sequence[int]) -> None:
    """Raise GradeError unless the oracle and each of its honest variants give all outputs of a part."""
    names = (*part.outputs, *part.mutates)
    rule = f"{counted(len(names), 'output')} ({', '.join(names)})"
    if count != len(names):
        raise GradeError(f"oracle.py: {part.name} must return {rule}, got {count}")
    if not honest_counts:
        raise GradeError(f"oracle.py: {part.name}_honest must yield at least one variant, got none")
    for number, of_variant in enumerate(honest_counts, 1):
        if of_variant != len(names):
            raise GradeError(f"oracle.py: variant {number} of {part.name}_honest must have {rule}, got {of_variant}")


def slots_for(expected: Sequence[Expected]) -> tuple[Slot, ...]:
    """Return the place of each output in the memory file: one after another, at multiples of 64 bytes."""
    slots, offset = [], 0
    for output in expected:
        dtype = tensors.dtype_name(output.dtype)
        slots.append(Slot(dtype, tuple(output.value.shape), offset, output.nbytes))
        offset += -(-output.nbytes // 64) * 64
    return tuple(slots)


def _key_of(recipe: Recipe) -> tuple[object, ...]:
    return (recipe.part, recipe.seed, recipe.patch_seed, *recipe.case.items())


def _make_room(stored: dict[tuple[object, ...], Any], keep: int) -> None:
    """Drop the oldest entry of a full store."""
    if len(stored) >= keep:
        del stored[next(iter(stored))]


def _function_of(module: types.ModuleType, name: str) -> Any:
    found = getattr(module, name, None)
    if not callable(found):
        raise GradeError(f"{module.__name__}.py must define the function {name}, got {found!r}")
    return found


def _each_beside(inputs: Sequence[object], made: Iterator[Any]) -> Iterator[Any]:
    """Yield what an iterator of mistakes.py makes, on the device of its inputs."""
    device = next((value.device for value in inputs if isinstance(value, Tensor)), torch.device("cpu"))
    while True:
        # Leave the device before the yield: the caller has its own.
        with device:
            one = next(made, None)
        if one is None:
            return
        yield one


def _as_list(result: object) -> list[Tensor]:
    return list(result) if isinstance(result, tuple | list) else [result]  # type: ignore[list-item]


def _to_double(value: object) -> object:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _absolute(value: object) -> object:
    return value.abs() if isinstance(value, Tensor) and value.is_floating_point() else value
