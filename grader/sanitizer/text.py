"""Render an examination as plain text: findings, calls not examined to the end, and a verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from grader.phrases import counted
from grader.sanitizer.findings import Examination, Means, Stopped, ToolFinding
from grader.text import disarmed, one_line

_HOW: dict[Means, str] = {
    "guard": "every load, store and atomic in Triton's interpreter, by the guard",
    "memcheck": "every access on the GPU, by compute-sanitizer's memcheck",
    "racecheck": "accesses to shared memory on the GPU, by compute-sanitizer's racecheck",
    "initcheck": "loads of unwritten memory on the GPU, by compute-sanitizer's initcheck",
    "synccheck": "barriers on the GPU, by compute-sanitizer's synccheck",
}
_CLEAN: dict[Means, str] = {
    "guard": "no access outside a tensor and no race",
    "memcheck": "no access outside an allocation",
    "racecheck": "no race for shared memory",
    "initcheck": "no load of memory that was never written",
    "synccheck": "no barrier that is used wrongly",
}


def render(examination: Examination, *, width: int = 100, ascii_only: bool = False) -> str:
    """Return the whole result as text that ends in a newline.

    Commands stand on lines of their own, whatever their length.
    """
    heading = f"{one_line(examination.exercise)}: {one_line(examination.title)}"
    lines = [heading, one_line(examination.path), f"Looked at: {_HOW[examination.means]}."]
    for number, one in enumerate(examination.findings, 1):
        lines += ["", f"{number}. {one_line(one.sighting.title)}", *_finding_lines(one, examination.planned, width)]
    if examination.remarks:
        lines += ["", "Outside your file, and no fault of it:"]
        lines += [line for one in examination.remarks for line in _wrapped(one.sighting.text, width)]
    if examination.stopped:
        lines += ["", "Not looked at to the end:"]
        lines += [line for one in examination.stopped for line in _stopped(one, width)]
    lines += ["", *_wrapped(_verdict(examination), width, indent="")]
    lines += [line for note in _notes(examination) for line in _wrapped(note, width, indent="")]
    text = disarmed("\n".join(lines)) + "\n"
    return text.encode("ascii", "backslashreplace").decode("ascii") if ascii_only else text


def _finding_lines(one: ToolFinding, planned: int, width: int) -> Iterator[str]:
    sighting, call = one.sighting, one.call
    yield from _wrapped(sighting.text, width)
    if sighting.help:
        yield from _wrapped(sighting.help, width)
    if call is None:
        yield from _wrapped("The report does not say in which call.", width)
        return
    of_all = f"of {counted(planned, 'call')}"
    which = f"{one.calls} {of_all}; the smallest is" if one.calls > 1 else f"one {of_all}:"
    yield from _wrapped(f"In {which} {call.part}, {call.words}.", width)
    yield f"   {one_line(call.replay)}"


def _stopped(one: Stopped, width: int) -> Iterator[str]:
    first = "" if one.status in ("not_implemented", "invalid_submission", "skipped_dependency") else one.call.words
    text = f"{one.part}, {counted(one.calls, 'call')}{f' (first: {first})' if first else ''}: {one.title}. {one.text}"
    yield from _wrapped(text, width)
    if first:
        yield f"   {one_line(one.call.replay)}"


def _verdict(examination: Examination) -> str:
    looked = counted(examination.looked, "call")
    if examination.looked != examination.planned:
        looked = f"{examination.looked} of {counted(examination.planned, 'call')}"
    if examination.findings:
        return f"{counted(len(examination.findings), 'finding')}; {looked} came to an end."
    if examination.looked in (0, examination.silent):
        return f"Nothing was looked at: {looked} came to an end, and no kernel of yours was launched."
    nothing = _CLEAN[examination.means]
    return f"{nothing[0].upper()}{nothing[1:]} in {looked}."


def _notes(examination: Examination) -> Iterator[str]:
    if 0 < examination.silent < examination.looked:
        yield f"In {counted(examination.silent, 'call')} no kernel of yours was launched: there was nothing to look at."
    if examination.unfollowed:
        yield (
            f"In {counted(examination.unfollowed, 'call')} a launch was too large to follow whole: its bounds were "
            "looked at, races were not looked for."
        )
    if examination.means != "guard":
        yield "What programs do to each other is seen by the guard alone: the same command with --cpu."
    yield from examination.notes


def _wrapped(text: str, width: int, indent: str = "   ") -> list[str]:
    return textwrap.wrap(one_line(text), width, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
