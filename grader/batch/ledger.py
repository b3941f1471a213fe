"""The course of one `grade batch`: what is still to be graded, and what becomes of every result."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.batch import refused
from grader.batch.gradebook import Assignment, Mark
from grader.batch.key import Terms, content_key, environment_of
from grader.batch.reading import read, record_of
from grader.batch.store import Batch, BatchStore, HandedIn, JournalLine, write
from grader.batch.submissions import Submission
from grader.batch.work import Task, TaskOutcome
from grader.exercise.catalogue import Entry
from grader.exercise.plan import default_seed
from grader.protocol.decode import DecodeError
from grader.record import Environment, Record, SubmissionInfo, from_json, to_json
from grader.report import html
from grader.report.audience import for_student


@dataclass(frozen=True)
class GradingRules:
    """Settings that a class is graded by.

    seed: one for all exercises, or None for each one's own. is_hidden: the seed stays secret.

    manner: what of the command line changes results, as keys hold it.
    """

    entries: Mapping[str, Entry]
    terms: Terms
    seed: int | None
    is_hidden: bool
    now: Callable[[], str]
    parts: tuple[str, ...] = ()
    compiled: bool = False
    cpu: bool = False
    unconfined: bool = False

    @property
    def environment(self) -> Environment:
        """Return the environment of the gradings, as records have it."""
        return environment_of(self.terms.environment)

    @property
    def manner(self) -> str:
        """Return the options that change results, as keys hold them."""
        return ",".join([*sorted(self.parts), *(["compiled"] if self.compiled else [])])

    def seed_of(self, exercise: str) -> int:
        """Return the seed of an exercise, by id."""
        return default_seed(exercise) if self.seed is None else self.seed


def assignments(rules: GradingRules) -> tuple[Assignment, ...]:
    """Return a column for each of the exercises, with the points of the parts that are graded."""
    return tuple(
        Assignment(
            name,
            entry.exercise.title,
            sum(check.points for part, check in entry.exercise.checks() if not rules.parts or part.name in rules.parts),
        )
        for name, entry in rules.entries.items()
    )


def handed_in(submissions: Sequence[Submission], rules: GradingRules) -> tuple[HandedIn, ...]:
    """Return the submissions as batch.json has them, with the keys of their results."""
    return tuple(_handed_in(one, rules) for one in submissions)


def _handed_in(one: Submission, rules: GradingRules) -> HandedIn:
    key = sha256 = ""
    if not one.trouble:
        name = rules.entries[one.exercise].name
        key = content_key(one.text, name, rules.terms, rules.seed_of(one.exercise), rules.manner)
        sha256 = hashlib.sha256(one.text.encode()).hexdigest()
    return HandedIn(one.student, one.exercise, one.path, key, sha256, one.trouble, one.submitted_at, one.late)


class Ledger:
    """Keeps the records of a class in step with its results."""

    def __init__(self, store: BatchStore, batch: Batch, rules: GradingRules, submissions: Sequence[Submission]) -> None:
        self._store = store
        self._batch = batch
        self._rules = rules
        self._texts = {(one.student, one.exercise): one.text for one in submissions if not one.trouble}
        self._sharing: dict[str, list[HandedIn]] = {}
        for one in batch.submissions:
            if one.key:
                self._sharing.setdefault(one.key, []).append(one)

    def open(self, only: str = "") -> Iterator[JournalLine]:
        """Bring every record up to what is known without grading: kept results, and what cannot be graded.

        only: "" and "changed" keep every result that there is; "failed" keeps those that passed; a student's id keeps
        all but theirs. What is not kept is dropped here and graded again.
        """
        self._forget_strays()
        for one in self._batch.submissions:
            if not one.key:
                entry = self._rules.entries[one.exercise]
                record = refused.invalid(
                    entry, one.trouble, self._rules.now(), self._rules.environment, self._rules.parts
                )
                self._record(one, replace(record, graded_at=self._graded_before(one, record)))
                continue
            name, text = self._rules.entries[one.exercise].name, self._texts[one.student, one.exercise]
            write(self._store.submission_path(one.student, name), text)
            result = self._store.result(one)
            again = (only == "failed" and (result is None or result.verdict != "pass")) or only == one.student
            if result is not None and again:
                self._store.forget_result(one.key)
            elif result is not None:
                self._record(one, result)
                yield _line(one, result, result.graded_at, 0.0)

    def tasks(self, only: str = "") -> list[Task]:
        """Return the gradings to do, each text once.

        Those that took longest the last time come first. Then by exercise, the last one first: a worker keeps what
        belongs to its latest exercise, and the last is most often the longest.
        """
        lasted = {line.key: line.seconds for line in self._store.journal()}
        students = {one.student for one in self._batch.submissions}
        due = [
            sharing[0]
            for sharing in self._sharing.values()
            if self._store.result(sharing[0]) is None
            and (only not in students or any(one.student == only for one in sharing))
        ]
        due.sort(key=lambda one: one.exercise, reverse=True)
        due.sort(key=lambda one: -lasted.get(one.key, 0.0))
        return [self._task(one) for one in due]

    def _task(self, one: HandedIn) -> Task:
        rules, entry = self._rules, self._rules.entries[one.exercise]
        return Task(
            key=one.key,
            exercise=entry.name,
            path=f"{entry.name}.py",
            text=self._texts[one.student, one.exercise],
            seed=f"{rules.seed_of(one.exercise):#x}",
            terms=rules.terms,
            graded_at=rules.now(),
            parts=rules.parts,
            compiled=rules.compiled,
            cpu=rules.cpu,
            unconfined=rules.unconfined,
            owner=one.student,
        )

    def close(self, task: Task, outcome: TaskOutcome) -> list[JournalLine]:
        """Store the outcome of a task for everybody who handed in that text. Return the lines that the journal gets."""
        record, trouble = _result(task, outcome)
        if record is None:
            entry = next(entry for entry in self._rules.entries.values() if entry.name == task.exercise)
            record = refused.lost(entry, task, trouble, self._rules.environment)
        # What the grader failed at is tried again by the next run.
        elif all(check.status != "grader_error" for check in record.checks):
            self._store.store_result(task.key, record)
        lines = []
        for one in self._sharing[task.key]:
            shown = self._before(one) if record.verdict == "grader_error" else None
            self._record(one, shown or record)
            line = _line(one, record, self._rules.now(), outcome.seconds)
            line = replace(line, worker=outcome.worker, attempts=outcome.attempts)
            self._store.note(line)
            lines.append(line)
        return lines

    def restamp(self) -> int:
        """Write all records anew from the results, after the seed became known; how many."""
        found = [(one, self._store.result(one)) for one in self._batch.submissions if one.key]
        for one, result in found:
            if result is not None:
                self._record(one, result)
        return sum(result is not None for _, result in found)

    def marks(self) -> tuple[Mark, ...]:
        """Return the marks of the class as the records are now."""
        return read(self._store.folder).marks

    # -- records ------------------------------------------------------------------------------------------------------

    def _record(self, one: HandedIn, result: Record) -> None:
        """Write a student's record and scorecard, unless they are there."""
        record = self._stamped(one, result)
        path, card = (
            self._store.record_path(one.student, one.exercise),
            self._store.card_path(one.student, one.exercise),
        )
        text = to_json(record)
        if card.is_file() and _text_of(path) == text:
            return
        # The record last: where it is, its card is too.
        write(card, html.render(record))
        write(path, text)

    def _stamped(self, one: HandedIn, result: Record) -> Record:
        """Return a result as the student's own: whose it is, what the file was called, when it was handed in."""
        seed = f" --seed {result.seed}" if self._rules.seed is not None else ""
        record = replace(
            result,
            submission=SubmissionInfo(one.path, one.sha256, one.student),
            command=f"grade {one.exercise}{seed}",
            submitted_at=one.submitted_at,
        )
        return for_student(record, secret=True, file=one.path) if self._rules.is_hidden else record

    def _before(self, one: HandedIn) -> Record | None:
        """Return the record that this text has already, to be kept where the grader fails at a new one."""
        record = record_of(self._store.folder, one.student, one.exercise)
        same = record is not None and record.submission.sha256 == one.sha256 and record.verdict != "grader_error"
        return record if same else None

    def _graded_before(self, one: HandedIn, record: Record) -> str:
        """Return the time at which a submission was first found unreadable: a run without changes changes no record."""
        before = record_of(self._store.folder, one.student, one.exercise)
        unchanged = before is not None and before.verdict == "invalid_submission" and before.checks == record.checks
        return before.graded_at if before and unchanged else record.graded_at

    def _forget_strays(self) -> None:
        """Remove records of what is no longer handed in."""
        wanted = {(one.student, one.exercise) for one in self._batch.submissions}
        for folder, suffix in (("records", ".json"), ("cards", ".html")):
            for path in (self._store.folder / folder).glob(f"*/*{suffix}"):
                if (path.parent.name, path.stem) not in wanted:
                    path.unlink(missing_ok=True)


def _line(one: HandedIn, record: Record, time: str, seconds: float) -> JournalLine:
    return JournalLine(
        time, one.student, one.exercise, one.key, record.verdict, record.score, record.judged_score, seconds
    )


def _result(task: Task, outcome: TaskOutcome) -> tuple[Record | None, str]:
    """Return the record of what was asked for, and nothing else; or why there is none."""
    if outcome.trouble:
        return None, outcome.trouble
    try:
        record = from_json(outcome.record)
    except (DecodeError, ValueError) as broken:
        return None, f"a worker must return a record, got: {broken}"
    got = record.exercise.name, record.exercise.spec_sha256, record.submission.sha256, record.seed
    sha256 = hashlib.sha256(task.text.encode()).hexdigest()
    wanted = task.exercise, task.terms.exercises[task.exercise], sha256, task.seed
    if got != wanted:
        return None, f"a worker must return the record of {wanted}, got that of {got}"
    return record, ""


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
