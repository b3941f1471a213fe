"""Records and replays single calls of small submissions of the first exercise's vector_add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from grader.exercise import tensors
from grader.exercise.cases import Value
from grader.exercise.catalogue import Entry
from grader.protocol.requests import Call, Recipe, Slot
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import Pair, RecordedAnswer, paired
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session

HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside), inside)


def added(x, y):
    z = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64)
    return z

"""
CASE: dict[str, Value] = {"N": 100, "dtype": "float32", "values": "normal", "offset": 0}


class Recording:
    """One submission's processes."""

    def __init__(self, entry: Entry, pair: Pair, text: str, case: Mapping[str, Value]) -> None:
        self._entry = entry
        self.pair = pair
        self._text = text
        self.case = dict(case)

    def at(self, **changes: Value) -> Recording:
        """Return the same processes, whose calls are those of another case."""
        return Recording(self._entry, self.pair, self._text, {**self.case, **changes})

    def line_of(self, words: str) -> int:
        """The line of the submission that holds these words first."""
        return next(number for number, line in enumerate(self._text.splitlines(), 1) if words in line)

    def call(self, seed: int = 3, **changes: Any) -> Call:
        """The call of vector_add on the case, with room for its result."""
        part = self._entry.exercise.parts[0]
        size, dtype = int(self.case["N"]), str(self.case["dtype"])
        slots = (Slot(dtype, (size,), 0, tensors.dtype_of(dtype).itemsize * size),)
        return replace(Call(Recipe(part.name, self.case, seed), part.arguments, part.mutates, slots), **changes)

    def record(self, seed: int = 3, **changes: Any) -> RecordedAnswer:
        """Record a call that is expected to be recorded."""
        told = self.pair.record(self.call(seed, **changes))
        assert isinstance(told, RecordedAnswer), told
        return told

    def replay(self, told: RecordedAnswer, seed: int = 5, **changes: Any) -> Outcome:
        """Replay it on the inputs of another seed."""
        return self.pair.replay(told, self.call(seed, **changes))

    def inputs(self, seed: int = 5) -> tuple[Tensor, Tensor]:
        """The arguments of a seed."""
        source = tensors.module_from_text("inputs.py", self._entry.source("inputs.py"))
        x, y = tensors.build(source, "vector_add", self.case, seed)
        assert isinstance(x, Tensor)
        assert isinstance(y, Tensor)
        return x, y

    def wanted(self, seed: int = 5) -> Tensor:
        """The right answer for a seed."""
        x, y = self.inputs(seed)
        return x + y


@contextmanager
def recording(
    server: ForkServer, entry: Entry, source: str, *, head: str = HEAD, case: Mapping[str, Value] = CASE
) -> Iterator[Recording]:
    """Yield the processes of a submission, whose text is `head` and `source`; its calls are those of `case`."""
    text = head + source
    spec = ProcessSpec.of(server, entry, text)
    with Session(spec) as session, paired(spec, session) as pair:
        yield Recording(entry, pair, text, case)


def answer_in(outcome: Outcome, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the only result of a call that returned."""
    assert isinstance(outcome, Finished), outcome
    raw = outcome.outputs[0]
    assert raw is not None, outcome.answer
    return torch.frombuffer(bytearray(raw), dtype=dtype)
