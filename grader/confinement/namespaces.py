"""Give the submission a network and IPC namespace of its own, in which no other process can be reached."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from pathlib import Path

from grader.confinement import system

_NEW_IPC = 0x08000000
_NEW_USER = 0x10000000
_NEW_NETWORK = 0x40000000
_SET_INTERFACE_FLAGS = 0x8914
_UP = 1
_NAME = "own network and IPC"
# The settings of all systems, of Debian's kernels, and of Ubuntu's.
_SETTINGS = {
    "user/max_user_namespaces": "0",
    "kernel/unprivileged_userns_clone": "0",
    "kernel/apparmor_restrict_unprivileged_userns": "1",
}


def leave_as_root(*, loopback: bool = False) -> str:
    """Leave the network and the IPC of the machine, as root. Returns the layer's name, or "" if the kernel refuses.

    loopback: processes in the new network can reach each other.
    """
    if not system.unshare(_NEW_NETWORK | _NEW_IPC):
        return ""
    if loopback:
        _raise_loopback()
    return _NAME


def leave_as_user(*, loopback: bool = False) -> str:
    """Do the same without root, by a user namespace: this process keeps its user, without rights inside."""
    uid, gid = os.getuid(), os.getgid()
    if not system.unshare(_NEW_USER | _NEW_NETWORK | _NEW_IPC):
        return ""
    me = Path("/proc/self")
    (me / "setgroups").write_text("deny")
    (me / "uid_map").write_text(f"{uid} {uid} 1")
    (me / "gid_map").write_text(f"{gid} {gid} 1")
    if loopback:
        _raise_loopback()
    system.set_capabilities(0)
    return f"{_NAME}, by a user namespace"


def forbidden_by() -> str:
    """Return the kernel's setting, as NAME=VALUE, that allows user namespaces only to root; '' if there is none."""
    for name, forbidding in _SETTINGS.items():
        with contextlib.suppress(OSError):
            if Path("/proc/sys", name).read_text().strip() == forbidding:
                return f"{name.replace('/', '.')}={forbidding}"
    return ""


def _raise_loopback() -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, struct.pack("16sh14x", b"lo", _UP))
