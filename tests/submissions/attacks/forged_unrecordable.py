"""inconclusive: torch adds; the recorder is made to say that something nameless could not be recorded, and no more.

Attack 5, 50. Twin: controls/logs_calls_of_its_own.
"""

import dataclasses
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def _first(x_ptr, z_ptr):
    tl.store(z_ptr, tl.load(x_ptr))


recorder = sys.modules["grader.recorder.recorder"]
to_message = recorder.RecordedCall.to_message


def forged(call, outputs, **given):
    honest = to_message(call, outputs, **given)
    nameless = sys.modules["grader.protocol.trace"].TraceNote("", 0)
    return dataclasses.replace(honest, outside_work=(), unrecordable=(nameless,))


recorder.RecordedCall.to_message = forged


def vector_add(x, y):
    _first[(0,)](x, torch.empty_like(x))
    return torch.add(x, y)
