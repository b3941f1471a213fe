"""Judge by what ran whether the submission's kernels, and nothing else, computed an answer.

Takes the evidence of calls and gives failures: the policy that rules share. It runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from grader.judge.clue import Clue, sure
from grader.judge.evidence import Evidence
from grader.judge.failure import Failure
from grader.phrases import listed
from grader.protocol.operators import READING
from grader.record.causes import Cause
from grader.text import clean

# The kind of a call that is right without memory of earlier calls.
LEFT_OVER = "not_cleared"
# How many operators a failure names.
_MOST_NAMED = 5


def by_evidence(
    evidence: Sequence[Evidence], allowed: Sequence[str], bounds: Mapping[str, str] = MappingProxyType({})
) -> Failure | None:
    """Return the failure of the first call without working kernels, with other computation, or with values read.

    allowed: operators that may run beside kernels. bounds: the bounds of arguments' values, in words.
    """
    for seen in evidence:
        if not (seen.kernels or seen.unrecordable):
            if _computes_nothing(seen, allowed) and _launches_elsewhere(seen, evidence):
                return _empty_grid(seen)
            found = policy_failure(
                "no_kernel",
                "No kernel was launched",
                f"For {seen.case.words()} the function returned an answer without launching a kernel of yours.",
            )
            return replace(found, clues=_remembered_clues(seen, evidence, allowed))
        computing = _computing(seen.operators, allowed)
        # Who does the work comes before how it is launched.
        if seen.idle and not seen.unrecordable and (seen.reads or not computing):
            return _idle_kernels_failure(seen, computing)
        if computing and seen.reads:
            return _reading_failure(seen, computing, bounds)
        if failure := library_failure(f"For {seen.case.words()}", computing):
            return failure
    return None


def library_failure(where: str, operators: Sequence[str], allowed: Sequence[str] = ()) -> Failure | None:
    """Return the failure of a call in which operators computed beside kernels; None without any, or if all may.

    where: the call, as the beginning of a sentence.
    """
    computing = _computing(operators, allowed)
    if not computing:
        return None
    said = f"{where} these ran beside your kernels: {_first_names(computing)}."
    return policy_failure("library_call", "Something besides your kernels computed", said)


def _computing(operators: Sequence[str], allowed: Sequence[str]) -> list[str]:
    """Return the operators that are not allowed. An operator is a name, with its line behind it if that is known."""
    return [name for name in operators if name.partition(" ")[0] not in allowed]


def _idle_kernels_failure(seen: Evidence, computing: Sequence[str]) -> Failure:
    """Return the failure of a call whose kernels get no memory of it."""
    kernels = clean(", ".join(seen.kernels), 200)
    beside = f" These ran beside: {_first_names(computing)}." if computing else ""
    return policy_failure(
        "outside_kernels",
        "Your kernels do none of the work",
        f"For {seen.case.words()}: {kernels} got no argument, no result, and no copy of one.{beside}",
    )


def _reading_failure(seen: Evidence, computing: Sequence[str], bounds: Mapping[str, str]) -> Failure:
    """Return the failure that names the line, the argument, and what to use instead."""
    first = seen.reads[0]
    others = [name for name in computing if name.partition(" ")[0] not in READING]
    of = [clean(name, 40) for name in first.of]
    where = f"line {first.line} of the file" if first.line else "a line of the file"
    what = f" of {' and '.join(f'`{name}`' for name in of)}" if of else " of a tensor"
    beside = f" These ran beside your kernels: {_first_names(others)}." if others else ""
    how = READING[first.name]
    said = f"{where} reads values{what} into Python by `{how}`"
    if how == ".item()":
        said += ", which int(t), float(t), bool(t), `if t` and range(t) do as well"
    rule = "Launch code may use shapes, strides and dtypes, but no values: the CPU would wait for the GPU."
    known = [bounds[name] for name in of if name in bounds]
    by = f"Size grids, loops and buffers by shapes: {'; '.join(known)}." if known else "Size grids and loops by shapes."
    name = of[0] if of else "x"
    cause = Cause(
        "value_read",
        "Launch code reads the values of a tensor",
        f"For {seen.case.words()}: {said}. {rule}{beside}",
        f"{by} Load the value in the kernel: tl.load({name}_ptr + …).",
    )
    return Failure("policy", cause)


def _first_names(names: Sequence[str]) -> str:
    return listed([clean(name, 160) for name in names], _MOST_NAMED)


def _computes_nothing(seen: Evidence, allowed: Sequence[str]) -> bool:
    return not _computing(seen.operators, allowed)


def _launches_elsewhere(seen: Evidence, evidence: Sequence[Evidence]) -> bool:
    """Return whether some calls launch kernels, but none of these sizes."""
    launching = [_sizes(one) for one in evidence if one.kernels]
    return bool(launching) and _sizes(seen) not in launching


def _remembered_clues(seen: Evidence, evidence: Sequence[Evidence], allowed: Sequence[str]) -> tuple[Clue, ...]:
    """Return the clue of a call that computes nothing, where another call of the same sizes launched a kernel."""
    if not _computes_nothing(seen, allowed) or not any(one.kernels and _sizes(one) == _sizes(seen) for one in evidence):
        return ()
    return (
        Clue("remembered_result", 0.9, "Another call of these sizes launched a kernel; this one computed nothing."),
    )


def _sizes(seen: Evidence) -> dict[str, int]:
    return {name: value for name, value in seen.case.items() if isinstance(value, int)}


def _empty_grid(seen: Evidence) -> Failure:
    """Return the failure of a call whose grid has no programs."""
    title = "No program runs for some sizes"
    rationale = f"For {seen.case.words()} no kernel was launched and nothing was computed; in other calls a kernel was."
    advice = "Does the grid round down? triton.cdiv(n, BLOCK) rounds up, and then the last program needs a mask."
    found = policy_failure("no_kernel", title, rationale)
    clue = sure("remainder_skipped", "Some sizes get a grid without programs.", title, advice)
    return replace(found, cause=replace(found.cause, help=advice), clues=(clue,))


def policy_failure(kind: str, title: str, rationale: str) -> Failure:
    """Return the failure of an answer that something besides the kernels computed."""
    help_text = "Let torch allocate, fill, make views and cast the final dtype; do the arithmetic in your kernels."
    return Failure("policy", Cause(kind, title, rationale, help_text))


def why_unrecorded(seen: Evidence) -> str:
    """Return why a call was not replayed, in words."""
    return seen.unrecordable[0] if seen.unrecordable else "a call was not replayed"
