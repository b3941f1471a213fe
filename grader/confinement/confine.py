"""Confinement, applied after the fork and before the submission's first line, layer by layer.

Each layer is tried; the record names only those that hold.
"""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from grader.confinement import landlock, namespaces, seccomp, system, users


def confine(
    scratch: str, uid: int, limits: Mapping[str, float], *, tool: str = "", hidden: Sequence[str] = ()
) -> tuple[str, ...]:
    """Confine this process, and return the names of the layers that hold.

    `uid` is a user of the submission's own, given where the grader runs as root (0: keep the user). `limits` holds
    address_space_bytes (0: unlimited), processes, file_bytes. `tool`: the program that this process becomes, to watch
    another process that it starts. It may read its own installation, and both may use a loopback of their own.
    `hidden`: folders that cannot be read, even where they lie inside one that can.
    """
    parent = os.getppid()
    os.setsid()
    os.chdir(scratch)
    os.environ.update(private_directories(scratch))
    # Forget the old folder for temporary files.
    tempfile.tempdir = None
    layers = ["process group", "private scratch"]
    if uid:
        layers.append(namespaces.leave_as_root(loopback=bool(tool)))
    _limit_resources(uid, limits)
    layers.append("rlimits")
    if uid:
        layers.append(users.become(uid, scratch))
    else:
        layers.append(namespaces.leave_as_user(loopback=bool(tool)))
    # A later change of the user or of its rights would undo this.
    system.die_with(parent)
    if system.never_gain_privileges():
        layers.append("no new privileges")
        layers += [landlock.restrict(scratch, hidden, tool), seccomp.restrict(internet=bool(tool))]
    return tuple(filter(None, layers))


def private_directories(scratch: str) -> dict[str, str]:
    """Return the environment that puts every cache and temporary file of a submission into its scratch folder."""
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
    values = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 1024,
        resource.RLIMIT_FSIZE: int(limits["file_bytes"]),
        resource.RLIMIT_NPROC: others + int(limits["processes"]),
    }
    if limits["address_space_bytes"]:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        values[resource.RLIMIT_AS] = pages * resource.getpagesize() + int(limits["address_space_bytes"])
    for kind, value in values.items():
        hard = resource.getrlimit(kind)[1]
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (ceiling, ceiling))


def _tasks_of(uid: int) -> int:
    """Return the number of threads of this user: the kernel counts them against the same limit."""
    total = 0
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if process.name.isdigit() and process.stat().st_uid == uid:
                total += int((process / "stat").read_bytes().rpartition(b")")[2].split()[17])
    return total
