"""Hold the rules that turn an exception into the learner's words: each has a pattern of messages, and a function."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from grader.judge.wording.rewriting import last_name, parsed

# A line that launches a kernel.
LAUNCH = re.compile(r"\w\[.*\]\(")


@dataclass(frozen=True)
class Words:
    """An exception in the learner's words.

    title: of the card. rule: what is wrong, a sentence. help: what to write. An empty title or rule keeps the card's
    own. kind: of the cause, where the exception leaves no doubt.
    """

    title: str
    rule: str
    help: str
    kind: str = ""


@dataclass(frozen=True)
class Fault:
    """An exception: its class, its message, and where it was raised.

    code, function: of the innermost line in the submission. lines: all of them. in_kernel: a launch led to it.
    """

    kind: str
    message: str
    code: str
    function: str
    lines: tuple[str, ...]
    in_kernel: bool

    @property
    def tree(self) -> ast.stmt | None:
        """Return the syntax tree of the line; None for a part of a statement."""
        return parsed(self.code)

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the line's calls of functions with these names, such as `load` for tl.load."""
        for node in ast.walk(self.tree or ast.Pass()):
            if isinstance(node, ast.Call) and last_name(node.func) in names:
                yield node

    def number(self, name: str) -> int | None:
        """Return the number that a line gives to a name, as in BLOCK=1000; None without one."""
        found = re.search(rf"\b{re.escape(name)}\s*=\s*(\d{{1,9}})\b", "\n".join(self.lines))
        return int(found[1]) if found else None


Say = Callable[["re.Match[str]", Fault], Words | None]


@dataclass(frozen=True)
class Rules:
    """The rules of one module. The first that returns words wins."""

    known: list[tuple[re.Pattern[str], Say]] = field(default_factory=list)

    def rule(self, pattern: str) -> Callable[[Say], Say]:
        """Register a function that says the exceptions whose message holds a pattern."""

        def register(say: Say) -> Say:
            self.known.append((re.compile(pattern), say))
            return say

        return register

    def words(self, fault: Fault) -> Words | None:
        """Return an exception in words, or None."""
        for pattern, say in self.known:
            found = pattern.search(fault.message)
            words = say(found, fault) if found else None
            if words is not None:
                return words
        return None


def write(text: str, otherwise: str) -> str:
    """Return the advice to write a text; `otherwise` where there is none."""
    return f"Write {text}." if text else otherwise
