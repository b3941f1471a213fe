"""`grade doctor`: runs a real kernel in each mode of this machine, confined like a submission; says what is missing."""

from __future__ import annotations

import importlib.util
from contextlib import closing
from pathlib import Path

from grader import machine
from grader.errors import GradeError
from grader.isolation import missing
from grader.model.exercise import Limits
from grader.protocol.messages import Call, Loaded, Raised, Recipe, Slot, Start
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer, Mode
from grader.sandbox.session import Session

_NEEDED = ("torch", "triton", "numpy", "hypothesis", "jinja2", "typer", "rich")
_INPUTS = "import torch\ndef double(case, generator):\n    return (torch.randn(case['N'], generator=generator),)\n"
_LENGTH = 100


def doctor() -> int:
    """Examine the machine; 0 when some mode works, 4 when none does."""
    import platform

    print(f"python {platform.python_version()}, {platform.system()} {platform.release()}")
    for package in _NEEDED:
        found = machine.version(package)
        print(f"{'ok     ' if found else 'MISSING'} {package} {found or '(pip install -c constraints.txt -e .)'}")
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
        return 4
    works = [_try_mode("interpret")]
    gpu = machine.find_gpu()
    if gpu is None:
        print("no GPU  speed cannot be judged here; values, technique and launches can")
    elif not machine.has_gpu():
        print(f"MISSING a CUDA build of torch for the {gpu.name} (driver {gpu.driver}): pip install torch")
    else:
        print(f"ok      {gpu.name}, driver {gpu.driver}, compute capability {gpu.capability}")
        works.append(_try_mode("gpu"))
    return 0 if any(works) else 4


def _try_mode(mode: Mode) -> bool:
    """Run the grader's own kernel in a confined child of this mode and compare what it computes."""
    import torch

    from grader.child import warmup

    source = Path(warmup.__file__).read_text(encoding="utf-8")
    start = Start("doctor.py", source, _INPUTS, ("double",))
    call = Call(Recipe("double", {"N": _LENGTH}, 1), ("x",), (), (Slot("float32", (_LENGTH,), 0, 4 * _LENGTH),))
    try:
        with closing(ForkServer(mode)) as server, Session(server, start, Limits()) as session:
            loaded = session.load()
            outcome = session.call(call) if isinstance(loaded, Loaded) else loaded
    except GradeError as refused:
        print(f"BROKEN  a Triton kernel in mode {mode}: {refused}")
        return False
    drawn = torch.randn(_LENGTH, generator=torch.Generator().manual_seed(1))
    if isinstance(outcome, Finished) and outcome.outputs[0] is not None:
        got = torch.frombuffer(bytearray(outcome.outputs[0]), dtype=torch.float32)
        right = torch.equal(got, 2 * drawn)
        mark, words = ("ok     ", "right") if right else ("WRONG  ", "wrong values")
        print(f"{mark} a Triton kernel in mode {mode}: {words}")
        if session.ready:
            print(f"        isolation: {', '.join(session.ready.isolation)}")
            for promise in missing(session.ready.isolation):
                print(f"MISSING confinement of a submission: {promise}")
        return right
    print(f"BROKEN  a Triton kernel in mode {mode}: {_why(outcome)}")
    return False


def _why(outcome: object) -> str:
    if isinstance(outcome, Raised):
        advice = ""
        if "only integer scalar arrays" in outcome.message or "only 0-dimensional" in outcome.message:
            advice = " (triton 3.6 needs numpy < 2.4: pip install 'numpy<2.4')"
        return f"{outcome.kind}: {outcome.message[:300]}{advice}"
    return str(outcome)
