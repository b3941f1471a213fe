"""Python code that runs while sealed memory is open, and has no business there.

A kernel runs on triton, NumPy, torch and Python's own library, and on its own code. Whatever else runs beside it came
with the submission, however it is called: by a method of an argument's, a finaliser, a module that compares itself, a
function in the place of another. So it is not asked what may call it; it is asked what it is.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

# Ways to objects of others: to ours, in which the hidden bytes lie.
_REACHING = frozenset(
    {"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._getframe", "sys._current_frames"}
)
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})

# Raised by our own objects whenever something of theirs is asked for.
ASKED = "grade.asked"

_early: dict[int, CodeType] = {}


def remember() -> None:
    """Note all code that is there, before gc.freeze() hides it; in the fork server, once for all its children."""
    _early.update(_codes_there())


def _codes_there() -> dict[int, CodeType]:
    functions = [one for one in gc.get_objects() if type(one) is FunctionType]
    return {id(code): code for function in functions for code in within(function.__code__)}


def within(code: CodeType) -> Iterator[CodeType]:
    """A code object, and those of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from within(constant)


class Watched:
    """An object that says so to the audit hook when something asks it for an attribute."""

    def __getattribute__(self, name: str) -> Any:
        sys.audit(ASKED, name)
        return object.__getattribute__(self, name)


class Bystanders:
    """Knows the code that was there when it was made; to be made before the submission is loaded."""

    def __init__(self) -> None:
        # An id is a name only as long as its object lives.
        self._known = {**_early, **_codes_there()}
        self._places = tuple(sorted({_folder(code) for code in self._known.values()} - {""}))
        self._files: dict[str, frozenset[CodeType]] = {}
        self._listening = True
        # A submission could add its own here.
        _early.clear()

    def knows(self, code: CodeType) -> bool:
        """Whether it was there, or is in the file of a library that it says it is from."""
        if id(code) in self._known:
            return True
        if code.co_filename.startswith(self._places) and code in self._in_file(code.co_filename):
            self._known[id(code)] = code
            return True
        return False

    @contextmanager
    def excluded(self, admitted: Iterable[CodeType], found: Callable[[str], None]) -> Iterator[None]:
        """Call `found` with the name of everything else that starts to run inside, before it does."""
        kernels = {id(code): code for code in admitted}
        known = self._known

        def look(frame: FrameType, _event: str, _value: object) -> None:
            code = frame.f_code
            key = id(code)
            # Nearly every call ends here.
            if key not in known and key not in kernels and not self.knows(code):
                found(f"{code.co_name}() while a kernel ran")

        sys.settrace(look)
        try:
            yield
        finally:
            sys.settrace(None)

    def reaching(self, event: str, args: Any) -> str:
        """What an audit event has reached for on behalf of the submission; nothing for a library's own use."""
        if event not in (*_REACHING, ASKED) and not (event == "object.__getattr__" and args[1] in _FRAMES):
            return ""
        if not self._listening:
            return ""
        self._listening = False
        try:
            if self.knows(sys._getframe(3 if event == ASKED else 2).f_code):
                return ""
            if event == ASKED:
                return "a look into the grader's own objects"
            return str(args[1]) if event == "object.__getattr__" else event
        finally:
            self._listening = True

    def _in_file(self, name: str) -> frozenset[CodeType]:
        """The code that compiling a library's file gives; submissions cannot write there."""
        if name not in self._files:
            try:
                with open(name, encoding="utf-8") as file:
                    whole = compile(file.read(), name, "exec", dont_inherit=True)
                self._files[name] = frozenset(within(whole))
            except (OSError, SyntaxError, ValueError):
                self._files[name] = frozenset()
        return self._files[name]


def _folder(code: CodeType) -> str:
    head, slash, _ = code.co_filename.rpartition("/")
    return head + slash if head.startswith("/") else ""
