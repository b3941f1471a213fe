"""Entry point: run the command, and turn errors into one line and an exit code."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
from typing import Any

import typer

from grader.cli import commands
from grader.cli.group import Commands
from grader.cli.say import say
from grader.errors import GradeError

app = typer.Typer(
    name="grade",
    cls=Commands,
    help="Grade GPU-kernel exercises. `grade watch` grades your file after every save, `grade ex_15` grades it once, "
    "`grade list` lists the exercises, and `grade help COMMAND` explains a command.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
commands.register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the terminal cannot show must not end the command.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Imported objects stay. Searching them for garbage every 700 objects takes a fifth of the time.
    gc.set_threshold(50_000, 20, 100)
    # A signal to end raises an exception like Ctrl-C, so that every exit removes processes and scratch folders.
    signal.signal(signal.SIGTERM, _terminate)
    code = dispatch(given)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Files, processes and scratch folders are cleaned up by now, and unloading torch takes a third of a second.
    os._exit(code)


def _terminate(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def dispatch(given: list[str]) -> int:
    """Run one command; its exit code. Errors become one line on stderr."""
    try:
        code = int(app(given, prog_name="grade", standalone_mode=False) or 0)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        said, code = _explain(error)
        if said:
            say(f"grade: {said}", sys.stderr)
    return code


def _explain(error: BaseException) -> tuple[str, int]:
    """Return one line for stderr and the exit code of the error that ended a command; raise an unexpected one."""
    match error:
        case GradeError():
            return str(error), error.exit_code
        case BrokenPipeError():
            # The reader has closed the pipe: flush nothing to it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return "", 141
        case OSError():
            return f"the system must accept what grade writes, got: {error}", 2
        case KeyboardInterrupt() | EOFError():
            return "interrupted", 130
    # Typer brings its own click, so its errors are known by their methods.
    if hasattr(error, "format_message"):
        return _misused(error), int(getattr(error, "exit_code", 2))
    if type(error).__name__ == "Abort":
        return "interrupted", 130
    raise error


def _misused(error: Any) -> str:
    """Return what typer says of a wrong command line, with the command whose help lists the right words."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "grade"
    said = error.format_message()
    if type(error).__name__ == "MissingParameter" and error.param is not None:
        # Typer names the parameter alone, and a learner does not know what may stand there.
        name = error.param.opts[0]
        said = f"{command} must get {name if name.startswith('-') else name.upper()}: {error.param.help}"
    return f"{said} ({command} --help)"
