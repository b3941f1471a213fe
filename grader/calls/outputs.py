"""Hand the outputs of a call to the grader.

Copies the bytes of every output of the right form into the memory file. Gives forms only: never judges values.
"""

from __future__ import annotations

import dataclasses
import mmap
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.calls.storage import has_storage
from grader.exercise import tensors
from grader.protocol.answers import Form
from grader.protocol.requests import Slot
from grader.protocol.trace import span

MOST_OUTPUTS = 16
# Types of labels that a submission may attach to a tensor.
_NOTES = (int, float, bool, str, type(None))


def copied_out(
    outputs: Sequence[tuple[Form, Tensor | None]],
    slots: Sequence[Slot],
    memory_fd: int,
    device: str,
) -> tuple[Form, ...]:
    """Copy each output that fits its slot, and return the forms, which say what was copied.

    device: the device type that an output must lie on.
    """
    forms = []
    memory = mmap.mmap(memory_fd, 0) if slots else None
    for i, (form, output) in enumerate(outputs[:MOST_OUTPUTS]):
        if memory is not None and i < len(slots) and output is not None and _fits(form, slots[i], device):
            raw = tensors.bytes_of(output).cpu().numpy()
            memory[slots[i].offset : slots[i].offset + slots[i].nbytes] = raw.tobytes()
            form = dataclasses.replace(form, copied=True)  # noqa: PLW2901
        forms.append(form)
    return tuple(forms)


def items_of(result: object) -> tuple[object, ...]:
    """Return the items of a result, read without an iterator of its own, which could compute.

    A tuple or a list of one item stays as it is: it does not count as the one tensor that a part asks for.
    """
    if isinstance(result, tuple | list):
        items = _items(result)
        return (result,) if len(items) == 1 else items
    return () if result is None else (result,)


def _items(several: tuple[object, ...] | list[object]) -> tuple[object, ...]:
    return (*(tuple if isinstance(several, tuple) else list).__iter__(several),)  # type: ignore[arg-type]


def place_of(chosen: object, things: Any) -> Tensor | object:
    """Return the place of the chosen thing among the things as a tensor; itself where it is none of them."""
    for place, thing in enumerate(things):
        if chosen is thing or (type(chosen) is type(thing) and chosen == thing):
            return torch.tensor(place)
    return chosen if chosen is not None else "nothing"


def _fits(form: Form, slot: Slot, device: str) -> bool:
    right_form = form.dtype == slot.dtype and form.shape == slot.shape
    return form.kind == "tensor" and form.device == device and right_form


def _kinds(items: Sequence[object]) -> str:
    """Return the type names of the first items, as text."""
    return ", ".join([*(type(one).__name__[:20] for one in items[:2]), *["…"][: len(items) - 2]])


def form_of(output: object, alias: str = "") -> Form:
    """Return the form of an output; only exactly torch.Tensor counts as a tensor.

    A subclass, or a tensor with methods of its own, could delay its computation until it is read; a label could not.
    """
    if isinstance(output, tuple | list):
        items = _items(output)
        return Form(f"a {type(output).__name__[:40]} of {len(items)} ({_kinds(items)})")
    if type(output) is not Tensor:
        return Form(type(output).__name__[:80])
    if any(type(value) not in _NOTES or hasattr(Tensor, name) for name, value in vars(output).items()):
        return Form("tensor with attributes of its own")
    if not has_storage(output):
        return Form("nested tensor" if output.is_nested else f"tensor with layout {output.layout}")
    if _has_lost_memory(output):
        return Form("tensor whose memory was given back")
    dtype = tensors.dtype_name(output.dtype)
    return Form("tensor", dtype, tuple(output.shape), output.device.type, alias)


def _has_lost_memory(tensor: Tensor) -> bool:
    """Return whether elements lie beyond the end of the tensor's storage, which then was made smaller."""
    end = int(tensor.storage_offset()) + span(tensor.shape, tensor.stride())
    return bool(tensor.numel()) and end * tensor.element_size() > tensor.untyped_storage().nbytes()
