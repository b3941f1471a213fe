"""Turn uploads into submissions: for every student and exercise the text to grade, or why there is none."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from grader.batch.gradebook import Student
from grader.batch.roster import owner_on, person, strangers_ids
from grader.batch.store import Submission
from grader.batch.uploads import Owner, Upload, UploadedFile, listed, text_bytes
from grader.errors import UsageError
from grader.files import as_text

_ROOM_OF_STUBS = "exercises"


def exercises_in(uploads: Sequence[Upload], exercises: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the exercises for which somebody handed something in."""
    owned = [upload for upload in uploads if upload.owners]
    named = {upload.exercise for upload in owned}
    files = [file for upload in owned for file in upload.files]
    return tuple(one for one in exercises if one in named or any(_is_for(file, one) for file in files))


def collect(
    uploads: Sequence[Upload],
    exercises: Mapping[str, str],
    roster: Sequence[Student],
    times: Mapping[str, str],
) -> tuple[tuple[Student, ...], tuple[Submission, ...]]:
    """Return all students, and everybody's submissions for these exercises (names by id), sorted by student.

    The students: the roster, then the owners that it does not name. times: by "STUDENT/EXERCISE", where
    the layout does not say.
    """
    owned: list[tuple[Upload, Owner, Student | None]] = []
    for upload in uploads:
        for owner in upload.owners:
            try:
                owned.append((upload, owner, owner_on(roster, owner)))
            except UsageError as ambiguous:
                owned.append((replace(upload, files=(), trouble=str(ambiguous)), owner, None))
    unknown = [owner for _, owner, student in owned if student is None]
    ids = strangers_ids(unknown, {student.id for student in roster})
    strangers: dict[str, Student] = {}
    handed_in: dict[str, list[Upload]] = {}
    for upload, owner, student in owned:
        who = student.id if student is not None else ids[person(owner)]
        if student is None and who not in strangers:
            strangers[who] = Student(who, owner.name, owner.email, ids=dict(owner.ids))
        handed_in.setdefault(who, []).append(upload)
    submissions = [
        replace(one, submitted_at=times.get(f"{one.student}/{one.exercise}", one.submitted_at))
        for student, own in sorted(handed_in.items())
        for one in _of(student, own, exercises)
    ]
    return (*roster, *(strangers[who] for who in sorted(strangers))), tuple(submissions)


def _of(student: str, uploads: Sequence[Upload], exercises: Mapping[str, str]) -> Iterator[Submission]:
    """Yield one student's submissions; an upload without any known file counts for every exercise."""
    found = {
        exercise: [(upload, file) for upload in uploads for file in upload.files if _is_for(file, exercise)]
        for exercise in exercises
    }
    broken = [upload for upload in uploads if upload.trouble]
    has_any = any(found.values())
    for exercise, name in exercises.items():
        if candidates := found[exercise]:
            yield _chosen(student, exercise, name, candidates)
            continue
        meant = [one for one in (broken or uploads) if one.exercise in ("", exercise)]
        if meant and (broken or not has_any):
            what = f"a submission must hold {name}.py, got {listed([file for one in meant for file in one.files])}"
            late = any(one.late for one in meant)
            trouble = next((one.trouble for one in broken if one in meant), what)
            yield Submission(
                student, exercise, meant[0].name, trouble=trouble, submitted_at=meant[0].submitted_at, late=late
            )


def _is_for(file: UploadedFile, exercise: str) -> bool:
    """Return whether a file is one of the exercise by its name: ex_15_triton_basics.py, ex-15.py, ex15 (2).py."""
    word, _, number = exercise.partition("_")
    pattern = rf"{re.escape(word)}[_-]?0*{re.escape(number)}(?!\d).*\.py" if number else rf"{re.escape(exercise)}.*\.py"
    return re.fullmatch(pattern, file.path[-1], re.IGNORECASE | re.DOTALL) is not None


def _chosen(student: str, exercise: str, name: str, candidates: Sequence[tuple[Upload, UploadedFile]]) -> Submission:
    """Return the one file of several for one exercise: the one in the folder of stubs, or the only text among them."""
    own = [(upload, file) for upload, file in candidates if file.path[-2:] == (_ROOM_OF_STUBS, f"{name}.py")]
    if len(own) == 1:
        candidates = own
    upload, file = candidates[0]
    plain = Submission(student, exercise, str(file), submitted_at=upload.submitted_at, late=upload.late)
    try:
        text = as_text(_one_of([one for _, one in candidates], exercise), file)
    except UsageError as refused:
        return replace(plain, trouble=str(refused))
    return replace(plain, text=text, sha256=hashlib.sha256(text.encode()).hexdigest())


def _one_of(files: Sequence[UploadedFile], exercise: str) -> bytes:
    # One by one: all together may be as much as an archive may unpack to.
    data = text_bytes(files[0])
    if any(text_bytes(one) != data for one in files[1:]):
        raise UsageError(f"there must be one file for {exercise}, got {len(files)}: {listed(files)}")
    return data
