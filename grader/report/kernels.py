"""Describe a part's compiled kernels: rows for tables, findings, and missing ones. Pure: it takes a record's part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.gpus import USUAL, named
from grader.phrases import counted, kib
from grader.record.checks import PartInfo
from grader.record.kernels import CompiledKernel
from grader.record.record import Environment
from grader.report import view
from grader.report.status import StatusMark

NONE = "–"

_CANNOT_RUN = StatusMark("✗", "x", "cannot run", "bad")
_COULD_BE_BETTER = StatusMark("!", "!", "could be better", "part")
_FATAL = frozenset({"compile_error", "shared_memory", "tensor_memory"})


@dataclass(frozen=True)
class KernelRow:
    """One kernel in one configuration, compiled for one GPU.

    configuration: the settings that differ between the kernel's rows; empty if none does.
    """

    target: str
    configuration: str
    compiled: bool
    registers: str
    spills: str
    shared: str
    programs: str
    occupancy: str
    limited_by: str
    tensor_cores: str
    copies: str
    loads: str
    stores: str
    seconds: str


@dataclass(frozen=True)
class KernelView:
    """A kernel of the submission and all its compiled forms. common: the settings that all rows share."""

    title: str
    common: str
    case: str
    rows: tuple[KernelRow, ...]


@dataclass(frozen=True)
class CompiledName:
    """A kernel, and the settings that tell it from other configurations for the same GPU."""

    name: str
    line: int
    chosen: str


@dataclass(frozen=True)
class KernelNote:
    """Findings about one kernel, with all GPUs that they hold for."""

    look: StatusMark
    targets: str
    kernel: str
    text: str


def kernels(part: PartInfo) -> tuple[KernelView, ...]:
    """Return the part's kernels with their rows, in launch order."""
    return tuple(_kernel(list(group)) for group in _by_kernel(part.kernels))


def kernel_notes(part: PartInfo) -> tuple[KernelNote, ...]:
    """Return the part's findings, fatal ones first.

    The same finding for several GPUs, or for several configurations, appears once, with the GPUs or the number of
    configurations. Findings about the same kernel and GPUs share a line.
    """
    targets: dict[tuple[bool, CompiledName, str], list[str]] = {}
    for group in _by_kernel(part.kernels):
        each_once = len({one.target for one in group}) == len(group)
        differing = frozenset() if each_once else _differing(group)
        for one in group:
            for finding in one.findings:
                # An autotuner only tries a configuration and passes over those that do not work.
                fatal = finding.kind in _FATAL and not one.configurations
                place = f" (line {finding.line})" if finding.kind == "compile_error" and finding.line else ""
                key = not fatal, _named(one, differing), f"{view.line(finding.text)}{place}"
                targets.setdefault(key, []).append(view.line(one.target, 20))
    lines: dict[tuple[bool, str, CompiledName], list[str]] = {}
    # Stable: fatal ones first, the others in their order.
    for (mild, kernel, text), where in sorted(targets.items(), key=lambda item: item[0][0]):
        lines.setdefault((mild, ", ".join(dict.fromkeys(where)), kernel), []).append(text)
    alike: dict[tuple[bool, str, str, int, str], list[CompiledName]] = {}
    for (mild, where_all, kernel), texts in lines.items():
        alike.setdefault((mild, where_all, kernel.name, kernel.line, "; ".join(texts)), []).append(kernel)
    return tuple(
        KernelNote(_COULD_BE_BETTER if mild else _CANNOT_RUN, where_all, _together(names), text)
        for (mild, where_all, _, _, text), names in alike.items()
    )


def missing(part: PartInfo) -> tuple[tuple[str, str], ...]:
    """Return (GPUs, the reason why their kernels are missing), one entry per reason."""
    reasons: dict[str, list[str]] = {}
    for target, why in part.uncompiled.items():
        reasons.setdefault(view.line(why), []).append(view.line(target, 20))
    return tuple((", ".join(targets), why) for why, targets in reasons.items())


def shown_target(env: Environment) -> str:
    """Return the architecture to show where there is room for one.

    It is this machine's GPU, the usual one without a GPU, and '' if the driver did not tell.
    """
    return named(env.capability) if env.capability else USUAL.name


def sentence(row: KernelRow) -> str:
    """Return one row as a phrase: "174 registers, 224 KiB shared, occupancy 12.5%, wgmma × 4"."""
    if not row.compiled:
        return "does not compile"
    pieces = [f"{row.registers} registers"]
    pieces += [f"{row.spills} spilled"] if row.spills != NONE else []
    pieces += [f"{row.shared} shared"] if row.shared != "0" else []
    pieces += [f"occupancy {row.occupancy}"]
    pieces += [piece for piece in (row.tensor_cores, row.copies) if piece not in (NONE, "none")]
    pieces += [f"loads {row.loads}"] if row.loads != NONE and row.copies == NONE else []
    return ", ".join(pieces)


def _by_kernel(compiled: Iterable[CompiledKernel]) -> list[list[CompiledKernel]]:
    groups: dict[tuple[str, int, str], list[CompiledKernel]] = {}
    for one in compiled:
        groups.setdefault((one.kernel, one.line, one.case), []).append(one)
    return list(groups.values())


def _kernel(group: list[CompiledKernel]) -> KernelView:
    differing = _differing(group)
    first = group[0]
    common = {name: value for name, value in _settings(first).items() if name not in differing}
    place = f", line {first.line}" if first.line else ""
    tried = f", 1 of {first.configurations} configurations" if first.configurations and len(group) <= 3 else ""
    return KernelView(
        title=f"{view.line(first.kernel, 80)}{place}{tried}",
        common=_words(common),
        case=view.line(first.case, 200),
        rows=tuple(_row(one, differing) for one in group),
    )


def _settings(one: CompiledKernel) -> dict[str, str]:
    """Return a launch's settings: block sizes and switches, warps, stages."""
    chosen = {view.line(name, 40): str(value) for name, value in one.constants.items()}
    return {**chosen, "warps": str(one.num_warps), "stages": str(one.num_stages)}


def _differing(group: Iterable[CompiledKernel]) -> frozenset[str]:
    """Return the names of settings that differ between the kernels."""
    settings = [_settings(one) for one in group]
    names = {name for one in settings for name in one}
    return frozenset(name for name in names if len({one.get(name) for one in settings}) > 1)


def _words(settings: dict[str, str]) -> str:
    """Return settings as a learner writes them: "BLOCK_M=128, 8 warps"."""
    numbers = {"warps": "warp", "stages": "stage"}
    chosen = [f"{name}={value}" for name, value in settings.items() if name not in numbers]
    counts = [counted(int(settings[name]), noun) for name, noun in numbers.items() if name in settings]
    return ", ".join([*chosen, *counts])


def _named(one: CompiledKernel, differing: frozenset[str]) -> CompiledName:
    chosen = _words({name: value for name, value in _settings(one).items() if name in differing})
    return CompiledName(view.line(one.kernel, 80), one.line, chosen)


def _together(names: Sequence[CompiledName]) -> str:
    """Return a kernel's name with its line, and its configuration or the number of configurations."""
    first = names[0]
    which = first.chosen if len(names) == 1 else f"{len(names)} configurations"
    place = "; ".join(filter(None, (f"line {first.line}" if first.line else "", which)))
    return f"{first.name}{f' ({place})' if place else ''}"


def _row(one: CompiledKernel, differing: frozenset[str]) -> KernelRow:
    chosen = {name: value for name, value in _settings(one).items() if name in differing}
    fit = one.occupancy
    spilled = one.spill_store_bytes or one.spill_load_bytes
    no_dot = NONE if not one.dots else "none"
    return KernelRow(
        target=view.line(one.target, 20),
        configuration=_words(chosen),
        compiled=fit is not None,
        registers=str(one.registers) if one.registers else NONE,
        spills=f"{spilled} B" if spilled else NONE,
        shared=_size(one.shared_bytes) if fit else NONE,
        programs=str(fit.programs) if fit else NONE,
        occupancy=f"{100 * fit.share:.3g}%" if fit else NONE,
        limited_by=view.line(fit.limited_by, 80).replace("shared memory", "shared").replace(" and ", ", ")
        if fit
        else NONE,
        tensor_cores=_counted(one.tensor_cores) or (no_dot if fit else NONE),
        copies=_counted(one.copies) or NONE,
        loads=_widths(one.loads) or NONE,
        stores=_widths(one.stores) or NONE,
        seconds=f"{one.compile_s:.1f} s",
    )


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} B" if size else "0"
    return kib(size)


# The names that kernel authors use.
_SHORT_NAMES = {
    "mma.sync": "mma",
    "wgmma.mma_async": "wgmma",
    "tcgen05.mma": "tcgen05",
    "cp.async.bulk.tensor": "TMA",
    "cp.async.bulk": "bulk",
}


def _counted(instructions: dict[str, int]) -> str:
    return ", ".join(f"{_SHORT_NAMES.get(name, view.line(name, 40))} × {count}" for name, count in instructions.items())


def _widths(accesses: dict[str, int]) -> str:
    """Return instruction counts by bytes per access, the most frequent first: "16 B × 72, 2 B × 1"."""
    commonest = sorted(accesses.items(), key=lambda entry: -entry[1])
    return ", ".join(f"{view.line(width, 8)} B × {count}" for width, count in commonest)
