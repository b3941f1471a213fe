"""`grade export`: from records to the files that platforms read, and from an exercise to a platform's archive."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import grader
from grader.batch.gradebook import Gradebook
from grader.batch.reading import read, read_batch, read_record, records
from grader.batch.store import StoredRecord
from grader.cli.files import append, check_target, check_writable, write, write_or_print
from grader.cli.shares import in_shares
from grader.errors import UsageError
from grader.exercise.catalogue import find_root, resolve
from grader.export.formats import CheckPoints, ClassFiles, ExportOptions, Format, HandedOut, formats
from grader.export.table import points_of
from grader.phrases import counted
from grader.record.record import Record
from grader.release import bundle
from grader.report.audience import for_student


def export(source: str, options: ExportOptions) -> int:
    """Write the files, or print the one document. Return the exit code."""
    chosen = formats().get(options.format)
    if chosen is None:
        raise UsageError(f"--format must be one of {', '.join(formats())}, got {options.format!r}")
    if options.audience not in ("student", "instructor"):
        raise UsageError(f"--audience must be student or instructor, got {options.audience!r}")
    if options.parts_left_out_too and not options.of_judged:
        raise UsageError("--parts-left-out-too must come with --of-judged, got it alone")
    path = Path(source)
    if chosen.archive is not None:
        return _archive(source, chosen.archive, Path(options.out or chosen.archive_name))
    if not path.exists():
        raise UsageError(f"an OUT_DIR or a record must exist, got {path}")
    if path.is_dir():
        return _class(path, chosen, options)
    return _one(read_record(path), chosen, options)


# -- one record ------------------------------------------------------------------------------------------------------


def _one(record: Record, chosen: Format, options: ExportOptions) -> int:
    if chosen.files is not None:
        _give_files(chosen, chosen.files(_shown(record, options), os.environ), options)
        return 0
    render = chosen.renderer(options)
    if render is None:
        raise UsageError(f"{chosen.name} takes a class, an OUT_DIR of grade batch, got one record")
    _give(options, render(record if chosen.marks_only else _shown(record, options)))
    return 0


def _give(options: ExportOptions, text: str) -> None:
    check_target(options.out)
    write_or_print(options.out or "-", text)


def _give_files(chosen: Format, files: Mapping[str, str], options: ExportOptions) -> None:
    """Write the files; without --out, print and append those that the format names for that."""
    if options.out is not None or not chosen.printed:
        _write_all(Path(options.out or "."), files)
        return
    write_or_print("-", files[chosen.printed])
    for variable, name in chosen.appended.items():
        if target := os.environ.get(variable):
            append(Path(target), files[name])


# -- a class ---------------------------------------------------------------------------------------------------------


def _class(out_dir: Path, chosen: Format, options: ExportOptions) -> int:
    target = Path(options.out) if options.out else out_dir / "export" / chosen.name
    if chosen.class_files is not None:
        return _class_files(out_dir, target, chosen.class_files, options)
    render = chosen.renderer(options)
    if render is None:
        raise UsageError(f"{chosen.name} takes one record, of the run that it is in, got the OUT_DIR {out_dir}")
    check_writable(target / "x")

    def write_share(share: int, of: int) -> tuple[int, list[tuple[str, str]]]:
        written, problems = 0, []
        for found in records(out_dir, share, of):
            if found.record is None:
                problems.append((found.path, found.problem))
            else:
                file = target / found.student / f"{found.exercise}{chosen.suffix}"
                _replace(file, render(_shown(found.record, options)))
                written += 1
        return written, problems

    batch = read_batch(out_dir)
    shares = in_shares(write_share, len(batch.students))
    _tell([(path, words) for _, problems in shares for path, words in problems])
    _say(f"{counted(sum(written for written, _ in shares), 'file')}: {target}")
    if batch.policy.percent_per_day:
        _say("lateness costs nothing in these files; csv and canvas take it off")
    return 0


def _replace(file: Path, text: str) -> None:
    """Write a file unless it already holds that text: replacing thousands of files takes minutes."""
    try:
        if file.read_bytes() == text.encode("utf-8", "replace"):
            return
    except OSError:
        file.parent.mkdir(parents=True, exist_ok=True)
    write(file, text)


def _class_files(
    out_dir: Path,
    target: Path,
    prepare: Callable[[ExportOptions, Sequence[str]], Callable[[Gradebook, CheckPoints], ClassFiles]],
    options: ExportOptions,
) -> int:
    make = prepare(options, [one.id for one in read_batch(out_dir).assignments])
    checks: dict[tuple[str, str], dict[str, float]] = {}
    problems: list[tuple[str, str]] = []

    def visit(found: StoredRecord) -> None:
        if found.record is None:
            problems.append((found.path, found.problem))
        else:
            checks[found.student, found.exercise] = points_of(found.record)

    book = read(out_dir, visit)
    _tell(problems)
    made = make(book, checks)
    for line in made.left_out:
        _say(f"left out, {line}")
    if not made.files:
        advice = f"; {made.advice}" if made.advice else ""
        raise UsageError(f"there must be a score to export, got none{advice}")
    if made.single:
        _give(options, next(iter(made.files.values())))
    else:
        _write_all(target, made.files)
    return 0


def _tell(problems: list[tuple[str, str]]) -> None:
    """Name the first records that cannot be read, and count the others."""
    for path, words in problems[:5]:
        _say(f"not read, {path}: {words}")
    if len(problems) > 5:
        _say(f"not read, {counted(len(problems) - 5, 'more record')}")


# -- an exercise -----------------------------------------------------------------------------------------------------


def _archive(source: str, make: Callable[[HandedOut], Mapping[str, bytes]], target: Path) -> int:
    """Write the archive of one exercise. The same course gives the same bytes."""
    entry, _ = resolve(find_root(), source)
    check_writable(target)
    installs = dict.fromkeys(package.command for part in entry.exercise.parts for package in part.needs)
    held = bundle.files((entry,), Path(grader.__file__).resolve().parent, grader.__version__)
    target.write_bytes(_zipped(make(HandedOut(entry.name, held, tuple(installs)))))
    _say(str(target))
    return 0


def _zipped(files: Mapping[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            # The upper half holds Unix's mode of a regular file.
            member.external_attr = (0o100755 if data.startswith(b"#!") else 0o100644) << 16
            archive.writestr(member, data)
    return stream.getvalue()


# -- both ------------------------------------------------------------------------------------------------------------


def _shown(record: Record, options: ExportOptions) -> Record:
    """Return the record without what the files' readers must not see."""
    if options.audience == "instructor":
        return record
    return for_student(record, secret=is_secret(record), file=_below_here(record.submission.path))


def _below_here(path: str) -> str:
    """Return a path relative to the working directory, or '' for a path outside it."""
    try:
        inside = os.path.relpath(path)
    except ValueError:
        return ""
    return "" if inside.startswith("..") else inside


def is_secret(record: Record) -> bool:
    """Return whether a record's plan is secret. A plan from the default seed is not: everybody can compute it."""
    from grader.exercise.plan import default_seed

    return record.seed != f"{default_seed(record.exercise.id):#x}"


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    for name in files:
        check_writable(folder / name)
    for name, text in files.items():
        write(folder / name, text)
        _say(str(folder / name))


def _say(text: str) -> None:
    print(text, file=sys.stderr)
