"""A trace comes from a process that nobody trusts: it is decoded strictly, within bounds, and told in words."""

from __future__ import annotations

from typing import Any

import pytest

from grader.protocol.decode import DecodeError
from grader.protocol.trace import (
    Choose,
    CuteCall,
    CuteProgram,
    EnumValue,
    Launch,
    Renewal,
    TensorValue,
    fingerprint,
    launches_in,
    relaunched,
)
from grader.protocol.trace_decoding import decode_trace
from grader.report.text.trace_lines import trace_lines

FORM = {"kind": "tensor", "dtype": "float32", "shape": [4], "device": "cpu", "alias": "", "copied": False}


def trace(**changes: Any) -> dict[str, Any]:
    """A trace of one launch, with some fields changed."""
    return {
        "arguments": {"x": 0},
        "windows": [[0, "float32", 0, [4], [1]]],
        "kernels": [{"name": "kernel", "line": 3, "kind": "jit", "names": {}, "options": {}}],
        "steps": [["launch", 0, [2], [["tensor", 0], 1.5, None], {"BLOCK": 4}, {"num_warps": 4}, 9, False]],
        "outputs": [[0, FORM]],
        **changes,
    }


def launch(*values: Any) -> dict[str, Any]:
    return trace(steps=[["launch", 0, [1], list(values), {}, {}, 1, False]])


PROGRAM = {"name": "f", "nbytes": 9, "data": "eJw="}


def cute(args: list[Any]) -> dict[str, Any]:
    return trace(programs=[PROGRAM], steps=[["cute", 0, args, 7]])


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = ["tuple", [value]]
    return value


def test_a_trace_is_decoded_into_steps() -> None:
    (step,) = decode_trace(trace()).steps
    assert step == Launch(0, (2,), (TensorValue(0), 1.5, None), {"BLOCK": 4}, {"num_warps": 4}, 9)


ZERO = ["operator", "zero_.default", [["tensor", 0]], {}, [0], 1]
REFUSED: dict[str, tuple[Any, str]] = {
    "no object": ([], "must have the fields"),
    "a field too many": (trace(more=1), "must have the fields"),
    "a window without strides": (trace(windows=[[0, "float32", 0, [4], []]]), "as many strides as axes"),
    "a negative offset": (trace(windows=[[0, "float32", -1, [4], [1]]]), "at least 0"),
    "an unknown step": (trace(steps=[["jump", 3]]), "must be a step"),
    "a kernel that is not there": (trace(steps=[["launch", 1, [1], [], {}, {}, 1, False]]), "must name one of 1"),
    "an alternative too few": (trace(steps=[["choose", [], 1]]), "must hold an alternative"),
    "none but kept alternatives": (trace(steps=[["choose", [[], []], 1, 2]]), "an alternative of its own, got 2 of 2"),
    "an alternative that goes on after its launch": (
        trace(
            steps=[
                [
                    "choose",
                    [[["launch", 0, [1], [], {}, {}, 1, False], ZERO]],
                    1,
                ]
            ]
        ),
        "alternatives that end in their launches",
    ),
    "a renewed tensor that is not there": (trace(steps=[["choose", [[]], 1, 0, [7], []]]), "must name one of 1"),
    "only one of two lists of renewed tensors": (trace(steps=[["choose", [[]], 1, 0, []]]), "must be a step"),
    "too many steps": (trace(steps=[["choose", [[["free", []]] * 4000] * 2, 1]]), "at most 4096 steps"),
    "too many windows": (trace(windows=[[0, "float32", 0, [1], [1]]] * 16385), "at most 16384 entries"),
    "a tensor that is not there": (launch(["tensor", 7]), "must name one of 1"),
    "a bool for a place": (launch(["tensor", False]), "must name one of 1"),
    "an unknown kind": (launch(["object", 1]), "must be a value"),
    "an int of many bits": (launch(1 << 65), "at most 64 bits"),
    "an infinity as a number": (launch(float("inf")), "must be a finite number"),
    "a text too long": (launch("x" * 5000), "at most 4096 characters"),
    "too many levels": (launch(nested(20)), "at most 12 levels"),
    "a field that is no name": (launch(["record", "tuple", "P", ["a b"], [1]]), "identifiers"),
    "keys without values": (launch(["dict", [1], []]), "as many values as keys"),
    "an output that is not there": (trace(outputs=[[5, FORM]]), "must name a window"),
    "a program that is not there": (trace(steps=[["cute", 0, [], 1]]), "must name one of 0"),
    "a program too large": (
        trace(programs=[{"name": "f", "nbytes": 1 << 30, "data": ""}]),
        "at most 4194304 bytes of text, got 1073741824",
    ),
    "a program's data too long": (
        trace(programs=[{"name": "f", "nbytes": 1, "data": "x" * (5 << 20)}]),
        "at most 4194304 bytes of text",
    ),
    "a program with more": (trace(programs=[{**PROGRAM, "entry": "g"}]), "must have the fields name, nbytes, data"),
    "too many programs": (trace(programs=[PROGRAM] * 65), "at most 64 entries, got 65"),
    "a program's argument that is no value": (cute([["object", 1]]), "must be a value"),
    "a constant too large": (trace(steps=[["constant", 0, 1 << 40, ""]]), "must hold at most"),
}


@pytest.mark.parametrize(("message", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_trace_is_refused(message: Any, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decode_trace(message)


def test_a_call_of_cutes_names_a_program_and_its_arguments() -> None:
    found = decode_trace(cute([["tensor", 0], 3, ["enum", "stream", ""]]))
    assert found.programs == (CuteProgram("f", 9, "eJw="),)
    assert found.steps == (CuteCall(0, (TensorValue(0), 3, EnumValue("stream", "")), 7),)
    assert launches_in(found.steps) == found.steps
    assert trace_lines(found)[:2] == [
        "  1. call f, 9 bytes of MLIR  (line 7)",
        "     arguments: x [4] float32, 3, the current stream",
    ]


def test_the_device_makes_no_other_fingerprint() -> None:
    on_cpu, on_gpu = trace(), trace()
    on_gpu["outputs"] = [[window, {**form, "device": "cuda"}] for window, form in on_gpu["outputs"]]
    assert on_gpu != on_cpu
    assert fingerprint(on_gpu) == fingerprint(on_cpu)


def test_every_launch_gets_the_other_options_and_nothing_else_changes() -> None:
    launch = ["launch", 0, [1], [], {}, {"num_warps": 4, "num_stages": 3}, 7, False]
    steps = [["free", [0]], launch, ["choose", [[launch], [["free", [1]]]], 9, 1]]
    one = ["launch", 0, [1], [], {}, {"num_warps": 4, "num_stages": 1}, 7, False]
    message = {"steps": steps, "kernels": []}
    assert relaunched(message, lambda options: {**options, "num_stages": 1}) == {
        "steps": [["free", [0]], one, ["choose", [[one], [["free", [1]]]], 9, 1]],
        "kernels": [],
    }
    assert launch[5]["num_stages"] == 3


def test_other_programs_make_another_fingerprint() -> None:
    one, other = (cute([]) | {"programs": [{**PROGRAM, "data": data}]} for data in ("eJw=", "eJw5"))
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(trace()) == fingerprint(trace())


def test_of_an_autotuned_kernel_the_first_configuration_counts() -> None:
    one, other = (["launch", 0, [size], [], {}, {}, 1, False] for size in (1, 2))
    found = decode_trace(trace(steps=[["choose", [[one], [other]], 5]]))
    assert isinstance(found.steps[0], Choose)
    assert [step.grid for step in launches_in(found.steps)] == [(1,)]


def test_an_autotuner_s_launch_tells_what_it_renews_and_what_it_has_kept() -> None:
    (step,) = decode_trace(trace(steps=[["choose", [[], []], 5, 1, [0], []]])).steps
    assert step == Choose(((), ()), 5, Renewal((0,), ()), 1)


def test_hostile_texts_are_shown_without_their_control_characters() -> None:
    kernel = {"name": "\x1b[31mred\x00", "line": 3, "kind": "jit", "names": {}, "options": {}}
    assert "\x1b" not in "".join(trace_lines(decode_trace(trace(kernels=[kernel]))))
