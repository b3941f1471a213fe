"""`python -m tests.attack_table`: writes docs/attacks.md from what the submissions say of themselves.

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
    3: "a lazy tensor, or a method on one instance, that computes when it is looked at",
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
    17: "scans heap and stack for what is secret",
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
    32: "hands results on between stages through files",
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
    49: "leaves out what seldom matters",
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
}

# What no file can express, and why.
REASONS: Mapping[int, str] = {
    42: "no counter: values are compared in the grader, on the host, from a copy of its own",
    57: "a kernel from elsewhere is a kernel: it computes what is asked, and no two gradings are compared",
    68: "no exercise uses several GPUs",
    69: "no exercise uses several GPUs",
}

# What holds beside the files.
MORE: Mapping[int, str] = {
    15: "no handle of the child's counts: the grader's own clock is one of the two",
    21: "no mean of ratios is taken; `tests/test_estimate.py`",
    35: "what may be kept between calls is the exercise's to say (ex_19's cache)",
    41: "on the host; a process holds no expected value on any device",
    43: "trivial answers of every kind: the gate of each exercise, `grade check`",
    52: "every element counts; `tests/test_compare.py`",
    60: "in a GPU's shared memory: `grade sanitize`, `tests/test_sanitize.py`",
    74: "kept kernels: `tests/test_kernels.py`",
}

INTRODUCTION = """\
# Attacks

Made by `python -m tests.attack_table`; do not edit. Every number is an entry of the catalogue of ways in which graders
of kernels are cheated. A file is named without its ending; it lies in `tests/submissions/` or in an exercise's folder
under `reference/`, and says in its first line what it must get. `tests/test_attack_table.py` sees that this page says
what the files say, that no number is missing, and that every attack has an honest twin: a file that looks suspicious in
the same way, and passes.

| folder | run by | where |
| --- | --- | --- |
| `attacks/` | `tests/test_attacks.py`, `tests/test_on_gpu.py` | CPU and GPU, but where it says CPU |
| `hostile/` | `tests/test_attacks.py` | CPU |
| `escapes/`, `faults/`, `unloadable/` | `tests/test_faults.py` | CPU |
| `elsewhere/` | `tests/test_attacks_elsewhere.py` | CPU |
| `gpu/` | `tests/test_on_gpu.py` | GPU |
| `timing/` | `tests/test_timing_attacks.py` | CPU and GPU, but where it says GPU |
| `<exercise>/wrong/` | `grade check` | CPU and GPU |
| `controls/`, `<exercise>/honest/` | `tests/test_attacks.py`, `grade check` | CPU and GPU |

Whatever is graded from the first four lies between canaries (`tests/canaries.py`): no file outside of its scratch
folder may change, no listener be reached, no process and no scratch folder be left.

"""


def page(found: Sequence[Link]) -> str:
    """docs/attacks.md."""
    rows = [["#", "what it does", "files, and what they must get", "honest twins"], ["---"] * 4]
    for number, words in ATTACKS.items():
        own = [one for one in found if number in one.numbers]
        told = [f"`{place_of(one.path)}` {verdict_of(one)}" for one in own]
        told += [f"not a file: {REASONS[number]}"] if number in REASONS else []
        told += [MORE[number]] if number in MORE else []
        twins = sorted({f"`{one.twin}`" for one in own if one.twin})
        rows.append([str(number), words, "<br>".join(told), "<br>".join(twins) or "–"])
    return INTRODUCTION + _table(rows)


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
