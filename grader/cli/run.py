"""`grade run`: from the options to a record, a terminal and a scorecard."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from grader.cli.browser import show_in_browser
from grader.cli.exit_codes import exit_code
from grader.cli.files import check_target, chosen_file, parse_seed, write_or_print
from grader.cli.job import RunOptions, job_for
from grader.cli.next_step import step_after
from grader.cli.saved import card_for, keep_results
from grader.cli.say import say
from grader.cli.scorecard import can_keep, card_page, write_card
from grader.cli.terminal import show_progress, show_record
from grader.errors import UsageError
from grader.exercise.catalogue import Entry
from grader.processes import Processes
from grader.record.record import Record, to_json
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
    show_record(record, stream, step_after(entry, record))
    with spent("write the scorecard"):
        page = card_page(entry, record) if card is not None or outputs.html is not None else ""
        if card is not None:
            write_card(entry, record, card, page)
        if outputs.html is not None:
            write_or_print(outputs.html, page)
        for target, render in ((outputs.json, to_json), (outputs.junit, junit.render)):
            if target is not None:
                write_or_print(target, render(record))
    if outputs.timeline:
        _show_timeline(record, stream)
    if card is not None:
        say(f"Scorecard: {card}", sys.stderr)
        if outputs.open_card:
            say(show_in_browser(card.resolve().as_uri()), sys.stderr)


def _show_timeline(record: Record, stream: TextIO) -> None:
    """Print where the time of a grading went, and the age of this process."""
    from grader.report.text import timeline

    print(timeline.render(record, age_s()), file=stream)


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
