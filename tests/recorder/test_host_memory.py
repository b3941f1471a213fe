"""A tensor that launch code makes without a device is refused by a launch, as on a GPU, which would not reach it."""

from __future__ import annotations

import pytest

from grader.exercise.catalogue import Entry
from grader.protocol.answers import Raised
from grader.sandbox.pair import RecordedAnswer
from grader.sandbox.server import ForkServer
from tests.recordings import recording

SOURCE = """
CPU = torch.device("cpu")

def vector_add(x, y):
    z = torch.empty_like(x)
    s = {made}
    add[(4,)](x, y, s, x.numel(), BLOCK=32)
    return z
"""
OF_THE_HOST = [
    *("torch.empty(x.numel())", "torch.zeros(x.shape, dtype=x.dtype)", "torch.ones(x.numel())"),
    *("torch.zeros(200).view(2, 100)[0]", "torch.empty_like(torch.empty(100))", "torch.zeros(100).clone()"),
    *("torch.tensor([0.0] * 100)", "torch.empty(100, device=None)"),
    *("torch.zeros(100).to(torch.float16)", "torch.zeros(100).half()"),
]
OF_THE_GPU = [
    # Without a GPU, an input's device is "cpu" in words.
    *("torch.empty(100, device=x.device.type)", "torch.zeros(100).to(str(x.device))"),
    *("torch.empty_like(x)", "x.new_zeros(x.shape)", "torch.empty(100, device=x.device)"),
    *("torch.zeros(100).to(x.device)", "torch.zeros(100).to(x)", "torch.zeros(100).type_as(x)"),
    *("torch.zeros(100, device=CPU)", "torch.empty_like(torch.empty(100), device=x.device)"),
]


def recorded(server: ForkServer, ex_15: Entry, source: str) -> RecordedAnswer | Raised:
    with recording(server, ex_15, source) as one:
        answer = one.pair.record(one.call())
    assert isinstance(answer, RecordedAnswer | Raised), answer
    return answer


@pytest.mark.parametrize("made", OF_THE_HOST)
def test_a_launch_refuses_a_tensor_of_the_host_and_says_who_made_it(
    server: ForkServer, ex_15: Entry, made: str
) -> None:
    answer = recorded(server, ex_15, SOURCE.format(made=made))
    assert isinstance(answer, Raised)
    assert answer.message.startswith("z_ptr lies in the host's memory, where no kernel on a GPU reaches it: torch.")
    assert answer.message.endswith(" names no device")


@pytest.mark.parametrize("made", OF_THE_GPU)
def test_a_tensor_that_names_a_device_or_takes_that_of_another_is_launched(
    server: ForkServer, ex_15: Entry, made: str
) -> None:
    assert isinstance(recorded(server, ex_15, SOURCE.format(made=made)), RecordedAnswer)


@pytest.mark.parametrize("before", ["torch.set_default_device(CPU)", "torch.device(CPU).__enter__()"])
def test_a_default_device_counts(server: ForkServer, ex_15: Entry, before: str) -> None:
    source = SOURCE.format(made="torch.empty(100)").replace("    z = ", f"    {before}\n    z = ", 1)
    assert isinstance(recorded(server, ex_15, source), RecordedAnswer)


def test_what_no_kernel_gets_may_lie_anywhere(server: ForkServer, ex_15: Entry) -> None:
    source = SOURCE.format(made="torch.zeros(100)").replace("x, y, s,", "x, y, z,")
    assert isinstance(recorded(server, ex_15, source), RecordedAnswer)
