"""The submissions of a class: for every student and exercise the text to grade, or why there is none."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from grader.batch.gradebook import Student
from grader.batch.handed_in import Member, listed, text_bytes
from grader.batch.layouts import Bundle, BundleListing, Owner
from grader.batch.roster import owner_on, person, strangers_ids
from grader.batch.store import Submission
from grader.errors import UsageError
from grader.files import as_text

_ROOM_OF_STUBS = "exercises"


def exercises_in(found: BundleListing, exercises: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the exercises for which somebody handed something in."""
    named = {bundle.exercise for bundle in found.bundles}
    members = [member for bundle in found.bundles for member in bundle.members]
    return tuple(one for one in exercises if one in named or any(_is_for(member, one) for member in members))


def collect(
    found: BundleListing, exercises: Mapping[str, str], roster: Sequence[Student], times: Mapping[tuple[str, str], str]
) -> tuple[tuple[Student, ...], tuple[Submission, ...]]:
    """Return all students, and everybody's submissions for these exercises (names by id), sorted by student.

    The students: the roster, then the owners that it does not name. times: when who handed in what, for (student,
    exercise), where the layout does not say.
    """
    owned: list[tuple[Bundle, Owner, Student | None]] = []
    for bundle in found.bundles:
        for owner in bundle.owners:
            try:
                owned.append((bundle, owner, owner_on(roster, owner)))
            except UsageError as ambiguous:
                owned.append((replace(bundle, members=(), trouble=str(ambiguous)), owner, None))
    unknown = [owner for _, owner, student in owned if student is None]
    ids = strangers_ids(unknown, {student.id for student in roster})
    strangers: dict[str, Student] = {}
    handed_in: dict[str, list[Bundle]] = {}
    for bundle, owner, student in owned:
        who = student.id if student is not None else ids[person(owner)]
        if student is None and who not in strangers:
            strangers[who] = Student(who, owner.name, owner.email, ids=dict(owner.ids))
        handed_in.setdefault(who, []).append(bundle)
    submissions = [
        replace(one, submitted_at=times.get((one.student, one.exercise), one.submitted_at))
        for student, bundles in sorted(handed_in.items())
        for one in _of(student, bundles, exercises)
    ]
    return (*roster, *(strangers[who] for who in sorted(strangers))), tuple(submissions)


def _of(student: str, bundles: Sequence[Bundle], exercises: Mapping[str, str]) -> Iterator[Submission]:
    """Yield one student's submissions; a bundle without any known file counts for every exercise."""
    found = {
        exercise: [(bundle, one) for bundle in bundles for one in bundle.members if _is_for(one, exercise)]
        for exercise in exercises
    }
    broken = [bundle for bundle in bundles if bundle.trouble]
    has_any = any(found.values())
    for exercise, name in exercises.items():
        if candidates := found[exercise]:
            yield _chosen(student, exercise, name, candidates)
            continue
        meant = [one for one in (broken or bundles) if one.exercise in ("", exercise)]
        if meant and (broken or not has_any):
            what = f"a submission must hold {name}.py, got {listed([one for each in meant for one in each.members])}"
            late = any(one.late for one in meant)
            trouble = next((one.trouble for one in broken if one in meant), what)
            yield Submission(
                student, exercise, meant[0].name, trouble=trouble, submitted_at=meant[0].submitted_at, late=late
            )


def _is_for(member: Member, exercise: str) -> bool:
    """Return whether a file is one of the exercise by its name: ex_15_triton_basics.py, ex-15.py, ex15 (2).py."""
    word, _, number = exercise.partition("_")
    pattern = rf"{re.escape(word)}[_-]?0*{re.escape(number)}(?!\d).*\.py" if number else rf"{re.escape(exercise)}.*\.py"
    return re.fullmatch(pattern, member.name, re.IGNORECASE | re.DOTALL) is not None


def _chosen(student: str, exercise: str, name: str, candidates: Sequence[tuple[Bundle, Member]]) -> Submission:
    """Return the one file of several for one exercise: the one in the folder of stubs, or the only text among them."""
    own = [(bundle, one) for bundle, one in candidates if one.path[-2:] == (_ROOM_OF_STUBS, f"{name}.py")]
    if len(own) == 1:
        candidates = own
    bundle, member = candidates[0]
    plain = Submission(student, exercise, str(member), submitted_at=bundle.submitted_at, late=bundle.late)
    try:
        text = as_text(_one_of([one for _, one in candidates], exercise), member)
    except UsageError as refused:
        return replace(plain, trouble=str(refused))
    return replace(plain, text=text, sha256=hashlib.sha256(text.encode()).hexdigest())


def _one_of(members: Sequence[Member], exercise: str) -> bytes:
    # One by one: all together may be as much as an archive may unpack to.
    data = text_bytes(members[0])
    if any(text_bytes(one) != data for one in members[1:]):
        raise UsageError(f"there must be one file for {exercise}, got {len(members)}: {listed(members)}")
    return data
