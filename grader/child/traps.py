"""Functions that must not run now: each is given other code, that says so before anything of its own runs.

Python tells of every call that is made (sys.settrace), at four times the cost of all that runs. Functions of a
submission are few, though, and can be found: the garbage collector knows them all.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import AsyncGeneratorType, CodeType, CoroutineType, FunctionType, GeneratorType
from typing import Any

_ASYNCHRONOUS = CO_COROUTINE | CO_ASYNC_GENERATOR
# The constant in whose place that of a trap stands.
_HERE = "what is called instead"


def _sprung(*args: object, **kwargs: object) -> object:
    instead: Any = "what is called instead"
    return instead(args, kwargs)


def _sprung_later(*args: object, **kwargs: object) -> Iterator[object]:
    instead: Any = "what is called instead"
    yield from instead(args, kwargs)


class Census:
    """Finds what Python code could be made to run. To be made behind gc.freeze(), which hides what is there already."""

    def __init__(self) -> None:
        # Were it hidden as well, so would be what came behind it.
        self._landmark: list[object] = []

    def strangers(self, knows: Callable[[CodeType], bool]) -> tuple[list[FunctionType], bool]:
        """The functions whose code `knows` does not know; and whether some code of that kind cannot be kept from
        running: that of a generator that could go on, or of a coroutine.
        """
        every = gc.get_objects()
        if not any(one is self._landmark for one in reversed(every)):
            gc.unfreeze()
            every = gc.get_objects()
        functions = [one for one in every if type(one) is FunctionType and not knows(one.__code__)]
        halted = any(not knows(code) for one in every if (code := _halted_code(one)) is not None)
        return functions, halted or any(one.__code__.co_flags & _ASYNCHRONOUS for one in functions)


def _halted_code(value: Any) -> CodeType | None:
    """The code that goes on when a value is asked for its next one."""
    kind = type(value)
    if kind is GeneratorType:
        return value.gi_code  # type: ignore[no-any-return]
    if kind is CoroutineType:
        return value.cr_code  # type: ignore[no-any-return]
    return value.ag_code if kind is AsyncGeneratorType else None


class Traps:
    """Functions that tell `found` their name before the first of them runs; that sets all of them free."""

    def __init__(self, functions: Sequence[FunctionType], found: Callable[[str], None]) -> None:
        self._own = [(function, function.__code__) for function in functions]
        self._found = found

    def set(self) -> None:
        """From now on."""
        for function, code in self._own:
            function.__code__ = _trap(code, self._spring(function, code.co_name))

    def release(self) -> None:
        """All is as it was."""
        for function, code in self._own:
            function.__code__ = code

    def _spring(self, function: FunctionType, name: str) -> Callable[..., object]:
        def spring(args: tuple[object, ...], kwargs: dict[str, object]) -> object:
            self._found(name)
            self.release()
            return function(*args, **kwargs)

        return spring


def _trap(code: CodeType, spring: Callable[..., object]) -> CodeType:
    like = (_sprung_later if code.co_flags & CO_GENERATOR else _sprung).__code__
    constants = tuple(spring if constant == _HERE else constant for constant in like.co_consts)
    # A function's code must have as many names of an outer one as its closure has cells.
    outer = tuple(f"_{place}" for place in range(len(code.co_freevars)))
    return like.replace(co_consts=constants, co_freevars=outer, co_name=code.co_name)
