"""Of judged calls, one for each group of kernels is read by the compiler, and that with the largest blocks must fit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from grader.judge.kernel_groups import KernelGroups
from grader.protocol.answers import Returned
from grader.protocol.observations import LaunchInfo
from grader.sandbox.outcome import Finished


def called(digest: bytes, dtype: str = "float16", block: int = 64) -> Any:
    """A recorded call of one kernel, and what came of its replay."""
    trace = SimpleNamespace(
        kernels=[SimpleNamespace(name="k", line=1)], windows=[SimpleNamespace(dtype=dtype)], steps=()
    )
    launches = (LaunchInfo("k", (1,), {"BLOCK": block}),)
    return (
        SimpleNamespace(trace=trace, is_replayable=True, digest=digest),
        Finished(Returned("returned", (), (), (), launches), ()),
    )


def kept(*calls: Any) -> dict[str, list[bytes]]:
    """The digests of the calls that are kept, by how far the compiler is to go."""
    groups = KernelGroups()
    for call in calls:
        groups.note(*call)
    found: dict[str, list[bytes]] = {"fit": [], "read": []}
    for one in groups.calls():
        found[one.until].append(one.recorded.digest)
    return found


def test_the_call_with_the_largest_blocks_must_fit_and_another_of_its_group_is_read() -> None:
    calls = [called(b"1"), called(b"3", block=128), called(b"2", block=32)]
    assert kept(*calls) == {"fit": [b"3"], "read": [b"1"]}


def test_each_size_of_elements_has_a_call_that_must_fit() -> None:
    calls = [called(b"1"), called(b"2", "bfloat16", 128), called(b"3", "float32", 32)]
    assert kept(*calls) == {"fit": [b"2", b"3"], "read": [b"1"]}


@pytest.mark.parametrize("dtype", ["nonsense", "", "float8_e4m3fn"])
def test_a_dtype_may_be_any_text(dtype: str) -> None:
    assert kept(called(b"1", dtype)) == {"fit": [b"1"], "read": []}


def test_what_a_block_notes_can_be_forgotten() -> None:
    groups = KernelGroups()
    groups.note(*called(b"2"))
    with groups.unchanged():
        groups.note(*called(b"1", block=512))
        assert len(groups.calls()) == 1
        assert groups.calls()[0].recorded.digest == b"1"
    assert [one.recorded.digest for one in groups.calls()] == [b"2"]
