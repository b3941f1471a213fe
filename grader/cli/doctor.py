"""`grade doctor`: runs a real kernel in each mode of this machine, confined like a submission; says what is missing."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import dataclass

from grader import machine, selftest
from grader.cli.lacking import lacking
from grader.cli.layers import absent, surroundings
from grader.cli.say import say
from grader.cli.supported import why_unsupported
from grader.errors import GradeError
from grader.exercise.catalogue import discover, find_root
from grader.gpus import known, restrictions, why_unknown
from grader.report.isolation import missing
from grader.sandbox.server import ForkServer, Mode

_NEEDED = ("torch", "triton", "numpy", "hypothesis", "jinja2", "typer", "rich", "watchfiles")


@dataclass(frozen=True)
class DoctorLine:
    """One line of `grade doctor`.

    mark: ok, MISSING, WRONG (another version, or wrong values), BROKEN, no GPU; absent for an extra that some parts
    need, or for a layer of confinement; empty if the line continues the one above.
    """

    mark: str
    text: str


class _Findings:
    """Prints findings at once, or keeps them for a document."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self.all: list[DoctorLine] = []

    def add(self, mark: str, text: str) -> None:
        self.all.append(DoctorLine(mark, text))
        if not self._silent:
            say(f"{mark:<7} {text}", sys.stdout)


def doctor(*, as_json: bool = False) -> int:
    """Examine the machine; return 0 if some mode works, else 4."""
    import platform

    found = _Findings(silent=as_json)
    system = f"python {platform.python_version()}, {platform.system()} {platform.release()}"
    if not as_json:
        print(system, flush=True)
    works = _examined(found)
    if as_json:
        rows = [{"mark": one.mark, "text": one.text} for one in found.all]
        print(json.dumps({"system": system, "works": works, "findings": rows}, indent=1))
    return 0 if works else 4


def _examined(found: _Findings) -> bool:
    """Return whether this machine can judge kernels in some mode."""
    installed = [_find_package(package, found) for package in _NEEDED]
    _look_for_extras(found)
    if not all(installed):
        return False
    works = [_try_mode("interpret", found)]
    gpu = machine.find_gpu()
    if gpu is None:
        found.add("no GPU", "speed cannot be judged here; values, technique and launches can")
    elif not machine.has_gpu():
        found.add("MISSING", f"a CUDA build of torch for the {gpu.name} (driver {gpu.driver}): pip install torch")
    else:
        found.add("ok", f"{gpu.name}, driver {gpu.driver}, compute capability {gpu.capability}")
        for said in _about(gpu.capability):
            found.add("", said)
        works.append(_try_mode("gpu", found))
    return any(works)


def _find_package(package: str, found: _Findings) -> bool:
    """Return whether a package is installed, in a version that this grader is tested with."""
    version = machine.version(package)
    if unsupported := version and why_unsupported(package, version):
        found.add("WRONG", unsupported)
    else:
        found.add("ok" if version else "MISSING", f"{package} {version or '(pip install -c constraints.txt -e .)'}")
    return bool(version) and not unsupported


def _about(capability: str) -> tuple[str, ...]:
    """Return remarks on a GPU's architecture: its name, and its restrictions."""
    architecture = known(capability)
    if architecture is None:
        return (why_unknown(capability),)
    return tuple(f"{architecture.name}: {said}" for said in restrictions(architecture))


def _look_for_extras(found: _Findings) -> None:
    """Name the parts that cannot be judged without an extra; a missing extra is not a fault of the machine."""
    try:
        for said in lacking(discover(find_root())):
            found.add("absent", said)
    except GradeError as refused:
        found.add("absent", f"exercises: {refused}")


def _try_mode(mode: Mode, found: _Findings) -> bool:
    """Run the grader's own kernel in a confined child of this mode."""
    with closing(ForkServer(mode)) as server:
        tried = selftest.try_kernel(server)
    found.add(tried.mark, f"a Triton kernel in mode {mode}: {tried.words}")
    if tried.mark != "BROKEN":
        found.add("", f"isolation: {', '.join(tried.isolation)}")
        for promise in missing(tried.isolation):
            found.add("MISSING", f"confinement of a submission: {promise}")
        for layer in absent(tried.isolation, surroundings()):
            found.add("absent", layer)
    return tried.mark == "ok"
