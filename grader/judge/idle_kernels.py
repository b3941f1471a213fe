"""Tell from a trace which memory of a call its kernels get. It runs nothing."""

from __future__ import annotations

from collections.abc import Iterable

from grader.protocol.operators import ALLOCATING, OVERWRITING
from grader.protocol.trace import (
    CuteCall,
    Launch,
    Operator,
    Trace,
    Value,
    every_launch,
    launches_in,
    operators_in,
    windows_in,
)


def are_idle(trace: Trace) -> bool:
    """Return whether the call launches kernels, and none of them gets an argument, a result, or a copy of one."""
    launches = launches_in(trace.steps)
    given = _storages(trace, (value for one in launches for value in _values(one)))
    moved = _storages(trace, (value for one in trace.steps if isinstance(one, Operator) for value in _values(one)))
    returned = {trace.windows[one.window].storage for one in trace.outputs if one.window >= 0}
    return bool(launches) and not given & (moved | returned | set(trace.arguments.values()))


def unreached(trace: Trace) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the tensor arguments that no launch can have read, and the places of outputs that none can have written.

    A launch may have read what it gets, and what torch has copied there. An output may hold what a launch got, and what
    torch has copied from there. The order of the steps does not count.
    """
    given = _storages(trace, (value for one in every_launch(trace.steps) for value in _values(one)))
    copies = [_copied(trace, one) for one in operators_in(trace.steps)]
    read, written = {*given}, {*given}
    for _ in copies:
        before = len(read), len(written)
        for sources, targets in copies:
            read |= sources if targets & read else set()
            written |= targets if sources & written else set()
        if before == (len(read), len(written)):
            break
    outputs = [(place, one) for place, one in enumerate(trace.outputs) if one.form.kind == "tensor"]
    return (
        tuple(name for name, storage in trace.arguments.items() if storage not in read),
        tuple(place for place, one in outputs if one.window < 0 or trace.windows[one.window].storage not in written),
    )


def owners(trace: Trace) -> tuple[str, ...]:
    """Return for each output the argument in whose memory it lies; "" for none."""
    names = {storage: name for name, storage in trace.arguments.items()}
    return tuple(names.get(trace.windows[one.window].storage, "") if one.window >= 0 else "" for one in trace.outputs)


def _copied(trace: Trace, step: Operator) -> tuple[set[int], set[int]]:
    """Return the storages that an operator reads, and those that it writes."""
    targets = {trace.windows[index].storage for index in step.results}
    name = step.name.partition(".")[0]
    if name in ALLOCATING:
        # empty_like and the like ask a tensor for its form only.
        return set(), targets
    if name in OVERWRITING:
        return _storages(trace, step.args[1:]), targets | _storages(trace, step.args[:1])
    return _storages(trace, _values(step)), targets


def _values(step: Operator | Launch | CuteCall) -> list[Value]:
    named = {} if isinstance(step, CuteCall) else step.kwargs
    return [*step.args, *named.values()]


def _storages(trace: Trace, values: Iterable[Value]) -> set[int]:
    return {trace.windows[index].storage for value in values for index in windows_in(value)}
