"""What a learner reads: one exact sentence per outcome, and nothing in it that a terminal would obey."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.answer_check import check_answer, check_device
from grader.judge.failure import Failure
from grader.judge.tolerance import ulp
from grader.judge.truth import Expected
from grader.judge.unanswered import missing_function, why_not_finished
from grader.protocol.answers import Form, Frame, Raised, Returned
from grader.protocol.observations import LaunchInfo
from grader.sandbox.outcome import Died, Finished, Garbled, Outcome, OutOfMemory, TimedOut
from grader.text import clean
from tests.judge.test_compare import raw_bytes
from tests.records.samples import HOSTILE

PATH = "/learner/ex.py"
X = torch.arange(1.0, 8.0)
ORACLE = 2 * X.double()
DOUBLED = Expected("y", ORACLE, torch.float32, ulp(ORACLE, torch.float32))


def form_of(output: Tensor) -> Form:
    return Form("tensor", str(output.dtype).removeprefix("torch."), tuple(output.shape), "cpu", copied=True)


def returned(*outputs: Tensor, forms: tuple[Form, ...] | None = None, **claims: Any) -> Finished:
    """A call that returned these tensors, with what else its process claims."""
    nothing: dict[str, Any] = {"changed": (), "overrun": (), "launches": ()}
    answer = Returned("returned", forms or tuple(form_of(one) for one in outputs), **{**nothing, **claims})
    return Finished(answer, tuple(raw_bytes(one) for one in outputs))


def raised(**changes: Any) -> Raised:
    given = {"verdict": "crash", "kind": "ValueError", "message": "no", "frames": (Frame(7, "double", "x.no()"),)}
    return Raised("raised", **{**given, **changes})


def judged(outcome: Outcome, expected: Expected = DOUBLED) -> Failure:
    failure, _ = check_answer(outcome, (expected,), lambda: (X,), PATH)
    assert failure is not None
    return failure


# -- no answer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "status", "title", "rationale"),
    [
        (
            TimedOut(10.0),
            "timeout",
            "No answer in time",
            "The call did not return within 10 s and was ended.",
        ),
        (
            OutOfMemory(4 << 30, 7 << 30),
            "oom",
            "Too much memory",
            "The process grew to 7.0 GiB; 4.0 GiB beyond its start are allowed.",
        ),
        (
            Died("was killed by SIGSEGV (Segmentation fault)", 11),
            "crash",
            "The process ended",
            "The submission's process was killed by SIGSEGV (Segmentation fault).",
        ),
        (
            Garbled("a frame must hold at most 64 bytes, got 65"),
            "crash",
            "No answer",
            "The submission's process sent an invalid answer: a frame must hold at most 64 bytes, got 65.",
        ),
        (raised(), "crash", "Your code raised an exception", "ValueError (line 7): no"),
        (raised(frames=()), "crash", "Your code raised an exception", "ValueError: no"),
        (raised(message=" \n"), "crash", "Your code raised an exception", "ValueError (line 7): no message"),
        (raised(message="a\nb"), "crash", "Your code raised an exception", "ValueError (line 7): a"),
        (
            raised(verdict="not_implemented", kind="NotImplementedError", message=""),
            "not_implemented",
            "Not implemented yet",
            "NotImplementedError (line 7): no message",
        ),
        (
            raised(
                verdict="invalid_submission",
                kind="SyntaxError",
                message="invalid syntax (ex_15_triton_basics.py, line 7)",
            ),
            "invalid_submission",
            "The file does not load",
            "SyntaxError (line 7): invalid syntax",
        ),
        (
            raised(verdict="compile_error", kind="CompilationError"),
            "compile_error",
            "The kernel does not compile",
            "CompilationError (line 7): no",
        ),
        (raised(verdict="oom", kind="MemoryError"), "oom", "Out of memory", "MemoryError (line 7): no"),
    ],
)
def test_a_call_without_an_answer_has_a_status_a_title_and_a_sentence(
    outcome: Any, status: str, title: str, rationale: str
) -> None:
    failure = judged(outcome)
    assert failure == why_not_finished(outcome, PATH)
    assert (failure.status, failure.cause.kind) == (status, status)
    assert (failure.cause.title, failure.cause.rationale) == (title, rationale)


def test_a_call_without_an_answer_may_launch_too_often() -> None:
    help_text = why_not_finished(TimedOut(10.0), PATH).cause.help
    assert all(words in help_text for words in ("a loop that never", "a grid with", "launches thousands of kernels"))


def test_a_traceback_shows_the_learner_s_own_lines_and_the_whole_message() -> None:
    frames = (Frame(7, "double", "return helper(x)"), Frame(17, "helper", "x.no()"))
    failure = judged(raised(message="first\nsecond", frames=frames))
    assert failure.cause.rationale == "ValueError (line 17): first"
    assert failure.cause.traceback.splitlines() == [
        '  File "/learner/ex.py", line 7, in double',
        "    return helper(x)",
        '  File "/learner/ex.py", line 17, in helper',
        "    x.no()",
        "ValueError: first",
        "second",
    ]


def test_a_traceback_s_line_without_a_function_ends_with_its_number() -> None:
    trace = judged(raised(frames=(Frame(7, "double", "kernel[grid](x)"), Frame(3, "", "tl.load(x)")))).cause.traceback
    assert trace.splitlines()[2:4] == ['  File "/learner/ex.py", line 3', "    tl.load(x)"]


@pytest.mark.parametrize(
    ("message", "code"),
    [("Torch not compiled with CUDA enabled", "torch.empty(3, device='cuda')"), ("", "assert x.is_cuda")],
)
def test_code_that_insists_on_a_gpu_is_told_where_tensors_are(message: str, code: str) -> None:
    failure = judged(raised(kind="AssertionError", message=message, frames=(Frame(7, "double", code),)))
    assert failure.cause.help == (
        "Tensors are on the CPU here: allocate on x.device, and remove code that insists on a GPU."
    )


def test_a_promise_that_does_not_hold_is_told_with_what_to_leave_out() -> None:
    promise = "tl.multiple_of promises a multiple of 16, and here one is 8"
    failure = judged(raised(kind="ValueError", message=promise, frames=(Frame(7, "double", "tl.multiple_of(x, 16)"),)))
    assert promise in failure.cause.rationale
    assert "remove tl.multiple_of where a size, a stride or a first element can be any number" in failure.cause.help


def test_an_access_that_is_not_aligned_is_told_with_what_to_check() -> None:
    said = "store of 8 bytes must begin at an address that is a multiple of 8, and this one is 2 bytes past one"
    failure = judged(raised(kind="ValueError", message=said, frames=(Frame(7, "double", "tl.store(y + e, x)"),)))
    assert (failure.cause.title, failure.cause.rationale) == (
        "An access that is not aligned",
        f"ValueError (line 7): {said}",
    )
    assert "a multiple of 8 bytes" in failure.cause.help


@pytest.mark.parametrize(
    ("others", "listed"), [((), "no function of another name"), (("triple", "half"), "triple, half")]
)
def test_a_missing_function_is_named_beside_those_there_are(others: tuple[str, ...], listed: str) -> None:
    failure = missing_function("double", others)
    assert (failure.status, failure.cause.kind) == ("not_implemented", "missing_function")
    assert failure.cause.rationale == f"The file must define `double`; it defines {listed}."
    assert (failure.cause.expected, failure.cause.actual) == ("double", listed)


# -- wrong form ------------------------------------------------------------------------------------------------------


def test_a_function_without_a_return_is_told_to_write_one() -> None:
    assert judged(returned()).cause.help == "End the function with `return y`."


def test_what_a_launch_returns_is_no_result() -> None:
    handle = Form("Handle", "", (), "", copied=False)
    assert "return the one that you allocated" in judged(returned(X, forms=(handle,))).cause.help


@pytest.mark.parametrize(
    ("names", "got", "changed"),
    [
        (("k_cache", "v_cache"), "2 outputs", "k_cache and v_cache are"),
        (("mC",), "1 output (one tensor)", "mC is"),
    ],
)
def test_a_function_that_changes_its_arguments_must_return_nothing(
    names: tuple[str, ...], got: str, changed: str
) -> None:
    expected = [dataclasses.replace(DOUBLED, name=name, mutated=True) for name in names]
    failure, _ = check_answer(returned(*[2 * X] * (2 * len(names))), expected, lambda: (X,), PATH)
    assert failure is not None
    assert (failure.cause.kind, failure.cause.title) == ("wrong_count", "Wrong count")
    assert failure.cause.rationale == f"What is returned must be nothing, got {got}."
    assert failure.cause.help == f"Delete what stands behind `return`: {changed} changed in place."


def test_an_argument_that_is_changed_beside_an_output_is_not_to_be_returned() -> None:
    cache = dataclasses.replace(DOUBLED, name="cache", mutated=True)
    failure, _ = check_answer(returned(2 * X), (DOUBLED, cache), lambda: (X,), PATH)
    assert failure is not None
    assert failure.cause.rationale == "Number of outputs must be 1 (y), got 0."
    assert failure.cause.help == "End the function with `return y`."


def test_a_result_with_a_dimension_too_many_is_told_how_to_have_none() -> None:
    total = ORACLE.sum()
    failure = judged(returned(total.float().reshape(1)), Expected("s", total, torch.float32, ulp(total, torch.float32)))
    assert failure.cause.rationale == "The shape of s must be [], got [1]."
    assert failure.cause.help.startswith("Allocate it by `torch.empty(())`")


@pytest.mark.parametrize(
    ("outcome", "kind", "title", "rationale"),
    [
        (
            returned(),
            "wrong_count",
            "Nothing was returned",
            "Number of outputs must be 1 (y), got 0.",
        ),
        (
            returned(X, X),
            "wrong_count",
            "Wrong count",
            "Number of outputs must be 1 (y), got 2.",
        ),
        (
            returned(X, forms=(Form("LazyTensor"),)),
            "wrong_type",
            "Wrong type",
            "The type of y must be torch.Tensor, got LazyTensor.",
        ),
        (
            returned(X.reshape(1, 7)),
            "wrong_shape",
            "Wrong shape",
            "The shape of y must be [7], got [1, 7].",
        ),
        (
            returned(X.half()),
            "wrong_dtype",
            "Wrong dtype",
            "The dtype of y must be float32, got float16.",
        ),
        (
            dataclasses.replace(returned(X), outputs=(None,)),
            "wrong_bytes",
            "Wrong bytes",
            "Y's data must be 28 bytes, got none.",
        ),
    ],
)
def test_a_wrong_form_is_said_with_both_forms(outcome: Finished, kind: str, title: str, rationale: str) -> None:
    failure = judged(outcome)
    assert (failure.status, failure.cause.kind, failure.cause.title) == ("fail", kind, title)
    assert failure.cause.rationale == rationale
    assert failure.cause.mismatch is None


def test_the_shape_is_said_before_the_dtype() -> None:
    assert judged(returned(X.half().reshape(1, 7))).cause.kind == "wrong_shape"


def test_an_output_on_another_device_is_refused() -> None:
    elsewhere = returned(X, forms=(dataclasses.replace(form_of(X), device="cuda"),))
    failure = check_device(elsewhere, "cpu")
    assert failure is not None
    assert (failure.status, failure.cause.kind) == ("fail", "wrong_device")
    assert failure.cause.rationale == "The device of an output must be cpu, got cuda."


@pytest.mark.parametrize("outcome", [returned(X), returned(X, forms=(Form("list"),)), TimedOut(1.0)])
def test_what_is_no_tensor_elsewhere_has_no_wrong_device(outcome: Outcome) -> None:
    assert check_device(outcome, "cpu") is None


# -- wrong values ----------------------------------------------------------------------------------------------------


def changed(*places: tuple[Any, float]) -> Tensor:
    """The right answer, but for these places."""
    answer = ORACLE.float()
    for place, value in places:
        answer[place] = value
    return answer


@pytest.mark.parametrize(
    ("output", "kind", "rationale"),
    [
        (
            changed((2, 6.5)),
            "mismatch",
            "y: 1 of 7 elements wrong; the worst is y[2], expected 6, got 6.5.",
        ),
        (
            changed((slice(None), 100.0)),
            "mismatch",
            "y: every element wrong; the worst is y[0], expected 2, got 100.",
        ),
        (
            changed((slice(5, None), 0.5)),
            "tail",
            "y: 2 of 7 elements wrong; the worst is y[6], expected 14, got 0.5.",
        ),
        (
            changed((2, math.nan), (4, math.nan)),
            "unwritten",
            "y: 2 of 7 elements wrong; the worst is y[2], expected 6, got nan.",
        ),
        (
            changed((2, math.nan), (4, -math.inf)),
            "mismatch",
            "y: 2 of 7 elements wrong; the worst is y[2], expected 6, got nan.",
        ),
        (
            torch.zeros(7),
            "zeros",
            "y: every element wrong; the worst is y[6], expected 14, got 0.",
        ),
        (
            X.clone(),
            "copy_of_input",
            "y: every element wrong; the worst is y[6], expected 14, got 7.",
        ),
    ],
)
def test_wrong_values_are_counted_and_recognised(output: Tensor, kind: str, rationale: str) -> None:
    failure = judged(returned(output))
    assert (failure.status, failure.cause.kind) == ("fail", kind)
    assert failure.cause.rationale == rationale
    assert failure.cause.mismatch is not None
    assert failure.cause.mismatch.output == "y"


def test_wrong_elements_at_the_end_blame_no_mask() -> None:
    cause = judged(returned(changed((slice(5, None), 0.5)))).cause
    assert cause.title == "Only the end is wrong"
    assert "a count, a bound or a mask" in cause.help


def test_an_argument_that_was_copied_is_counted_from_one() -> None:
    outcome = returned(X.clone())
    failure, _ = check_answer(outcome, (DOUBLED,), lambda: (torch.ones(7), X, 3), PATH)
    assert failure is not None
    assert failure.cause.help == "It equals argument 2 of 3 bit for bit."


def test_a_wrong_scalar_needs_no_index() -> None:
    total = Expected("s", torch.tensor(28.0).double(), torch.float32, torch.tensor(1e-6).double())
    assert judged(returned(torch.tensor(27.0)), total).cause.rationale == "s: every element wrong, expected 28, got 27."


@pytest.mark.parametrize(
    ("oracle", "got"),
    [
        (torch.tensor([1.0]).double(), torch.tensor([1 + 2.0**-22])),
        (torch.tensor([12345678], dtype=torch.int64), torch.tensor([12345679])),
        (torch.tensor([2**53], dtype=torch.int64), torch.tensor([2**53 + 1])),
    ],
)
def test_the_two_values_shown_differ_where_the_values_do(oracle: Tensor, got: Tensor) -> None:
    allowed = torch.full(oracle.shape, 2.0**-23).double()
    failure = judged(returned(got), Expected("y", oracle, got.dtype, allowed))
    assert failure.cause.expected != failure.cause.actual


def test_the_launch_tells_which_tile_is_wrong() -> None:
    launch = LaunchInfo("kernel", (2,), {"BLOCK": 4})
    failure = judged(returned(changed((6, 0.5)), launches=(launch,)))
    assert failure.cause.mismatch is not None
    assert failure.cause.mismatch.tile == "tile 1 of 2 along axis 0 (BLOCK=4)"


def test_the_first_wrong_output_is_the_one_that_is_told() -> None:
    second = dataclasses.replace(DOUBLED, name="z")
    failure, worst = check_answer(returned(changed(), torch.zeros(7)), (DOUBLED, second), lambda: (X,), PATH)
    assert failure is not None
    assert failure.cause.rationale.startswith("z: every element wrong")
    assert worst > 1


def test_the_largest_error_is_measured_though_everything_is_right() -> None:
    output = changed((6, 14 + 2.0**-20))
    assert check_answer(returned(output), (DOUBLED,), lambda: (X,), PATH) == (None, 1.0)
    assert check_answer(returned(changed()), (DOUBLED,), lambda: (X,), PATH) == (None, 0.0)


# -- what else a call did --------------------------------------------------------------------------------------------


def test_a_changed_input_fails_a_right_answer() -> None:
    failure = judged(returned(changed(), changed=("x", "y")))
    assert (failure.status, failure.cause.kind) == ("fail", "input_changed")
    assert failure.cause.rationale == "The call must leave its inputs alone, but it changed x and y."


def test_a_store_outside_the_tensors_fails_a_right_answer() -> None:
    failure = judged(returned(changed(), overrun=("4 bytes outside x, the first 0 bytes after its end",)))
    assert (failure.status, failure.cause.kind) == ("fail", "out_of_bounds")
    assert failure.cause.rationale == "The call wrote 4 bytes outside x, the first 0 bytes after its end."


def test_a_read_beyond_an_argument_fails_a_right_answer() -> None:
    failure = judged(returned(changed(), reached_beyond=("x", "y")))
    assert (failure.status, failure.cause.kind) == ("fail", "out_of_bounds")
    assert failure.cause.rationale == "The call read beyond the end of x and y."
    assert [clue.kind for clue in failure.clues] == ["missing_mask"]


def test_wrong_values_are_told_before_a_changed_input() -> None:
    assert judged(returned(changed((2, 6.5)), changed=("x",))).cause.kind == "mismatch"


# -- hostile text ----------------------------------------------------------------------------------------------------

HOSTILE_FORM = Form(HOSTILE, HOSTILE, (7,), HOSTILE, HOSTILE)
HOSTILE_OUTCOMES: list[Outcome] = [
    Garbled(HOSTILE),
    raised(kind=HOSTILE, message=HOSTILE, frames=(Frame(7, HOSTILE, HOSTILE),)),
    returned(X, forms=(HOSTILE_FORM,)),
    returned(X, forms=(dataclasses.replace(HOSTILE_FORM, kind="tensor"),)),
    returned(changed(), changed=(HOSTILE,)),
    returned(changed(), overrun=(HOSTILE,)),
    returned(changed(), reached_beyond=(HOSTILE,)),
    returned(changed((6, 0.5)), launches=(LaunchInfo(HOSTILE, (2,), {HOSTILE: 4}),)),
]


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from texts_in(inner)


def unclean(failure: Failure | None) -> list[str]:
    assert failure is not None
    return [text for text in texts_in(dataclasses.asdict(failure)) if clean(text, 10**9) != text]


@pytest.mark.parametrize("outcome", HOSTILE_OUTCOMES)
def test_nothing_unprintable_passes_from_the_submission_into_the_cause(outcome: Outcome) -> None:
    assert unclean(judged(outcome)) == []


def test_nothing_unprintable_passes_in_the_names_of_devices_and_functions() -> None:
    form = dataclasses.replace(form_of(X), device=HOSTILE)
    assert unclean(check_device(returned(X, forms=(form,)), "cpu")) == []
    assert unclean(missing_function("double", (HOSTILE,))) == []


def test_nothing_unprintable_passes_in_the_path_of_a_submission() -> None:
    assert unclean(why_not_finished(raised(), f"/learner/{HOSTILE}.py")) == []


MANY = 17_000


@pytest.mark.parametrize(
    "outcome",
    [
        raised(message="x" * MANY),
        raised(frames=(Frame(7, "double", "x.no()"),) * MANY),
        returned(X, forms=(dataclasses.replace(form_of(X), shape=(7,) * MANY),)),
        returned(X, forms=(Form("x" * MANY),)),
        returned(changed(), changed=("x",) * MANY),
        returned(changed(), overrun=("x" * MANY,)),
        returned(changed(), reached_beyond=("x" * MANY,)),
    ],
    ids=["message", "frames", "shape", "type", "changed", "overrun", "reached beyond"],
)
def test_a_cause_stays_readable_however_much_a_process_claims(outcome: Outcome) -> None:
    assert max(len(text) for text in texts_in(dataclasses.asdict(judged(outcome)))) < MANY
