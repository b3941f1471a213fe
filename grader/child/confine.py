"""Confinement, applied after the fork and before the submission's first line, layer by layer.

Each layer is tried, and named in the record only where it holds. Namespaces, Landlock and seccomp have their place at
the end of `confine`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import stat
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_SIGKILL = 9
_CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Adopt the orphans of our descendants, so that none can outlive its submission."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def confine(scratch: str, uid: int, limits: Mapping[str, float]) -> tuple[str, ...]:
    """Confine this process; returns the names of the layers that hold.

    `uid` is a user of the submission's own, given where the grader runs as root (0: keep the user). `limits` holds
    address_space_bytes (0: unlimited), processes, file_bytes.
    """
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    os.chdir(scratch)
    os.environ.update(private_directories(scratch))
    layers = ["process group", "private scratch"]
    _limit_resources(uid, limits)
    layers.append("rlimits")
    if uid:
        layers.append(_become(uid))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        layers.append("no new privileges")
    return tuple(layers)


def private_directories(scratch: str) -> dict[str, str]:
    """The environment that keeps every cache and temporary file of a submission in its own scratch folder."""
    return {
        "HOME": scratch,
        "TMPDIR": scratch,
        "XDG_CACHE_HOME": f"{scratch}/cache",
        "TRITON_HOME": scratch,
        "TRITON_CACHE_DIR": f"{scratch}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor",
        "TORCH_EXTENSIONS_DIR": f"{scratch}/extensions",
        "CUDA_CACHE_PATH": f"{scratch}/cuda",
        "USER": "submission",
        "LOGNAME": "submission",
    }


def _limit_resources(uid: int, limits: Mapping[str, float]) -> None:
    others = 0 if uid else _tasks_of(os.getuid())
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_FSIZE: int(limits["file_bytes"]),
        resource.RLIMIT_NPROC: others + int(limits["processes"]),
    }
    if limits["address_space_bytes"]:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        wanted[resource.RLIMIT_AS] = pages * resource.getpagesize() + int(limits["address_space_bytes"])
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (ceiling, ceiling))


def _tasks_of(uid: int) -> int:
    """How many threads this user has already: the kernel counts them against the same limit."""
    total = 0
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if process.name.isdigit() and process.stat().st_uid == uid:
                total += int((process / "stat").read_bytes().rpartition(b")")[2].split()[17])
    return total


def _become(uid: int) -> str:
    """Give up root for a user that owns nothing but its scratch folder; the layer's name.

    Where the interpreter lies in a folder that only root may enter, one capability stays: to read, not to write. The
    layer's name then says so.
    """
    keeps_reading = not _world_readable()
    if keeps_reading:
        _libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if keeps_reading:
        _keep_only(_CAP_DAC_READ_SEARCH)
    # A process that changed its user is not dumpable, and may then not even look at its own /proc/self/fd.
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    return "own user (reads all files)" if keeps_reading else "own user"


def _world_readable() -> bool:
    needed = {sys.prefix, sys.base_prefix, *(path for path in sys.path if path)}
    return all(_enterable(Path(path).resolve()) for path in needed if os.path.exists(path))


def _enterable(path: Path) -> bool:
    return all(place.stat().st_mode & stat.S_IXOTH for place in (path, *path.parents) if place.is_dir())


def _keep_only(capability: int) -> None:
    if not _set_capabilities(1 << capability, inheritable=0):
        raise OSError(ctypes.get_errno(), "capset")


def hand_on_reading() -> None:
    """Let the program that this process becomes read what this process may read, where that is by the capability."""
    bits = 1 << _CAP_DAC_READ_SEARCH
    if _set_capabilities(bits, inheritable=bits):
        _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH, 0, 0)


def _set_capabilities(bits: int, *, inheritable: int) -> bool:
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack("<6I", bits, bits, inheritable, 0, 0, 0)
    return bool(_libc.syscall(_SYS_CAPSET[os.uname().machine], header, data) == 0)
