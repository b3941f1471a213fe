"""Announce which kernel is being compiled, in memory that the grader reads.

Takes the memory's descriptor and names of kernels. Gives the grader the name while the compiler works: it stops the
clock of the call, and it names the kernel if the compiler ends the process. In the submission's process, an
announcement is only a claim.

Wraps two methods of Triton for the rest of the process. Never changes what is compiled, or how; measures no time.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grader.protocol.requests import NOTICE_BYTES


class Announcer:
    """Writes announcements into the memory that grader.sandbox.clock reads.

    memory_fd: of NOTICE_BYTES bytes; closed here, once the memory is mapped.
    """

    def __init__(self, memory_fd: int) -> None:
        self._memory = mmap.mmap(memory_fd, NOTICE_BYTES)
        self._count = 0
        os.close(memory_fd)

    def __call__(self, kernel: str) -> None:
        """Announce that this kernel is being compiled from now on; an empty string: none is.

        The text is a number, a space and the name, cut to NOTICE_BYTES bytes. The number tells two compilations of one
        kernel apart.
        """
        self._count += 1
        text = f"{self._count} {kernel}".encode(errors="replace") if kernel else b""
        self._memory[:] = text[:NOTICE_BYTES].ljust(NOTICE_BYTES, b"\0")

    @contextmanager
    def during(self, kernel: str) -> Iterator[None]:
        """Announce this kernel while the block runs; afterwards, none."""
        self(kernel)
        try:
            yield
        finally:
            self("")


def announce_compilation(announcer: Announcer) -> None:
    """Announce everything that Triton compiles in this process from now on.

    That is every kernel, and the C code that launches it. Call it once.
    """
    from triton.compiler.compiler import CompiledKernel
    from triton.runtime.jit import JITFunction

    compile_, load = JITFunction._do_compile, CompiledKernel._init_handles

    def compiled(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        with announcer.during(_name_of(kernel)):
            return compile_(kernel, *args, **kwargs)

    def loaded(kernel: Any) -> Any:
        if kernel.module is not None:
            return load(kernel)
        with announcer.during(_name_of(kernel)):
            return load(kernel)

    JITFunction._do_compile, CompiledKernel._init_handles = compiled, loaded


def _name_of(kernel: Any) -> str:
    return str(getattr(kernel, "__name__", "") or getattr(kernel, "name", "") or "a kernel")[:80]
