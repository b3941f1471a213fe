"""Starts the grader's own helper processes: isolated interpreters that share a channel with it and nothing else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

_LAUNCHER = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[3])
importlib.import_module(sys.argv[2]).main(int(sys.argv[1]))
"""


def start(
    module: str,
    channel: socket.socket,
    environment: Mapping[str, str],
    errors: IO[bytes],
    around: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda command: command,
) -> subprocess.Popen[bytes]:
    """Run `main(descriptor of channel)` of one of our modules in a process of its own, its output going to `errors`.

    `around` makes of the command line the one that is run.
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
    """The command line that runs `main(number)` of one of our modules in an isolated interpreter."""
    return sys.executable, "-I", "-c", _LAUNCHER, str(number), module, json.dumps(_import_path())


def last_words(process: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    """The last line that a process wrote, or how it ended."""
    errors.seek(0)
    lines = errors.read()[-2000:].decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"no output, {process.poll()=}"


def _import_path() -> list[str]:
    """Our own import path for the isolated interpreter, the grader's folder first, the working directory never."""
    root = str(Path(__file__).resolve().parents[2])
    here = {"", ".", os.getcwd()}
    return [root, *(entry for entry in sys.path if entry not in here and entry != root)]
