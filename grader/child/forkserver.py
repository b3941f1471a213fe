"""The fork server: imports torch and triton once, then forks children in milliseconds.

It starts before anything secret exists, initialises no GPU, and holds no descriptor but its control channel. It is the
subreaper of its children's orphans, so that ending a child ends everything that the child started.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import threading
import time

from grader.child.killer import Killer
from grader.confinement import confine, system, users
from grader.protocol.decode import decode
from grader.protocol.frames import TRUSTED_BYTES, Closed, receive, send
from grader.protocol.requests import Reap, Spawn

_CHANNEL_FD = 3
# Set where the server runs inside a bubble (grader.sandbox.bubble).
_IN_BUBBLE = "GRADE_BUBBLE"
# The layers that hold, for a process that a tool starts.
LAYERS = "GRADE_LAYERS"


def main(control_fd: int) -> None:
    """Serve until the grader closes the control channel, then end every child."""
    system.become_subreaper()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    outer = ("bubblewrap",) if os.environ.pop(_IN_BUBBLE, "") else ()
    control = socket.socket(fileno=control_fd)
    # While this process is small.
    killer = Killer()
    # Imported objects stay: searching them for garbage takes a fifth of the time.
    gc.disable()
    _preload()
    # It imports torch, as the worker does.
    from grader.calls import cutedsl

    gc.freeze()
    gc.enable()
    children: dict[int, int] = {}
    with contextlib.suppress(Closed):
        while True:
            message, descriptors = receive(control, TRUSTED_BYTES, descriptors=2)
            if message.get("op") == "spawn":
                spawn = decode(Spawn, message)
                cutedsl.import_all(spawn.packages)
                pid = _fork(spawn, descriptors, outer)
                children[pid] = spawn.uid
                send(control, {"pid": pid})
            else:
                reap = decode(Reap, message)
                children.pop(reap.pid, None)
                send(control, {"status": _end(reap.pid, reap.uid, killer, set(children))})
    for pid, uid in children.items():
        _end(pid, uid, killer, set())


def _preload() -> None:
    """Import what every child needs. No thread is left: a fork would lose it."""
    hashing = threading.Thread(target=_hash_triton)
    hashing.start()
    # It imports torch, which takes longer than the hash.
    from grader.child import worker

    worker.preload()
    hashing.join()


def _hash_triton() -> None:
    """Compute the hash over all of Triton before the fork; interpreted kernels need none.

    It takes half a second before the first kernel of a process is compiled or found.
    """
    if os.environ.get("TRITON_INTERPRET") != "1":
        from triton.runtime.cache import triton_key

        triton_key()


def _fork(spawn: Spawn, descriptors: list[int], outer: tuple[str, ...]) -> int:
    channel_fd, log_fd = descriptors
    pid = os.fork()
    if pid:
        os.close(channel_fd)
        os.close(log_fd)
        return pid
    try:
        _become_child(spawn, channel_fd, log_fd, outer)
    except BaseException as failed:
        # The process ends after this line: the log is the only place left for the error.
        os.write(2, f"grade: the submission's process could not start: {failed!r}\n".encode())
    finally:
        os._exit(70)


def _become_child(spawn: Spawn, channel_fd: int, log_fd: int, outer: tuple[str, ...]) -> None:
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(channel_fd, _CHANNEL_FD)
    os.closerange(_CHANNEL_FD + 1, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Its orphans stay below it: sealed memory is not opened beside another process.
    system.become_subreaper()
    tool = spawn.program[0] if spawn.program else ""
    layers = outer + confine.confine(spawn.scratch, spawn.uid, spawn.limits, tool=tool, hidden=spawn.hidden)
    if tool:
        users.hand_on_reading()
        os.environ[LAYERS] = "\n".join(layers)
        os.execv(spawn.program[0], spawn.program)  # noqa: S606  the program is the grader's choice
    from grader.child import worker

    worker.serve(socket.socket(fileno=_CHANNEL_FD), spawn.scratch, layers)


def _end(pid: int, uid: int, killer: Killer, living: set[int]) -> int:
    """Kill a child and all its descendants. Returns the child's wait status, or -1 if it was gone already."""
    status = -1
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        _, status = os.waitpid(pid, 0)
    if uid:
        killer.end_all_of(uid)
    living = living | {killer.pid}
    deadline = time.monotonic() + 5
    # The child's orphans now belong to this process (subreaper), and theirs follow when they die.
    while (orphans := _children() - living) and time.monotonic() < deadline:
        for orphan in orphans:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)
    return status


def _children() -> set[int]:
    me = os.getpid()
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                # The command, in parentheses, may hold anything: read the fields behind the last parenthesis.
                if int(stat.read().rpartition(b")")[2].split()[1]) == me:
                    found.add(int(name))
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]))
