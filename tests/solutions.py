"""`python -m tests.solutions`: grades every model solution in the interpreter, for `tox -e triton39` and its like.

The author's gate does more, with the versions that CI pins: planted mistakes and honest variants.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from grader.cli.main import dispatch
from grader.exercise.catalogue import Entry, discover

ROOT = Path(__file__).resolve().parents[1]
# 4: without an extra, parts that need it are not judged.
GOOD = (0, 4)


def code_of(entry: Entry) -> int:
    """Grade one solution; the exit code."""
    return dispatch([entry.id, "--cpu", "--quiet", "--html", os.devnull, "--submission", str(entry.solution)])


def main() -> int:
    """Grade all of them; 1 if one does not pass."""
    codes = [code_of(entry) for entry in discover(ROOT)]
    return int(not {*codes} <= {*GOOD})


if __name__ == "__main__":
    sys.exit(main())
