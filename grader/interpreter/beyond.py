"""Refuse kernels that a GPU runs and the interpreter cannot: they cost no points here, and a GPU judges them.

The interpreter runs one program after another and has no instructions. So it cannot run assembly, and it cannot run a
program that waits for one that has not begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import numpy as np

from grader.interpreter.places import running_line
from grader.interpreter.versions import rereads

# The functions of Triton's language behind operations whose names tell nothing to who wrote the kernel.
_FUNCTIONS = {"new_block": "tl.map_elementwise"}
# A program may get the same answer so many times in a row while nothing is stored; that takes less than a second.
MOST_EQUAL_ANSWERS = 1000


class Others(Protocol):
    """The other programs of a launch in which programs can take turns."""

    @property
    def are_open(self) -> bool:
        """Some have not ended."""

    def take_turns(self, line: int) -> bool:
        """Hear of an atomic or a volatile load in a line; return whether another program ran because of it."""


class NeedsGpu(NotImplementedError):
    """Raised if a kernel does something that the interpreter cannot run; the message names it."""


class Waits(NeedsGpu):
    """Raised if a program waits for one that has not begun, or that waits for it."""


def refuse_what_needs_a_gpu() -> None:
    """Patch this process's interpreter. Call it before the submission is loaded and before accesses are watched."""
    _refuse_assembly()
    _refuse_what_is_missing()
    _refuse_questions_about_hardware()
    _notice_waiting()


def _refuse_assembly() -> None:
    from triton.runtime.interpreter import InterpreterBuilder

    def create_inline_asm(_builder: Any, *_: Any, **__: Any) -> NoReturn:
        raise NeedsGpu("inline assembly (tl.inline_asm_elementwise)")

    InterpreterBuilder.create_inline_asm = create_inline_asm


def _refuse_what_is_missing() -> None:
    """Refuse operations of Triton's language that its interpreter lacks, such as atomics of a descriptor."""
    from triton.runtime.interpreter import InterpreterBuilder

    def missing(builder: Any, name: str) -> NoReturn:
        if name.startswith(("create_", "new_")):
            raise NeedsGpu(f"{_FUNCTIONS.get(name, name.removeprefix('create_'))}, which Triton's interpreter lacks")
        raise AttributeError(f"{type(builder).__name__!r} object has no attribute {name!r}", name=name, obj=builder)

    InterpreterBuilder.__getattr__ = missing


def _refuse_questions_about_hardware() -> None:
    """Refuse functions that ask where and when a program runs. Triton loads extra.cuda, which holds them, twice."""
    from triton.language.extra import cuda
    from triton.runtime.interpreter import tl

    def refusing(name: str) -> Callable[..., Any]:
        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise NeedsGpu(f"tl.extra.cuda.{name}, which asks the GPU")

        refuse.__triton_builtin__ = True  # type: ignore[attr-defined]
        return refuse

    for module in (cuda, tl.extra.cuda):
        for name in ("globaltimer", "smid", "num_threads", "num_warps"):
            if hasattr(module, name):
                setattr(module, name, refusing(name))


class Waiting:
    """Detects a program that waits for a later one.

    A program waits if its atomics and volatile loads give the same answers again and again, nothing is stored between
    them, and a program of the launch has not begun. In the last program of a launch, no later one could end the wait.
    """

    def __init__(self, most: int = MOST_EQUAL_ANSWERS) -> None:
        self._most = most
        self._answers: dict[tuple[bytes, ...], bytes] = {}
        self._equal = 0

    def begin(self) -> None:
        """Start over: another program begins, or something is stored."""
        if self._answers:
            self._answers.clear()
        self._equal = 0

    def answered(self, question: tuple[bytes, ...], answer: bytes, *, others_follow: bool) -> None:
        """Note the answer of an atomic or a volatile load. Raises Waits once the program waits."""
        if self._answers.get(question) != answer:
            self._answers[question], self._equal = answer, 0
            return
        self._equal += 1
        if self._equal >= self._most and others_follow:
            self.begin()
            raise Waits("programs that run at the same time: one waits here for what a later one does")


def _notice_waiting() -> None:
    """Refuse to wait for ever for a spin lock, a flag or a ticket that a later program serves."""
    from triton.runtime.interpreter import InterpreterBuilder as Builder

    waiting = Waiting()
    load, store, begin = Builder.create_masked_load, Builder.create_masked_store, Builder.set_grid_idx
    rmw, cas = Builder.create_atomic_rmw, Builder.create_atomic_cas

    def heard(builder: Any, what: str, operands: tuple[Any, ...], found: Any) -> Any:
        others: Others | None = getattr(builder, "other_programs", None)
        last = tuple(size - 1 for size in builder.grid_dim)
        question = (what.encode(), *(np.asarray(getattr(one, "data", one)).tobytes() for one in operands))
        answer = np.asarray(found.data).tobytes()
        follow = tuple(builder.grid_idx) != last if others is None else others.are_open
        waiting.answered(question, answer, others_follow=follow)
        if others is not None and others.take_turns(running_line()[0]):
            waiting.begin()
        return found

    def create_masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *how: Any, **named: Any) -> Any:
        found = load(self, ptrs, mask, other, *how, **named)
        if rereads(how, named):
            return heard(self, "load", (ptrs, mask), found)
        return found

    def create_masked_store(self: Any, *what: Any, **named: Any) -> Any:
        waiting.begin()
        return store(self, *what, **named)

    def create_atomic_rmw(self: Any, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:  # noqa: N803
        return heard(self, str(rmwOp), (ptr, val, mask), rmw(self, rmwOp, ptr, val, mask, sem, scope))

    def create_atomic_cas(self: Any, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        return heard(self, "cas", (ptr, cmp, val), cas(self, ptr, cmp, val, sem, scope))

    def set_grid_idx(self: Any, x: Any, y: Any, z: Any) -> None:
        waiting.begin()
        begin(self, x, y, z)

    Builder.create_masked_load = create_masked_load
    Builder.create_masked_store = create_masked_store
    Builder.create_atomic_rmw = create_atomic_rmw
    Builder.create_atomic_cas = create_atomic_cas
    Builder.set_grid_idx = set_grid_idx
