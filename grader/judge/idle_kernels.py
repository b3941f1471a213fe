"""Tell from a trace whether kernels get memory of the call that launches them. It runs nothing."""

from __future__ import annotations

from collections.abc import Iterable

from grader.protocol.trace import CuteCall, Launch, Operator, Trace, Value, launches_in, windows_in


def are_idle(trace: Trace) -> bool:
    """Return whether the call launches kernels, and none of them gets an argument, a result, or a copy of one."""
    launches = launches_in(trace.steps)
    given = _storages(trace, (value for one in launches for value in _values(one)))
    moved = _storages(trace, (value for one in trace.steps if isinstance(one, Operator) for value in _values(one)))
    returned = {trace.windows[one.window].storage for one in trace.outputs if one.window >= 0}
    return bool(launches) and not given & (moved | returned | set(trace.arguments.values()))


def _values(step: Operator | Launch | CuteCall) -> list[Value]:
    named = {} if isinstance(step, CuteCall) else step.kwargs
    return [*step.args, *named.values()]


def _storages(trace: Trace, values: Iterable[Value]) -> set[int]:
    return {trace.windows[index].storage for value in values for index in windows_in(value)}
