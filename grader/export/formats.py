"""The export formats, found in the modules of this folder.

A module that declares `FORMAT = Format(…)` is a format; no other file lists it. This module imports the others and
writes nothing.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType

from grader import export
from grader.batch.gradebook import Gradebook
from grader.record.record import Record

# By student and exercise: the points of every judged check, by the check's id.
CheckPoints = Mapping[tuple[str, str], Mapping[str, float]]
Render = Callable[[Record], str]


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The options of `grade export`, without its source."""

    format: str
    out: str | None = None
    into: str | None = None
    columns: tuple[str, ...] = ()
    of_judged: bool = False
    parts_left_out_too: bool = False
    scale: bool = False
    strict: bool = False
    metadata: str | None = None
    audience: str = "student"


@dataclass(frozen=True)
class ClassFiles:
    """The files of a class: texts by name, and lines about marks that are left out.

    single: there is one file; it goes to --out or to stdout. advice: which options leave out fewer marks.
    """

    files: Mapping[str, str]
    left_out: tuple[str, ...] = ()
    single: bool = False
    advice: str = ""


@dataclass(frozen=True)
class HandedOut:
    """An exercise as a platform gets it: everything that grades it, and no solution.

    name: of its file, without .py. files: the student bundle, by path. installs: commands for packages of its own.
    """

    name: str
    files: Mapping[str, bytes]
    installs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """An export format: a name and the functions that make its files. A format leaves out what it does not support.

    render: the document of one record. Of a class, each record gets a file whose name ends with `suffix`.
    with_options: replaces `render` where options change it; called once, before any record is read.
    files: the files of one record by name, from the record and the environment variables.
    printed: the file among `files` that goes to stdout without --out.
    appended: for environment variables that name a file, the file among `files` that is appended to it without --out.
    class_files: called with the options and the exercises' ids before any record is read; returns the function that
    makes a class' files from its gradebook.
    archive: the files of a zip archive called `archive_name`, from an exercise; scripts (#!) in it can be run.
    marks_only: the files hold marks only, so no record needs to be redacted for students.
    """

    name: str
    help: str
    suffix: str = ""
    render: Render | None = None
    with_options: Callable[[ExportOptions], Render] | None = None
    files: Callable[[Record, Mapping[str, str]], Mapping[str, str]] | None = None
    printed: str = ""
    appended: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    class_files: Callable[[ExportOptions, Sequence[str]], Callable[[Gradebook, CheckPoints], ClassFiles]] | None = None
    archive_name: str = ""
    archive: Callable[[HandedOut], Mapping[str, bytes]] | None = None
    marks_only: bool = False

    def renderer(self, options: ExportOptions) -> Render | None:
        """Return the function that renders one record under these options. Raises UsageError."""
        return self.with_options(options) if self.with_options is not None else self.render


@cache
def formats() -> Mapping[str, Format]:
    """Return all formats by name, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(export.__path__))
    modules = [importlib.import_module(f"{export.__name__}.{name}") for name in names]
    found = [module.FORMAT for module in modules if hasattr(module, "FORMAT")]
    return MappingProxyType({one.name: one for one in sorted(found, key=lambda one: one.name)})
