"""`python -m tests.pages.attack_table`: writes docs/attacks.md from what the submissions say of themselves.

What each attack is, in a few words, stands here; which file is which attack, what it must get and which honest file
looks like it stands in that file's own docstring, and nowhere else (tests/claims.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.claims import REFERENCE, ROOT, SUBMISSIONS, Link, links

PAGE = ROOT / "docs" / "attacks.md"

ATTACKS: Mapping[int, str] = {
    1: "works on another stream than the one that is timed",
    2: "a thread or process does the work, or completes it, outside of the window",
    3: "a lazy tensor, or a method on one instance, that computes when it is read",
    4: "replaces clocks, events or waiting",
    5: "rewrites statistics or harness: `__main__`, module table, gc, frames",
    6: "swaps a function's code and keeps its identity",
    7: "hands back a forged result through pickle",
    8: "writes a verdict into an inherited descriptor",
    9: "puts itself between the ends of a pipe by dup2",
    10: "edits the descriptor in a C FILE",
    11: "traps the harness's system calls",
    12: "detours a timing function's machine code",
    13: "attaches to its parent's memory",
    14: "patches the import table",
    15: "overwrites the handles of the timer's events",
    16: "writes its own memory through /proc, past page protection",
    17: "scans heap and stack for secrets",
    18: "recognises warm-up; later calls do less",
    19: "solves many queued problems in one call",
    20: "learns the order of the calls and replays it",
    21: "one size at almost no time drags the mean",
    22: "keeps inputs in the cache across the flush",
    23: "marks cache lines to be evicted last",
    24: "returns before its work has ended",
    25: "ends the process with success",
    26: "prints a verdict",
    27: "slows the baseline down",
    28: "remembers answers by identity or pointer",
    29: "remembers answers by a fingerprint of the content",
    30: "remembers answers by shape",
    31: "keeps the last output in static memory",
    32: "passes results between stages through files",
    33: "rebuilds the data from a seed",
    34: "computes once; the old buffer is still right",
    35: "prepares weights outside of the timed part",
    36: "replays a graph with stale inputs",
    37: "finds the reference's result in memory that was freed",
    38: "changes the inputs so that the reference agrees",
    39: "writes NaN, hoping for a wildcard",
    40: "finds the expected values by gc and copies them",
    41: "scans the device's memory for the expected values",
    42: "resets the error counter on the device",
    43: "zeros, a constant or the mean",
    44: "identity, where the operation is nearly that",
    45: "ignores an argument whose default changes nothing",
    46: "less precision, or a global switch for it",
    47: "accurate only where inputs look like a test",
    48: "right at the sizes that are checked, wrong at those that are timed",
    49: "leaves out rare cases",
    50: "detects the grader",
    51: "reseeds or patches the generator",
    52: "lives inside an allowed share of wrong elements",
    53: "imports the reference",
    54: "tries a kernel and falls back to torch",
    55: "inherits the reference with an empty body",
    56: "wraps a library's call",
    57: "pastes a vendor's source",
    58: "a kernel for show, whose result is not used",
    59: "edits the grader, or shadows a library",
    60: "reads shared memory out of bounds and is lucky",
    61: "patches allclose or another validator",
    62: "hides calls by pasting and executing text",
    63: "installs packages, opens shells, tunnels out",
    64: "sends a hostile pickle",
    65: "hides code from what strips comments",
    66: "leaves blocks unwritten that a sampler would not visit",
    67: "rebinds a function that the oracle uses",
    68: "equal inputs on all ranks",
    69: "skips a rank",
    70: "puts the forbidden operation into another module",
    71: "dead code satisfies a demand for kernels",
    72: "reads other people's solutions",
    73: "kills other jobs, takes their ports",
    74: "poisons a shared cache of kernels",
    75: "hands in a link to the solution, or to somebody else's file",
}

# Mechanisms that stop more than one attack.
_NO_PYTHON = "by construction: none of the submission's Python is present when kernels run"
_ELSEWHERE = "by construction: oracle, comparison and verdict run in a process that the submission cannot reach"
_REBUILT = "by construction: judge and replayer build the inputs themselves"
_TEXT = "by construction: kernels come from the file's text"
_SEED = "seed after the trace"
_SEEDS = "seed after the traces of all calls of the check"
_LIST = "allow-list over the syntax tree"
_OPERATORS = "allow-list of operators that a replay may run"
_CONFINED = "confinement"
_DECODED = "strict, bounded decoding; an answer counts only after its question"
_EVERY = "every element compared with the oracle"
_POISON = "fresh memory is NaN; every element compared with the oracle"
_TIMED = "every timed call has its own inputs and memory, and is verified"
_CLOCK = "by construction: the clock runs in a process without the submission's Python"
_SIZES = "a size that cannot be judged is not replaced by other sizes"
_NOT_HERE = "does not apply"

# The mechanism that stops each attack.
MECHANISM: Mapping[int, str] = {
    1: "by construction: a replay launches on one stream, in order",
    2: _NO_PYTHON,
    3: f"{_NO_PYTHON}; the type must be exactly torch.Tensor",
    4: _CLOCK,
    5: _NO_PYTHON,
    6: _TEXT,
    7: "by construction: nothing is unpickled",
    8: _DECODED,
    9: _DECODED,
    10: _DECODED,
    11: f"{_NO_PYTHON}; deadlines",
    12: _CLOCK,
    13: _CONFINED,
    14: _NO_PYTHON,
    15: _CLOCK,
    16: _NO_PYTHON,
    17: "by construction: the process holds decoys, and no secret",
    18: f"{_SEEDS}; {_TIMED}",
    19: f"{_NO_PYTHON}; {_TIMED}",
    20: f"{_SEED}; {_TIMED}",
    21: f"{_CLOCK}; the physical floor; {_SIZES}",
    22: f"{_NO_PYTHON}; a cover larger than the cache; operators are timed like launches",
    23: "a cover larger than the cache",
    24: "by construction: a replay has ended before its results are read",
    25: "by construction: only replayed bytes are an answer",
    26: "by construction: printed text decides nothing",
    27: f"{_NO_PYTHON}; the baseline is timed in the same rounds, in another process",
    28: _SEEDS,
    29: _SEEDS,
    30: _SEEDS,
    31: f"{_SEEDS}; {_TIMED}",
    32: f"by construction: only a trace leaves the process; {_CONFINED}",
    33: _SEED,
    34: _SEEDS,
    35: _SEEDS,
    36: f"by construction: a trace holds no graph; {_TIMED}",
    37: _ELSEWHERE,
    38: _REBUILT,
    39: "NaN is right only where the oracle has NaN",
    40: _ELSEWHERE,
    41: _ELSEWHERE,
    42: _ELSEWHERE,
    43: _EVERY,
    44: _EVERY,
    45: _EVERY,
    46: "derived tolerances; a switch that the submission's Python sets is not set in the replayer",
    47: f"families of values; {_EVERY}",
    48: _TIMED,
    49: _EVERY,
    50: "by construction: the judged trace is the recorded one",
    51: _REBUILT,
    52: _EVERY,
    53: _CONFINED,
    54: f"every call is recorded; {_OPERATORS}",
    55: _CONFINED,
    56: f"{_NO_PYTHON}; {_OPERATORS}",
    57: _NOT_HERE,
    58: f"{_NO_PYTHON}; {_SEED}",
    59: f"{_NO_PYTHON}; {_CONFINED}",
    60: "guard around every access; compute-sanitizer",
    61: _ELSEWHERE,
    62: _LIST,
    63: _CONFINED,
    64: "by construction: nothing is unpickled",
    65: _LIST,
    66: _POISON,
    67: _ELSEWHERE,
    68: _NOT_HERE,
    69: _NOT_HERE,
    70: f"{_TEXT}; {_OPERATORS}",
    71: _NO_PYTHON,
    72: _CONFINED,
    73: _CONFINED,
    74: f"{_NO_PYTHON}; cached kernels belong to one owner; each process has its own scratch folder",
    75: "a submission must not be a link to another folder",
}

# Attacks that no file can express, and the reason.
REASONS: Mapping[int, str] = {
    42: "there is no such counter: the grader compares its own copy of the values on the host",
    57: "a copied kernel is still a kernel: it computes the answer, and no verdict compares two gradings",
    68: "no exercise uses several GPUs",
    69: "no exercise uses several GPUs",
    75: "a link is no text; `tests/cli/test_command_line.py`, `tests/batch/test_submissions.py`",
}

# Evidence beside the files.
MORE: Mapping[int, str] = {
    15: "the events are the replayer's",
    21: "no mean of ratios is taken; `tests/speed/test_estimate.py`",
    35: "an exercise says which memory may stay between calls (ex_19's cache)",
    41: "no process of the submission holds an expected value, on host or device",
    43: "trivial answers of every kind: the gate of each exercise, `grade check`",
    52: "every element counts; `tests/judge/test_compare.py`",
    60: "in a GPU's shared memory: `grade sanitize`, `tests/sanitizer/test_sanitize.py`",
    62: "the list itself, attacked: `tests/replay/test_kernels.py`",
    74: "cached kernels: `tests/sandbox/test_kernel_cache.py`",
}

INTRODUCTION = """\
# Attacks

This page lists every known way to cheat a grader of kernels, what stops it here, and the files that try it. Made by
`python -m tests.pages.attack_table`; do not edit.

A file is named without its ending. It lies in `tests/submissions/` or in an exercise's folder under `reference/`, and
its first line names the verdict that it must get. `tests/docs/test_attack_table.py` checks that this page matches the
files, that no number is missing, that each number has a mechanism, and that every attack has an honest twin: a file
that looks suspicious in the same way, and passes.

The recorder runs a submission's function on decoys. A clean process replays the record with kernels from the file's
text, on inputs whose seed was unknown until then ([trust model](trust-model.md), [the trace](trace.md)). The column
"stopped by" marks attacks that this makes impossible by construction, and names what stops the others. Two kinds of
calls still run on true inputs in the submission's process: calls of a part that asks for no kernels (`select_kernel` of
ex_17), and calls that cannot be replayed. Timed calls are replays too. Files in `timing/` misbehave only at the sizes
that are timed.

| folder | run by | where |
| --- | --- | --- |
| `attacks/` | `tests/attacks/test_attacks.py`, `tests/test_on_gpu.py` | CPU and GPU, except where it says CPU |
| `hostile/` | `tests/attacks/test_attacks.py` | CPU |
| `escapes/`, `faults/`, `unloadable/` | `tests/attacks/test_faults.py` | CPU |
| `elsewhere/` | `tests/attacks/test_elsewhere.py` | CPU |
| `gpu/` | `tests/test_on_gpu.py` | GPU |
| `timing/` | `tests/attacks/test_timing.py` | CPU and GPU, except where it says GPU |
| `<exercise>/wrong/` | `grade check` | CPU and GPU |
| `controls/`, `<exercise>/honest/` | `tests/attacks/test_attacks.py`, `grade check` | CPU and GPU |

Canaries watch every grading of the first four rows (`tests/canaries.py`): no file outside the scratch folder may
change, no listener may be reached, and no process or scratch folder may be left.

"""


FILES = """
## The files of each attack

Behind each file stands what it must get. *Honest* files look like the attack, and pass.
"""


def page(found: Sequence[Link]) -> str:
    """docs/attacks.md."""
    rows = [["attack", "what it does", "stopped by"], ["---"] * 3]
    rows += [[f"[{number}](#attack-{number})", words, MECHANISM[number]] for number, words in ATTACKS.items()]
    return INTRODUCTION + _table(rows) + FILES + "".join(_section(number, found) for number in ATTACKS)


def _section(number: int, found: Sequence[Link]) -> str:
    own = [one for one in found if number in one.numbers]
    lines = [f"- `{place_of(one.path)}`: {verdict_of(one)}" for one in own]
    lines += [f"- not a file: {REASONS[number]}"] if number in REASONS else []
    lines += [f"- {MORE[number]}"] if number in MORE else []
    if twins := sorted({f"`{one.twin}`" for one in own if one.twin}):
        lines += ["- honest: " + ", ".join(twins)]
    words = f"{ATTACKS[number][0].upper()}{ATTACKS[number][1:]}."
    return "\n".join(["", f"### Attack {number}", "", words, "", *lines, ""])


def place_of(path: Path) -> str:
    """A file's name, as the page gives it."""
    base = SUBMISSIONS if path.is_relative_to(SUBMISSIONS) else REFERENCE
    return str(path.relative_to(base).with_suffix(""))


def verdict_of(found: Link) -> str:
    """What the first line of a file says before it says why; and where, if that is not its folder's place."""
    said = re.match(r"[\w.]+(?: \w+)*(?:: \w+(?=: ))?", found.claim)
    assert said is not None, found
    return said[0] + (f" ({found.device})" if found.device else "")


def _table(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page(links()), encoding="utf-8")
