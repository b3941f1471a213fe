"""`grade doctor` refuses other versions of torch and triton; every page and file names the same ones."""

from __future__ import annotations

import re
import tomllib

import pytest

from grader import machine
from grader.cli.main import dispatch
from grader.cli.supported import PAIRS, requirement, why_unsupported
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("package", "version"),
    [
        ("torch", "2.11.0+cu130"),
        ("torch", "2.15.1"),
        ("triton", "3.9.0"),
        ("triton", "3.6.0+git1"),
        ("numpy", "1.26.4"),
    ],
)
def test_a_tested_version_is_accepted(package: str, version: str) -> None:
    assert why_unsupported(package, version) == ""


@pytest.mark.parametrize(
    ("package", "version", "said"),
    [
        ("triton", "3.5.1", "triton must be 3.6 to 3.9, got 3.5.1: pip install 'triton>=3.6,<3.10'"),
        ("triton", "3.10.0", "triton must be 3.6 to 3.9, got 3.10.0: pip install 'triton>=3.6,<3.10'"),
        ("torch", "2.1.2", "torch must be 2.11 to 2.15, got 2.1.2: pip install 'torch>=2.11,<2.16'"),
    ],
)
def test_another_version_is_refused_with_the_rule_and_the_command(package: str, version: str, said: str) -> None:
    assert why_unsupported(package, version) == said


def test_the_doctor_refuses_another_triton_and_runs_no_kernel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = machine.version
    monkeypatch.setattr(machine, "version", lambda package: "3.5.1" if package == "triton" else installed(package))
    assert dispatch(["doctor"]) == 4
    examined = capsys.readouterr().out
    assert "WRONG   triton must be 3.6 to 3.9, got 3.5.1" in examined
    assert "a Triton kernel" not in examined


def test_pip_installs_tested_versions_only() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"torch{requirement('torch')}" in dependencies
    assert f"triton{requirement('triton')}; platform_system == 'Linux'" in dependencies


def test_tox_has_an_environment_for_every_triton_with_its_torch() -> None:
    deps = re.findall(r"^    triton(\d)(\d+): (torch|triton)==([\d.]+)\.\*$", (ROOT / "tox.ini").read_text(), re.M)
    pairs = {(major, minor): {} for major, minor, _, _ in deps}
    for major, minor, package, version in deps:
        pairs[major, minor][package] = version
    assert all(pair["triton"] == f"{major}.{minor}" for (major, minor), pair in pairs.items())
    found = {(pair["torch"], pair["triton"]) for pair in pairs.values()}
    assert found <= {*PAIRS}
    assert {triton for _, triton in found} == {triton for _, triton in PAIRS}


def test_the_page_lists_the_pairs() -> None:
    rows = re.findall(r"^\| ([\d., ]+) \| (\d\.\d+) \|", (ROOT / "docs" / "learning.md").read_text(), re.M)
    assert [(torch, triton) for torches, triton in rows for torch in torches.split(", ")] == [*PAIRS]
