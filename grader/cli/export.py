"""`grade export`: from records to the files that platforms read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.batch.gradebook import Assignment, Gradebook, Mark, Student
from grader.batch.reading import read, read_batch, read_record, records
from grader.batch.store import StoredRecord
from grader.cli.files import check_target, check_writable, write, write_or_print
from grader.cli.shares import in_shares
from grader.errors import UsageError
from grader.export import autolab, canvas, classroom50, exercism, github, gradescope, junit, prairielearn, table
from grader.record import Record
from grader.report.audience import for_student

# One document a record: the renderer, and the name's ending where an OUT_DIR is exported.
_DOCUMENTS: dict[str, tuple[Callable[[Record], str], str]] = {
    "gradescope": (gradescope.render, ".json"),
    "junit": (junit.rich, ".xml"),
    "exercism": (exercism.render, ".json"),
    "prairielearn": (prairielearn.render, ".json"),
    "autolab": (autolab.render, ".txt"),
}
FORMATS = (*_DOCUMENTS, "classroom50", "github", "canvas", "csv")


@dataclass(frozen=True)
class Wanted:
    """What `grade export` was told beside its source."""

    format: str
    out: str | None = None
    into: str | None = None
    columns: tuple[str, ...] = ()
    of_judged: bool = False
    parts_left_out_too: bool = False
    scale: bool = False
    strict: bool = False
    metadata: str | None = None
    audience: str = "student"


def export(source: str, wanted: Wanted) -> int:
    """Write the files, or print the one document; the exit code."""
    if wanted.format not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}, got {wanted.format!r}")
    if wanted.audience not in ("student", "instructor"):
        raise UsageError(f"--audience must be student or instructor, got {wanted.audience!r}")
    if wanted.parts_left_out_too and not wanted.of_judged:
        raise UsageError("--parts-left-out-too must come with --of-judged, got it alone")
    path = Path(source)
    if not path.exists():
        raise UsageError(f"an OUT_DIR or a record must exist, got {path}")
    if path.is_dir():
        return _class(path, wanted)
    return _one(read_record(path), wanted)


# -- one record ------------------------------------------------------------------------------------------------------


def _one(record: Record, wanted: Wanted) -> int:
    match wanted.format:
        case "canvas":
            raise UsageError("canvas takes a class, an OUT_DIR of grade batch, got one record")
        case "csv":
            book = _alone(record)
            _give(wanted, table.exercise(book, record.exercise.id, _checks(record)))
        case "classroom50":
            place = _place(os.environ)
            _write_all(Path(wanted.out or "."), classroom50.files(_shown(record, wanted), place))
        case "github":
            _github(github.files(_shown(record, wanted)), wanted)
        case _:
            _give(wanted, _render(wanted)(_shown(record, wanted)))
    return 0


def _render(wanted: Wanted) -> Callable[[Record], str]:
    if wanted.format == "junit" and wanted.strict:
        return junit.strict
    if wanted.format == "gradescope" and wanted.metadata is not None:
        metadata = _metadata(Path(wanted.metadata))
        return lambda record: gradescope.render(record, metadata)
    return _DOCUMENTS[wanted.format][0]


def _metadata(path: Path) -> object:
    """The platform's description of the submission; it may change at any time, and is read leniently."""
    try:
        return json.loads(path.read_bytes())
    except OSError as refused:
        raise UsageError(f"--metadata must name a readable file, got {path}: {refused.strerror}") from None
    except (ValueError, RecursionError) as broken:
        raise UsageError(f"--metadata must name a JSON document, got {path}: {str(broken)[:120]}") from None


def _give(wanted: Wanted, text: str) -> None:
    check_target(wanted.out)
    write_or_print(wanted.out or "-", text)


def _github(files: Mapping[str, str], wanted: Wanted) -> None:
    """With --out, the files; without, what a workflow's step wants: commands on stdout, the summary where it says."""
    if wanted.out is not None:
        _write_all(Path(wanted.out), files)
        return
    write_or_print("-", files["annotations.txt"])
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8", errors="replace") as file:
            file.write(files["summary.md"])


def _place(environment: Mapping[str, str]) -> classroom50.RunnerEnvironment:
    """Where the submission stands, from the runner's environment."""
    names = ("CLASSROOM", "ASSIGNMENT", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL")
    if missing := [name for name in names if not environment.get(name)]:
        raise UsageError(f"classroom50 needs the runner's environment, got no {', '.join(missing)}")
    classroom, assignment, submission, commit, release = (environment[name] for name in names)
    review = environment.get("REVIEW_URL") or commit
    return classroom50.RunnerEnvironment(classroom, assignment, submission, commit, release, review)


def _alone(record: Record) -> Gradebook:
    """A gradebook of one."""
    student = Student(record.submission.student or Path(record.submission.path).stem)
    assignment = Assignment(record.exercise.id, record.exercise.title, record.max_score)
    scores = (record.verdict, record.score, record.judged_score, record.max_score)
    mark = Mark(student.id, assignment.id, *scores, submitted_at=record.submitted_at)
    return Gradebook((assignment,), (student,), (mark,))


def _checks(record: Record) -> table.Checks:
    student = record.submission.student or Path(record.submission.path).stem
    return {(student, record.exercise.id): table.points_of(record)}


# -- a class ---------------------------------------------------------------------------------------------------------


def _class(out_dir: Path, wanted: Wanted) -> int:
    match wanted.format:
        case "canvas":
            return _canvas(out_dir, wanted)
        case "csv":
            return _csv(out_dir, wanted)
        case "classroom50" | "github":
            raise UsageError(f"{wanted.format} takes one record, of the run that it is in, got the OUT_DIR {out_dir}")
    target = Path(wanted.out) if wanted.out else out_dir / "export" / wanted.format
    render, ending = _render(wanted), _DOCUMENTS[wanted.format][1]
    check_writable(target / "x")

    def write_share(share: int, of: int) -> tuple[int, list[tuple[str, str]]]:
        written, problems = 0, []
        for found in records(out_dir, share, of):
            if found.record is None:
                problems.append((found.path, found.problem))
            else:
                file = target / found.student / f"{found.exercise}{ending}"
                _replace(file, render(_shown(found.record, wanted)))
                written += 1
        return written, problems

    shares = in_shares(write_share, len(read_batch(out_dir).students))
    _tell([(path, words) for _, problems in shares for path, words in problems])
    _say(f"{sum(written for written, _ in shares)} files: {target}")
    return 0


def _replace(file: Path, text: str) -> None:
    """Write a file unless it says so already: to replace thousands of them takes a disk minutes."""
    try:
        if file.read_bytes() == text.encode("utf-8", "replace"):
            return
    except OSError:
        file.parent.mkdir(parents=True, exist_ok=True)
    write(file, text)


def _csv(out_dir: Path, wanted: Wanted) -> int:
    checks: dict[tuple[str, str], dict[str, float]] = {}
    problems: list[tuple[str, str]] = []

    def visit(found: StoredRecord) -> None:
        if found.record is None:
            problems.append((found.path, found.problem))
        else:
            checks[found.student, found.exercise] = table.points_of(found.record)

    book = read(out_dir, visit)
    _tell(problems)
    _write_all(Path(wanted.out) if wanted.out else out_dir / "export" / "csv", table.files(book, checks))
    return 0


def _canvas(out_dir: Path, wanted: Wanted) -> int:
    known = [one.id for one in read_batch(out_dir).assignments]
    rules = canvas.MarkRules(
        _ids(wanted.columns, known),
        of_judged=wanted.of_judged,
        parts_left_out_too=wanted.parts_left_out_too,
        scale=wanted.scale,
    )
    exported = _exported(Path(wanted.into)) if wanted.into is not None else None
    problems: list[tuple[str, str]] = []
    book = read(out_dir, lambda found: None if found.record else problems.append((found.path, found.problem)))
    _tell(problems)
    sheets = (
        {"canvas.csv": canvas.update(book, exported, rules)}
        if exported is not None
        else {f"canvas_{one.id}.csv": canvas.fresh(book, one.id, rules) for one in book.assignments}
    )
    for line in dict.fromkeys(line for sheet in sheets.values() for line in sheet.left_out):
        _say(f"left out, {line}")
    if not any(sheet.written for sheet in sheets.values()):
        raise UsageError("there must be a score to export, got none")
    if exported is not None:
        _give(wanted, sheets["canvas.csv"].text)
    else:
        files = {name: sheet.text for name, sheet in sheets.items() if sheet.written}
        _write_all(Path(wanted.out) if wanted.out else out_dir / "export" / "canvas", files)
    return 0


def _ids(given: tuple[str, ...], known: list[str]) -> dict[str, int]:
    """ex_18=90412, by exercise."""
    ids = {}
    for text in given:
        exercise, equals, number = text.partition("=")
        if not equals or not number.isdecimal() or exercise not in known:
            raise UsageError(f"--column must look like {known[0] if known else 'EXERCISE'}=90412, got {text!r}")
        ids[exercise] = int(number)
    return ids


def _exported(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as refused:
        raise UsageError(f"--into must name a readable file, got {path}: {refused.strerror}") from None
    except UnicodeDecodeError as broken:
        raise UsageError(f"--into must name a file in UTF-8, got byte {broken.start} of {path}") from None


def _tell(problems: list[tuple[str, str]]) -> None:
    """Records that cannot be read: the first of them, and how many more."""
    for path, words in problems[:5]:
        _say(f"not read, {path}: {words}")
    if len(problems) > 5:
        _say(f"not read, {len(problems) - 5} more records")


# -- both ------------------------------------------------------------------------------------------------------------


def _shown(record: Record, wanted: Wanted) -> Record:
    """The record for whoever reads the files."""
    if wanted.audience == "instructor":
        return record
    return for_student(record, secret=is_secret(record), file=_below_here(record.submission.path))


def _below_here(path: str) -> str:
    """A path as a checkout's reader knows it; nothing for one from elsewhere."""
    try:
        inside = os.path.relpath(path)
    except ValueError:
        return ""
    return "" if inside.startswith("..") else inside


def is_secret(record: Record) -> bool:
    """Whether a record's plan is the instructor's own: everybody can compute the one that an exercise's name gives."""
    from grader.exercise.plan import default_seed

    return record.seed != f"{default_seed(record.exercise.id):#x}"


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    for name in files:
        check_writable(folder / name)
    for name, text in files.items():
        write(folder / name, text)
        _say(str(folder / name))


def _say(text: str) -> None:
    print(text, file=sys.stderr)
