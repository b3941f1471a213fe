"""Number the basic blocks that a program runs through: the stretches of a kernel between branches and loops."""

from __future__ import annotations

from itertools import count

_numbers = count(1)
_present = [0]
# Whether a condition or a bound of the present launch was decided by data.
_decided = [False]


def begin_launch() -> None:
    """Begin a launch, in which data has decided nothing yet."""
    _decided[0] = False


def note_decision() -> None:
    """Note that data decides a branch, or the number of turns of a loop."""
    _decided[0] = True


def has_data_decided() -> bool:
    """Return whether data decided something in the present launch."""
    return _decided[0]


def begin_basic_block() -> None:
    """Begin another basic block: a condition was decided, or a turn of a loop begins or ends."""
    _present[0] = next(_numbers)


def present_basic_block() -> int:
    """Return the number of the basic block that runs."""
    return _present[0]


def end_branch(condition: object) -> None:
    """End a branch of an `if`. A condition that is a constant makes no branch in a compiled kernel."""
    if hasattr(condition, "handle"):
        begin_basic_block()
