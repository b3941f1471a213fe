"""List and read a folder or an archive of submissions. Never unpacks it, since its maker may be hostile.

Reads only requested files, and at most as many bytes as a submission may hold. Follows no link. An upload that
breaks a rule gets `trouble`, the reason in words; the other uploads are not affected.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.errors import UsageError
from grader.files import MOST_BYTES
from grader.phrases import listed

MOST_FILES = 10_000
MOST_UNPACKED_BYTES = 1 << 29
# The table of contents of an archive is read into memory as a whole.
MOST_ARCHIVE_BYTES = 1 << 24
_MOST_DEPTH = 32
# The most files that a message names.
MOST_LISTED = 5
_MADE_BY_TOOLS = frozenset({"__pycache__", "__MACOSX", ".git", ".venv", "node_modules", ".ipynb_checkpoints"})
# These methods unpack only as much as requested; others unpack everything behind the packed bytes.
_BOUNDED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
# Exceptions from reading a broken or hostile archive.
_BROKEN = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError)


@dataclass(frozen=True)
class UploadedFile:
    """A file of an upload.

    path: inside the upload. trouble: why it cannot be read. read(n): returns its first n bytes;
    raises UsageError.
    """

    path: tuple[str, ...]
    read: Callable[[int], bytes]
    trouble: str = ""

    def __str__(self) -> str:
        return printable("/".join(self.path))


@dataclass(frozen=True)
class Owner:
    """A person as a platform names them.

    Unlike a Student: people choose these names, so they may be hostile; a Student's id is safe as a file name.
    ids: by platform, as in a Student.
    """

    label: str
    name: str = ""
    email: str = ""
    ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Upload:
    """A folder, an archive, or a single file, from one student or from a group.

    trouble: why nothing of it can be graded. owners: empty before `layouts.recognise`, and if it belongs to nobody.
    exercise: the id in the upload's name; empty if there is none. late: the platform marks it as late, without a time.
    found_as: its name in the folder of submissions, if a platform put the owner's name in front of `name`.
    """

    name: str
    is_folder: bool
    files: tuple[UploadedFile, ...]
    trouble: str = ""
    owners: tuple[Owner, ...] = ()
    exercise: str = ""
    submitted_at: str = ""
    late: bool = False
    found_as: str = ""

    @property
    def place(self) -> str:
        """Return its name in the folder of submissions."""
        return self.found_as or self.name


def printable(name: str) -> str:
    """Return a name as text, without bytes outside UTF-8 and without control characters for a terminal."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(one if one.isprintable() else "\ufffd" for one in text)


def uploads_in(place: Path) -> tuple[Upload, ...]:
    """Return the uploads in a folder or in an archive, without owners, sorted by name. Raises UsageError.

    Leaves out what an operating system or a tool left there: `__MACOSX`, hidden folders.
    """
    if place.is_file() and zipfile.is_zipfile(place):
        try:
            return tuple(one for one in grouped(_archived(place, trusted=True)) if not _is_hidden_folder(one))
        except UsageError as refused:
            raise UsageError(f"{place}: {refused}") from None
    if not place.is_dir():
        raise UsageError(f"submissions must lie in a folder or a zip file, got {place}")
    entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    return tuple(_upload(entry) for entry in entries if not _is_made_by_tools(entry))


def opened(upload: Upload) -> Upload:
    """Return an archive with the files that it holds; anything else as it is."""
    if upload.is_folder or upload.trouble or not upload.name.lower().endswith(".zip"):
        return upload
    try:
        files = tuple(_archived(upload.files[0].read(MOST_ARCHIVE_BYTES + 1)))
    except UsageError as refused:
        return replace(upload, is_folder=True, files=(), trouble=str(refused))
    return replace(upload, is_folder=True, files=files)


def _is_hidden_folder(upload: Upload) -> bool:
    return upload.is_folder and upload.name.startswith(".")


# -- folders ---------------------------------------------------------------------------------------------------------


def _upload(entry: os.DirEntry[str]) -> Upload:
    if entry.is_symlink():
        link = UploadedFile((entry.name,), _unreadable, "a symbolic link")
        return Upload(entry.name, False, (link,), "a submission must be a file or a folder, got a symbolic link")
    if not entry.is_dir(follow_symlinks=False):
        return Upload(entry.name, False, (_file(entry, ()),))
    try:
        return Upload(entry.name, True, tuple(_walked(entry.path)))
    except (UsageError, OSError) as refused:
        return Upload(entry.name, True, (), str(refused))


def _is_made_by_tools(entry: os.DirEntry[str]) -> bool:
    is_folder = entry.is_dir(follow_symlinks=False)
    return is_folder and (entry.name in _MADE_BY_TOOLS or entry.name.startswith("."))


def _walked(folder: str) -> Iterator[UploadedFile]:
    found = 0
    waiting: list[tuple[str, tuple[str, ...]]] = [(folder, ())]
    while waiting:
        place, path = waiting.pop()
        if len(path) > _MOST_DEPTH:
            raise UsageError(f"folders must lie at most {_MOST_DEPTH} deep, got more below {printable(path[0])}")
        entries = sorted(os.scandir(place), key=lambda one: one.name)
        inner = [one for one in entries if one.is_dir(follow_symlinks=False) and one.name not in _MADE_BY_TOOLS]
        # The last one is walked next.
        waiting += [(one.path, (*path, one.name)) for one in reversed(inner)]
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                continue
            found += 1
            if found > MOST_FILES:
                raise UsageError(f"a folder must hold at most {MOST_FILES} files, got more")
            yield _file(entry, path)


def _file(entry: os.DirEntry[str], folder: tuple[str, ...]) -> UploadedFile:
    found = entry.stat(follow_symlinks=False)
    path = Path(entry.path)
    trouble = "" if stat.S_ISREG(found.st_mode) else "no regular file"
    if stat.S_ISLNK(found.st_mode):
        trouble = "a symbolic link"
    return UploadedFile((*folder, entry.name), lambda most: _read_file(path, most), trouble)


def _read_file(path: Path, most: int) -> bytes:
    """Return the first bytes of a regular file; does not follow a link or a pipe that takes its place meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"a submission must be a regular file, got {printable(path.name)}")
            return file.read(most)
    except OSError as refused:
        raise UsageError(f"a submission must be readable, got {printable(path.name)}: {refused.strerror}") from refused


def _unreadable(_: int) -> bytes:
    raise UsageError("a submission must be a regular file, got a symbolic link")


# -- archives --------------------------------------------------------------------------------------------------------


def _archived(source: Path | bytes, *, trusted: bool = False) -> Iterator[UploadedFile]:
    """Return the files of an archive. An instructor's own may be as large as a whole class."""
    if isinstance(source, bytes) and len(source) > MOST_ARCHIVE_BYTES:
        raise UsageError(f"an archive must hold at most {MOST_ARCHIVE_BYTES} bytes, got more")
    try:
        # Open it once: reading the table of contents again for each file takes quadratic time.
        archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    except _BROKEN as broken:
        raise UsageError(f"an archive must be a readable zip file, got: {broken}") from broken
    if len(entries) > MOST_FILES and not trusted:
        raise UsageError(f"an archive must hold at most {MOST_FILES} files, got {len(entries)}")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > MOST_UNPACKED_BYTES and not trusted:
        raise UsageError(f"an archive must unpack to at most {MOST_UNPACKED_BYTES} bytes, got {unpacked}")
    for entry in entries:
        path = _path(entry)
        if not _MADE_BY_TOOLS.intersection(path):
            yield _archived_file(archive, entry, path)


def _path(entry: zipfile.ZipInfo) -> tuple[str, ...]:
    """Return the parts of an entry's path. Raises UsageError for one that leads out of the archive."""
    name = entry.filename.replace("\\", "/")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts or not parts or (len(parts[0]) == 2 and parts[0][1] == ":"):
        raise UsageError(f"a path must stay inside its archive, got {printable(entry.filename)[:200]}")
    return parts


def _archived_file(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: tuple[str, ...]) -> UploadedFile:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    trouble = "" if kind in (0, stat.S_IFREG) else "no regular file"
    if kind == stat.S_IFLNK:
        trouble = "a symbolic link"
    elif entry.compress_type not in _BOUNDED:
        trouble = "a file that is compressed by another method than deflate"

    def read(most: int) -> bytes:
        if entry.compress_type not in _BOUNDED:
            raise UsageError(f"an archive's file must be stored or deflated, got {printable(path[-1])}")
        try:
            with archive.open(entry) as file:
                return file.read(most)
        except _BROKEN as broken:
            raise UsageError(f"an archive's file must be readable, got {printable(path[-1])}: {broken}") from broken

    return UploadedFile(path, read, trouble)


def grouped(files: Iterable[UploadedFile]) -> tuple[Upload, ...]:
    """Return the files of an instructor's archive or folder, grouped: folders by name, then single files."""
    folders: dict[str, list[UploadedFile]] = {}
    single: list[Upload] = []
    for file in files:
        if len(file.path) == 1:
            single.append(Upload(file.path[0], False, (file,)))
        else:
            folders.setdefault(file.path[0], []).append(replace(file, path=file.path[1:]))
    return (*(Upload(name, True, tuple(inside)) for name, inside in sorted(folders.items())), *single)


def text_bytes(file: UploadedFile) -> bytes:
    """Return the bytes of a submission's file; one byte beyond the limit reveals a too large one. Raises UsageError."""
    if file.trouble:
        raise UsageError(f"a submission must be a regular file, got {file.trouble} ({file})")
    return file.read(MOST_BYTES + 1)


def files_of(uploads: Iterable[Upload]) -> str:
    """Return the first files of some uploads, in words."""
    return listed([str(file) for one in uploads for file in one.files], MOST_LISTED) or "nothing"
