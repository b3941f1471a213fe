"""What `grade check` writes for a CI service."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from grader.cli import check_files
from grader.cli.main import dispatch
from grader.soundness import gate
from grader.soundness.findings import Gate, GateLine

GATES = {
    "ex_15": Gate([GateLine("solution.py", True, "passes"), GateLine("a | b.patch", False, "caught by <none>, @ada")]),
    "ex_17": Gate([GateLine("solution.py", None, "cutlass is not installed")]),
}


def test_every_finding_is_a_case_and_what_does_not_hold_is_a_failure() -> None:
    root = ElementTree.fromstring(check_files.junit(GATES))
    first, second = root
    assert first.attrib == {"name": "ex_15", "tests": "2", "failures": "1", "skipped": "0"}
    failure = first[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "caught by <none>, @ada"
    assert second[0].find("skipped") is not None
    assert first[0].get("classname") == "grade.check.ex_15"


def test_the_summary_has_a_line_for_each_exercise_and_names_what_does_not_hold() -> None:
    said = check_files.summary(GATES)
    assert "| ✗ ex\\_15 | 2 | 1 | 0 |\n| ✓ ex\\_17 | 1 | 0 | 1 |" in said
    assert "- **ex\\_15\\: a \\| b\\.patch**: caught by &lt;none&gt;, \\@ada" in said
    assert "\n- " not in check_files.summary({"ex_17": GATES["ex_17"]})


@pytest.mark.process
def test_both_files_are_written_and_the_summary_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate, "run_gate", lambda *_: GATES["ex_15"])
    xml, summary = tmp_path / "check.xml", tmp_path / "summary.md"
    summary.write_text("before\n")
    assert dispatch(["check", "ex_15", "--cpu", "--junit", str(xml), "--summary", str(summary)]) == 1
    assert xml.read_text() == check_files.junit({"ex_15": GATES["ex_15"]})
    assert summary.read_text() == "before\n" + check_files.summary({"ex_15": GATES["ex_15"]})


def test_a_summary_that_cannot_be_written_is_refused_before_anything_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["check", "ex_15", "--summary", str(tmp_path)]) == 2
    assert "an output must be a file, got the directory" in capsys.readouterr().err
