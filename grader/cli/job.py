"""Make the job of a grading from the options of a command: `run`, `watch` and `all` take the same."""

from __future__ import annotations

import os
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grader import machine
from grader.cli.files import named_again
from grader.exercise.catalogue import Entry
from grader.moments import now
from grader.speed.baselines import SLOW

if TYPE_CHECKING:
    from grader.grading import Job


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a grading: parts (none named: all), the seed as typed, and the switches of the command line.

    baselines: names of slow baselines to time; all_baselines: time every one.
    """

    parts: tuple[str, ...] = ()
    seed: str | None = None
    cpu: bool = False
    all_baselines: bool = False
    baselines: tuple[str, ...] = ()
    quiet: bool = False


def job_for(entry: Entry, path: Path, source: str, seed: int | None, options: RunOptions, *, gpu: bool) -> Job:
    """Return the job: a submission, the plan of a seed (None: the exercise's own), and the command that repeats it."""
    with _leaving_at_once():
        # Hypothesis and torch load here, while the fork server loads them as well.
        from grader.exercise import plan
        from grader.grading import Job

    chosen = plan.default_seed(entry.id) if seed is None else seed
    abilities = machine.abilities(gpu=gpu)
    drawn = plan.draw(entry.exercise, chosen, abilities, parts=frozenset(options.parts) or None)
    words = ["grade", entry.id, *named_again(entry, path, options.parts, seed)]
    words += [name for name, on in (("--cpu", options.cpu), ("--all-baselines", options.all_baselines)) if on]
    words += [word for name in options.baselines for word in ("--baseline", name)]
    slow = SLOW if options.all_baselines else options.baselines
    return Job(entry, str(path.resolve()), source, drawn, shlex.join(words), now(), slow_baselines=slow)


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """End the process at once on an interrupt while torch is imported: raised inside an import, it may be lost."""

    def leave(number: int, _: object) -> None:
        os.write(2, b"grade: interrupted\n")
        os._exit(128 + number)

    before = signal.getsignal(signal.SIGINT)
    # Only the main thread is interrupted, and only it may set a handler.
    ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
