"""Install a seccomp filter: system calls that no kernel exercise needs, and that lead out of its process, fail.

They fail with an error instead of ending the process, since a library may try one and go on without it.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator

from grader.confinement import system

# Linux's numbers of these calls, by machine; those from 424 on are the same everywhere.
_NUMBERS = {
    "x86_64": """
    ptrace 101  process_vm_readv 310  process_vm_writev 311  kcmp 312  perf_event_open 298  bpf 321
    userfaultfd 323  add_key 248  request_key 249  keyctl 250  syslog 103  mount 165  umount2 166  pivot_root 155
    chroot 161  setns 308  unshare 272  init_module 175  finit_module 313  delete_module 176  kexec_load 246
    kexec_file_load 320  open_by_handle_at 304  reboot 169  swapon 167  swapoff 168  acct 163  quotactl 179
    settimeofday 164  clock_settime 227  adjtimex 159  clock_adjtime 305  sethostname 170  setdomainname 171
    vhangup 153  iopl 172  ioperm 173  shmget 29  shmat 30  clone 56  socket 41  ioctl 16  prlimit64 302
    prctl 157  setpriority 141  ioprio_set 251  sched_setparam 142  sched_setscheduler 144  sched_setaffinity 203
    sched_setattr 314  migrate_pages 256  move_pages 279
    """,
    "aarch64": """
    ptrace 117  process_vm_readv 270  process_vm_writev 271  kcmp 272  perf_event_open 241  bpf 280
    userfaultfd 282  add_key 217  request_key 218  keyctl 219  syslog 116  mount 40  umount2 39  pivot_root 41
    chroot 51  setns 268  unshare 97  init_module 105  finit_module 273  delete_module 106  kexec_load 104
    kexec_file_load 294  open_by_handle_at 265  reboot 142  swapon 224  swapoff 225  acct 89  quotactl 60
    settimeofday 170  clock_settime 112  adjtimex 171  clock_adjtime 266  sethostname 161  setdomainname 162
    vhangup 58  shmget 194  shmat 196  clone 220  socket 198  ioctl 29  prlimit64 261  prctl 167  setpriority 140
    ioprio_set 30  sched_setparam 118  sched_setscheduler 119  sched_setaffinity 122  sched_setattr 274
    migrate_pages 238  move_pages 239
    """,
}
_EVERYWHERE = """
    io_uring_setup 425  io_uring_enter 426  io_uring_register 427  open_tree 428  move_mount 429  fsopen 430
    fsconfig 431  fsmount 432  fspick 433  clone3 435  pidfd_getfd 438  process_madvise 440  mount_setattr 442
"""
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Calls that a process may make only on itself: the argument that names the target, and its value 0.
_PROCESS, _IO_PROCESS = 0, 1
_TO_ITSELF = {
    "prlimit64": {0: 0},
    "setpriority": {0: _PROCESS, 1: 0},
    "ioprio_set": {0: _IO_PROCESS, 1: 0},
    **{
        name: {0: 0}
        for name in (
            "sched_setparam",
            "sched_setscheduler",
            "sched_setaffinity",
            "sched_setattr",
            "migrate_pages",
            "move_pages",
        )
    },
}
# Calls that are checked by their arguments, too.
_BY_ARGUMENT = ("clone", "socket", "ioctl", "prctl", *_TO_ITSELF)
# C libraries fall back to clone, whose flags a filter can see.
_NOT_THERE = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")

_NEW_NAMESPACES = 0x7E020000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
# These would type into another process's terminal.
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
# The subreaper is already set. A process that could change it could hide its children.
_PR_SET_CHILD_SUBREAPER = 36
_X32 = 0x40000000

# BPF: the instructions, and the offsets of struct seccomp_data.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_KILL, _ERROR, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000

Instruction = tuple[int, int, int, int]


def restrict(*, internet: bool = False) -> str:
    """Filter the system calls of this process for good. Returns the layer's name, or "" without seccomp.

    internet: sockets of the internet's families may be opened.
    """
    machine = os.uname().machine
    if machine not in _NUMBERS:
        return ""
    program = b"".join(struct.pack("<HBBI", *one) for one in _program(machine, internet=internet))
    return "seccomp" if system.filter_calls(program) else ""


def _program(machine: str, *, internet: bool) -> Iterator[Instruction]:
    numbers = _table(_NUMBERS[machine] + _EVERYWHERE)
    # Numbers are valid for one architecture only.
    yield from ((_LOAD, 0, 0, _ARCHITECTURE_AT), (_EQUAL, 1, 0, _ARCHITECTURE[machine]), (_RETURN, 0, 0, _KILL))
    yield (_LOAD, 0, 0, _NUMBER_AT)
    if machine == "x86_64":
        yield from ((_AT_LEAST, 0, 1, _X32), _fail(errno.ENOSYS))
    for name, number in numbers.items():
        if name not in _BY_ARGUMENT:
            yield from ((_EQUAL, 0, 1, number), _fail(errno.ENOSYS if name in _NOT_THERE else errno.EPERM))
    yield from _where(numbers["clone"], 0, ((_ANY_BIT, 0, 1, _NEW_NAMESPACES), _fail(errno.EPERM)))
    families = (_AF_UNIX, _AF_NETLINK, *((_AF_INET, _AF_INET6) if internet else ()))
    allowed = tuple((_EQUAL, len(families) - place, 0, family) for place, family in enumerate(families))
    yield from _where(numbers["socket"], 0, (*allowed, _fail(errno.EAFNOSUPPORT)))
    requests = ((_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), _fail(errno.EPERM))
    yield from _where(numbers["ioctl"], 1, requests)
    for name, needed in _TO_ITSELF.items():
        for argument, value in needed.items():
            yield from _where(numbers[name], argument, ((_EQUAL, 1, 0, value), _fail(errno.EPERM)), last=False)
    yield from _where(numbers["prctl"], 0, ((_EQUAL, 0, 1, _PR_SET_CHILD_SUBREAPER), _fail(errno.EPERM)))
    yield (_RETURN, 0, 0, _ALLOW)


def _table(text: str) -> dict[str, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _where(number: int, argument: int, then: tuple[Instruction, ...], *, last: bool = True) -> Iterator[Instruction]:
    """Yield a check of the low half of an argument of this system call.

    A call that falls through `then` is allowed; unless `last`, it goes on to further checks.
    """
    yield (_EQUAL, 0, len(then) + 2, number)
    yield (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)
    yield from then
    yield (_RETURN, 0, 0, _ALLOW) if last else (_LOAD, 0, 0, _NUMBER_AT)


def _fail(error: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | error)
