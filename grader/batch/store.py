"""Read and write the files of an OUT_DIR (grader.batch draws it).

Every file is replaced in one step: a run may be killed at any moment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grader.batch.gradebook import Assignment, Student
from grader.batch.late import LatePolicy
from grader.batch.tables import OverrideRow
from grader.batch.uploads import printable
from grader.errors import UsageError
from grader.files import write_atomically
from grader.protocol.decode import DecodeError, decode
from grader.record.record import Record, from_json, to_json
from grader.record.statuses import Status

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600


@dataclass(frozen=True)
class Submission:
    """A student's file for one exercise.

    path: the student's name for the file. source: its place in the folder of submissions. trouble: why it cannot be
    graded. key: names its result; empty if it cannot be graded, and before the ledger computes it. sha256: of the text.
    late: the platform called it late. text: in no batch.json; the folder submissions/ holds it.
    """

    student: str
    exercise: str
    path: str
    key: str = ""
    sha256: str = ""
    trouble: str = ""
    submitted_at: str = ""
    late: bool = False
    text: str = ""
    source: str = ""


@dataclass(frozen=True)
class Batch:
    """batch.json: everything beside the records that determines the marks of a class.

    students: the roster, then those that it does not name. seed: as it was given: a number, "hidden", or empty for the
    exercises' own. source: the place of the submissions. parts: those that are graded; empty for all. times: of
    submissions, by "STUDENT/EXERCISE", if the instructor gave them.
    """

    assignments: tuple[Assignment, ...]
    students: tuple[Student, ...]
    submissions: tuple[Submission, ...]
    roster: tuple[Student, ...] = ()
    times: dict[str, str] = dataclasses.field(default_factory=dict)
    policy: LatePolicy = dataclasses.field(default_factory=LatePolicy)
    overrides: tuple[OverrideRow, ...] = ()
    seed: str = ""
    source: str = ""
    parts: tuple[str, ...] = ()
    compiled: bool = False
    cpu: bool = False
    prefixes: tuple[str, ...] = ()
    schema: Literal["grade/batch/v1"] = "grade/batch/v1"

    @property
    def title(self) -> str:
        """Return the name of the class: that of the folder of submissions."""
        return Path(self.source).name or "Class"

    @property
    def strangers(self) -> tuple[str, ...]:
        """Return the ids of the students outside the roster; none without a roster."""
        return tuple(student.id for student in self.students[len(self.roster) :]) if self.roster else ()


@dataclass(frozen=True)
class JournalLine:
    """A line of the journal: one grading that ended. Times are UTC; `seconds` is the duration of the grading."""

    time: str
    student: str
    exercise: str
    key: str
    verdict: Status
    score: float
    judged: float
    seconds: float
    worker: str = ""
    attempts: int = 1


@dataclass(frozen=True)
class StoredRecord:
    """One file of records/: its record, or why it cannot be read."""

    student: str
    exercise: str
    path: str
    record: Record | None
    problem: str = ""


@dataclass(frozen=True)
class _Secret:
    seed: str
    published: bool = False
    schema: Literal["grade/secret/v1"] = "grade/secret/v1"


@dataclass(frozen=True)
class BatchStore:
    """The files of one OUT_DIR."""

    folder: Path

    def record_path(self, student: str, exercise: str) -> Path:
        """Return the path of a student's record."""
        return self.folder / "records" / student / f"{exercise}.json"

    def card_path(self, student: str, exercise: str) -> Path:
        """Return the path of a student's scorecard."""
        return self.folder / "cards" / student / f"{exercise}.html"

    def submission_path(self, student: str, name: str) -> Path:
        """Return the path of a student's graded text, for the exercise of that name."""
        return self.folder / "submissions" / student / f"{name}.py"

    # -- what was graded ----------------------------------------------------------------------------------------------

    def has_batch(self) -> bool:
        """Return whether this folder holds an earlier batch."""
        return (self.folder / "batch.json").is_file()

    def write_batch(self, batch: Batch) -> None:
        """Replace batch.json."""
        document = dataclasses.asdict(batch)
        for one in document["submissions"]:
            del one["text"]
        write(self.folder / "batch.json", _text(document))

    # -- results ------------------------------------------------------------------------------------------------------

    def result(self, one: Submission) -> Record | None:
        """Return the result of a submission; None without one, or if it is not a record of that text."""
        with contextlib.suppress(OSError, DecodeError, ValueError):
            record = from_json(self._result_path(one.key).read_text(encoding="utf-8"))
            if (record.exercise.id, record.submission.sha256) == (one.exercise, one.sha256):
                return record
        return None

    def store_result(self, key: str, record: Record) -> None:
        """Store a result under its key."""
        self._private_results()
        write(self._result_path(key), to_json(record), mode=_PRIVATE_FILE)

    def forget_result(self, key: str) -> None:
        """Drop a result, so that it is made anew."""
        self._result_path(key).unlink(missing_ok=True)

    def forget_results(self) -> None:
        """Drop all of them, in one step."""
        results = self.folder / "results"
        if results.is_dir():
            dropped = Path(tempfile.mkdtemp(prefix=".dropped-", dir=self.folder))
            results.rename(dropped / "results")
            shutil.rmtree(dropped, ignore_errors=True)

    def _result_path(self, key: str) -> Path:
        return self.folder / "results" / f"{key}.json"

    def _private_results(self) -> None:
        results = self.folder / "results"
        results.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        if results.stat().st_mode & 0o077:
            # The folder may exist already, or be a copy.
            results.chmod(_PRIVATE_FOLDER)

    # -- the hidden seed ----------------------------------------------------------------------------------------------

    def hidden_seed(self) -> int:
        """Return the seed that nobody else knows; draws it at the first call. Raises UsageError."""
        if not self._secret_path.exists():
            self._write_secret(_Secret(f"{secrets.randbits(64):#x}"))
        return int(self._secret().seed, 16)

    def published_seed(self, of_last_run: str) -> str:
        """Return the hidden seed that is kept here, if it was published; '' otherwise. Raises UsageError.

        of_last_run: the seed in batch.json. Folders that an older grader published hold it only there.
        """
        if not self._secret_path.exists():
            return ""
        secret = self._secret()
        return secret.seed if secret.published or secret.seed == of_last_run else ""

    def has_hidden_seed(self) -> bool:
        """Return whether a hidden seed is kept here."""
        return self._secret_path.exists()

    def note_published(self) -> None:
        """Note that the hidden seed is public from now on. Raises UsageError."""
        self._write_secret(dataclasses.replace(self._secret(), published=True))

    @property
    def _secret_path(self) -> Path:
        return self.folder / "secret.json"

    def _write_secret(self, secret: _Secret) -> None:
        write(self._secret_path, _text(dataclasses.asdict(secret)), mode=_PRIVATE_FILE)

    def _secret(self) -> _Secret:
        path = self._secret_path
        if path.stat().st_uid != os.geteuid():
            raise UsageError(f"{path} must be your own file, since its owner knows the seed")
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(stored, dict):
                # An older grader wrote a date beside the seed.
                stored.pop("created", None)
            secret = decode(_Secret, stored, "secret")
            return dataclasses.replace(secret, seed=f"{int(secret.seed, 16):#x}")
        except (OSError, ValueError) as broken:
            raise UsageError(f"{path} must hold the hidden seed, got: {broken}") from broken

    # -- the journal --------------------------------------------------------------------------------------------------

    def note(self, line: JournalLine) -> None:
        """Append a line to the journal, and sync it to disk."""
        path = self.folder / "journal.jsonl"
        data = json.dumps(dataclasses.asdict(line), ensure_ascii=False).encode() + b"\n"
        with path.open("a+b") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                # A run that was killed may have left half a line.
                data = data if file.read(1) == b"\n" else b"\n" + data
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def journal(self) -> Iterator[JournalLine]:
        """Yield every line that is whole."""
        with contextlib.suppress(FileNotFoundError), (self.folder / "journal.jsonl").open("rb") as file:
            for line in file:
                with contextlib.suppress(ValueError, RecursionError):
                    yield decode(JournalLine, json.loads(line), "line")

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the folder: nobody else grades into it meanwhile.

        Raises UsageError if somebody does, or if a link lies in the folder: writes and removals would go elsewhere.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._refuse_links()
        with open(self.folder / ".lock", "w", opener=_not_through_a_link) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"one `grade batch` at a time may write to {self.folder}, got a second") from None
            self._sweep()
            yield

    def _refuse_links(self) -> None:
        """Raise UsageError if a link lies in the folder. Skips export/: a batch writes nothing there."""
        waiting = [str(self.folder)]
        while waiting:
            place = waiting.pop()
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise UsageError(f"{self.folder} must hold no links, got {printable(entry.path)}")
                    if entry.is_dir() and not (entry.name == "export" and place == str(self.folder)):
                        waiting.append(entry.path)

    def _sweep(self) -> None:
        """Remove half-written files of a killed run."""
        for left in self.folder.glob(".dropped-*"):
            shutil.rmtree(left, ignore_errors=True)
        for left in self.folder.rglob(".grade-*"):
            left.unlink(missing_ok=True)


def _not_through_a_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def write(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file of the batch's folder in one step; folders on the way are made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text, mode=mode)


def _text(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
