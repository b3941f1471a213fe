"""Set a learner's parts beside those of the model solution: what each costs, the author's words, and the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grader.definitions import spans_of
from grader.gpus import USUAL
from grader.record.checks import CheckResult, PartInfo
from grader.record.work import Prediction, Work
from grader.report import speed as timing
from grader.report import view
from grader.report.efficiency import amount
from grader.report.page.templates import page_environment
from grader.syntax import lines_in
from grader.text import disarmed_markup

# Kernels of a part whose registers are shown.
_MOST_KERNELS = 6


@dataclass(frozen=True)
class Solved:
    """A solution: its text, its results, and its parts with their kernels, as far as they are known."""

    source: str
    checks: tuple[CheckResult, ...] = ()
    parts: tuple[PartInfo, ...] = ()

    def checks_of(self, part: str) -> tuple[CheckResult, ...]:
        """Return the results of a part."""
        return tuple(check for check in self.checks if check.part == part)


@dataclass(frozen=True)
class CostRow:
    """One cost of a part, of both solutions, as words."""

    name: str
    own: str
    model: str


@dataclass(frozen=True)
class PartBeside:
    """A part of both solutions. case: the call that the costs are of. own, model: the code that the part is made of."""

    title: str
    case: str
    costs: tuple[CostRow, ...]
    commentary: str
    own: str
    model: str


def beside(
    own: Solved, model: Solved, commentary: Mapping[str, str], *, target: str = USUAL.name
) -> tuple[PartBeside, ...]:
    """Return the parts of the model solution beside the learner's.

    commentary: the author's sentences, by part. target: the architecture whose registers are compared.
    """
    return tuple(_part(own, model, part, commentary.get(part.name, ""), target) for part in model.parts)


def _part(own: Solved, model: Solved, part: PartInfo, commentary: str, target: str) -> PartBeside:
    own_checks, model_checks = own.checks_of(part.name), model.checks_of(part.name)
    registers = _registers(own, part.name, target), _registers(model, part.name, target)
    most = _largest(model_checks)
    return PartBeside(
        title=part.title,
        case=timing.length_words([most])[0] if most else "",
        costs=(
            *(_of_work(own_checks, most) if most else ()),
            *((CostRow(f"registers per thread, {target}", *registers),) if registers[1] != timing.NONE else ()),
            *_of_times(own_checks, model_checks),
        ),
        commentary=" ".join(commentary.split()),
        own=code_of(own.source, part.name),
        model=code_of(model.source, part.name),
    )


def render(title: str, parts: Iterable[PartBeside]) -> str:
    """Return the page: self-contained, without a script."""
    environment = page_environment()
    environment.filters["line"] = view.line
    environment.filters["block"] = lambda text: view.block(text, 60_000)
    return disarmed_markup(environment.get_template("beside.html.j2").render(title=title, parts=tuple(parts)))


# -- costs -----------------------------------------------------------------------------------------------------------


def _largest(checks: Iterable[CheckResult]) -> Work | None:
    """Return the call that moves most."""
    return max(
        (work for check in checks for work in check.judged_work), key=lambda work: work.moved_bytes, default=None
    )


def _of_work(own: Iterable[CheckResult], most: Work) -> tuple[CostRow, ...]:
    """Return launches and bytes of a call; a dash stands for what the learner's record lacks."""
    mine = next((work for check in own for work in check.judged_work if work.case == most.case), None)
    yours, theirs = _amounts(mine) if mine else (timing.NONE,) * len(_COUNTED), _amounts(most)
    return tuple(CostRow(*row) for row in zip(_COUNTED, yours, theirs, strict=True))


_COUNTED = ("launches", "bytes moved", "bytes of extra memory")


def _amounts(work: Work) -> tuple[str, ...]:
    return tuple(amount(count) for count in (work.launches, work.moved_bytes, work.extra_bytes))


def _registers(solved: Solved, part: str, target: str) -> str:
    """Return the registers of each kernel in launch order, a dash without any. The most of several forms counts."""
    info = next((one for one in solved.parts if one.name == part), None)
    most: dict[str, int] = {}
    for kernel in info.kernels if info else ():
        if kernel.target == target and kernel.occupancy is not None:
            most[kernel.kernel] = max(kernel.registers, most.get(kernel.kernel, 0))
    return ", ".join(map(str, list(most.values())[:_MOST_KERNELS])) or timing.NONE


def _of_times(own: Sequence[CheckResult], model: Sequence[CheckResult]) -> list[CostRow]:
    """Return the predicted time of the size that takes longest on the first GPU."""
    known = _predictions(model)
    if not known:
        return []
    longest = max((one for one in known if one.gpu == known[0].gpu), key=lambda one: one.time_us)
    mine = next((one for one in _predictions(own) if (one.gpu, one.case) == (longest.gpu, longest.case)), None)
    name = f"predicted on {view.line(longest.gpu, 40)} at {timing.length_words([longest])[0]}"
    return [CostRow(name, timing.duration(mine.time_us) if mine else timing.NONE, timing.duration(longest.time_us))]


def _predictions(checks: Iterable[CheckResult]) -> list[Prediction]:
    return [
        one
        for check in checks
        for one in check.predictions
        if one.ceilings == "published" and timing.usable(one.time_us)
    ]


# -- code ------------------------------------------------------------------------------------------------------------


def code_of(source: str, part: str) -> str:
    """Return the part's function and all definitions of the file that it reaches; '' without any."""
    lines = lines_in(source)
    return "\n\n".join("\n".join(lines[first - 1 : last]) for first, last in spans_of(source, part))
