"""Parse the report of compute-sanitizer: memcheck, racecheck, initcheck and synccheck, of CUDA 11 to 13.

Pure: text in, accusations out. A submission could have written such text itself; renderers clean it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Kind = Literal["load", "store", "atomic", "race", "uninitialised", "barrier", "other"]


@dataclass(frozen=True)
class CodePlace:
    """A place in the code: a kernel, and a line of a source file if the compiler noted lines."""

    kernel: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True)
class Accusation:
    """One report of one thread, or of one pair of places that race.

    offset: where in the text it begins. what: its first line. place: where it happened; callers: where the code of that
    place was called from, innermost first. block, thread: coordinates. memory: "global", "shared" or "local". bytes: of
    the access. how: "is out of bounds, and is 1 bytes after the nearest allocation at 0x… of size 4,000 bytes". others:
    the places that a race is with. hazards: how many bytes race.
    """

    offset: int
    kind: Kind
    what: str
    place: CodePlace = field(default_factory=CodePlace)
    callers: tuple[CodePlace, ...] = ()
    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    memory: str = ""
    bytes: int = 0
    how: str = ""
    others: tuple[CodePlace, ...] = ()
    hazards: int = 1

    def line_in(self, file: str) -> int:
        """Return the line of that file nearest to the place; 0 if no line of it is involved."""
        places = (self.place, *self.callers, *self.others)
        return next((one.line for one in places if one.file.rpartition("/")[2] == file), 0)


@dataclass(frozen=True)
class SanitizerReport:
    """The parsed output of the tool.

    summaries: how many processes gave a summary of their errors. unprinted: errors beyond its limit. troubles: its
    messages about itself.
    """

    accusations: tuple[Accusation, ...] = ()
    summaries: int = 0
    unprinted: int = 0
    troubles: tuple[str, ...] = ()


# The tool's own lines are shorter, except for names of templates. Some patterns take quadratic time on longer lines.
_MOST_LINE = 2000
# So many places are more than anybody corrects at once.
_MOST_ACCUSATIONS = 10_000
_MOST_DETAILS = 200

_BAR = re.compile(r"^=+(.*)$")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: [\d,]+ (?:errors?|hazards? displayed)\b(?! were not printed)")
_UNPRINTED = re.compile(r"SUMMARY: ([\d,]+) (?:errors|hazards) were not (?:printed|displayed)")
_TROUBLE = re.compile(r"(?:Internal Sanitizer Error|Error|Fatal|FATAL|ERROR): *(.+)")

_SEVERITY = r"(?:(?:Error|ERROR|Warning|WARNING|Info|INFO): *)?"
_INVALID = re.compile(r"(?:Potential i|I)nvalid __(\w+?)__ (\S+)(?: access)? of size ([\d,]+)(?: bytes)?")
_UNINITIALISED = re.compile(r"Uninitialized __(\w+?)__ memory read of size ([\d,]+)")
_HOST = re.compile(r"Host API (?:uninitialized )?memory access")
_BARRIER = re.compile(r"(?:Barrier|Warpgroup MMA sequence) error detected")
_RACE = re.compile(rf"{_SEVERITY}Race reported between (\w+) access at (.+)")
_HAZARD = re.compile(
    rf"{_SEVERITY}(?:\([^)]*\) *)?Potential \w+ hazard detected at __(\w+?)__ \S+ in block \(([^)]*)\)"
)
_API = re.compile(r"Program hit \S+|Target application |Saved host backtrace|LEAK SUMMARY|COMPUTE-SANITIZER")

_AND_ACCESS = re.compile(r"and (\w+) access at (.+)")
_COUNT = re.compile(r"\[([\d,]+) hazards?\]\s*$")
_BY_THREAD = re.compile(r"by thread \(([^)]*)\) in block \(([^)]*)\)")
_HAZARD_THREAD = re.compile(r"(?:Read|Write) Thread \(([^)]*)\) at (.+)")
_DEVICE_FRAME = re.compile(r"Device Frame: *(.+)")
_ADDRESS = re.compile(r"(?:Address|Access (?:to|at)) 0x[0-9a-fA-F]+(?: (.+))?")

# "kernel+0x30 in file.py:7" today, "0x30 in file.py:7:kernel" before CUDA 12; the file only where lines were noted.
_PLACE = re.compile(r"(?P<kernel>.+?)(?:\(\))?[+:]0x[0-9a-fA-F]+(?: in (?P<file>.+):(?P<line>\d+)(?:\(void\))?)?")
_OLDER_PLACE = re.compile(r"0x[0-9a-fA-F]+(?: in (?:(?P<file>[^:]+):(?P<line>\d+):)?(?P<kernel>.+))?")

_KINDS: dict[str, Kind] = {"read": "load", "write": "store", "atomic": "atomic"}


def parse(text: str) -> SanitizerReport:
    """Return the tool's findings and its messages about itself. Lines that are not the tool's are skipped."""
    found: list[Accusation] = []
    troubles: dict[str, None] = {}
    summaries = unprinted = 0
    for offset, head, details in _records(text):
        if accusation := _accusation(offset, head, details):
            if len(found) < _MOST_ACCUSATIONS:
                found.append(accusation)
            else:
                unprinted += 1
        elif unsaid := _UNPRINTED.search(head):
            unprinted += _number(unsaid[1])
        elif _SUMMARY.search(head):
            summaries += 1
        elif (trouble := _TROUBLE.match(head)) and not _API.match(head):
            troubles.setdefault(trouble[1].strip())
    return SanitizerReport(tuple(found), summaries, unprinted, tuple(troubles))


def _records(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield (offset, first line, indented lines behind it) of everything that stands behind the tool's bar."""
    offset, begun, head, details = 0, 0, "", list[str]()
    for line in text.splitlines(keepends=True):
        barred = _BAR.match(line[:_MOST_LINE].rstrip("\r\n"))
        said = barred[1] if barred else ""
        # Details are indented; some lists of them say "and …" at the margin.
        if said.startswith("  ") or said.lstrip().startswith(
            ("and ", "by thread", "at ", "Address 0x", "Device Frame")
        ):
            if len(details) < _MOST_DETAILS:
                details.append(said.strip())
        elif said.strip():
            if head:
                yield begun, head, details
            begun, head, details = offset, said.strip(), []
        offset += len(line)
    if head:
        yield begun, head, details


def _accusation(offset: int, head: str, details: Sequence[str]) -> Accusation | None:
    if race := _RACE.match(head):
        return _race(offset, head, race[2], details)
    if invalid := _INVALID.match(head):
        plain = Accusation(offset, _KINDS.get(invalid[2], "other"), head, memory=invalid[1], bytes=_number(invalid[3]))
    elif uninitialised := _UNINITIALISED.match(head):
        plain = Accusation(offset, "uninitialised", head, memory=uninitialised[1], bytes=_number(uninitialised[2]))
    elif _HOST.match(head):
        plain = Accusation(offset, "uninitialised", head, memory="global")
    elif _BARRIER.match(head):
        plain = Accusation(offset, "barrier", head)
    elif hazard := _HAZARD.match(head):
        plain = Accusation(offset, "race", head, memory=hazard[1], block=_coordinates(hazard[2]))
    else:
        return None
    for detail in details:
        plain = _with_detail(plain, detail)
    return plain


def _with_detail(plain: Accusation, detail: str) -> Accusation:
    """Return the accusation with one more line of detail."""
    changed: dict[str, Any] = {}
    if detail.startswith("at "):
        changed = {"place": place(detail.removeprefix("at "))}
    elif threads := _BY_THREAD.match(detail):
        changed = {"thread": _coordinates(threads[1]), "block": _coordinates(threads[2])}
    elif frame := _DEVICE_FRAME.match(detail):
        changed = {"callers": (*plain.callers, place(frame[1]))}
    elif address := _ADDRESS.match(detail):
        changed = {"how": address[1] or ""}
    elif detail.startswith("and is "):
        changed = {"how": f"{plain.how}, {detail}" if plain.how else detail}
    elif racing := _HAZARD_THREAD.match(detail):
        where = place(racing[2])
        # Two such lines, the earlier access first.
        changed = {"others": (where,)} if plain.thread else {"thread": _coordinates(racing[1]), "place": where}
    return replace(plain, **changed)


def _race(offset: int, head: str, first: str, details: Sequence[str]) -> Accusation:
    counted = [found for text in (first, *details) if (found := _COUNT.search(text))]
    others = [racing for detail in details if (racing := _AND_ACCESS.match(detail))]
    return Accusation(
        offset=offset,
        kind="race",
        what=_COUNT.sub("", head).strip(),
        place=place(_COUNT.sub("", first)),
        memory="shared",
        others=tuple(place(_COUNT.sub("", one[2])) for one in others),
        hazards=max(sum(_number(one[1]) for one in counted), 1),
    )


def place(text: str) -> CodePlace:
    """Return a place from the tool's text, in the forms of its several versions."""
    text = re.sub(r"\[(?:0x[0-9a-fA-F]+|[\d,]+ hazards?)\]$", "", text.strip()).rstrip()
    match = _OLDER_PLACE.fullmatch(text) or _PLACE.fullmatch(text)
    if match is None:
        return CodePlace(_bare(text))
    return CodePlace(_bare(match["kernel"] or ""), match["file"] or "", _number(match["line"] or ""))


def _bare(kernel: str) -> str:
    """Return a function's name without its parameters."""
    return kernel.strip().partition("(")[0].strip() or kernel.strip()


def _coordinates(text: str) -> tuple[int, ...]:
    return tuple(_number(one) for one in re.findall(r"\d+", text)[:3])


def _number(text: str) -> int:
    """Return a number such as "12,345"; one too long for the tool is cut."""
    return int(text.replace(",", "")[:18] or 0)
