"""Find the owner of every submission, by the folder layouts of the platforms that submissions come from.

| platform | layout |
| --- | --- |
| Canvas | `lovelaceada_LATE_12345_678_ex_15_triton_basics.py`, or a zip file of such a name |
| Gradescope | `submission_123/…` beside `submission_metadata.yml` |
| Moodle | `Ada Lovelace_12345_assignsubmission_file_/…`, or files whose names begin like that |
| GitHub Classroom | repositories `ex-15-ada/` |
| by hand | `ada/…` or `ada.zip` |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePath
from typing import Any

from grader.batch.handed_in import Item, Member, opened, printable
from grader.batch.moments import utc
from grader.errors import UsageError

_CANVAS = re.compile(r"(?P<name>.+?)_(?:(?P<late>late)_)?(?P<id>\d+)_(?P<attachment>\d+)_(?P<file>.+)", re.IGNORECASE)
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?P<kind>file|onlinetext)_?(?P<file>.*)")
_GRADESCOPE = re.compile(r"submission_(?P<id>\d+)")
_METADATA = ("submission_metadata.yml", "submission_metadata.yaml")
_MOST_METADATA_BYTES = 1 << 27


@dataclass(frozen=True)
class Owner:
    """Somebody as a platform names them. ids: by platform, as in a Student."""

    label: str
    name: str = ""
    email: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bundle:
    """The files that a student or a group handed in together.

    exercise: the one that the bundle's name speaks of, by id; empty where it speaks of none. late: the platform says so
    (it need not say by how much). trouble: why nothing of it can be graded.
    """

    owners: tuple[Owner, ...]
    name: str
    members: tuple[Member, ...]
    exercise: str = ""
    submitted_at: str = ""
    late: bool = False
    trouble: str = ""


@dataclass(frozen=True)
class BundleListing:
    """Every bundle, and the names of what is none."""

    bundles: tuple[Bundle, ...]
    ignored: tuple[str, ...]


def recognise(items: Sequence[Item], exercises: Mapping[str, str]) -> BundleListing:
    """Return the bundles among the items. exercises: names by id. Raises UsageError for unreadable metadata."""
    inner = _inside_one_folder(items)
    metadata = next((item for item in inner if item.name in _METADATA), None)
    if metadata is not None:
        return _gradescope(inner, _read_metadata(metadata))
    found: list[Bundle] = []
    ignored: list[str] = []
    for item in items:
        bundle = None if item.name.startswith(".") else _bundle(item, exercises)
        if bundle is None:
            ignored.append(printable(item.name))
        else:
            found.append(bundle)
    return BundleListing(tuple(found), tuple(ignored))


def _bundle(item: Item, exercises: Mapping[str, str]) -> Bundle | None:
    name = printable(item.name)
    if match := _MOODLE.fullmatch(name):
        if match["kind"] == "onlinetext":
            return None
        owner = Owner(match["name"], match["name"], ids={"moodle": match["id"]})
        return _made(owner, item, match["file"])
    if not item.is_folder and (match := _CANVAS.fullmatch(name)):
        owner = Owner(match["name"], ids={"canvas": match["id"]})
        return replace(_made(owner, item, match["file"]), late=match["late"] is not None)
    if item.is_folder and (repository := _repository(name, exercises)):
        exercise, user = repository
        return replace(_made(Owner(user, ids={"github": user}), item), exercise=exercise)
    if item.is_folder or name.lower().endswith(".zip"):
        return _made(Owner(name if item.is_folder else PurePath(name).stem), item)
    # A link where a folder would be is somebody's, too.
    return _made(Owner(PurePath(name).stem), item) if item.trouble else None


def _made(owner: Owner, item: Item, file: str = "") -> Bundle:
    """Return the bundle of one item; `file` is what its owner called it, where the platform put more before that."""
    if file and not item.is_folder:
        item = replace(item, name=file, members=tuple(replace(one, path=(file,)) for one in item.members))
    inside = opened(item)
    return Bundle((owner,), printable(item.name), inside.members, trouble=inside.trouble)


def _repository(name: str, exercises: Mapping[str, str]) -> tuple[str, str] | None:
    """(exercise, user) of a repository's name, the longest name of an exercise first."""
    slugs = {slug.replace("_", "-"): exercise for exercise, full in exercises.items() for slug in (exercise, full)}
    for slug in sorted(slugs, key=len, reverse=True):
        user = name.replace("_", "-").lower().removeprefix(f"{slug}-")
        if len(user) < len(name) and user:
            return slugs[slug], name[-len(user) :]
    return None


# -- Gradescope ------------------------------------------------------------------------------------------------------


def _inside_one_folder(items: Sequence[Item]) -> Sequence[Item]:
    """Return the items of an export of Gradescope, which is packed as one folder; others as they are."""
    folders = [item for item in items if item.is_folder]
    if len(folders) != 1 or not any(member.path == (name,) for member in folders[0].members for name in _METADATA):
        return items
    inner: dict[str, list[Member]] = {}
    files = [Item(member.name, False, (member,)) for member in folders[0].members if len(member.path) == 1]
    for member in folders[0].members:
        if len(member.path) > 1:
            inner.setdefault(member.path[0], []).append(replace(member, path=member.path[1:]))
    return [*(Item(name, True, tuple(members)) for name, members in sorted(inner.items())), *files]


def _read_metadata(item: Item) -> Mapping[str, Any]:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Plain data; what is tagged as an object of Ruby's is read as the mapping that it is."""

    def mapping(loader: Any, _: str, node: Any) -> Any:
        return loader.construct_mapping(node) if isinstance(node, yaml.MappingNode) else loader.construct_object(node)

    Loader.add_multi_constructor("!ruby/", mapping)
    data = item.members[0].read(_MOST_METADATA_BYTES)
    try:
        read = yaml.load(data, Loader)  # noqa: S506  a safe loader, and a mapping for one more kind of tag
    except (yaml.YAMLError, ValueError, RecursionError) as broken:
        said = " ".join(str(broken).split())[:200]
        raise UsageError(f"{item.name} must be YAML as Gradescope writes it, got: {said}") from broken
    if not isinstance(read, dict):
        raise UsageError(f"{item.name} must map submissions to what is known of them, got {type(read).__name__}")
    return read


def _gradescope(items: Sequence[Item], metadata: Mapping[str, Any]) -> BundleListing:
    bundles, ignored = [], []
    for item in items:
        match = _GRADESCOPE.fullmatch(PurePath(item.name).stem if not item.is_folder else item.name)
        if match is None:
            ignored += [] if item.name in _METADATA else [printable(item.name)]
            continue
        known = metadata.get(match[0])
        told: Mapping[str, Any] = known if isinstance(known, dict) else {}
        owners = tuple(_submitters(told)) or (Owner(match[0]),)
        bundle = replace(_made(owners[0], item), owners=owners, name=match[0])
        bundles.append(replace(bundle, submitted_at=_created_at(told)))
    return BundleListing(tuple(bundles), tuple(ignored))


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
