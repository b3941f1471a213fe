"""`python -m tests.pages.architecture`: writes docs/architecture.md from the rooms of grader/ as they are.

A room is a folder right below grader/, or a file there. What it is for is the first line of its docstring; what it
imports is read from the syntax tree. The way of a case is told here, with the module of every step.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"

# (module, what it does there)
WAY = (
    ("grader/cli/commands/run.py", "Takes the options of `grade ex_15`. Each command has a file here."),
    ("grader/cli/run.py", "Refuses what it can refuse before anything starts. Then starts the processes."),
    (
        "grader/exercise/catalogue.py",
        "Finds the exercise and reads its `spec.py`. Only this module knows where the files of an exercise lie.",
    ),
    (
        "grader/processes.py",
        "Starts the fork server, and on a GPU the baseline process, while this process imports torch.",
    ),
    ("grader/cli/job.py", "Makes the job: the submission's text, and a plan of its cases."),
    (
        "grader/exercise/plan.py",
        "Draws a frozen list of cases from a seed, by Hypothesis. The submission is not loaded yet.",
    ),
    ("grader/grading/pipeline.py", "Goes through the plan part by part: answers first, speed last."),
    ("grader/grading/answers.py", "Judges the checks of a part, one after the other."),
    ("grader/judge/rules/__init__.py", "Finds the module of the check's rule, and has it decide."),
    ("grader/judge/rules/", "The check's rule asks the bench for calls on the planned cases."),
    ("grader/judge/bench.py", "Has the calls recorded, and replayed in the order that their memory allows."),
    (
        "grader/sandbox/pair.py",
        "Sends the case to the submission's process, which records it, and the trace to a replayer. Trusts none.",
    ),
    (
        "grader/sandbox/session.py",
        "Holds one such process: sends the file and calls, limits time, memory and disk space, and replaces a process "
        "that has ended.",
    ),
    ("grader/sandbox/server.py", "Asks the fork server for a child, which is confined before it reads the submission."),
    ("grader/child/worker.py", "In the child: reads the grader's messages, and answers them."),
    (
        "grader/recorder/recorder.py",
        "In the submission's process: calls the function on decoys and writes down every allocation, copy and launch. "
        "No kernel runs. The trace goes back as data.",
    ),
    (
        "grader/replay/replayer.py",
        "In a clean process, without a line of the submission's Python: builds the true inputs from a seed that "
        "follows from text and trace, takes kernels out of the text by an allow-list, and does what the trace says.",
    ),
    (
        "grader/interpreter/accesses/guard.py",
        "Without a GPU: sees every access of every lane; finds accesses outside tensors and races.",
    ),
    (
        "grader/judge/examination.py",
        "Back in the grader: examines the outcome, and keeps the evidence of what computed it.",
    ),
    ("grader/judge/truth.py", "Asks the exercise's `oracle.py` for float64 values and for how far honest code errs."),
    ("grader/judge/compare.py", "Compares every element: |got − expected| ≤ allowed."),
    (
        "grader/judge/perturbed_replays.py",
        "Without a GPU: replays a right call with other orders of programs and other numbers in unwritten memory, if "
        "these can matter. A right call may still fail here.",
    ),
    (
        "grader/judge/answer_check.py",
        "Checks form, values and side effects, and gives a failed call its status and its cause in words. A call "
        "without an answer gets them from `unanswered.py`.",
    ),
    ("grader/grading/shrinking.py", "Finds the smallest case that fails in the same way."),
    (
        "grader/diagnosis/diagnosis.py",
        "Looks for what is behind a failure: repeats calls with one difference, and searches for an edit of the text "
        "that makes them right.",
    ),
    ("grader/grading/results.py", "Writes the ruling on a check as a result of the record."),
    (
        "grader/grading/part_compiler.py",
        "Beside the grading: compiles each part's kernels for several GPUs, and for the judged calls. None is needed.",
    ),
    (
        "grader/grading/compile_gate.py",
        "Without a GPU: holds back the passes of checks on kernels until the compiler has answered. A pass becomes a "
        "failure if the kernels compile for no GPU.",
    ),
    ("grader/speed/suite.py", "On a GPU, after right answers: times the replay in interleaved rounds with baselines."),
    ("grader/diagnosis/ranking.py", "Ranks what may be behind the failure, by all that was seen of the part."),
    ("grader/grading/excerpts.py", "Puts the lines that a cause names beside it."),
    ("grader/record/record.py", "Everything that was found, as one frozen record: `grade/result/v1`."),
    (
        "grader/report/text/terminal.py",
        "Renders the record as text; `report/page/` renders HTML, `report/junit.py` XML. All are pure.",
    ),
    ("grader/cli/run.py", "Prints, and writes the files that were asked for. No other room prints."),
)

# The data that is handed on from step to step: the module and the class.
HANDED_ON = (
    ("grader/exercise/plan.py", "PlannedCase"),
    ("grader/judge/trial.py", "CallRequest"),
    ("grader/sandbox/pair.py", "RecordedAnswer"),
    ("grader/judge/prepared_call.py", "PreparedCall"),
    ("grader/sandbox/outcome.py", "Finished"),
    ("grader/judge/trial.py", "Trial"),
    ("grader/judge/ruling.py", "Ruling"),
    ("grader/record/checks.py", "CheckResult"),
    ("grader/record/record.py", "Record"),
)

INTRODUCTION = """\
# Architecture

Made by `python -m tests.pages.architecture`; do not edit. `tests/docs/test_architecture.py` fails when this page is
stale.

## The way of a case, from the command to the verdict

"""

BETWEEN = """
A child and the grader share four things ([messages](../grader/protocol/__init__.py), [the trace](trace.md), [trust
model](trust-model.md)):

- a socket, for frames
- sealed memory files: one for the tensors of a call, one in which the child announces that it compiles
- a pipe, for what the child prints
- the child's scratch folder, whose content the grader does not trust

## The rooms

From the top floor down: a room imports only from rooms below it. `tests/test_rooms.py` reads the imports of every
module and refuses a circle; it also says which room may open which door, that only `cli` prints, and that no module
knows an exercise by name. `calls`, `interpreter`, `recorder`, `replay` and `child` run in child processes, and
so does `compile` but for its two readers of reports (`outcome_cache`, `findings`).

"""


FOLDERS = """
## Folders inside rooms

"""

MODULES = """
## The modules of each room

Open a room to see its modules.

"""


def page() -> str:
    """Return the text of docs/architecture.md."""
    steps = [f"{number}. [`{place}`](../{place}): {words}" for number, (place, words) in enumerate(WAY, 1)]
    way = INTRODUCTION + "\n".join(steps) + "\n" + _handed_on()
    return way + BETWEEN + _table(rooms()) + FOLDERS + _folders() + MODULES + _modules()


def _handed_on() -> str:
    """Return what a case becomes on its way, with the first line of each class's docstring."""
    found = [f"- [`{name}`](../{place}): {_summary_of_class(ROOT / place, name)}" for place, name in HANDED_ON]
    return "\nWhat a case becomes on this way, from data to data:\n\n" + "\n".join(found) + "\n"


def _summary_of_class(module: Path, name: str) -> str:
    """Return the first line of a class's docstring."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return (ast.get_docstring(found) or "").partition("\n")[0]


@cache
def rooms() -> dict[str, set[str]]:
    """Return every room with the rooms that it imports, from the top floor down."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "grader").rglob("*.py")):
        found.setdefault(_room(path.relative_to(ROOT)), set()).update(_imported(path))
    for name, below in found.items():
        below -= {name, ""}
    # Sorted, so that the order is the same in every run.
    order = tuple(TopologicalSorter({name: sorted(below) for name, below in found.items()}).static_order())
    return {name: found[name] for name in reversed(order)}


def _room(path: Path) -> str:
    name = path.parts[1].removesuffix(".py")
    return "" if name in ("__init__", "__main__") else name


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "grader":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name.split(".")[1] for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("grader.")}
    return {name for name in found if (ROOT / "grader" / name).is_dir() or (ROOT / "grader" / f"{name}.py").is_file()}


def _table(found: Mapping[str, set[str]]) -> str:
    rows = ["| room | what lives there | imports |", "| --- | --- | --- |"]
    for name, below in found.items():
        if name:
            folder = ROOT / "grader" / name
            place, text = (f"{name}/", folder / "__init__.py") if folder.is_dir() else (name, folder.with_suffix(".py"))
            listed = ", ".join(f"`{one}`" for one in sorted(below)) or "none"
            rows.append(f"| `{place}` | {_summary(text)} | {listed} |")
    return "\n".join(rows) + "\n"


def _folders() -> str:
    """Return the table of the folders inside rooms."""
    rows = ["| folder | what lives there |", "| --- | --- |"]
    for text in sorted((ROOT / "grader").glob("*/*/__init__.py")):
        rows.append(f"| `{text.parent.relative_to(ROOT / 'grader')}/` | {_summary(text)} |")
    return "\n".join(rows) + "\n"


def _modules() -> str:
    """Return a list for each room of its modules, with the first line of each docstring; closed until it is opened."""
    found = []
    for name in rooms():
        folder = ROOT / "grader" / name
        if name and folder.is_dir():
            modules = sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")
            items = [_item(path.relative_to(folder), _summary(path)) for path in modules]
            found.append(
                "\n".join((f"<details><summary><code>{name}/</code></summary><ul>", *items, "</ul></details>"))
            )
    return "\n\n".join(found) + "\n"


def _item(path: Path, words: str) -> str:
    """Return a module as HTML: the site reads no Markdown inside of it."""
    said = re.sub(r"`+([^`]+)`+", r"<code>\1</code>", html.escape(words, quote=False))
    return f"<li><code>{path.with_suffix('')}</code>: {said}</li>"


def _summary(module: Path) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
