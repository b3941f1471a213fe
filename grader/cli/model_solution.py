"""Hand out the model solution to a learner whose own file passes, with a comparison of their costs."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from grader.cli import saved
from grader.cli.browser import show_in_browser
from grader.cli.files import write
from grader.cli.next_step import progress_words
from grader.cli.say import say
from grader.cli.scorecard import can_keep
from grader.cli.terminal import terminal_of
from grader.errors import UsageError
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.catalogue import Entry, find_root, resolve
from grader.moments import now
from grader.progress import Progress
from grader.record.record import Record, to_json
from grader.report.page import beside
from grader.report.page.beside import PartBeside, Solved
from grader.sandbox.server import ForkServer
from grader.text import sha256_of

# The most missing checks that are named.
_MOST_NAMED = 5
# Seconds to wait for compilers: registers are half of the comparison.
_PATIENCE_S = 120.0


def solution(exercise: str, *, show: bool, copy: bool, as_json: bool, open_page: bool) -> int:
    """Show the model solution to a learner who has one: return 0; or 1, after a list of open checks."""
    entry, _ = resolve(find_root(), exercise)
    if not entry.solution.is_file():
        raise UsageError(f"a solution must be here to be shown, got a student bundle without that of {entry.id}")
    progress = saved.progress_of(entry)
    if as_json:
        print(json.dumps(_document(entry, progress, copy=copy), indent=1))
    elif not progress.is_done:
        _refuse(entry, progress)
    elif show:
        print(entry.source("solution.py"), end="")
    elif copy:
        print(_handed(entry, copy=True))
    else:
        _show(entry, _beside(entry), open_page=open_page)
    return 0 if progress.is_done else 1


def _document(entry: Entry, progress: Progress, *, copy: bool) -> dict[str, object]:
    """Return the document of `--json`."""
    parts = _beside(entry) if progress.is_done else ()
    return {
        "id": entry.id,
        "state": progress.state,
        "words": progress_words(entry, progress),
        "solution": str(_handed(entry, copy=copy)) if progress.is_done else None,
        "open": [{"id": check.id, "title": check.title, "status": check.status} for check in progress.open],
        "parts": [{key: value for key, value in asdict(part).items() if key not in ("own", "model")} for part in parts],
    }


def _refuse(entry: Entry, progress: Progress) -> None:
    print(
        f"The model solution of {entry.id} is shown once your own passes: {progress_words(entry, progress)}.",
        file=sys.stderr,
    )
    for check in progress.open[:_MOST_NAMED]:
        say(f"  open: {check.part}: {check.title}", sys.stderr)
    if len(progress.open) > _MOST_NAMED:
        say(f"  … and {len(progress.open) - _MOST_NAMED} more", sys.stderr)
    print(f"Next: grade {entry.id}", file=sys.stderr)


def _handed(entry: Entry, *, copy: bool) -> Path:
    """Return the path of the solution: its own place, or a copy of it."""
    if not copy:
        return entry.solution
    target = entry.root / "solutions" / f"{entry.name}.py"
    target.parent.mkdir(exist_ok=True)
    write(target, entry.source("solution.py"))
    return target


# -- beside each other -----------------------------------------------------------------------------------------------


def _show(entry: Entry, parts: tuple[PartBeside, ...], *, open_page: bool) -> None:
    """Print the costs of both, write the page with the code of both, and print the solution's path last."""
    from grader.report.text import terminal

    colour, ascii_only, width = terminal_of(sys.stdout)
    print(terminal.render_beside(parts, width=width, colour=colour, ascii_only=ascii_only))
    print(entry.solution)
    page = _page_of(entry)
    if can_keep(page):
        write(page, beside.render(f"{entry.id}: {entry.exercise.title}", parts))
        say(f"Side by side: {page}", sys.stderr)
        if open_page:
            say(show_in_browser(page.resolve().as_uri()), sys.stderr)


def _beside(entry: Entry) -> tuple[PartBeside, ...]:
    source, record = saved.text_of(entry.stub) or "", saved.record_of(entry)
    # The costs of an earlier text do not apply to this one.
    if record is not None and record.submission.sha256 == sha256_of(source):
        own = Solved(source, record.checks, record.parts)
    else:
        own = Solved(source)
        say(f"What yours costs is not known: grade {entry.id} counts it in all parts.", sys.stderr)
    return beside.beside(own, _model(entry), entry.commentary)


def _page_of(entry: Entry) -> Path:
    return saved.card_of(entry).with_name(f"{entry.id}-beside.html")


def _model(entry: Entry) -> Solved:
    """Return the model solution and its costs: as saved, unless solution or specification changed."""
    page, source = _page_of(entry), entry.source("solution.py")
    record = saved.record_beside(page)
    same = sha256_of(source), entry.sha256()
    if record is None or (record.submission.sha256, record.exercise.spec_sha256) != same:
        say(f"Counting what the model solution of {entry.id} costs …", sys.stderr)
        record = _counted(entry, source)
        if can_keep(page):
            write(page.with_suffix(".json"), to_json(record))
    return Solved(source, record.checks, record.parts)


def _counted(entry: Entry, source: str) -> Record:
    """Grade only what counts bytes, predicts times, or compiles; in the interpreter, as on any machine."""
    with closing(ForkServer("interpret")) as server:
        # Hypothesis and torch load here, while the fork server loads them as well.
        from grader.exercise import plan
        from grader.grading import Job, grade

        drawn = plan.draw(entry.exercise, plan.default_seed(entry.id), WHOLE_CPU)
        rules = [(one, one.check.rule) for one in drawn.checks]
        chosen = tuple(one for one, rule in rules if rule.counts_bytes or rule.is_timed or rule.targets)
        job = Job(
            entry,
            str(entry.solution),
            source,
            replace(drawn, checks=chosen),
            f"grade solution {entry.id}",
            now(),
            shrink=False,
            timed=False,
            patience_s=_PATIENCE_S,
        )
        return grade(job, server)
