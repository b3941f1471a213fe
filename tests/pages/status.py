"""`python -m tests.pages.status`: writes docs/status.md, what is done and the command that shows it.

What an exercise holds is counted; every other line stands in `DONE`. A figure that a command measures stands on the
page that the command writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from grader.exercise.catalogue import Entry, discover

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "status.md"

# (what is done, the commands that show it, the page that explains it)
DONE = (
    ("values, fresh results, out-of-bounds accesses, races, number of launches", ("grade check ex_15",), ""),
    (
        "bytes moved and extra memory, counted in the interpreter and judged; times predicted for other GPUs",
        ("grade check ex_15", "pytest tests/speed/test_prediction.py"),
        "efficiency.md",
    ),
    (
        "technique: only kernels of the file's text run on the true inputs, in a clean process",
        ("pytest tests/attacks/test_attacks.py tests/replay/test_kernels.py",),
        "trace.md",
    ),
    ("derived tolerances", ("pytest tests/judge/test_tolerance.py tests/judge/test_compare.py",), "tolerances.md"),
    (
        "shrunk counterexamples, replay tokens",
        ("pytest tests/grading/test_shrinking.py tests/exercise/test_plan.py",),
        "",
    ),
    (
        "autotuned kernels: tuning and compiling are on no call's clock",
        ("pytest tests/calls/test_tuning.py tests/judge/test_configurations.py",),
        "timing.md",
    ),
    (
        "speed on a GPU: ratio with interval, plots, baselines; attacks on the clock",
        ("pytest tests/attacks/test_timing.py", "pytest -m gpu tests/attacks/test_timing.py"),
        "timing.md",
    ),
    (
        "model solutions and record kernels beside cuBLAS, cuDNN, FlashAttention-4 and FlashInfer, on a GPU",
        ("python -m benchmarks.records --baseline flash_attention_4 --baseline flashinfer",),
        "records.md",
    ),
    ("how often the grader is wrong, on a CPU", ("tox -e accuracy",), "accuracy.md"),
    ("why a check failed: ranked suspects with evidence", ("tox -e causes",), "causes.md"),
    (
        "confinement: Landlock, seccomp, a network of its own, bubblewrap if it is installed",
        ("pytest tests/confinement/test_confinement.py tests/sandbox/test_bubble.py tests/attacks/test_faults.py",),
        "trust-model.md",
    ),
    (
        "attacks, entry by entry of a catalogue of 75, each with an honest twin",
        ("pytest tests/attacks/test_attacks.py tests/attacks/test_faults.py tests/attacks/test_elsewhere.py",),
        "attacks.md",
    ),
    (
        "a crash, a hang, a flood has its own status; other parts are still judged",
        ("pytest tests/attacks/test_faults.py",),
        "",
    ),
    (
        "a fault of the grader costs nobody points",
        ("pytest tests/test_selftest.py",),
        "",
    ),
    (
        "a wheel carries the course: `grade init` writes it anywhere; it grades and hides answers like a checkout",
        ("pytest tests/cli/test_init.py tests/test_installed.py",),
        "",
    ),
    (
        "Python 3.11 to 3.14, triton 3.6 to 3.9: what differs stands in one module; others are refused by name",
        ("pytest tests/interpreter tests/cli/test_supported.py",),
        "learning.md#versions",
    ),
    (
        "the channel to the child fuzzed; hostile texts harmless in every document",
        ("pytest tests/protocol/test_channel_fuzz.py tests/protocol/test_claims_fuzz.py tests/test_escaping.py",),
        "",
    ),
    (
        "compiled kernels for three GPUs, on any machine",
        ("grade profile ex_16 --submission reference/ex_16_triton_gemm/solution.py",),
        "compiled-kernels.md",
    ),
    (
        "Nsight Compute's counters beside the prediction, on a GPU",
        ("pytest tests/speed/test_counters.py",),
        "efficiency.md",
    ),
    ("accesses and races in every planned call; compute-sanitizer on a GPU", ("grade sanitize ex_15",), "sanitize.md"),
    (
        "the learner's loop: verdict after a save, keys, the live card",
        ("pytest tests/watch tests/progress tests/cli", "tox -e bench -- -k watch"),
        "learning.md",
    ),
    ("terminal, HTML, JSON, JUnit", ("pytest tests/test_record.py tests/report",), "result.md"),
    (
        "scorecards in a Chromium: narrow and wide, light, dark, printed, by keyboard; axe-core finds nothing",
        ("tox -e browser",),
        "",
    ),
    (
        "a class: five layouts, resumable, late policy, overrides, hidden seed, workers that may be lost",
        ("pytest tests/batch", "python -m benchmarks.batch whole"),
        "batch.md",
    ),
    (
        "nine export formats, Gradescope's autograder.zip; the class page; similar sources; the student bundle",
        ("pytest tests/export tests/class_pages tests/cli/test_release.py",),
        "exports.md",
    ),
    (
        "the documentation as a site; the reference of commands and the page on the corpus come from the code",
        ("tox -e docs", "pytest tests/docs"),
        "",
    ),
    ("all of it on a CUDA device", ("tox -e gpu",), ""),
)

NOT_DONE = (
    "accuracy is not measured on a GPU",
    "on a GPU, triton 3.6 and 3.9 with Python 3.12 have run, and no others",
    "Python 3.14 has run without a GPU only, with triton 3.7 and 3.9",
    "no live platform has read an export yet",
)

INTRODUCTION = """\
# What is done, and what shows it

Made by `python -m tests.pages.status`; do not edit. `tests/docs/test_status.py` fails when this page is stale, or when
a command names a file that is not there.

"""


def page() -> str:
    """Return the text of docs/status.md."""
    rows = ["| what | shown by |", "| --- | --- |", *(_exercise(entry) for entry in discover(ROOT))]
    for what, commands, explained in DONE:
        shown = ", ".join(f"`{command}`" for command in commands)
        rows.append(f"| {what} | {shown}{f'; [how]({explained})' if explained else ''} |")
    left = "\n".join(f"- {one}" for one in NOT_DONE)
    return INTRODUCTION + "\n".join(rows) + f"\n\nNot done:\n\n{left}\n"


def commands() -> Iterator[str]:
    """Yield every command of the page."""
    for _, told, _ in DONE:
        yield from told


def _exercise(entry: Entry) -> str:
    counted = f"{len(entry.exercise.parts)} parts, {len(tuple(entry.exercise.checks()))} checks"
    files = f"{len(entry.honest)} honest variants, {len(entry.wrong)} planted mistakes"
    return f"| `{entry.id}`: {counted}, {files} | `grade check {entry.id}` |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
