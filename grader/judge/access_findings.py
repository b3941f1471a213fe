"""Put in words what the guard found: accesses outside a tensor, and races.

Takes findings, which are claims of another process and are cleaned here; gives causes and clues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from grader.judge.clue import Clue
from grader.phrases import counted
from grader.protocol.observations import GuardFinding
from grader.record.causes import Cause
from grader.text import clean, one_line

_VERBS = {"load": "loads", "store": "stores to", "atomic": "updates"}
NOUNS = {"load": "A load", "store": "A store", "atomic": "An atomic"}
_MOST_AXES = 8
_STRIDED = 2
# From this many axes on, a program's index may select a batch or a head.
_BATCHED = 3
# At this many times the length, a wrong stride is likelier than a missing mask.
_FAR = 2
# The amount that an offset loses when it wraps around in 32 bits.
_WRAPPED_BY = 1 << 32
# Offsets of this size come from a product that overflowed 32 bits.
_LEAST_WRAPPED, _MOST_WRAPPED = 1 << 29, 1 << 33


def cause_of(findings: Sequence[GuardFinding]) -> Cause | None:
    """Return the cause of the first finding, or None without findings."""
    if not findings:
        return None
    return _race_cause(findings[0]) if findings[0].kind == "race" else _outside_cause(findings[0])


def _outside_cause(found: GuardFinding) -> Cause:
    name, program = clean(found.argument, 80), _program(found.program)
    if not name:
        return Cause(
            "out_of_bounds",
            f"{_noun(found.kind)} at an address outside all of the kernel's tensors",
            f"{_line(found)}: {program} {_verb(found.kind)} an address outside all tensors that the kernel was given"
            f"{_lanes(found)}.",
            "Compute addresses from the kernel's pointer arguments, and check each term of the offset: it is huge.",
        )
    where = _element(name, found.index)
    place = where
    if found.beside:
        place = f"the gap {counted(found.beside, 'element')} behind {where}"
    return Cause(
        "out_of_bounds",
        f"{_noun(found.kind)} outside {name}",
        f"{_line(found)}: {program} {_verb(found.kind)} {place}, but {name} has the shape [{_shortened(found.shape)}]"
        f"{_lanes(found)}.",
        _reading_text(found),
        _element_range(name, found.shape),
        where if not found.beside else f"{where} + {found.beside}",
    )


def _lanes(found: GuardFinding) -> str:
    if found.active_lanes <= 1:
        return ""
    many = "lies" if found.lanes == 1 else "lie"
    return f"; {found.lanes} of the {found.active_lanes} active lanes {many} outside"


def clues_of(findings: Sequence[GuardFinding]) -> list[Clue]:
    """Return clues by the first finding.

    The access is certain; the reason for it is not.
    """
    cause = cause_of(findings)
    if cause is None:
        return []
    found = findings[0]
    if _is_one_further(findings):
        seen = f"Of all accesses, only those to {clean(found.argument, 80)} go beyond the end, by one element."
        return [Clue("position_shifted", 0.75, seen, help=cause.help), Clue("missing_mask", 0.5)]
    kinds = _race_kinds(found) if found.kind == "race" else _reading(found).kinds
    if len(found.shape) < _STRIDED:
        # Vectors have no strides to ignore.
        kinds = tuple(one for one in kinds if one[0] != "strides_ignored")
    return [
        Clue(
            kind,
            weight,
            ""
            if i
            else "The guard saw this access and prevented it."
            if weight < 1
            else "The guard saw both accesses.",
            confirmed=weight == 1,
            help="" if i else cause.help,
            firm=_is_firm(found, kind),
        )
        for i, (kind, weight) in enumerate(kinds)
    ]


def _is_firm(found: GuardFinding, kind: str) -> bool:
    """Return whether an access shows a kind whatever other cases show, which may have a second mistake."""
    if kind == "offset_overflow":
        return _is_wrapped(found)
    return kind == "missing_mask" and (found.masked or found.element < found.elements + found.active_lanes)


def _is_wrapped(found: GuardFinding) -> bool:
    """Return whether an element of the tensor lies where the offset would lead in more than 32 bits."""
    return found.kind != "race" and 0 <= found.element + _WRAPPED_BY < found.elements


def _is_one_further(findings: Sequence[GuardFinding]) -> bool:
    """Return whether one tensor alone is accessed one element beyond its end.

    A mask that is too wide spares no tensor, and a missing one does no harm where full blocks fill the tensor.
    """
    first = findings[0]
    if first.kind == "race" or first.clipped or len(first.shape) != 1 or not first.elements:
        return False
    if first.active_lanes <= 1:
        return False
    fits = first.masked or first.elements % max(1, first.active_lanes) == 0
    return fits and all(
        one.argument == first.argument and one.lanes == 1 and one.element == one.elements for one in findings
    )


class _AccessReading(NamedTuple):
    """One explanation of an access.

    applies: whether the access looks like it. text: advice. kinds: kinds of causes, each with its weight.
    """

    applies: bool
    text: str
    kinds: tuple[tuple[str, float], ...]


def _reading_text(found: GuardFinding) -> str:
    return _reading(found).text


def _reading(found: GuardFinding) -> _AccessReading:
    """Return the first reading that applies."""
    if not found.argument:
        return _AccessReading(True, "", (("wrong_address", 0.6), ("bad_index", 0.5)))
    return next(one for one in _readings(found) if one.applies)


def _readings(found: GuardFinding) -> Iterator[_AccessReading]:
    all_outside = found.lanes == found.active_lanes
    beyond = found.element >= found.elements
    # A submission may claim any finding, one whose program has no place in its grid too.
    in_row = len(found.grid) == len(found.program) == 1
    flat = in_row and len(found.shape) == 1
    programs = found.grid[0] if flat else 0
    yield _AccessReading(
        not found.elements,
        "This tensor is empty: every load from it and every store to it needs a mask.",
        (("missing_mask", 0.8),),
    )
    yield _AccessReading(
        _is_wrapped(found),
        f"The offset has wrapped around in 32 bits: {_WRAPPED_BY:,} elements further lies an element of the tensor. "
        "Convert a factor before multiplying: row.to(tl.int64) * stride.",
        (("offset_overflow", 0.95),),
    )
    yield _AccessReading(
        _LEAST_WRAPPED <= abs(found.element) < _MOST_WRAPPED,
        "Does an offset wrap around in 32 bits? Convert a factor before multiplying: row.to(tl.int64) * stride.",
        (("offset_overflow", 0.7), ("wrong_address", 0.4)),
    )
    yield _AccessReading(
        in_row and found.elements < found.grid[0] and found.element == found.program[0],
        f"Program p accesses element p, and there are {prod(found.grid)} programs for a tensor of "
        f"{counted(found.elements, 'element')}: which place may each program use?",
        (("wrong_address", 0.8), ("grid_too_large", 0.4)),
    )
    yield _AccessReading(
        found.element < 0,
        "That is before the tensor's first element: can an offset, or an index from a table, be negative here?",
        (("bad_index", 0.55), ("start_ignored", 0.5), ("wrong_address", 0.3)),
    )
    yield _AccessReading(
        beyond and not found.masked and not found.clipped and found.active_lanes == 1 and not found.wide,
        "One element is accessed, not a block: from which number is its index computed, and how large may that become?",
        (("wrong_address", 0.6), ("bad_index", 0.5), ("grid_too_large", 0.4), ("missing_mask", 0.3)),
    )
    yield _AccessReading(
        found.wide and not beyond,
        "The pointer was cast to a wider type: the last access reaches more bytes than the tensor has left.",
        (("missing_mask", 0.6), ("size_assumed", 0.4)),
    )
    yield _AccessReading(
        found.spill,
        "A descriptor's store writes whole units of 16 bytes on a GPU with a tensor memory accelerator, beyond the end "
        "of a row too. Store through pointers with a mask, or give the tensor rows that fill their units.",
        (("missing_mask", 0.7), ("writes_beyond", 0.3)),
    )
    yield _AccessReading(
        found.clipped and beyond and all_outside,
        "The whole block lies beyond the tensor's end, and boundary_check cannot help there. Where does its pointer "
        "start, and which batch, head or tile does this program have?",
        (("wrong_address", 0.55), ("missing_mask", 0.45), ("grid_too_large", 0.4)),
    )
    yield _AccessReading(
        found.clipped,
        "A block pointer needs boundary_check for every axis that a block can overrun. Its shape, or that of a "
        "descriptor, must be the tensor's.",
        (("missing_mask", 0.7), ("strides_ignored", 0.3)),
    )
    yield _AccessReading(
        not beyond,
        "The tensor's elements do not lie side by side, and this is memory between them: use the tensor's own strides, "
        "and mask the columns in every row.",
        (("strides_ignored", 0.6), ("missing_mask", 0.5)),
    )
    yield _AccessReading(
        prod(found.shape) > found.elements,
        "The tensor is expanded: its elements share memory (a stride is 0). Use the tensor's own strides.",
        (("strides_ignored", 0.8),),
    )
    yield _AccessReading(
        all_outside and found.element >= _FAR * found.elements,
        "That is far away. Is an offset multiplied twice, or counted in bytes? Is a stride that of another tensor?",
        (("strides_ignored", 0.5), ("wrong_address", 0.5), ("missing_mask", 0.4)),
    )
    yield _AccessReading(
        all_outside and len(found.shape) >= _BATCHED,
        "The whole block lies beyond the end: which batch, head or tile does this program take, and which of them does "
        "the tensor have?",
        (("wrong_address", 0.45), ("missing_mask", 0.35), ("strides_ignored", 0.35), ("grid_too_large", 0.35)),
    )
    yield _AccessReading(
        all_outside,
        "The whole block lies beyond the end: does the grid start more programs than there are blocks?",
        (("grid_too_large", 0.45), ("missing_mask", 0.5), ("strides_ignored", 0.35)),
    )
    yield _AccessReading(
        found.masked and found.lanes == 1 and found.element == found.elements,
        "The mask lets lanes without an element through: compare its bound with the size of this tensor, and the "
        "offsets with its strides.",
        (("missing_mask", 0.6), ("position_shifted", 0.55), ("strides_ignored", 0.2)),
    )
    yield _AccessReading(
        found.masked,
        "The mask lets lanes without an element through: compare its bound with the size of this tensor, and the "
        "offsets with its strides.",
        (("missing_mask", 0.65), ("strides_ignored", 0.4)),
    )
    yield _AccessReading(
        flat and found.program[0] < programs - 1,
        f"Only the last of the {programs} programs should have a tail: is an offset multiplied twice, or counted in "
        "bytes? Otherwise a mask is missing.",
        (("wrong_address", 0.5), ("missing_mask", 0.6)),
    )
    yield _AccessReading(
        True,
        "The last block has more lanes than there are elements left: the access needs a mask that covers the tail.",
        (("missing_mask", 0.85), ("strides_ignored", 0.3)),
    )


def _race_kinds(found: GuardFinding) -> tuple[tuple[str, float], ...]:
    if found.between != "programs" or _is_exchange(found):
        return (("race", 1.0),)
    kinds = {found.access, found.other_access}
    if kinds == {"store"} and found.lanes >= found.active_lanes > 1:
        # A missing mask lets the end of a block meet the next one, and not all of it.
        return (("stores_collide", 0.95),)
    if kinds == {"store"}:
        return (("stores_collide", 0.75), ("missing_mask", 0.4))
    if kinds == {"load", "store"} and found.updates:
        return (("lost_update", 0.7), ("race", 0.5))
    if kinds == {"load", "store"}:
        # One program only reads what the other one leaves there.
        return (("race", 0.7), ("not_cleared", 0.3))
    return (("race", 0.6), ("lost_update", 0.6), ("not_cleared", 0.3))


def _race_cause(found: GuardFinding) -> Cause:
    if found.between != "programs":
        return _unordered_cause(found)
    name = clean(found.argument, 80)
    other = f"line {found.other_line}" if found.other_line != found.line else "the same line"
    if _is_exchange(found):
        return Cause(
            "race",
            f"Threads of one program race for {name}",
            f"{_line(found)}: {_program(found.program)} {_verb(found.access)} {_shared_elements(found, name)}, which "
            f"another thread of this program {_verb(found.other_access)} in {other}; their order is not fixed.",
            "On a GPU the threads of a program hold different lanes of its blocks, and go on by themselves. Put "
            f"tl.debug_barrier() between {_both(found)}, or keep the values in a block and out of memory.",
        )
    return Cause(
        "race",
        f"Programs race for {name}",
        f"{_line(found)}: {_program(found.program)} {_verb(found.access)} {_shared_elements(found, name)}, which "
        f"{_program(found.other_program)} {_verb(found.other_access)} in {other}; their order is not fixed.",
        _remedy(found),
    )


def _is_exchange(found: GuardFinding) -> bool:
    """Return whether both accesses are one program's: its threads race."""
    return found.program == found.other_program


def _both(found: GuardFinding) -> str:
    """Return in words where both accesses are."""
    if found.line == found.other_line:
        return "one turn and the next"
    return f"line {found.other_line} and line {found.line}"


def _unordered_cause(found: GuardFinding) -> Cause:
    """Return the cause of a race of a launch with another one, or with the end of the call."""
    name, kernel = clean(found.argument, 80), one_line(found.kernel, 80)
    what = name if name and not name.isdigit() else "a tensor"
    wait = "torch.cuda.current_stream().wait_stream(s)"
    if found.between == "dependent":
        return Cause(
            "race",
            "A launch does not wait for the one before",
            f"{_line(found)}: with launch_pdl=True {kernel} may begin before {one_line(found.other_kernel, 80)}, "
            f"launched in line {found.other_line}, has ended. It {_verb(found.access)} {what}, which that launch "
            f"{_verb(found.other_access)}, and a program has not called tl.extra.cuda.gdc_wait() before.",
            "Call tl.extra.cuda.gdc_wait() in every program, before its first access of memory that earlier launches "
            "touch. Or launch without launch_pdl=True.",
        )
    if found.between == "end":
        return Cause(
            "race",
            "Nothing waits for a stream",
            f"Line {found.line}: {kernel} {_verb(found.access)} {what} on a stream that the call leaves, and the call "
            "ends without waiting for that stream.",
            f"Whoever uses the result does so on the stream that the call began on. Write `{wait}` behind the launch, "
            "for the stream s of the launch, or let an event do that.",
        )
    return Cause(
        "race",
        "Launches on two streams race",
        f"Line {found.line}: {kernel} {_verb(found.access)} {what}, which {one_line(found.other_kernel, 80)} in line "
        f"{found.other_line} {_verb(found.other_access)} on another stream, and neither stream waits for the other.",
        f"Launches on two streams run at the same time. Write `{wait}` between them, for the stream s of the first, "
        "where the stream of the second is the current one. To let a stream s wait for earlier work, write "
        "`s.wait_stream(torch.cuda.current_stream())` before you launch on it.",
    )


def _shared_elements(found: GuardFinding, name: str) -> str:
    """Return in words the elements that both access."""
    where, more = _element(name, found.index), found.lanes - 1
    if more > 0:
        where += f" and {counted(more, 'more element')}"
    return f"{where} ({name} has the shape [{_shortened(found.shape)}])" if found.shape else where


def _remedy(found: GuardFinding) -> str:
    kinds = {found.access, found.other_access}
    order = "On a GPU programs run at the same time, in any order."
    if kinds == {"store"}:
        return f"{order} Which value stays? Give each program its own elements, and check whether tiles overlap."
    if "atomic" in kinds:
        return (
            f"{order} Make every access to it atomic, or move it to another launch: clear it before the launch "
            "(torch.zeros), and read it after."
        )
    return (
        f"{order} To add up, use tl.atomic_add. To use results of other programs, start a second launch, or use the "
        'result of an atomic that releases and acquires (sem="acq_rel", the usual one).'
    )


def _line(found: GuardFinding) -> str:
    code, kernel = one_line(found.code, 120), one_line(found.kernel, 80)
    return f"Line {found.line} ({kernel}), `{code}`" if code else f"Line {found.line} ({kernel})"


def _noun(kind: str) -> str:
    return NOUNS.get(kind, "An access")


def _verb(kind: str) -> str:
    return _VERBS.get(kind, "touches")


def _program(place: Sequence[int]) -> str:
    return f"program {place[0]}" if len(place) == 1 else f"program ({_shortened(place)})"


def _element(name: str, index: Sequence[object]) -> str:
    return f"{name}[{_shortened(index)}]" if index else name


def _shortened(values: Sequence[object]) -> str:
    """Return the values in words, at most as many as a tensor has axes: a claim may hold more."""
    return ", ".join([*map(str, values[:_MOST_AXES]), *(["…"] if len(values) > _MOST_AXES else [])])


def _element_range(name: str, shape: Sequence[int]) -> str:
    """Return the range of all elements in words."""
    return "no element" if 0 in shape else _element(name, [f"0…{size - 1}" for size in shape])
