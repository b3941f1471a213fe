"""An OUT_DIR becomes a gradebook; a damaged record stops nothing, a damaged batch.json is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from grader.batch import reading
from grader.batch.gradebook import Mark, Override
from grader.batch.store import StoredRecord
from grader.errors import UsageError
from grader.record.record import from_json, to_json
from tests.records import classes, samples


def test_scores_come_from_the_records_and_lateness_and_overrides_from_batch_json(tmp_path: Path) -> None:
    book = reading.read(classes.out_dir(tmp_path))
    assert book.mark("ada", "ex_15") == Mark(
        *("ada", "ex_15", "fail", 29.5, 41.0, 41.0, "2026-11-02T08:15:00Z", 2, 4.0), record="records/ada/ex_15.json"
    )
    assert book.mark("ada", "ex_15").points == 25.5
    assert book.mark("evil", "ex_15").overrides == (Override(40.999, "=1+1, appealed", "@prof"),)
    assert book.mark("late", "ex_15") == Mark("late", "ex_15", "missing", 0.0, 0.0, 41.0)
    assert [mark.student for mark in book.marks] == ["ada", "grace", "evil", "late"]


def test_every_record_is_visited_once_in_the_order_of_the_roster(tmp_path: Path) -> None:
    seen: list[StoredRecord] = []
    reading.read(classes.out_dir(tmp_path), seen.append)
    assert [found.student for found in seen] == ["ada", "grace", "evil"]
    assert list(reading.records(tmp_path)) == seen


@pytest.mark.parametrize("name", ["passing", "failing", "timed", "on_paper", "foretold", "untouched", "every_status"])
def test_the_fast_reading_gives_what_the_strict_one_gives(name: str, tmp_path: Path) -> None:
    record = getattr(samples, name)()
    (tmp_path / "a.json").write_text(to_json(record), encoding="utf-8")
    assert reading.read_record(tmp_path / "a.json") == from_json(to_json(record)) == record


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"schema": "grade/result/v2"}', "Invalid enum value"),
    ],
)
def test_a_damaged_record_is_nobody_s_fault_and_stops_nothing(text: str, said: str, tmp_path: Path) -> None:
    classes.out_dir(tmp_path)
    (tmp_path / "records" / "ada" / "ex_15.json").write_text(text)
    seen: list[StoredRecord] = []
    mark = reading.read(tmp_path, seen.append).mark("ada", "ex_15")
    assert (mark.status, mark.judged) == ("grader_error", 0.0)
    assert said in seen[0].problem
    assert [found.record is not None for found in seen] == [False, True, True]


def test_another_student_s_or_another_exercise_s_record_is_refused(tmp_path: Path) -> None:
    other = dataclasses.replace(classes.all_judged().exercise, id="ex_16")
    classes.write(
        tmp_path,
        {
            ("ada", "ex_15"): dataclasses.replace(classes.all_judged(), exercise=other),
            ("grace", "ex_15"): classes.all_judged(),
        },
    )
    (tmp_path / "records" / "grace" / "ex_15.json").write_text(to_json(classes.owned(classes.all_judged(), "ada")))
    problems = [found.problem for found in reading.records(tmp_path)]
    assert problems == ["it is a record of ex_16", "it is another student's record"]


def test_a_folder_that_is_no_out_dir_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must hold batch\.json, got .*: No such file or directory"):
        reading.read(tmp_path)
    (tmp_path / "batch.json").write_text("{}")
    with pytest.raises(UsageError, match=r"batch\.json must be a grade/batch/v1 document, got .*: Object missing"):
        reading.read(tmp_path)


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "a\0"])
def test_an_id_that_is_no_file_s_name_is_refused(name: str, tmp_path: Path) -> None:
    classes.write(tmp_path, {}, students=(dataclasses.replace(classes.ADA, id=name),))
    with pytest.raises(UsageError, match="a student's id must be the name of a file, got "):
        reading.read(tmp_path)


def test_a_student_named_twice_is_refused(tmp_path: Path) -> None:
    classes.write(tmp_path, {}, students=(classes.ADA, classes.ADA))
    with pytest.raises(UsageError, match="every student must be named once, got 'ada' again"):
        reading.read(tmp_path)


def test_a_single_record_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps({"a": 1}))
    with pytest.raises(UsageError, match="a record must be a grade/result/v1 document, got "):
        reading.read_record(tmp_path / "x.json")
