"""Make an exercise's autograder.zip for Gradescope: the student bundle and two scripts (docs/exports.md#gradescope)."""

from __future__ import annotations

from collections.abc import Mapping

from grader.export.formats import Format, HandedOut

_SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image. It installs grade for the CPU.
set -euo pipefail
source=${AUTOGRADER_ROOT:-/autograder}/source
home=${GRADE_HOME:-/opt/grade}
export DEBIAN_FRONTEND=noninteractive
apt-get update
for version in 3.14 3.13 3.12 3.11; do
    apt-get install -y --no-install-recommends "python$version" "python$version-venv" && break
done
# In a folder that everybody may enter: each submission runs as a user of its own.
"python$version" -m venv "$home"
export PATH="$home/bin:$PATH" PIP_NO_CACHE_DIR=1
cd "$source/grade"
export PIP_EXTRA_INDEX_URL=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}
pip install -c constraints.txt -e .
@INSTALLS@grade doctor
"""

_RUN = '''\
#!/opt/grade/bin/python
"""Grade one submission. Gradescope runs this as root, in a fresh container."""

import json
import os
import subprocess
import sys
from pathlib import Path

EXERCISE = "@NAME@"
# A number of your own, such as "0x5f3a", keeps the inputs secret. The default ones can be computed by everybody.
SEED = ""

ROOT = Path(os.environ.get("AUTOGRADER_ROOT", "/autograder"))
RESULTS = ROOT / "results" / "results.json"


def main() -> int:
    """Write results.json; the exit code is not 0 only if the grader itself failed."""
    number = "_".join(EXERCISE.split("_")[:2])
    found = [path for path in (ROOT / "submission").rglob(f"{number}*.py") if path.is_file() and not path.is_symlink()]
    if len(found) != 1:
        names = ", ".join(sorted(path.name for path in found)) or "none"
        return refuse(f"Hand in one file with the name {EXERCISE}.py. Found: {names}.")
    record = ROOT / "record.json"
    seed = ["--seed", SEED] if SEED else []
    graded = grade("run", number, "--submission", str(found[0]), *seed, "--json", str(record), "-q", "--exit-zero")
    if graded.returncode == 2:
        return refuse(graded.stderr.strip())
    if graded.returncode:
        return graded.returncode
    metadata = ROOT / "submission_metadata.json"
    known = ["--metadata", str(metadata)] if metadata.is_file() else []
    return grade("export", str(record), "--format", "gradescope", *known, "--out", str(RESULTS)).returncode


def grade(*arguments: str) -> subprocess.CompletedProcess:
    """Run grade in the course; what it says goes to the log that only instructors see."""
    command = [sys.executable, "-m", "grader", *arguments]
    done = subprocess.run(command, cwd=ROOT / "source" / "grade", stderr=subprocess.PIPE, text=True)
    print(done.stderr, end="")
    return done


def refuse(why: str) -> int:
    """Give the submission no points, and say why."""
    RESULTS.write_text(json.dumps({"score": 0, "output": why, "tests": []}))
    return 0


sys.exit(main())
'''


def archive(handed: HandedOut) -> Mapping[str, bytes]:
    """Return the files of autograder.zip; the bundle lies in grade/."""
    installs = "".join(f"{command}\n" for command in handed.installs)
    scripts = {
        "setup.sh": _SETUP.replace("@INSTALLS@", installs).encode(),
        "run_autograder": _RUN.replace("@NAME@", handed.name).encode(),
    }
    return {**scripts, **{f"grade/{name}": data for name, data in handed.files.items()}}


FORMAT = Format("gradescope-autograder", "Gradescope's autograder.zip", archive_name="autograder.zip", archive=archive)
