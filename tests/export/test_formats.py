"""Test every platform's file: valid by its schema for any record, and true to the table of statuses."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from grader import export
from grader.errors import GradeError, UsageError
from grader.export import (
    autolab,
    classroom50,
    exercism,
    github,
    gradescope,
    junit,
    markdown,
    messages,
    prairielearn,
    table,
)
from grader.export.formats import ExportOptions, formats
from grader.record.record import Feedback, Record
from grader.record.statuses import UNJUDGED, Status
from grader.report import by_hand, view
from grader.report.status import LOOKS
from tests import schemas
from tests.records import classes, samples

GOLDEN = Path(__file__).parents[1] / "records" / "exports"
ROOM = Path(export.__file__).parent
PLACE = classroom50.RunnerEnvironment(
    "gpu101", "ex-15", "submit/2026-11-02T08-15-00Z-1f2e3d4", "https://e.org/c", "https://e.org/r", "https://e.org/c"
)
NAMES = ("passing", "failing", "untouched", "without_parts", "timed", "on_paper", "every_status", "hostile")


def sample(name: str) -> Record:
    return cast(Record, getattr(samples, name)())


def of_status(status: Status, points: float = 0.0, most: float = 4.0) -> Record:
    """Return a record of one check that passes and one of that status."""
    checks = (
        samples.check("vector_add.first", "The first", points=6, most=6),
        samples.check("vector_add.second", "The second", status, points, most, reason=f"Because of {status}."),
    )
    return samples.record(checks, (samples.VECTOR_ADD,))


def invalid() -> Record:
    reason = "Line 3: invalid syntax."
    checks = tuple(
        samples.check(f"vector_add.{name}", name, "invalid_submission", most=5, reason=reason) for name in ("a", "b")
    )
    return samples.record(checks, (samples.VECTOR_ADD,))


def lines_of(record: Record) -> list[str]:
    return autolab.render(record).splitlines()


DOCUMENTS: dict[str, tuple[Callable[[Record], str], dict[str, Any]]] = {
    "gradescope": (gradescope.render, schemas.GRADESCOPE),
    "classroom50": (lambda record: classroom50.render(record, PLACE), schemas.CLASSROOM50),
    "github": (lambda record: base64.b64decode(github.classroom(record)).decode(), schemas.GITHUB_CLASSROOM),
    "exercism": (exercism.render, schemas.EXERCISM),
    "prairielearn": (prairielearn.render, schemas.PRAIRIELEARN),
    "autolab": (lambda record: lines_of(record)[-1], schemas.AUTOLAB),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("format", DOCUMENTS)
def test_a_document_is_valid_by_the_platform_s_schema(format: str, name: str) -> None:
    render, schema = DOCUMENTS[format]
    record = sample(name)
    if name == "hostile":
        record = dataclasses.replace(record, graded_at="2026-11-02T09:00:00Z", submitted_at="")
    jsonschema.validate(json.loads(render(record)), schema)


@pytest.mark.parametrize("status", LOOKS)
@pytest.mark.parametrize("format", DOCUMENTS)
def test_a_document_is_valid_for_every_status(format: str, status: Status) -> None:
    render, schema = DOCUMENTS[format]
    jsonschema.validate(json.loads(render(of_status(status, 2.5 if status == "pass" else 0))), schema)


@pytest.mark.parametrize("format", DOCUMENTS)
def test_nothing_that_a_submission_says_becomes_a_control_character(format: str) -> None:
    render, _ = DOCUMENTS[format]
    record = dataclasses.replace(samples.hostile(), graded_at="2026-11-02T09:00:00Z", submitted_at="")
    text = json.dumps(json.loads(render(record)), ensure_ascii=False)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)


@pytest.mark.parametrize("format", DOCUMENTS)
def test_a_document_holds_no_number_that_is_none(format: str) -> None:
    def refuse(text: str) -> None:
        raise AssertionError(text)

    json.loads(DOCUMENTS[format][0](samples.timed()), parse_constant=refuse)


CHECKS = {
    ("ada", "ex_15"): table.points_of(classes.all_judged()),
    ("grace", "ex_15"): table.points_of(samples.failing()),
}


ENVIRONMENT = {
    "CLASSROOM": PLACE.classroom,
    "ASSIGNMENT": PLACE.assignment,
    "SUBMISSION_TAG": PLACE.submission,
    "COMMIT_URL": PLACE.commit,
    "RELEASE_URL": PLACE.release,
}


def golden(record: Record) -> dict[str, str]:
    """Return every file that the formats make of one record, or of a small class, by name."""
    found = {"junit_strict.xml": junit.strict(record)}
    for name, one in formats().items():
        if one.class_files is not None:
            options = ExportOptions(format=name, columns=("ex_15=90412",))
            made = one.class_files(options, ["ex_15"])(classes.book(), CHECKS)
            found |= {f"{name}/{file}": text for file, text in made.files.items()}
        elif one.files is not None:
            found |= {f"{name}/{file}": text for file, text in one.files(record, ENVIRONMENT).items()}
        elif one.render is not None:
            found[f"{name}{one.suffix}"] = one.render(record)
    return found


def test_no_format_writes_a_control_character_of_a_submission() -> None:
    record = dataclasses.replace(samples.hostile(), graded_at="2026-11-02T09:00:00Z", submitted_at="")
    for name, text in golden(record).items():
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), name


def test_every_format_makes_files_of_a_record_a_class_or_an_exercise() -> None:
    for one in formats().values():
        assert one.class_files or one.files or one.render or one.archive, one.name


def test_a_format_is_found_by_its_module_alone() -> None:
    """No other file of the grader lists the formats."""
    declared = [path for path in ROOM.glob("*.py") if re.search(r"^FORMAT = ", path.read_text(), re.MULTILINE)]
    assert len(declared) == len(formats())
    for path in ROOM.parent.rglob("*.py"):
        if path.parent != ROOM:
            assert "prairielearn" not in path.read_text(), path


@pytest.mark.parametrize("name", sorted(golden(samples.failing())))
def test_the_files_are_the_golden_ones(name: str) -> None:
    """`python -m tests.export.test_formats` writes them anew; look at the difference."""
    assert golden(samples.failing())[name].encode() == (GOLDEN / name).read_bytes()


# -- the table of statuses -------------------------------------------------------------------------------------------


def second(format: str, record: Record) -> dict[str, Any]:
    tests = json.loads(DOCUMENTS[format][0](record))["tests"]
    return cast(dict[str, Any], tests[1])


@pytest.mark.parametrize("status", sorted(UNJUDGED))
def test_what_nobody_judged_is_a_row_without_score_on_gradescope(status: Status) -> None:
    document = json.loads(gradescope.render(of_status(status)))
    assert document["score"] == 6
    assert not {"score", "max_score", "status"} & set(document["tests"][1])
    assert f"Because of {status}." in document["tests"][1]["output"]


@pytest.mark.parametrize("status", sorted(set(LOOKS) - UNJUDGED - {"pass", "invalid_submission"}))
def test_every_other_status_is_a_failed_row_on_gradescope(status: Status) -> None:
    row = second("gradescope", of_status(status))
    assert (row["status"], row["score"], row["max_score"]) == ("failed", 0, 4)


def test_a_file_that_cannot_be_loaded_is_one_failed_row_on_gradescope_and_no_attempt() -> None:
    document = json.loads(gradescope.render(invalid()))
    (row,) = document["tests"]
    assert (row["score"], row["max_score"], row["output"]) == (0, 10, "Line 3: invalid syntax.")
    assert document["extra_data"]["grade"]["graded"] is False


@pytest.mark.parametrize("status", ["skipped_environment", "inconclusive"])
def test_what_nobody_judged_is_left_out_of_rows_and_sums_on_classroom_50(status: Status) -> None:
    files = classroom50.files(of_status(status), PLACE)
    document = json.loads(files["result.json"])
    assert (document["score"], document["max-score"], len(document["tests"])) == (6, 6, 1)
    assert f"Because of {status}".replace("_", r"\_") in files["release-body.md"]


def test_a_failure_of_the_grader_publishes_nothing_on_classroom_50() -> None:
    with pytest.raises(GradeError, match="nothing is published"):
        classroom50.files(of_status("grader_error"), PLACE)


def test_fractions_become_whole_numbers_by_one_factor_on_classroom_50() -> None:
    document = json.loads(classroom50.render(of_status("pass", 2.25), PLACE))
    assert (document["score"], document["max-score"]) == (825, 1000)
    assert [test["max-score"] for test in document["tests"]] == [600, 400]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"submission": "v1"}, "SUBMISSION_TAG must start with submit/, got 'v1'"),
        ({"commit": ""}, "the runner's commit must not be empty, got ''"),
    ],
)
def test_a_place_that_the_runner_did_not_name_is_refused(changes: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        dataclasses.replace(PLACE, **changes)


def test_the_moment_on_classroom_50_is_the_submission_s_and_must_be_one() -> None:
    assert json.loads(classroom50.render(samples.failing(), PLACE))["datetime"] == "2026-11-02T08:15:00Z"
    with pytest.raises(UsageError, match="a record's times must look like 2026-11-02T08:15:00Z, got 'now'"):
        classroom50.render(dataclasses.replace(samples.failing(), submitted_at="", graded_at="now"), PLACE)


@pytest.mark.parametrize(("status", "look"), exercism.TESTS.items())
def test_exercism_s_test_has_the_status_of_the_table(status: Status, look: str) -> None:
    document = json.loads(exercism.render(of_status(status)))
    if status == "invalid_submission":
        assert document["status"] == "error"
        assert "tests" not in document
    else:
        assert document["tests"][1]["status"] == look


@pytest.mark.parametrize("status", LOOKS)
def test_exercism_s_top_level_agrees_with_its_tests(status: Status) -> None:
    document = json.loads(exercism.render(of_status(status)))
    found = {test["status"] for test in document.get("tests", [])}
    assert document["status"] == ("error" if not found else "pass" if found == {"pass"} else "fail")
    assert (document["message"] is None) == bool(found)


def test_every_exported_name_of_a_test_holds_its_part() -> None:
    record = samples.failing()
    whole = golden(record)
    names = [
        test["name"]
        for name in ("exercism.json", "gradescope.json", "prairielearn.json")
        for test in json.loads(whole[name]).get("tests", [])
    ]
    names += re.findall('<testcase name="([^"]+)"', whole["junit.xml"] + whole["junit_strict.xml"])
    names += [test["test-name"] for test in json.loads(whole["classroom50/result.json"])["tests"]]
    names += [test["name"] for test in json.loads(base64.b64decode(whole["github/classroom.txt"]))["tests"]]
    parts = {check.part for check in record.checks}
    assert len(names) > len(record.checks)
    assert all(name.startswith(tuple(parts)) for name in names)
    assert "title=row_softmax%3A " in whole["github/annotations.txt"]


def test_the_reporter_s_log_holds_the_sum_of_the_scores() -> None:
    tests = json.loads(base64.b64decode(github.classroom(of_status("fail", 1.5))))["tests"]
    assert [test["test_code"] for test in tests] == [
        "The first: 6 of 6 points; 6 of 10 so far",
        "The second: 1.5 of 4 points; 7.5 of 10 so far",
    ]


# -- by hand ---------------------------------------------------------------------------------------------------------


def commented(*feedback: Feedback) -> Record:
    return dataclasses.replace(of_status("fail", 1.0), feedback=feedback)


TIDY = Feedback("vector_add", "Clear names.\n<b>Well</b> done.", "prof", 9.0)


def test_a_comment_and_points_by_hand_are_in_every_document_of_a_class() -> None:
    record = commented(TIDY, Feedback("", "See me.", "ta"))
    assert list(by_hand.lines(record)) == [
        "The whole exercise: See me. (ta)",
        "Vector addition: 9 of 10 points instead of 7; Clear names. <b>Well</b> done. (prof)",
    ]
    assert json.loads(gradescope.render(record))["score"] == 9.0
    assert json.loads(prairielearn.render(record))["score"] == 0.9
    assert '"scores":{"ex_15":9.0}' in autolab.render(record)
    assert '"score_by_hand" value="9"' in junit.rich(record)
    for text in (gradescope.render(record), prairielearn.render(record), autolab.render(record), junit.rich(record)):
        assert "See me." in text
        assert "Clear names." in text
    assert "See me\\." in markdown.summary(record)
    assert "See me." in junit.strict(record)


def test_points_for_the_whole_exercise_replace_all_others() -> None:
    assert by_hand.score(commented(Feedback("", "", "prof", 8.5))) == (8.5, 10.0)
    assert by_hand.score(commented(Feedback("", "Good.", "prof"))) == (7.0, 10.0)


def test_what_nobody_judged_fails_nobody_on_exercism() -> None:
    for status in ("skipped_environment", "inconclusive"):
        assert json.loads(exercism.render(of_status(cast(Status, status))))["status"] == "pass"


def test_exercism_shows_what_was_printed_beside_the_first_failure_and_says_what_is_cut() -> None:
    tests = json.loads(exercism.render(samples.failing()))["tests"]
    (shown,) = [test for test in tests if "output" in test]
    assert shown["name"] == next(messages.name(one) for one in samples.failing().checks if one.status in view.LEARNERS)
    assert shown["output"].endswith("… cut; 98000 bytes were printed")


@pytest.mark.parametrize("status", ["skipped_environment", "inconclusive"])
def test_what_nobody_judged_is_neutral_on_prairielearn(status: Status) -> None:
    document = json.loads(prairielearn.render(of_status(status)))
    assert (document["gradable"], document["score"]) == (True, 1.0)
    assert (document["tests"][1]["points"], document["tests"][1]["max_points"]) == (0, 0)


def test_a_share_never_hides_a_whole_part_that_was_not_judged() -> None:
    record = samples.without_parts()
    document = json.loads(prairielearn.render(record))
    assert (document["gradable"], "score" in document) == (False, False)
    assert samples.NO_DSL in document["message"]
    assert json.loads(DOCUMENTS["github"][0](record))["status"] == "error"
    assert json.loads(exercism.render(record))["status"] == "error"


def test_a_failure_of_the_grader_and_an_invalid_file_cost_no_attempt_on_prairielearn() -> None:
    assert json.loads(prairielearn.render(of_status("grader_error")))["gradable"] is False
    assert json.loads(prairielearn.render(invalid())) == {
        "gradable": False,
        "format_errors": ["Line 3: invalid syntax."],
    }


def test_prairielearn_s_picture_is_a_whole_svg_without_a_script() -> None:
    tests = json.loads(prairielearn.render(samples.failing()))["tests"]
    (url,) = [image["url"] for test in tests for image in test.get("images", [])]
    svg = base64.b64decode(url.partition("base64,")[2]).decode()
    assert svg.startswith("<svg")
    assert 'xmlns="http://www.w3.org/2000/svg"' in svg
    assert "<script" not in svg


def test_prairielearn_s_document_stays_small_whatever_is_in_the_record() -> None:
    record = samples.hostile("<" * 300_000)
    assert len(prairielearn.render(record, most_bytes=60_000).encode()) < 60_000


def test_no_word_stands_before_a_colon_on_autolab_s_lines() -> None:
    record = samples.record(
        (samples.check("vector_add.tail", "at 12:30", "fail", reason="error: x: y é: z·: 0xf:1"),),
        (samples.VECTOR_ADD,),
    )
    for line in lines_of(record):
        outside = re.sub(r'"(\w|\.)+":', "", line)
        assert not re.search(r"[A-Za-z0-9_]+:", outside), outside
        json.loads(line)


def test_autolab_s_last_line_is_ascii_and_its_scoreboard_numbers_only() -> None:
    first, last = lines_of(samples.timed())
    assert (first + last).isascii()
    document = json.loads(last)
    assert document["scoreboard"] == [document["scores"]["ex_15"], 0.808]
    assert json.loads(first)["stages"] == ["Matrix product", "Softmax over rows", "Vector addition"]


@pytest.mark.parametrize("name", NAMES)
def test_the_strict_junit_keeps_every_rule_of_its_schema(name: str) -> None:
    assert schemas.strict_junit_faults(junit.strict(sample(name))) == []


# -- GitHub ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_annotations_are_whole_lines_that_a_submission_cannot_add_to(name: str) -> None:
    text = github.commands(sample(name))
    assert all(re.match(r"::(error|notice) [^:]*::[^\r\n]*$", line) for line in text.splitlines())
    assert "##[" not in text


def test_the_first_failure_is_annotated_on_the_line_that_its_traceback_names() -> None:
    cause = samples.failing().checks[7].cause
    record = samples.record(
        (samples.check("row_softmax.values", "Stable, for large: scores", "crash", most=6, cause=cause),),
        (samples.SOFTMAX,),
    )
    record = dataclasses.replace(
        record, submission=dataclasses.replace(record.submission, path="ex_15_triton_basics.py")
    )
    assert github.commands(record).startswith(
        "::error file=ex_15_triton_basics.py,line=61,title=row_softmax%3A Stable%2C for large%3A scores::crashed"
    )


def test_markdown_shows_hostile_text_as_text() -> None:
    text = markdown.summary(samples.hostile())
    table = text.partition("<details>")[0]
    assert "<script" not in table
    assert "<img" not in table
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_a_fence_is_longer_than_any_in_what_it_holds() -> None:
    check = samples.check("vector_add.tail", "Tail", "fail", reason="````` <script> `````")
    text = markdown.summary(samples.record((check,), (samples.VECTOR_ADD,)))
    assert re.search(r"^``````text\n.*\n``````$", text, re.MULTILINE | re.DOTALL)


def test_a_summary_stays_below_github_s_limit_and_says_what_is_left_out() -> None:
    checks = tuple(samples.check(f"vector_add.c{i}", "T", "fail", reason="x" * 400) for i in range(500))
    text = markdown.summary(samples.record(checks, (samples.VECTOR_ADD,)), most_bytes=200_000)
    assert len(text.encode()) < 210_000
    assert re.search(r"\d+ more failures are left out here; the record holds everything\.", text)


# -- Gradescope's earlier submissions --------------------------------------------------------------------------------


def earlier(record: Record, points: object) -> dict[str, Any]:
    ours = {"sha256": record.submission.sha256, "spec_sha256": record.exercise.spec_sha256, "points": points}
    return {
        "created_at": "2026-11-02T01:15:00-07:00",
        "previous_submissions": [{"results": {"extra_data": {"grade": ours}}}],
    }


def test_points_that_the_same_file_had_are_kept_where_this_grading_could_not_judge() -> None:
    record = of_status("inconclusive")
    document = json.loads(gradescope.render(record, earlier(record, {"vector_add.second": 3.5, "vector_add.first": 0})))
    assert document["score"] == 9.5
    assert (document["tests"][1]["score"], document["tests"][1]["max_score"]) == (3.5, 4)
    assert document["tests"][1]["output"].startswith("Kept from an earlier grading of this file")
    assert document["extra_data"]["grade"]["points"] == {"vector_add.first": 6, "vector_add.second": 3.5}
    assert document["extra_data"]["grade"]["submitted_at"] == "2026-11-02T01:15:00-07:00"


@pytest.mark.parametrize(
    "points", [{"vector_add.second": 99}, {"vector_add.second": "4"}, {"vector_add.second": True}, [], None]
)
def test_earlier_points_that_cannot_be_are_passed_by(points: object) -> None:
    record = of_status("inconclusive")
    assert json.loads(gradescope.render(record, earlier(record, points)))["score"] == 6


@pytest.mark.parametrize(
    "metadata", [None, [], {}, {"previous_submissions": 3}, {"previous_submissions": [1, {"results": []}]}]
)
def test_metadata_of_another_shape_is_no_reason_to_fail(metadata: object) -> None:
    assert json.loads(gradescope.render(samples.failing(), metadata))["score"] == 11


def test_another_file_s_points_are_not_kept() -> None:
    record = of_status("inconclusive")
    other = dataclasses.replace(record, submission=dataclasses.replace(record.submission, sha256="0" * 64))
    assert json.loads(gradescope.render(other, earlier(record, {"vector_add.second": 3.5})))["score"] == 6


if __name__ == "__main__":
    for file, text in golden(samples.failing()).items():
        (GOLDEN / file).parent.mkdir(parents=True, exist_ok=True)
        (GOLDEN / file).write_bytes(text.encode())
