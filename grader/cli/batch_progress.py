"""Progress of a class on stderr: a live table on a terminal, a line per grading elsewhere.

Takes the numbers of gradings, the started tasks, and the journal's lines. Gives text on stderr, or nothing
if it must be quiet. Never touches stdout, the journal or the gradings.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Sequence
from time import monotonic
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from grader.batch.store import JournalLine
from grader.batch.work import Task
from grader.record.statuses import Status
from grader.report.status import LOOKS

_LATEST = 8
_MOST_RUNNING = 12


def progress_board(total: int, as_before: int, *, quiet: bool, advice: str = "") -> Board:
    """Return the board that fits stderr. advice: what to do if no worker is left."""
    if sys.stderr.isatty() and not quiet:
        return LiveTable(total, as_before, advice)
    return Board(total, as_before, advice, quiet=quiet)


def eta_s(elapsed_s: float, done: int, total: int) -> float | None:
    """Return an estimate of the seconds left, at the pace so far; None if nothing is done."""
    return elapsed_s / done * (total - done) if done else None


def clock(seconds: float | None) -> str:
    """Return seconds as 1:05 or 2:01:05; None as –."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Board:
    """Progress as plain lines, one for each grading, for logs and pipes. Use as a context manager.

    total: the gradings to do, each text once. as_before: the results of earlier runs that are kept, one per student and
    exercise; they are not graded again. advice: what to do if no worker is left. quiet: shows nothing.
    """

    def __init__(self, total: int, as_before: int, advice: str = "", *, quiet: bool = False) -> None:
        self._total = total
        self._as_before = as_before
        self._advice = advice
        self._quiet = quiet
        self._places = 1
        self._done = 0
        self._since = 0.0

    def __enter__(self) -> Self:
        self._say(f"{self._total} to grade, {self._as_before} as before; starting workers …")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def started(self, task: Task) -> None:  # noqa: ARG002  a live table shows it
        """Start the clock at the first started task: workers take a while to start."""
        self._since = self._since or monotonic()

    def waited(self, places: int) -> None:
        """Note how many gradings the workers do at a time; report at once if no worker is left."""
        if not places and self._places:
            self._say(f"no worker is left, {self._total - self._done} are still to grade; {self._advice}")
        self._places = places

    def graded(self, lines: Sequence[JournalLine]) -> None:
        """Show the result of one grading, and the time that is left.

        lines: one for each student who handed in that text; at least one.
        """
        self._done += 1
        left = clock(eta_s(monotonic() - self._since, self._done, self._total))
        self._say(f"[{self._done:>{len(str(self._total))}}/{self._total}] {told(lines)}  left {left}")

    def _say(self, line: str) -> None:
        if not self._quiet:
            print(line, file=sys.stderr, flush=True)


def told(lines: Sequence[JournalLine]) -> str:
    """Return the result of one grading as a line: the first student's, and the number of others with the same text."""
    first = lines[0]
    others = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    points = f"{first.score:g}/{first.judged:g}"
    again = f" (given out {first.attempts} times)" if first.attempts > 1 else ""
    word = LOOKS[first.verdict].word
    return f"{first.student}{others}  {first.exercise}  {word}  {points}  {first.seconds:.1f} s{again}"


class LiveTable(Board):
    """A live table: the running gradings, the latest results, and the time left."""

    def __init__(self, total: int, as_before: int, advice: str = "") -> None:
        super().__init__(total, as_before, advice)
        self._places = 0
        self._running: dict[str, tuple[str, float]] = {}
        self._verdicts: Counter[Status] = Counter()
        self._latest: deque[str] = deque(maxlen=_LATEST)
        self._live = Live(console=Console(stderr=True), refresh_per_second=4, get_renderable=self._shown)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def started(self, task: Task) -> None:
        """Show that a task is being graded."""
        super().started(task)
        self._running[task.key] = (task.exercise, monotonic())

    def waited(self, places: int) -> None:
        """Show how many gradings the workers do at a time."""
        self._places = places

    def graded(self, lines: Sequence[JournalLine]) -> None:
        """Show the latest results, and count: gradings for the bar, students' submissions for the verdicts."""
        self._done += 1
        self._running.pop(lines[0].key, None)
        self._verdicts.update(line.verdict for line in lines)
        self._latest.append(told(lines))

    def _shown(self) -> Group:
        elapsed = monotonic() - self._since if self._since else 0.0
        head = Table.grid(padding=(0, 2))
        head.add_row(
            ProgressBar(self._total, self._done, width=30),
            Text(f"{self._done} of {self._total}, {self._as_before} as before"),
            Text(f"{clock(elapsed)} gone, {clock(eta_s(elapsed, self._done, self._total))} left"),
            Text(f"{self._places} at a time" if self._places else "waiting for workers"),
        )
        alone = [Text(f"no worker is left; {self._advice}")] if self._since and not self._places else []
        table = Table(box=None, show_header=False, padding=(0, 2))
        for exercise, since in list(self._running.values())[:_MOST_RUNNING]:
            table.add_row(Text("…"), Text(exercise), Text(clock(monotonic() - since)))
        counts = ", ".join(f"{count} {LOOKS[verdict].word}" for verdict, count in self._verdicts.most_common())
        return Group(head, *alone, Text(counts), *(Text(f"  {line}") for line in self._latest), table)
