"""What tests/replay/test_kernels.py runs in processes of their own, interpreting and compiling."""

from __future__ import annotations

import ast
import os
import textwrap
import types
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.tools.tensor_descriptor import TensorDescriptor

from grader.calls.packages import file_of
from grader.interpreter.beyond import NeedsGpu
from grader.interpreter.corrections import apply_corrections
from grader.interpreter.memory import MemoryWatch
from grader.protocol.trace import (
    AGGREGATE,
    ConstexprValue,
    DictValue,
    DtypeValue,
    KernelText,
    KernelValue,
    LanguageValue,
    NamedValue,
    TensorValue,
    TupleValue,
    UnknownValue,
    Value,
)
from grader.replay.kernels import Kernels
from grader.replay.text import Text
from grader.replay.values import Elsewhere, RefusedFunction, plain_value
from tests.claimed import claims_of, defines_kernels
from tests.conftest import ROOT

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if INTERPRETED:
    # As in the replayer; and some files ask for a GPU's properties when they are imported.
    apply_corrections()
interpreted_only = pytest.mark.skipif(not INTERPRETED, reason="it runs in the interpreter")
compiled_only = pytest.mark.skipif(INTERPRETED, reason="it is for the compiler")

TL = {"tl": LanguageValue("triton.language"), "triton": LanguageValue("triton")}
HELPER = "@triton.jit\ndef helper(x):\n    return x + 1\n\n\n"
PATH = "/submission/solution.py"


def built(source: str, names: Mapping[str, Value] | None = None, kind: Any = "jit", **options: Value) -> Any:
    """Build the last function of a text, and with it `helper`, kernel number 1."""
    text = textwrap.dedent(source)
    last = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)][-1]
    line = min([last.lineno, *(one.lineno for one in last.decorator_list)])
    told = [
        KernelText(last.name, line, kind, {**TL, **(names or {})}, options),
        KernelText("helper", 1, "jit", TL),
    ]
    return Kernels(Text(text, PATH), told).kernel(0)


def body(*lines: str, arguments: str = "x, n, f") -> str:
    """Return a kernel of these lines, the first of which is the text's line 8."""
    return f"{HELPER}@triton.jit\ndef kernel({arguments}):\n" + "".join(f"    {one}\n" for one in lines)


def refusal(
    *lines: str, names: Mapping[str, Value] | None = None, kind: str = "jit", arguments: str = "x, n, f"
) -> RefusedFunction:
    with pytest.raises(RefusedFunction) as caught:
        built(body(*lines, arguments=arguments), {"helper": KernelValue(1), **(names or {})}, kind)
    return caught.value


# -- refused ---------------------------------------------------------------------------------------------------------

PYTHON = [
    "import os",
    "from os import system",
    "global g",
    "del x",
    "y = lambda: 1",
    "y = (lambda: 1)()",
    "class A: pass",
    "def inner(): pass",
    "async def inner(): pass",
    "try:\n        pass\n    except ValueError:\n        pass",
    "with f(): pass",
    "with open('x') as y: pass",
    "yield 1",
    "y = yield",
    "y = await f",
    "raise ValueError",
    "y = (z := 1)",
    "y = {1: 2}",
    "y = {1, 2}",
    "y = {a: 1 for a in n}",
    "y = {a for a in n}",
    "y = sum(a for a in n)",
    "match x:\n        case 1: pass",
    "y = b'bytes'",
    "y = 1j",
    "x.y = 1",
    "x.y += 1",
    "x[0] = 1",
    "x[0] += 1",
    "x.y: int = 1",
    "for x.y in range(3): pass",
    "for x[0] in range(3): pass",
    "[a, b] = n",
    "a = b = 1",
    "(a, *b) = n",
    "for a, b in range(3): pass",
    "for a in n: pass",
    "for a in list(n): pass",
    "for a in (list if n else range)(3): pass",
    "for a in (range if n else tl.range if open('x') else range)(3): pass",
    "for a in (range if n else range)(open('x')): pass",
    "for a in (range if n else range)(**n): pass",
    "while True: break",
    "while True: continue",
    "y = x @ n",
    "x @= n",
    "y = 1 < n < 3",
    "y = x in n",
    "y = [a for a in n if a]",
    "y = [a + b for a in n for b in n]",
    "y = [f.y for f.y in n]",
    "y = f(**n)",
    "y = [*n]",
    "y = eval('1')",
    "exec('1')",
    "y = open('/etc/passwd')",
    "y = __import__('os')",
    "y = __builtins__",
    "y = globals()",
    "y = vars(tl)",
    "y = dir(tl)",
    "y = type(x)",
    "y = getattr(x, 'handle')",
    "setattr(x, 'y', 1)",
    "y = compile",
    "y = super()",
    "y = object",
    "y = abs(x)",
    "y = sum(n)",
    "y = sorted(n)",
    "y = map(f, n)",
    "y = zip(n, n)",
    "y = int",
    "y = [len, print]",
    "f(print)",
    "y = print.__self__",
    "y = int.from_bytes",
    "y = hasattr(x, n)",
    "y = hasattr(x, 'a' + 'b')",
    "y = isinstance(x)",
    "y = isinstance(*n)",
    "y = x.__class__",
    "y = x.__class__.__mro__",
    "y = x._semantic",
    "y = x.y_",
    "y = f.__globals__",
    "y = f.fn",
    "y = f.fn.__globals__['os']",
    "y = f.run",
    "f.run(x, grid=(1,), warmup=False)",
    "y = f.rewriter",
    "y = f.kwargs",
    "y = f.pre_run_hooks",
    "y = f.device_caches",
    "y = f.func",
    "y = f.gi_frame",
    "y = f.f_globals",
    "y = f.co_consts",
    "y = f.mro()",
    "y = x.handle",
    "y = x.handle.data",
    "y = x.dtype.to_ir(f)",
    "y = x.data_ptr()",
    "y = '{0}'.format(f)",
    "y = 'a'.format_map(f)",
    "y = '%s' % f",
    "y = f'%s' % f",
    "y = n.append(1)",
    "y = n.update(n)",
    "y = n.pop()",
    "y = helper.fn",
    "y = helper.value",
    "y = helper[(1,)]",
    "helper[(1,)](x)",
    "y = tl.load.__globals__",
    "y = tl.load.fn",
    "y = tl.sum.fn.__globals__",
    "y = tl.sum[(1,)](x)",
    "y = tl.tensor.handle",
    "y = tl.__builtins__",
    "y = tl",
    "y = tl.core",
    "y = tl.core.tensor",
    "f(tl)",
    "f(tl.tensor)",
    "f(a=tl.math)",
    "y = tl.dtype.SIGNEDNESS",
    "y = tl.dtype",
    "y = tl.PropagateNan",
    "tl.static_print('a', file=f)",
    "print('a', file=f)",
    "tl.load(x, _semantic=f)",
    "f(_generator=x)",
]

OURS = [
    "y = tl.core.builtins.exec('1')",
    "y = tl.core.builtins",
    "y = tl.core.inspect",
    "y = tl.core.knobs",
    "y = tl.core.ir",
    "y = tl.core.typing",
    "y = tl.core.extern_elementwise('a', 'b', [], {}, True)",
    "y = tl.core.dispatch",
    "y = tl.core.wraps(f)",
    "y = tl.core.builtin(f)",
    "y = tl.core.partial(f)",
    "y = tl.core._unwrap_if_constexpr(x)",
    "y = tl.core.must_use_result",
    "y = tl.str_to_ty('a', x)",
    "y = tl.extra.pkgutil",
    "y = tl.extra.module",
    "y = tl.extra.hip",
    "y = tl.semantic.builtins",
    "y = tl.semantic.TritonSemantic",
    "y = tl.random.tl.core.builtins",
    "y = tl.standard._log2(x)",
    "y = tl.core.get_int_dtype(32, True)",
    "y = x.__rshift__(4)",
    "y = (x << 4).__rshift__(n)",
    "y = tl.target_info.knobs",
    "y = triton.jit(f)",
    "y = triton.compile(f)",
    "y = triton.runtime",
    "y = triton.knobs",
    "y = triton.testing.do_bench(f)",
    "y = triton.language.core.builtins",
    "y = triton._C",
    "y = triton.cdiv.fn",
    "y = tl.tensor(f, n)",
    "y = tl.slice(1, 2, 3)",
    "y = tl.tensor_descriptor(f)",
    "y = tl.block_type(f, [4])",
    "y = tl.core.block_type(tl.float32, [4])",
    "y = tl.PropagateNan(1)",
    "y = tl.PropagateNan.from_bytes",
    "y = isinstance(x, f)",
    "y = isinstance(x, tl)",
    "y = isinstance(x, (int, f))",
    "y = isinstance(x, type)",
    "y = isinstance(x, tl.tuple)",
    "y = hasattr(x, '__index__')",
    "y = f(x)(n)",
    "y = (f if x else helper)(n)",
    "y = f'{x:{n}}'",
    "y = f'{x:10}'",
    "y = f'{x.__class__}'",
    "y = f'{x.handle!r}'",
    "y = unheard_of",
    "unheard_of(x)",
    "y = interpreter_semantic",
    "interpreter_semantic = f",
    "getattr = f",
    "__builtins__ = f",
    "__x = 1",
    "y = [tl for tl in n]",
    "y = [tl.core for tl in n]",
    "y = [np for np in n]; z = np.sum(x)",
    "y = [print for print in n]",
    "y = np",
    "y = TensorHandle(x, n)",
    "y = inspect.getsource(f)",
    "y = partial(f)",
    "y = InterpreterBuilder()",
]


@pytest.mark.parametrize("line", PYTHON + OURS)
def test_what_is_not_on_the_list_is_refused_with_its_line(line: str) -> None:
    refused = refusal("a = 1", line)
    assert refused.line in (9, 10)
    assert "\n" not in refused.rule


@pytest.mark.parametrize("line", PYTHON)
def test_what_tritons_compiler_refuses_is_called_python(line: str) -> None:
    if "tl.load.fn" not in line:
        assert refusal(line).python


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("np", LanguageValue("numpy")),
        ("np", LanguageValue("builtins")),
        ("np", LanguageValue("os")),
        ("np", LanguageValue("triton.runtime.interpreter")),
        ("np", LanguageValue("triton.language.core.builtins")),
        ("np", LanguageValue("triton.language.semantic")),
        ("np", LanguageValue("triton.language.core.builtins.exec")),
        ("np", LanguageValue("triton.language.math.sqrt.__globals__")),
        ("np", LanguageValue("grader.replay.kernels")),
        ("np", LanguageValue("")),
        ("np", LanguageValue(".")),
        ("np", LanguageValue("triton..language")),
        ("np", LanguageValue("triton.language.")),
        ("np", UnknownValue("a module")),
        ("np", TensorValue(0)),
        ("np", NamedValue("record", "R", ("handle",), (1,))),
        ("np", NamedValue("record", "R", ("__class__",), (1,))),
        ("np", NamedValue("tuple", "R", ("class",), (1,))),
        ("np", NamedValue("tuple", "R", ("to_ir",), (1,))),
        ("np", NamedValue("record", "R", ("primitive_bitwidth",), (8,))),
        ("np", NamedValue("record", "R", ("element_ty",), (DtypeValue("triton", "int8"),))),
        ("np", NamedValue("record", "R", ("store",), (KernelValue(1),))),
        ("np", NamedValue("tuple", "R", ("load",), (LanguageValue("triton.language.load"),))),
        ("np", NamedValue("tuple", "R", ("is_ptr",), (ConstexprValue(KernelValue(1)),))),
        ("np", NamedValue("record", "R", ("atomic_add",), (KernelValue(1),))),
        ("np", NamedValue("tuple", "R", ("_asdict",), (1,))),
        ("np", NamedValue("tuple", "R'); import os; ('", ("a",), (1,))),
        ("np", DtypeValue("torch", "Tensor")),
        ("np", DtypeValue("triton", "tensor")),
        ("np", TupleValue((LanguageValue("triton.language"),))),
        ("np", ConstexprValue(LanguageValue("triton.language.core.tensor"))),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_where_it_is_used(name: str, value: Value) -> None:
    refused = refusal("a = 1", f"y = {name}.sum(x)", names={name: value})
    assert refused.line == 9
    built(body("a = 1"), {name: value})


def test_numpy_is_told_with_what_to_write() -> None:
    refused = refusal("y = np.sum(x)", names={"np": LanguageValue("numpy")})
    assert refused.rule == "np.sum is Python's, and a kernel has none: write tl.sum"
    assert refused.python


def test_a_misspelt_function_of_tritons_is_told_with_its_nearest() -> None:
    assert refusal("y = tl.arrange(0, 4)").rule.endswith("is not of Triton's language: did you mean tl.arange?")


def test_an_import_says_what_a_name_means_where_the_trace_does_not() -> None:
    with pytest.raises(RefusedFunction, match=r"np\.sum is Python's"):
        built("import numpy as np\n" + body("y = np.sum(x)"))
    built("from triton.language import load as fetch\n" + body("y = fetch(x)"))


@pytest.mark.parametrize(
    "arguments",
    [
        "x=open",
        "x=eval('1')",
        "x=print('ran')",
        "x=[]",
        "x={}",
        "x=lambda: 1",
        "x=(y := 1)",
        "x=tl.core.builtins.exec",
        "x=tl",
        "x=tl.tensor",
        "x=f'{open}'",
        "x=helper",
        "x=unheard_of",
        "*, x=open",
        "**x",
        "__x",
        "_semantic",
        "x, _generator",
        "*, _builder",
        "*_rest",
        "interpreter_semantic",
        "getattr",
    ],
)
def test_defaults_and_parameters_that_would_act_are_refused(arguments: str) -> None:
    assert refusal("pass", arguments=arguments).line == 7


def test_nothing_that_stands_around_a_function_is_executed(capsys: pytest.CaptureFixture[str]) -> None:
    source = """
        print("module")

        @print("decorator")
        @triton.jit
        def kernel(x: print("annotation"), C: tl.constexpr = 4, *, k: print("late") = 1) -> print("returned"):
            y: print("inner") = x
            z: tl.constexpr = C
    """
    kernel = built(source)
    if INTERPRETED:
        kernel.rewrite()
    assert capsys.readouterr().out == ""


def test_a_function_that_a_kernel_calls_passes_the_same_list() -> None:
    source = "@triton.jit\ndef helper(x):\n    return open(x)\n\n\n@triton.jit\ndef kernel(x):\n    return helper(x)\n"
    kernel = built(source, {"helper": KernelValue(1)})
    with pytest.raises(RefusedFunction) as caught:
        kernel.fn.__globals__["helper"](1)
    assert caught.value.line == 3


def test_of_functions_that_call_each_other_the_refused_one_is_not_run() -> None:
    source = "@triton.jit\ndef a(x):\n    return b(x)\n@triton.jit\ndef b(x):\n    y = a(x)\n    return open(x)\n"
    told = [KernelText("a", 1, "jit", {"b": KernelValue(1)}), KernelText("b", 4, "jit", {"a": KernelValue(0)})]
    kernels = Kernels(Text(source, PATH), told)
    for _ in range(2):
        with pytest.raises(RefusedFunction):
            kernels.kernel(0).fn.__globals__["b"](1)
        with pytest.raises(RefusedFunction):
            kernels.kernel(1)


UNUSED = """@triton.jit
def gone(x):
    return tl.libdevice.erf(x)


@triton.jit
def kernel(x, n, ACTIVATION: tl.constexpr):
    y = tl.load(x)
    if ACTIVATION == "gelu":
        y = gone(y)
    tl.store(x, y + 1)
"""


def built_with_what_is_gone() -> Any:
    told = [KernelText("kernel", 6, "jit", {**TL, "gone": KernelValue(1)}), KernelText("gone", 1, "jit", TL)]
    return Kernels(Text(UNUSED, PATH), told).kernel(0)


@pytest.mark.parametrize(
    "value",
    [
        *(1, 0.5, None, "a text", TupleValue((1, 2)), TupleValue((ConstexprValue(1),))),
        NamedValue("tuple", "R", ("first",), (1,)),
    ],
)
def test_a_global_variable_that_is_no_constant_is_refused_with_what_to_write(value: Value) -> None:
    refused = refusal("y = x * SCALE", names={"SCALE": value})
    assert refused.python
    assert refused.rule == (
        "`SCALE` is a global variable, and a kernel reads constants alone: "
        "write `SCALE = tl.constexpr(…)`, or pass it as an argument"
    )


@pytest.mark.parametrize(
    ("field", "value"), [("first", 1), ("first", KernelValue(0)), ("load", KernelValue(1)), ("me", UnknownValue("it"))]
)
def test_a_class_is_no_constant_whatever_it_holds(field: str, value: Value) -> None:
    refused = refusal("y = SCALE.first(x)", names={"SCALE": NamedValue("record", "R", (field,), (value,))})
    assert (refused.line, refused.python) == (8, True)
    assert refused.rule == (
        "`SCALE` is no constant, and a kernel reads constants alone: give each function of it that you use a name at "
        "the top level, as in `NAME = SCALE.NAME`, and each number, as in `NAME = tl.constexpr(SCALE.NAME)`"
    )


@interpreted_only
def test_a_class_of_objects_in_kernels_asks_for_a_gpu() -> None:
    with pytest.raises(NeedsGpu, match="the @aggregate class Tile, which Triton's interpreter lacks"):
        built(body("y = Tile(x)"), {"Tile": UnknownValue(f"{AGGREGATE}Tile")})


@compiled_only
def test_a_class_of_objects_in_kernels_is_refused_but_not_as_by_triton() -> None:
    refused = refusal("y = Tile(x)", names={"Tile": UnknownValue(f"{AGGREGATE}Tile")})
    assert (refused.line, refused.python) == (8, False)
    assert refused.rule == (
        "`Tile`: the @aggregate class Tile: pass its fields one by one, or as a named tuple, to functions"
    )


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (ConstexprValue(UnknownValue("an attrgetter")), "a kernel cannot use an attrgetter"),
        (NamedValue("class", "Pair", ("handle",), (None,)), "a field cannot be called handle"),
    ],
)
def test_a_constant_that_cannot_be_made_is_refused_for_what_it_holds(value: Value, rule: str) -> None:
    refused = refusal("y = OP(x)", names={"OP": value})
    assert (refused.line, refused.python) == (8, False)
    assert refused.rule.startswith(f"`OP`: {rule}")


def test_a_constant_may_hold_the_function_that_reads_it() -> None:
    held = NamedValue("record", "R", ("helper", "kernel"), (KernelValue(1), KernelValue(0)))
    kernel = built(body("y = TOOLS.value.helper(x)"), {"TOOLS": ConstexprValue(held)})
    tools = kernel.fn.__globals__["TOOLS"].value
    assert tools.kernel is kernel
    assert tools.helper.fn.__name__ == "helper"


def test_a_kernel_of_an_edited_text_is_not_the_earlier_one_if_a_function_in_its_data_differs() -> None:
    source = body("return TOOLS.value.helper(x)", arguments="x")
    held = ConstexprValue(NamedValue("record", "R", ("helper",), (KernelValue(1),)))
    told = [KernelText("kernel", 6, "jit", {**TL, "TOOLS": held}), KernelText("helper", 1, "jit", TL)]
    earlier = Kernels(Text(source, PATH), told)
    earlier.kernel(0)
    assert Kernels(Text(source, PATH), told, earlier).kernel(0) is earlier.kernel(0)
    edited = Kernels(Text(source.replace("x + 1", "x - 1"), PATH), told, earlier).kernel(0)
    assert edited.fn.__globals__["TOOLS"].value.helper.fn(4) == 3


def test_a_default_that_holds_its_own_function_is_refused_with_its_line() -> None:
    table = ConstexprValue(TupleValue((KernelValue(0),)))
    with pytest.raises(RefusedFunction, match="holds kernel itself: pass it instead") as caught:
        built(body("pass", arguments="x, y=TABLE"), {"TABLE": table})
    assert caught.value.line == 6


def test_what_cannot_be_told_is_refused_only_where_it_is_used() -> None:
    told: dict[str, Value] = {"CONFIG": NamedValue("record", "C", ("block", "log"), (16, UnknownValue("a socket")))}
    names: dict[str, Value] = {"ITEMS": TupleValue((1, UnknownValue("a socket"))), **told}
    assert built(body("return CONFIG.block + ITEMS[0]", arguments=""), names, kind="constexpr")() == 17
    refused = refusal("return CONFIG.log", names=told, kind="constexpr", arguments="")
    assert (refused.line, refused.python) == (8, False)
    assert refused.rule.startswith("`CONFIG.log`: a kernel cannot use a socket")
    for line in ("c = CONFIG\n    return c.log.level", "return 1 if ITEMS[1] else 2"):
        with pytest.raises(RefusedFunction, match="cannot use a socket"):
            built(body(line, arguments=""), names, kind="constexpr")()


@pytest.mark.parametrize(
    "value",
    [ConstexprValue(2), DtypeValue("triton", "float16"), NamedValue("class", "R", ("first",), (None,))],
)
def test_constants_dtypes_and_kinds_of_named_tuples_may_be_global(value: Value) -> None:
    built(body("y = f(SCALE)"), {"SCALE": value})


BRANCHES = """@triton.jit
def kernel(x, n, NEW: tl.constexpr):
    y = tl.load(x)
    if NEW == 1:
        y = tl.of_the_future(y)
        y += 1
    elif NEW == 2:
        y = y * SCALE
        for i in range(3):
            break
    z = tl.of_the_future(y) if NEW == 3 else y
    if n == 4:
        z = z + 1 if NEW != 4 else z * SCALE
    tl.store(x, z + 1)
"""
OF_BRANCHES = [(1, "of_the_future", 5), (2, "SCALE", 8), (3, "of_the_future", 11)]


@interpreted_only
def test_what_triton_refuses_may_stand_in_a_branch_that_is_left_out() -> None:
    x = torch.ones(1)
    kernel = built(BRANCHES, {"SCALE": 2})
    kernel[(1,)](x, 1, NEW=0)
    assert x.item() == 2
    for new, words, line in OF_BRANCHES:
        with pytest.raises(Exception, match=words) as caught:
            kernel[(1,)](x, 1, NEW=new)
        assert isinstance(caught.value.__cause__, RefusedFunction)
        assert caught.value.__cause__.line == line


@interpreted_only
def test_of_a_condition_that_only_the_gpu_knows_both_branches_are_compiled() -> None:
    kernel = built(body("if tl.load(x) > 5:", "    y = tl.of_the_future(x)", arguments="x"))
    with pytest.raises(Exception, match="of_the_future"):
        kernel[(1,)](torch.ones(1))
    kernel = built(body("y = tl.of_the_future(x) if tl.load(x) > 5 else x", arguments="x"))
    with pytest.raises(Exception, match="of_the_future"):
        kernel[(1,)](torch.ones(1))


@compiled_only
def test_a_branch_that_is_left_out_compiles_and_another_does_not() -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {"x": "*fp32", "n": "i32", "NEW": "constexpr"}
    for new, words in [(0, ""), *((new, words) for new, words, _ in OF_BRANCHES)]:
        made = ASTSource(built(BRANCHES, {"SCALE": 2}), types, {(2,): new})
        with pytest.raises(Exception, match=words) if words else nullcontext():
            assert "addf" in triton.compile(made, target=GPUTarget("cuda", 90, 32)).asm["ttir"]


def test_what_a_branch_would_have_assigned_to_stays_a_variable() -> None:
    kernel = built(body("if n:", "    load = open", "load(x)"), {"load": LanguageValue("triton.language.load")})
    if INTERPRETED:
        with pytest.raises(UnboundLocalError):
            kernel.rewrite()(1, 0, 2)
    assert refusal("if n:", "    y = tl.core.get_int_dtype(n)", "y = 1").python is False


@interpreted_only
def test_a_name_that_nothing_defines_may_stand_in_a_branch_that_is_left_out() -> None:
    x = torch.ones(1)
    kernel = built(
        body("if n == 1:", "    tl.store(x, dropout(f))", "tl.store(x, f + 1)", arguments="x, f, n: tl.constexpr")
    )
    kernel[(1,)](x, 1, n=0)
    assert x.item() == 2
    with pytest.raises(Exception, match="no line of the file defines it") as caught:
        kernel[(1,)](x, 1, n=1)
    assert isinstance(caught.value.__cause__, RefusedFunction)
    assert caught.value.__cause__.python


@pytest.mark.parametrize("elsewhere", ["", "def other():\n    offset = 1\n\n"])
def test_a_name_that_nothing_defines_is_refused_with_the_variable_that_is_meant(elsewhere: str) -> None:
    lines = "@triton.jit\ndef kernel(x):\n    offsets = 1\n    tl.store(x + {}, 1)\n"
    with pytest.raises(RefusedFunction, match=r"`offset`: no line of .* defines it: did you mean offsets\?"):
        built(elsewhere + lines.format("offset"))
    with pytest.raises(RefusedFunction, match=r"`mask`: no line of .* defines it: assign it before this line, "):
        built(elsewhere.replace("offset", "mask") + lines.format("mask"))


@interpreted_only
def test_a_refused_function_behind_a_condition_that_does_not_hold_is_in_nobodys_way() -> None:
    x = torch.ones(1)
    built_with_what_is_gone()[(1,)](x, 1, ACTIVATION="")
    assert x.item() == 2
    with pytest.raises(Exception, match="libdevice") as caught:
        built_with_what_is_gone()[(1,)](x, 1, ACTIVATION="gelu")
    assert isinstance(caught.value.__cause__, RefusedFunction)


@compiled_only
def test_a_refused_function_that_is_not_called_compiles() -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = {"x": "*fp32", "n": "i32", "ACTIVATION": "constexpr"}
    for activation, known in (("", True), ("gelu", False)):
        made = ASTSource(built_with_what_is_gone(), types, {(2,): activation})
        with nullcontext() if known else pytest.raises(Exception, match="libdevice"):
            assert "addf" in triton.compile(made, target=GPUTarget("cuda", 90, 32)).asm["ttir"]


def test_functions_may_call_each_other() -> None:
    source = "@triton.jit\ndef a(x):\n    return b(x)\n@triton.jit\ndef b(x):\n    return a(x)\n"
    told = [KernelText("a", 1, "jit", {"b": KernelValue(1)}), KernelText("b", 4, "jit", {"a": KernelValue(0)})]
    kernels = Kernels(Text(source, PATH), told)
    assert kernels.kernel(0).fn.__globals__["b"] is kernels.kernel(1)


@pytest.mark.parametrize(("name", "line"), [("kernel", 1), ("other", 6), ("kernel", 0), ("open", 6), ("kernel", 10**9)])
def test_a_place_where_no_function_begins_is_refused(name: str, line: int) -> None:
    with pytest.raises(RefusedFunction, match="begins here"):
        Kernels(Text(body("pass"), PATH), [KernelText(name, line, "jit", TL)]).kernel(0)


@pytest.mark.parametrize("source", ["def f(:", "\0", "x = " + "(" * 5000, "x = " + "-" * 100_000 + "1", "\ud800 = 1"])
def test_a_text_that_is_not_python_is_refused(source: str) -> None:
    with pytest.raises(RefusedFunction):
        Kernels(Text(source, PATH), [])


def test_a_function_too_deep_to_check_is_refused() -> None:
    with pytest.raises(RefusedFunction):
        Kernels(Text(body("y = " + "+".join(["x"] * 20_000)), PATH), [KernelText("kernel", 6, "jit", TL)]).kernel(0)


@pytest.mark.parametrize(
    "line",
    [
        "return open(a)",
        "return a.__class__",
        "return a.handle",
        "return eval('1')",
        "return getattr(a, 'handle')",
        "return (lambda: 1)()",
        "return '{0.a}'.format(a)",
        "import os",
        "global g",
        "try:\n        pass\n    finally:\n        pass",
        "a[0] = 1",
        "a.append(1)",
        "return np.sum(a)",
        "return [np for np in a], np.sum(a)",
        "return type(a)",
        "return a.handle.data",
        "raise SystemExit(1)",
        "raise BaseException",
        "return str.format",
        "return map(open, a)",
        "return math.__loader__",
        "def inner(): pass",
        "return {**a}",
        "return a.fn",
    ],
)
def test_a_function_of_constants_passes_a_list_of_its_own(line: str) -> None:
    names = {"np": LanguageValue("numpy"), "math": LanguageValue("math")}
    refused = refusal(line, names=names, kind="constexpr", arguments="a")
    assert refused.line == 8
    assert not refused.python


# -- accepted --------------------------------------------------------------------------------------------------------

ACCEPTED = [
    "y = tl.load(x + tl.arange(0, 4), mask=tl.arange(0, 4) < n, other=0.0).to(tl.float32)",
    "y = tl.sum(x, axis=0) + x.sum(0) + tl.math.exp(x) + x.dtype.element_ty",
    "y = tl.extra.cuda.libdevice.tanh(x)",
    "y = x[:, None] * n[None, ...]",
    "a, b = x, n\n    (a, (b, c)) = n",
    "for i in range(0, n, 2):\n        x += i",
    "for i in (tl.static_range if 3 <= 4 else range)(3):\n        x += i",
    "for i in tl.range(n, num_stages=2):\n        x += i\n    for j in tl.static_range(3):\n        x += j",
    "while x < n:\n        x += 1",
    "if x is None:\n        return\n    elif not n:\n        pass\n    else:\n        x = -n",
    "y = x if n else n",
    "y: tl.constexpr = 3\n    z: int = 4\n    u: open('x') = 5",
    "tl.static_assert(n > 1, f'n must be {n} or {n * 2!r}')",
    "tl.device_print('x', x)\n    print('x', x)",
    "assert x, 'no x'",
    "y = tl.full((4, 4), float('-inf'), tl.float32)",
    "y = tl.zeros([4, 4], dtype=tl.float32)",
    "y = [a + 1 for a in n]",
    "y = isinstance(x, tl.tensor) and isinstance(n, (int, tl.constexpr))",
    "y = hasattr(x, 'dtype')",
    "y = helper(x) + f(x) + f[0](helper, x)",
    "y = f(*n)",
    "y = tl.reduce(x, 0, helper)",
    "y = n.size + n.first.block + n.count",
    "y = x.to(tl.pointer_type(tl.float32)).dtype.primitive_bitwidth",
    "y = tl.minimum(x, n, propagate_nan=tl.PropagateNan.ALL)",
    "y = triton.cdiv(n, 4) + triton.language.cdiv(n, 4) + tl.core.float32.primitive_bitwidth",
    "tl = 1\n    y = tl + 1",
    "open = 1\n    y = open + 1",
    "sum = tl.sum(x)\n    input = sum",
    "'''A docstring: def f().'''\n    pass",
    "y = math.pi + math.log2(n)",
    "y = config.block * config.inner.kind * pair.first",
    "y = OP(x)",
    "y = exp2(x) + load(x)",
]


@pytest.mark.parametrize("line", ACCEPTED)
def test_what_triton_has_is_accepted(line: str) -> None:
    inner = NamedValue("record", "Inner", ("kind",), (3,))
    names: dict[str, Value] = {
        "helper": KernelValue(1),
        "math": LanguageValue("math"),
        "config": ConstexprValue(NamedValue("record", "Config", ("block", "inner"), (16, inner))),
        "pair": ConstexprValue(NamedValue("tuple", "Pair", ("first", "second"), (1, 2))),
        "OP": ConstexprValue(KernelValue(1)),
        "exp2": LanguageValue("triton.language.math.exp2"),
        "load": LanguageValue("triton.language.core.load"),
        "unused": UnknownValue("a socket"),
    }
    kernel = built(body(*line.split("\n    ")) if "\n        " not in line else body(line), names)
    if INTERPRETED:
        kernel.rewrite()


def test_inline_assembly_is_built_and_needs_a_gpu_only_where_it_is_reached() -> None:
    line = "y = tl.inline_asm_elementwise('mov $0, $1;', '=r,r', [x], tl.int32, True, 1)"
    kernel = built(body(f"if n < 0:\n        {line}"))
    assert kernel.fn.__name__


def test_a_function_of_constants_computes() -> None:
    source = (
        HELPER + "@triton.constexpr_function\ndef table(n, m=2):\n    if n < 0:\n        raise ValueError('no')\n"
        "    return sum([TABLE[k] * m for k in range(n)]) + math.gcd(4, 6)\n"
    )
    function = built(source, {"TABLE": TupleValue((1, 2, 3)), "math": LanguageValue("math")}, kind="constexpr")
    assert function(3) == 14


def test_a_function_of_constants_asks_records_alone_for_fields() -> None:
    function = built(body("return a.block", arguments="a"), kind="constexpr")
    assert function(plain_value(NamedValue("record", "R", ("block",), (16,)), lambda _: None)) == 16
    for given in ("text", torch.ones(1), [], function):
        with pytest.raises(AttributeError, match="has no block"):
            function(given)


@pytest.mark.parametrize(
    ("default", "value"),
    [
        ("4", 4),
        ("-1.5", -1.5),
        ("None", None),
        ("'a'", "a"),
        ("tl.constexpr(3)", tl.constexpr(3)),
        ("tl.float32", tl.float32),
        ("SIZE", 7),
        ("TOLD", 8),
        ("(1, (2, 3))", (1, (2, 3))),
    ],
)
def test_a_default_is_what_the_text_says(default: str, value: object) -> None:
    kernel = built("SIZE = 7\n" + body("pass", arguments=f"x, y={default}"), {"TOLD": 8})
    (found,) = kernel.fn.__defaults__
    assert repr(found) == repr(value)


DEFAULTS = [
    *((1.5, 1.5), (None, None), (TupleValue((1, 2)), (1, 2)), (ConstexprValue(3), tl.constexpr(3))),
    (DtypeValue("triton", "float16"), tl.float16),
]


@pytest.mark.parametrize(("told", "value"), DEFAULTS)
def test_a_default_that_the_text_computes_is_what_the_trace_says(told: Value, value: object) -> None:
    kernel = defaulted("finfo(x).min", told)
    assert repr(kernel.fn.__defaults__) == repr((value,))


@pytest.mark.parametrize("told", [KernelValue(0), UnknownValue("a socket"), TensorValue(0), LanguageValue("builtins")])
def test_a_default_that_is_no_plain_data_is_refused_whatever_the_trace_says(told: Value) -> None:
    with pytest.raises(RefusedFunction, match="the default `open` is not known") as caught:
        defaulted("open", told)
    assert caught.value.line == 2


def defaulted(default: str, told: Value) -> Any:
    text = f"@triton.jit\ndef kernel(x={default}):\n    pass\n"
    return Kernels(Text(text, PATH), [KernelText("kernel", 1, "jit", TL, defaults={"x": told})]).kernel(0)


def test_constants_are_known_by_any_spelling_of_their_annotation() -> None:
    source = body(
        "pass", arguments="a: tl.constexpr, b: 'tl.constexpr', c: constexpr, d: tl.int64, e: int, f: open('x')"
    )
    kernel = built("from triton.language import constexpr\n" + source)
    told = kernel.fn.__annotations__
    assert {name for name, one in told.items() if one is tl.constexpr} == {"a", "b", "c"}
    assert told["d"] is tl.int64
    assert "e" not in told
    assert "f" not in told


def test_the_options_of_a_decorator_are_kept_if_they_are_known() -> None:
    kernel = built(body("pass"), do_not_specialize=TupleValue(("n",)), repr="x", launch_metadata=KernelValue(1))
    options = kernel.kwargs if INTERPRETED else vars(kernel)
    assert options["do_not_specialize"] == ("n",)
    assert options["launch_metadata"] is None


def test_a_record_is_its_fields_and_cannot_be_changed() -> None:
    told = NamedValue("record", "Config", ("block", "kind"), (16, "wide"))
    one: Any = plain_value(told, lambda _: None)
    assert (one.block, one.kind, repr(one)) == (16, "wide", "Config(block=16, kind='wide')")
    assert one == plain_value(told, lambda _: None)
    assert hash(one) == hash(plain_value(told, lambda _: None))
    with pytest.raises(AttributeError):
        one.block = 3


@pytest.mark.parametrize(
    "opening",
    [
        "",
        "\f\n",
        "# -*- coding: latin-1 -*-\n",
        "'''\ndef kernel(x):\n'''\n",
        "x = '\\\n'\n",
        "\r\n\r",
        "# \u2028 \x85 \x0b \x1c\n",
    ],
)
def test_what_runs_is_what_was_checked_whatever_the_text_looks_like(opening: str) -> None:
    source = opening + "if 1:\n\tdef kernel(x, \\\n  n): return (x +\n n) ; y = 'def kernel(x): open(x)'\n"
    tree = ast.parse(source)
    (function,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    kernel = Kernels(Text(source, PATH), [KernelText("kernel", function.lineno, "jit", TL)]).kernel(0)
    assert kernel.fn(2, 3) == 5
    if INTERPRETED:
        assert kernel.rewrite().__code__.co_firstlineno == function.lineno
    else:
        assert ast.unparse(kernel.parse()).endswith("y = 'def kernel(x): open(x)'")


def test_letters_that_look_alike_are_the_same_name() -> None:
    assert refusal("ｅｖａｌ('1')").python
    assert refusal("y = x.__ｃlass__").python


# -- files of the tree -----------------------------------------------------------------------------------------------

# Planted mistakes are left out: each is a base with a change, and `grade check` sees that the check it names judges it.
FILES = sorted(
    path
    for pattern in ("solution.py", "honest/*.py", "wrong/base_*.py")
    for path in ROOT.glob(f"reference/*/{pattern}")
    if "ex_17" not in str(path)
) + sorted(path for room in ("controls", "guard") for path in (ROOT / "tests" / "submissions" / room).glob("*.py"))


@interpreted_only
@pytest.mark.parametrize(
    "path", [one for one in FILES if defines_kernels(one)], ids=lambda one: "/".join(one.parts[-3:])
)
def test_the_kernels_of_our_files_are_accepted(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    build_all(path, monkeypatch)


@compiled_only
@pytest.mark.parametrize("path", sorted(ROOT.glob("reference/*/fast/*.py")), ids=lambda one: "/".join(one.parts[-3:]))
def test_the_kernels_of_record_files_are_accepted(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    build_all(path, monkeypatch)


def build_all(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build every kernel of a file from its text."""
    monkeypatch.setattr("sys.argv", [str(path)])
    monkeypatch.setattr("sys.excepthook", None)
    claims = claims_of(path)
    kernels = Kernels(Text(path.read_text("utf-8"), str(path)), claims.told)
    for index in range(len(claims.told)):
        kernels.kernel(index)


# -- running ---------------------------------------------------------------------------------------------------------

ADD = """
    SIZE = 4

    @triton.jit
    def plus(a, b):
        return a + b

    @triton.jit
    def add(pair, out, n, BLOCK: tl.constexpr, OP: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(pair.first + at, mask=at < n, other=0.0)
        for i in range(1):
            x = OP(x, tl.load(pair[1] + at, mask=at < n, other=0.0))
        tl.store(out + at, x, mask=at < n)
"""


@interpreted_only
def test_a_kernel_runs_in_the_interpreter_with_named_tuples_and_functions_as_arguments() -> None:
    source = textwrap.dedent(ADD)
    told = [KernelText("add", 8, "jit", TL), KernelText("plus", 4, "jit", TL)]
    kernels = Kernels(Text(source, PATH), told)
    pair: Any = plain_value(NamedValue("tuple", "Pair", ("first", "second"), (0, 0)), lambda _: None)
    x, y, out = torch.ones(7), torch.arange(7.0), torch.zeros(7)
    kernels.kernel(0)[(2,)](type(pair)(x, y), out, 7, BLOCK=4, OP=kernels.kernel(1))
    assert torch.equal(out, x + y)


@interpreted_only
def test_an_error_in_a_kernel_points_at_the_line_of_the_text() -> None:
    source = body("a = 1", "", "y = x + tl.load(f)", "z = y.unheard", arguments="x, f")
    kernel = built(source)
    with pytest.raises(Exception, match="unheard") as caught:
        kernel[(1,)](1, torch.ones(1))
    seen: BaseException | None = caught.value
    lines = []
    while seen is not None:
        trace = seen.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == PATH:
                lines.append(trace.tb_lineno)
            trace = trace.tb_next
        seen = seen.__cause__
    assert lines[-1] == 11


@interpreted_only
@pytest.mark.parametrize("line", ["f[(1,)](x)", "y = f[0]\n    y = helper(f[(1,)], x)"])
def test_a_kernel_that_it_was_given_cannot_be_launched(line: str) -> None:
    kernel = built(body("tl.store(x, 1.0)", "f[(1,)](x)", arguments="x, f: tl.constexpr"))
    inner = built(body("tl.store(x, 2.0)", arguments="x"))
    x = torch.zeros(1)
    with pytest.raises(Exception, match="launches no kernel"):
        kernel[(1,)](x, inner)


@interpreted_only
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x,), lambda x: {"a": x}, tl.constexpr])
def test_a_constant_holds_no_tensor(wrap: Any) -> None:
    kernel = built(body("y = C.sum()", arguments="C: tl.constexpr"))
    with pytest.raises(RefusedFunction, match="holds a tensor"):
        kernel[(1,)](wrap(torch.ones(1)))


@interpreted_only
@pytest.mark.parametrize("attribute", ["size", "first.size", "count", "index", "kind", "data"])
def test_a_field_is_asked_of_records_alone(attribute: str) -> None:
    kernel = built(body(f"y = C.{attribute}", arguments="C: tl.constexpr"))
    for given in ("text", 3, (1, 2), tl.float32, tl.constexpr("text")):
        with pytest.raises(Exception, match="has no"):
            kernel[(1,)](given)


# -- running, and not getting away with it ---------------------------------------------------------------------------


def watched() -> MemoryWatch:
    """Return the one watch over this process's memory."""
    if not WATCHES:
        WATCHES.append(MemoryWatch())
        WATCHES[0].install()
    WATCHES[0].take()
    return WATCHES[0]


WATCHES: list[MemoryWatch] = []


def constants(*lines: str, names: Mapping[str, Value] | None = None, arguments: str = "a") -> Any:
    return built(body(*lines, arguments=arguments), names, "constexpr")


@interpreted_only
@pytest.mark.parametrize("kind", ["tl.pointer_type(tl.int8)", "tl.pointer_type(tl.int1)", "tl.float32"])
@pytest.mark.parametrize(
    "line",
    [
        "tl.store(p, v)",
        "tl.load(p)",
        "tl.atomic_add(p, v)",
        "tl.atomic_cas(p, v, v)",
        "tl.store(p + 1, v)",
        "tl.store(p + tl.arange(0, 2), v)",
    ],
)
def test_a_pointer_to_a_pointer_reaches_no_memory(kind: str, line: str) -> None:
    watched()
    kind = f"tl.pointer_type({kind})" if kind == "tl.float32" else kind
    kernel = built(body(f"p = (x + 15).to(tl.pointer_type({kind}))", "v = n.to(tl.int64)", line, arguments="x, n"))
    around = torch.full((64,), 7, dtype=torch.uint8)
    # Triton has no atomics on pointers anyhow.
    with pytest.raises(Exception, match="primitive_bitwidth" if "atomic" in line else "through pointers to numbers"):
        kernel[(1,)](around[16:32], 0x4141414141414141)
    assert bool((around == 7).all())


@interpreted_only
def test_memory_moves_by_what_numpy_holds_whatever_a_type_claims() -> None:
    watch, builder = watched(), interpreter.interpreter_builder
    pointer, one = tl.pointer_type(tl.int8), torch.full((64,), 7, dtype=torch.uint8)
    every = interpreter.TensorHandle(np.ones(1, dtype=bool), tl.int1)

    def handle(dtype: Any, data: Any, claimed: Any) -> Any:
        return interpreter.TensorHandle(np.array([data], dtype), claimed)

    wide, address = handle(np.int64, 1, tl.int64), handle(np.uint64, one.data_ptr(), pointer)
    # As large as the type claims, but held in more bytes, or the other way round.
    sly = handle(np.int8, 1, tl.int8)
    sly.data = np.array([1], np.int64)
    small = handle(np.int8, 1, tl.int64)
    for value in (wide, sly, small):
        with pytest.raises(TypeError, match="1 bytes at a time"):
            builder.create_masked_store(address, value, every, None, None)
        with pytest.raises(TypeError, match="1 bytes at a time"):
            builder.create_masked_load(address, every, value, None, None, False)
        with pytest.raises(TypeError, match="1 bytes at a time"):
            builder.create_atomic_rmw(None, address, value, every, None, None)
        with pytest.raises(TypeError, match="1 bytes at a time"):
            builder.create_atomic_cas(address, sly, value, None, None)
    made_up = types.SimpleNamespace(element_ty=types.SimpleNamespace(primitive_bitwidth=8), primitive_bitwidth=64)
    subclass = type("dtype", (tl.dtype,), {})("int8")
    for claimed in (made_up, tl.pointer_type(subclass), tl.int64, tl.pointer_type(pointer)):
        with pytest.raises(TypeError, match="through pointers to numbers"):
            builder.create_masked_store(handle(np.uint64, one.data_ptr(), claimed), sly, every, None, None)
    with pytest.raises(TypeError, match="64 bits without a sign"):
        builder.create_masked_store(handle(np.int64, 5, pointer), handle(np.int8, 1, tl.int8), every, None, None)
    assert bool((one == 7).all())
    assert not watch.take()


@interpreted_only
def test_a_block_is_made_of_a_type_of_tritons() -> None:
    pair: Any = plain_value(NamedValue("tuple", "Pair", ("first",), (1,)), lambda _: None)
    for made_up in (pair, built(body("pass")), 8, None):
        with pytest.raises(TypeError, match="a type of triton's"):
            tl.block_type(made_up, [8])


@interpreted_only
@pytest.mark.parametrize("line", ["h(1.0)", "h(C)", "y = [h(1.0) for one in (1, 2)]"])
def test_a_function_of_tritons_is_not_launched_by_another_name(line: str) -> None:
    watch = watched()
    kernel = built(
        body("tl.store(x + tl.program_id(0), 1)", "g = tl.sigmoid", "h = g[(4,)]", line, arguments="x, C: tl.constexpr")
    )
    x = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(Exception, match="launches no kernel"):
        kernel[(4,)](x, 1.0)
    # Whether one ran before does not matter to the next.
    built(body("tl.store(x + tl.program_id(0), 2)", arguments="x"))[(4,)](x)
    assert x.tolist() == [2, 2, 2, 2]
    assert not watch.take()


@interpreted_only
def test_a_dictionary_that_programs_share_stays_as_it_is() -> None:
    names: dict[str, Value] = {"D": DictValue((("a", 1),)), "E": DictValue((("b", 2),))}
    kernel = built(
        body("d = P", "d |= Q", "tl.store(x + tl.program_id(0), len(P) + 10 * len(d))", arguments="x, P=D, Q=E"), names
    )
    for _ in range(2):
        x = torch.zeros(3, dtype=torch.int32)
        kernel[(3,)](x)
        assert x.tolist() == [21, 21, 21]
    function = constants("d = D", "d |= {len(d): a}", "return len(D), len(d), isinstance(D, dict), D['a']", names=names)
    assert [function(1), function(2)] == [(1, 2, True, 1)] * 2
    table: Any = plain_value(names["D"], lambda _: None)
    for change in (lambda: table.update({1: 1}), lambda: table.pop("a"), lambda: table.__ior__({1: 1}), table.clear):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    with pytest.raises(TypeError, match="cannot be changed"):
        table["a"] = 2
    assert table == {"a": 1}


@pytest.mark.parametrize(
    ("line", "given", "result"),
    [
        ("b += [3]", [1, 2], [1, 2, 3]),
        ("b *= 2", [1, 2], [1, 2, 1, 2]),
        ("b |= {3}", {1, 2}, {1, 2, 3}),
        ("b -= {1}", {1, 2}, {2}),
        ("b //= 2", 7, 3),
        ("b %= 4", 7, 3),
    ],
)
def test_an_operator_in_place_makes_a_value_of_its_own(line: str, given: Any, result: object) -> None:
    before = repr(given)
    assert constants("b = a", line, "return b")(given) == result
    assert repr(given) == before


@pytest.mark.parametrize("line", ["a.sort()", "b = a\n    b.sort()"])
def test_a_list_is_not_sorted_in_its_place(line: str) -> None:
    given = [2, 1]
    with pytest.raises(TypeError, match="sorts no list"):
        constants(*line.split("\n    "))(given)
    assert given == [2, 1]


@interpreted_only
def test_an_operator_in_place_leaves_numbers_as_they_were() -> None:
    lines = [
        "for i in tl.static_range(2):",
        "    C *= 2",
        "y = tl.arange(0, C)",
        "y += 1",
        "tl.store(x + y - 1, y % 3)",
    ]
    kernel = built(body(*lines, arguments="x, C: tl.constexpr"))
    x = torch.zeros(8, dtype=torch.int32)
    kernel[(1,)](x, 2)
    assert x.tolist() == [1, 2, 0, 1, 2, 0, 1, 2]


@interpreted_only
@pytest.mark.parametrize("name", ["load_tensor_descriptor", "store_tensor_descriptor"])
def test_a_record_is_no_descriptor(name: str) -> None:
    given = "r, (0,)" + (", 1" if "store" in name else "")
    names: dict[str, Value] = {"R": NamedValue("record", "R", ("rows",), (1,))}
    kernel = built(body(f"f = tl.{name}", f"f({given})", arguments="x, r: tl.constexpr = R"), names)
    with pytest.raises(Exception, match="takes a tensor descriptor, not a PlainRecord"):
        kernel[(1,)](torch.zeros(1))


@interpreted_only
def test_a_descriptor_is_loaded_and_stored_by_functions() -> None:
    line = "tl.store_tensor_descriptor(d, [0, 0], tl.load_tensor_descriptor(d, [0, 0]) + 1)"
    x = torch.zeros(8, 8)
    built(body(line, arguments="d"))[(1,)](TensorDescriptor(x, [8, 8], [8, 1], [8, 8]))
    assert bool((x == 1).all())


@interpreted_only
def test_a_tuple_that_holds_a_tensor_holds_no_function_that_triton_would_call() -> None:
    pair: Any = plain_value(NamedValue("tuple", "Pair", ("store", "x"), (None, None)), lambda _: None)
    kernel = built(body("pass", arguments="x"))
    with pytest.raises(RefusedFunction, match="a field called store"):
        kernel[(1,)](type(pair)(kernel, torch.zeros(1)))


def test_records_may_hold_functions_and_data_under_names_of_their_own() -> None:
    fields = ("exp", "combine", "shape", "dtype", "name", "kind", "max")
    items = (
        KernelValue(1),
        KernelValue(1),
        TupleValue((1, 2)),
        DtypeValue("triton", "float32"),
        "a",
        1,
        KernelValue(1),
    )
    built(body("y = R.combine(x) + R.exp(x)"), {"R": ConstexprValue(NamedValue("record", "R", fields, items))})


@interpreted_only
def test_prints_go_to_no_file_and_leave_numpys_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = built(body("p = tl.static_print", "p('a', x, sep='-')", "p('b', file=n)", arguments="x, n"))
    with pytest.raises(Exception, match="prints to no file"):
        kernel[(1,)](torch.ones(1), 1)
    kernel = built(body("tl.device_print('a', tl.load(x), hex=True)", arguments="x"))
    with pytest.raises(Exception, match="Unknown format"):
        kernel[(1,)](torch.ones(1))
    assert str(np.array([1.5])) == "[1.5]"
    kernel[(1,)](torch.tensor([255]))
    printed = capsys.readouterr().out
    assert printed.startswith("a-[")
    assert "0xff" in printed


@interpreted_only
@pytest.mark.parametrize("given", ["f", "(f, 1)", "K", "[K]", "r", "tl.load", "x.sum", "x.type", "C", "d"])
def test_no_text_says_where_something_lies(given: str) -> None:
    names: dict[str, Value] = {
        "K": KernelValue(1),
        "R": NamedValue("record", "R", ("k",), (KernelValue(1),)),
        "C": ConstexprValue(KernelValue(1)),
        "D": DictValue(((1, KernelValue(1)),)),
        "look": KernelValue(1),
    }
    line = f"tl.static_assert(False, f'{{{given}}} {{{given}!r}} {{{given}!a}}')"
    kernel = built(body("y = tl.load(x)", line, arguments="x, f, r=R, d=D"), names)
    with pytest.raises(Exception, match="StaticAssertFailed") as caught:
        kernel[(1,)](torch.ones(1), kernel)
    assert "0x" not in str(caught.value)
    assert "0x" not in repr(plain_value(names["R"], lambda _: kernel))


@pytest.mark.parametrize("text", ["'%(x)s'", "'%s'", "tl.constexpr('%s')"])
@pytest.mark.parametrize("line", ["return s % a", "s %= a\n    return s"])
def test_a_text_behind_a_name_formats_nothing(text: str, line: str) -> None:
    function = constants(f"s = {text}", *line.split("\n    "))
    with pytest.raises(TypeError, match="formats no text"):
        function(1)
    assert constants("return a % 4")(7) == 3


@compiled_only
def test_a_kernel_compiles_from_its_tree() -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = body("y = helper(tl.load(x))", "tl.store(x, y * C)", arguments="x, C: tl.constexpr = 4")
    kernel = built(source, {"helper": KernelValue(1)})
    made = ASTSource(kernel, {"x": "*fp32", "C": "constexpr"}, {(1,): 4})
    compiled = triton.compile(made, target=GPUTarget("cuda", 90, 32))
    assert f"{PATH.rpartition('/')[2]}" in compiled.asm["ttir"]
    assert ":8:" in compiled.asm["ttir"]


GLUON = {"gl": LanguageValue("triton.experimental.gluon.language")}
DOUBLES = """
@gluon.jit
def kernel(x_ptr, n, BLOCK: gl.constexpr):
    LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, LAYOUT)
    gl.store(x_ptr + offsets, 2 * gl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""


@compiled_only
def test_a_kernel_of_gluon_compiles_from_its_tree() -> None:
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon._runtime import GluonASTSource

    types = {"x_ptr": "*i32", "n": "i32", "BLOCK": "constexpr"}
    made = GluonASTSource(built(DOUBLES, GLUON, "gluon"), types, {(2,): 128})
    assert "st.global" in triton.compile(made, target=GPUTarget("cuda", 90, 32)).asm["ptx"]


@interpreted_only
def test_a_kernel_of_gluon_asks_for_a_gpu() -> None:
    with pytest.raises(NeedsGpu, match="Gluon"):
        built(DOUBLES, GLUON, "gluon")


@compiled_only
@pytest.mark.parametrize("line", ["gl._core", "gl.nvidia.blackwell", "gl.AutoLayout.mangle(n)", "n._flatten_ir(f)"])
def test_insides_of_gluon_are_refused(line: str) -> None:
    with pytest.raises(RefusedFunction):
        built(f"@gluon.jit\ndef kernel(n, f):\n    x = {line}\n", GLUON, "gluon")


@compiled_only
def test_shared_memory_of_gluon_may_be_viewed_in_another_shape() -> None:
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon._runtime import GluonASTSource

    source = """
@gluon.jit
def kernel(x_ptr):
    FLAT: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    ROWS: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    flat = gl.allocate_shared_memory(gl.int32, [128], FLAT, gl.load(x_ptr + gl.arange(0, 128, LAYOUT)))
    TILES: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    rows = flat._reinterpret(gl.int32, [4, 32], ROWS).load(TILES)
    gl.store(x_ptr + gl.arange(0, 4, gl.SliceLayout(1, TILES)), gl.sum(rows, 1))
"""
    made = GluonASTSource(built(source, GLUON, "gluon"), {"x_ptr": "*i32"}, {})
    assert "memdesc_reinterpret" in triton.compile(made, target=GPUTarget("cuda", 90, 32)).asm["source"]


@compiled_only
def test_trees_that_differ_are_compiled_apart() -> None:
    texts = [body("tl.store(x, C)", arguments=f"x, C: tl.constexpr = {value}") for value in ("SIZE", "SIZE")]
    keys = {built(f"SIZE = {size}\n" + text).cache_key for size, text in zip((3, 4), texts, strict=True)}
    assert len(keys) == 2


# -- helpers of installed packages -----------------------------------------------------------------------------------

PACKAGE = "torch._inductor.runtime.triton_helpers"


def of_package(name: str, home: str = PACKAGE) -> KernelText:
    """Tell of a function as the recorder does: by the module that holds it, and its first line."""
    path = file_of(PACKAGE)
    assert path is not None
    functions = [node for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
    line = next(min([one.lineno, *(d.lineno for d in one.decorator_list)]) for one in functions if one.name == name)
    return KernelText(name, line, "jit", TL, home=home)


def with_package(helper: KernelText, line: str, names: Mapping[str, Value]) -> Kernels:
    source = f"@triton.jit\ndef kernel(x, n):\n    {line}\n"
    return Kernels(Text(source, PATH), [KernelText("kernel", 1, "jit", {**TL, **names}), helper])


@pytest.mark.parametrize(
    ("line", "name"), [("y = larger(n)", "larger"), ("y = helpers.promote_to_tensor(n)", "helpers.promote_to_tensor")]
)
def test_a_helper_of_a_package_is_built_from_the_package_s_file(line: str, name: str) -> None:
    kernels = with_package(of_package("promote_to_tensor"), line, {name: KernelValue(1)})
    built_helper = kernels.kernel(1)
    assert kernels.kernel(0).fn.__globals__[name] is built_helper
    assert built_helper.fn.__code__.co_filename == str(file_of(PACKAGE))


def test_a_variable_hides_a_module_of_the_same_name() -> None:
    source = "@triton.jit\ndef kernel(x, helpers):\n    y = helpers.dtype\n"
    told = KernelText("kernel", 1, "jit", {**TL, "helpers.dtype": KernelValue(1)})
    kernel = Kernels(Text(source, PATH), [told, of_package("promote_to_tensor")]).kernel(0)
    assert "helpers.dtype" not in kernel.fn.__globals__


def test_a_function_of_a_package_is_held_to_the_list() -> None:
    with pytest.raises(RefusedFunction, match=f"^in set_driver_to_cpu of {PACKAGE}, line [0-9]+: "):
        with_package(of_package("set_driver_to_cpu"), "pass", {}).kernel(1)


def test_a_helper_of_a_package_may_not_work_on_memory() -> None:
    with pytest.raises(
        Elsewhere, match=f"^x_grid_barrier of {PACKAGE}, which has tl.atomic_add: write it in your file"
    ):
        with_package(of_package("x_grid_barrier"), "pass", {}).kernel(1)


@pytest.mark.parametrize("home", ["os", "no.such.package", "..torch", "/etc/passwd", "torch/_inductor", "a" * 300, " "])
def test_what_no_installed_package_has_is_not_looked_for(home: str) -> None:
    assert file_of(home) is None
    with pytest.raises(RefusedFunction, match="no installed package has it"):
        with_package(of_package("promote_to_tensor", home), "pass", {}).kernel(1)
