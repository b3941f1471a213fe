"""Apply Landlock: an allow-list of readable files; only the scratch folder is writable.

Everything else is hidden without being named: oracle, solution, other submissions, the user's home. Rights by version
of the kernel's interface (man 7 landlock): 1 in Linux 5.13, 2 in 5.19, 3 in 6.2, 4 in 6.7, 5 in 6.10, 6 in 6.12.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.confinement import system

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
# Removing and making entries of every kind, bits 4 to 12.
_CHANGE_DIR = 0x1FF0
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
# The rights on files that each version added.
_SINCE = {1: _READ | _WRITE_FILE | _CHANGE_DIR, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2

# Every computing program needs these: libraries, tools, and the kernel's facts about the machine.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/proc", "/sys", "/run/nvidia-persistenced")
# The settings that locate libraries and name users; no secrets.
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "nsswitch.conf", "localtime", "os-release")
_ENVIRONMENT = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")
# NVIDIA's packages put the targets of the toolkit's commands here.
_TOOLS = Path("/opt/nvidia")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_GPU_DEVICES = ("nvidia*", "dxg")
# The C library writes a thread's name here. CUDA names a thread at its start, and fails if it cannot. The number of the
# process that a tool starts is not known yet: all processes of its user are allowed, as far as the kernel allows them.
_OWN_THREADS, _ALL_PROCESSES = Path("/proc/self/task"), Path("/proc")


def restrict(scratch: str, hidden: Sequence[str] = (), tool: str = "") -> str:
    """Restrict this process for good; return the layer's name, empty where the kernel has no Landlock.

    hidden: folders that stay unreadable inside the system's and Python's own. tool: a program whose installation stays
    readable; it and the process that it starts may use TCP and write in /proc.
    """
    version = system.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    if version < 1:
        return ""
    handled = 0
    for since, rights in _SINCE.items():
        handled |= rights if version >= since else 0
    ruleset = _ruleset(version, handled, tcp=bool(tool))
    if ruleset < 0:
        return ""
    try:
        folders = (_TOOLS, _installed(tool)) if tool else ()
        unreadable = [os.path.realpath(folder) for folder in hidden]
        for path in dict.fromkeys(_readable(unreadable, folders)):
            _allow(ruleset, path, _READ & handled)
        for path in _listed(unreadable):
            _allow(ruleset, path, _READ_DIR & handled)
        for device in _devices():
            _allow(ruleset, device, (_READ_FILE | _WRITE_FILE | _IOCTL_DEVICE) & handled)
        _allow(ruleset, _ALL_PROCESSES if tool else _OWN_THREADS, (_READ | _WRITE_FILE | _TRUNCATE) & handled)
        _allow(ruleset, Path(scratch), handled)
        if system.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
            return ""
    finally:
        os.close(ruleset)
    return f"Landlock {version}"


def refusal() -> int:
    """Return the error (errno) with which the kernel refuses Landlock to this process; 0 if it offers it."""
    if system.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION) >= 1:
        return 0
    return ctypes.get_errno()


def _ruleset(version: int, handled: int, *, tcp: bool) -> int:
    attributes = struct.pack("<Q", handled)
    if version >= 4:
        attributes += struct.pack("<Q", 0 if tcp else _BIND_TCP | _CONNECT_TCP)
    if version >= 6:
        attributes += struct.pack("<Q", _ABSTRACT_SOCKETS | _SIGNALS)
    return system.syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def _allow(ruleset: int, path: str | Path, rights: int) -> None:
    with contextlib.suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = rights if stat.S_ISDIR(os.fstat(place).st_mode) else rights & _ON_FILES
            system.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("<Qi", allowed, place), 0)
        finally:
            os.close(place)


def _installed(tool: str) -> Path:
    """Return the folder of a program and of its libraries; never the root."""
    program = Path(tool).resolve()
    folder = program.parent
    places = (folder.parent, folder) if folder.name == "bin" else (folder,)
    return next((place for place in places if place != place.parent), program)


def _readable(hidden: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
    """Yield the folders of the interpreter, its libraries and imports, and `folders`; none of the hidden ones.

    Paths are text, which is fast: a course inside site-packages splits it into hundreds of pieces, at each process's
    start.
    """
    yield from _around(str(Path(__file__).resolve().parents[1]), hidden)
    yield from (f"/etc/{name}" for name in _SETTINGS)
    named = [entry for name in _ENVIRONMENT for entry in os.environ.get(name, "").split(os.pathsep)]
    for entry in filter(None, (*_SYSTEM, sys.prefix, sys.base_prefix, *sys.path, *named, *map(str, folders))):
        yield from _around(os.path.realpath(entry), hidden)


def _around(folder: str, hidden: Sequence[str]) -> Iterator[str]:
    """Yield a folder, or the largest pieces of it that hold no hidden folder."""
    if folder in hidden:
        return
    if not _holds(folder, hidden):
        yield folder
        return
    with contextlib.suppress(OSError), os.scandir(folder) as pieces:
        for piece in pieces:
            # A link may lead back into a hidden folder; its target has a path of its own.
            if not piece.is_symlink():
                yield from _around(piece.path, hidden)


def _listed(hidden: Sequence[str]) -> Iterator[str]:
    """Yield the folders of imports that hold a hidden folder: an import lists them, and reads a piece."""
    yield from (folder for folder in {os.path.realpath(entry) for entry in sys.path} if _holds(folder, hidden))


def _holds(folder: str, hidden: Sequence[str]) -> bool:
    return any(one.startswith(f"{folder.rstrip('/')}/") for one in hidden)


def _devices() -> Iterator[Path]:
    folder = Path("/dev")
    yield from (folder / name for name in _DEVICES)
    for pattern in _GPU_DEVICES:
        yield from folder.glob(pattern)
