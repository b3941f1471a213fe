"""A command `grade` for scripts, whose work this process does: a grader of its own takes seconds to start.

It stands for the one that is installed: it has the working directory, the environment and the arguments of the script.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from grader.cli.main import dispatch

_COMMAND = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as grader:
    grader.connect({door!r})
    grader.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
    grader.shutdown(socket.SHUT_WR)
    code, printed, said = json.load(grader.makefile("rb"))
sys.stdout.write(printed)
sys.stderr.write(said)
sys.exit(code)
"""


@contextmanager
def command_in(folder: Path) -> Iterator[Path]:
    """Put the command `grade` into a new folder, and do its work while the context lasts."""
    # The path of a socket may be no longer than a hundred letters.
    with (
        tempfile.TemporaryDirectory(prefix="grade-door-") as place,
        socket.socket(socket.AF_UNIX) as door,
        ThreadPoolExecutor(1) as aside,
    ):
        door.bind(f"{place}/door")
        door.listen()
        command = folder / "grade"
        folder.mkdir()
        command.write_text(_COMMAND.format(python=sys.executable, door=f"{place}/door"), encoding="utf-8")
        command.chmod(0o755)
        served = aside.submit(_serve, door)
        try:
            yield command
        finally:
            # Nobody who asks is left: what waits for the next one wakes up.
            door.shutdown(socket.SHUT_RDWR)
            served.result()


def _serve(door: socket.socket) -> None:
    while True:
        try:
            asking, _ = door.accept()
        except OSError:
            return
        with asking:
            asking.sendall(json.dumps(answer(*json.load(asking.makefile("rb")))).encode())


def answer(arguments: Sequence[str], folder: str, surroundings: Mapping[str, str]) -> tuple[int, str, str]:
    """Run a command in that folder with that environment: its exit code, what it prints, and what it says on stderr."""
    with (
        contextlib.chdir(folder),
        patch.dict(os.environ, surroundings, clear=True),
        # Some documents are written as bytes.
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)) as printed,
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        try:
            code = dispatch([*arguments])
        except SystemExit as ended:
            # Completion ends a command early.
            code = int(ended.code or 0)
    return code, printed.buffer.getvalue().decode(), said.getvalue()
