"""Read submissions and write outputs. Bad paths are refused before any work is done."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from grader.errors import UsageError
from grader.exercise.catalogue import Entry, find_root, resolve
from grader.files import MOST_BYTES, as_text, write_atomically


def read_submission(path: Path) -> str:
    """Return the text of a submission. Raises UsageError for an invalid one."""
    if path.is_dir():
        raise UsageError(f"a submission must be a file, got the directory {path}")
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"a submission must be a regular file, got {path}")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"a submission must exist, got {path}") from None
    except OSError as refused:
        raise UsageError(f"a submission must be readable, got {path}: {refused.strerror}") from refused
    return as_text(data, path)


def chosen_file(exercise: str, submission: str | None) -> tuple[Entry, Path, str]:
    """Return an exercise, the path of the file to judge (the learner's own if none is named) and its text.

    Raises UsageError.
    """
    entry, path = resolve(find_root(), exercise)
    if submission is not None:
        path = Path(submission)
        _refuse_link(path)
    try:
        return entry, path, read_submission(path)
    except UsageError as refused:
        if submission is None and (not path.exists() or (path.is_file() and not path.stat().st_size)):
            raise UsageError(f"{refused}; grade reset {entry.id} restores the stub") from None
        raise


def _refuse_link(path: Path) -> None:
    """Raise UsageError for a link to another folder: whoever hands it in might name the solution, or another's file."""
    if not path.is_symlink():
        return
    try:
        leads_away = path.resolve().parent != path.parent.resolve()
    except (OSError, RuntimeError):
        # A link to itself: reading it names the reason.
        return
    if leads_away:
        raise UsageError(f"a submission must not be a link to a file in another folder, got {path}: name that file")


def named_again(entry: Entry, path: Path, parts: Sequence[str] = (), seed: int | None = None) -> list[str]:
    """Return the options for a file, parts and a seed in a command; none for the learner's own file."""
    words = [] if path.resolve() == entry.stub.resolve() else ["--submission", str(path)]
    words += [word for part in parts for word in ("--part", part)]
    return [*words, "--seed", f"{seed:#x}"] if seed is not None else words


def parse_seed(text: str) -> int:
    """Return a seed from the command line: 0 … 2^64-1, decimal or 0x…. Raises UsageError."""
    try:
        seed = int(text, 0)
    except ValueError:
        raise UsageError(f"a seed must be a number such as 17 or 0x5f, got {text!r}") from None
    if not 0 <= seed < 2**64:
        raise UsageError(f"a seed must lie in 0 … 2^64-1, got {text}")
    return seed


def check_writable(path: Path) -> None:
    """Raise UsageError unless a file can be written there; changes no existing file."""
    if path.is_dir():
        raise UsageError(f"an output must be a file, got the directory {path}")
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".grade-"):
            pass
    except OSError as refused:
        raise UsageError(f"an output must be writable, got {path}: {refused.strerror}") from refused


def check_target(target: str | None) -> None:
    """Raise UsageError unless an option's target can be written; None (nothing) and "-" (stdout) always can."""
    if target not in (None, "-"):
        check_writable(Path(str(target)))


def write(path: Path, text: str) -> None:
    """Replace the file in one step: a reader sees the old text or the new, never half.

    A link is followed; a pipe or a device such as /dev/null is written to, not replaced.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
        return
    try:
        write_atomically(path, text)
    except OSError as refused:
        raise UsageError(f"an output must be writable, got {path}: {refused.strerror}") from refused


def write_or_print(target: str, text: str) -> None:
    """Write to a file, or to stdout for "-"."""
    if target == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.flush()
    else:
        write(Path(target), text)


def append(path: Path, text: str) -> None:
    """Add text at the end of a file, as a CI service wants its summary."""
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)
