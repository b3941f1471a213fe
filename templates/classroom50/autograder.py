"""Grade a submission on Classroom 50: put this into the bundle as CLASSROOM/autograders/ASSIGNMENT/autograder.py.

The runner starts it in the student's checkout. It writes result.json and release-body.md there, and ends with another
code than 0 only if the grading itself failed. An assignment's runtime with a container that holds grade (the Dockerfile
of this project) saves the installation.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

GRADE = "grade @ git+https://github.com/OWNER/grade@main"
TORCH = "https://download.pytorch.org/whl/cpu"
EXERCISE = "ex_15"


def main() -> int:
    """Install grade where it is missing, grade the exercise, and write the runner's files."""
    if importlib.util.find_spec("grader") is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--extra-index-url", TORCH, GRADE], check=True)
    found = sorted(Path("exercises").glob(f"{EXERCISE}_*.py"))
    if len(found) != 1:
        print(f"exercises/ must hold one file of {EXERCISE}, got {len(found)}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        # In a course of its own: files of the repository must not become oracles.
        os.environ["GRADE_ROOT"] = f"{folder}/course"
        record = f"{folder}/record.json"
        return (
            grade("init", os.environ["GRADE_ROOT"])
            or grade("run", EXERCISE, "--submission", str(found[0]), "--json", record, "--quiet", "--exit-zero")
            or grade("export", record, "--format", "classroom50", "--out", ".")
        )


def grade(*arguments: str) -> int:
    """Run grade in the checkout, and import nothing from there (-P); return its exit code."""
    return subprocess.run([sys.executable, "-P", "-m", "grader", *arguments], check=False).returncode


sys.exit(main())
