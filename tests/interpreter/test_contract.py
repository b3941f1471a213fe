"""What is taken for granted about triton's interpreter is written down whole, holds, and is missed in words."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.interpreter import contract
from grader.interpreter.versions import DIFFERENCES, VersionDifference
from tests.conftest import ROOT

pytestmark = pytest.mark.process

# The interpreter is looked at where nothing has patched it: in a process of its own.
LOOK = "from triton.runtime import interpreter; from grader.interpreter import contract"
MODULES = {path.stem: ast.parse(path.read_text("utf-8")) for path in Path(contract.__file__).parent.rglob("*.py")}
RELYING = (
    *(
        "corrections",
        "contraction",
        "implicit_dots",
        "memory",
        "numerics",
        "loops",
        "libdevice",
        "reductions",
        "lowering",
        "once",
    ),
    *("beyond", "conditions", "gather", "patience", "leading_axis", "lockstep", "versions", "instructions"),
    *("unspecified", "workspaces", "births", "promises"),
)


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run this in a fresh interpreting Python that finds triton where this one does."""
    paths = os.pathsep.join([str(ROOT), *sys.path])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


# Changes of triton's interpreter, and what is said of each.
CHANGES = {
    "del interpreter.InterpreterBuilder.create_masked_load": "InterpreterBuilder.create_masked_load is missing",
    "interpreter.InterpreterBuilder.create_dot = lambda self, a, b, c: None": (
        "InterpreterBuilder.create_dot must take (self, a, b, d, input_precision, max_num_imprecise_acc), "
        "got (self, a, b, c)"
    ),
    "del interpreter._implicit_cvt": "_implicit_cvt is missing",
    "interpreter.InterpreterBuilder.set_grid_idx = lambda self, x, y, z: setattr(self, 'place', (x, y, z))": (
        "InterpreterBuilder.set_grid_idx must set interpreter_builder.grid_idx"
    ),
    "del interpreter.GridExecutor": "GridExecutor.__call__ is missing",
    "del interpreter._ir": "_ir.ROUNDING_MODE.RTZ is missing",
    "interpreter.interpreter_builder.options = object()": ("interpreter_builder.options.sanitize_overflow is missing"),
    "interpreter.interpreter_semantic.numbered = lambda value: None": (
        "interpreter_semantic.numbered has come: is ours still needed?"
    ),
}
# Each is made in a process of its own, all of which have triton from one that imported it.
TRIED = f"""
import json, os
{LOOK}
for change in ("pass", *{tuple(CHANGES)!r}):
    if os.fork() == 0:
        exec(change)
        print(json.dumps([change, list(contract.differences(interpreter))]), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def differences() -> dict[str, list[str]]:
    """Return what is said of each change, and of none: "pass"."""
    ran = python(TRIED)
    assert ran.returncode == 0, ran.stderr
    return dict(map(json.loads, ran.stdout.splitlines()))


def test_the_installed_triton_keeps_the_contract(differences: dict[str, list[str]]) -> None:
    assert differences["pass"] == [], (
        "this triton is not the one that grader/interpreter was written for: "
        "adapt corrections.py, numerics.py and memory.py to it, then contract.py"
    )


@pytest.mark.parametrize(("change", "said"), CHANGES.items())
def test_a_change_in_triton_is_said_in_words(differences: dict[str, list[str]], change: str, said: str) -> None:
    assert said in differences[change]


SOURCE = """
class InterpreterBuilder:
    def create_masked_load(self, ptrs): return _interpreter.load(ptrs)
    def create_masked_store(self, ptrs): return _interpreter.store(ptrs)
    def create_atomic_rmw(self, rmwOp, sem): return _interpreter.atomic_rmw(_interpreter.RMW_OP.ADD, rmwOp, sem)
    def create_descriptor_reduce(self, desc): return _interpreter.atomic_rmw(desc)
    sems = _interpreter.MEM_SEMANTIC.ACQUIRE

def prefetch(ptrs):
    return [_interpreter.prefetch(one) for one in ptrs]
"""


def test_an_access_by_another_door_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract.inspect, "getsource", lambda module: SOURCE)
    assert list(contract._wrong_doors(types.ModuleType("interpreter"))) == [
        "InterpreterBuilder.create_descriptor_reduce calls _interpreter.atomic_rmw: nothing watches that",
        "prefetch calls _interpreter.prefetch: nothing watches that",
        "InterpreterBuilder.create_atomic_cas must call _interpreter.atomic_cas",
    ]


def of_version(version: str, **attributes: object) -> types.ModuleType:
    """An interpreter of that version of Triton that has only these attributes."""
    interpreter = types.ModuleType("interpreter")
    vars(interpreter).update(attributes, triton=types.SimpleNamespace(__version__=version))
    return interpreter


def test_a_difference_is_expected_from_its_version_on(monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = VersionDifference((3, 9), "a name", parameters={"load": "ptr, policy"}, gone=("Block",))
    monkeypatch.setattr(contract, "DIFFERENCES", (renamed,))
    monkeypatch.setattr(contract, "PARAMETERS", {"load": "ptr, cache", "Block": "base", "Block.advance": "self"})
    for version, wanted in {
        "3.8.1": {"load": "ptr, cache", "Block": "base", "Block.advance": "self"},
        "3.9.0": {"load": "ptr, policy"},
        "3.10.0": {"load": "ptr, policy"},
    }.items():
        assert contract._wanted(contract._known(of_version(version))) == wanted


def test_what_is_known_to_be_gone_is_noticed_where_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "DIFFERENCES", (VersionDifference((3, 9), "a name", gone=("Block",)),))
    monkeypatch.setattr(contract.inspect, "getsource", lambda module: "")
    found = contract.differences(of_version("3.9.0", Block=object()))
    assert "Block has come: is ours still needed?" in found
    assert "Block has come: is ours still needed?" not in contract.differences(of_version("3.8.0", Block=object()))


# -- nothing is relied on that is not written down ---------------------------------------------------------------------


def dotted(node: ast.AST) -> str:
    """The text of a chain of names; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := dotted(node.value)):
        return f"{before}.{node.attr}"
    return ""


def relied_on(tree: ast.Module) -> Iterator[str]:
    """Dotted names of the interpreter's that a module takes, sets, or names in a string."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "triton.runtime.interpreter":
            aliases |= {alias.asname or alias.name: alias.name for alias in node.names}
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "triton.runtime":
            aliases |= {alias.name: "" for alias in node.names}
    for node in ast.walk(tree):
        head, _, rest = dotted(node).partition(".") if isinstance(node, ast.Attribute) else ("", "", "")
        if head in aliases:
            yield f"{aliases[head]}.{rest}".lstrip(".")
        elif isinstance(node, ast.Constant) and f"InterpreterBuilder.{node.value}" in contract.PARAMETERS:
            yield f"InterpreterBuilder.{node.value}"
        # Methods of the interpreter's that ours call on its objects.
        elif isinstance(node, ast.Call) and dotted(node.func).startswith("self.create_"):
            yield f"InterpreterBuilder.{dotted(node.func).removeprefix('self.')}"


def written_down() -> set[str]:
    """Everything that the contract names, and what that is part of."""
    names = {*contract.PARAMETERS, *contract.NAMES, *contract.ABSENT, *contract.LEFT_BEHIND, *contract.DOORS}
    names |= {name for one in DIFFERENCES for name in one.parameters}
    parts = {name.rpartition(".")[0] for name in names}
    return names | parts | {part.rpartition(".")[0] for part in parts}


@pytest.mark.parametrize("module", RELYING)
def test_what_a_module_relies_on_is_in_the_contract(module: str) -> None:
    found = set(relied_on(MODULES[module]))
    assert len(found) > 1, "this test looks in the wrong place"
    missing = {name for name in found if name not in written_down() and name.rpartition(".")[0] not in contract.NAMES}
    assert missing == set(), "add to grader/interpreter/contract.py what grader.interpreter relies on"


def test_every_module_that_changes_the_interpreter_is_looked_at() -> None:
    knowing = {name for name, tree in MODULES.items() if any("interpreter" in found for found in imports(tree))}
    assert knowing - {*RELYING, "contract", "__init__"} == set()


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("triton"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# -- refusal -----------------------------------------------------------------------------------------------------------


def test_a_server_with_another_interpreter_ends_before_any_submission_and_says_why() -> None:
    ran = python(
        "from triton.runtime import interpreter; del interpreter.InterpreterBuilder.create_masked_store; "
        "from grader.child import worker; worker.preload()"
    )
    assert ran.returncode == 1
    *_, last = ran.stderr.strip().splitlines()
    assert re.fullmatch(
        r"the interpreter of triton 3\.\S+ is not one that this grader knows: "
        r"InterpreterBuilder\.create_masked_store is missing",
        last,
    )
