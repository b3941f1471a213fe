"""What the interpreter cannot run: told apart from loops that are endless by themselves."""

import pytest

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.interpreter.beyond import NeedsGpu, Waiting
from grader.judge.trial import NotRunHere
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

LOCK, TAKEN, FREE = (b"cas", b"lock"), b"\x01", b"\x00"


def test_a_program_that_gets_the_same_answer_again_and_again_waits_for_a_later_one() -> None:
    waiting = Waiting(most=3)
    for _ in range(3):
        waiting.answered(LOCK, TAKEN, others_follow=True)
    with pytest.raises(NeedsGpu, match="programs that run at the same time"):
        waiting.answered(LOCK, TAKEN, others_follow=True)


def test_the_last_program_waits_for_nobody() -> None:
    waiting = Waiting(most=3)
    for _ in range(10):
        waiting.answered(LOCK, TAKEN, others_follow=False)
    with pytest.raises(NeedsGpu):
        waiting.answered(LOCK, TAKEN, others_follow=True)


def test_an_answer_that_changes_is_progress() -> None:
    waiting = Waiting(most=3)
    for turn in range(20):
        waiting.answered(LOCK, bytes([turn]), others_follow=True)
    for _ in range(3):
        waiting.answered(LOCK, FREE, others_follow=True)
    with pytest.raises(NeedsGpu):
        waiting.answered(LOCK, FREE, others_follow=True)


def test_a_store_between_two_equal_answers_is_progress() -> None:
    waiting = Waiting(most=2)
    for _ in range(20):
        waiting.answered(LOCK, TAKEN, others_follow=True)
        waiting.begin()
    waiting.answered(LOCK, TAKEN, others_follow=True)
    waiting.answered(LOCK, TAKEN, others_follow=True)
    with pytest.raises(NeedsGpu):
        waiting.answered(LOCK, TAKEN, others_follow=True)


def test_two_questions_in_turn_are_a_wait_as_well() -> None:
    waiting = Waiting(most=3)
    for _ in range(2):
        waiting.answered(LOCK, TAKEN, others_follow=True)
        waiting.answered((b"load", b"flag"), FREE, others_follow=True)
    with pytest.raises(NeedsGpu):
        waiting.answered(LOCK, TAKEN, others_follow=True)


def test_what_triton_s_interpreter_lacks_is_left_to_a_gpu(server: ForkServer, ex_15: Entry) -> None:
    mapped = VECTOR_ADD.replace("x + y,", "tl.map_elementwise(plus, x, y),").replace(
        "@triton.jit", "@triton.jit\ndef plus(a, b):\n    return a + b\n\n\n@triton.jit", 1
    )
    case = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})
    with (
        bench_of(server, ex_15, mapped) as bench,
        pytest.raises(NotRunHere, match=r"tl\.map_elementwise, which Triton's interpreter lacks"),
    ):
        bench.try_case(case, 3)
