"""Turn uploads into submissions: for every student and exercise the text to grade, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from grader.batch.gradebook import Student
from grader.batch.layouts import holds_metadata
from grader.batch.roster import owner_on, person, strangers_ids
from grader.batch.store import Submission
from grader.batch.uploads import MOST_LISTED, Owner, Upload, UploadedFile, files_of, text_bytes
from grader.errors import UsageError
from grader.files import as_text
from grader.phrases import all_of, counted, listed
from grader.text import sha256_of

_ROOM_OF_STUBS = "exercises"
# The most files left over that are named of one upload: an upload may hold thousands.
_MOST_LEFT_OVER = 10


def exercises_in(uploads: Sequence[Upload], exercises: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of the exercises with at least one submission."""
    owned = [upload for upload in uploads if upload.owners]
    named = {upload.exercise for upload in owned}
    files = [file for upload in owned for file in upload.files]
    return tuple(one for one in exercises if one in named or any(_is_for(file, one) for file in files))


@dataclass(frozen=True)
class Collected:
    """Everything that was handed in, by whom.

    students: the roster, then the owners that it does not name. submissions: sorted by student. nobodys: uploads
    without an owner, and empty ones of nobody on the roster. left_over: files of students that belong to no exercise,
    or are not the graded one. notes: hints for the instructor before anything is graded.
    """

    students: tuple[Student, ...]
    submissions: tuple[Submission, ...]
    nobodys: tuple[str, ...]
    left_over: tuple[str, ...]
    notes: tuple[str, ...]


def collect(
    uploads: Sequence[Upload],
    exercises: Mapping[str, str],
    roster: Sequence[Student],
) -> Collected:
    """Return all students, and everybody's submissions for these exercises (names by id)."""
    notes: list[str] = []
    owned: list[tuple[Upload, Owner, Student | None]] = []
    for upload in uploads:
        for owner in upload.owners:
            try:
                owned.append((upload, owner, owner_on(roster, owner)))
            except UsageError as ambiguous:
                named = [exercise for exercise in exercises if _names(upload, exercise)]
                against = f"counts against {', '.join(named)}" if named else "names no exercise and counts against none"
                notes.append(f"{_shown(upload)} {against}: {ambiguous}")
                blank = replace(upload, files=(), trouble=str(ambiguous))
                owned += [(replace(blank, exercise=exercise), owner, None) for exercise in named]
    bare = [upload for upload, _, student in owned if roster and student is None and _is_empty(upload)]
    owned = [one for one in owned if not any(one[0] is upload for upload in bare)]
    unknown = [owner for _, owner, student in owned if student is None]
    ids = strangers_ids(unknown, {student.id for student in roster})
    strangers: dict[str, Student] = {}
    handed_in: dict[str, list[Upload]] = {}
    for upload, owner, student in owned:
        who = student.id if student is not None else ids[person(owner)]
        if student is None and who not in strangers:
            strangers[who] = Student(who, owner.name, owner.email, ids=dict(owner.ids))
        handed_in.setdefault(who, []).append(upload)
    submissions = [one for who, own in sorted(handed_in.items()) for one in _of(who, own, exercises)]
    made: dict[str, list[Submission]] = {}
    for one in submissions:
        made.setdefault(one.student, []).append(one)
    left_over = (place for who, own in sorted(handed_in.items()) for place in _left_over(own, made.get(who, [])))
    return Collected(
        (*roster, *(strangers[who] for who in sorted(strangers))),
        tuple(submissions),
        (*(upload.name for upload in uploads if not upload.owners), *(f"{_shown(one)} (empty)" for one in bare)),
        tuple(dict.fromkeys(left_over)),
        (
            *notes,
            *_exports(uploads),
            *_twice(handed_in, exercises),
            *_alike([(upload, owner, ids[person(owner)]) for upload, owner, student in owned if student is None]),
            *_prefixed(strangers, handed_in, roster),
        ),
    )


def timed(submissions: Iterable[Submission], times: Mapping[str, str]) -> tuple[Submission, ...]:
    """Return submissions with the instructor's times, by "STUDENT/EXERCISE"; the others keep the layout's."""
    return tuple(
        replace(one, submitted_at=times.get(f"{one.student}/{one.exercise}", one.submitted_at)) for one in submissions
    )


def _names(upload: Upload, exercise: str) -> bool:
    """Return whether an upload names an exercise: as a repository, by a file in it, or by its own name."""
    named = upload.exercise == exercise or any(_is_for(file, exercise) for file in upload.files)
    return named or re.search(_pattern(exercise), upload.name, re.IGNORECASE) is not None


def _is_empty(upload: Upload) -> bool:
    """Return whether a folder or an archive of one person is empty and has no trouble."""
    return upload.is_folder and not upload.files and not upload.trouble and len(upload.owners) == 1


def _shown(upload: Upload) -> str:
    """Return an upload's name, a folder's with a slash."""
    return f"{upload.place}/" if upload.is_folder and not upload.name.lower().endswith(".zip") else upload.place


def _place(upload: Upload, file: UploadedFile) -> str:
    return f"{upload.place}/{file}" if upload.is_folder else upload.place


def _left_over(uploads: Sequence[Upload], submissions: Sequence[Submission]) -> Iterator[str]:
    """Yield one student's files that no submission uses and no trouble names, and damaged uploads that cost nothing.

    Of many in one upload, yields the first and the number of the others; Python's come first, for one may be meant.
    """
    for upload in uploads:
        if upload.trouble and not any(upload.trouble == one.trouble for one in submissions):
            yield f"{_shown(upload)} ({upload.trouble})"
        unused = [
            file
            for file in upload.files
            if not any(
                _place(upload, file) == one.source or (_is_for(file, one.exercise) and f"{file}" in one.trouble)
                for one in submissions
            )
        ]
        if len(unused) > _MOST_LEFT_OVER:
            unused.sort(key=lambda file: (not file.path[-1].lower().endswith(".py"), file.path))
        yield from (_place(upload, file) for file in unused[:_MOST_LEFT_OVER])
        if more := len(unused[_MOST_LEFT_OVER:]):
            yield f"{_shown(upload)}: {counted(more, 'more file')}"


def _twice(handed_in: Mapping[str, Sequence[Upload]], exercises: Iterable[str]) -> Iterator[str]:
    """Yield a note for every exercise that a student handed in by several uploads: bob/ beside bob.zip."""
    for who, uploads in sorted(handed_in.items()):
        for exercise in exercises:
            holding = [one for one in uploads if any(_is_for(file, exercise) for file in one.files)]
            if len(holding) > 1:
                yield f"{who} handed in {exercise} {len(holding)} times: {', '.join(map(_shown, holding))}"


def _alike(strangers: Iterable[tuple[Upload, Owner, str]]) -> Iterator[str]:
    """Yield a note for all uploads of several strangers whose names differ in case only: ADA/ beside ada/.

    The owners' names count, not those of the files: on Canvas the whole class hands in a file of one name.
    """
    alike: dict[str, list[tuple[Upload, Owner, str]]] = {}
    for one in sorted(strangers, key=lambda one: one[2]):
        alike.setdefault(one[1].label.casefold(), []).append(one)
    for same in alike.values():
        if len({owner.label for _, owner, _ in same}) > 1:
            told = all_of([f"{_shown(upload)} ({who})" for upload, _, who in same])
            yield f"names that differ in case only count as different students: {told}"


def _exports(uploads: Iterable[Upload]) -> Iterator[str]:
    """Yield a hint for each student's folder that looks like an export of Gradescope."""
    for upload in uploads:
        if upload.owners and holds_metadata(upload):
            yield (
                f"{_shown(upload)} counts as one student's and holds a submission_metadata.yml: "
                f"if it is an export of Gradescope, name it instead of the folder around it"
            )


def _prefixed(
    strangers: Iterable[str], handed_in: Mapping[str, Sequence[Upload]], roster: Sequence[Student]
) -> Iterator[str]:
    """Yield a hint for each prefix that hides students without a submission: lab1-carol beside carol."""
    lacking = [student for student in roster if student.id not in handed_in]
    # A name that a platform composed would stay the platform's.
    own = [(who, handed_in[who][0]) for who in sorted(strangers)]
    named = [(who, upload) for who, upload in own if upload.is_folder and upload.name in (who, f"{who}.zip")]
    found: dict[str, list[str]] = {}
    for who, upload in named:
        for dash in re.finditer("(?<=.)-(?=.)", who):
            user = who[dash.end() :]
            with suppress(UsageError):
                if student := owner_on(lacking, Owner(user, ids={"github": user})):
                    found.setdefault(who[: dash.start()], []).append(f"{student.id} by {_shown(upload)}")
    for prefix, alike in found.items():
        yield f"--prefix {prefix} would find students who handed nothing in: {', '.join(alike)}"


def _of(student: str, uploads: Sequence[Upload], exercises: Mapping[str, str]) -> Iterator[Submission]:
    """Yield one student's submissions.

    An unreadable upload counts for the exercise that it names. One that names none counts for every exercise,
    unless the student handed in something else.
    """
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
        meant = [one for one in (broken or uploads) if _may_mean(one, exercise, exercises, alone=not has_any)]
        if meant and (broken or not has_any):
            what = f"a submission must hold {name}.py, got {files_of(meant)}"
            late = any(one.late for one in meant)
            trouble = next((one.trouble for one in broken if one in meant), what)
            yield Submission(
                student,
                exercise,
                meant[0].name,
                trouble=trouble,
                submitted_at=meant[0].submitted_at,
                late=late,
                source=_shown(meant[0]),
            )


def _may_mean(upload: Upload, exercise: str, exercises: Iterable[str], *, alone: bool) -> bool:
    """Return whether an upload without a known file counts for an exercise. alone: there is no other of the student."""
    named = [one for one in exercises if _names(upload, one)]
    return exercise in named if named or upload.exercise else alone


def _is_for(file: UploadedFile, exercise: str) -> bool:
    """Return whether a file belongs to the exercise by its name: ex_15_triton_basics.py, ex-15.py, ex15 (2).py."""
    return re.fullmatch(rf"{_pattern(exercise)}.*\.py", file.path[-1], re.IGNORECASE | re.DOTALL) is not None


def _pattern(exercise: str) -> str:
    word, _, number = exercise.partition("_")
    return rf"{re.escape(word)}[_-]?0*{re.escape(number)}(?!\d)" if number else re.escape(exercise)


def _chosen(student: str, exercise: str, name: str, candidates: Sequence[tuple[Upload, UploadedFile]]) -> Submission:
    """Return the file to grade for one exercise: the one in the folder of stubs, or the only distinct text."""
    own = [(upload, file) for upload, file in candidates if file.path[-2:] == (_ROOM_OF_STUBS, f"{name}.py")]
    if len(own) == 1:
        candidates = own
    upload, file = candidates[0]
    several = any(other is not upload for other, _ in candidates)
    places = listed([_place(*one) if several else str(one[1]) for one in candidates], MOST_LISTED)
    plain = Submission(
        student,
        exercise,
        str(file),
        submitted_at=upload.submitted_at,
        late=upload.late,
        source=_place(upload, file),
    )
    try:
        text = as_text(_one_of([one for _, one in candidates], exercise, places), file)
    except UsageError as refused:
        return replace(plain, trouble=str(refused))
    return replace(plain, text=text, sha256=sha256_of(text))


def _one_of(files: Sequence[UploadedFile], exercise: str, places: str) -> bytes:
    # Read one by one: together they may reach the limit for unpacking an archive.
    data = text_bytes(files[0])
    if any(text_bytes(one) != data for one in files[1:]):
        raise UsageError(f"there must be one file for {exercise}, got {len(files)}: {places}")
    return data
