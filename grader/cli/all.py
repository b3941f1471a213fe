"""`grade all`: every exercise, one after another with the same warm processes, and one page over all of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader import __version__
from grader.cli import saved
from grader.cli.browser import show_in_browser
from grader.cli.exit_codes import exit_code, worst_code
from grader.cli.files import check_target, parse_seed, read_submission, write, write_or_print
from grader.cli.job import RunOptions, job_for
from grader.cli.next_step import next_line, progress_words
from grader.cli.say import say
from grader.cli.scorecard import can_keep, keep
from grader.cli.terminal import show_progress, terminal_of
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, discover, find_root
from grader.phrases import counted
from grader.processes import Processes
from grader.record.record import Record
from grader.record.verdicts import headline
from grader.text import as_json

SCHEMA = "grade/all/v1"


@dataclass(frozen=True)
class ExerciseEnd:
    """The end of one exercise's grading: its record, or why there is none."""

    entry: Entry
    record: Record | None = None
    why: str = ""

    @property
    def code(self) -> int:
        """The exit code of this exercise alone."""
        return exit_code(self.record.verdict) if self.record is not None else 2


def worst(codes: Sequence[int]) -> int:
    """Return the one exit code for all exercises. One that this machine cannot judge does not spoil the others."""
    judged = [code for code in codes if code != 4]
    return worst_code(judged) if judged else 4


def grade_all(options: RunOptions, json_target: str | None, *, open_card: bool) -> int:
    """Grade every exercise; return the worst exit code."""
    root = find_root()
    entries = discover(root)
    if not entries:
        raise UsageError(f"there must be an exercise to grade, got none in {root}")
    seed = parse_seed(options.seed) if options.seed is not None else None
    check_target(json_target)
    keeps = can_keep(saved.card_of(entries[0]))
    stream = sys.stderr if json_target == "-" else sys.stdout
    ended = []
    with Processes(cpu=options.cpu) as processes:
        for i, entry in enumerate(entries):
            if not options.quiet:
                say(f"[{i + 1}/{len(entries)}] Checking {entry.stub} …", sys.stderr)
            one = _graded(entry, processes, seed, options, keeps=keeps)
            print(_line(one, stream), file=stream, flush=True)
            ended.append(one)
    if json_target is not None:
        write_or_print(json_target, _document(ended))
    if keeps:
        index = write_index(entries)
        say(f"Scorecard: {index}", sys.stderr)
        if open_card:
            say(show_in_browser(index.resolve().as_uri()), sys.stderr)
    print(f"\n{_summary(ended)}", file=stream)
    return worst([one.code for one in ended])


def _graded(entry: Entry, processes: Processes, seed: int | None, options: RunOptions, *, keeps: bool) -> ExerciseEnd:
    try:
        source = read_submission(entry.stub)
    except UsageError as refused:
        return ExerciseEnd(entry, why=f"{refused}; grade reset {entry.id} brings the stub back")
    server, baselines = processes.ready(entry)
    job = job_for(entry, entry.stub, source, seed, options, gpu=server.mode == "gpu")
    from grader.grading import grade

    processes.check()
    with show_progress(len(job.plan.checks), quiet=options.quiet) as on_result:
        record = grade(job, server, on_result, baselines)
    if keeps:
        keep(entry, record, source, saved.card_of(entry))
    return ExerciseEnd(entry, record)


def _line(one: ExerciseEnd, stream: object) -> str:
    from grader.report.text import terminal

    _, ascii_only, width = terminal_of(stream)
    title = f"{one.entry.id}  {one.entry.exercise.title}: "
    return "\n".join(terminal.folded(title + (headline(one.record) if one.record else one.why), width, ascii_only))


def _summary(ended: Sequence[ExerciseEnd]) -> str:
    records = [one.record for one in ended if one.record is not None]
    earned, judged = sum(record.score for record in records), sum(record.judged_score for record in records)
    beyond = sum(record.max_score for record in records) - judged
    more = f"; {beyond:g} more could not be judged on this machine" if beyond else ""
    text = f"{earned:g} of {judged:g} points of {counted(len(records), 'exercise')} that could be judged here{more}."
    following = next_line([one.entry for one in ended])
    return f"{text}\n{following}" if following else text


def _document(ended: Sequence[ExerciseEnd]) -> str:
    """Return all records as one document, by exercise; null and a reason for a missing one."""
    from dataclasses import asdict

    return as_json(
        {
            "schema": SCHEMA,
            "tool": {"name": "grade", "version": __version__},
            "exit_code": worst([one.code for one in ended]),
            "exercises": [
                {"id": one.entry.id, "why": one.why, "record": asdict(one.record) if one.record else None}
                for one in ended
            ],
        }
    )


def write_index(entries: Sequence[Entry]) -> Path:
    """Write scorecards/index.html: the progress with every exercise, and a link to its scorecard."""
    from grader.report.page import index

    rows = []
    for entry in entries:
        record = saved.record_of(entry)
        progress = saved.progress_of(entry)
        card = saved.card_of(entry)
        there = record is not None and card.is_file()
        rows.append(
            index.ExerciseRow(
                id=entry.id,
                title=entry.exercise.title,
                state=progress.state,
                words=progress_words(entry, progress),
                file=str(entry.stub),
                card=card.name if there else "",
                attempts=saved.attempts(entry),
                checks=progress.checks,
                objectives=tuple(dict.fromkeys(check.objective for _, check in entry.exercise.checks())),
            )
        )
    place = saved.card_of(entries[0]).with_name("index.html")
    write(place, index.render(rows))
    return place
