"""Find courses, and their exercises by a sorted scan of `reference/`. No other module knows the files of an exercise.

A course is a folder that holds exercises/. Its reference/ lies beside them; without one it is the grader's own.

exercises/<name>.py            the learner's file
reference/<name>/spec.py       EXERCISE = Exercise(...)
reference/<name>/inputs.py     builds the inputs of a case
reference/<name>/oracle.py     the truth, and honest same-precision computations
reference/<name>/mistakes.py   known mistakes, which cards name (optional)
reference/<name>/measured.json  values that the oracle looks up instead of computing them (optional)
reference/<name>/interview.py  QUESTIONS = (Question(...), ...), and answers (optional)
reference/<name>/stub.py       the untouched stub
reference/<name>/solution.py, honest/*.py
reference/<name>/fast/*.py      record kernels, each with a page of reasons (optional)
reference/<name>/commentary.py  COMMENTARY = {part: sentences on its solution} (optional)
reference/<name>/wrong/         planted mistakes, as grader/exercise/planted.py reads them
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import hashlib
import importlib.util
import os
import re
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from grader.errors import SpecError, UsageError, require
from grader.exercise.interview import Question
from grader.exercise.model import Exercise, Part, check_id
from grader.exercise.planted import PlantedMistake, bases, planted
from grader.protocol.requests import Start
from grader.syntax import tree_of

_NAME = re.compile(r"(?P<id>ex_(?P<number>\d+))_\w+")
_PACKAGE = Path(__file__).resolve().parents[1]
# A checkout's root where the grader runs from one; site-packages where it is installed.
_AROUND_THE_PACKAGE = _PACKAGE.parent
# A wheel carries reference/ in here; in a checkout the folder is as good as empty.
_IN_THE_PACKAGE = _PACKAGE / "course"


@dataclass(frozen=True)
class Entry:
    """The place of one exercise.

    name: of its folder and its stub ("ex_15_triton_basics"). id: the short form ("ex_15").
    """

    root: Path
    name: str

    @property
    def id(self) -> str:
        """Return the short name that commands take."""
        match = _NAME.fullmatch(self.name)
        return match["id"] if match else self.name

    @property
    def number(self) -> str:
        """Return the bare number, which commands take as well."""
        return self.id.removeprefix("ex_")

    @property
    def folder(self) -> Path:
        """Return the reference folder."""
        return _reference_of(self.root) / self.name

    @property
    def stub(self) -> Path:
        """Return the file that the learner edits."""
        return self.root / "exercises" / f"{self.name}.py"

    @property
    def pristine_stub(self) -> Path:
        """Return the stub as it was handed out."""
        return self.folder / "stub.py"

    @property
    def solution(self) -> Path:
        """Return the model solution."""
        return self.folder / "solution.py"

    @property
    def wrong(self) -> tuple[PlantedMistake, ...]:
        """Return the planted mistakes, sorted by name. Raises SpecError where a patch does not fit its base."""
        return tuple(planted(self.folder / "wrong"))

    def mistake(self, name: str) -> PlantedMistake:
        """Return the planted mistake of this name. Raises SpecError where there is none."""
        found = {one.name: one for one in self.wrong}
        if name not in found:
            raise SpecError(f"{self.name} must have the planted mistake that is asked for, got {name!r}")
        return found[name]

    @property
    def bases(self) -> tuple[Path, ...]:
        """Return the correct files that the patches of planted mistakes start from."""
        return bases(self.folder / "wrong")

    @property
    def honest(self) -> tuple[Path, ...]:
        """Return correct solutions of another kind."""
        return tuple(sorted((self.folder / "honest").glob("*.py")))

    @property
    def fast(self) -> tuple[Path, ...]:
        """Return the files of record kernels: correct, and as fast as we know how."""
        return tuple(sorted((self.folder / "fast").glob("*.py")))

    def named_parts(self, names: Collection[str]) -> list[Part]:
        """Return the parts with these names, or all parts if no name is given. Raises UsageError."""
        known = [part.name for part in self.exercise.parts]
        for name in names:
            if name not in known:
                raise UsageError(f"a part must be one of {', '.join(known)}, got {name!r}{meant(name, known)}")
        return [part for part in self.exercise.parts if not names or part.name in names]

    def parts_in(self, path: Path) -> frozenset[str]:
        """Return the parts of the exercise that a file defines."""
        tree = tree_of(path.read_text(encoding="utf-8"))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        return frozenset(part.name for part in self.exercise.parts if part.name in defined)

    @cached_property
    def exercise(self) -> Exercise:
        """Return the specification, read and checked. Raises SpecError."""
        exercise = self._defined("spec.py", "EXERCISE")
        if not isinstance(exercise, Exercise):
            raise SpecError(f"{self.name}/spec.py must define EXERCISE = Exercise(...), got {exercise!r}")
        return exercise

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Return the questions that the exercise prepares for; none where it has no interview.py. Raises SpecError."""
        if not (self.folder / "interview.py").is_file():
            return ()
        found = self._defined("interview.py", "QUESTIONS")
        if not isinstance(found, tuple) or not all(isinstance(one, Question) for one in found):
            raise SpecError(f"{self.name}/interview.py must define QUESTIONS = (Question(...), ...), got {found!r}")
        known = {check_id(part, check) for part, check in self.exercise.checks()}
        for one in (figures for question in found for figures in question.figures if not figures.exercise):
            require(one.check_id in known, f"{self.name}/interview.py: Figures.check", "name a check", one.check)
        return found

    @property
    def commentary(self) -> dict[str, str]:
        """Return the author's sentences on the model solution, by part; none without the file. Raises SpecError."""
        if not (self.folder / "commentary.py").is_file():
            return {}
        found = self._defined("commentary.py", "COMMENTARY")
        known = {part.name for part in self.exercise.parts}
        if not isinstance(found, dict) or not all(part in known and isinstance(found[part], str) for part in found):
            raise SpecError(f"{self.name}/commentary.py must define COMMENTARY = {{part: sentences}}, got {found!r}")
        return found

    def _defined(self, file: str, name: str) -> object:
        """Return what one of the folder's files defines under this name; None if nothing. Raises SpecError."""
        path = self.folder / file
        module_spec = importlib.util.spec_from_file_location(f"grade_{path.stem}_{self.name}", path)
        if module_spec is None or module_spec.loader is None or not path.is_file():
            raise SpecError(f"an exercise's folder must hold {file}, got none at {path}")
        module = importlib.util.module_from_spec(module_spec)
        try:
            module_spec.loader.exec_module(module)
        except SpecError as broken:
            raise SpecError(f"{self.name}/{file}{_line(broken, path)}: {broken}") from broken
        except Exception as broken:
            # An author's file may fail in any way; the message must name the file.
            raise SpecError(f"{self.name}/{file}{_line(broken, path)}: {type(broken).__name__}: {broken}") from broken
        return getattr(module, name, None)

    def source(self, file: str) -> str:
        """Return the text of one of the folder's files. Raises SpecError if it is missing."""
        path = self.folder / file
        if not path.is_file():
            raise SpecError(f"an exercise's folder must hold {file}, got none at {path}")
        return path.read_text(encoding="utf-8")

    @property
    def measured(self) -> str:
        """Return the text of measured.json, which the oracle looks up; '' if there is none."""
        return self._text_if_any("measured.json")

    @property
    def mistakes(self) -> str:
        """Return the text of mistakes.py, by which cards name known mistakes; '' if there is none."""
        return self._text_if_any("mistakes.py")

    def _text_if_any(self, file: str) -> str:
        path = self.folder / file
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def sha256(self) -> str:
        """Return a hash over the files that decide a grade: spec, inputs, oracle, baselines, and measured values."""
        digest = hashlib.sha256()
        for file in ("spec.py", "inputs.py", "oracle.py", "baselines.py"):
            # An exercise without a speed check needs no baselines.
            if file != "baselines.py" or (self.folder / file).is_file():
                digest.update(file.encode() + b"\0" + self.source(file).encode() + b"\0")
        digest.update(self.measured.encode())
        return digest.hexdigest()

    def start(self, submission: str) -> Start:
        """Return the first message to a process that is to run this text as a submission."""
        functions = tuple(part.name for part in self.exercise.parts)
        inputs, packages = self.source("inputs.py"), self.exercise.packages
        return Start(f"{self.name}.py", submission, inputs, functions, packages=packages)


def find_root(start: Path | None = None) -> Path:
    """Return the root of the course that a command is about. Raises UsageError.

    It is $GRADE_ROOT, or else `start` (the working directory) or a parent of it, or else the checkout that this package
    lies in.
    """
    if named := os.environ.get("GRADE_ROOT"):
        if _is_root(Path(named)):
            return Path(named)
        raise UsageError(f"$GRADE_ROOT must name the folder of a course, which holds exercises/, got {named}")
    here = (start or Path.cwd()).resolve()
    found = course_around(here)
    if found is None and _is_root(_AROUND_THE_PACKAGE):
        found = _AROUND_THE_PACKAGE
    if found is None:
        raise UsageError(f"a course must be in this folder or above it, got none from {here}: run grade init first")
    return found


def course_around(folder: Path) -> Path | None:
    """Return the root of the course that a folder lies in, the folder itself included; None outside all courses."""
    return next((one for one in (folder, *folder.parents) if _is_root(one)), None)


def handed_out() -> tuple[Entry, ...]:
    """Return the exercises that the grader brings along."""
    return discover(_brought_along())


def hidden_folders() -> tuple[Path, ...]:
    """Return the folders that a submission must not read: courses(), and the course inside an installed package.

    Raises nothing.
    """
    return (*courses(), *([_IN_THE_PACKAGE] if _has_reference(_IN_THE_PACKAGE) else []))


def courses() -> tuple[Path, ...]:
    """Return the root of the course that commands are about, and the grader's own checkout. Raises nothing.

    A package that was installed into site-packages has no checkout around it.
    """
    roots = [_AROUND_THE_PACKAGE] if _is_root(_AROUND_THE_PACKAGE) else []
    with contextlib.suppress(UsageError):
        roots.append(find_root().resolve())
    return tuple(dict.fromkeys(roots))


def _is_root(folder: Path) -> bool:
    """Return whether a folder is a course: other courses have exercises/ too, so one of ours must be there."""
    if not (folder / "exercises").is_dir():
        return False
    return _has_reference(folder) or any(entry.stub.is_file() for entry in discover(folder))


def _has_reference(folder: Path) -> bool:
    return (folder / "reference").is_dir()


def _reference_of(root: Path) -> Path:
    """Return the folder with the reference material of a course: its own, or else the grader's."""
    return (root if _has_reference(root) else _brought_along()) / "reference"


def _brought_along() -> Path:
    """Return the folder of the grader's own reference/: in the package of a wheel, or else the checkout around it."""
    return _IN_THE_PACKAGE if _has_reference(_IN_THE_PACKAGE) else _AROUND_THE_PACKAGE


def discover(root: Path) -> tuple[Entry, ...]:
    """Return every exercise, sorted by name: the folders of reference/ that hold a spec.py."""
    return tuple(Entry(root, spec.parent.name) for spec in sorted(_reference_of(root).glob("ex_*/spec.py")))


def resolve(root: Path, requested: str) -> tuple[Entry, Path]:
    """Return the exercise that `requested` names, and the submission to grade: the given path, or the stub.

    requested: "ex_18", "18", the full name, or a path to a file of that name. Raises UsageError with the closest name.
    """
    entries = discover(root)
    path = Path(requested)
    if path.suffix == ".py" or os.sep in requested:
        for entry in entries:
            if path.name.startswith(entry.name):
                return entry, path
        raise UsageError(f"a path must name a file of an exercise ({_listed(entries)}), got {requested!r}")
    for entry in entries:
        if requested in (entry.id, entry.number, entry.name):
            return entry, entry.stub
    names = [name for entry in entries for name in (entry.id, entry.name)]
    raise UsageError(f"the exercise must be one of {_listed(entries)}, got {requested!r}{meant(requested, names, 0.4)}")


def _line(broken: BaseException, path: Path) -> str:
    """Return the line of a file that an exception passed last: ", line 42"; '' if it passed none."""
    frames = traceback.extract_tb(broken.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def meant(word: str, known: Sequence[str], alike: float = 0.6) -> str:
    """Return a question for the known name that a misspelt word is closest to, to end a message with; or ''.

    Among equally close names, the one of the same letters wins: ex_51 means ex_15, not ex_19.
    """
    close = difflib.get_close_matches(word, known, n=len(known), cutoff=alike) if known else []
    close.sort(key=lambda name: sorted(name) != sorted(word))
    return f"; did you mean {close[0]}?" if close else ""


def _listed(entries: tuple[Entry, ...]) -> str:
    return ", ".join(entry.id for entry in entries) or "none found"
