"""The record: what it refuses, what it survives, what it says in one word, one sentence and one exit code."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.cli.exit_codes import exit_code
from grader.protocol.decode import DecodeError
from grader.record.checks import CheckResult
from grader.record.json_numbers import number
from grader.record.record import Record, from_json, to_json
from grader.record.statuses import UNJUDGED, Status
from grader.record.verdicts import headline, left_out_in_words, parts_left_out, verdict_of
from grader.text import clean
from tests.records import samples

SAMPLES: list[Callable[[], Record]] = [
    samples.passing,
    samples.failing,
    samples.untouched,
    samples.without_parts,
    samples.every_status,
    samples.timed,
    samples.fast,
    samples.on_paper,
    samples.foretold,
    samples.hostile,
]


def checks(*statuses: str, points: float = 1.0) -> tuple[CheckResult, ...]:
    return tuple(
        samples.check(f"copy.check_{i}", "Right", status, points * (status == "pass"), points)  # type: ignore[arg-type]
        for i, status in enumerate(statuses)
    )


def record_of(*statuses: str, points: float = 1.0) -> Record:
    return samples.record(checks(*statuses, points=points), (samples.PartInfo("copy", "Copying"),))


def altered(place: str, value: object) -> str:
    """The failing sample as JSON, with the value at a place such as "checks.6.cause.title" replaced or added."""
    document = json.loads(to_json(samples.failing()))
    inner = document
    *way, last = place.split(".")
    for step in way:
        inner = inner[int(step)] if step.isdigit() else inner[step]
    inner[last] = value
    return json.dumps(document)


# -- reading and writing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("schema", "grade/result/v0", "record.schema must be one of grade/result/v1, got 'grade/result/v0'"),
        ("verdict", "passed", "record.verdict must be one of pass, fail, "),
        ("checks.6.status", "passed", "record.checks[6].status must be one of pass, fail, not_implemented, "),
        ("checks.6.points", "5", "record.checks[6].points must be float, got '5'"),
        ("checks.6.points", True, "record.checks[6].points must be a number, got True"),
        ("checks.6.grade", 5, "record.checks[6] must have only the fields id, part, title, "),
        ("checks.6.cause.title", 7, "record.checks[6].cause.title must be str, got 7"),
        ("checks.6.cause.colour", 7, "record.checks[6].cause must have only the fields kind, title, "),
        ("bonus", 7, "record must have only the fields schema, tool, exercise, "),
        ("env.mode", "cpu", "record.env.mode must be one of gpu, interpret, got 'cpu'"),
        ("parts", {}, "record.parts must be a list, got {}"),
        ("tool", None, "record.tool must be an object, got None"),
        ("checks.6.predictions", [{}], "record.checks[6].predictions[0] must have the field gpu"),
    ],
)
def test_a_document_that_is_no_record_is_refused_with_the_field(place: str, value: object, message: str) -> None:
    with pytest.raises(DecodeError) as refused:
        from_json(altered(place, value))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": "grade/result/v1"}'])
def test_a_text_that_is_no_record_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"^\w"):
        from_json(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400], ids=["NaN", "Infinity", "beyond a float"])
def test_a_number_that_a_record_cannot_hold_is_refused_when_read(value: float) -> None:
    with pytest.raises(ValueError, match=r"^\w"):
        from_json(altered("score", value))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_hold_is_refused_when_written(value: float) -> None:
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        to_json(dataclasses.replace(samples.passing(), score=value))


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_record_survives_its_json(sample: Callable[[], Record]) -> None:
    record = sample()
    assert from_json(to_json(record)) == record


def test_a_record_s_json_ends_in_one_line_end_and_keeps_its_letters() -> None:
    text = to_json(record_of("pass"))
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")
    assert "Cölne" in to_json(dataclasses.replace(record_of("pass"), command="Cölne"))


def test_fields_that_later_versions_added_may_be_missing() -> None:
    document = json.loads(to_json(record_of("pass")))
    del document["submitted_at"], document["checks"][0]["metrics"]
    assert from_json(json.dumps(document)) == dataclasses.replace(record_of("pass"), submitted_at="")


def test_a_record_from_before_causes_had_suspects_is_read() -> None:
    document = json.loads(to_json(samples.failing()))
    for one in document["checks"]:
        if one["cause"]:
            del one["cause"]["suspects"]
    assert all(one.cause is None or one.cause.suspects == () for one in from_json(json.dumps(document)).checks)


def test_a_record_from_before_baselines_had_fallbacks_is_read() -> None:
    document = json.loads(to_json(samples.timed()))
    for check in document["checks"]:
        if check["speed"]:
            assert check["speed"].pop("fallback") == ""
    assert from_json(json.dumps(document)) == samples.timed()


def test_a_record_from_before_work_was_counted_and_times_predicted_is_read() -> None:
    document = json.loads(to_json(samples.on_paper()))
    for check in document["checks"]:
        del check["work"], check["predictions"]
    assert [(check.work, check.predictions) for check in from_json(json.dumps(document)).checks] == [((), ())] * 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.5, 1.5), (0, 0), (math.inf, "inf"), (-math.inf, "-inf"), (math.nan, "nan")],
)
def test_a_number_that_is_not_finite_becomes_a_word(value: float, expected: object) -> None:
    assert number(value) == expected


# -- clean -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[1;38;5;196mred\x1b[K", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bcreset", "\ufffdcreset"),
        ("\x1b\x1b[31m[32m", "\ufffd[32m"),
        ("end\x1b", "end\ufffd"),
        ("\x00\x08\x0b\x0c\x1f\x7f", "\ufffd" * 6),
        ("\x9b31mC1\x85", "\ufffd31mC1\ufffd"),
        ("\u202egnp.exe\u2066\u200f", "\ufffdgnp.exe\ufffd\ufffd"),
        ("\ud800\udfff", "\ufffd\ufffd"),
        ("× … 漢字 🙂 \u00e9", "× … 漢字 🙂 \u00e9"),
    ],
)
def test_escapes_vanish_and_control_characters_are_marked(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_a_cut_keeps_both_ends_and_says_how_much_is_missing() -> None:
    assert clean("a" * 70 + "b" * 63, most=17) == "a" * 8 + "\n… 116 characters cut …\n" + "b" * 9


def test_a_text_of_just_the_length_is_not_cut() -> None:
    assert clean("x" * 4000) == "x" * 4000
    assert "… 1 characters cut …" in clean("x" * 4001)


def test_what_vanishes_does_not_count_towards_the_length() -> None:
    assert clean("\x1b[31m" * 1000 + "red", most=7) == "red"


@given(st.text(st.characters(categories=None, codec=None), max_size=100))
def test_any_text_is_printable_once_it_is_clean(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", cleaned)
    assert clean(cleaned) == cleaned


# -- verdict, headline, exit code ------------------------------------------------------------------------------------

WORST_FIRST = (
    "invalid_submission",
    "timeout",
    "oom",
    "crash",
    "compile_error",
    "policy",
    "fail",
    "grader_error",
    "not_implemented",
    "skipped_dependency",
    "pass",
    "inconclusive",
    "skipped_environment",
)


def test_every_status_has_its_place_in_the_order_of_verdicts() -> None:
    assert set(WORST_FIRST) == set(get_args(Status))
    for place, status in enumerate(WORST_FIRST):
        assert verdict_of(checks(*reversed(WORST_FIRST[place:]))) == status


def test_a_grading_without_checks_judged_nothing() -> None:
    assert verdict_of(()) == "skipped_environment"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["pass"], 0),
        (["pass", "skipped_environment"], 0),
        (["pass", "inconclusive"], 0),
        (["pass", "fail"], 1),
        (["pass", "skipped_dependency"], 1),
        (["policy"], 1),
        (["compile_error"], 1),
        (["crash"], 1),
        (["timeout"], 1),
        (["oom"], 1),
        (["fail", "grader_error"], 1),
        (["not_implemented"], 3),
        (["invalid_submission"], 3),
        (["skipped_environment"], 4),
        (["inconclusive", "skipped_environment"], 4),
        (["pass", "grader_error"], 5),
        (["not_implemented", "grader_error"], 5),
    ],
)
def test_the_exit_code_says_whose_turn_it_is(statuses: list[str], code: int) -> None:
    assert exit_code(record_of(*statuses).verdict) == code


def test_where_a_whole_part_was_not_judged_nothing_passes() -> None:
    record = samples.without_parts()
    assert (record.verdict, exit_code(record.verdict)) == ("skipped_environment", 4)
    assert parts_left_out(record.checks) == {"f": samples.NO_DSL, "g": samples.NO_DSL}
    assert headline(record) == (
        "1 of 1 points that could be judged here (1 of 1 checks passed); 5 more points are open: 5 checks were not "
        f"judged; nothing of f and g was judged ({samples.NO_DSL})."
    )


def test_a_failure_weighs_more_than_a_part_that_was_left_out() -> None:
    failed = samples.check("h.tail", "Right at the end", "fail")
    assert verdict_of((*samples.without_parts().checks, failed)) == "fail"


def test_parts_that_were_left_out_for_different_reasons_are_named_apart() -> None:
    skipped = [
        samples.check(f"{part}.a", "Right", "skipped_environment", reason=reason)
        for part, reason in (("f", "No GPU."), ("g", "No dsl."), ("h", "No GPU."), ("i", ""))
    ]
    assert left_out_in_words(skipped) == (
        "nothing of f and h was judged (No GPU.); nothing of g was judged (No dsl.); nothing of i was judged"
    )


def test_a_record_from_before_parts_were_left_out_keeps_its_verdict() -> None:
    document = json.loads(to_json(samples.without_parts()))
    document["verdict"] = "pass"
    assert exit_code(from_json(json.dumps(document)).verdict) == 0


def test_every_verdict_has_an_exit_code() -> None:
    codes = {status: exit_code(status) for status in get_args(Status)}
    assert set(codes.values()) == {0, 1, 3, 4, 5}
    assert [status for status, code in codes.items() if code == 0] == ["pass"]


@pytest.mark.parametrize(
    ("statuses", "points", "words"),
    [
        (["pass"], 1, "1 of 1 points that could be judged here (1 of 1 checks passed)."),
        (["pass", "fail"], 50, "50 of 100 points that could be judged here (1 of 2 checks passed)."),
        (["fail", "fail"], 0.25, "0 of 0.5 points that could be judged here (0 of 2 checks passed)."),
        (
            ["pass", "pass", "skipped_environment"],
            1,
            "2 of 2 points that could be judged here (2 of 2 checks passed); 1 more point is open: 1 check was not "
            "judged.",
        ),
        (
            ["pass", "inconclusive", "grader_error"],
            12.5,
            "12.5 of 12.5 points that could be judged here (1 of 1 checks passed); 25 more points are open: 2 checks "
            "were not judged.",
        ),
        (
            ["skipped_environment"],
            7,
            "0 of 0 points that could be judged here (0 of 0 checks passed); 7 more points are open: 1 check was not "
            "judged.",
        ),
    ],
)
def test_the_headline_says_what_was_judged_and_what_was_not(statuses: list[str], points: float, words: str) -> None:
    assert headline(record_of(*statuses, points=points)) == words


@given(st.lists(st.sampled_from(get_args(Status)), max_size=17))
def test_no_headline_claims_everything(statuses: list[str]) -> None:
    text = headline(record_of(*statuses))
    assert not re.search(r"\b(all|every|everything|fully|complete)\b", text)
    unjudged = sum(status in UNJUDGED for status in statuses)
    assert ("not judged" in text) == (unjudged > 0)


def test_a_record_cannot_be_changed_once_it_is_made() -> None:
    made: Any = record_of("pass")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.score = 100
