"""A case that fails on a GPU is repeated in the interpreter, and the card says what was seen there.

Two benches in the interpreter stand for the two devices.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.diagnosis.diagnosis import Diagnosis
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.probes.interpreted import right_in_interpreter
from grader.exercise.catalogue import Entry
from grader.exercise.plan import PlannedCase
from grader.grading.results import failed_result
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.failure import Failure
from grader.judge.rules import decide
from grader.protocol.requests import Recipe
from grader.record.causes import Cause, Difference, Mismatch
from grader.record.checks import CheckResult
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.conftest import plan_with
from tests.diagnosis.test_padding import VECTORS

WRONG = VECTOR_ADD.replace("x + y,", "x * x + 3 * y * y,")


def shown(server: ForkServer, entry: Entry, on_gpu: str, interpreted: str, *before: PlannedCase) -> CheckResult:
    """The result of a check whose case fails on one bench and is repeated on the other.

    before: cases that are planned before it.
    """
    (planned,) = plan_with(entry, "vector_add.tail").checks
    one = PlannedCase(VECTORS, 5)
    planned = replace(planned, cases=(*before, one))
    with bench_of(server, entry, on_gpu) as alone, bench_of(server, entry, interpreted) as other:
        bench = replace(alone, interpreter=other.pair)
        diagnosis = Diagnosis(entry.exercise, bench.truth, "")
        ruling = decide(bench, replace(planned, cases=(one,)))
        failure = diagnosis.look_closer(bench, planned, ruling, 1.0)
        assert failure is not None
        # The smallest case that fails has the seed of the planned one.
        smallest = replace(one, case=VECTORS.changed(N=3))
        failure = diagnosis.look_in_interpreter(bench, planned, failure, smallest if before else one)
        return diagnosis.explained(planned, failed_result(planned, failure))


def cause_of(result: CheckResult) -> Cause:
    assert result.cause is not None
    return result.cause


def test_a_case_that_is_right_in_the_interpreter_is_told_as_one(server: ForkServer, ex_15: Entry) -> None:
    result = shown(server, ex_15, WRONG, VECTOR_ADD)
    assert result.status == "fail"
    assert cause_of(result).title == "A kernel that is right in the interpreter and wrong on the GPU"
    assert "tl.debug_barrier()" in cause_of(result).help
    assert [one.kind for one in cause_of(result).suspects][:1] == ["compiled_differs"]


@pytest.mark.parametrize(
    ("got", "worst", "kind"),
    [
        (1.003, 0.6, "rounded_intermediate"),
        # Errors that no other order of additions explains.
        (1.5, 0.6, "compiled_differs"),
        ("nan", 0.6, "compiled_differs"),
        # As right as honest kernels.
        (1.003, 0.3, "compiled_differs"),
    ],
)
def test_a_case_that_is_nearly_wrong_there_too_was_rounded(got: float | str, worst: float, kind: str) -> None:
    mismatch = Mismatch("z", 1, 9, 0.003, 0.003, (4,), "scattered", (Difference((4,), 1.0, got, 0.001),))
    failure = Failure("fail", Cause("mismatch", "Wrong values", "1 of 9 elements wrong", mismatch=mismatch))
    assert right_in_interpreter(failure, worst, lambda _: False).kind == kind


def test_a_case_that_is_right_without_pipelining_says_how_to_launch_it(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The interpreter pipelines nothing: other kernels stand for the same ones without it.
    for text, kind in ((VECTOR_ADD, "pipelined"), (WRONG, "compiled_differs")):
        monkeypatch.setattr(
            "grader.diagnosis.probes.interpreted.is_right_only",
            lambda bench, recipe, place, change, text=text: Edited.of(bench, recipe).is_right(text, 5, in_kernel=True),
        )
        cause = cause_of(shown(server, ex_15, WRONG, VECTOR_ADD))
        assert cause.suspects[0].kind == kind
        assert ("num_stages=1" in cause.help) == (kind == "pipelined")


def test_a_case_that_is_right_with_more_warps_is_told_as_the_compiler_s() -> None:
    failure = Failure("fail", Cause("mismatch", "Wrong values", "1 of 9 elements wrong"))
    clue = right_in_interpreter(failure, 0.3, lambda way: way.changed({}) == {"num_warps": 8})
    assert (clue.kind, clue.confirmed) == ("compiled_for_warps", True)
    assert clue.evidence == "Launched with twice as many warps, the same call is right on this GPU."


KEEPING = VECTOR_ADD.replace("x + y,", "x + y + OTHER,").replace("BLOCK: tl.constexpr", "OTHER, BLOCK: tl.constexpr")


def test_a_case_that_an_earlier_one_spoils_in_the_interpreter_too_tells_of_it(server: ForkServer, ex_15: Entry) -> None:
    keeping = f"DTYPES = {{}}\n{KEEPING}".replace(
        "x.numel(), BLOCK", "x.numel(), float(DTYPES.setdefault(x.numel(), x.dtype) != x.dtype), BLOCK"
    )
    half = PlannedCase(VECTORS.changed(dtype="float16"), 4)
    assert cause_of(shown(server, ex_15, WRONG, keeping, half)).suspects[0].kind == "remembered_input"
    assert cause_of(shown(server, ex_15, WRONG, VECTOR_ADD, half)).suspects[0].kind == "compiled_differs"


COUNTING = KEEPING.replace("x.numel(), BLOCK", "x.numel(), float(len(LENGTHS) > 1), BLOCK")
COUNTING = "LENGTHS = set()\n" + COUNTING.replace("    z =", "    LENGTHS.add(x.numel())\n    z =")


@pytest.mark.parametrize(
    ("on_gpu", "interpreted", "kind"),
    [
        (COUNTING, VECTOR_ADD, "remembered_input"),
        (COUNTING, COUNTING, "remembered_input"),
        # What a call keeps may also end the process.
        (COUNTING.replace("    z =", "    assert len(LENGTHS) < 2\n    z ="), VECTOR_ADD, "remembered_input"),
        (WRONG, VECTOR_ADD, "compiled_differs"),
    ],
)
def test_a_case_of_a_gpu_that_is_right_in_a_new_process_was_spoilt_by_an_earlier_call(
    on_gpu: str, interpreted: str, kind: str, server: ForkServer, ex_15: Entry
) -> None:
    (planned,) = plan_with(ex_15, "vector_add.tail").checks
    one = PlannedCase(VECTORS, 5)
    with bench_of(server, ex_15, on_gpu) as alone, bench_of(server, ex_15, interpreted) as other:
        bench = replace(alone, interpreter=other.pair)
        for each in (bench, bench.interpreted()):
            each.try_case(VECTORS.changed(N=3), 5)
        ruling = decide(bench, replace(planned, cases=(one,)))
        assert ruling.failure is not None
        diagnosis = Diagnosis(ex_15.exercise, bench.truth, "")
        failure = diagnosis.look_in_interpreter(bench, planned, ruling.failure, one)
        result = diagnosis.explained(planned, failed_result(planned, failure))
    assert cause_of(result).suspects[0].kind == kind
    assert cause_of(result).suspects[0].confirmed


def test_where_a_check_has_shown_what_earlier_calls_spoil_another_is_not_told_as_the_gpu_s(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.diagnosis.diagnosis._MOST_ANEW", 1)
    checks = plan_with(ex_15, "vector_add.tail").checks[0], plan_with(ex_15, "vector_add.slices").checks[0]
    one = PlannedCase(VECTORS, 5)
    kinds = []
    with bench_of(server, ex_15, COUNTING) as alone, bench_of(server, ex_15, VECTOR_ADD) as other:
        bench = replace(alone, interpreter=other.pair)
        bench.try_case(VECTORS.changed(N=3), 5)
        diagnosis = Diagnosis(ex_15.exercise, bench.truth, "")
        for planned in checks:
            ruling = decide(bench, replace(planned, cases=(one,)))
            assert ruling.failure is not None
            failure = diagnosis.look_in_interpreter(bench, planned, ruling.failure, one)
            result = diagnosis.explained(planned, failed_result(planned, failure))
            kinds.append([(each.kind, each.confirmed) for each in cause_of(result).suspects][:1])
    assert kinds[0] == [("remembered_input", True)]
    assert ("compiled_differs", True) not in kinds[1]


def test_a_repair_is_also_sought_by_the_smallest_case_that_the_interpreter_found_wrong(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    slip = VECTOR_ADD.replace("x + y,", "tl.maximum(x + y, -0.3),")
    (planned,) = plan_with(ex_15, "vector_add.tail").checks
    planned = replace(planned, cases=(PlannedCase(VECTORS, 5),))
    sizes: list[object] = []

    def sought(_bench: Bench, _text: str, failing: list[Recipe], *_: object, **__: object) -> list[Clue]:
        sizes.extend(one.case["N"] for one in failing)
        return []

    monkeypatch.setattr("grader.diagnosis.repair_search.repair_clues", sought)
    with bench_of(server, ex_15, slip) as alone, bench_of(server, ex_15, slip) as other:
        bench = replace(alone, interpreter=other.pair)
        diagnosis = Diagnosis(ex_15.exercise, bench.truth, slip)
        failure = diagnosis.look_closer(bench, planned, decide(bench, planned), 1.0)
        assert failure is not None
        diagnosis.look_in_interpreter(bench, planned, failure, PlannedCase(VECTORS.changed(N=7), 5))
        diagnosis.search_repair(bench.interpreted(), [planned])
    assert sizes == [100, 7]


def test_an_access_that_the_interpreter_sees_explains_wrong_values(server: ForkServer, ex_15: Entry) -> None:
    unmasked = VECTOR_ADD.replace("tl.store(z_ptr + offsets, x + y, mask=mask)", "tl.store(z_ptr + offsets, x + y)")
    result = shown(server, ex_15, WRONG, unmasked)
    assert (result.status, cause_of(result).kind) == ("fail", "out_of_bounds")
    assert "A store outside z_ptr" in cause_of(result).title
    assert "Seen in the interpreter. On the GPU: z:" in cause_of(result).rationale


# NumPy adds past every hook, before a kernel copies: a replay of the kernel alone is wrong.
BY_OTHER_MEANS = (
    "import ctypes\nimport numpy as np\n"
    + VECTOR_ADD.replace("x + y,", "x,")
    + """

def raw(tensor):
    size = tensor.numel() * tensor.element_size()
    return np.frombuffer((ctypes.c_char * size).from_address(tensor.data_ptr()), dtype=np.float32)

alone = vector_add

def vector_add(x, y):
    total = torch.empty_like(x)
    raw(total)[:] = raw(x) + raw(y)
    return alone(total, total)
"""
)


def test_kernels_that_are_right_in_the_interpreter_by_themselves_need_no_other_means(
    server: ForkServer, ex_15: Entry
) -> None:
    # On the GPU such kernels race, and only a replay meets it.
    result = shown(server, ex_15, BY_OTHER_MEANS, VECTOR_ADD)
    assert (result.status, cause_of(result).suspects[0].kind) == ("fail", "compiled_differs")
    assert "every element wrong" in cause_of(result).rationale


def test_kernels_that_are_wrong_there_too_had_other_means(server: ForkServer, ex_15: Entry) -> None:
    result = shown(server, ex_15, BY_OTHER_MEANS, BY_OTHER_MEANS)
    assert (result.status, cause_of(result).kind) == ("policy", "outside_kernels")


def test_masked_lanes_that_reach_the_result_are_found_in_the_interpreter(server: ForkServer, ex_15: Entry) -> None:
    summed = VECTOR_ADD.replace("x + y,", "x + y + 0 * tl.sum(x, axis=0),")
    result = shown(server, ex_15, WRONG, summed)
    assert cause_of(result).suspects[0].kind == "padding_counted"
    assert "Write `other=0` in the load at line 9 (of" in cause_of(result).help


def test_an_access_that_the_interpreter_sees_explains_an_exception(server: ForkServer, ex_15: Entry) -> None:
    raising = VECTOR_ADD + "\n\ndef vector_add(x, y):\n    raise RuntimeError('CUDA error: an illegal memory access')\n"
    unmasked = VECTOR_ADD.replace("tl.store(z_ptr + offsets, x + y, mask=mask)", "tl.store(z_ptr + offsets, x + y)")
    result = shown(server, ex_15, raising, unmasked)
    assert (result.status, cause_of(result).kind) == ("crash", "out_of_bounds")
    assert "CUDA error: an illegal memory access" in cause_of(result).rationale
    # What the interpreter does not meet stays an exception.
    alone = cause_of(shown(server, ex_15, raising, VECTOR_ADD))
    assert [one.kind for one in alone.suspects][:1] == ["exception"]


@pytest.mark.parametrize("interpreted", ["def vector_add(x, y):\n    raise NotImplementedError\n", "x = ("])
def test_a_case_that_does_not_run_in_the_interpreter_changes_nothing(
    server: ForkServer, ex_15: Entry, interpreted: str
) -> None:
    assert shown(server, ex_15, WRONG, interpreted) == shown(server, ex_15, WRONG, WRONG)
