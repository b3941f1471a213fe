"""`python -m tests.pages.corpus`: writes docs/corpus.md, which files with known verdicts there are and how to use them.

Counts are made from the files. What a folder of tests/submissions/ holds stands in `FOLDERS`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks.markdown import table
from grader.exercise.catalogue import Entry, discover
from grader.soundness.claims import claim_of
from tests.claims import SUBMISSIONS, links

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "corpus.md"
TRIED, BLIND = ROOT / "benchmarks" / "tried.json", ROOT / "benchmarks" / "blind"

FOLDERS: Mapping[str, str] = {
    "attacks": "right values, but other means than the submission's own kernels computed them",
    "compiled": "kernels that compile for no GPU, hidden from the compiler",
    "controls": "honest code that looks suspicious; must pass",
    "elsewhere": "attacks on other exercises than ex_15",
    "escapes": "tries to get out of its process: files, network, other processes",
    "faults": "crashes, hangs, floods, wrong forms of an answer",
    "gpu": "faults that only a CUDA device has",
    "guard": "accesses outside tensors and races, and their honest twins (`ok_…`)",
    "hostile": "attacks on the harness, the comparison, or the memory of answers",
    "sanitize": "one trouble for `grade sanitize` in each part",
    "timing": "attacks on the clock, which misbehave only at large sizes, and their honest twins (`control_…`)",
    "tuning": "autotuned kernels, some with a wrong configuration",
    "unloadable": "files that do not load",
    "unrecordable": "honest kernels in a call that cannot be recorded",
}

INTRODUCTION = """\
# The corpus: submissions with known verdicts

This page shows the submissions whose right verdict is known, and how to measure another grader with them. Made by
`python -m tests.pages.corpus`; do not edit. `tests/docs/test_corpus.py` fails when this page is stale.

A file is a Python module with the functions that its exercise's stub asks for. So a grader of another project can load
it. The license is [MIT](../LICENSE).

## Solutions and mistakes, by exercise

*Honest* are the model solution, the record kernels (`fast/`), the variants (`honest/`) and the bases of patches
(`wrong/base_*.py`): every grader must accept them. A planted mistake is wrong in one known way.

"""

LABELS = """
The first line of a planted mistake is its label: `<part>.<check> <status>: <what is wrong>`. A later line names the
true cause ([the vocabulary](causes.md#the-vocabulary)):

```
vector_add.tail fail: the grid is N // BLOCK, so the last, partly filled block is never written.
```

By status:

"""

PATCHES = """
Most mistakes are stored as patches. This command writes all of an exercise as whole files, with the labels on top:

```sh test=tests/cli/test_write_wrong.py
grade check ex_15 --write-wrong mistakes/
```

`benchmarks/tried.json` holds {tried} more mistakes, as changes of solutions, and `benchmarks/blind/` {blind} in whole
files; `python -m benchmarks.causes` grades them. `tox -e accuracy` makes small changes of the solutions by rules.

## Attacks and odd files

They lie in `tests/submissions/`. Most of them are for `vector_add` of ex_15. {attacks} files, planted mistakes
included, name entries of the [catalogue of attacks](attacks.md) and an honest file that looks like them.

| folder | files | what they are |
| --- | --- | --- |
"""

USE = """
The first line is the label: `<status>: [<cause>: ]<what it does>` with the [status](result.md#statuses-and-points) that
`grade` must give. In `timing/` it begins with `gains nothing` (the file may pass, and must get no better time for it),
`refused <cause>` or `passes`. `controls/` must pass. Do not run `escapes/`, `faults/` and `hostile/` outside a sandbox:
some fill disks or memory, or end other processes.

## Measure another grader

1. Write the mistakes with `--write-wrong`. Give your grader each file, the statement in the stub (its docstrings say
   shapes, dtypes, limits and the definition), and a torch reference.
2. Count the honest files that it refuses, and the mistakes that it accepts.
3. Read the labels before you compare. A check named `fresh`, `strides` or `slices` needs more than one call or more
   than contiguous tensors. `kernels` and the status `policy` say that something else than a kernel of the file
   computed: a grader that allows that is right to accept them. `launches`, `traffic` and `speed` are about cost, not
   about values.
4. Take the labels away from a grader that reads the text: remove the docstring.

This lists every planted mistake with its label:

```python
from grader.soundness.claims import claim_of
from grader.exercise.catalogue import discover, find_root

for entry in discover(find_root()):
    for mistake in entry.wrong:
        claim = claim_of(mistake)
        print(entry.id, mistake.name, claim.check, claim.status, claim.why)
```

`python -m benchmarks.peers` does all of it for two graders ([other graders](comparison.md)).
"""


def page() -> str:
    """Return the text of docs/corpus.md."""
    entries = discover(ROOT)
    claims = {entry: Counter(claim_of(one).status for one in entry.wrong) for entry in entries}
    statuses = sum(claims.values(), Counter())
    tried, blind = len(json.loads(TRIED.read_text(encoding="utf-8"))), len([*BLIND.glob("*.py")])
    parts = [
        INTRODUCTION,
        table(
            ("exercise", "honest", "planted mistakes", "folder"), (_exercise(entry, claims[entry]) for entry in entries)
        ),
        LABELS,
        table(("status", "planted mistakes"), ((f"`{name}`", str(count)) for name, count in statuses.most_common())),
        PATCHES.format(tried=tried, blind=blind, attacks=len(links())),
        *(
            f"| `{name}/` | {len(list((SUBMISSIONS / name).glob('*.py')))} | {words} |\n"
            for name, words in FOLDERS.items()
        ),
        USE,
    ]
    return "".join(parts)


def _exercise(entry: Entry, claims: Counter[str]) -> tuple[str, ...]:
    honest = 1 + len(entry.fast) + len(entry.honest) + len(entry.bases)
    return f"`{entry.id}`", str(honest), str(claims.total()), f"`reference/{entry.name}/`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
