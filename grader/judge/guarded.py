"""What the guard found, in words: accesses outside a tensor, and races. The findings are claims, and cleaned here."""

from __future__ import annotations

from collections.abc import Sequence

from grader.protocol.messages import Finding
from grader.record import Cause, clean

_VERBS = {"load": "loads", "store": "stores", "atomic": "updates"}
# So far beyond the end, a wrong stride is likelier than a missing mask.
_FAR = 2.0


def cause_of(findings: Sequence[Finding]) -> Cause | None:
    """The cause behind the first finding, or None where there is none."""
    if not findings:
        return None
    return _race(findings[0]) if findings[0].kind == "race" else _outside(findings[0])


def _outside(found: Finding) -> Cause:
    name = clean(found.argument, 80)
    lanes = f"{found.lanes} of {found.active_lanes} lanes" if found.active_lanes > 1 else "the access"
    if not name:
        return Cause(
            "out_of_bounds",
            f"A {_noun(found.kind)} at an address that is in none of the kernel's tensors",
            f"{_line(found)}: program {_place(found.program)} {_verb(found.kind)} {lanes} outside every tensor that "
            f"the kernel {clean(found.kernel, 80)} was given.",
            "Reach memory through the kernel's pointer arguments, and compute offsets in elements, not bytes.",
        )
    where = f"{name}[{', '.join(map(str, found.index))}]"
    return Cause(
        "out_of_bounds",
        f"A {_noun(found.kind)} outside {name}",
        f"{_line(found)}: program {_place(found.program)} {_verb(found.kind)} {where} of a tensor of shape "
        f"{list(found.shape)}; {lanes} lie outside it.",
        _likely(found),
        f"0 … {found.elements - 1} (elements)",
        str(found.element),
    )


def _likely(found: Finding) -> str:
    if found.element < 0:
        return "The address lies before the tensor: can an offset be negative here?"
    if found.element < found.elements:
        return "The element lies in a gap between rows: columns beyond the last one need a mask, in every row."
    if found.elements and found.element >= _FAR * found.elements and found.lanes == found.active_lanes:
        return "The whole block is far away: is an offset multiplied twice, or a stride of the wrong tensor used?"
    if found.lanes == found.active_lanes:
        return "The whole block lies beyond the end: does the grid start more programs than there are blocks?"
    if found.masked:
        return "There is a mask, but it lets lanes through that have no element: compare with the size of this tensor."
    return "The last block has more lanes than elements are left: the access needs a mask that covers the tail."


def _race(found: Finding) -> Cause:
    name = clean(found.argument, 80)
    where = f"{name}[{', '.join(map(str, found.index))}]"
    others = f" (and {found.lanes - 1} more elements)" if found.lanes > 1 else ""
    other = f"line {found.other_line}" if found.other_line != found.line else "the same line"
    return Cause(
        "race",
        f"Programs race for {name}",
        f"{_line(found)}: program {_place(found.program)} {_verb(found.access)} {where}{others}, which program "
        f"{_place(found.other_program)} {_verb(found.other_access)} in {other}; nothing orders the two.",
        "On a GPU programs run in any order, and at the same time. Give each its own elements, or use tl.atomic_add.",
    )


def _line(found: Finding) -> str:
    code = clean(found.code, 120)
    return f"Line {found.line}, `{code}`" if code else f"Line {found.line}"


def _noun(kind: str) -> str:
    return "atomic" if kind == "atomic" else kind


def _verb(kind: str) -> str:
    return _VERBS.get(kind, "touches")


def _place(program: Sequence[int]) -> str:
    return f"({', '.join(map(str, program))})"
