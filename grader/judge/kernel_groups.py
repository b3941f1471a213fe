"""Keep the calls of a part whose kernels the compiler reads: one for each group of kernels.

Takes recorded calls and the outcomes of their replays. Compiles nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod

from grader.exercise.tensors import ITEMSIZES
from grader.protocol.observations import StaticCondition
from grader.protocol.requests import CompileUntil
from grader.protocol.trace import Launch, launches_in
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import RecordedAnswer

# Groups of kernels of one part whose calls are kept, and calls whose kernels must fit a GPU.
_MOST_GROUPS = 32
_MOST_FITTED = 4
# The compiler optimises for addresses and sizes that this number divides.
_ALIGNED = 16

_Places = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class JudgedCall:
    """A recorded call that was replayed.

    conditions: those of its interpreted kernels that no tensor decides. until: the stage at which the compiler stops.
    """

    recorded: RecordedAnswer
    conditions: tuple[StaticCondition, ...] = ()
    until: CompileUntil = "read"


@dataclass(frozen=True)
class _KernelGroup:
    """Hold what the compiler's front end sees of a call: kernels (name, line), types, and how conditions turned out.

    types: the dtypes of tensors, and the types of each launch's other arguments. Sizes and addresses do not matter to
    the front end, except an argument of 1: a condition may test it.
    """

    kernels: _Places
    types: frozenset[tuple[str, ...]]
    conditions: frozenset[tuple[tuple[int, ...], bool]]


class KernelGroups:
    """The calls of one part whose kernels the compiler reads."""

    def __init__(self) -> None:
        self._groups: dict[_KernelGroup, JudgedCall] = {}
        # By kernels and sizes of elements: the call with the largest blocks.
        self._largest: dict[tuple[_Places, frozenset[int]], tuple[tuple[int, int, bytes], JudgedCall]] = {}

    def note(self, recorded: RecordedAnswer, outcome: Outcome) -> None:
        """Note a call that was replayed.

        One call of each group of kernels is kept, an unpredictable one, and the call with the largest blocks. A
        recorded call may take megabytes, and a hostile file may have any number of groups.
        """
        trace = recorded.trace
        places = frozenset((text.name, text.line) for text in trace.kernels)
        if not recorded.is_replayable or not places:
            return
        conditions = outcome.answer.conditions if isinstance(outcome, Finished) else ()
        call = JudgedCall(recorded, conditions)
        types: set[tuple[str, ...]] = {(one.dtype,) for one in trace.windows}
        types |= {_types_of(one) for one in launches_in(trace.steps) if isinstance(one, Launch)}
        group = _KernelGroup(places, frozenset(types), frozenset((one.place, one.holds) for one in conditions))
        known = self._groups.get(group)
        if (known or len(self._groups) < _MOST_GROUPS) and (not known or recorded.digest < known.recorded.digest):
            self._groups[group] = call
        widths = places, frozenset(ITEMSIZES.get(one.dtype, 0) for one in trace.windows)
        largest = self._largest.get(widths)
        rank = _size_of(recorded, outcome)
        if not largest or rank > largest[0]:
            self._largest[widths] = rank, replace(call, until="fit")
        if len(self._largest) > _MOST_FITTED:
            # The first kernels must not displace larger ones.
            del self._largest[min(self._largest, key=lambda one: self._largest[one][0])]

    def calls(self) -> tuple[JudgedCall, ...]:
        """Return the calls: those whose kernels must fit a GPU first."""
        fitted = [call for _, call in self._largest.values()]
        digests = {call.recorded.digest for call in fitted}
        return (*fitted, *(call for call in self._groups.values() if call.recorded.digest not in digests))

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Forget what the block notes."""
        groups, largest = dict(self._groups), dict(self._largest)
        try:
            yield
        finally:
            self._groups, self._largest = groups, largest


def _size_of(recorded: RecordedAnswer, outcome: Outcome) -> tuple[int, int, bytes]:
    """Return a sort key: the size of the blocks of a call's kernels, then how much the compiler may assume."""
    launches = outcome.answer.launches if isinstance(outcome, Finished) else ()
    blocks = max((prod(size for size in one.constants.values() if size > 1) for one in launches), default=0)
    given = (
        value
        for one in launches_in(recorded.trace.steps)
        if isinstance(one, Launch)
        for value in (*one.args, *one.kwargs.values())
    )
    return blocks, sum(type(value) is int and value % _ALIGNED == 0 for value in given), recorded.digest


def _types_of(launch: Launch) -> tuple[str, ...]:
    """Return the names of the types of a launch's arguments, by place and then by name."""
    named = (f"{name} {type(value).__name__}" for name, value in sorted(launch.kwargs.items()))
    return (*(type(value).__name__ for value in launch.args), *named)
