"""A beginner's exception is said in the learner's words: what is wrong, and what to write."""

from __future__ import annotations

import pytest

from grader.judge.unanswered import why_not_finished
from grader.judge.wording import Words, in_words
from grader.protocol.answers import Frame, Raised

LAUNCH = "vector_add_kernel[grid](x, y, z, n_elements, BLOCK=1000)"
ARANGE = "offsets = pid * BLOCK + tl.arange(0, BLOCK)"
SCALAR = "only a scalar is true or false, got a block of shape [1024]: write &"
BLOCK_STORE = "Value argument cannot be block type if pointer argument is not a block"


def said(message: str, code: str, kind: str = "ValueError", launch: str = "kernel[grid](x, n)") -> Words:
    """Return the words of an exception in a kernel."""
    words = in_words(kind, message, (Frame(104, "", launch), Frame(95, "kernel", code)))
    assert words is not None
    return words


@pytest.mark.parametrize(
    ("message", "code", "rule", "write"),
    [
        (
            "kernel is a kernel, and was called without a grid",
            "kernel(x, y, BLOCK=64)",
            "the grid between its name and its arguments",
            "`kernel[grid](x, y, BLOCK=64)`, with a tuple as the grid, such as `grid = (triton.cdiv(x.numel(), 64),)`",
        ),
        (
            "PTXAS error: `ptxas` failed with error code -11\n`ptxas` stderr:\n",
            "kernel[grid](x, n)",
            "signal 11 ended it. This is a defect of ptxas",
            "do_not_specialize",
        ),
        ("'function' object is not subscriptable", LAUNCH, "ordinary Python", "above `def vector_add_kernel`"),
        (
            "`x` gets an address that is passed as a number, and tl.load follows a tensor's pointer",
            LAUNCH,
            "`x` is a number here, and `tl.load` follows pointers",
            "without `.data_ptr()`",
        ),
        (
            "Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.)",
            "pid = tl.program_id(0)",
            "`tl.program_id` works only inside a kernel, and `kernel` has no `@triton.jit`",
            "`kernel[grid](…)`",
        ),
        (
            "`plus`: a function, which a kernel cannot use: pass numbers, dtypes or kernels",
            "z = plus(x, y)",
            "`plus` is an ordinary Python function",
            "`@triton.jit` on the line above `def plus`",
        ),
        (
            "Unsupported function referenced: <function plus at 0x7f15>",
            "z = plus(x, y)",
            "`plus` is an ordinary Python function",
            "`@triton.jit` on the line above `def plus`",
        ),
        (
            "'range' object has no attribute 'type'",
            "offsets = pid * BLOCK + range(BLOCK)",
            "steps of a `for` loop",
            "`offsets = pid * BLOCK + tl.arange(0, BLOCK)`",
        ),
        (
            "'range' object has no attribute 'type'",
            "offsets = tl.range(0, BLOCK) + pid",
            "steps of a `for` loop",
            "`offsets = tl.arange(0, BLOCK) + pid`",
        ),
        (
            "'constexpr' object has no attribute 'to'",
            "n = n.to(tl.int64)",
            "argument that is 1 in this call",
            "`tl.cast(n, tl.int64)`",
        ),
        (
            "cannot access local variable 'i' where it is not associated with a value",
            "tail = i * BLOCK + offsets",
            "the counter of a loop that has ended",
            "Assign `i` before the branch or the loop",
        ),
        (
            "'int' object is not iterable",
            "x = x_ptr[offsets]",
            "`x_ptr` is a pointer and no list",
            "`x = tl.load(x_ptr + offsets, mask=mask)`",
        ),
        (
            "'int' object is not iterable",
            "x = tl.load(x_ptr[offsets], mask=mask)",
            "`x_ptr` is a pointer and no list",
            "`x = tl.load(x_ptr + offsets, mask=mask)`",
        ),
        ("'int' object is not iterable", "s = x[0] + 1", "`x` is no list", "`tl.sum(x, axis=0)`"),
        (
            "a kernel stores to no element: write tl.store, or choose with tl.where",
            "z_ptr[offsets] = x + y",
            "`z_ptr` is no list",
            "`tl.store(z_ptr + offsets, x + y, mask=mask)`",
        ),
        (
            "'int' object is not iterable",
            "x = x_ptr[row, column]",
            "no list",
            "`tl.load(x_ptr + rows * stride + columns",
        ),
        ("unsupported tensor index: slice(0, 4, None)", "y = x[0:4]", "no slices", "`tl.load(x_ptr + offsets"),
        ("'int' object is not iterable", "s = tl.zeros(BLOCK, dtype=d)", "is a tuple", "`tl.zeros((BLOCK,), dtype=d)`"),
        (
            "Mask must have boolean scalar type",
            "tl.store(p, x, mask=offsets)",
            "yes or no",
            "`mask = offsets < n_elements`",
        ),
        ("program_id() missing 1 required positional argument: 'axis'", "", "nothing for 'axis'", "`tl.program_id(0)`"),
        (
            "strides must be 16-byte aligned",
            "TensorDescriptor.from_tensor(c, block)",
            "a multiple of 16 bytes: 8",
            "pointers",
        ),
        (
            "'dtype' object is not callable",
            "m = tl.float32(0.0)",
            "`tl.float32` is a type",
            "`tl.full((), 0.0, tl.float32)`",
        ),
        (
            "a kernel cannot use a list of 8192 entries: give it numbers",
            "k[grid](x, z)",
            "Python list",
            "torch.empty_like(x)",
        ),
        ("'tuple' object has no attribute 'type'", "tl.store(z_ptr + offsets, x)", "no pointer", "torch.empty_like(x)"),
        (
            "Both operands must be same dtype. Got fp32 and fp16",
            "acc = tl.dot(a.to(tl.float32), b, acc)",
            "got fp32 and fp16",
            "`tl.dot(a, b, acc)`",
        ),
        ("a static assertion failed", "tl.static_assert(BLOCK_N <= D)", "`BLOCK_N <= D` is false", "block sizes"),
        (
            "at 2:4:\n    tl.static_assert(BLOCK_N <= D)\n    ^",
            "kernel[grid](x)",
            "`BLOCK_N <= D` is false",
            "block sizes",
        ),
        ("base must be 16-byte aligned", "TensorDescriptor.from_tensor(c, block)", "its first element", "pointers"),
        ("Last dimension must be contiguous", "TensorDescriptor.from_tensor(c, block)", "(stride 1)", "pointers"),
        ("plus() missing 1 required positional argument: 'b'", "", "`plus` got nothing for 'b'", "`plus(b=…)`"),
        (
            "unsupported operand type(s) for +: 'builtin_function_or_method' and 'int'",
            "grid = (triton.cdiv(n, 4),)",
            "a method itself",
            "`x.numel()`",
        ),
        ("'tuple' object cannot be interpreted as an integer", "kernel[grid, 64](x)", "one tuple", "`kernel[grid](…)`"),
        ("arange's arguments must be of type tl.constexpr", "a = tl.arange(0, BLOCK / 2)", "fraction", "`BLOCK // 2`"),
        ("a kernel uses float in no other way than to call it", "", "type of Python's", "`tl.float32`"),
        (
            "store() got an unexpected keyword argument 'other' (tl.store has no parameter other, only pointer, value)",
            "tl.store(p, x, other=0)",
            "`store` has no parameter `other`.",
            "It takes pointer, value.",
        ),
        (SCALAR, "z = tl.where(a", "`if`, `while`, `and`, `or` and `not`", "`mask=`"),
        (SCALAR, "if offsets < n_elements:", "one for each lane", "`tl.where(condition, a, b)`"),
        (SCALAR, "mask = a >= 0 and a < n", "a single truth value", "`mask = (a >= 0) & (a < n)`"),
        (SCALAR, "mask = not a or b", "a single truth value", "`mask = ~a | b`"),
        (SCALAR, "z = max(x, y)", "`max` and `min` compare single numbers", "`tl.maximum(a, b)`"),
        (
            "a kernel compares two values at a time: write (a < b) & (b < c)",
            "mask = 0 <= a < n",
            "two values at a time",
            "`mask = (0 <= a) & (a < n)`",
        ),
        (
            "a kernel compares two values at a time: write (a < b) & (b < c)",
            "mask = rows[:, None] < M & columns[None, :] < N",
            "two values at a time",
            "`mask = (rows[:, None] < M) & (columns[None, :] < N)`",
        ),
        (
            "arange's arguments must be of type tl.constexpr",
            ARANGE,
            "`BLOCK` is known only when the kernel runs",
            "`BLOCK: tl.constexpr`",
        ),
        (
            "arange's arguments must be of type tl.constexpr",
            "offsets = tl.arange(0, n_elements)",
            "`n_elements` is known only when the kernel runs",
            "a block size of your own, and a mask",
        ),
        (
            "arange's range must be a power of 2",
            "offsets = tl.arange(0, 96)",
            "and 96 is none",
            "Take 128, the next one",
        ),
        (
            "Shape element 0 must be a power of 2",
            "sums = tl.zeros((1000,), dtype=tl.float32)",
            "and 1000 is none",
            "Take 1024, the next one",
        ),
        (
            "kernel has no parameter BLOCK_SIZE, only x_ptr, n, BLOCK, num_warps",
            "kernel[grid](x, n, BLOCK_SIZE=64)",
            "`kernel` has no parameter `BLOCK_SIZE`. The nearest is `BLOCK`.",
            "`BLOCK=` for `BLOCK_SIZE=`",
        ),
        (
            "sum() got an unexpected keyword argument 'dim' (tl.sum has no parameter dim, only input, axis, keep_dims)",
            "s = tl.sum(x, dim=0)",
            "`sum` has no parameter `dim`. The nearest is `axis`.",
            "`axis=` for `dim=`",
        ),
        ("kernel must get all of its arguments, got none for n", "kernel[grid](x)", "got nothing for n", "by name"),
        (
            "arange() missing 1 required positional argument: 'end'",
            "a = tl.arange(BLOCK)",
            "both",
            "`tl.arange(0, BLOCK)`",
        ),
        (
            "axis 1 out of bounds for shape ['constexpr[1024]']",
            "s = tl.sum(x, axis=1)",
            "the shape [1024]: it has axis 0, and no axis 1",
            "`axis=0`",
        ),
        ("program_id axis must be 0, 1, or 2 but got 3", "pid = tl.program_id(3)", "asked for 3", "`tl.program_id(0)`"),
        (
            "Cannot make_shape_compatible: incompatible dimensions at index 0: 1024 and 512",
            "z = x + y",
            "one block has 1024 elements and the other 512",
            "`rows[:, None]`",
        ),
        (
            BLOCK_STORE,
            "tl.store(z_ptr, x + y)",
            "`z_ptr` points to one element",
            "`tl.store(z_ptr + offsets, …, mask=mask)`",
        ),
        (
            BLOCK_STORE,
            "tl.store(z_ptr + pid * BLOCK, x)",
            "`z_ptr + pid * BLOCK` points",
            "`tl.store(z_ptr + offsets, …",
        ),
        (
            "`and` joins truth values, and here it gets fp32: compare it, as in `n != 0`",
            "z = tl.where(mask and x, x, 0.0)",
            "one side is a block of fp32",
            "`mask & (x != 0)`",
        ),
        (
            "Unsupported ptr type <['1024'], int32> in `tl.store`",
            "tl.store(offsets, x)",
            "`offsets` holds numbers",
            "`tl.store(x_ptr + offsets, …)`",
        ),
        ("cannot add pointers together", "z = tl.load(x_ptr + y_ptr)", "an address", "Load both first"),
        (
            "Loop-carried variable s has initial type <['64'], fp16> but is re-assigned to <['64'], fp32> in loop!",
            "",
            "`s` is <['64'], fp16> before the loop, and the loop makes it <['64'], fp32>",
            "`s = tl.zeros((BLOCK,), dtype=tl.float32)`",
        ),
        (
            "Both operands must be same dtype. Got fp32 and fp16",
            "c = tl.dot(a, w)",
            "got fp32 and fp16",
            "`tl.dot(a, w.to(a.dtype))`",
        ),
        ("input and other must have equal reduction dimensions", "c = tl.dot(a, b)", "[M, K] and [K, N]", "the same K"),
        ("Input shapes should have M >= 1, N >= 1 and K >= 16", "c = tl.dot(a, b)", "K = 16", "larger blocks"),
        ("np.add is Python's, and a kernel has none: write tl.add", "z = np.add(x, y)", "`np.add`", "`a + b`"),
        ("torch.exp is Python's, and a kernel has none: write tl.exp", "z = torch.exp(x)", "`torch.exp`", "tl.exp"),
        ("must be real number, not tensor", "z = math.exp(x)", "a single number of Python's", "`tl.exp(…)`"),
        ("a kernel has no sum, which is Python's: write tl.sum", "s = sum(x)", "`sum`", "`tl.sum(…)`"),
        ("a tensor has no float", "z = x.float()", "`.float`", "`.to(tl.float32)`"),
        ("'int' object is not callable", "n = x_ptr.numel()", "without `.numel`", "as arguments of their own"),
        (
            "`offset`: no line of the file defines it: did you mean offsets?",
            "tl.store(z_ptr + offset, x)",
            "`offset` is no variable and no argument of this kernel",
            "Write `offsets`.",
        ),
        (
            "`mask`: no line of the file defines it: assign it before this line, pass it as an argument, or …",
            "tl.store(z_ptr, x, mask=mask)",
            "is not defined at the top level",
            "a line that is missing",
        ),
        (
            "`tl.arrange` is not of Triton's language: did you mean tl.arange?",
            "a = tl.arrange(0, BLOCK)",
            "There is no `tl.arrange`. The nearest name is `tl.arange`.",
            "`tl.arange`",
        ),
        (
            "a grid must be a tuple, as in kernel[(programs,)](…), got 8",
            "kernel[grid](x)",
            "this one is 8",
            "the comma makes the tuple",
        ),
        (
            "'float' object cannot be interpreted as an integer",
            LAUNCH,
            "whole numbers",
            "`triton.cdiv(n_elements, BLOCK)`",
        ),
        (
            "add: write it (the add at line 128 replaces the one at line 93)",
            "raise NotImplementedError",
            "The stub's `add` at line 128 replaces yours at line 93",
            "Delete the `add` at line 128.",
        ),
    ],
)
def test_an_exception_says_the_rule_and_what_to_write(message: str, code: str, rule: str, write: str) -> None:
    words = said(message, code)
    assert rule in words.rule
    assert write in words.help
    assert words.title


@pytest.mark.parametrize(
    ("message", "code", "write"),
    [
        ("module 'torch' has no attribute 'float8'", "if x.dtype == torch.float8:", "of another version"),
        ("module 'triton' has no attribute 'run'", "triton.run(kernel, x, n)", "`kernel[grid](…)` launches a kernel"),
        ("'function' object has no attribute 'Config'", "triton.autotune.Config({})", "`triton.Config({…})`"),
    ],
)
def test_a_name_that_a_library_lacks_is_told_with_the_one_that_is_meant(message: str, code: str, write: str) -> None:
    words = in_words("AttributeError", message, (Frame(9, "vector_add", code),))
    assert words is not None
    assert words.title == "A name that its module does not have"
    assert write in words.help


def test_the_size_of_a_block_is_looked_up_where_the_kernel_is_launched() -> None:
    words = said("arange's range must be a power of 2", ARANGE, "ValueError", LAUNCH)
    assert words.rule == "The sides of a block must be powers of two, and 1000 is none."
    assert words.help.startswith("Take 1024, the next one,")


def test_a_message_of_the_compiler_is_said_by_the_line_that_it_points_at() -> None:
    message = "at 3:8:\ndef kernel(x_ptr):\n    pid = tl.program_id(0)\n    x = x_ptr[pid]\n        ^\n"
    message += "Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.)"
    assert "`x = tl.load(x_ptr + pid, mask=mask)`" in said(message, LAUNCH, "CompilationError").help


def test_the_card_names_the_line_and_keeps_the_exception_in_its_traceback() -> None:
    raised = Raised("raised", "crash", "ValueError", BLOCK_STORE, (Frame(97, "kernel", "tl.store(z_ptr, x)"),))
    cause = why_not_finished(raised, "ex.py").cause
    assert cause.title == "A block, and a pointer to one element, in tl.store"
    assert cause.rationale == "Line 97: `z_ptr` points to one element, and the value is a whole block."
    assert cause.traceback.endswith(f"ValueError: {BLOCK_STORE}")


@pytest.mark.parametrize("code", ["x = tl.load(", "", "x = (" * 60, "\x1b[31m x_ptr[0]", "if", f"range({'-' * 2000}n)"])
def test_a_line_that_is_no_whole_statement_gets_general_advice(code: str) -> None:
    assert (
        said("'range' object has no attribute 'type'", code).help
        == "Write `tl.arange(0, BLOCK)` for a block of numbers."
    )


@pytest.mark.parametrize("message", ["tuple index out of range", "'int' object is not iterable"])
def test_a_line_of_ordinary_python_may_use_brackets(message: str) -> None:
    assert in_words("TypeError", message, (Frame(7, "vector_add", "rows = sum(x.shape[0])"),)) is None


@pytest.mark.parametrize("message", ["list index out of range", "'int' object is not iterable", "no such thing"])
def test_an_exception_that_has_other_reasons_keeps_its_own_words(message: str) -> None:
    assert in_words("IndexError", message, (Frame(7, "vector_add", "first, second = sizes"),)) is None


def test_a_file_that_does_not_load_keeps_its_title() -> None:
    message = "name 'trition' is not defined. Did you mean: 'triton'?"
    raised = Raised("raised", "invalid_submission", "NameError", message, (Frame(3, "<module>", "@trition.jit"),))
    cause = why_not_finished(raised, "ex.py").cause
    assert cause.title == "The file does not load"
    assert cause.help.startswith("Is it `triton`?")


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (
            "f() missing 1 required positional argument: 'causal'",
            "The call leaves out `causal`, and your `f` gives no default.",
        ),
        (
            "f() takes from 5 to 7 positional arguments but 8 were given",
            "The call passes 8 arguments, and your `f` takes from 5 to 7.",
        ),
    ],
)
def test_a_call_that_no_line_of_the_submission_made_names_the_stubs_parameters(message: str, rule: str) -> None:
    words = in_words("TypeError", message, ())
    assert words is not None
    assert (words.title, words.rule) == ("Other parameters than the stub's", rule)
    assert "from the stub" in words.help


def test_an_address_that_a_gpu_refuses_says_what_to_look_at() -> None:
    words = in_words("AcceleratorError", "CUDA error: an illegal memory access was encountered\nSearch for …", ())
    assert words is not None
    assert words.title == "A kernel's address lies in no tensor"
    assert "`grade … --cpu` names the line" in words.help
    assert "keeps from an earlier call" in words.help


@pytest.mark.parametrize(
    "message",
    [
        "triton.runtime.interpreter.InterpretedFunction.run() got multiple values for keyword argument 'BLOCK_M'",
        "Conflicting meta-parameters: BLOCK_M. Make sure that you don't re-define auto-tuned symbols.",
    ],
)
def test_a_launch_does_not_pass_what_the_autotuner_chooses(message: str) -> None:
    words = in_words("TypeError", message, (Frame(9, "matmul", "kernel[grid](a, b, c, BLOCK_M=64)"),))
    assert words is not None
    assert words.title == "A launch sets what the autotuner chooses"
    assert words.help.startswith("Remove `BLOCK_M=` from the launch")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("AssertionError", 'assert a.dtype == torch.float16, "float16 only"'),
        ("ValueError", 'raise ValueError("float16 only")'),
    ],
)
def test_a_call_that_the_submission_itself_refuses_is_told_as_one(kind: str, code: str) -> None:
    words = in_words(kind, "float16 only", (Frame(9, "matmul", code),))
    assert words is not None
    assert words.title == "Your own code refuses this call"
    # What is not written yet refuses nothing, and an exception that another one caused says more.
    assert in_words("NotImplementedError", "later", (Frame(9, "matmul", "raise NotImplementedError('later')"),)) is None
    assert in_words(kind, "float16 only", (Frame(9, "matmul", "raise ValueError(text) from fault"),)) is None
