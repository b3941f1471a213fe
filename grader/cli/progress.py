"""Progress on stderr while checks are decided."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from grader.cli.say import knows_unicode
from grader.record.checks import CheckResult
from grader.report.text.terminal import render_check

_LINES = 8


class LineProgress:
    """One plain line per check, for logs and pipes."""

    def __enter__(self) -> Callable[[CheckResult], None]:
        ascii_only = not knows_unicode(sys.stderr)
        return lambda result: print(render_check(result, ascii_only=ascii_only), file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        pass


class LiveProgress:
    """The latest checks under a spinner; it vanishes when the grading ends, and the result takes its place."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._latest: deque[str] = deque(maxlen=_LINES)
        self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=12)

    def __enter__(self) -> Callable[[CheckResult], None]:
        self._live.__enter__()
        self._update()
        return self._show_result

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def _show_result(self, result: CheckResult) -> None:
        self._done += 1
        width = self._live.console.width
        self._latest.append(render_check(result, width=width, ascii_only=not knows_unicode(sys.stderr)))
        self._update()
        self._live.refresh()

    def _update(self) -> None:
        spinner = Spinner(
            "dots" if knows_unicode(sys.stderr) else "line", Text(f"{self._done} of {self._total} checks")
        )
        self._live.update(Group(*(Text(line) for line in self._latest), spinner))
