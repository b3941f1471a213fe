"""Serve the grader under a tool that watches this process from outside, such as compute-sanitizer.

Such a tool sees the ends of allocations and the bytes that were never written. So every tensor gets an allocation of
its own size, without guard bands, and nothing is filled unless the submission asks for it. Traces that were recorded
elsewhere are replayed here. Only calls that cannot be replayed load and run the submission.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from grader.calls import cutedsl
from grader.calls.arguments import PlacedArguments
from grader.calls.filling import fill_uninitialised_memory
from grader.child.forkserver import LAYERS
from grader.child.worker import Worker, preload, serve
from grader.compile.announcing import Announcer
from grader.protocol.answers import Raised, Returned
from grader.protocol.requests import CHANNEL, Call, Start
from grader.replay.replayer import Replayer

# A caching allocator would hide where an allocation ends; without line information a finding would have no place. Both
# variables are read at their first use.
_ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "TRITON_DISABLE_LINE_INFO": "0"}


def main(number: int) -> None:
    """Serve the grader that listens in the working directory."""
    attend(number, ToolWorker, partial(Replayer, guarded=False), _ENVIRONMENT)


class ToolWorker(Worker):
    """A worker that runs calls; the tool watches them."""

    def __init__(self, start: Start, scratch: str, device: torch.device, announcer: Announcer) -> None:
        super().__init__(start, scratch, device, announcer)
        fill_uninitialised_memory(on=False)

    def call(self, call: Call, memory_fd: int) -> Returned | Raised:  # noqa: ARG002  nothing is copied
        """Run one function on tensors that end where their memory ends, and drop its outputs."""
        function: Callable[..., object] = getattr(self._submission, call.recipe.part)
        try:
            arguments = self._arguments_of(call, torch.device("cpu") if call.on_cpu else self._device)
            if call.tensors == "cute":
                arguments = cutedsl.handed_over(arguments)
            with nullcontext() if call.on_cpu else self._pretending(), self._launches.observe() as launched:
                self._run(lambda: function(*arguments))
        except BaseException as raised:
            return self._raising.describe(raised)
        return Returned("returned", (), (), (), tuple(launched))

    def _arguments_of(self, call: Call, device: torch.device) -> list[object]:
        return PlacedArguments(device, guarded=False).place(call.arguments, self._build(call.recipe), "new")

    def _run(self, function: Callable[[], object]) -> None:
        function()
        self._synchronise()


def attend(
    number: int,
    worker: Callable[[Start, str, torch.device, Announcer], Worker],
    replayer: Callable[[Start, str, torch.device, Announcer], Replayer],
    environment: Mapping[str, str],
) -> None:
    """Serve the grader with these environment variables set, by a worker or a replayer, as it asks."""
    scratch = Path.cwd()
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    channel.connect(str(scratch / CHANNEL.format(number)))
    # The standard streams are the tool's, for its report. An error of this program belongs there too.
    report, null = os.dup(2), os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    layers = os.environ.pop(LAYERS, "").split("\n")
    os.environ.update(environment)

    def employ(start: Start, folder: str, device: torch.device, announcer: Announcer) -> Worker | Replayer:
        return (replayer if start.role == "replay" else worker)(start, folder, device, announcer)

    try:
        preload()
        serve(channel, str(scratch), tuple(filter(None, layers)), employ)
    except BaseException:
        os.dup2(report, 2)
        raise
