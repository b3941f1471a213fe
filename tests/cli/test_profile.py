"""`grade profile`: a table for people, a document for programs, and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.cli.main import dispatch
from tests.compiled_kernels import COPY, HEAD

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("lent")]

ADD = f"""{HEAD}
@triton.autotune([triton.Config({{"BLOCK": block}}) for block in (512, 1024)], key=["n"])
{COPY.strip()}

def vector_add(x, y):
    copy_kernel[lambda given: (triton.cdiv(x.numel(), given["BLOCK"]),)](x, y, x.numel())
    return y
"""


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    path = tmp_path / "ada.py"
    path.write_text(ADD, encoding="utf-8")
    return path


def test_every_configuration_for_every_gpu(submission: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = submission.with_suffix(".json")
    wanted = ["profile", "ex_15", "--submission", str(submission), "--part", "vector_add"]
    assert dispatch([*wanted, "--json", str(document)]) == 0
    said = capsys.readouterr()
    assert (
        f"copy_kernel, line {ADD.splitlines().index('def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):') + 1}"
        in (said.out)
    )
    for target in ("sm_80", "sm_90", "sm_100"):
        assert f"{target}  vector_add: 2 kernels" in said.err
        assert said.out.count(f"  {target} ") == 2
    found = json.loads(document.read_text(encoding="utf-8"))
    assert found["schema"] == "grade/profile/v1"
    assert found["submission"]["path"] == str(submission)
    (part,) = found["parts"]
    assert part["name"] == "vector_add"
    assert [(one["target"], one["constants"]["BLOCK"]) for one in part["kernels"]] == [
        (target, block) for target in ("sm_80", "sm_90", "sm_100") for block in (512, 1024)
    ]


def test_a_stub_has_nothing_to_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stub.py"
    path.write_text("def vector_add(x, y):\n    raise NotImplementedError\n", encoding="utf-8")
    arguments = ["profile", "ex_15", "--submission", str(path), "--part", "vector_add", "--part", "row_softmax", "-q"]
    assert dispatch([*arguments, "--json", "-"]) == 3
    said = capsys.readouterr()
    assert said.err == "vector_add: not implemented yet\nrow_softmax: the file does not define it\n"
    assert json.loads(said.out)["parts"][0]["kernels"] == []


def test_a_stub_s_part_is_named_once_and_not_for_every_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stub.py"
    path.write_text("def vector_add(x, y):\n    raise NotImplementedError\n", encoding="utf-8")
    assert dispatch(["profile", "ex_15", "--submission", str(path), "--part", "vector_add"]) == 3
    said = capsys.readouterr()
    assert said.out == "vector_add: not implemented yet\n"
    assert "not implemented yet" not in said.err


def test_launch_code_that_raises_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.py"
    path.write_text("def vector_add(x, y):\n    return x.no_such\n", encoding="utf-8")
    assert dispatch(["profile", "ex_15", "--submission", str(path), "--part", "vector_add", "-q"]) == 1
    assert "sm_80, sm_90, sm_100: the launch code raised AttributeError:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ex_51"], "grade: the exercise must be one of "),
        (["ex_15", "--part", "nope"], "grade: a part must be one of vector_add, "),
        (["ex_15", "--submission", "/no/such.py"], "grade: a submission must exist, got /no/such.py"),
        (["ex_15", "--json", "/proc/profile.json"], "grade: an output must be writable, got /proc/profile.json: "),
        ([], "grade: grade profile must get EXERCISE: ex_15, "),
    ],
)
def test_bad_command_lines_are_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["profile", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(said)
    assert told.err.count("\n") == 1
