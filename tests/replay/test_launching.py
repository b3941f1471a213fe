"""Kernels that make descriptors on a GPU ask for memory while they run; the replay lends it where the file does."""

from __future__ import annotations

from contextvars import copy_context

import pytest
import torch
from triton.runtime import _allocation

from grader.replay.launching import lend_workspaces


def test_a_replay_lends_as_many_bytes_as_a_kernel_asks_for() -> None:
    def lent() -> torch.Tensor:
        lend_workspaces(torch.device("cpu"))
        found = _allocation._allocator.get()(48, 128, None)
        assert isinstance(found, torch.Tensor)
        return found

    # Triton keeps the allocator in the context: this one ends with the test.
    assert (copy_context().run(lent).dtype, copy_context().run(lent).numel()) == (torch.int8, 48)


def test_a_replay_lends_nothing_where_launch_code_has_set_no_allocator() -> None:
    def ask() -> None:
        lend_workspaces(torch.device("cpu"))
        lend_workspaces(None)
        _allocation._allocator.get()(48, 128, None)

    with pytest.raises(RuntimeError, match=r"Use triton\.set_allocator"):
        copy_context().run(ask)
