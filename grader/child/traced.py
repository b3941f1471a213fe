"""Runs the submission under a tool that watches its process from outside, such as compute-sanitizer.

Such a tool sees the ends of allocations, and which bytes were never written. So every tensor gets an allocation of its
own size, without guard bands around it, and nothing is filled that the submission did not ask to be filled.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from grader.child.announcing import Announcer
from grader.child.arguments import distinct
from grader.child.watching import fill_uninitialised_memory
from grader.child.worker import Worker, preload, serve
from grader.protocol.messages import Call, Raised, Returned, Start

# Where in its working directory, the scratch folder, the process of that number finds the grader.
CHANNEL = "channel-{}"
# An allocator that hands out pieces of larger allocations would hide where a piece ends; without line information a
# finding would have no place. Both are read when they are first needed.
_ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "TRITON_DISABLE_LINE_INFO": "0"}


def main(number: int) -> None:
    """Serve the grader that listens in the working directory."""
    attend(number, Traced, _ENVIRONMENT)


def attend(number: int, employ: Callable[..., Worker], environment: Mapping[str, str]) -> None:
    """Serve it by a worker that `employ` makes, with these variables set."""
    scratch = Path.cwd()
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    channel.connect(str(scratch / CHANNEL.format(number)))
    # The standard streams are the tool's, for its report.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.environ.update(environment)
    preload()
    serve(channel, str(scratch), (), employ)


class Traced(Worker):
    """A worker that runs calls and leaves the looking to the tool."""

    def __init__(self, start: Start, scratch: str, device: torch.device, announcer: Announcer) -> None:
        super().__init__(start, scratch, device, announcer)
        fill_uninitialised_memory(on=False)

    def call(self, call: Call, memory_fd: int) -> Returned | Raised:  # noqa: ARG002  nothing is copied
        """Run one function once, on tensors that end where their memory ends; its outputs are nobody's business."""
        function: Callable[..., object] = getattr(self._submission, call.recipe.part)
        arguments = [alone(value, self._device) for value in self._build(call.recipe)]
        try:
            with self._watching.watch(timed=True) as seen:
                function(*arguments)
                self._synchronise()
        except BaseException as raised:
            return self._raising.told(raised)
        return Returned("returned", (), (), (), tuple(seen.launches), ())


def alone(value: object, device: torch.device) -> object:
    """A tensor of the same layout in an allocation that ends with its last element; what is no tensor, as it is.

    What lies before the first element and between rows is left unwritten.
    """
    if not isinstance(value, Tensor):
        return value
    start = value.storage_offset()
    span = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    memory = torch.empty(start + span if value.numel() else 0, dtype=value.dtype, device=device)
    if not value.numel():
        return memory.reshape(value.shape)
    view = memory.as_strided(value.shape, value.stride(), start)
    distinct(view).copy_(distinct(value))
    return view
