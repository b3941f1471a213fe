"""The course of one `grade batch`: the gradings that are left, and what happens to every result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from grader.batch import refused
from grader.batch.reading import record_of
from grader.batch.result_key import Terms, content_key, environment_of
from grader.batch.store import Batch, BatchStore, JournalLine, Submission, write
from grader.batch.work import Task, TaskOutcome
from grader.exercise.catalogue import Entry
from grader.exercise.plan import default_seed
from grader.protocol.decode import DecodeError
from grader.record.record import Feedback, Record, SubmissionInfo, from_json, to_json
from grader.report.audience import HIDDEN, for_student
from grader.report.page import html
from grader.text import clean, sha256_of


class Ledger:
    """Keeps the records of a class in step with its results.

    batch: complete but for the keys of its results, which are computed here. entries: the exercises by id. seed: one
    for all of them, or None for each one's own. unconfined: grade even on a machine that cannot confine submissions.
    """

    def __init__(
        self,
        store: BatchStore,
        batch: Batch,
        entries: Mapping[str, Entry],
        terms: Terms,
        seed: int | None,
        now: Callable[[], str],
        *,
        unconfined: bool = False,
    ) -> None:
        self._store = store
        self._entries = entries
        self._terms = terms
        self._environment = environment_of(terms.environment)
        self._seed = seed
        self._now = now
        self._unconfined = unconfined
        options = ",".join([*sorted(batch.parts), *(["compiled"] if batch.compiled else [])])
        self.batch = replace(
            batch,
            submissions=tuple(
                one if one.trouble else replace(one, key=self._key(one, options)) for one in batch.submissions
            ),
        )
        self._sharing: dict[str, list[Submission]] = {}
        for one in self.batch.submissions:
            if one.key:
                self._sharing.setdefault(one.key, []).append(one)

    def _key(self, one: Submission, options: str) -> str:
        return content_key(
            one.text, self._entries[one.exercise].name, self._terms, self._seed_of(one.exercise), options
        )

    def _seed_of(self, exercise: str) -> int:
        return default_seed(exercise) if self._seed is None else self._seed

    def open(self, *, failed_again: bool = False, student: str = "") -> Iterator[JournalLine]:
        """Update every record without grading: from stored results, and for submissions that cannot be graded.

        failed_again: drop the results that are no pass. student: drop this one's results. What is dropped is graded
        again.
        """
        self._forget_strays()
        for one in self.batch.submissions:
            if not one.key:
                entry = self._entries[one.exercise]
                record = refused.invalid(entry, one.trouble, self._now(), self._environment, self.batch.parts)
                write_record(self._store, self.batch, one, replace(record, graded_at=self._graded_before(one, record)))
                continue
            write(self._store.submission_path(one.student, self._entries[one.exercise].name), one.text)
            result = self._store.result(one)
            if result is not None and ((failed_again and result.verdict != "pass") or student == one.student):
                self._store.forget_result(one.key)
            elif result is not None:
                write_record(self._store, self.batch, one, result)
                yield _line(one, result, result.graded_at, TaskOutcome())

    def tasks(self, student: str = "") -> list[Task]:
        """Return the gradings to do, each text once. student: only this one's.

        The longest of the last run come first. Then come the exercises, the last one first: a worker keeps the data of
        its latest exercise, and the last exercise is usually the longest.
        """
        lasted = {line.key: line.seconds for line in self._store.journal()}
        due = [
            sharing[0]
            for sharing in self._sharing.values()
            if self._store.result(sharing[0]) is None
            and (not student or any(one.student == student for one in sharing))
        ]
        due.sort(key=lambda one: one.exercise, reverse=True)
        due.sort(key=lambda one: -lasted.get(one.key, 0.0))
        return [self._task(one) for one in due]

    def _task(self, one: Submission) -> Task:
        entry, batch = self._entries[one.exercise], self.batch
        return Task(
            key=one.key,
            exercise=entry.name,
            text=one.text,
            seed=f"{self._seed_of(one.exercise):#x}",
            terms=self._terms,
            graded_at=self._now(),
            parts=batch.parts,
            compiled=batch.compiled,
            cpu=batch.cpu,
            unconfined=self._unconfined,
            owner=one.student,
        )

    def close(self, task: Task, outcome: TaskOutcome) -> list[JournalLine]:
        """Store the outcome of a task for everybody who handed in that text. Return the lines that the journal gets."""
        sharing = self._sharing[task.key]
        record, trouble = _result(task, outcome)
        if record is None:
            record = refused.lost(self._entries[sharing[0].exercise], task, trouble, self._environment)
        # The next run retries what the grader failed at.
        elif all(check.status != "grader_error" for check in record.checks):
            self._store.store_result(task.key, record)
        lines = []
        for one in sharing:
            shown = self._before(one) if record.verdict == "grader_error" else None
            write_record(self._store, self.batch, one, shown or record)
            line = _line(one, record, self._now(), outcome)
            self._store.note(line)
            lines.append(line)
        return lines

    def _before(self, one: Submission) -> Record | None:
        """Return the earlier record of this text; it stays if the grader fails at a new one."""
        record = record_of(self._store.folder, one.student, one.exercise)
        same = record is not None and record.submission.sha256 == one.sha256 and record.verdict != "grader_error"
        return record if same else None

    def _graded_before(self, one: Submission, record: Record) -> str:
        """Return when a submission was first found unreadable, so that a run without changes changes no record."""
        before = record_of(self._store.folder, one.student, one.exercise)
        unchanged = before is not None and before.verdict == "invalid_submission" and before.checks == record.checks
        return before.graded_at if before and unchanged else record.graded_at

    def _forget_strays(self) -> None:
        """Remove records of submissions that are gone."""
        wanted = {(one.student, one.exercise) for one in self.batch.submissions}
        for folder, suffix in (("records", ".json"), ("cards", ".html")):
            for path in (self._store.folder / folder).glob(f"*/*{suffix}"):
                if (path.parent.name, path.stem) not in wanted:
                    path.unlink(missing_ok=True)


def restamp(store: BatchStore, batch: Batch) -> int:
    """Write all records anew from the results, after the seed became known. Return their number."""
    found = [(one, store.result(one)) for one in batch.submissions if one.key]
    for one, result in found:
        if result is not None:
            write_record(store, batch, one, result)
    return sum(result is not None for _, result in found)


def write_record(store: BatchStore, batch: Batch, one: Submission, result: Record) -> None:
    """Write a student's record and scorecard, unless they are there."""
    record = _stamped(batch, one, result)
    path, card = store.record_path(one.student, one.exercise), store.card_path(one.student, one.exercise)
    text = to_json(record)
    if card.is_file() and _text_of(path) == text:
        return
    # Write the record last: then its card is there too.
    write(card, html.render(record))
    write(path, text)


def _stamped(batch: Batch, one: Submission, result: Record) -> Record:
    """Return a result with the student's id, their name for the file, and the time of submission."""
    seed = f" --seed {result.seed}" if batch.seed else ""
    given = [row.override for row in batch.overrides if (row.student, row.exercise) == (one.student, one.exercise)]
    record = replace(
        result,
        submission=SubmissionInfo(one.path, one.sha256, one.student),
        command=f"grade {one.exercise}{seed}",
        submitted_at=one.submitted_at,
        feedback=tuple(
            Feedback(each.part, clean(each.comment, 4000), clean(each.author, 200), each.points) for each in given
        ),
    )
    return for_student(record, secret=True, file=one.path) if batch.seed == HIDDEN else record


def _line(one: Submission, record: Record, time: str, outcome: TaskOutcome) -> JournalLine:
    scores = record.verdict, record.score, record.judged_score
    how = outcome.seconds, outcome.worker, outcome.attempts
    return JournalLine(time, one.student, one.exercise, one.key, *scores, *how)


def _result(task: Task, outcome: TaskOutcome) -> tuple[Record | None, str]:
    """Return the record, if it is of the task; else why there is none."""
    if outcome.trouble:
        return None, outcome.trouble
    try:
        record = from_json(outcome.record)
    except (DecodeError, ValueError) as broken:
        return None, f"a worker must return a record, got: {broken}"
    got = record.exercise.name, record.exercise.spec_sha256, record.submission.sha256, record.seed
    sha256 = sha256_of(task.text)
    wanted = task.exercise, task.terms.exercises[task.exercise], sha256, task.seed
    if got != wanted:
        return None, f"a worker must return the record of {wanted}, got that of {got}"
    return record, ""


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
