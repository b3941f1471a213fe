"""Cache compiled kernels from one grading to the next.

Replayers compile into a scratch folder, which ends with them. Triton names its output by a hash of source and options,
so every submission with that kernel can use it. An entry belongs to one owner (in a batch, a student): no submission
leaves files for another owner. The content of a scratch folder is not trusted: only plain files of plain names are
taken, within a limit, and only those that a launch needs. A list beside an entry names the kernels that were late: the
next grading does not wait for them again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,200}")
_MOST_BYTES = 256 << 20
# An empty file counts as this much.
_LEAST_BYTES = 4096
_MOST_ENTRIES = 100
# Triton's group files name their members by absolute path.
_GROUPS = "__grp__"
_NEEDED = frozenset({".json", ".cubin", ".so"})
_HERE = b"@scratch@"
_SLOW = ".slow"


def cache_entry_for(owner: str, exercise: str, versions: Sequence[str]) -> Path:
    """Return the folder of an owner's kernels for an exercise; every version of a compiler has a folder of its own."""
    key = hashlib.sha256("\0".join((*versions, exercise, owner)).encode()).hexdigest()[:32]
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "grade" / "kernels" / key


def restore(entry: Path, cache: Path, uid: int) -> None:
    """Copy the saved kernels into a fresh cache folder that belongs to `uid` (0: to this user)."""
    if not entry.is_dir():
        return

    def put(source: str, target: str) -> None:
        content = Path(source).read_bytes()
        is_group = Path(target).name.startswith(_GROUPS)
        Path(target).write_bytes(content.replace(_HERE, os.fsencode(cache)) if is_group else content)
        if uid:
            os.chown(target, uid, uid)

    try:
        shutil.copytree(entry, cache, dirs_exist_ok=True, copy_function=put)
        for folder in [cache, *cache.iterdir()] if uid else []:
            os.chown(folder, uid, uid)
    except (OSError, shutil.Error):
        # Another grading was saving its kernels meanwhile: half a set is worse than none.
        shutil.rmtree(cache, ignore_errors=True)


def save(entry: Path, scratch_fd: int, cache: Path) -> None:
    """Save the kernels in the folder `cache` of a scratch folder, whose writers must have ended.

    scratch_fd: a descriptor of the scratch folder from its creation: its name, and the links in it, may lead anywhere
    by now. An entry that already has all the names stays as it is: a name is a hash of the compiled kernel.
    """
    unfinished = entry.with_name(f"{entry.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        if all((entry / name).exists() for name in _needed_files(scratch_fd, cache.name)):
            # Drop the entries that were unused for the longest time.
            os.utime(entry)
            return
        for place, content in _plain_files(scratch_fd, cache.name):
            target = unfinished / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_group(content, cache) if target.name.startswith(_GROUPS) else content)
        if unfinished.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
            unfinished.replace(entry)
            _drop_oldest(entry.parent)
    shutil.rmtree(unfinished, ignore_errors=True)


class SlowKernels:
    """The names of kernels that an earlier grading could not compile in time.

    entry: the cache entry beside which they are kept; None for no cache.
    """

    def __init__(self, entry: Path | None = None) -> None:
        self._path = entry.with_suffix(_SLOW) if entry else None

    def names(self) -> frozenset[str]:
        """Return the names."""
        try:
            return frozenset(self._path.read_text().split()) if self._path else frozenset()
        except (OSError, ValueError):
            return frozenset()

    def add(self, names: frozenset[str]) -> None:
        """Keep more names."""
        if self._path and names:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.write_text("\n".join(sorted(self.names() | names)))


def _plain_files(scratch_fd: int, name: str) -> Iterator[tuple[Path, bytes]]:
    """Yield the regular files two levels deep that a launch needs, the latest first, until there are too many bytes."""
    left = _MOST_BYTES
    with _folder(scratch_fd, name) as cache_fd:
        for place in _needed_files(scratch_fd, name):
            with contextlib.suppress(OSError), _folder(cache_fd, place.parent.name) as folder_fd:
                content = _read_plain(folder_fd, place.name, left) if left > 0 else None
                if content is not None:
                    left -= max(len(content), _LEAST_BYTES)
                    yield place, content


def _needed_files(scratch_fd: int, name: str) -> Iterator[Path]:
    """Yield the places of files two levels deep that a launch needs, those of the latest folder first."""
    with _folder(scratch_fd, name) as cache_fd:
        for folder in _latest_first(cache_fd):
            with contextlib.suppress(OSError), _folder(cache_fd, folder) as folder_fd:
                files = sorted(os.listdir(folder_fd))
                yield from (Path(folder, one) for one in files if Path(one).suffix in _NEEDED)


def _latest_first(folder_fd: int) -> list[str]:
    def changed(name: str) -> float:
        with contextlib.suppress(OSError):
            return os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mtime
        return 0.0

    return sorted(sorted(os.listdir(folder_fd)), key=changed, reverse=True)


def _group(content: bytes, cache: Path) -> bytes:
    """Return a group file that names only saved files, with a placeholder for their folder."""
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        members = json.loads(content).get("child_paths", {})
        needed = {str(name): str(path) for name, path in members.items() if Path(str(name)).suffix in _NEEDED}
        content = json.dumps({"child_paths": needed}).encode()
    return content.replace(os.fsencode(cache), _HERE)


@contextlib.contextmanager
def _folder(parent_fd: int, name: str) -> Iterator[int]:
    """Yield a descriptor of a plainly named folder that is no link. Raises OSError."""
    if not _PLAIN_NAME.fullmatch(name):
        raise OSError(f"a folder of compiled kernels must have a plain name, got {name!r}")
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_plain(folder_fd: int, name: str, most: int) -> bytes | None:
    """Return the content of a plainly named regular file of at most that many bytes; None for anything else."""
    if not _PLAIN_NAME.fullmatch(name):
        return None
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError:
        # A link, or another unreadable thing: not one of the compiler's files.
        return None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_size > most:
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(about.st_size)


def _drop_oldest(folder: Path) -> None:
    """Drop the oldest entries."""
    entries = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for path in entries[:-_MOST_ENTRIES]:
        shutil.rmtree(path, ignore_errors=True)
        path.with_suffix(_SLOW).unlink(missing_ok=True)
