"""Describe an exception for the grader: its kind, its message, and the submission's lines that led to it.

Takes an exception of the submission's process; gives a Raised message.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from grader.calls import cutedsl
from grader.protocol.answers import Frame, Raised
from grader.protocol.observations import GuardFinding
from grader.syntax import lines_in

_MOST_FRAMES = 6
_MOST_TEXT = 2000
# Names that agree in this share of their letters are taken for each other's misspelling.
_ALIKE = 0.8
_COMPILE_ERRORS = {
    "CompilationError",
    "CompileTimeAssertionFailure",
    "LoopVariableError",
    "UnsupportedLanguageConstruct",
    "OutOfResources",
    "PTXASError",
}


class Raising:
    """Describes exceptions of the submission whose file is `path`.

    keywords: returns the parameters of a function of Triton's language by its name; none for another name.
    """

    def __init__(self, path: str, keywords: Callable[[str], Sequence[str]] = lambda _: ()) -> None:
        self._path = path
        self._keywords = keywords

    def describe(
        self,
        raised: BaseException,
        *,
        loading: bool = False,
        findings: tuple[GuardFinding, ...] = (),
        launched_at: int = 0,
    ) -> Raised:
        """Return the description of an exception.

        launched_at: the line that launched the kernel; 0 where the launch is still on the stack.
        """
        origin = _origin(raised)
        frames = self._frames(raised)
        if launched_at:
            frames = (self._frame_at(launched_at), *frames)[-_MOST_FRAMES:]
        if refused := cutedsl.refusal_in(origin, self._path):
            if refused.line:
                frames = (*frames, self._frame_at(refused.line))
            kind = type(origin).__name__[:80]
            return Raised(
                "raised", "compile_error", kind, _cut(refused.text), frames[-_MOST_FRAMES:], findings=findings
            )
        verdict = _verdict(origin, loading=loading, from_submission=self._in_submission(origin))
        fatal = "CUDA error" in _message(raised) or type(origin).__name__ == "AcceleratorError"
        message = _message(origin)
        if verdict == "not_implemented" and frames:
            message += self._replacing(frames[-1])
        elif (found := _UNKNOWN_KEYWORD.search(message)) and (known := self._keywords(found[1])):
            message += f" (tl.{found[1]} has no parameter {found[2]}, only {', '.join(known)})"
        elif near := _near_name(origin):
            message += f". Did you mean: '{near}'?"
        return Raised("raised", verdict, type(origin).__name__[:80], message, frames, fatal, findings)

    def describe_refusal(self, rule: str, line: int, *, launched_at: int = 0) -> Raised:
        """Return the description of a kernel that no compiler accepts."""
        lines = dict.fromkeys(one for one in (launched_at, line) if one)
        return Raised("raised", "compile_error", "CompilationError", _cut(rule), tuple(map(self._frame_at, lines)))

    def _frames(self, raised: BaseException) -> tuple[Frame, ...]:
        """Return the submission's lines on the way to the error, outermost first, over all causes."""
        if isinstance(raised, SyntaxError) and raised.filename == self._path:
            return (Frame(raised.lineno or 0, "<module>", (raised.text or "").strip()[:200]),)
        found: dict[tuple[int, str], Frame] = {}
        link: BaseException | None = raised
        seen: set[int] = set()
        while link is not None and id(link) not in seen:
            seen.add(id(link))
            for entry in traceback.extract_tb(link.__traceback__):
                if entry.filename == self._path:
                    frame = Frame(entry.lineno or 0, entry.name[:80], (entry.line or "")[:200])
                    found.setdefault((frame.line, frame.function), frame)
            link = link.__cause__
        return tuple(found.values())[-_MOST_FRAMES:]

    def _replacing(self, frame: Frame) -> str:
        """Return words on an earlier definition of a function, which a stub further down replaces; or ''."""
        definition = re.compile(rf"(?:async )?def {re.escape(frame.function)}\b")
        text = lines_in(Path(self._path).read_text(encoding="utf-8"))
        starts = [place for place, line in enumerate(text, 1) if definition.match(line) and place < frame.line]
        if len(starts) < 2:
            return ""
        return f" (the {frame.function} at line {starts[-1]} replaces the one at line {starts[-2]})"

    def _frame_at(self, line: int) -> Frame:
        lines = lines_in(Path(self._path).read_text(encoding="utf-8"))
        return Frame(line, "", lines[line - 1].strip()[:200] if line <= len(lines) else "")

    def _in_submission(self, raised: BaseException) -> bool:
        entries = traceback.extract_tb(raised.__traceback__)
        return bool(entries) and entries[-1].filename == self._path


def _origin(raised: BaseException) -> BaseException:
    """Return the exception behind Triton's wrappers, which repeat it as text, or name only the call that led to it."""
    for _ in range(_MOST_FRAMES):
        cause = raised.__cause__
        wraps = type(raised).__name__ == "InterpreterError" or type(cause) is type(raised)
        if cause is None or not (wraps and type(raised).__module__.partition(".")[0] == "triton"):
            break
        raised = cause
    return raised


def _message(raised: BaseException) -> str:
    try:
        text = str(raised)
    except Exception as broken:
        text = f"(its message raised {type(broken).__name__})"
    return _cut(text)


_UNKNOWN_KEYWORD = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")


def _near_name(raised: BaseException) -> str:
    """Return a name like the one that nothing defines, of those at its line; or ''."""
    link = raised.__traceback__
    if not isinstance(raised, NameError) or link is None:
        return ""
    while link.tb_next is not None:
        link = link.tb_next
    names = [*link.tb_frame.f_locals, *link.tb_frame.f_globals]
    return next(iter(get_close_matches(str(raised.name), names, 1, _ALIKE)), "")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT // 2]} … {text[-_MOST_TEXT // 2 :]}"


def _verdict(raised: BaseException, *, loading: bool, from_submission: bool) -> Any:
    message = _message(raised)
    if isinstance(raised, MemoryError) or "out of memory" in message or "can't allocate memory" in message:
        return "oom"
    if loading:
        return "invalid_submission"
    if isinstance(raised, NotImplementedError) and from_submission:
        return "not_implemented"
    if any(kind.__name__ in _COMPILE_ERRORS for kind in type(raised).__mro__):
        return "compile_error"
    return "crash"
