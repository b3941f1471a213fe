"""GPU MODE's popcorn: a task is a folder with reference.py, task.py and eval.py; an answer is `custom_kernel(data)`.

The bot's order is kept: the tests first, and only if they pass, the ranked run, which verifies every timed call. The
bot's own benchmark run in between, which verifies less and ranks nobody, is left out.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean

from benchmarks.peers.files import Fed
from benchmarks.peers.outcome import Outcome, Ran, run
from benchmarks.peers.tasks import TOLERANCE, Sizes, Task

NAME = "popcorn"
# Where a checkout of kernelbot or of reference-kernels has the evaluator.
PLACES = ("", "examples", "problems/pmpp_v2", "problems/pmpp")
# A submission that is the reference itself: its times are what others are compared with.
REFERENCE = "from reference import ref_kernel\n\n\ndef custom_kernel(data):\n    return ref_kernel(data)\n"


def evaluator(checkout: Path) -> Path | None:
    """Return the folder with eval.py and utils.py; None if the checkout has none."""
    folders = (checkout / place for place in PLACES)
    return next((one for one in folders if (one / "eval.py").is_file() and (one / "utils.py").is_file()), None)


def reference(task: Task) -> str:
    """Return reference.py: inputs from a seed on the GPU, the torch reference, and the comparison."""
    sizes = ", ".join(f"{axis.lower()}: int" for axis in task.axes)
    names = "".join(f"    {axis} = {axis.lower()}\n" for axis in task.axes)
    drawn = "".join(
        f'        torch.{task.family}(({shape}), device="cuda", generator=gen),\n' for shape in task.shapes.values()
    )
    return (
        "import torch\nfrom utils import verbose_allclose\n\n\n"
        f"def generate_input({sizes}, seed: int):\n{names}"
        '    gen = torch.Generator(device="cuda")\n    gen.manual_seed(seed)\n'
        f"    return (\n{drawn}    )\n\n\n"
        f"def ref_kernel(data):\n    {task.arguments}, = data\n    return {task.truth}\n\n\n"
        "def check_implementation(data, output):\n"
        f"    reasons = verbose_allclose(output, ref_kernel(data), rtol={TOLERANCE}, atol={TOLERANCE})\n"
        '    return not reasons, reasons[0] if reasons else ""\n'
    )


def candidate(task: Task, text: str) -> str:
    """Return submission.py: the file, and the function that the evaluator calls."""
    return f"{text}\n\ndef custom_kernel(data):\n    return {task.part}(*data)\n"


def description(task: Task) -> str:
    """Return task.yml, which a bot would read; eval.py reads the lists of cases alone."""
    sources = {"submission.py": "@SUBMISSION@"} | {
        name: name for name in ("task.py", "utils.py", "reference.py", "eval.py")
    }
    files = [{"name": name, "source": source} for name, source in sources.items()]
    whole = {"files": files, "lang": "py", "config": {"main": "eval.py"}}
    # JSON is YAML.
    return json.dumps({**whole, "tests": _seeded(task.tests), "benchmarks": _seeded(task.timed)}, indent=1)


def cases(sizes: Sequence[Sizes]) -> str:
    """Return the list of cases as eval.py reads it: a line each, `m: 64; n: 64; seed: 1`."""
    return "".join("; ".join(f"{name}: {value}" for name, value in case.items()) + "\n" for case in _seeded(sizes))


def evaluate(folder_of_eval: Path, fed: Fed, folder: Path, environment: Mapping[str, str], usual_ns: float) -> Outcome:
    """Have one file evaluated. usual_ns: the reference's time, from `time_of_reference`; 0: not known."""
    lay_out(folder_of_eval, fed.task, candidate(fed.task, fed.text), folder)
    tested, ran = _evaluated("test", folder, environment)
    if tested.get("check") != "pass":
        return _refused(tested, ran, ran.seconds)
    ranked, again = _evaluated("leaderboard", folder, environment)
    seconds = ran.seconds + again.seconds
    if ranked.get("check") != "pass":
        return _refused(ranked, again, seconds)
    took_ns = mean_ns(ranked)
    return Outcome("accepted", seconds, usual_ns / took_ns if usual_ns > 0 and took_ns > 0 else None)


def time_of_reference(folder_of_eval: Path, task: Task, folder: Path, environment: Mapping[str, str]) -> float:
    """Return the time that the evaluator measures for the reference itself, in ns; 0 if it measures none."""
    lay_out(folder_of_eval, task, REFERENCE, folder)
    ranked, _ = _evaluated("leaderboard", folder, environment)
    return mean_ns(ranked) if ranked.get("check") == "pass" else 0.0


def lay_out(folder_of_eval: Path, task: Task, submission: str, folder: Path) -> None:
    """Write the task's folder: copies of the evaluator's files, and ours."""
    for name in ("eval.py", "utils.py"):
        shutil.copy(folder_of_eval / name, folder / name)
    texts = {
        "reference.py": reference(task),
        "task.py": "TestSpec = dict\n",
        "task.yml": description(task),
        "submission.py": submission,
        "test.txt": cases(task.tests),
        "leaderboard.txt": cases(task.timed),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def mean_ns(found: Mapping[str, str]) -> float:
    """Return the geometric mean of the times over the timed cases; 0 if one is missing or is no time."""
    times = list(_times(found))
    return geometric_mean(times) if times and min(times) > 0 else 0.0


def read(text: str) -> dict[str, str]:
    """Return the evaluator's lines `name: value`."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _times(found: Mapping[str, str]) -> Iterator[float]:
    for place in range(int(found.get("benchmark-count", "0"))):
        yield float(found.get(f"benchmark.{place}.mean", "0"))


def _seeded(sizes: Sequence[Sizes]) -> list[dict[str, int]]:
    return [
        {**{axis.lower(): size for axis, size in case.items()}, "seed": 1000 + place}
        for place, case in enumerate(sizes)
    ]


def _evaluated(mode: str, folder: Path, environment: Mapping[str, str]) -> tuple[dict[str, str], Ran]:
    """Run eval.py once; what it wrote to its pipe."""
    reading, writing = os.pipe()
    try:
        told = {**environment, "POPCORN_FD": str(writing), "POPCORN_SEED": "4242"}
        ran = run([sys.executable, "eval.py", mode, f"{mode}.txt"], folder, told, (writing,))
    finally:
        os.close(writing)
    with os.fdopen(reading, encoding="utf-8", errors="replace") as pipe:
        return read(pipe.read()), ran


def _refused(found: Mapping[str, str], ran: Ran, seconds: float) -> Outcome:
    if ran.code is None:
        return Outcome("refused", seconds, None, ran.end)
    errors = [value for name, value in found.items() if name.endswith(".error")]
    if found.get("check") == "fail":
        return Outcome("refused", seconds, None, errors[0][:160] if errors else "a check failed")
    return Outcome("refused", seconds, None, f"no verdict: {ran.end}")
