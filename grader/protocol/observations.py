"""Hold what a replay observes of one call besides its outputs: traffic, accesses outside tensors, races, ways taken.

The interpreter makes most of it. An untrusted process may claim any of it, so it is decoded strictly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grader.protocol.footprint import Footprint


@dataclass(frozen=True)
class Pause:
    """A line of an interpreted kernel with an atomic or a volatile load.

    most: passes of the program with the most. programs: those that pass it.
    """

    line: int
    most: int
    programs: int = 1


@dataclass(frozen=True)
class StaticCondition:
    """A condition in a kernel that no tensor decides, and how it turned out.

    launch: the place of its launch in the trace. place: where the condition stands in the submission's text: its first
    line, column, last line and the column behind it.
    """

    launch: int
    place: tuple[int, int, int, int]
    holds: bool


@dataclass(frozen=True)
class Traffic:
    """The traffic of one launch in the interpreter, in bytes, and what it computes. dot_flops: those of its tl.dot.

    loaded and stored count every active lane of every access, atomics as both; unique ones count every byte once.
    dots: how many tl.dot. exponentials, operations: elements that special functions and all other operations compute,
    those on addresses and masks too. complete: all accesses were recorded; if not, unique bytes are missing, and there
    was no race check.
    """

    loaded_bytes: int
    stored_bytes: int
    unique_loaded_bytes: int
    unique_stored_bytes: int
    dot_flops: int
    complete: bool = True
    dots: int = 0
    exponentials: int = 0
    operations: int = 0


@dataclass(frozen=True)
class Waste:
    """Bytes that one launch in the interpreter moves for nothing; 0 where not all accesses were recorded.

    used_bytes, sector_bytes: what programs use of the sectors that they touch, and these sectors; 0 unless lanes of
    apart_line lie apart. reloaded_bytes: what programs load again although they have stored no result since.
    in_a_row_bytes: what they load again although their last load of the same tensor had it.
    """

    used_bytes: int = 0
    sector_bytes: int = 0
    apart_line: int = 0
    reloaded_bytes: int = 0
    in_a_row_bytes: int = 0


@dataclass(frozen=True)
class LaunchInfo:
    """One kernel launch: its name, its grid, and the integers that it was specialised on (block sizes).

    constants: for a function that the CuTe DSL compiled, the number of each of CuTe's operations in it; digest: of
    those that do something, and of the numbers that it got. traffic, footprint, waste: of a launch in the interpreter;
    one after many others has no footprint, and waste is counted on request.
    """

    kernel: str
    grid: tuple[int, ...]
    constants: dict[str, int]
    traffic: Traffic | None = None
    footprint: Footprint | None = None
    waste: Waste | None = None
    digest: str = ""


@dataclass(frozen=True)
class GuardFinding:
    """A finding of the guard in the interpreter: an access outside a tensor, which was not executed, or a race."""

    kind: Literal["load", "store", "atomic", "race"]
    kernel: str
    # Of the learner's file.
    line: int
    code: str
    program: tuple[int, ...]
    argument: str
    # The last legal place before the access, in `shape`.
    index: tuple[int, ...]
    shape: tuple[int, ...]
    # Counted from the tensor's first element to its last, `elements` in all.
    element: int
    elements: int
    # Of the active lanes, those outside; for a race, the number of elements that met.
    lanes: int
    active_lanes: int
    # The access had a mask that left lanes out.
    masked: bool
    # For a race: `access` is this one, and the `other_` fields are the one that came first in the interpreter.
    access: Literal["load", "store", "atomic", ""] = ""
    other_access: Literal["load", "store", "atomic", ""] = ""
    other_program: tuple[int, ...] = ()
    other_line: int = 0
    grid: tuple[int, ...] = ()
    # A block pointer or a descriptor made the mask.
    clipped: bool = False
    # The distance behind `index`, in elements, in a gap between two.
    beside: int = 0
    # The access touches more than one element.
    wide: bool = False
    # For a race: both programs load there and store there.
    updates: bool = False
    # A descriptor's store past the end of a row, to the end of a unit of 16 bytes.
    spill: bool = False
    # What races. streams: two launches; end: a launch and the end of the call, which does not wait for its stream; line
    # and other_line are then those of the launches. dependent: an access of a launch that begins early, and the launch
    # in other_line.
    between: Literal["programs", "streams", "end", "dependent"] = "programs"
    other_kernel: str = ""


@dataclass(frozen=True)
class Birth:
    """The first infinity or NaN that a line of an interpreted kernel makes of numbers.

    words: the operation. padded: all that the line makes lies in lanes that a mask left out of a load.
    """

    line: int
    made: Literal["inf", "nan"]
    words: str
    padded: bool = False


WayTaken = Literal["true", "false", "no turn", "one turn", "several turns"]


@dataclass(frozen=True)
class BranchTaken:
    """The way that a line of an interpreted kernel took: at its condition, or by the number of turns of its loop."""

    line: int
    outcome: WayTaken
