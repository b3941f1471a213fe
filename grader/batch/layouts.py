"""Find the owners of every upload, by the folder layouts of the platforms.

| platform | layout |
| --- | --- |
| Canvas | `lovelaceada_LATE_12345_678_ex_15_triton_basics.py`, or a zip file of such a name |
| Gradescope | `submission_123/…` beside `submission_metadata.yml`, also inside one folder `assignment_1_export/` |
| Moodle | `Ada Lovelace_12345_assignsubmission_file_/…`, or files whose names begin like that |
| GitHub Classroom | repositories `ex-15-ada/`, or `lab1-ada/` with the prefix `lab1`; or zip files of such names |
| by hand | `ada/…` or `ada.zip` |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import takewhile
from pathlib import Path, PurePath
from typing import Any

from grader.batch.uploads import Owner, Upload, grouped, opened, printable, uploads_in
from grader.errors import UsageError
from grader.moments import utc

_CANVAS = re.compile(r"(?P<name>.+?)_(?:(?P<late>late)_)?(?P<id>\d+)_(?P<attachment>\d+)_(?P<file>.+)", re.IGNORECASE)
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?P<kind>file|onlinetext)_?(?P<file>.*)")
_GRADESCOPE = re.compile(r"submission_(?P<id>\d+)")
_METADATA = ("submission_metadata.yml", "submission_metadata.yaml")
_EXPORT = re.compile(r"assignment_\d+_export")
_MOST_METADATA_BYTES = 1 << 27
# Two students may be called anna-b and anna-c.
_FEWEST_OF_A_PREFIX = 3


def recognise(
    place: Path, exercises: Mapping[str, str], prefixes: Sequence[str] = (), known: Collection[str] = ()
) -> tuple[Upload, ...]:
    """Return the uploads in a folder or an archive with their owners; some have no owner.

    exercises: names by id. prefixes: the beginnings of repository names, before the user; without any, their common
    beginning (`common_prefix`). known: the ids of the roster. Raises UsageError if the place or its metadata cannot be
    read.
    """
    uploads = uploads_in(place)
    inner = _inside_one_folder(uploads)
    metadata = next((upload for upload in inner if upload.name in _METADATA), None)
    if metadata is not None:
        return tuple(_gradescope(inner, _read_metadata(metadata)))
    slugs = _slugs(exercises) | _prefixes(prefixes, exercises)
    if not prefixes:
        plain = [upload for upload in uploads if _is_plain(upload, slugs)]
        folders = [_own_name(upload) for upload in plain if upload.is_folder]
        # If folders are enough, an archive of something else does not matter.
        if found := common_prefix(folders, known) or common_prefix(list(map(_own_name, plain)), known):
            slugs[_slug(found)] = ""
    return tuple(_recognised(upload, slugs) for upload in uploads)


def _is_plain(upload: Upload, slugs: Mapping[str, str]) -> bool:
    """Return whether an upload is a folder or an archive whose name shows no platform and no exercise."""
    name = upload.name
    if name.startswith(".") or _MOODLE.fullmatch(name) or _repository(_own_name(upload), slugs):
        return False
    return upload.is_folder or (_is_archive(upload) and not _CANVAS.fullmatch(name))


def common_prefix(names: Sequence[str], known: Collection[str] = ()) -> str:
    """Return the words that all names begin with, as the repositories of one assignment do; '' if there are none.

    There must be three names. The rests must differ, and must not be numbers alone (group-1, group-2). A folder or an
    archive with the name of somebody `known` is not a repository.
    """
    ids = {one.casefold() for one in known}
    different = dict.fromkeys(names)
    if len(different) < _FEWEST_OF_A_PREFIX or any(name.casefold() in ids for name in different):
        return ""
    columns = zip(*(name.split("-") for name in different), strict=False)
    start = "-".join(column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns))
    users = [name[len(start) + 1 :] for name in different]
    return start if all(users) and not all(user.isdigit() for user in users) else ""


def _is_archive(upload: Upload) -> bool:
    return not upload.is_folder and upload.name.lower().endswith(".zip")


def _own_name(upload: Upload) -> str:
    name = printable(upload.name)
    return name if upload.is_folder else PurePath(name).stem


def _slug(name: str) -> str:
    return name.replace("_", "-").lower().rstrip("-")


def _slugs(exercises: Mapping[str, str]) -> dict[str, str]:
    """Return the exercises by the names that their repositories may begin with."""
    return {_slug(name): exercise for exercise, full in exercises.items() for name in (exercise, full)}


def _prefixes(prefixes: Sequence[str], exercises: Mapping[str, str]) -> dict[str, str]:
    """Return the exercises by prefix; '' for a prefix that names none."""
    slugs = _slugs(exercises)
    named = {_slug(prefix): _repository(f"{_slug(prefix)}-x", slugs) for prefix in prefixes}
    return {prefix: found[0] if found else "" for prefix, found in named.items()}


def _recognised(upload: Upload, slugs: Mapping[str, str]) -> Upload:
    name = printable(upload.name)
    nobodys = replace(upload, name=name)
    if name.startswith("."):
        return nobodys
    if match := _MOODLE.fullmatch(name):
        owner = Owner(match["name"], match["name"], ids={"moodle": match["id"]})
        return nobodys if match["kind"] == "onlinetext" else _owned(upload, owner, match["file"])
    if not upload.is_folder and (match := _CANVAS.fullmatch(name)):
        owner = Owner(match["name"], ids={"canvas": match["id"]})
        return replace(_owned(upload, owner, match["file"]), late=match["late"] is not None)
    # A link in place of a folder also has an owner.
    if not upload.is_folder and not upload.trouble and not _is_archive(upload):
        return nobodys
    if repository := _repository(_own_name(upload), slugs):
        exercise, user = repository
        return replace(_owned(upload, Owner(user, ids={"github": user})), exercise=exercise)
    return _owned(upload, Owner(_own_name(upload)))


def _owned(upload: Upload, owner: Owner, file: str = "") -> Upload:
    """Return an upload, opened. file: the owner's name for it, if the platform put more in front."""
    if file and not upload.is_folder:
        files = tuple(replace(one, path=(file,)) for one in upload.files)
        upload = replace(upload, name=file, found_as=printable(upload.name), files=files)
    return replace(opened(upload), name=printable(upload.name), owners=(owner,))


def _repository(name: str, slugs: Mapping[str, str]) -> tuple[str, str] | None:
    """Return exercise and user of a repository's name; the longest beginning that fits counts.

    ex-15-triton-basics alone is an exercise, not a repository of ex-15.
    """
    beginning = name.replace("_", "-").lower()
    for slug in sorted(slugs, key=len, reverse=True) if beginning not in slugs else ():
        user = beginning.removeprefix(f"{slug}-")
        if len(user) < len(name) and user:
            return slugs[slug], name[-len(user) :]
    return None


# -- Gradescope ------------------------------------------------------------------------------------------------------


def _inside_one_folder(uploads: Sequence[Upload]) -> Sequence[Upload]:
    """Return the uploads in an export of Gradescope, which is packed as one folder; others as they are.

    Only under Gradescope's own name: any other folder may be the only student's, who could name others.
    """
    folders = [upload for upload in uploads if upload.is_folder]
    if len(folders) != 1 or not _EXPORT.fullmatch(folders[0].name) or not holds_metadata(folders[0]):
        return uploads
    return grouped(folders[0].files)


def holds_metadata(upload: Upload) -> bool:
    """Return whether a folder looks like an export of Gradescope from inside: a student can make one."""
    return any(file.path == (name,) for file in upload.files for name in _METADATA)


def _read_metadata(upload: Upload) -> Mapping[str, Any]:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Loads plain data, and objects of Ruby's as mappings."""

    def mapping(loader: Any, _: str, node: Any) -> Any:
        return loader.construct_mapping(node) if isinstance(node, yaml.MappingNode) else loader.construct_object(node)

    Loader.add_multi_constructor("!ruby/", mapping)
    data = upload.files[0].read(_MOST_METADATA_BYTES)
    try:
        read = yaml.load(data, Loader)  # noqa: S506  a safe loader, and a mapping for one more kind of tag
    except (yaml.YAMLError, ValueError, RecursionError) as broken:
        said = " ".join(str(broken).split())[:200]
        raise UsageError(f"{upload.name} must be YAML as Gradescope writes it, got: {said}") from broken
    if not isinstance(read, dict):
        raise UsageError(f"{upload.name} must map submissions to what is known of them, got {type(read).__name__}")
    return read


def _gradescope(uploads: Sequence[Upload], metadata: Mapping[str, Any]) -> Iterator[Upload]:
    for upload in uploads:
        match = _GRADESCOPE.fullmatch(upload.name if upload.is_folder else PurePath(upload.name).stem)
        if match is None:
            if upload.name not in _METADATA:
                yield replace(upload, name=printable(upload.name))
            continue
        known = metadata.get(match[0])
        told: Mapping[str, Any] = known if isinstance(known, dict) else {}
        owners = tuple(_submitters(told)) or (Owner(match[0]),)
        made = _owned(upload, owners[0])
        yield replace(made, name=match[0], owners=owners, submitted_at=_created_at(told))


def _submitters(told: Mapping[str, Any]) -> Iterator[Owner]:
    for one in told.get(":submitters") or ():
        if isinstance(one, dict):
            name, sid, email = (printable(str(one.get(key) or "")) for key in (":name", ":sid", ":email"))
            if label := email.partition("@")[0] or sid or name:
                yield Owner(label, name, email, {"sis": sid} if sid else {})


def _created_at(told: Mapping[str, Any]) -> str:
    created = told.get(":created_at")
    if isinstance(created, dict):
        created = created.get("utc")
    if isinstance(created, str):
        try:
            created = datetime.fromisoformat(created)
        except ValueError:
            return ""
    with suppress(UsageError):
        return utc(created) if isinstance(created, datetime) else ""
    return ""
