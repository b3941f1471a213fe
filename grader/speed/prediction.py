"""Predict the time of a call on a GPU: interpreter counts, scaled to a size, under the GPU's roofs.

    time = launches × launch + max(DRAM bytes / bandwidth, operations / rate)

If a small copy of the size was counted, the consecutive work of its programs is known too:

    time = launches × launch + max(DRAM bytes / bandwidth, operations / rate, phases + stored bytes / bandwidth)
    phases = products + max(exponentials, everything else) + waits for products

Where lanes lie apart in memory, the L2 cache moves more bytes than DRAM does, and may be the slower one. Where a launch
has a program for at most half of the multiprocessors, bandwidths and rates shrink in the same ratio.

This is no simulation: docs/efficiency.md says how well it does, and where it must fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from grader.errors import SpecError
from grader.exercise.cases import Case, Value
from grader.exercise.formula import evaluate
from grader.exercise.rules import SpeedBand
from grader.gpus import ARCHITECTURES, Architecture, Gpu, known
from grader.record.checks import CheckResult, PartInfo
from grader.record.kernels import CompiledKernel
from grader.record.launches import Grid
from grader.record.speed import Ceilings, SizeTiming, Speed
from grader.record.work import Prediction, Work

# Assumptions, all from one H200 (docs/efficiency.md), and used for every GPU that is not measured.
# Of published peaks no kernel gets more: a long copy 4.25 to 4.5 of 4.8 TB/s, a read-bound product 4.52;
DRAM_SHARE = 0.92
# cuBLAS 772 to 815 of 989 TFLOP/s in float16 and bfloat16 from 4096³ on;
TENSOR_SHARE = 0.80
# and 45 to 51 of 66.9 in true float32.
CORE_SHARE = 0.70
# Start, ramp and tail of a kernel: 512³ takes 6 µs where the roofs alone say 0.4, 2048³ takes 28 where they say 22.
LAUNCH_US = 5.0
# 5,120 bytes in a clock of the L2 cache for the 128 multiprocessors of a whole GA100: NVIDIA A100 Tensor Core GPU
# architecture. Used for every architecture; a GH100 has the same number.
L2_BYTES = 40
# So many sizes of a suite show how the time grows.
_FEW = 4
_ALIKE = 0.05
# Up to this share of the multiprocessors, each gets its share of the bandwidth; more of them may saturate it.
_FEW_BUSY = 0.5


@dataclass(frozen=True)
class Units:
    """The units of a GPU on paper: for work that waits for other work, so that no unit runs into the power limit.

    tflops: of products, by type. special, lanes, dot_clocks: as in Architecture. clocks: of all multiprocessors, by µs.
    """

    tflops: Mapping[str, float]
    special: int
    lanes: int
    dot_clocks: int
    clocks: float

    def phases_us(self, work: Work, dtype: str) -> float:
        """Return the time of a call whose products, exponentials and other operations do not overlap."""
        products_us = work.flops / (self.tflops.get(dtype, self.tflops["float32"]) * 1e6)
        # An exponential takes one instruction of its warp, like any other operation, and its own units longer.
        vector = max(work.exponentials / self.special, (work.exponentials + work.operations) / self.lanes)
        return products_us + (vector + work.dots * self.dot_clocks) / self.clocks


def units_of(gpu: Gpu, architecture: Architecture) -> Units:
    """Return the units of a GPU. Without tensor cores for Triton, products run on the CUDA cores."""
    kinds = gpu.tflops if architecture.triton_tensor_cores else {"float32": gpu.tflops["float32"]}
    clocks = gpu.multiprocessors * architecture.sm_mhz
    return Units(kinds, architecture.special, architecture.lanes, architecture.dot_clocks, clocks)


@dataclass(frozen=True)
class Roofs:
    """The rates to expect of a GPU: TB/s, TFLOP/s by type ("float32": outside tl.dot too), µs for a launch.

    lacks: types that it does not compute in; nothing is predicted for these. units: None for an unknown architecture.
    multiprocessors: 0 if they are unknown. target: the compilers' name of the architecture.
    """

    gpu: str
    dram_tbps: float
    tflops: dict[str, float]
    ceilings: Literal["published", "measured"]
    launch_us: float = LAUNCH_US
    lacks: tuple[str, ...] = ()
    units: Units | None = None
    multiprocessors: int = 0
    target: str = ""

    def rate(self, dtype: str) -> float:
        """Return the TFLOP/s with this type; for an unknown type, the fastest rate."""
        return self.tflops.get(dtype) or max(self.tflops.values(), default=0.0)


def published_roofs(gpu: Gpu, architecture: Architecture) -> Roofs:
    """Return the roofs of a GPU on paper, less an assumed loss.

    Without tensor cores for Triton, everything runs on the CUDA cores.
    """
    cores = {"float32": gpu.tflops["float32"] * CORE_SHARE}
    tensor = {name: rate * TENSOR_SHARE for name, rate in gpu.tflops.items() if architecture.triton_tensor_cores}
    return Roofs(
        gpu=gpu.name,
        dram_tbps=gpu.dram_tbps * DRAM_SHARE,
        tflops={**tensor, **cores},
        ceilings="published",
        lacks=architecture.lacks,
        units=units_of(gpu, architecture),
        multiprocessors=gpu.multiprocessors,
        target=architecture.name,
    )


def measured_roofs(gpu: str, ceilings: Ceilings, capability: str = "") -> Roofs:
    """Return the roofs of a GPU whose ceilings were measured: nothing is taken off.

    Its units are those of the GPU that stands for its compute capability.
    """
    architecture = known(capability)
    units = units_of(architecture.gpu, architecture) if architecture else None
    multiprocessors = architecture.gpu.multiprocessors if architecture else 0
    target = architecture.name if architecture else ""
    return Roofs(
        gpu,
        ceilings.copy_tbps,
        dict(ceilings.tflops),
        "measured",
        units=units,
        multiprocessors=multiprocessors,
        target=target,
    )


_NOTHING_COMPILED = PartInfo("", "")


@dataclass(frozen=True)
class CountedPart:
    """Hold what predicts the times of a part: the work that the interpreter counted on some of its cases.

    band: the rule on its speed. compiled: its grids and kernels, if they are known.
    """

    band: SpeedBand
    counted: Sequence[Work]
    compiled: PartInfo = _NOTHING_COMPILED

    def predict(self, roofs: Roofs, case: Mapping[str, Value], words: str) -> Prediction | None:
        """Return the time of one size from counts on other cases.

        None if no counted case is usable, or if the GPU does not compute in the size's type. The DRAM bytes are the
        size's compulsory bytes, scaled by the counted case's unique bytes over its compulsory bytes. The operations are
        those that the size needs; with a small copy of it, those that the copy did, scaled.
        """
        work = self._nearest(case)
        if work is None or case.get("dtype") in roofs.lacks:
            return None
        scale = _formula_value(self.band.bytes, case) / _formula_value(self.band.bytes, work.case)
        nbytes = work.unique_bytes * scale
        needed, counted_needs = (_formula_value(self.band.flops, one) for one in (case, work.case))
        times = needed / counted_needs if needed and counted_needs else scale
        flops = work.flops * times if work.models_size else needed or work.flops * scale
        # What no tl.dot multiplies runs on the ordinary cores, whatever its type.
        dtype = str(case.get("dtype", "")) if work.flops else "float32"
        grid = _grid_of(case, self.compiled.grids)
        busy = _busy_share(roofs, grid)
        rate = roofs.rate(dtype) * busy
        memory_us = nbytes / (roofs.dram_tbps * busy * 1e6) if roofs.dram_tbps > 0 else 0.0
        compute_us = flops / (rate * 1e6) if rate > 0 else 0.0
        # Few rows hide how far apart the elements of a column lie.
        same_type = [one for one in self.counted if one.case.get("dtype") == case.get("dtype")]
        farthest = max(same_type or self.counted, key=lambda one: one.sector_ratio)
        if roofs.units and farthest.sector_ratio > 1:
            memory_us = max(memory_us, nbytes * farthest.sector_ratio / (L2_BYTES * roofs.units.clocks * busy))
        if work.models_size and roofs.units:
            # A program stores its result when it has computed it.
            stores_us = memory_us * max(work.unique_stored_bytes, 0) / work.unique_bytes
            compute_us = max(compute_us, roofs.units.phases_us(work, dtype) * times / busy + stores_us)
        launch_us = work.launches * roofs.launch_us
        terms: tuple[tuple[float, Literal["memory", "compute", "launch"]], ...] = (
            (memory_us, "memory"),
            (compute_us, "compute"),
            (launch_us, "launch"),
        )
        return Prediction(
            gpu=roofs.gpu,
            case=dict(case),
            words=words,
            time_us=float(f"{launch_us + max(memory_us, compute_us):.5g}"),
            # The first of equal terms.
            bound=max(terms, key=lambda term: term[0])[1],
            bytes=round(nbytes),
            flops=round(flops),
            ceilings=roofs.ceilings,
            programs=grid.programs if grid else -1,
            remarks=(*_remarks(roofs, grid, busy, self.compiled), *_apart_words(farthest)),
        )

    def _nearest(self, case: Mapping[str, Value]) -> Work | None:
        """Return the small copy of the size's type that shares most values with it, else the largest case of that type.

        Without any of that type, the largest case of all. In the largest case, bytes beyond inputs and results weigh
        least. Cases that the band's formula does not know, and calls without a launch, are not used.
        """
        needed = [
            (work, _formula_value(self.band.bytes, work.case))
            for work in self.counted
            if work.launches and work.unique_bytes
        ]
        usable = [(work, nbytes) for work, nbytes in needed if nbytes > 0]
        alike = [(work, nbytes) for work, nbytes in usable if work.case.get("dtype") == case.get("dtype")]
        copies = [work for work, _ in alike if work.models_size]
        if copies:
            return max(copies, key=lambda work: sum(work.case.get(axis) == value for axis, value in case.items()))
        largest = max(alike or usable, key=lambda pair: pair[1], default=None)
        return largest[0] if largest else None

    def on_paper(self) -> tuple[Prediction, ...]:
        """Return predictions for a few sizes of the suite, shortest first, each on every GPU known by name."""
        gpus = [published_roofs(gpu, row) for row in ARCHITECTURES.values() for gpu in row.gpus]
        by_case = {case: self.predict(gpus[0], case, case.words()) for case in self.band.suite.named_cases}
        distinct_us: dict[Case, float] = {}
        for case, one in by_case.items():
            # A size that takes as long as another adds nothing.
            if one is not None and all(abs(one.time_us - time) > _ALIKE * time for time in distinct_us.values()):
                distinct_us[case] = one.time_us
        cases = sorted(distinct_us, key=distinct_us.__getitem__)
        return tuple(
            one
            for place in _spread(len(cases))
            for roofs in gpus
            if (one := self.predict(roofs, cases[place], cases[place].words())) is not None
        )

    def measured(self, gpu: str, speed: Speed, capability: str = "") -> tuple[Prediction, ...]:
        """Return a prediction for every size by the ceilings of the very GPU, with the measured time.

        If a size was timed by both methods, the graph's time counts. Small copies on which other kernels ran are not
        used, and where there are no others, nothing is predicted.
        """
        if speed.ceilings is None:
            return ()
        roofs = measured_roofs(gpu, speed.ceilings, capability)
        found = []
        by_graph = [size.case for size in speed.sizes if size.method == "graph"]
        for size in speed.sizes:
            if size.method == "stream" and size.case in by_graph:
                continue
            if self._ran_others(size):
                continue
            one = self.predict(roofs, size.case, size.words)
            if one is not None:
                found.append(replace(one, measured_us=size.submission.median_us))
        return tuple(found)

    def with_predictions(self, check: CheckResult, gpu: str, capability: str = "") -> CheckResult:
        """Return a timed check with a prediction for every size, or a note that says why there is none."""
        assert check.speed is not None
        why = self.why_uncounted(check.speed)
        return replace(
            check,
            predictions=self.measured(gpu, check.speed, capability),
            notes=(*check.notes, why) if why else check.notes,
        )

    def why_uncounted(self, speed: Speed) -> str:
        """Return a sentence about a size without a prediction, as other kernels were counted; '' if there is none."""
        size = next((size for size in speed.sizes if self._ran_others(size)), None)
        if size is None:
            return ""
        copy = next(work for work in self.counted if work.models_size)
        timed, counted_names = (", ".join(names) for names in (size.kernels, copy.kernels))
        return f"no time is predicted: the interpreter ran {counted_names} in place of {timed}"

    def _ran_others(self, size: SizeTiming) -> bool:
        """Return whether the small copies of a timed size launched other kernels than the size did.

        Launch code may choose other kernels in the interpreter than on this GPU; their phases do not apply here. A call
        may launch a kernel more than another, such as a last sum. Older records name no kernels.
        """
        timed = set(size.kernels)
        copies = [set(work.kernels) for work in self.counted if work.models_size and work.kernels]
        return bool(timed and copies) and not any(timed <= copy or copy <= timed for copy in copies)


def _grid_of(case: Mapping[str, Value], grids: Sequence[Grid]) -> Grid | None:
    """Return the grid of a size; where it could not be recorded, the grid that all others share, if there is one."""
    for one in grids:
        if one.case == dict(case):
            return one
    is_fixed = len(grids) > 1 and len({one.programs for one in grids}) == 1
    return replace(grids[0], case=dict(case)) if is_fixed else None


def _busy_share(roofs: Roofs, grid: Grid | None) -> float:
    """Return the share of a GPU's multiprocessors that a call's largest launch keeps busy.

    A launch with a program for each multiprocessor that launch code was told of has one for each of any other GPU.
    """
    if grid is None or grid.programs >= grid.multiprocessors:
        return 1.0
    share = grid.programs / max(roofs.multiprocessors, 1)
    return share if share <= _FEW_BUSY else 1.0


def _remarks(roofs: Roofs, grid: Grid | None, busy: float, compiled: PartInfo) -> Iterator[str]:
    """Yield what makes a call slow, or the prediction a lower bound."""
    if grid is not None and busy < 1:
        there = f"the {roofs.gpu} has {roofs.multiprocessors} multiprocessors: most of it idles"
        yield f"{grid.programs} program{'s' * (grid.programs != 1)}; {there}"
    if spilling := _spilling(compiled, roofs.target):
        verb = "spills" if len(spilling) == 1 else "spill"
        yield f"a lower bound: {', '.join(spilling)} {verb} registers"


def _apart_words(work: Work) -> Iterator[str]:
    """Yield that lanes lie apart, by the counted case."""
    if work.sector_ratio > 1 and work.apart_line > 0:
        moved = f"moves {work.sector_ratio:.1f} times the bytes that it uses, in sectors of 32 bytes"
        yield f"lanes lie apart in memory in line {work.apart_line}: a program {moved}"


def _spilling(compiled: PartInfo, target: str) -> list[str]:
    """Return the kernels that spill registers on a GPU; autotuned ones only if every configuration was compiled."""
    found: dict[str, list[CompiledKernel]] = {}
    for one in compiled.kernels:
        if one.target == target and one.occupancy is not None:
            found.setdefault(one.kernel, []).append(one)
    return [
        kernel
        for kernel, forms in found.items()
        if len(forms) >= max(one.configurations for one in forms)
        and all(one.spill_store_bytes + one.spill_load_bytes > 0 for one in forms)
    ]


def _formula_value(formula: str, case: Mapping[str, Value]) -> float:
    """Return the formula's value, 0 for a case that it does not know."""
    try:
        return evaluate(formula, case)
    except SpecError:
        return 0.0


def _spread(count: int) -> list[int]:
    """Return at most a few places of so many, the first and the last among them."""
    if count <= _FEW:
        return list(range(count))
    return [round(i * (count - 1) / (_FEW - 1)) for i in range(_FEW)]
