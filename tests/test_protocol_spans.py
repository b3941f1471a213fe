"""Pieces of an output: every byte lies in exactly one, and both sides of the boundary sum them alike."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grader.child.stopwatch import _piece_sums
from grader.protocol.spans import MOST_SUMS, PIECES, WORD_BYTES, spans, word_sum

# Fewer bytes than words, than pieces, than words in every piece; and neighbours of each.
SIZES = (*range(41), 4001, 8 * PIECES - 1, 8 * PIECES, 8 * PIECES + 3, 16 * PIECES + 17, 65_536 * 8 + 5)


def random_bytes(size: int, seed: int = 17) -> bytes:
    return random.Random(seed).randbytes(size)


def sums_of(raw: bytes) -> list[int]:
    """The sums as the process takes them that made the output."""
    tensor = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
    found: list[int] = _piece_sums(tensor).tolist()
    return found


@given(st.integers(0, 1 << 40))
def test_pieces_cover_every_byte_once_and_in_order(size: int) -> None:
    end = 0
    for first, count in spans(size):
        assert first == end
        assert count > 0
        end = first + count
    assert end == size


@given(st.integers(0, 1 << 40))
def test_an_output_has_at_most_1024_equal_pieces_and_two_for_the_rest(size: int) -> None:
    found = spans(size)
    assert len(found) <= PIECES + 2
    assert 16 * len(found) + 1 <= MOST_SUMS
    assert len({count for _, count in found[:PIECES]}) == 1 or size < WORD_BYTES * PIECES
    assert all(first % WORD_BYTES == 0 for first, _ in found)


def test_an_empty_output_has_no_pieces() -> None:
    assert spans(0) == ()
    assert sums_of(b"") == []


@pytest.mark.parametrize("size", SIZES)
def test_a_shown_piece_has_the_sum_that_was_committed_to(size: int) -> None:
    raw = random_bytes(size)
    assert sums_of(raw) == [word_sum(raw[first : first + count]) for first, count in spans(size)]


@given(st.integers(0, 20_000), st.integers(0, 2**32))
def test_it_has_that_sum_for_any_size_and_any_bytes(size: int, seed: int) -> None:
    raw = random_bytes(size, seed)
    assert sums_of(raw) == [word_sum(raw[first : first + count]) for first, count in spans(size)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.bool])
@pytest.mark.parametrize("count", [1, 3, 7, 63, 500, 4101])
def test_elements_of_any_dtype_are_summed_as_their_bytes(dtype: torch.dtype, count: int) -> None:
    values = torch.randn(count, generator=torch.Generator().manual_seed(count)).mul_(9).to(dtype)
    raw = values.view(torch.uint8)
    shown = raw.numpy().tobytes()
    assert _piece_sums(raw).tolist() == [word_sum(shown[first : first + size]) for first, size in spans(raw.numel())]


@pytest.mark.parametrize("size", [8, 1 << 16, 1 << 17])
def test_sums_wrap_around_on_both_sides(size: int) -> None:
    for byte in (b"\x7f", b"\x80", b"\xff"):
        raw = byte * size
        assert sums_of(raw) == [word_sum(raw[first : first + count]) for first, count in spans(size)]
        assert -(2**63) <= word_sum(raw) < 2**63


@pytest.mark.parametrize("place", [0, 8191, 16_383, 16_400, 16_403])
def test_one_changed_byte_changes_one_sum(place: int) -> None:
    raw = random_bytes(16_404)
    changed = bytearray(raw)
    changed[place] ^= 1
    differing = [
        i for i, (old, new) in enumerate(zip(sums_of(raw), sums_of(bytes(changed)), strict=True)) if old != new
    ]
    (where,) = differing
    first, count = spans(len(raw))[where]
    assert first <= place < first + count
