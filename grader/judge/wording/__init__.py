"""Say an exception in the learner's words: what is wrong, and what to write instead.

Triton's messages speak of its own insides. Takes the class, the message and the lines of an exception. Gives words, or
None where the message says enough. Pure.

    launches     grids, decorators, names and arguments
    blocks       pointers, sizes, shapes, truth values and dtypes
    libraries    NumPy, torch and Python's functions, and what a machine lacks
    rules        a rule: a pattern of messages, and the function that says them
    rewriting    a line of code, rewritten into what its author meant
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.judge.wording import blocks, launches, libraries
from grader.judge.wording.rules import LAUNCH, Fault, Words
from grader.protocol.answers import Frame
from grader.text import clean

__all__ = ["Words", "in_words"]

_RULES = (launches.RULES, blocks.RULES, libraries.RULES)


def in_words(kind: str, message: str, frames: Sequence[Frame]) -> Words | None:
    """Return an exception in the learner's words, or None.

    frames: the submission's lines on the way to the exception, innermost last.
    """
    last = frames[-1] if frames else Frame(0, "", "")
    lines = tuple(clean(frame.code, 200) for frame in frames)
    pointed_at = _code_in(message)
    code = (pointed_at or (lines[-1] if lines else "")).strip()
    in_kernel = bool(pointed_at) or any(LAUNCH.search(line) for line in lines[:-1])
    fault = Fault(kind, message, code, clean(last.function, 80), lines, in_kernel)
    return next(filter(None, (rules.words(fault) for rules in _RULES)), None)


def _code_in(message: str) -> str:
    """Return the line that a message of Triton's compiler points at with a caret; "" for other messages."""
    lines = message.splitlines()
    place = next((i for i, line in enumerate(lines) if i and line.strip() == "^"), 0)
    return lines[place - 1] if place and re.match(r"at \d+:\d+:", message) else ""
