"""Compute expected values on another thread, while a process answers earlier calls.

Takes the next calls; its results go into the Truth. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import torch

from grader.exercise.model import Part
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe


class OraclePrefetch:
    """Computation of expected values before they are needed. Use as a context manager; its thread ends with it.

    An error here is dropped: the same computation is repeated, and its error reported, where the case is judged.
    """

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        # A thread computes products on every core until it is asked for its number of threads.
        self._pool = ThreadPoolExecutor(1, "oracle prefetch", initializer=torch.get_num_threads)
        self._wanted: list[Future[Any]] = []

    def __enter__(self) -> OraclePrefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def turn_to(self, calls: Sequence[tuple[Part, Recipe]]) -> None:
        """Compute these next, in this order. Drops earlier requests that have not begun."""
        for earlier in self._wanted:
            earlier.cancel()
        self._wanted = [self._pool.submit(self._truth.expect, part, recipe) for part, recipe in calls]
