"""Renders docs/accuracy.md from the results of a run. Pure: text in, text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from benchmarks.accuracy.results import Result
from benchmarks.markdown import table

INTRODUCTION = """\
# How accurate the grader is

This page measures how often the grader catches a small mistake, and how often it refuses honest code. Made by
`tox -e accuracy`; do not edit.

A mutant is a model solution with one small change, graded with the default plan. It is caught if it fails a check or
loses points; grading stops there. Only the parts that the change can reach are judged. Nothing is shrunk or timed, so a
change that only makes the kernel slower survives. Mutants that do not load are not counted.

*Fixed shape* is the usual protocol for generated kernels: five normal inputs of one shape (the first named case of
the part's first check), and `torch.allclose` with atol = rtol = 1e-2 (1e-4 in float32). Every block often divides that
shape, as in benchmarks. Another shape would catch more masks and miss other mistakes. Here the truth is in float64,
outputs are poisoned before the call, and accesses outside a tensor are not executed. So fixed shape sees values only.

A survivor is *equivalent* if `benchmarks/accuracy/equivalent.json` explains why no answer can tell it from the
solution. Every other survivor is a gap; `benchmarks/accuracy/gaps.json` may explain it. *Not run* means that no case
reaches the changed line on that machine: an error in front of the line survives too. (Solutions have kernels for large
problems that a CPU never launches.) Rates leave out equivalent mutants and those not run. The sample is spread evenly
over the operators, not in proportion to the mistakes that learners make.
"""

PLANTED = """\
### Planted mistakes

The mistakes in `wrong/` are graded like a learner's file, up to the first failing check. `grade check` also requires
that the named check alone catches each mistake, with the default plan.

"""

_MACHINES = {"interpret": "On a CPU", "gpu": "On a GPU"}


def report(results: Sequence[Result], equivalent: Mapping[str, str], missed: Mapping[str, str] | None = None) -> str:
    """Return the whole page.

    By `Result.change`: `equivalent` gives reasons why changes make no difference; `missed` gives reasons why other
    changes are not caught.
    """
    sections = [INTRODUCTION]
    for where, title in _MACHINES.items():
        if found := [one for one in results if one.where == where]:
            sections += [f"## {title}\n", *_machine(found, equivalent, missed or {})]
    return "\n".join(sections)


def _machine(results: Sequence[Result], equivalent: Mapping[str, str], missed: Mapping[str, str]) -> Iterator[str]:
    """Yield the results of one kind of machine."""
    mutants = [one for one in results if one.kind == "mutant" and one.status != "discarded"]
    discarded = sum(one.kind == "mutant" and one.status == "discarded" for one in results)
    honest = [one for one in results if one.kind == "honest"]
    if mutants:
        yield "### Caught, by exercise\n\n" + _rates("exercise", mutants, equivalent, lambda one: one.exercise)
        yield f"{len(mutants)} mutants, {discarded} more discarded. Median grading: {_median(mutants):.1f} s.\n"
        yield "### Caught, by operator\n\n" + _rates("operator", mutants, equivalent, lambda one: one.operator)
        yield "### Which check caught them first\n\n" + _checks(mutants)
        yield "### Survivors\n\n" + _survivors(mutants, equivalent, missed)
    yield "### Honest gradings\n\n" + _honest(honest)
    if planted := [one for one in results if one.kind == "planted"]:
        yield PLANTED + _planted(planted)


def gaps(results: Iterable[Result], equivalent: Mapping[str, str]) -> list[Result]:
    """Return the survivors that some answer can tell from the solution, or that nobody has explained."""
    return [one for one in results if _counts(one, equivalent) and not one.caught]


def _counts(one: Result, equivalent: Mapping[str, str]) -> bool:
    """Whether a result is of a mutant that could be caught."""
    if one.kind != "mutant" or one.status in ("discarded", "not_run"):
        return False
    return one.caught or one.change not in equivalent


def _rates(title: str, mutants: Sequence[Result], equivalent: Mapping[str, str], group: Callable[[Result], str]) -> str:
    rows = []
    for name in [*sorted({group(one) for one in mutants}), "all"]:
        members = [one for one in mutants if name in (group(one), "all")]
        counted = [one for one in members if _counts(one, equivalent)]
        idle = sum(one.status == "not_run" for one in members)
        compared = [one for one in counted if one.fixed is not None]
        rows.append(
            (
                name,
                str(len(members)),
                str(len(members) - len(counted) - idle),
                str(idle),
                _share(sum(one.caught for one in counted), len(counted)),
                _share(sum(one.fixed is True for one in compared), len(compared)),
            )
        )
    return table((title, "mutants", "equivalent", "not run", "caught by grade", "caught by fixed shape"), rows)


def _checks(mutants: Sequence[Result]) -> str:
    caught = Counter((f"{one.exercise} {one.check}", one.status) for one in mutants if one.caught)
    missed = Counter(
        (f"{one.exercise} {one.check}", one.status) for one in mutants if one.caught and one.fixed is False
    )
    rows = [
        (check, status, str(count), str(missed[check, status]))
        for (check, status), count in sorted(caught.items(), key=lambda one: (-one[1], one[0]))
    ]
    return table(("check", "status", "mutants", "of these missed by fixed shape"), rows)


def _survivors(mutants: Sequence[Result], equivalent: Mapping[str, str], missed: Mapping[str, str]) -> str:
    rows = [
        (
            f"{one.exercise} {one.function}:{one.line}",
            one.operator,
            _code(one.before),
            _code(one.after),
            "caught" if one.fixed else "missed",
            _reason(one, equivalent, missed),
        )
        for one in mutants
        if not one.caught and one.status != "not_run"
    ]
    return table(("place", "operator", "before", "after", "fixed shape", "why"), rows) if rows else "None.\n"


def _reason(one: Result, equivalent: Mapping[str, str], missed: Mapping[str, str]) -> str:
    if one.status == "grader_error":
        return f"the grader failed: {one.why}".replace("|", "\\|")
    if one.change in equivalent:
        return f"equivalent: {equivalent[one.change]}"
    return f"**a gap**: {missed[one.change]}" if one.change in missed else "**a gap**, not explained"


def _honest(honest: Sequence[Result]) -> str:
    if not honest:
        return "None graded.\n"
    rows = []
    for name in sorted({one.exercise for one in honest}):
        members = [one for one in honest if one.exercise == name]
        failed = [one for one in members if one.status != "pass"]
        files, seeds = {one.file for one in members}, {one.seed for one in members}
        rows.append((name, str(len(files)), str(len(seeds)), str(len(members)), str(len(failed))))
    listed = "".join(f"- {line}\n" for line in _failures(honest))
    return table(("exercise", "files", "seeds", "gradings", "false failures"), rows) + (listed and f"\n{listed}")


def _planted(planted: Sequence[Result]) -> str:
    rows = []
    for name in [*sorted({one.exercise for one in planted}), "all"]:
        members = [one for one in planted if name in (one.exercise, "all")]
        files = {(one.exercise, one.file) for one in members}
        seeds, compared = {one.seed for one in members}, [one for one in members if one.fixed is not None]
        rows.append(
            (
                name,
                str(len(files)),
                str(len(seeds)) if name != "all" else "",
                _share(sum(one.caught for one in members), len(members)),
                _share(sum(one.check == one.claim for one in members), len(members)),
                _share(sum(one.fixed is True for one in compared), len(compared)),
            )
        )
    titles = ("exercise", "files", "seeds", "caught by grade", "first by the check named", "caught by fixed shape")
    missed = "".join(f"- {one.exercise} {one.file}, seed {one.seed:#x}\n" for one in planted if not one.caught)
    return table(titles, rows) + (missed and f"\nMissed:\n\n{missed}")


def _failures(honest: Sequence[Result]) -> Iterator[str]:
    for one in honest:
        if one.status != "pass":
            yield f"{one.exercise} {one.file}, seed {one.seed:#x}: {one.check}: {one.status}: {one.why}"


def _median(mutants: Sequence[Result]) -> float:
    seconds = sorted(one.seconds for one in mutants)
    return seconds[len(seconds) // 2] if seconds else 0.0


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "–"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")
