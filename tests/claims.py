"""What a submission under submissions/ says in its docstring.

The first line says what it must get: `<status>: [<cause kind>: ]…`. A later paragraph may say which entries of the
catalogue of attacks it is, where it can be told, and which honest file looks like it and passes:

    Attack 19, 34. On the CPU. Twin: controls/kept_workspace_and_final_cast.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalogue import discover
from grader.exercise.planted import read
from grader.exercise.triton_version import lacking
from grader.record.record import Record

ROOT = Path(__file__).resolve().parents[1]
SUBMISSIONS = ROOT / "tests" / "submissions"
REFERENCE = ROOT / "reference"
# Two launches, or a copy in float32, are honest work, though more of it than the part asks for.
MORE_WORK = {
    "copies_its_inputs": {"vector_add.traffic"},
    "two_steps_with_fill_between": {"vector_add.launches", "vector_add.traffic"},
    "kept_workspace_and_final_cast": {"vector_add.traffic"},
}
_LINK = re.compile(
    r"^Attack (?P<numbers>\d+(?:, \d+)*)\.(?: On the (?P<device>CPU|GPU)\.)?(?: Twin: (?P<twin>[\w/]+)\.)?$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Link:
    """Which attacks a file is. device: "CPU" or "GPU" where only there; twin: an honest file, relative to its folder's
    place (controls/… and timing/… under tests/submissions, <exercise>/honest/… under reference).
    """

    path: Path
    claim: str
    numbers: tuple[int, ...]
    device: str
    twin: str


def files(folder: str) -> list[Path]:
    """The submissions of one folder, without those that need an older Triton than the one that is installed."""
    paths = sorted((SUBMISSIONS / folder).glob("*.py"))
    return [path for path in paths if not lacking(path.read_text(encoding="utf-8", errors="replace"))]


def docstring(path: Path) -> str:
    """The file's docstring, which a patch has on top; of a file that is no Python, what would be it."""
    found = re.match(r'"""(.*?)"""', read(path).text, re.DOTALL)
    assert found is not None, path
    return ast.literal_eval(f'"""{found[1]}"""')


def claim(path: Path) -> tuple[str, str]:
    """(status, cause kind) that the file's docstring promises; the kind is the status where none is named."""
    doc = re.match(r"(\w+): (?:(\w+): )?", docstring(path))
    assert doc is not None, path
    return doc[1], doc[2] or doc[1]


def link(path: Path) -> Link | None:
    """Which attacks a file is; None for one that is none."""
    text = docstring(path)
    found = _LINK.search(text)
    # A line that only looks like one would be lost.
    assert found or not re.search(r"^Attacks? \d", text, re.MULTILINE), path
    if found is None:
        return None
    numbers = tuple(int(number) for number in found["numbers"].split(", "))
    return Link(path, text.partition("\n")[0], numbers, found["device"] or "", found["twin"] or "")


def links() -> list[Link]:
    """Every file that is an attack, in the order of the folders."""
    planted = (one.path for entry in discover(ROOT) for one in entry.wrong)
    paths = [*sorted(SUBMISSIONS.rglob("*.py")), *planted]
    return [found for path in paths if (found := link(path))]


def twin_of(found: Link) -> Path | None:
    """The honest file that a link names."""
    if not found.twin:
        return None
    places = (SUBMISSIONS / f"{found.twin}.py", REFERENCE / f"{found.twin}.py")
    return next((path for path in places if path.is_file()), places[0])


def statuses(record: Record, part: str) -> set[str]:
    """The statuses of a part's judged checks."""
    return {check.status for check in record.checks if check.part == part} - {"skipped_environment"}
