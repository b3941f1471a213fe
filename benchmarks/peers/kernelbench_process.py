"""`python -m benchmarks.peers.kernelbench_process CHECKOUT PROBLEM ANSWER RESULT`: evaluates as its run_and_check.py.

The checkout's package imports clients of language models and of the network when it is loaded; the evaluation calls
none of them. Those that are not installed are replaced by empty modules.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

CLIENTS = {
    "dotenv": ("load_dotenv",),
    "tqdm": ("tqdm",),
    "openai": ("OpenAI",),
    "litellm": ("completion",),
    "requests": (),
}
# As in its scripts/run_and_check.py.
CORRECT_TRIALS, TIMED_TRIALS = 5, 100


def main(checkout: str, problem: str, answer: str, result: str) -> None:
    """Evaluate one answer and write what was found as JSON."""
    add_stand_ins()
    sys.path.insert(0, str(Path(checkout) / "src"))
    import torch
    from kernelbench.eval import eval_kernel_against_ref  # type: ignore[import-not-found]
    from kernelbench.kernel_static_checker import validate_kernel_static  # type: ignore[import-not-found]

    text = Path(answer).read_text(encoding="utf-8")
    _, errors, _ = validate_kernel_static(text, backend="triton", precision="fp32")
    told = {"errors": errors, "correct": False, "why": "no result"}
    if not errors:
        try:
            found = eval_kernel_against_ref(
                Path(problem).read_text(encoding="utf-8"),
                text,
                num_correct_trials=CORRECT_TRIALS,
                num_perf_trials=TIMED_TRIALS,
                measure_performance=True,
                timing_method="cuda_event",
                device=torch.device("cuda:0"),
                backend="triton",
                precision=torch.float32,
            )
            told |= what_it_says(found)
        except Exception as failed:
            # Its scripts take any exception for an answer that is not correct.
            told["why"] = f"{type(failed).__name__}: {failed}"[:200]
    Path(result).write_text(json.dumps(told), encoding="utf-8")


def add_stand_ins() -> None:
    """Put empty modules in the place of clients that are not installed."""
    for name, attributes in CLIENTS.items():
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            module = types.ModuleType(name)
            for attribute in attributes:
                setattr(module, attribute, lambda *_, **__: None)
            sys.modules[name] = module


def what_it_says(found: Any) -> dict[str, Any]:
    """Return what benchmarks.peers.kernelbench reads of the evaluator's result."""
    if found is None:
        return {}
    issues = ("correctness_issue", "runtime_error", "compilation_error", "max_difference")
    why = next((f"{name}: {found.metadata[name]}" for name in issues if name in found.metadata), "not correct")
    return {
        "correct": bool(found.correctness),
        "why": why[:200],
        "runtime_ms": float(found.runtime),
        "reference_ms": float(found.ref_runtime),
        "excessive": bool(found.metadata.get("excessive_speedup")),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
