"""Read and write a learner's results in scorecards/: the latest record of each exercise, its attempts, its progress.

The record of an exercise covers all parts of the learner's own file. Other records have names of their own. The
progress follows from results that are kept part by part, from any grading of the learner's own file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from grader.cli.files import write
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, discover
from grader.exercise.model import check_id
from grader.progress import File, Kept, Progress, kept_from_json, kept_to_json, merged, progress_of_file
from grader.record.record import Record, from_json
from grader.report.view import LEARNERS
from grader.text import sha256_of

# Not attempts: a file that does not load, or in which nothing is written yet.
_NO_ATTEMPT = frozenset({"invalid_submission", "not_implemented", "skipped_environment", "grader_error"})

# A file's name may be long and hold anything: with four bytes a letter, this still fits a folder's limit.
_UNSAFE, _MOST_LETTERS = re.compile(r"[^\w-]+"), 50


def card_of(entry: Entry) -> Path:
    """Return the path of an exercise's scorecard; its record lies beside it, with .json."""
    return entry.root / "scorecards" / f"{entry.id}.html"


def card_for(entry: Entry, path: Path, parts: Collection[str] = ()) -> Path:
    """Return the path of the scorecard of these parts (none named: all) of a file: "ex_15-ada-vector_add.html".

    For all parts of the learner's own file, it is the exercise's scorecard.
    """
    known = [part.name for part in entry.exercise.parts]
    names = [] if path.resolve() == entry.stub.resolve() else [path.stem]
    names += [name for name in known if name in parts] if set(parts) != set(known) else []
    if not names:
        return card_of(entry)
    return card_of(entry).with_name(f"{entry.id}-{_UNSAFE.sub('_', '-'.join(names))[:_MOST_LETTERS]}.html")


def record_of(entry: Entry) -> Record | None:
    """Return the record of an exercise; None without a readable one."""
    return record_beside(card_of(entry))


def record_beside(card: Path) -> Record | None:
    """Return the record of a scorecard; None without a readable one."""
    try:
        return from_json(card.with_suffix(".json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def is_own(entry: Entry, record: Record) -> bool:
    """Return whether a record is of the learner's own file."""
    return record.submission.path == str(entry.stub.resolve())


def progress_of(entry: Entry) -> Progress:
    """Return the learner's progress with an exercise."""
    names = [check_id(part, check) for part, check in entry.exercise.checks()]
    file = File(text_of(entry.stub), text_of(entry.pristine_stub))
    return progress_of_file(file, _kept_of(entry), names, entry.sha256())


def keep_results(entry: Entry, record: Record, source: str) -> None:
    """Keep the results of a record of the learner's own file, whose text was `source`; ignore other records."""
    if is_own(entry, record):
        write(_kept_path(entry), kept_to_json(merged(_kept_of(entry), record, source)))


def current(root: Path) -> Entry:
    """Return the exercise that the learner works on.

    It is the one that was graded last, if it is not done; else the first unfinished one; else the first. Raises
    UsageError without exercises.
    """
    entries = discover(root)
    if not entries:
        raise UsageError(f"there must be an exercise, got none in {root}")
    in_order = (*_latest_first(entries)[:1], *entries)
    return next((entry for entry in in_order if has_something_to_do(progress_of(entry))), entries[0])


def _latest_first(entries: Collection[Entry]) -> list[Entry]:
    """Return the exercises that were graded, the latest one first."""
    graded = [entry for entry in entries if _kept_path(entry).is_file()]
    return sorted(graded, key=lambda entry: _kept_path(entry).stat().st_mtime_ns, reverse=True)


def has_something_to_do(progress: Progress) -> bool:
    """Return whether a part of an exercise fails, is not written, or was not judged although it could be."""
    return progress.state == "no file" or progress.next_part is not None


def last_failure(root: Path) -> str:
    """Return the token of the first failing case of the failing exercise that was graded last.

    Raises UsageError if there is none.
    """
    entries = discover(root)
    # An exercise without a file of results may have a record.
    in_order = dict.fromkeys((*_latest_first(entries), *entries))
    token = next(chain.from_iterable(map(_failing_cases, in_order)), None)
    if token is None:
        name = current(root).id
        raise UsageError(f"replay needs a case that failed, got none; grade {name} grades your file")
    return token


def _failing_cases(entry: Entry) -> Iterator[str]:
    """Yield the kept tokens of an exercise's failing cases, part by part."""
    kept = _kept_of(entry)
    parts = {} if kept is None else kept.parts
    checks = chain.from_iterable(parts[part.name].checks for part in entry.exercise.parts if part.name in parts)
    for check in checks:
        if check.status in LEARNERS and check.counterexample is not None and check.counterexample.replay:
            yield check.counterexample.replay


def _kept_of(entry: Entry) -> Kept | None:
    """Return the kept results; without any, those of the exercise's record, if there is one."""
    try:
        return kept_from_json(_kept_path(entry).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record, text = record_of(entry), text_of(entry.stub)
    if record is None or not is_own(entry, record):
        return None
    is_same = text is not None and sha256_of(text) == record.submission.sha256
    return merged(None, record, text if is_same else None)


def _kept_path(entry: Entry) -> Path:
    return card_of(entry).with_suffix(".kept")


def text_of(path: Path) -> str | None:
    """Return a file's text as it is graded; None without a file."""
    try:
        return path.read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return None


def attempts(entry: Entry) -> int:
    """Return how many different texts of the learner's file were graded so far."""
    try:
        return len(_journal(entry).read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return 0


def note_attempt(entry: Entry, record: Record) -> int:
    """Count an attempt, and return the count. An unchanged file and an untouched stub do not count."""
    tried = any(check.status not in _NO_ATTEMPT for check in record.checks)
    if tried and is_own(entry, record):
        path, sha256 = _journal(entry), record.submission.sha256[:16]
        with contextlib.suppress(OSError, ValueError):
            lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
            if not lines or lines[-1].split("\t")[1:2] != [sha256]:
                with path.open("a", encoding="utf-8") as journal:
                    journal.write(f"{record.graded_at}\t{sha256}\t{record.score:g}/{record.judged_score:g}\n")
    return attempts(entry)


def _journal(entry: Entry) -> Path:
    return entry.root / "scorecards" / f"{entry.id}.attempts"
