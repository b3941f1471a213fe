"""Truth in advance: while a process answers one case, another thread computes what the next ones should give."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import torch

from grader.exercise.model import Part
from grader.judge.truth import Truth
from grader.protocol.messages import Recipe


class Ahead:
    """Computes what calls should give before it is asked for. A context manager; its thread ends with it.

    What goes wrong here is tried again where the case is judged, and told there.
    """

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        # A thread that was never asked for its number of threads computes products on every core.
        self._pool = ThreadPoolExecutor(1, "truth ahead", initializer=torch.get_num_threads)
        self._wanted: list[Future[Any]] = []

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def turn_to(self, calls: Sequence[tuple[Part, Recipe]]) -> None:
        """These are judged next, in this order; whatever was wanted before and is not begun is given up."""
        for earlier in self._wanted:
            earlier.cancel()
        self._wanted = [self._pool.submit(self._truth.expect, part, recipe) for part, recipe in calls]
