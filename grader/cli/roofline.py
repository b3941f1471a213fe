"""The roofline section of `grade profile`.

It shows bytes counted in the interpreter, and the times that follow from them on GPUs known by name. Where Nsight
Compute can count, it also shows the bytes that this machine's GPU moved in one call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from grader import machine
from grader.cli.say import say
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part
from grader.gpus import ARCHITECTURES, restrictions, why_unknown
from grader.record.checks import CheckResult
from grader.record.work import Prediction, Work
from grader.report import speed as timing
from grader.report.efficiency import EfficiencyView, TimeRow, amount, efficiency_view
from grader.report.text.efficiency_lines import PredictedGpus, Section
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.speed import counters
from grader.speed.counters import Counters, LaunchCounters
from grader.speed.lock import GpuLock
from grader.speed.prediction import CORE_SHARE, DRAM_SHARE, LAUNCH_US, TENSOR_SHARE, CountedPart

_SEED = 1
_TYPES = ("float16", "tf32", "float32")
_MIB = 1 << 20


@dataclass(frozen=True)
class Roofline:
    """The roofline of one part.

    work, predictions: as in a record (docs/result.md). why: why nothing was counted, or empty. counters: of the GPU,
    for the longest of the predicted sizes; None if there are none.
    """

    part: str
    title: str
    work: tuple[Work, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    why: str = ""
    counters: Counters | None = None


def rooflines(entry: Entry, path: str, source: str, parts: Sequence[Part], *, quiet: bool) -> tuple[Roofline, ...]:
    """Count in the interpreter and predict; on a GPU, also ask Nsight Compute."""
    if not quiet:
        say("Counting in the interpreter …", sys.stderr)
    found = _predicted(entry, path, source, parts)
    if not machine.has_gpu():
        return found
    executable = counters.find()
    if executable is None:
        why = f"ncu is not installed: {counters.HOW_TO_GET}"
        return tuple(replace(one, counters=Counters(one.part, "", why=why)) for one in found)
    if not quiet:
        say("Counting on the GPU …", sys.stderr)
    return _counted_on_gpu(entry, source, executable, found)


def _predicted(entry: Entry, path: str, source: str, parts: Sequence[Part]) -> tuple[Roofline, ...]:
    with closing(ForkServer("interpret")) as server:
        # Hypothesis and torch load here, while the fork server loads them as well.
        from grader.exercise import plan
        from grader.grading import Job, grade

        names = frozenset(part.name for part in parts)
        drawn = plan.draw(entry.exercise, plan.default_seed(entry.id), WHOLE_CPU, parts=names)
        counting = replace(drawn, checks=tuple(one for one in drawn.checks if one.check.rule.counts_bytes))
        job = Job(entry, path, source, counting, "", "", shrink=False, timed=False, compiled=False)
        checks = grade(job, server).checks
    found = []
    for part in parts:
        own = [check for check in checks if check.part == part.name]
        work = tuple(work for check in own for work in check.work)
        predictions = tuple(one for band in part.speed_bands for one in CountedPart(band, work).on_paper())
        reasons = (check.reason for check in own if check.reason)
        why = "" if work else next(reasons, "no check of this part counts bytes")
        found.append(Roofline(part.name, part.title, work, predictions, why))
    return tuple(found)


def _counted_on_gpu(entry: Entry, source: str, executable: str, found: Sequence[Roofline]) -> tuple[Roofline, ...]:
    longest = {one.part: max(one.predictions, key=lambda each: each.time_us) for one in found if one.predictions}
    calls = [(part, Case(longest[part.name].case), _SEED) for part in entry.exercise.parts if part.name in longest]
    gpu = machine.find_gpu()
    lock = GpuLock(gpu.uuid if gpu else "unknown")
    with closing(ForkServer("gpu")) as server, lock.exclusive():
        answers = {one.part: one for one in counters.count(ProcessSpec.of(server, entry, source), executable, calls)}
    return tuple(replace(one, counters=answers.get(one.part)) for one in found)


# -- showing ---------------------------------------------------------------------------------------------------------


def show(found: Sequence[Roofline], stream: object, look: tuple[bool, bool, int]) -> None:
    """Print the section as this terminal can show it; look: colour, ASCII only, width."""
    from grader.report.text import terminal

    colour, ascii_only, width = look
    gpu = machine.find_gpu()
    known = roofs(gpu.capability if gpu else "")
    text = terminal.render_rooflines(
        [section(one) for one in found], known, width=width, colour=colour, ascii_only=ascii_only
    )
    print(text, file=stream)  # type: ignore[call-overload]


def section(one: Roofline) -> Section:
    """Return the section of one part."""
    check = CheckResult(one.part, one.part, "", "", "pass", 0, 0, work=one.work, predictions=one.predictions)
    view = efficiency_view(check)
    notes = [one.why] if one.why else []
    counted = one.counters
    if counted is not None and counted.why:
        notes.append(f"No counters of the GPU: {counted.why}")
    elif counted is None and one.work:
        notes.append("No counters of the GPU: none is used here.")
    launches = counted.launches if counted else ()
    if launches and counted:
        notes.append(_beside_prediction(one, counted))
    if counted is not None and counted.unreplayed:
        notes.append(f"The call was not replayed, so its own process was counted: {counted.unreplayed}.")
    return Section(
        title=one.title,
        view=_marked(view, one.predictions) if view else None,
        caption=f"counted by the GPU itself (ncu), {counted.words}" if launches and counted else "",
        heads=tuple(_COUNTED),
        launches=tuple(tuple(cell(launch) for cell in _COUNTED.values()) for launch in launches),
        notes=tuple(notes),
    )


def percent(name: str) -> Callable[[LaunchCounters], str]:
    """Return a function that shows a metric of a launch as a share: "93%", or a dash where it was not counted."""
    return lambda one: f"{one.metrics[name]:.0f}%" if name in one.metrics else timing.NONE


def _amount(name: str) -> Callable[[LaunchCounters], str]:
    return lambda one: amount(round(one.metrics[name])) if name in one.metrics else timing.NONE


_COUNTED: dict[str, Callable[[LaunchCounters], str]] = {
    "kernel": lambda one: one.kernel[:40],
    "time": lambda one: timing.duration(one.time_us or 0),
    "DRAM read, bytes": _amount(counters.READ),
    "written, bytes": _amount(counters.WRITTEN),
    "of DRAM": percent(counters.DRAM),
    "of SM": percent(counters.SM),
    "tensor pipe": percent(counters.TENSOR),
    "tensor instructions": _amount(counters.TENSOR_INSTRUCTIONS),
}


def _beside_prediction(one: Roofline, counted: Counters) -> str:
    """Return a sentence that compares the counted DRAM bytes with the predicted ones."""
    known = [launch.dram_bytes for launch in counted.launches if launch.dram_bytes is not None]
    predicted = next((each.bytes for each in one.predictions if each.words == counted.words), 0)
    if len(known) < len(counted.launches) or predicted <= 0:
        return "The DRAM bytes were not counted."
    ratio = sum(known) / predicted
    return f"{amount(round(sum(known)))} bytes of DRAM, {ratio:.2f} times the predicted {amount(predicted)}."


def _marked(view: EfficiencyView, predictions: Sequence[Prediction]) -> EfficiencyView:
    """Return the view with a mark at times whose bytes all fit into that GPU's L2 cache."""
    l2 = {gpu.name: gpu.l2_bytes for row in ARCHITECTURES.values() for gpu in row.gpus}
    fits = {(one.words, one.gpu) for one in predictions if one.bytes <= l2.get(one.gpu, 0)}
    sizes = dict.fromkeys(one.words for one in predictions)

    def marked(row: TimeRow, size: str) -> TimeRow:
        cells = zip(view.gpus, row.times, strict=True)
        times = tuple((f"{time}*" if (size, gpu) in fits else time, bound) for gpu, (time, bound) in cells)
        return replace(row, times=times)

    return replace(view, times=tuple(marked(row, size) for row, size in zip(view.times, sizes, strict=False)))


def roofs(capability: str = "") -> PredictedGpus:
    """Return the published ceilings, and the predictions' assumptions. capability: that of this machine's GPU."""
    unknown = why_unknown(capability)
    rows = tuple(
        (
            gpu.name,
            f"{gpu.dram_tbps:g}",
            *(f"{gpu.tflops[name]:g}" if name in gpu.tflops else timing.NONE for name in _TYPES),
            f"{gpu.l2_bytes // _MIB}",
        )
        for row in ARCHITECTURES.values()
        for gpu in row.gpus
    )
    return PredictedGpus(
        ("published", "TB/s", "float16 TFLOP/s", "tf32", "float32", "L2, MiB"),
        rows,
        (
            f"Predictions use {DRAM_SHARE:.0%} of the bandwidth, {TENSOR_SHARE:.0%} of the tensor cores, "
            f"{CORE_SHARE:.0%} of float32, and {LAUNCH_US:g} µs for each launch: docs/efficiency.md",
            *(f"{row.name}: {'; '.join(said)}" for row in ARCHITECTURES.values() if (said := restrictions(row))),
            "* all bytes fit into the L2 cache: a call whose inputs are still there takes less",
            *([unknown] if unknown else []),
        ),
    )
