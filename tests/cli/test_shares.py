"""Work in shares: every share is done once, and what goes wrong in one is told."""

from __future__ import annotations

import os

import pytest

from grader.cli.shares import in_shares
from grader.errors import GradeError


def test_few_jobs_are_done_here() -> None:
    assert in_shares(lambda share, of: [share, of, os.getpid()], 99) == [[0, 1, os.getpid()]]


def test_many_jobs_are_shared_and_every_one_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    done = in_shares(lambda share, of: list(range(1000))[share::of], 1000)
    assert sorted(job for share in done for job in share) == list(range(1000))
    assert len(done) == 3


def test_what_ends_one_share_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(share: int, _: int) -> int:
        if share == 1:
            raise OSError("the disk is full")
        return share

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(GradeError, match="the disk is full"):
        in_shares(work, 1000)


def test_a_share_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(GradeError, match="a share of the work must give an answer, got none"):
        in_shares(lambda share, _: os._exit(3) if share else 0, 1000)
