"""Start the grader's helper processes, isolated interpreters that share only a channel; read what processes print."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from grader.exercise.catalogue import courses

# The package is imported without the folder around it. That folder may be a checkout, which would offer solutions as
# modules, and which a confined process cannot list.
_LAUNCHER = """
import importlib, importlib.util, json, sys
number, module, folder, path = sys.argv[1:]
sys.path[:] = json.loads(path)
spec = importlib.util.spec_from_file_location("grader", f"{folder}/__init__.py", submodule_search_locations=[folder])
sys.modules["grader"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["grader"])
importlib.import_module(module).main(int(number))
"""


def start(
    module: str,
    channel: socket.socket,
    environment: Mapping[str, str],
    errors: IO[bytes],
    around: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda command: command,
) -> subprocess.Popen[bytes]:
    """Run `main(descriptor of channel)` of a grader module in a process of its own, with its output in `errors`.

    around: returns the command line to run for the plain one.
    """
    descriptor = channel.fileno()
    return subprocess.Popen(
        around(command(module, descriptor)),
        pass_fds=[descriptor],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=errors,
        stderr=errors,
        start_new_session=True,
    )


def command(module: str, number: int) -> tuple[str, ...]:
    """Return the command line that runs `main(number)` of a grader module in an isolated interpreter."""
    package = str(Path(__file__).resolve().parents[1])
    return sys.executable, "-I", "-c", _LAUNCHER, str(number), module, package, json.dumps(_import_path())


def last_words(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    """Return the last line that a process wrote, else how it ended."""
    if errors.closed:
        return "it was closed"
    errors.seek(0)
    lines = errors.read()[-2000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"no output, {process.poll()=}"


def drain(log_fd: int, take: Callable[[bytes], None]) -> threading.Thread:
    """Give a pipe's content to `take`, on a thread of its own, until every writer is gone. Closes `log_fd`."""

    def read() -> None:
        with contextlib.suppress(OSError), os.fdopen(log_fd, "rb", buffering=0) as log:
            # The kernel may refuse a larger pipe. A small one works too.
            with contextlib.suppress(OSError):
                fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, 1 << 20)
            while piece := log.read(1 << 20):
                take(piece)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _import_path() -> list[str]:
    """Return this process's import path without the working directory and without entries that show a course.

    Relative entries are left out too: one stands for the working directory, and an editable installation adds another.
    """
    here, roots = Path.cwd(), courses()
    entries = ((entry, Path(entry)) for entry in sys.path)
    return [
        entry for entry, path in entries if path.is_absolute() and path != here and not _shows(path.resolve(), roots)
    ]


def _shows(place: Path, roots: Sequence[Path]) -> bool:
    return any(root.is_relative_to(place) for root in roots)
