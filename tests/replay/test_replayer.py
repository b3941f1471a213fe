"""A trace is a claim: what cannot be is refused, and nothing outside of what a replay may touch is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.exercise.catalogue import Entry
from grader.protocol.answers import COMPUTED, Raised
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.conftest import Grade
from tests.recordings import HEAD, answer_in, recording

Message = dict[str, Any]


def add_step(*step: Any) -> Callable[[Message], None]:
    return lambda message: message["steps"].insert(0, list(step))


def set_window(place: int, *window: Any) -> Callable[[Message], None]:
    return lambda message: message["windows"].__setitem__(place, list(window))


FORGED: dict[str, tuple[Callable[[Message], None], str]] = {
    "an operator that computes": (
        add_step("operator", "mm.default", [["tensor", 0], ["tensor", 0]], {}, [], 1),
        "no part of the work",
    ),
    "an attribute of an operator": (
        add_step("operator", "fill.__setattr__", ["_qualified_op_name", "aten::mm"], {}, [], 1),
        "no part of the work",
    ),
    "an operator that writes into out": (
        add_step("operator", "zeros.out", [["list", [4]]], {"out": ["tensor", 0]}, [], 1),
        "no part of the work",
    ),
    "a dtype as a number": (
        add_step("operator", "zeros.default", [["list", [4]]], {"dtype": -1}, [], 1),
        "cannot be given int as dtype",
    ),
    "a text for an operator": (
        add_step("operator", "zeros.default", ["/etc/passwd"], {}, [], 1),
        "cannot be given str",
    ),
    "too many arguments": (
        add_step("operator", "zero_.default", [["tensor", 0], 1, 2], {}, [], 1),
        "at most 1 arguments",
    ),
    "a window beyond its storage": (set_window(0, 0, "float32", 1 << 40, [4], [1]), "within its"),
    "a storage that is not there": (set_window(0, 77, "float32", 0, [4], [1]), "known storage"),
    "a dtype that torch has not": (set_window(0, 0, "__class__", 0, [4], [1]), "known storage"),
    "a constant longer than it says": (add_step("constant", 99, 2, "eJwDAAAAAAE="), "must hold 2 bytes"),
    "a constant that is none": (add_step("constant", 99, 2, "%%%"), "must be compressed bytes"),
    "a constant in the place of an argument": (add_step("constant", 0, 0, "eJwDAAAAAAE="), "must have a new number"),
    "an argument left out": (lambda message: message["arguments"].pop("y"), "must name the tensor arguments"),
}


@pytest.mark.parametrize(("forge", "why"), FORGED.values(), ids=FORGED.keys())
def test_a_forged_trace_is_refused(
    forge: Callable[[Message], None], why: str, server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, "vector_add = added") as one:
        told = one.record()
        forge(told.message)  # type: ignore[arg-type]
        raised = one.replay(told)
    assert isinstance(raised, Raised), raised
    assert raised.kind == "Unreplayable"
    assert why in raised.message


def test_a_store_beyond_what_a_call_allocated_is_seen(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.jit
def beyond(z_ptr):
    tl.store(z_ptr + 100 + tl.arange(0, 4), 1.0)

def vector_add(x, y):
    z = added(x, y)
    beyond[(1,)](z)
    return z
"""
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    (finding,) = outcome.answer.findings
    assert (finding.kernel, finding.argument, finding.lanes) == ("beyond", "z_ptr", 4)


def test_memory_that_a_call_takes_and_lets_go_of_is_counted_once(server: ForkServer, ex_15: Entry) -> None:
    source = """
def vector_add(x, y):
    for _ in range(3):
        scratch = torch.empty(1000, device=x.device)
        del scratch
    return added(x, y)
"""
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    # One of 1000, or the result of 100.
    assert outcome.answer.allocated_bytes == 4000


@pytest.mark.parametrize(
    "workspace",
    [
        "torch.from_numpy(numpy.zeros(1000, 'float32')).to(x)",
        "(KEPT or KEPT.append(torch.empty(1000, device=x.device)) or KEPT)[0]",
    ],
    ids=["made by NumPy", "kept from an earlier call"],
)
def test_memory_that_was_made_before_the_call_is_counted(server: ForkServer, ex_15: Entry, workspace: str) -> None:
    source = f"""
import numpy
KEPT = []
def vector_add(x, y):
    scratch = {workspace}
    scratch.zero_()
    return added(x, y)
"""
    with recording(server, ex_15, source) as one:
        outcomes = [one.replay(one.record()) for _ in range(2)]
    for outcome in outcomes:
        assert isinstance(outcome, Finished)
        assert outcome.answer.allocated_bytes == 4000 + 400


def test_a_result_that_is_an_argument_is_told(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, "def vector_add(x, y):\n    added(x, y)\n    return x\n") as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    assert outcome.answer.outputs[0].alias == "argument x"


def test_results_of_a_call_may_lie_in_one_buffer_and_share_no_element_of_it(server: ForkServer, ex_15: Entry) -> None:
    source = """
def vector_add(x, y):
    both = torch.stack((added(x, y), x), 1)
    return both[:, 0], both[:, 1], both[3:5, 0]
"""
    with recording(server, ex_15, source) as one:
        outcomes = [one.replay(one.record()) for _ in range(2)]
    for outcome in outcomes:
        assert isinstance(outcome, Finished)
        assert [form.alias for form in outcome.answer.outputs] == ["", "", "another result"]


@pytest.mark.parametrize("grid", [(1, 65536), (2**31,), (2**31 - 1, 65535, 65535)])
def test_a_grid_that_no_gpu_runs_is_refused_at_once(server: ForkServer, ex_15: Entry, grid: tuple[int, ...]) -> None:
    source = f"""
@triton.jit
def nothing(z_ptr):
    pass

def vector_add(x, y):
    z = added(x, y)
    nothing[{grid}](z)
    return z
"""
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Raised)
    assert (outcome.verdict, outcome.kind) == ("crash", "ValueError")
    assert "a grid must have at most" in outcome.message


def test_the_line_that_launched_is_told_with_the_line_that_failed(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.jit
def wrong(z_ptr):
    tl.static_assert(False, "never")

def vector_add(x, y):
    z = torch.empty_like(x)
    wrong[(1,)](z)
    return z
"""
    with recording(server, ex_15, source) as one:
        raised = one.replay(one.record())
    assert isinstance(raised, Raised)
    assert (raised.verdict, raised.message) == ("compile_error", "never")
    assert [frame.code for frame in raised.frames] == ["wrong[(1,)](z)", 'tl.static_assert(False, "never")']


def test_python_in_a_kernel_is_refused_with_its_line(server: ForkServer, ex_15: Entry) -> None:
    source = """
import numpy as np

@triton.jit
def wrong(x_ptr, z_ptr):
    tl.store(z_ptr, np.sum(tl.load(x_ptr + tl.arange(0, 4))))

def vector_add(x, y):
    z = torch.empty_like(x)
    wrong[(1,)](x, z)
    return z
"""
    with recording(server, ex_15, source) as one:
        raised = one.replay(one.record())
    assert isinstance(raised, Raised)
    assert raised.verdict == "compile_error"
    assert raised.message == "np.sum is Python's, and a kernel has none: write tl.sum"
    assert raised.frames[-1].code.startswith("tl.store(z_ptr, np.sum(")


def test_configurations_that_fail_are_passed_over(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.autotune([triton.Config({"BLOCK": size}) for size in (16, 64)], key=[])
@triton.jit
def tuned(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 32)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside), inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    (launch,) = outcome.answer.launches
    assert launch.constants == {"BLOCK": 64}
    assert launch.grid == (2,)
    assert replace(launch, traffic=None) != launch


def test_an_assertion_behind_a_branch_on_data_skips_no_configuration(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.autotune([triton.Config({"BLOCK": size}) for size in (16, 64)], key=[])
@triton.jit
def tuned(z_ptr, n, BLOCK: tl.constexpr):
    if n > 0:
        tl.static_assert(BLOCK > 32)
    tl.store(z_ptr + tl.arange(0, BLOCK), 1.0)

def vector_add(x, y):
    z = torch.empty_like(x)
    tuned[(1,)](z, x.numel())
    return z
"""
    with recording(server, ex_15, source) as one:
        raised = one.replay(one.record())
    assert isinstance(raised, Raised)
    assert (raised.kind, raised.verdict) == ("TypeError", "crash")
    assert "Triton compiles a branch whatever its condition is" in raised.message


REMEMBERING = """
@triton.jit
def fill(z_ptr, n, VALUE: tl.constexpr):
    offsets = tl.arange(0, 128)
    tl.store(z_ptr + offsets, VALUE, offsets < n)

def tuned(*warps):
    return triton.autotune([triton.Config({"VALUE": i}, num_warps=w) for i, w in enumerate(warps)], key=[])(fill)

KERNELS = [tuned(64, 4), tuned(4, 4)]

def vector_add(x, y):
    z = torch.empty_like(x)
    KERNELS.pop(0)[(1,)](z, x.numel())
    return z
"""


def test_a_call_begins_with_its_first_configuration_whatever_an_earlier_one_took(
    server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, REMEMBERING) as one:
        assert [answer_in(one.replay(one.record())).unique().item() for _ in range(2)] == [1, 0]


EQUAL_CONSTANTS = """
CONSTANTS = [1, 1.0, True]

@triton.jit
def tell_the_type(z_ptr, n):
    offsets = tl.arange(0, 128)
    is_float: tl.constexpr = (offsets * CONSTANT).dtype.is_floating()
    tl.store(z_ptr + offsets, 1.0 if is_float else 0.0, offsets < n)

def vector_add(x, y):
    globals()["CONSTANT"] = tl.constexpr(CONSTANTS.pop(0))
    z = torch.empty_like(x)
    tell_the_type[(1,)](z, x.numel())
    return z
"""


def test_a_kernel_is_built_anew_for_a_constant_that_only_equals_an_earlier_one(
    server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, EQUAL_CONSTANTS) as one:
        assert [answer_in(one.replay(one.record())).unique().item() for _ in range(3)] == [0, 1, 0]


GATHERING = """
@triton.jit
def gather(x_ptr, y_ptr, z_ptr, slots_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    slots = tl.load(slots_ptr + offsets, inside, 0)
    tl.store(z_ptr + offsets, tl.load(x_ptr + slots, inside) + tl.load(y_ptr + slots, inside), inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    n = x.numel()
    {lines}
    gather[(triton.cdiv(n, 64),)](x, y, z, slots, n, BLOCK=64)
    return z

torch.set_default_device("cpu")
"""


@pytest.mark.parametrize(
    "lines",
    [
        "slots = (torch.arange(n, device=x.device) * 6 + 5) // 6",
        "slots = torch.arange(n).remainder(50) + torch.where(torch.arange(n) < 50, 0, 50)",
        "table = torch.arange(n) - 1; table += 1; slots = table[torch.arange(n).clamp(max=n - 1)].to(torch.int32)",
        "slots = torch.ones(n, dtype=torch.int64).cumsum(0) - 1",
        "slots = torch.div(torch.arange(n) * 2, 2, rounding_mode='floor')",
        "slots = torch.arange(n).gather(0, torch.arange(n)); slots = slots.maximum(torch.zeros_like(slots))",
    ],
)
def test_indices_may_be_computed_by_torch(lines: str, server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, GATHERING.replace("{lines}", lines)) as one:
        told = one.record()
        assert (told.outside_work, told.unrecordable) == ((), ())
        torch.testing.assert_close(answer_in(one.replay(told)), one.wanted(), rtol=0, atol=0)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("x = (x.view(torch.int32) + 0).view(torch.float32)", id="the bits of an argument"),
        pytest.param("b = x.clone().view(torch.int32); b.mul_(1)", id="the bits of a copy"),
        pytest.param(
            "b = torch.empty(n, dtype=torch.int32); b.view(torch.float32).copy_(x); b = b + 0",
            id="memory that was made for whole numbers",
        ),
        pytest.param("b = x.to(torch.int32).sum()", id="numbers that were cut to whole ones"),
        pytest.param(
            "b = torch.arange(n); add[(2,)](x.view(torch.int32), x.view(torch.int32), b.view(torch.int32)[:n], n, "
            "BLOCK=64); b = b + 1",
            id="what a kernel made",
        ),
        pytest.param("b = x.view(torch.int32).to(torch.float64)", id="a cast of the bits of an argument"),
        pytest.param(
            "b = torch.empty((n, 4), dtype=torch.uint8); b.copy_(x.view(torch.uint8).view(n, 4)); b[:, 3].fill_(75); "
            "b = b.view(torch.float32).to(torch.int32)",
            id="a cast of a number with another exponent",
        ),
        pytest.param(
            "b = torch.empty(2 * n, dtype=torch.uint8); b[:n].copy_(x.view(torch.uint8)[:n]); "
            "b[n:].copy_(y.view(torch.uint8)[:n]); "
            "c = torch.empty(n, dtype=torch.int16); c.copy_(b.view(torch.int16)); c = c.to(torch.bool)",
            id="a cast of a copy of bytes of two arguments",
        ),
        pytest.param(
            "b = torch.empty(n, dtype=torch.int16).copy_(x.view(torch.int16)[:n]).to(torch.bool)",
            id="a cast of a copy of halves of numbers",
        ),
        pytest.param(
            "b = torch.cat((x.view(torch.int32), torch.arange(n)))", id="numbers that are joined and cast at once"
        ),
        pytest.param("b = x.to(torch.bool)", id="a cast of fractions to whole numbers"),
        pytest.param(
            "b = torch.zeros(n, dtype=torch.int32); add[(2,)](x, y, b, n, BLOCK=64); b = b.view(torch.float32).half()",
            id="a cast of bits that a kernel has stored",
        ),
        pytest.param(
            "b = torch.zeros(n); add[(2,)](x, y, triton.reinterpret(b, torch.int32), n, BLOCK=64); b = b.half()",
            id="a cast of bits that a kernel has stored under another dtype",
        ),
        pytest.param("b = x.view(torch.uint8)[::4].clone()", id="a copy of one byte of each number"),
        pytest.param("b = x.view(torch.uint8).clone()[1:5].clone()", id="a copy of bytes across two numbers"),
    ],
)
def test_torch_computes_with_nothing_but_indices(lines: str, server: ForkServer, ex_15: Entry) -> None:
    slots = "; slots = torch.arange(n)"
    with recording(server, ex_15, GATHERING.replace("{lines}", lines + slots)) as one:
        raised = one.replay(one.record())
        assert isinstance(raised, Raised)
        assert raised.kind == COMPUTED
        assert raised.message.startswith("aten.")
        assert raised.frames[-1].line == one.line_of("slots = torch.arange(n)")


@pytest.mark.parametrize(
    "lines",
    [
        "b = x.to(torch.float16).to(torch.float32)",
        "b = torch.empty(4 * n, dtype=torch.uint8); b.view(torch.float32).copy_(x); b = b.view(torch.float32).half()",
        "b = torch.zeros(4 * n, dtype=torch.uint8); add[(2,)](x, y, b.view(torch.float32), n, BLOCK=64); "
        "b = b.view(torch.float32).half()",
        "b = torch.zeros(n); add[(2,)](x, y, b, n, BLOCK=64); b.view(torch.uint8).zero_(); b = b.half()",
        "b = torch.empty(4 * n, dtype=torch.uint8); b.copy_(x.view(torch.uint8)); b = torch.zeros_like(b).float()",
        "b = torch.arange(n).view(torch.int32).to(torch.int64)",
        "b = torch.zeros(2 * n, dtype=torch.int32); add[(2,)](x, y, b[n:], n, BLOCK=64); b = b[n:].clone()",
        "b = x.view(torch.int16).clone().view(torch.float32).clone()",
        "b = torch.empty(5 * n, dtype=torch.uint8); b[: 4 * n].view(torch.float32).copy_(x); "
        "b[4 * n :].copy_(torch.arange(n)); b = b[: 4 * n].view(torch.float32).half()",
    ],
)
def test_torch_casts_numbers_of_the_type_that_they_have(lines: str, server: ForkServer, ex_15: Entry) -> None:
    slots = "; slots = torch.arange(n)"
    with recording(server, ex_15, GATHERING.replace("{lines}", lines + slots)) as one:
        told = one.record()
        assert (told.outside_work, told.unrecordable) == ((), ())
        torch.testing.assert_close(answer_in(one.replay(told)), one.wanted(), rtol=0, atol=0)


def test_bits_that_torch_computes_with_cost_the_check_and_the_line_is_told(hastily: Grade, tmp_path: Path) -> None:
    lines = "x = (x.view(torch.int32) + 0).view(torch.float32) if x.dtype == torch.float32 else x"
    source = HEAD + GATHERING.replace("{lines}", f"{lines}; slots = torch.arange(n)")
    (tmp_path / "bits.py").write_text(source)
    (check,) = hastily(tmp_path / "bits.py", "vector_add.full_blocks").checks
    assert check.cause is not None
    assert (check.status, check.cause.kind, check.points) == ("policy", "library_call", 0)
    assert "aten.add (line" in check.cause.rationale


# -- options of a launch ---------------------------------------------------------------------------------------------

LAUNCHING = """
def vector_add(x, y):
    z = torch.empty_like(x)
    add[(2,)](x, y, z, x.numel(), BLOCK=64, {})
    return z
"""


@pytest.mark.parametrize("options", ["num_warps=8", "num_stages=2", "maxnreg=64, num_ctas=1", "enable_fp_fusion=False"])
def test_a_launch_may_say_how_it_is_compiled(options: str, server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, LAUNCHING.format(options)) as one:
        told = one.record()
        assert told.is_replayable
        torch.testing.assert_close(answer_in(one.replay(told)), one.wanted(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("extern_libs", 'extern_libs={"libdevice": "/etc/passwd"}'),
        ("ir_override", 'ir_override="/etc/passwd"'),
        ("ptx_options", 'ptx_options="--maxrregcount 32"'),
    ],
)
def test_a_launch_may_not_name_files_or_replace_what_is_compiled(
    option: str, given: str, server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, LAUNCHING.format(given)) as one:
        raised = one.replay(one.record())
        assert isinstance(raised, Raised), raised
        assert f"got {option}: leave it out" in raised.message
        assert "a launch's options must be of" in raised.message
        assert [frame.line for frame in raised.frames] == [one.line_of("BLOCK=64, ")]
