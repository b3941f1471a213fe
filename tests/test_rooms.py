"""The rooms of the grader and their doors: what may import what, who may print, and that no exercise is known by name.

Judged on the syntax tree of every module, so nothing is imported and nothing can hide in a branch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from grader.batch import result_key
from grader.exercise.catalogue import discover

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[1]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "grader").rglob("*.py"))
}


@cache
def tree_of(module: str) -> ast.Module:
    """Parse a module once, and only where a test of this file runs: every worker collects it."""
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield every module by name."""
    return ((name, tree_of(name)) for name in FILES)


# What runs in a child process: the submission's, or the replayer's.
IN_A_CHILD = ("grader.calls", "grader.interpreter", "grader.recorder", "grader.replay", "grader.child")


def within(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


@cache
def imported_by(name: str) -> frozenset[str]:
    """Return the grader's own modules that a module imports anywhere in its text."""
    found = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports by dots"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {module for module in whole if module in FILES} or {str(node.module)}
    return frozenset(module for module in found if within(module, "grader"))


def strays(room: str, *, only: tuple[str, ...] = ("grader",), never: tuple[str, ...] = ()) -> list[str]:
    """Imports of a room's modules that are outside `only` or inside `never`."""
    return [
        f"{name} imports {module}"
        for name in FILES
        if within(name, room)
        for module in sorted(imported_by(name))
        if not any(within(module, door) for door in only) or any(within(module, door) for door in never)
    ]


@pytest.mark.parametrize(
    ("room", "only"),
    [
        ("grader.protocol", ("grader.protocol", "grader.text")),
        ("grader.calls", ("grader.calls", "grader.protocol", "grader.exercise.tensors", "grader.syntax")),
        ("grader.interpreter", ("grader.interpreter", "grader.compile", "grader.protocol", "grader.gpus")),
        (
            "grader.recorder",
            (
                *("grader.recorder", "grader.calls", "grader.protocol", "grader.compile.cute"),
                "grader.exercise.tensors",
            ),
        ),
        (
            "grader.replay",
            (
                *("grader.replay", "grader.calls", "grader.compile", "grader.interpreter", "grader.protocol"),
                *("grader.exercise.tensors", "grader.gpus", "grader.files", "grader.syntax"),
            ),
        ),
        (
            "grader.child",
            (
                *("grader.child", "grader.confinement", "grader.calls", "grader.compile"),
                *("grader.interpreter", "grader.protocol", "grader.recorder.recorder", "grader.replay.replayer"),
                *("grader.exercise.tensors", "grader.gpus", "grader.files"),
            ),
        ),
        ("grader.confinement", ("grader.confinement",)),
        ("grader.exercise.covering", ("grader.exercise.cases",)),
        ("grader.exercise.star_cases", ("grader.exercise.cases",)),
        ("grader.speed.estimate", ()),
        ("grader.replay.clock", ("grader.protocol.answers",)),
        ("grader.timeline", ()),
        (
            "grader.speed.tuned",
            (
                *("grader.protocol.configurations", "grader.protocol.answers", "grader.protocol.trace"),
                "grader.record",
            ),
        ),
        ("grader.speed.roofline", ("grader.protocol.baseline_messages",)),
        ("grader.speed.prediction", ("grader.exercise", "grader.errors", "grader.gpus", "grader.record")),
        ("grader.speed.lock", ("grader.errors",)),
        ("grader.speed.cores", ("grader.errors", "grader.speed.lock")),
        ("grader.speed.baselines", ()),
        ("grader.speed.lineup", ("grader.exercise", "grader.speed.baselines")),
        ("grader.speed.monitor", ("grader.record",)),
        (
            "grader.exercise",
            (
                "grader.exercise",
                "grader.errors",
                "grader.gpus",
                "grader.phrases",
                "grader.syntax",
                "grader.protocol.requests",
            ),
        ),
        (
            "grader.processes",
            (
                *(
                    "grader.machine",
                    "grader.errors",
                    "grader.exercise",
                    "grader.sandbox.server",
                ),
                *("grader.selftest", "grader.speed.baseline_process", "grader.timeline"),
            ),
        ),
        (
            "grader.selftest",
            (
                "grader.errors",
                "grader.machine",
                "grader.exercise",
                "grader.protocol.answers",
                "grader.protocol.requests",
                "grader.sandbox",
            ),
        ),
        ("grader.gpus", ()),
        ("grader.exercise.triton_version", ()),
        ("grader.compile.assembly", ("grader.protocol.answers",)),
        (
            "grader.compile.findings",
            ("grader.protocol.answers", "grader.gpus", "grader.phrases", "grader.record", "grader.text"),
        ),
        ("grader.definitions", ("grader.syntax",)),
        ("grader.syntax", ()),
        ("grader.text", ()),
        ("grader.phrases", ()),
        ("grader.grading.source_scan", ("grader.syntax", "grader.text", "grader.record")),
        (
            "grader.report",
            (
                "grader.report",
                "grader.record",
                "grader.exercise.curves",
                "grader.text",
                "grader.phrases",
                "grader.gpus",
                # An exercise's questions are answered with figures of a record.
                "grader.exercise.interview",
                "grader.definitions",
                "grader.syntax",
                "grader.exercise.formula",
                "grader.errors",
                "grader.protocol.trace",
                # A record holds footprints.
                "grader.protocol.footprint",
            ),
        ),
        ("grader.report.isolation", ()),
        ("grader.files", ("grader.errors",)),
        ("grader.moments", ("grader.errors",)),
        ("grader.batch.uploads", ("grader.errors", "grader.files", "grader.phrases")),
        (
            "grader.batch.late",
            ("grader.batch.tables", "grader.errors", "grader.moments", "grader.protocol.decode"),
        ),
        (
            "grader.export",
            (
                *("grader.export", "grader.report", "grader.record", "grader.text", "grader.phrases"),
                *("grader.batch.gradebook", "grader.errors"),
            ),
        ),
        (
            "grader.class_pages",
            (
                *("grader.class_pages", "grader.report", "grader.record", "grader.batch.gradebook", "grader.errors"),
                "grader.phrases",
            ),
        ),
        ("grader.release", ("grader.exercise.catalogue", "grader.errors")),
        ("grader.batch.gradebook", ("grader.record",)),
        ("grader.batch.reading", ("grader.batch", "grader.record", "grader.errors")),
        ("grader.exercise.tensors", ()),
        ("grader.errors", ()),
        ("grader.sanitizer.output", ()),
        ("grader.sanitizer.command", ()),
        ("grader.sanitizer.findings", ("grader.record", "grader.text", "grader.sanitizer.output")),
        ("grader.sanitizer.text", ("grader.sanitizer.findings", "grader.phrases", "grader.text")),
        (
            "grader.progress",
            (
                *("grader.progress", "grader.record", "grader.protocol.decode", "grader.phrases", "grader.syntax"),
                "grader.text",
            ),
        ),
        ("grader.progress.part_text", ("grader.syntax",)),
        ("grader.watch.state", ("grader.record", "grader.report.view", "grader.progress")),
        ("grader.watch.order", ("grader.exercise", "grader.record")),
        ("grader.watch.screen", ("grader.watch.state", "grader.report", "grader.progress", "grader.text")),
        ("grader.watch.follow", ("grader.watch.state", "grader.errors")),
        ("grader.watch.keys", ()),
        ("grader.watch.latest_task", ("grader.sandbox.cancellation",)),
        ("grader.watch.live", ("grader.report",)),
        ("grader.sandbox.cancellation", ("grader.protocol.requests", "grader.sandbox.server")),
    ],
)
def test_a_room_imports_only_from_where_it_may(room: str, only: tuple[str, ...]) -> None:
    assert strays(room, only=only) == []


@pytest.mark.parametrize(
    ("room", "never"),
    [
        ("grader.judge", (*IN_A_CHILD, "grader.cli")),
        ("grader.recorder", ("grader.replay",)),
        ("grader.replay", ("grader.recorder", "grader.child.worker")),
        ("grader.replay.run", ("grader.replay.replayer", "grader.replay.timing", "grader.replay.clock")),
        ("grader.replay.timing", ("grader.replay.replayer",)),
        (
            "grader.sandbox",
            (*IN_A_CHILD, "grader.compile", "grader.judge", "grader.report", "grader.cli", "grader.speed"),
        ),
        ("grader.judge", ("grader.speed", "grader.report")),
        (
            "grader.compile",
            (
                *("grader.interpreter", "grader.recorder", "grader.replay", "grader.sandbox", "grader.judge"),
                *("grader.speed", "grader.report", "grader.cli", "grader.grading"),
            ),
        ),
        ("grader.speed", ("grader.cli", "grader.report", "grader.grading", "grader.soundness")),
        ("grader.grading", (*IN_A_CHILD, "grader.cli", "grader.report")),
        ("grader.record", ("grader.judge", "grader.report", "grader.sandbox", "grader.cli", "grader.speed")),
        ("grader.sanitizer", (*IN_A_CHILD, "grader.cli", "grader.report", "grader.grading", "grader.soundness")),
        ("grader.judge", ("grader.sanitizer",)),
        ("grader.sandbox", ("grader.sanitizer",)),
        ("grader.grading", ("grader.sanitizer",)),
        ("grader.record", ("grader.sanitizer",)),
        ("grader.exercise.plan", ("grader.judge", *IN_A_CHILD, "grader.sandbox", "grader.cli", "grader.speed")),
        ("grader.batch", (*IN_A_CHILD, "grader.cli", "grader.judge.rules", "grader.soundness", "grader.export")),
        ("grader.grading", ("grader.batch",)),
        ("grader.report", ("grader.batch",)),
        ("grader.watch", (*IN_A_CHILD, "grader.cli", "grader.grading", "grader.judge", "grader.speed")),
        ("grader.grading", ("grader.watch",)),
    ],
)
def test_a_room_never_imports_what_it_must_not_know(room: str, never: tuple[str, ...]) -> None:
    assert strays(room, never=never) == []


def room_of(module: str) -> str:
    """The folder right below grader/, or the file there."""
    return ".".join(module.split(".")[:2])


def test_rooms_stand_on_floors_and_no_import_runs_back_up() -> None:
    below = {room_of(name): set[str]() for name in FILES}
    for name in FILES:
        below[room_of(name)] |= {room_of(module) for module in imported_by(name)} - {room_of(name)}
    # TopologicalSorter raises CycleError, which names the rooms of the circle.
    floors = tuple(TopologicalSorter(below).static_order())
    assert floors[-1] == "grader.__main__"


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, set[str]] = {}
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(name)
    assert {word: sorted(where) for word, where in homes.items() if len(where) > 1} == {}


def test_of_what_serves_a_child_the_trusted_side_shares_the_clock_and_what_outputs_look_like() -> None:
    """Baselines are timed by the same code as the replay; nothing else of those rooms runs in their process."""
    shared = {
        (name, module)
        for name in FILES
        if within(name, "grader.speed")
        for module in imported_by(name)
        if any(within(module, inside) for inside in IN_A_CHILD)
    }
    baselines = "grader.speed.baseline_main"
    assert shared == {(baselines, "grader.replay.clock"), (baselines, "grader.calls.outputs")}


@pytest.mark.parametrize(
    ("room", "serving"),
    [
        ("grader.recorder", {"grader.child.worker"}),
        (
            "grader.replay",
            {
                "grader.child.worker",
                "grader.child.tool_worker",
                "grader.child.counter_worker",
            },
        ),
        ("grader.replay.clock", {"grader.replay.timing", "grader.speed.baseline_main"}),
    ],
)
def test_only_what_serves_a_child_opens_recorder_and_replay(room: str, serving: set[str]) -> None:
    """The trusted side gets traces and answers, as data; a process is told at its start which of the two it is. The
    clock has a door of its own.
    """
    clock = "grader.replay.clock"
    opening = {
        name
        for name in FILES
        if not within(name, room)
        if any(within(one, room) and (one != clock or room == clock) for one in imported_by(name))
    }
    assert opening == serving


def test_the_trusted_side_reads_of_compilers_only_their_reports() -> None:
    inside = (*IN_A_CHILD, "grader.compile")
    trusted = [name for name in FILES if not any(within(name, room) for room in inside)]
    opened = {module for name in trusted for module in imported_by(name) if within(module, "grader.compile")}
    assert opened == {"grader.compile.outcome_cache", "grader.compile.findings"}


def test_diagnosis_has_one_door_and_a_list_of_kinds() -> None:
    outside = [name for name in FILES if not within(name, "grader.diagnosis")]
    opened = {module for name in outside for module in imported_by(name) if within(module, "grader.diagnosis")}
    assert opened == {"grader.diagnosis.diagnosis", "grader.diagnosis.kinds"}


def test_what_triton_s_interpreter_is_made_of_is_known_in_two_rooms() -> None:
    def imports(tree: ast.AST) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    # Whoever stands in front of launches names the class of kernels, and nothing inside it.
    outside = "triton.runtime.interpreter.InterpretedFunction"
    knowing = {
        name
        for name in FILES
        for found in imports(tree_of(name))
        if within(found, "triton.runtime.interpreter") and found != outside
    }
    strangers = {name for name in knowing if not within(name, "grader.interpreter")}
    assert strangers == {"grader.replay.allowed", "grader.replay.making", "grader.replay.values"}
    assert "grader.interpreter.memory" in knowing, "this test looks in the wrong place"


OUTSIDE_WORLD = {"os", "io", "pathlib", "socket", "subprocess", "sys", "tempfile", "threading", "time", "mmap", "torch"}


@pytest.mark.parametrize(
    "module",
    [
        *(f"grader.speed.{name}" for name in ("estimate", "lineup", "roofline", "prediction", "tuned")),
        "grader.gpus",
        *(f"grader.watch.{name}" for name in ("state", "order", "screen")),
        *(f"grader.progress.{name}" for name in ("part_text", "kept", "states")),
    ],
)
def test_what_only_computes_reads_no_clock_and_no_file(module: str) -> None:
    nodes = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.Import | ast.ImportFrom)]
    libraries = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    libraries |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not OUTSIDE_WORLD & {library.partition(".")[0] for library in libraries}


@pytest.mark.parametrize("module", [name for name in FILES if within(name, "grader.export")])
def test_an_exporter_reads_no_clock_no_file_and_no_environment(module: str) -> None:
    nodes = [node for node in ast.walk(tree_of(module)) if isinstance(node, ast.Import | ast.ImportFrom)]
    libraries = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    libraries |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    # Paths and streams of text are computed with, not opened.
    assert not (OUTSIDE_WORLD - {"io", "pathlib"}) & {library.partition(".")[0] for library in libraries}
    calls = {
        node.func.id
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "open" not in calls


def test_only_the_command_line_and_its_entry_know_the_command_line() -> None:
    knowing = [name for name in FILES if any(within(module, "grader.cli") for module in imported_by(name))]
    assert [name for name in knowing if not within(name, "grader.cli")] == ["grader.__main__"]


def test_only_the_command_line_prints() -> None:
    printing = {
        name for name, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "print"
    }
    assert {name for name in printing if not within(name, "grader.cli")} == set()
    assert printing, "the command line prints, or this test looks in the wrong place"


def test_outside_children_text_is_parsed_in_one_module_which_lets_one_thread_do_so_at_a_time() -> None:
    parsing = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "ast.parse"
    }
    assert {name for name in parsing if not any(within(name, room) for room in IN_A_CHILD)} == {"grader.syntax"}


def test_nothing_is_unpickled() -> None:
    unsafe = {"pickle", "cPickle", "dill", "marshal", "shelve", "multiprocessing"}
    for name, tree in trees():
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert not unsafe & {module.partition(".")[0] for module in modules}, name


# -- no exercise by name ---------------------------------------------------------------------------------------------


def documentation(tree: ast.AST) -> set[int]:
    """The nodes of docstrings and of the command line's help texts."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "HELP":
            found |= {id(inner) for inner in ast.walk(node.value)}
        if isinstance(node, ast.keyword) and node.arg == "help":
            found |= {id(inner) for inner in ast.walk(node.value)}
    return found


def words_of(tree: ast.AST) -> Iterator[str]:
    """Every identifier and every string of the code, documentation aside."""
    silent = documentation(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value
        for attribute in ("id", "attr", "name", "arg", "asname"):
            value = getattr(node, attribute, None)
            if isinstance(value, str):
                yield value


# What a replay token looks like can only be shown by an example; and CuTe has an operation of that name.
EXAMPLES = ("ex_15:vector_add.tail:N=65,dtype=float16:0x5f", "cute.gemm")


def test_no_module_knows_an_exercise_or_a_part_by_name() -> None:
    entries = discover(ROOT)
    assert entries
    known = {entry.id for entry in entries} | {part.name for entry in entries for part in entry.exercise.parts}
    for name, tree in trees():
        for word in words_of(tree):
            for example in EXAMPLES:
                word = word.replace(example, "")  # noqa: PLW2901
            assert not [told for told in known if told in word], f"{name}: {word!r}"


def test_what_leaves_results_as_they_are_is_imported_by_no_grading() -> None:
    waiting = [name for name in FILES if any(within(name, room) for room in ("grader.grading", *IN_A_CHILD))]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in FILES and name not in reached:
            reached.add(name)
            waiting += imported_by(name)
    rooms = [f"grader.{room.removesuffix('.py')}" for room in result_key.WITHOUT]
    assert not [name for name in reached if any(within(name, room) for room in rooms)]
    assert all(any(within(name, room) for name in FILES) for room in rooms)
