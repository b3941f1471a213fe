"""Guard bands around what the submission allocates during a call, so that a store beyond its end is seen."""

from __future__ import annotations

import torch
from torch import Tensor

# As wide as those of the arguments: a block that runs over an end stays inside.
GUARD_BYTES = 1 << 16
_MOST_GUARDED_BYTES = 4 << 20
# Not the 0xFF around the arguments: a lane that reads NaN beyond an input and stores it beyond an output must show.
_FILL = 0x7F


def bytes_of(tensor: Tensor) -> Tensor:
    """The whole storage of a tensor as bytes, sharing its memory."""
    storage = tensor.untyped_storage()
    # An inference tensor could not be written outside the submission's inference mode; its bytes can.
    with torch.inference_mode(False):
        return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))


class Bands:
    """The guarded allocations of one call."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._allocations: list[tuple[Tensor, list[int]]] = []
        self._kept: dict[int, Tensor] = {}

    def around(self, fresh: Tensor) -> Tensor:
        """The same tensor in memory of its own with a guard band on either side."""
        size = fresh.untyped_storage().nbytes()
        if type(fresh) is not Tensor or fresh.device.type != self._device.type or not 0 < size <= _MOST_GUARDED_BYTES:
            return fresh
        buffer = torch.full((size + 2 * GUARD_BYTES,), _FILL, dtype=torch.uint8, device=fresh.device)
        buffer[GUARD_BYTES : GUARD_BYTES + size].copy_(bytes_of(fresh))
        # A storage of its own, of the size that was asked for: the submission may look at offsets and sizes.
        inside = torch._C._construct_storage_from_data_pointer(buffer.data_ptr() + GUARD_BYTES, fresh.device, size)
        guarded = torch.empty(0, dtype=fresh.dtype, device=fresh.device).set_(
            inside, fresh.storage_offset(), fresh.shape, fresh.stride()
        )
        self._allocations.append((buffer, list(fresh.shape)))
        # That storage does not own its memory, and may be kept for as long as the process lives.
        self._kept[inside.data_ptr()] = buffer
        return guarded

    def release(self, tensor: Tensor) -> None:
        """Move a guarded tensor to ordinary memory, where it can be resized."""
        if tensor.untyped_storage().data_ptr() in self._kept:
            own = bytes_of(tensor).clone().untyped_storage()
            tensor.set_(own, tensor.storage_offset(), tensor.shape, tensor.stride())

    def overrun(self) -> tuple[str, ...]:
        """Descriptions of writes outside the allocations; forgets them."""
        found = []
        for buffer, shape in self._allocations:
            after = buffer[buffer.numel() - GUARD_BYTES :]
            before = buffer[:GUARD_BYTES]
            for band, where in ((after, "after the end"), (before, "before the start")):
                touched = (band != _FILL).nonzero().flatten()
                if touched.numel():
                    first = int(touched[0]) if band is after else GUARD_BYTES - int(touched[-1])
                    text = f"{touched.numel()} bytes {where} of a tensor of shape {shape} that your code allocated"
                    found.append(f"{text}, the nearest {first} bytes away")
        self._allocations.clear()
        return tuple(found[:8])
