"""`grade EXERCISE` and `grade replay`: from the command line to a record, a terminal and a scorecard."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from grader import machine
from grader.cli.browser import show_in_browser
from grader.cli.files import check_target, check_writable, chosen_file, named_again, parse_seed, write, write_or_print
from grader.cli.finish import finish_of
from grader.cli.next_step import step_after
from grader.cli.saved import card_for, keep_results, last_failure, note_attempt
from grader.cli.say import say
from grader.cli.terminal import show_progress, terminal_of
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, find_root
from grader.moments import now
from grader.processes import Processes
from grader.record import Record, exit_code, to_json
from grader.report import view
from grader.sandbox.server import ForkServer
from grader.speed.baseline_process import BaselineProcess
from grader.speed.baselines import SLOW
from grader.timeline import age_s, spent

if TYPE_CHECKING:
    from grader.grading import Job


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Targets of a record beside the terminal and scorecards/: files, or "-" for stdout."""

    json: str | None = None
    html: str | None = None
    junit: str | None = None
    open_card: bool = False
    timeline: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """Every file or "-" that was asked for."""
        return tuple(target for target in (self.json, self.html, self.junit) if target is not None)


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


def run(exercise: str, submission: str | None, options: RunOptions, outputs: Outputs) -> int:
    """Grade one exercise; return the exit code. Refuses bad requests before it starts anything."""
    entry, path, source = chosen_file(exercise, submission)
    seed = parse_seed(options.seed) if options.seed is not None else None
    entry.named_parts(options.parts)
    for name in options.baselines:
        if name not in SLOW:
            raise UsageError(f"a slow baseline must be one of {', '.join(SLOW)}, got {name!r}")
    if outputs.targets.count("-") > 1:
        raise UsageError("at most one output must be -, got several")
    for target in outputs.targets:
        check_target(target)
    card = card_for(entry, path, options.parts)
    keeps_card = can_keep(card)
    if not options.quiet:
        # Before anything slow: loading torch takes seconds, and silence looks like a hang.
        say(f"Checking {path.resolve()} …", sys.stderr)
    with Processes(cpu=options.cpu) as processes:
        with spent("find out what this machine has"):
            server, baselines = processes.ready(entry, options.parts)
        with spent("import and plan"):
            job = job_for(entry, path, source, seed, options, gpu=server.mode == "gpu")
        with spent("the grader's own kernel"):
            processes.check()
        record = _grade(job, server, baselines, quiet=options.quiet)
        processes.begin_closing()
        _hand_out(record, source, outputs, entry, card if keeps_card else None)
    return exit_code(record.verdict)


def _hand_out(record: Record, source: str, outputs: Outputs, entry: Entry, card: Path | None) -> None:
    """Print the result, then write what was asked for.

    source: the graded text. card: where the scorecard goes, None for nowhere.
    """
    from grader.report import junit

    stream = sys.stderr if "-" in outputs.targets else sys.stdout
    if card is not None:
        keep_results(entry, record, source)
    # Nobody waits for the plots to read the verdict.
    show(record, stream, step_after(entry, record))
    with spent("write the scorecard"):
        page = _page(entry, record) if card is not None or outputs.html is not None else ""
        if card is not None:
            _write_card(entry, record, card, page)
        if outputs.html is not None:
            write_or_print(outputs.html, page)
        for target, render in ((outputs.json, to_json), (outputs.junit, junit.render)):
            if target is not None:
                write_or_print(target, render(record))
    if outputs.timeline:
        show_timeline(record, stream)
    if card is not None:
        say(f"Scorecard: {card}", sys.stderr)
        if outputs.open_card:
            say(show_in_browser(card.resolve().as_uri()), sys.stderr)


def keep(entry: Entry, record: Record, source: str, card: Path) -> str:
    """Keep the parts' results, and write a scorecard and its record beside it; return the page.

    source: the text that was graded.
    """
    keep_results(entry, record, source)
    page = _page(entry, record)
    _write_card(entry, record, card, page)
    return page


def _page(entry: Entry, record: Record) -> str:
    """Return the scorecard. With plots it takes a second."""
    from grader.report.page import html

    return html.render(record, finish=finish_of(entry, record), step=step_after(entry, record))


def _write_card(entry: Entry, record: Record, card: Path, page: str) -> None:
    """Write a scorecard and its record beside it, and count the attempt."""
    write(card.with_suffix(".json"), to_json(record))
    write(card, page)
    note_attempt(entry, record)


def can_keep(card: Path) -> bool:
    """Return whether a scorecard can be written; if not, print why. The grading goes on."""
    try:
        check_writable(card)
        check_writable(card.with_suffix(".json"))
    except UsageError as refused:
        say(f"grade: no scorecard is kept: {refused}", sys.stderr)
        return False
    return True


def replay(token_text: str | None, submission: str | None, *, cpu: bool, json: str | None = None) -> int:
    """Run the one case that a token names; return the exit code.

    token_text: None means the last failure of the learner's own file. json: where its record goes.
    """
    if token_text is None:
        if submission is not None:
            raise UsageError(f"a token must be given with --submission, got only {submission}")
        token_text = last_failure(find_root())
        say(f"Replaying {token_text} …", sys.stderr)
    from grader.exercise import plan

    token = plan.parse_token(token_text)
    entry, path, source = chosen_file(token.exercise_id, submission)
    check_target(json)
    with Processes(cpu=cpu) as processes:
        from grader.grading import Job, grade

        server = processes.checked()
        gpu = server.mode == "gpu"
        planned = plan.replay_plan(entry.exercise, token, gpu=gpu, lacks=machine.lacked_values(gpu=gpu))
        command = f"grade replay {token}"
        job = Job(entry, str(path.resolve()), source, planned, command, now(), shrink=False, compiled=False)
        record = grade(job, server)
    if json is not None:
        write_or_print(json, to_json(record))
    part = record.checks[0].part
    passed = view.Step("grade all cases of the part", f"grade {entry.id} --part {part}")
    stream = sys.stderr if json == "-" else sys.stdout
    show(record, stream, passed if record.verdict == "pass" else None, one_case=True)
    return exit_code(record.verdict)


def show_timeline(record: Record, stream: TextIO) -> None:
    """Print where the time of a grading went, and the age of this process."""
    from grader.report.text import timeline

    print(timeline.render(record, age_s()), file=stream)


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


def job_for(entry: Entry, path: Path, source: str, seed: int | None, options: RunOptions, *, gpu: bool) -> Job:
    """Return the job: a submission, the plan of a seed (None: the exercise's own), and the command that repeats it."""
    with _leaving_at_once():
        # Hypothesis and torch load here, while the fork server loads them as well.
        from grader.exercise import plan
        from grader.grading import Job

    chosen = plan.default_seed(entry.id) if seed is None else seed
    lacks = machine.lacked_values(gpu=gpu)
    drawn = plan.draw(entry.exercise, chosen, gpu=gpu, parts=frozenset(options.parts) or None, lacks=lacks)
    words = ["grade", entry.id, *named_again(entry, path, options.parts, seed)]
    words += [name for name, on in (("--cpu", options.cpu), ("--all-baselines", options.all_baselines)) if on]
    words += [word for name in options.baselines for word in ("--baseline", name)]
    slow = SLOW if options.all_baselines else options.baselines
    return Job(entry, str(path.resolve()), source, drawn, shlex.join(words), now(), slow_baselines=slow)


def _grade(job: Job, server: ForkServer, baselines: BaselineProcess | None, *, quiet: bool) -> Record:
    from grader.grading import grade

    with show_progress(len(job.plan.checks), quiet=quiet) as on_result:
        return grade(job, server, on_result, baselines, beside=_import_report)


def _import_report() -> None:
    """Import the renderers with plots: it takes a second."""
    from grader.report import junit  # noqa: F401
    from grader.report.figures import chart
    from grader.report.page import html  # noqa: F401
    from grader.report.text import terminal  # noqa: F401

    # It imports matplotlib.
    chart.installed()


def show(record: Record, stream: object, step: view.Step | None = None, *, one_case: bool = False) -> None:
    """Print the result as this terminal can show it.

    step: the next step, if it is not the record's own. one_case: a case was run again, and its inputs are shown.
    """
    from grader.report.text import terminal

    colour, ascii_only, width = terminal_of(stream)
    text = terminal.render(record, width=width, colour=colour, ascii_only=ascii_only, step=step, one_case=one_case)
    print(text, file=stream, flush=True)  # type: ignore[call-overload]
