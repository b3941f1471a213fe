"""Measure the memory, disk space and waiting time of one submission's processes, from /proc. Changes nothing.

Takes process ids, a user id, or the descriptor of a folder. Gives bytes, seconds or counts; a process that has ended,
or that may not be read, counts as nothing. Starts and ends no process, and judges no limit.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BLOCK_BYTES = 512
_TICKS = os.sysconf("SC_CLK_TCK")
# The most descriptors of one process to look at.
_MOST_DESCRIPTORS = 4096


def resident_bytes(pid: int) -> int:
    """Return the bytes of a process's pages in memory, shared ones included; 0 if it has ended."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(_read(f"/proc/{pid}/statm").split()[1]) * _PAGE_BYTES
    return 0


def waited_s(pid: int) -> float:
    """Return the seconds that a process's first thread waited for a core.

    0 if it has ended, or if the kernel does not count them.
    """
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(_read(f"/proc/{pid}/schedstat").split()[1]) / 1e9
    return 0.0


def others_s(pid: int, family: Iterable[int]) -> float:
    """Return the CPU seconds that a family of processes has used, without those of the first thread of `pid`.

    Children that have ended count if their parents waited for them.
    """
    used = 0.0
    for one in family:
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{one}/stat").read_bytes().rpartition(b")")[2].split()
            used += sum(map(int, fields[11:15])) / _TICKS
    with contextlib.suppress(OSError, IndexError, ValueError):
        used -= int(_read(f"/proc/{pid}/schedstat").split()[0]) / 1e9
    return used


def _read(path: str) -> bytes:
    """Return the content of a short file of /proc. Every wait for an answer reads several, so it must be cheap."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 512)
    finally:
        os.close(descriptor)


def family(pid: int, uid: int) -> list[int]:
    """Return the ids of the processes in the Unix session that `pid` leads, and of those of the user `uid`.

    uid 0: only the session.
    """
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                session = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[3])
                if session == pid or (uid and os.stat(f"/proc/{name}").st_uid == uid):
                    found.append(int(name))
    return found


def memory_bytes(pids: Sequence[int], allowed: int = 0) -> int:
    """Return the bytes of memory of these processes: their own pages, shared memory, and memory files (memfd).

    Shared memory counts once. A memory file counts even if no process maps it. Pages of ordinary files, such as
    libraries, do not count. allowed: where an upper bound is no more than that, return the bound: to tell pages apart,
    the kernel looks at each of them.
    """
    own = mapped = 0
    in_memory: dict[tuple[int, int], int] = {}
    for pid in pids:
        in_memory |= {key: size for key, size, target in _nameless_files(pid) if target.startswith("/memfd:")}
    bound = sum(map(resident_bytes, pids)) + sum(in_memory.values())
    if bound <= allowed:
        return bound
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
            sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
            own += sizes.get("Pss_Anon", 0)
            mapped += sizes.get("Pss_Shmem", 0)
    return own + max(mapped, sum(in_memory.values()))


def deleted_bytes(pids: Iterable[int]) -> int:
    """Return the bytes of deleted files that processes still hold open, each file once.

    Files of any file system with a name count, also those in /dev/shm. Memory files (memfd) do not.
    """
    files = (file for pid in pids for file in _nameless_files(pid))
    found = {key: size for key, size, name in files if name.startswith("/") and not name.startswith("/memfd:")}
    return sum(found.values())


def _nameless_files(pid: int) -> Iterator[tuple[tuple[int, int], int, str]]:
    """Yield (file, bytes, old name) of every regular file without a name that a process has open.

    file: the device and the inode number. Only the first 4,096 descriptors are looked at.
    """
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder)[:_MOST_DESCRIPTORS]:
            with contextlib.suppress(OSError):
                about = os.stat(f"{folder}/{name}")
                if stat.S_ISREG(about.st_mode) and about.st_nlink == 0:
                    target = os.readlink(f"{folder}/{name}")
                    yield (about.st_dev, about.st_ino), about.st_blocks * _BLOCK_BYTES, target


def folder_usage(descriptor: int, most_bytes: int, most_entries: int) -> tuple[int, int]:
    """Return (bytes, entries) of a folder and all folders in it; a file with several names counts once.

    bytes: as allocated on disk, in whole blocks. Counting ends once one of the two exceeds its limit. Follows
    no symbolic link. Skips what it cannot read, and the content of further folders while 128 folders wait.
    """
    used = entries = 0
    seen: set[int] = set()
    waiting = [os.dup(descriptor)]
    try:
        while waiting:
            place = waiting.pop()
            try:
                with os.scandir(place) as found:
                    for entry in found:
                        entries += 1
                        with contextlib.suppress(OSError):
                            about = entry.stat(follow_symlinks=False)
                            if about.st_ino not in seen:
                                used += about.st_blocks * _BLOCK_BYTES
                            if about.st_nlink > 1:
                                seen.add(about.st_ino)
                            if stat.S_ISDIR(about.st_mode) and len(waiting) < _MOST_WAITING:
                                waiting.append(os.open(entry.name, _AS_FOLDER, dir_fd=place))
                        if used > most_bytes or entries > most_entries:
                            return used, entries
            except OSError:
                continue
            finally:
                os.close(place)
        return used, entries
    finally:
        for place in waiting:
            os.close(place)


_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_WAITING = 128
