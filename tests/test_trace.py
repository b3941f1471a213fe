"""A trace comes from a process that nobody trusts: it is decoded strictly, within bounds, and told in words."""

from __future__ import annotations

from typing import Any

import pytest

from grader.protocol.decode import DecodeError
from grader.protocol.trace import Choose, Launch, TensorValue, decode_trace, launches_in
from grader.report.trace_lines import trace_lines

FORM = {"kind": "tensor", "dtype": "float32", "shape": [4], "device": "cpu", "alias": "", "copied": False}


def trace(**changes: Any) -> dict[str, Any]:
    """A trace of one launch, with some fields changed."""
    return {
        "arguments": {"x": 0},
        "windows": [[0, "float32", 0, [4], [1]]],
        "kernels": [{"name": "kernel", "line": 3, "kind": "jit", "names": {}, "options": {}}],
        "steps": [["launch", 0, [2], [["tensor", 0], 1.5, None], {"BLOCK": 4}, {"num_warps": 4}, 9]],
        "outputs": [[0, FORM]],
        **changes,
    }


def launch(*values: Any) -> dict[str, Any]:
    return trace(steps=[["launch", 0, [1], list(values), {}, {}, 1]])


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = ["tuple", [value]]
    return value


def test_a_trace_is_decoded_into_steps() -> None:
    (step,) = decode_trace(trace()).steps
    assert step == Launch(0, (2,), (TensorValue(0), 1.5, None), {"BLOCK": 4}, {"num_warps": 4}, 9)


REFUSED: dict[str, tuple[Any, str]] = {
    "no object": ([], "must have the fields"),
    "a field too many": (trace(more=1), "must have the fields"),
    "a window without strides": (trace(windows=[[0, "float32", 0, [4], []]]), "as many strides as axes"),
    "a negative offset": (trace(windows=[[0, "float32", -1, [4], [1]]]), "at least 0"),
    "an unknown step": (trace(steps=[["jump", 3]]), "must be a step"),
    "a kernel that is not there": (trace(steps=[["launch", 1, [1], [], {}, {}, 1]]), "must name one of 1"),
    "an alternative too few": (trace(steps=[["choose", [], 1]]), "must hold an alternative"),
    "too many steps": (trace(steps=[["choose", [[["free", []]] * 4000] * 2, 1]]), "at most 4096 steps"),
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
    "a constant too large": (trace(steps=[["constant", 0, 1 << 40, ""]]), "must hold at most"),
}


@pytest.mark.parametrize(("message", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_trace_is_refused(message: Any, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decode_trace(message)


def test_of_an_autotuned_kernel_the_first_configuration_counts() -> None:
    one, other = (["launch", 0, [size], [], {}, {}, 1] for size in (1, 2))
    found = decode_trace(trace(steps=[["choose", [[one], [other]], 5]]))
    assert isinstance(found.steps[0], Choose)
    assert [step.grid for step in launches_in(found.steps)] == [(1,)]


def test_hostile_texts_are_shown_without_their_control_characters() -> None:
    kernel = {"name": "\x1b[31mred\x00", "line": 3, "kind": "jit", "names": {}, "options": {}}
    assert "\x1b" not in "".join(trace_lines(decode_trace(trace(kernels=[kernel]))))
