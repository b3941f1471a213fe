"""How much memory a call takes at one time: fresh storages as long as they live, each once; inputs and views not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grader.child.allocations import Storages, storages_of
from grader.child.evidence import Probe

CPU = torch.device("cpu")
# In float32: 4000 bytes.
N = 1000
BYTES = 4 * N
# Too large for guard bands: memory of torch's own.
LARGE = 5 << 20


def taken(call: Callable[[Tensor], object], x: Tensor | None = None) -> int:
    """How many bytes a call took at one time; x: [N], float32, is there already."""
    given = torch.ones(N) if x is None else x
    probe = Probe(CPU, interpreted=False)
    with probe.watch() as seen:
        result = call(given)
    del result
    return seen.allocated_bytes


def freed(x: Tensor) -> None:
    for _ in range(7):
        torch.empty_like(x)


def kept(x: Tensor) -> list[Tensor]:
    return [torch.empty_like(x) for _ in range(7)]


def most_in_the_middle(x: Tensor) -> Tensor:
    first, second = torch.empty_like(x), torch.empty_like(x)
    del first
    third = torch.empty(N // 2)
    del second
    return third


def views(x: Tensor) -> Tensor:
    whole = torch.zeros(N)
    return whole.view(10, 100).t()[3:].expand(5, 97, 10).reshape(-1)[2:]


def resized(x: Tensor) -> Tensor:
    buffer = torch.empty(7)
    return buffer.resize_(N)


def shrunk_and_grown(x: Tensor) -> Tensor:
    buffer = torch.empty(LARGE // 4)
    buffer.resize_(7)
    buffer.resize_(LARGE // 2)
    return buffer


def set_to_another(x: Tensor) -> Tensor:
    whole, part = torch.empty(N), torch.empty(N)
    return part.set_(whole.untyped_storage(), 0, (7,), (1,))


CALLS = {
    "nothing": (lambda x: x, 0),
    "one_result": (torch.empty_like, BYTES),
    "several_results": (lambda x: (torch.empty_like(x), torch.zeros_like(x)), 2 * BYTES),
    "half_precision": (lambda x: x.to(torch.float16), BYTES // 2),
    "arithmetic": (lambda x: x + 1, BYTES),
    "a_chain": (lambda x: ((x + 1) * 2).exp(), 2 * BYTES),
    "temporaries_freed": (freed, BYTES),
    "temporaries_kept": (kept, 7 * BYTES),
    "most_in_the_middle": (most_in_the_middle, 2 * BYTES),
    "in_place_on_an_input": (lambda x: x.add_(1).mul_(2).copy_(x), 0),
    "in_place_on_a_result": (lambda x: torch.zeros(N).add_(x).fill_(3), BYTES),
    "into_a_result": (lambda x: torch.add(x, x, out=torch.empty(N)), BYTES),
    "into_a_result_that_grows": (lambda x: torch.add(x, x, out=torch.empty(0)), BYTES),
    "into_an_input": (lambda x: torch.add(x, x, out=x), 0),
    "views_of_an_input": (lambda x: x.view(10, 100).t()[1:].unsqueeze(0).detach(), 0),
    "views_of_a_result": (lambda x: views(x) is None, BYTES + 4 * 5 * 97 * 10),
    "a_view_keeps_the_whole": (lambda x: [torch.empty(N)[:1], torch.empty(N)[:1]], 2 * BYTES),
    "a_copy_of_a_strided_view": (lambda x: x[::2].contiguous(), BYTES // 2),
    "already_contiguous": (lambda x: x.contiguous(), 0),
    "expanded": (lambda x: torch.zeros(1, 1).expand(N, N), 4),
    "from_python": (lambda x: torch.tensor([1.0] * 100), 400),
    "joined": (lambda x: torch.cat((x, x)), 2 * BYTES),
    "resized": (resized, BYTES),
    "shrunk_and_grown": (shrunk_and_grown, 2 * LARGE),
    "set_to_another": (set_to_another, 2 * BYTES),
    "large": (lambda x: torch.empty(LARGE // 4), LARGE),
    "large_and_freed": (lambda x: [torch.empty(LARGE // 4).numel() for _ in range(3)], LARGE),
    "nothing_to_store": (lambda x: torch.empty(0), 0),
}


@pytest.mark.parametrize(("call", "wanted"), CALLS.values(), ids=CALLS.keys())
def test_what_a_call_takes(call: Callable[[Tensor], object], wanted: int) -> None:
    assert taken(call) == wanted


def test_a_call_begins_at_nothing() -> None:
    probe = Probe(CPU, interpreted=False)
    with probe.watch() as first:
        workspace = torch.zeros(N)
    with probe.watch() as second:
        workspace.add_(1)
        workspace.view(10, 100).mul_(2)
    assert (first.allocated_bytes, second.allocated_bytes) == (BYTES, 0)


def test_memory_that_is_given_out_again_is_a_new_storage() -> None:
    storages = Storages()
    for _ in range(100):
        storages.add([torch.empty(N)], frozenset())
    assert storages.most_bytes == BYTES


def test_of_known_storages_only_those_of_the_call_itself_are_counted() -> None:
    storages, x, own = Storages(), torch.empty(N), torch.empty(N)
    storages.add([x[1:], x], storages_of([x]))
    assert storages.most_bytes == 0
    storages.add([own], frozenset())
    storages.add([own.view(10, 100), x], storages_of([own, x]))
    assert storages.most_bytes == BYTES
