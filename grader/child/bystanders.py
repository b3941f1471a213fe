"""Python code that runs while sealed memory is open, and has no business there.

A kernel runs on triton, NumPy, torch and Python's own library, and on its own code. Whatever else runs beside it came
with the submission, however it is called: by a method of an argument's, a finaliser, a module that compares itself, a
function in the place of another. So it is not asked what may call it; it is asked what it is.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

from grader.child.inherited import Inherited
from grader.child.traps import Census, Traps

# Raised by our own objects whenever something of theirs is asked for.
ASKED = "grade.asked"
# Ways to objects of others: to ours, in which the hidden bytes lie.
_REACHING = frozenset(
    {"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._getframe", "sys._current_frames", ASKED}
)
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})

# What makes Python code run that is in no function yet, or takes the watch away.
_STARTING = frozenset(
    {
        "exec",
        "function.__new__",
        "object.__setattr__",
        "sys.settrace",
        "sys.setprofile",
        "cpython.PyInterpreterState_New",
    }
)

# The code that was there, by its id, and the folders that it is from.
_early = Inherited[tuple[dict[int, CodeType], frozenset[str]]]()


def remember() -> None:
    """Note all code that is there, before gc.freeze() hides it; in the fork server, once for all its children."""
    codes = _codes_there()
    _early.leave((codes, _folders(codes)))


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
        self._known, folders = _early.take() or ({}, frozenset())
        since = _codes_there()
        self._known.update(since)
        self._places = tuple(sorted(folders | _folders(since)))
        self._files: dict[str, frozenset[CodeType]] = {}
        self._listening = True
        self._census = Census()
        # While memory is open: what may run, and who hears of the rest.
        self._inside: tuple[Callable[[CodeType], bool], Callable[[str], None]] | None = None

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
        """Call `found` with the name of everything else that starts to run inside, before it does.

        Nothing of the submission's may run between this and what is inside: no finaliser, no handler of a signal.
        """
        kernels = {id(code): code for code in admitted}

        def knows(code: CodeType) -> bool:
            return id(code) in kernels or self.knows(code)

        def tell(name: str) -> None:
            # What is found shuts the memory: from then on there is nothing to be kept from.
            self._inside = None
            found(f"{name}() while a kernel ran")

        functions, unstoppable = self._census.strangers(knows)
        with self._traced(knows, tell) if unstoppable else _trapped(functions, tell):
            self._inside = knows, tell
            try:
                yield
            finally:
                self._inside = None

    @contextmanager
    def _traced(self, knows: Callable[[CodeType], bool], tell: Callable[[str], None]) -> Iterator[None]:
        def look(frame: FrameType, _event: str, _value: object) -> None:
            # Nearly every call ends here.
            if id(frame.f_code) not in known and not knows(frame.f_code):
                tell(frame.f_code.co_name)

        known = self._known
        sys.settrace(look)
        try:
            yield
        finally:
            sys.settrace(None)

    def heard(self, event: str, args: Any) -> str:
        """What an audit event has reached for on behalf of the submission; nothing for a library's own use."""
        if self._inside is not None and event in _STARTING:
            self._starting(event, args)
        if event not in _REACHING and not (event == "object.__getattr__" and args[1] in _FRAMES):
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

    def _starting(self, event: str, args: Any) -> None:
        """Code that is about to run, or could from now on, without a function that was there before."""
        assert self._inside is not None
        knows, tell = self._inside
        code = args[0] if args else None
        if isinstance(code, CodeType) and knows(code):
            return
        if event != "object.__setattr__" or args[1] == "__code__":
            tell(code.co_name if isinstance(code, CodeType) else event)

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


@contextmanager
def _trapped(functions: Sequence[FunctionType], tell: Callable[[str], None]) -> Iterator[None]:
    traps = Traps(functions, tell)
    try:
        traps.set()
        yield
    finally:
        traps.release()


def _folders(codes: dict[int, CodeType]) -> frozenset[str]:
    """The folders of the files that code is from."""
    names = {code.co_filename for code in codes.values()}
    return frozenset(name[: name.rindex("/") + 1] for name in names if name.startswith("/"))
