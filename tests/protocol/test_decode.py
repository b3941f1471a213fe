"""Decoding what a submission's process says: strictly, and with no error but DecodeError."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from dataclasses import dataclass, field
from typing import Any, Literal, Optional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.protocol.answers import (
    Binary,
    BytesShown,
    Compiled,
    Form,
    Frame,
    Loaded,
    Narrow,
    Precompiled,
    Prepared,
    Raised,
    Ready,
    Returned,
    Sampled,
    TunedChoice,
    decode_answer,
)
from grader.protocol.baseline_messages import (
    Ask,
    Begin,
    Failed,
    Gauge,
    Gauged,
    Missing,
    PrepareBaseline,
    Rest,
    Rested,
    Reveal,
    Revealed,
)
from grader.protocol.decode import Bounds, DecodeError, decode
from grader.protocol.observations import LaunchInfo
from grader.protocol.requests import (
    Call,
    Compile,
    Precompile,
    Prepare,
    Reap,
    Recipe,
    RecordCall,
    ReplayCall,
    Sample,
    Show,
    Slot,
    Spawn,
    Start,
)

pytestmark = pytest.mark.process


@dataclass(frozen=True)
class Cell:
    row: int
    kind: Literal["wall", "floor"] = "floor"


@dataclass(frozen=True)
class Board:
    name: str
    ratio: float = 1.5
    open: bool = False
    cells: tuple[Cell, ...] = ()
    heights: dict[str, int] = field(default_factory=dict)
    grid: tuple[tuple[int, ...], ...] = ()
    start: Cell | None = None
    finish: Optional[Cell] = None  # noqa: UP045  older notation must decode as well
    label: int | float | bool | str = ""


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "board must be an object, got []"),
        ({}, "board must have the field name"),
        ({"name": 7}, "board.name must be str, got 7"),
        ({"name": None}, "board.name must be str, got None"),
        (
            {"name": "a", "nom": "a", "z": 7},
            "board must have only the fields name, ratio, open, cells, heights, grid, start, finish, label, "
            "got ['nom', 'z']",
        ),
        ({"name": "a", "ratio": True}, "board.ratio must be a number, got True"),
        ({"name": "a", "ratio": "1.5"}, "board.ratio must be float, got '1.5'"),
        ({"name": "a", "open": 1}, "board.open must be bool, got 1"),
        ({"name": "a", "cells": {"row": 7}}, "board.cells must be a list, got {'row': 7}"),
        ({"name": "a", "cells": "ab"}, "board.cells must be a list, got 'ab'"),
        ({"name": "a", "cells": [{"row": 7}, 17]}, "board.cells[1] must be an object, got 17"),
        ({"name": "a", "cells": [{"row": True}]}, "board.cells[0].row must be a number, got True"),
        ({"name": "a", "cells": [{"row": 7.0}]}, "board.cells[0].row must be int, got 7.0"),
        (
            {"name": "a", "cells": [{"row": 7, "kind": "door"}]},
            "board.cells[0].kind must be one of wall, floor, got 'door'",
        ),
        (
            {"name": "a", "cells": [{"row": 7, "kind": ["wall"]}]},
            "board.cells[0].kind must be one of wall, floor, got ['wall']",
        ),
        ({"name": "a", "heights": [7]}, "board.heights must be an object, got [7]"),
        ({"name": "a", "heights": {"hill": "7"}}, "board.heights.hill must be int, got '7'"),
        ({"name": "a", "grid": [[1, 7], 17]}, "board.grid[1] must be a list, got 17"),
        ({"name": "a", "grid": [[1, None]]}, "board.grid[0][1] must be int, got None"),
        ({"name": "a", "start": {"row": "7"}}, "board.start.row must be int, got '7'"),
        ({"name": "a", "finish": {"rows": 7}}, "board.finish must have only the fields row, kind, got ['rows']"),
    ],
)
def test_a_value_of_another_shape_is_refused_with_its_place(value: object, message: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(Board, value, "board")
    assert str(refused.value) == message


def test_a_long_value_is_not_repeated_in_full() -> None:
    with pytest.raises(DecodeError) as refused:
        decode(Cell, {"row": "7" * 1000}, "cell")
    assert str(refused.value) == f"cell.row must be int, got '{'7' * 59}… (1002 characters)"


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode(Board, {"name": "a", "ratio": 10**400}, "board")


@pytest.mark.parametrize("value", [None, [], {}, 7.5])
def test_a_value_that_no_member_of_a_union_takes_is_refused(value: object) -> None:
    with pytest.raises(DecodeError, match=r"^label must be "):
        decode(int | str, value, "label")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [7, 0.5, True, False, "word"])
def test_a_union_keeps_the_type_that_came(value: object) -> None:
    label = decode(Board, {"name": "a", "label": value}).label
    assert label == value
    assert type(label) is type(value)


@dataclass(frozen=True)
class Whole:
    size: int | float


@dataclass(frozen=True)
class Real:
    size: float | int


def test_the_first_member_of_a_union_that_takes_a_value_decides_its_type_whatever_was_decoded_before() -> None:
    kinds = [type(decode(kind, {"size": 7}).size) for kind in (Whole, Real, Whole)]
    assert kinds == [int, float, int]


def test_an_int_is_taken_for_a_float_and_becomes_one() -> None:
    ratio = decode(Board, {"name": "a", "ratio": 7}).ratio
    assert (ratio, type(ratio)) == (7.0, float)


def test_missing_fields_take_their_defaults() -> None:
    assert decode(Board, {"name": "a"}) == Board("a")


def test_lists_become_tuples_at_every_level() -> None:
    value = {"name": "a", "cells": [{"row": 7}], "grid": [[], [1, 17]], "start": {"row": 1, "kind": "wall"}}
    assert decode(Board, value) == Board("a", cells=(Cell(7),), grid=((), (1, 17)), start=Cell(1, "wall"))


COPY = Call(
    Recipe("copy", {"N": 65, "scale": 0.5, "causal": True, "dtype": "float16"}, 17, 63),
    ("x", "cache"),
    ("cache",),
    (Slot("float16", (7, 17), 0, 238), Slot("int32", (), 256, 4)),
    "same",
    ("cache",),
)


QUESTIONS = [
    Spawn("spawn", "/tmp/x", 1000, {"processes": 64, "file_bytes": 0.5}),
    Reap("reap", 17, 1000),
    Start("ex.py", "x = 1\n", "y = 2\n", ("copy", "scale")),
    COPY,
    RecordCall(COPY, afresh=True, inputs="bare"),
    ReplayCall(COPY, {}, "isolated", launches=False),
    Precompile(COPY, {}),
    Prepare(COPY, (), "graph", 1 << 30),
    PrepareBaseline("cublas", Recipe("copy", {"N": 65}, 0), ("x",), ("x",), "stream", 1 << 30),
    Sample(2**62, "cublas", examines=True),
    Show(1, 63, 500),
    Compile(COPY, {}, 90, every_configuration=True),
    Begin("/course", "ex_7_copy"),
    Ask(Recipe("copy", {"N": 65}, 0), ("torch_eager", "xla")),
    Reveal(Recipe("copy", {"N": 65}, 17), 0, 7, 17, 0.25),
    Gauge(),
    Rest(),
]
ANSWERS = [
    Ready("ready", ("rlimits",), "cpu"),
    Loaded("loaded", ("copy",), ("helper",)),
    Returned(
        "returned",
        (Form("tensor", "float16", (7, 17), "cpu", "argument x", True), Form("list")),
        ("x",),
        ("7 bytes outside x",),
        (LaunchInfo("kernel", (7, 1), {"BLOCK": 64}),),
    ),
    Raised("raised", "crash", "ValueError", "no", (Frame(7, "copy", "raise"),), True),
    Compiled("compiled", (Binary("kernel", 7, {"BLOCK": 64}, 2, 4, 3, narrow=(Narrow(9, "load", 4, 16),)),), 1, "no"),
    Precompiled("precompiled", 7),
    Prepared("prepared", (Form("tensor", "float16", (7, 17), "cuda"),), (TunedChoice(7, (17.5, -1.0, 16.5), 2),), 3),
    Sampled("sampled", 17.5, ((0.5, -1.0), ()), ((63.0, -1.0), ()), True, 1 << 30, ("x",)),
    BytesShown("shown", copied=True),
]
OF_BASELINES = [
    Missing({"torch_eager": "", "xla": "jax is not installed"}),
    Gauged(50 << 20, 1 << 37, 4.0, 4.4, {"float16": 700.0}),
    Revealed("float16", 7, 17),
    Rested(),
    Failed("ValueError: no"),
]


def travelled(message: Any) -> Any:
    """What arrives of a message."""
    return json.loads(json.dumps(dataclasses.asdict(message)))


@pytest.mark.parametrize("message", [*QUESTIONS, *ANSWERS, *OF_BASELINES], ids=lambda message: type(message).__name__)
def test_every_message_survives_the_channel(message: Any) -> None:
    assert decode(type(message), travelled(message)) == message


@pytest.mark.parametrize("message", ANSWERS, ids=lambda message: type(message).__name__)
def test_an_answer_is_known_by_its_name(message: Any) -> None:
    assert decode_answer(travelled(message)) == message


NAMES = "ready, loaded, returned, raised, compiled, precompiled, prepared, sampled, shown"


BINARY = {"kernel": "k", "line": 1, "constants": {}, "configurations": 0, "num_warps": 4, "num_stages": 3}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({}, f"answer must be one of {NAMES}, got 'None'"),
        ({"answer": "pass"}, f"answer must be one of {NAMES}, got 'pass'"),
        ({"answer": ["loaded"]}, f"answer must be one of {NAMES}, got \"['loaded']\""),
        ({"answer": "x" * 1000}, f"answer must be one of {NAMES}, got '{'x' * 80}'"),
        ({"answer": "loaded", "score": 100}, "answer must have only the fields functions"),
        (
            {"answer": "raised", "verdict": "pass", "kind": "", "message": "", "frames": []},
            "answer.verdict must be one of not_implemented, invalid_submission, compile_error, oom, crash, got 'pass'",
        ),
        (
            {"answer": "sampled", "device_us": "0", "projections": [], "scales": []},
            "answer.device_us must be float, got '0'",
        ),
        (
            {"answer": "sampled", "device_us": float("nan"), "projections": [], "scales": []},
            "answer.device_us must be a finite number, got nan",
        ),
        (
            {"answer": "sampled", "device_us": 7, "projections": [[float("inf")]], "scales": []},
            "answer.projections[0][0] must be a finite number, got inf",
        ),
        (
            {"answer": "prepared", "outputs": [], "choices": [{"line": 7, "times_us": [1.5], "chosen": 0.5}]},
            "answer.choices[0].chosen must be int, got 0.5",
        ),
        ({"answer": "shown", "copied": 1}, "answer.copied must be bool, got 1"),
        (
            {"answer": "compiled", "binaries": [BINARY | {"constants": {"BLOCK": 1.5}}], "cut": 0, "stopped": ""},
            "answer.binaries[0].constants.BLOCK must be bool, got 1.5",
        ),
        (
            {"answer": "compiled", "binaries": [BINARY | {"loads": {"16": True}}], "cut": 0, "stopped": ""},
            "answer.binaries[0].loads.16 must be a number, got True",
        ),
    ],
)
def test_an_answer_that_is_none_is_refused(message: dict[str, Any], error: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_answer(message)
    assert str(refused.value).replace("answer, functions", "functions").startswith(error)


@pytest.mark.parametrize("template", ['{"answer": %s}', '{"answer": "loaded", "functions": [%s]}'])
def test_no_nesting_that_the_reader_lets_through_breaks_the_decoder(template: str) -> None:
    # json.loads stops at a depth that depends on the stack above it; repr() may stop a little earlier.
    for depth in range(1, sys.getrecursionlimit() + 100):
        try:
            message = json.loads(template % ("[" * depth + "]" * depth))
        except RecursionError:
            break
        with pytest.raises(DecodeError):
            decode_answer(message)


# -- bounds ----------------------------------------------------------------------------------------------------------


RETURNED = {"answer": "returned", "outputs": [], "changed": [], "overrun": [], "launches": []}
SAMPLED = {"answer": "sampled", "device_us": 7, "projections": [], "scales": []}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (RETURNED | {"changed": [""] * 4097}, "answer.changed must hold at most 4096 entries, got 4097"),
        (RETURNED | {"changed": ["x" * 4097]}, "answer.changed[0] must hold at most 4096 characters, got 4097"),
        (
            RETURNED | {"launches": [{"kernel": "k", "grid": [2**64], "constants": {}}]},
            "answer.launches[0].grid[0] must be an int of at most 64 bits, got one of 65",
        ),
        (
            RETURNED | {"launches": [{"kernel": "k", "grid": [], "constants": {"x" * 4097: 1}}]},
            "a name in answer.launches[0].constants must hold at most 4096 characters, got 4097",
        ),
        (
            RETURNED | {"launches": [{"kernel": "k", "grid": [], "constants": {str(i): i for i in range(4097)}}]},
            "answer.launches[0].constants must hold at most 4096 entries, got 4097",
        ),
        (SAMPLED | {"device_us": 1.1e15}, "answer.device_us must lie within ±1e+15, got 1.1e+15"),
        (SAMPLED | {"device_us": -(10**300)}, "answer.device_us must lie within ±1e+15, got -1e+300"),
        (SAMPLED | {"scales": [[1.1e15]]}, "answer.scales[0][0] must lie within ±1e+15, got 1.1e+15"),
        (SAMPLED | {"scales": [[0.0] * 4097]}, "answer.scales[0] must hold at most 4096 entries, got 4097"),
        (SAMPLED | {"peak_bytes": -(10**300)}, "answer.peak_bytes must be an int of at most 64 bits, got one of 997"),
    ],
)
def test_an_answer_beyond_all_measure_is_refused(answer: dict[str, Any], error: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_answer(answer)
    assert str(refused.value) == error


def test_an_answer_may_be_as_large_as_the_bounds() -> None:
    launches = [{"kernel": "k" * 4096, "grid": [2**64 - 1, -(2**63)], "constants": {"x" * 4096: 1}}] * 4096
    assert isinstance(decode_answer(RETURNED | {"launches": launches, "changed": [""] * 4096}), Returned)
    sums = [[1e15, -1e15] * 512] * 4096
    assert isinstance(decode_answer(SAMPLED | {"projections": sums, "scales": sums}), Sampled)


def test_a_trusted_value_has_no_bounds() -> None:
    large = Board("x" * 10_000, heights={str(i): 10**400 for i in range(2000)}, ratio=1e300)
    assert decode(Board, dataclasses.asdict(large)) == large


@given(st.recursive(st.integers() | st.text() | st.floats(), st.lists, max_leaves=17))
def test_what_is_within_bounds_is_decoded_as_without_them(value: Any) -> None:
    bounds = Bounds(text=3, entries=2, bits=7, magnitude=100.0)
    kind: Any = int | str | float | tuple[int | str | float, ...]
    with contextlib.suppress(DecodeError):
        assert decode(kind, value, "it", bounds) == decode(kind, value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=7),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=7), inner, max_size=4),
    max_leaves=17,
)
TRAVELLED = [travelled(message) for message in ANSWERS]
KINDS = {travelled(message)["answer"]: type(message) for message in ANSWERS}
FIELDS = sorted({name for answer in TRAVELLED for name in answer})


@given(
    st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=7), JSON),
    st.sampled_from([*(answer["answer"] for answer in TRAVELLED), None]),
)
@example({}, None)
def test_no_json_raises_anything_but_a_decode_error(message: dict[str, Any], answer: str | None) -> None:
    if answer is not None:
        message = {**message, "answer": answer}
    try:
        decoded = decode_answer(message)
    except DecodeError:
        return
    assert type(decoded) is KINDS[message["answer"]]


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) below a JSON value."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places_in(value[key])]


@given(st.sampled_from(TRAVELLED), JSON, st.data())
def test_an_answer_with_one_value_replaced_is_decoded_or_refused(answer: Any, value: Any, data: Any) -> None:
    changed = json.loads(json.dumps(answer))
    container, key = data.draw(st.sampled_from(places_in(changed)))
    container[key] = value
    try:
        decoded = decode_answer(changed)
    except DecodeError:
        return
    assert json.loads(json.dumps(dataclasses.asdict(decoded))).keys() == answer.keys()
