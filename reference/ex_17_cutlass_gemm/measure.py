"""Measures the time of every candidate for every shape, on this machine's GPU, and writes measured.json.

    python reference/ex_17_cutlass_gemm/measure.py              needs an H200 and the extra `cutlass`; a minute or two
    python reference/ex_17_cutlass_gemm/measure.py --regret     what choices cost, by the measured.json that is there

The candidates are the solution's own kernels. select_kernel is judged by the shapes of spec.py; its constants
were fitted only to those of DESIGN. The format, `grade/kernel-times/v1`:

    format         that name
    environment    gpu, driver, torch, cutlass, the clock of the SMs, the date, the rounds
    dtype          of the operands and the result
    candidates     one object per kernel: tile_m, tile_n, tile_k, cluster_m, cluster_n, stages, schedule
    shapes         [m, n, k] each: those of spec.py, then those of DESIGN
    times_us       [shape][candidate]: median time of a kernel at cold L2, replayed from a CUDA graph, in turns with
                   all others; null where it could not run
    spread         [shape][candidate]: half the distance between the quartiles, over the median
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import random
import statistics
import sys
from pathlib import Path

from grader.judge.rules.regret import mean_regret

FOLDER = Path(__file__).resolve().parent
MEASURED = FOLDER / "measured.json"
ROUNDS = 25
FLUSH_BYTES = 512 << 20
SIDES = (8, 16, 48, 96, 128, 200, 256, 384, 512, 640, 1000, 1024, 1280, 1792, 2048, 2560, 3584, 4096, 5120, 8192, 11008)


def load(name: str):
    """Return a file of this folder as a module."""
    spec = importlib.util.spec_from_file_location(f"ex_17_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def design() -> list[tuple[int, int, int]]:
    """Return ordinary shapes, none of which judges choices."""
    judged, chance, found = set(load("spec").SHAPES), random.Random(17), []  # noqa: S311
    while len(found) < 60:
        m, n, k = (chance.choice(SIDES) for _ in range(3))
        if n >= 48 and k >= 96 and m * n * k <= 1 << 38 and (m, n, k) not in {*judged, *found}:
            found.append((m, n, k))
    return found


def measured() -> dict:
    """Return the whole table."""
    import torch

    inputs, solution = load("inputs"), load("solution")
    kernels = [solution.kernel_for(candidate) for candidate in inputs.CANDIDATES]
    shapes = [*load("spec").SHAPES, *design()]
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    times, spread = [], []
    for m, n, k in shapes:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        expected = a @ b
        graphs = {}
        for place, kernel in enumerate(kernels):
            kernel(a, b)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = kernel(a, b)
            graph.replay()
            torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2 * math.sqrt(k))
            graphs[place] = graph
        laps = {place: [] for place in graphs}
        for _ in range(ROUNDS):
            for place in random.sample(list(graphs), len(graphs)):
                flush.zero_()
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                graphs[place].replay()
                end.record()
                laps[place].append((start, end))
        torch.cuda.synchronize()
        row, wide = [None] * len(kernels), [None] * len(kernels)
        for place, pairs in laps.items():
            low, middle, high = statistics.quantiles([1e3 * start.elapsed_time(end) for start, end in pairs], n=4)
            row[place], wide[place] = round(middle, 2), round((high - low) / 2 / middle, 4)
        times.append(row)
        spread.append(wide)
        print(f"{m} x {n} x {k}: {min(row):.1f} to {max(row):.1f} us", flush=True)
    return {
        "format": "grade/kernel-times/v1",
        "environment": environment(),
        "dtype": "bfloat16",
        "candidates": [one._asdict() for one in inputs.CANDIDATES],
        "shapes": [list(shape) for shape in shapes],
        "times_us": times,
        "spread": spread,
    }


def environment() -> dict:
    """Return the machine and the versions that the numbers were measured on."""
    import datetime
    import importlib.metadata

    import pynvml
    import torch

    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    return {
        "gpu": pynvml.nvmlDeviceGetName(gpu),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "torch": torch.__version__,
        "cutlass": importlib.metadata.version("nvidia-cutlass-dsl"),
        "sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rounds": ROUNDS,
    }


def regret() -> None:
    """Print what select_kernel's choices cost over the best, for shapes of spec.py and of DESIGN; and constant ones."""
    inputs, solution, table = load("inputs"), load("solution"), json.loads(MEASURED.read_text("utf-8"))
    judged = [list(shape) for shape in load("spec").SHAPES]
    candidates = [inputs.Candidate(**one) for one in table["candidates"]]
    for title, wanted in (("judged", True), ("design", False)):
        rows = [
            (shape, dict(zip(candidates, row, strict=True)))
            for shape, row in zip(table["shapes"], table["times_us"], strict=True)
            if (shape in judged) == wanted
        ]
        chosen = [(shape, row, solution.select_kernel(*shape, tuple(candidates), inputs.H200)) for shape, row in rows]
        costs = [row[one] / min(row.values()) for _, row, one in chosen]
        constant = {one: mean_regret([row[one] / min(row.values()) for _, row in rows]) for one in candidates}
        best = min(constant, key=constant.__getitem__)
        told = f"regret {mean_regret(costs):.1%}; at least {constant[best]:.1%} with one kernel"
        print(f"{title}: {len(rows)} shapes, {told}")
        for cost, (shape, row, one) in sorted(zip(costs, chosen, strict=True), reverse=True)[:5]:
            print(f"  {' x '.join(map(str, shape))}: {cost:.2f} times as long; {one}, not {min(row, key=row.get)}")
        if importlib.util.find_spec("nvMatmulHeuristics"):
            estimate = heuristics()
            costs = [row[min(row, key=lambda one: estimate(shape, one))] / min(row.values()) for shape, row in rows]
            print(
                f"  beside: nvidia-matmul-heuristics' model of these kernels has a regret of {mean_regret(costs):.1%}"
            )


def heuristics():
    """Return the seconds that nvidia-matmul-heuristics expects a candidate to take for a shape, on an H200."""
    import ctypes

    import nvMatmulHeuristics as library

    layout = library.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR
    model = library.NvMatmulHeuristicsInterface(library.NvMatmulHeuristicsTarget.CUTLASS3, precision="HSH")
    device = model.createHardwareDescriptor()
    model.setHardwarePredefinedGpu(device, library.NvMatmulHeuristicsNvidiaGpu.H200_SXM)
    model.loadInternalDiscoverySet(layout, device)

    def estimate(shape, one) -> float:
        problem = model.makeNvMatmulHeuristicsProblem(*shape, layout)
        kernel = model.nvmmhKernelConfiguration(splitK=1, loadStages=one.stages, gridSwizzle=1)
        kernel.cta[:], kernel.warp[:], kernel.instr[:] = one[:3], (64, 64, 32), (64, 8, 16)
        kernel.cluster[:] = one.cluster_m, one.cluster_n
        place = ctypes.byref(problem), ctypes.byref(kernel)
        return model.nvMatmulHeuristicsEstimateRuntime(model.handle, b"HSH", ctypes.c_int(model.target), *place, device)

    return estimate


def written(table: dict) -> str:
    """Return the table as JSON, a line for each row."""
    fields = []
    for name, value in table.items():
        rows = ",\n  ".join(json.dumps(one) for one in value) if isinstance(value, list) else ""
        fields.append(f' "{name}": ' + (f"[\n  {rows}\n ]" if rows else json.dumps(value)))
    return "{\n" + ",\n".join(fields) + "\n}\n"


def main() -> None:
    """Measure, or say what choices cost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--regret", action="store_true")
    parser.add_argument("--out", type=Path, default=MEASURED)
    chosen = parser.parse_args()
    if chosen.regret:
        regret()
        return
    chosen.out.write_text(written(measured()), encoding="utf-8")


if __name__ == "__main__":
    main()
