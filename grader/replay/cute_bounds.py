"""See which tensors a CuTe program reaches beyond the end of, on the CPU.

The program runs once more, in a process of its own, on copies of its tensors that end where a page ends; nobody may
touch the next page. Values do not show such reads: what is computed from them may never be stored.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import signal
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from grader.protocol.trace import span
from grader.replay.cute_programs import Program

# Larger tensors are not copied.
_MOST_BYTES = 1 << 24
# A program that takes longer is not looked at. Nothing is left of it if this process is ended meanwhile.
_MOST_S = 5
# An address that any type of tensor may ask for; a program can pass over fewer bytes unseen.
_ALIGNED = 16


def reached_beyond(program: Program, values: Sequence[object]) -> tuple[int, ...]:
    """Return the places of the tensors, among a program's arguments, that it reads or writes beyond the end of.

    Looks once at a program and its arguments' forms: what it reaches hardly depends on what they hold.
    """
    forms = tuple((one.shape, one.stride()) if isinstance(one, Tensor) else one for one in values)
    if (found := program.reached.get(forms)) is None:
        found = program.reached[forms] = _reached_beyond(program, values)
    return found


def _reached_beyond(program: Program, values: Sequence[object]) -> tuple[int, ...]:
    tensors = {place: one for place, one in enumerate(values) if isinstance(one, Tensor)}
    if sum(map(_nbytes, tensors.values())) > _MOST_BYTES or _ends_well(program, values, tensors):
        return ()
    return tuple(place for place, one in tensors.items() if not _ends_well(program, values, {place: one}))


def _ends_well(program: Program, values: Sequence[object], fenced: Mapping[int, Tensor]) -> bool:
    """Return whether the program does not touch what lies behind the fenced tensors. fenced: by their places."""
    pid = os.fork()
    if pid:
        ended = os.waitpid(pid, 0)[1]
        return not os.WIFSIGNALED(ended) or os.WTERMSIG(ended) not in (signal.SIGSEGV, signal.SIGBUS)
    # Nothing of this process may run beside the program: neither exit handlers nor reports of the crash.
    try:
        faulthandler.disable()
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(_MOST_S)
        moved = [_before_a_fence(fenced[place]) if place in fenced else one for place, one in enumerate(values)]
        program.bind(moved).run()
    finally:
        os._exit(0)


def _before_a_fence(tensor: Tensor) -> Tensor:
    """Return a copy, laid out alike, whose last element lies before memory that nobody may touch."""
    nbytes = -(-_nbytes(tensor) // _ALIGNED) * _ALIGNED
    pages = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    buffer = mmap.mmap(-1, pages + mmap.PAGESIZE)
    memory = torch.frombuffer(buffer, dtype=torch.uint8)
    fence = ctypes.c_void_p(memory.data_ptr() + pages)
    if ctypes.CDLL(None, use_errno=True).mprotect(fence, mmap.PAGESIZE, 0):
        raise OSError(ctypes.get_errno(), "a page must become untouchable")
    first = (pages - nbytes) // tensor.element_size()
    return memory.view(tensor.dtype).as_strided(tensor.shape, tensor.stride(), first).copy_(tensor)


def _nbytes(tensor: Tensor) -> int:
    return span(tensor.shape, tensor.stride()) * tensor.element_size()
