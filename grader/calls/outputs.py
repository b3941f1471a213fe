"""Hands what a call returned to the grader: copies the bytes of every output of the right form into the memory file."""

from __future__ import annotations

import dataclasses
import mmap
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercise import tensors
from grader.protocol.messages import Form, Slot

MOST_OUTPUTS = 16
# What a tensor may be labelled with.
_NOTES = (int, float, bool, str, type(None))


def copied_out(
    outputs: Sequence[tuple[Form, Tensor | None]],
    slots: Sequence[Slot],
    memory_fd: int,
    device: str,
) -> tuple[Form, ...]:
    """Copy each output that fits its slot. Returns the forms, which say what was copied. device: where it must lie."""
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
    """Return what was returned, one after another. An iterator of the result's own could compute while it is asked.

    A tuple or a list of one thing stays what it is: where one tensor is asked for, it is none.
    """
    if isinstance(result, tuple | list):
        items = _items(result)
        return (result,) if len(items) == 1 else items
    return () if result is None else (result,)


def _items(several: tuple[object, ...] | list[object]) -> tuple[object, ...]:
    return (*(tuple if isinstance(several, tuple) else list).__iter__(several),)  # type: ignore[arg-type]


def place_of(chosen: object, things: Any) -> Tensor | object:
    """Return where among the things the chosen one is; what is none of them stays what it is."""
    for place, thing in enumerate(things):
        if chosen is thing or (type(chosen) is type(thing) and chosen == thing):
            return torch.tensor(place)
    return chosen if chosen is not None else "nothing"


def _fits(form: Form, slot: Slot, device: str) -> bool:
    right_form = form.dtype == slot.dtype and form.shape == slot.shape
    return form.kind == "tensor" and form.device == device and right_form


def _kinds(items: Sequence[object]) -> str:
    """Return what a few things are."""
    return ", ".join([*(type(one).__name__[:20] for one in items[:2]), *["…"][: len(items) - 2]])


def form_of(output: object, alias: str = "") -> Form:
    """Return what an output looks like; only exactly torch.Tensor is a tensor.

    A subclass, or a tensor with methods of its own, could compute only when it is looked at; a label could not.
    """
    if isinstance(output, tuple | list):
        items = _items(output)
        return Form(f"a {type(output).__name__[:40]} of {len(items)} ({_kinds(items)})")
    if type(output) is not Tensor:
        return Form(type(output).__name__[:80])
    if any(type(value) not in _NOTES or hasattr(Tensor, name) for name, value in vars(output).items()):
        return Form("tensor with attributes of its own")
    if output.layout is not torch.strided:
        return Form(f"tensor with layout {output.layout}")
    dtype = str(output.dtype).removeprefix("torch.")
    return Form("tensor", dtype, tuple(output.shape), output.device.type, alias)
