"""Describe in words which elements the programs of a launch touch: one line for each launch."""

from __future__ import annotations

from collections.abc import Sequence

from grader.phrases import counted
from grader.protocol.footprint import TensorFootprint
from grader.record.launches import Coverage, CoveringLaunch
from grader.report import view

# The tensors that one line names.
_MOST_NAMED = 2


def sentences(coverage: Coverage) -> list[str]:
    """Return a line for each launch: its programs, those that write nothing, and the elements that they write."""
    lines = [sentence(launch) for launch in coverage.launches]
    if coverage.more:
        lines.append(f"… and {counted(coverage.more, 'more launch', 'more launches')}")
    return lines


def sentence(launch: CoveringLaunch) -> str:
    """Return the numbers of one launch: "add: 5 programs × up to 1,024 elements cover 4,558 of 4,558 in z_ptr"."""
    footprint = launch.footprint
    programs = counted(footprint.programs, "program")
    written = sorted(written_in(launch), key=lambda one: -one.elements)
    told = _written(written)
    if footprint.idle == footprint.programs:
        text = f"{programs}, and none writes anything"
    elif footprint.idle:
        text = ": ".join([f"{programs}, {footprint.idle:,} write nothing", *told])
    elif told and {one.writers for one in written} == {footprint.programs}:
        text = told[0]
    else:
        text = ": ".join([programs, *told])
    return f"{view.line(launch.kernel, 80)}: {text}"


def _written(written: Sequence[TensorFootprint]) -> list[str]:
    """Return, as a list of at most one text, how many elements of these tensors programs write."""
    told: dict[str, list[str]] = {}
    for one in written[:_MOST_NAMED]:
        told.setdefault(_writers(one), []).append(f"{one.written:,} of {one.elements:,} in {_name(one)}")
    texts = [f"{writers} {' and '.join(tensors)}" for writers, tensors in told.items()]
    if len(written) > _MOST_NAMED:
        texts.append(counted(len(written) - _MOST_NAMED, "more tensor is written", "more tensors are written"))
    return ["; ".join(texts)] if texts else []


def _writers(one: TensorFootprint) -> str:
    """Return the programs that write to a tensor, with the verb."""
    programs, ending = counted(one.writers, "program"), "s" if one.writers == 1 else ""
    if one.updated == one.written:
        return f"{programs} update{ending}"
    return f"{programs} × {'up to ' if one.fewer else ''}{counted(one.most, 'element')} cover{ending}"


def facts(launch: CoveringLaunch) -> list[str]:
    """Return sentences on elements that no program writes, and on elements that several programs store."""
    found: list[str] = []
    for one in written_in(launch):
        if missing := one.elements - one.written:
            found.append(f"No program writes {counted(missing, 'element')} of {_name(one)}: {_runs(one)}.")
        if one.shared:
            found.append(f"Several programs store {counted(one.shared, 'element')} of {_name(one)}.")
    return found


def advice(launch: CoveringLaunch) -> list[str]:
    """Return, as a list of at most one sentence, what to do about a grid whose programs mostly write nothing."""
    if not launch.footprint.is_wasteful:
        return []
    working = launch.footprint.programs - launch.footprint.idle
    return [
        f"{counted(working, 'program')} would do. Where the others lie past the end, divide the grid by the block, as "
        "triton.cdiv(n, BLOCK)."
    ]


def faults(shown: Coverage, launch: CoveringLaunch) -> list[str]:
    """Return the facts of a launch that may explain a failure, and advice."""
    return [*(facts(launch) if is_faulty(shown) else []), *advice(launch)]


def touched(one: TensorFootprint, *, has_loads: bool) -> str:
    """Return the numbers of one tensor in a sentence."""
    loaded = f"load {one.loaded:,} and " if has_loads else ""
    text = f"Of {counted(one.elements, 'element')} of {_name(one)}, programs {loaded}write {one.written:,}"
    if one.written and one.written < one.elements:
        text += f"; no program writes the other {one.elements - one.written:,}"
    if one.shared:
        text += f"; several programs store {one.shared:,}"
    return f"{text}."


def is_faulty(shown: Coverage) -> bool:
    """Return whether a check failed on this call, and programs leave out wrong elements or meet at one."""
    meet = any(one.shared for launch in shown.launches for one in written_in(launch))
    return bool(shown.check) and (shown.lacking or meet)


def written_in(launch: CoveringLaunch) -> list[TensorFootprint]:
    """Return the tensors that the launch writes."""
    return [one for one in launch.footprint.tensors if one.written]


def _runs(one: TensorFootprint) -> str:
    """Return the places of missing elements: "z_ptr[4096] to [4557]"."""
    told = []
    runs = [run for run in one.missing if len(run) == 2]
    for first, last in runs:
        start = f"{_name(one)}{view.index(place_of(one.shape, first))}"
        told.append(start if first == last else f"{start} to {view.index(place_of(one.shape, last))}")
    known = sum(last - first + 1 for first, last in runs)
    return ", ".join(told) + (", …" if known < one.elements - one.written else "")


def place_of(shape: Sequence[int], element: int) -> tuple[int, ...]:
    """Return the index of an element by its place in row-major order."""
    index: list[int] = []
    for length in reversed(shape or (1,)):
        element, place = divmod(element, max(length, 1))
        index.insert(0, place)
    return tuple(index)


def _name(one: TensorFootprint) -> str:
    return view.line(one.argument, 40)
