"""Make the few system calls that Python does not offer."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Adopt the orphans of this process's descendants, so that none can outlive its submission."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """End this process when its parent ends, or at once if it already has."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def never_gain_privileges() -> bool:
    """Let no program started from here have more rights than this process. Returns whether it holds."""
    return bool(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)


def stay_dumpable() -> None:
    """Make this process dumpable again after a change of the user: else it may not read its own /proc/self/fd."""
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def keep_capabilities() -> None:
    """Let capabilities survive a change of the user."""
    _libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)


def set_capabilities(bits: int, *, inheritable: int = 0) -> bool:
    """Have these capabilities and no others. Returns whether it holds."""
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack("<6I", bits, bits, inheritable, 0, 0, 0)
    return syscall(_SYS_CAPSET[os.uname().machine], header, data) == 0


def raise_ambient(capability: int) -> None:
    """Pass a capability on to the program that this process becomes."""
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0)


def unshare(flags: int) -> bool:
    """Leave the parent's namespaces of these kinds. Returns whether it holds."""
    return bool(_libc.unshare(flags) == 0)


def filter_calls(program: bytes) -> bool:
    """Let this seccomp filter, in BPF, decide on every system call from now on. Returns whether it holds."""
    held = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, 8 bytes each, and their address.
    described = struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(held))
    return bool(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, described, 0, 0) == 0)


def syscall(number: int, *arguments: object) -> int:
    """Make a system call by its number; -1 if the kernel refuses."""
    return int(_libc.syscall(ctypes.c_long(number), *arguments))
