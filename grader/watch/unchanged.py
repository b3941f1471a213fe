"""Keep what an earlier grading of the loop found of parts whose text has not changed since.

Takes texts and records; grades nothing. A part that failed is graded again: its card names lines, which may have moved.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from grader.exercise.model import Exercise
from grader.progress.part_text import part_hashes
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import Record
from grader.record.statuses import UNJUDGED, Status
from grader.record.verdicts import verdict_of
from grader.syntax import tree_of
from grader.watch.order import in_order

# Where a part raises, in a reason.
_LINE = re.compile(r"\(line (\d+)\)")
# The statuses that another grading of the same text would give again.
_SETTLED: frozenset[Status] = frozenset({"pass", "not_implemented", "skipped_environment"})


@dataclass(frozen=True)
class GradedText:
    """A text and its record."""

    source: str
    record: Record

    def unchanged(self, source: str, parts: Sequence[str]) -> frozenset[str]:
        """Return the parts whose results hold for another text too; none where that changes no part at all.

        Who saves a file unchanged wants all of it graded again.
        """
        before, now = part_hashes(self.source, parts), part_hashes(source, parts)
        same = frozenset(part for part in parts if before[part] == now[part])
        return frozenset(filter(self._is_settled, same)) if len(same) < len(parts) else frozenset()

    def results(self, parts: Collection[str]) -> tuple[CheckResult, ...]:
        """Return the results of these parts."""
        return tuple(check for check in self.record.checks if check.part in parts)

    def joined(self, record: Record, source: str, parts: Collection[str], exercise: Exercise) -> Record:
        """Return a record of the other parts of a text, with the results of these parts."""
        moved = _lines_moved(self.source, source)
        kept = tuple(_with_moved_kernels(part, moved) for part in self.record.parts if part.name in parts)
        results = (_with_moved_line(check, moved) for check in self.results(parts))
        checks = (*record.checks, *results)
        whole = replace(
            record,
            parts=(*record.parts, *kept),
            checks=checks,
            verdict=verdict_of(checks),
            score=sum(check.points for check in checks),
            judged_score=sum(check.max_points for check in checks if check.status not in UNJUDGED),
            max_score=sum(check.max_points for check in checks),
        )
        return in_order(whole, exercise)

    def _is_settled(self, part: str) -> bool:
        statuses = {check.status for check in self.results([part])}
        return bool(statuses) and statuses <= _SETTLED


def _with_moved_kernels(part: PartInfo, moved: Mapping[str, int]) -> PartInfo:
    """Return a part whose kernels are named by the lines where they stand now."""
    kernels = (replace(kernel, line=kernel.line + moved.get(kernel.kernel, 0)) for kernel in part.kernels)
    return replace(part, kernels=tuple(kernels))


def _with_moved_line(check: CheckResult, moved: Mapping[str, int]) -> CheckResult:
    """Return an unwritten part's check with the line where the part raises now; any other as it is."""
    if check.status != "not_implemented":
        return check
    by = moved.get(check.part, 0)
    return replace(check, reason=_LINE.sub(lambda found: f"(line {int(found[1]) + by})", check.reason, count=1))


def _lines_moved(before: str, now: str) -> Mapping[str, int]:
    """Return by how many lines each function of both texts has moved down."""
    earlier, later = _lines_of_functions(before), _lines_of_functions(now)
    return {name: line - earlier[name] for name, line in later.items() if name in earlier}


def _lines_of_functions(source: str) -> Mapping[str, int]:
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return {node.name: node.lineno for node in ast.walk(tree_of(source)) if isinstance(node, ast.FunctionDef)}
    return {}
