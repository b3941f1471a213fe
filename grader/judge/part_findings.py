"""Hold what the calls of one part have shown so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from grader.exercise.cases import Case
from grader.judge.coverage import coverage_of, more_telling
from grader.judge.evidence import Evidence
from grader.judge.failure import Failure
from grader.judge.kernel_groups import KernelGroups
from grader.judge.trial import TriedCase
from grader.judge.truth import Expected
from grader.protocol.observations import LaunchInfo
from grader.record.launches import Coverage

# Number of right answers to remember.
_RECENT = 6


@dataclass
class PartFindings:
    """The findings about one part: what its calls have shown.

    evidence: of every call. tried: the cases that ran. recent: the latest right answers. kernel_groups: the calls whose
    kernels the compiler reads. configurations: those of autotuned kernels in which calls ran, each with the first line
    of its kernel; None until a check asks for all. depends_on_size: a call was wrong on a GPU with more multiprocessors
    alone. wrong_in_own_process: the latest call that was made again in the submission's own process was wrong there
    too. only_on_a_gpu: configurations that only a GPU runs: the part, of how many, and which. outside_kernels: the
    failures of calls that are right, though their kernels alone are not.
    """

    evidence: list[Evidence] = field(default_factory=list)
    tried: list[TriedCase] = field(default_factory=list)
    recent: deque[tuple[Expected, ...]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    kernel_groups: KernelGroups = field(default_factory=KernelGroups)
    configurations: set[tuple[int, str]] | None = None
    depends_on_size: bool = False
    wrong_in_own_process: bool = False
    only_on_a_gpu: set[tuple[str, int, int]] = field(default_factory=set)
    outside_kernels: list[Failure] = field(default_factory=list)
    # The most telling coverage, if there is any: a list, which the benches of one part share.
    _coverage: list[Coverage] = field(default_factory=list)

    @property
    def coverage(self) -> Coverage | None:
        """The elements that programs touch, in the right call that shows it best."""
        return self._coverage[0] if self._coverage else None

    def note_right(self, case: Case, expected: tuple[Expected, ...], launches: tuple[LaunchInfo, ...]) -> None:
        """Note a right call: its answer, and what its programs touch. launches: () for a call without a replay."""
        self.recent.append(expected)
        best = more_telling(*self._coverage, coverage_of(case.words(), launches))
        self._coverage[:] = [best] if best else []

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Discard the evidence, the tried cases, the coverage and the failures of the calls in the block."""
        evidence, tried, coverage = list(self.evidence), list(self.tried), list(self._coverage)
        outside = list(self.outside_kernels)
        try:
            yield
        finally:
            self.evidence[:], self.tried[:], self._coverage[:] = evidence, tried, coverage
            self.outside_kernels[:] = outside
