"""JUnit XML: well-formed whatever the record holds, with counts that match."""

from __future__ import annotations

from typing import cast
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from grader.record.statuses import Status
from grader.report import junit
from grader.report.status import LOOKS
from tests.records import samples


def suite_of(text: str) -> Element:
    return cast(Element, ElementTree.fromstring(text.encode("utf-8")).find("testsuite"))


@pytest.mark.parametrize("name", ["passing", "failing", "untouched", "every_status", "timed", "hostile"])
def test_counts_match_the_children(name: str) -> None:
    text = junit.render(getattr(samples, name)())
    suite = suite_of(text)
    root = ElementTree.fromstring(text.encode("utf-8"))

    for count, child in (
        ("tests", "testcase"),
        ("failures", "testcase/failure"),
        ("errors", "testcase/error"),
        ("skipped", "testcase/skipped"),
    ):
        assert suite.get(count) == root.get(count) == str(len(suite.findall(child)))


def test_every_status_has_the_child_that_the_table_names() -> None:
    assert set(junit.CHILDREN) == set(LOOKS)
    cases = suite_of(junit.render(samples.every_status())).findall("testcase")

    for case in cases:
        status = cast(Status, case.get("name", "").removeprefix("vector_add."))
        children = [child.tag for child in case if child.tag != "properties"]
        assert children == ([junit.CHILDREN[status]] if junit.CHILDREN[status] else [])


def test_a_failure_names_its_status_and_tells_what_to_do() -> None:
    failure = suite_of(junit.render(samples.failing())).find("testcase[@name='row_softmax.tail']/failure")

    assert failure is not None
    assert failure.get("type") == "fail"
    assert failure.get("message") == "wrong only in the last, partly filled tile"
    assert "Replay: grade replay ex_15:row_softmax.tail:0x5f" in (failure.text or "")


def test_a_skipped_check_says_why() -> None:
    skipped = suite_of(junit.render(samples.failing())).find("testcase[@name='vector_add.speed']/skipped")

    assert skipped is not None
    assert skipped.get("message") == f"not run here: {samples.NO_GPU}"


def test_properties_name_seed_gpu_mode_and_points() -> None:
    suite = suite_of(junit.render(samples.failing()))
    values = {entry.get("name"): entry.get("value") for entry in suite.findall("properties/property")}

    assert values == {
        "seed": "0x5f3759df",
        "gpu": "none",
        "mode": "interpret",
        "score": "11",
        "judged_score": "32",
        "max_score": "41",
    }


def test_a_speed_check_has_its_ratio_its_interval_and_its_baseline_as_properties() -> None:
    case = suite_of(junit.render(samples.timed())).find("testcase[@name='product.speed']")
    assert case is not None
    values = {entry.get("name"): entry.get("value") for entry in case.findall("properties/property")}

    assert values == {
        "points": "5.82",
        "max_points": "7",
        "speed_baseline": "cublas",
        "speed_ratio": "0.80837",
        "speed_ratio_low": "0.800976",
        "speed_ratio_high": "0.815758",
        "speed_full_marks": "0.9",
    }


def test_the_timestamp_has_no_zone() -> None:
    assert suite_of(junit.render(samples.failing())).get("timestamp") == "2026-11-02T09:00:00"


def test_characters_that_xml_forbids_are_replaced() -> None:
    text = junit.render(samples.hostile())

    assert not set(text) & {"\x00", "\x08", "\x1b", "\x9b", "\ud800", "\uffff", "\u202e"}
    assert "]]>" not in text
    assert "<script" not in text
