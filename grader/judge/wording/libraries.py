"""Say exceptions of what a kernel or a machine does not have: NumPy, torch, Python's functions, a GPU."""

from __future__ import annotations

import re

from grader.judge.wording.rules import Fault, Rules, Words, write

RULES = Rules()


# What to write for functions and methods of NumPy, torch or math that have another name in Triton's language.
_SIGNS = {"add": "+", "sub": "-", "subtract": "-", "mul": "*", "multiply": "*", "div": "/", "divide": "/"}
_OTHERWISE = {
    **{name: f"`a {sign} b`" for name, sign in _SIGNS.items()},
    "amax": "`tl.max(x, axis=0)`",
    "append": "an accumulator that a loop adds to: `acc += x`",
    "bfloat16": "`tl.bfloat16`",
    "clip": "`tl.clamp(x, low, high)`",
    "empty": "`tl.zeros((BLOCK,), dtype=tl.float32)`",
    "float": "`.to(tl.float32)`",
    "half": "`.to(tl.float16)`",
    "int": "`.to(tl.int32)`",
    "inf": '`float("inf")`',
    "long": "`.to(tl.int64)`",
    "mean": "`tl.sum(x, axis=0) / n`",
    "power": "a product, or `tl.exp(y * tl.log(x))`",
    "relu": "`tl.maximum(x, 0)`",
    "tanh": "`2 * tl.sigmoid(2 * x) - 1`",
    "type": "`.to(…)`",
    "astype": "`.to(…)`",
    "transpose": "`tl.trans(x)`",
    "unsqueeze": "`x[:, None]`",
    "view": "`tl.reshape(x, …)`",
}
# Products of matrices.
_PRODUCTS = re.compile(r"mat\w+|b?mm|dot|inner|einsum")
_LENGTHS = frozenset({"numel", "size", "stride", "dim"})


def _otherwise(name: str) -> str:
    """Return what to write for a function or method of NumPy, torch or math, or ""."""
    return "`tl.dot(a, b)`" if _PRODUCTS.fullmatch(name) else _OTHERWISE.get(name, "")


@RULES.rule(r"([\w.]+)\.(\w+) is Python's, and a kernel has none: (.*)")
def _foreign_function(found: re.Match[str], _: Fault) -> Words:
    home, name, advice = found[1], found[2], found[3]
    otherwise = _otherwise(name)
    top = home.partition(".")[0]
    library = {"np": "NumPy", "numpy": "NumPy", "math": "Python's math"}.get(top, top)
    return Words(
        f"{library} inside a kernel",
        f"`{home}.{name}` is not of Triton's language: a kernel runs on the GPU, where Python's libraries are not.",
        f"Write {otherwise}." if otherwise else f"{advice[:1].upper()}{advice[1:]}.",
    )


@RULES.rule(
    r"`(\w+)`: a \w+, which a kernel cannot use|"
    r"a kernel has no (\w+)(?: \([\w.]+ is Python's\)|, which is Python's)"
)
def _function_of_python(found: re.Match[str], fault: Fault) -> Words | None:
    name = found[1] or found[2]
    if not re.search(rf"\b{name}\(", fault.code):
        return None
    known = re.search(r"write (tl\.\w+)", fault.message)
    otherwise = _otherwise(name) or (f"`{known[1]}(…)`" if known else "")
    return Words(
        "A function of Python's inside a kernel",
        f"`{name}` is not of Triton's language: a kernel runs on the GPU, where Python's functions are not.",
        write(otherwise, f"Write what triton.language offers for it: look for a function like `tl.{name}`."),
    )


@RULES.rule(r"a kernel uses (int|float|bool) in no other way than to call it")
def _type_of_python(found: re.Match[str], _: Fault) -> Words:
    kind = {"int": "tl.int32", "float": "tl.float32", "bool": "tl.int1"}[found[1]]
    return Words(
        "A dtype of Python's",
        f"`{found[1]}` is a type of Python's, and blocks have Triton's dtypes.",
        f"Write `{kind}`.",
    )


@RULES.rule(r"Unsupported function referenced: <(?:ufunc '|built-in (?:method|function) )(\w+)")
def _foreign_object(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "NumPy or torch inside a kernel",
        f"`{found[1]}` is not of Triton's language: a kernel runs on the GPU, where Python's libraries are not.",
        write(
            _otherwise(found[1]), f"Write what triton.language offers for it: look for a function like `tl.{found[1]}`."
        ),
    )


@RULES.rule(
    r"convert an array of size 1 to a Python scalar|must be real number, not tensor|only length-1 arrays|only 0-dim"
)
def _of_one_number(_: re.Match[str], fault: Fault) -> Words | None:
    name = re.search(r"\bmath\.(\w+)\(", fault.code)
    if name is None:
        return None
    return Words(
        "Python's math on a block",
        f"`math.{name[1]}` takes a single number of Python's, and here it gets a block.",
        f"Write `tl.{name[1]}(…)`.",
    )


@RULES.rule(
    r"a (?:tensor|block|pointer) has no (\w+)|'tensor' object has no attribute '(\w+)'|a kernel has no `\.(\w+)`"
)
def _foreign_method(found: re.Match[str], _: Fault) -> Words | None:
    name = found[1] or found[2] or found[3]
    if name in _LENGTHS:
        return _length_of_pointer(name)
    if not _otherwise(name):
        return None
    return Words(
        "A method that blocks do not have",
        f"`.{name}` is not of Triton's language.",
        f"Write {_otherwise(name)}.",
    )


@RULES.rule(r"'(?:int|constexpr)' object has no attribute '(\w+)'")
def _constant_as_tensor(found: re.Match[str], fault: Fault) -> Words | None:
    if not fault.in_kernel:
        return None
    return Words(
        "A constant where a tensor is needed",
        f"`.{found[1]}` is of tensors, and this is a number that the compiler knows: a constexpr, or an integer "
        "argument that is 1 in this call.",
        "Write `tl.cast(n, tl.int64)` to convert it; or list the argument in `@triton.jit(do_not_specialize=[…])`.",
    )


@RULES.rule(r"`([\w.]+)\.(\w+)` is not of Triton's language: (?:did you mean ([\w.]+)\?)?")
def _no_such_function(found: re.Match[str], _: Fault) -> Words:
    meant = f"`{found[3]}`" if found[3] else _otherwise(found[2])
    return Words(
        "A function that Triton's language does not have",
        f"There is no `{found[1]}.{found[2]}`." + (f" The nearest name is `{found[3]}`." if found[3] else ""),
        write(meant, "Compute with what triton.language offers."),
    )


@RULES.rule(r"'int' object is not callable|tuple index out of range|list index out of range")
def _asked_for_length(_: re.Match[str], fault: Fault) -> Words | None:
    name = re.search(r"\.(numel|size|stride|dim|shape)\b", fault.code)
    return _length_of_pointer(name[1]) if name and fault.in_kernel else None


def _length_of_pointer(name: str) -> Words:
    return Words(
        "A pointer knows no length",
        f"A kernel gets a tensor as a bare pointer, without `.{name}`.",
        "Pass lengths and strides as arguments of their own, such as `n_elements` or `x.stride(0)`.",
    )


@RULES.rule(r"not compiled with CUDA|No CUDA GPUs|no NVIDIA driver|Expected a cuda device")
def _no_gpu(_: re.Match[str], __: Fault) -> Words:
    return Words("", "", _ON_THE_CPU)


_ON_THE_CPU = "Tensors are on the CPU here: allocate on x.device, and remove code that insists on a GPU."


@RULES.rule("tl.(multiple_of|max_contiguous|max_constancy|assume) promises")
def _broken_promise(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "A promise to the compiler is false",
        "",
        "Because of it, compiled code may load several elements at once, and fails or goes wrong if it is false: "
        f"remove tl.{found[1]} where a size, a stride or a first element can be any number.",
        "size_assumed",
    )


@RULES.rule(r"\A(load|store|atomic) of (\d{1,3}) bytes must begin at")
def _misaligned_access(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "An access that is not aligned",
        "",
        f"A pointer that is cast to a wider type must be a multiple of {found[2]} bytes, or a GPU stops there. A "
        "tensor may begin at any element, and so may its rows: check data_ptr() and the strides, and go element by "
        "element where they do not fit.",
        "size_assumed",
    )


@RULES.rule("an illegal memory access")
def _illegal_access(_: re.Match[str], __: Fault) -> Words:
    return Words(
        "A kernel's address lies in no tensor",
        "",
        "Which offset or mask is wrong? `grade … --cpu` names the line of an access outside a tensor. Where it finds "
        "none, look for a tensor that your code keeps from an earlier call: its memory may be gone.",
    )


@RULES.rule("misaligned address")
def _misaligned(_: re.Match[str], __: Fault) -> Words:
    return Words(
        "",
        "",
        "A load or a store of several elements at once met a misaligned address. Look for a tl.multiple_of or "
        "tl.max_contiguous that promises too much: `rows % M` starts again at 0 where M ends.",
    )


# What to write for names that libraries do not have.
_ELSEWHERE = {
    ("triton", "run"): "`kernel[grid](…)` launches a kernel",
    ("triton", "empty"): "`torch.empty` allocates",
    ("autotune", "Config"): "`triton.Config({…})` is a configuration",
}


@RULES.rule(r"(?:module '([\w.]{1,80})'|'function' object) has no attribute '(\w{1,80})'")
def _not_in_library(found: re.Match[str], fault: Fault) -> Words | None:
    name = found[2]
    owner = found[1] or next(iter(re.findall(rf"(\w+)\.{name}\b", fault.code)), "")
    known = _ELSEWHERE.get((owner, name), "")
    if fault.in_kernel or fault.kind != "AttributeError" or not (found[1] or known):
        return None
    return Words(
        "A name that its module does not have",
        f"There is no `{owner}.{name}` in what is installed here.",
        f"{known[:1].upper()}{known[1:]}." if known else "Is it misspelt, or of another version or library?",
    )


@RULES.rule(r"No module named '([\w.]{1,80})'")
def _no_module(found: re.Match[str], _: Fault) -> Words:
    said = f"{found[1]} is not installed where this is graded: copy the code that you need into the file."
    return Words("", "", said)


@RULES.rule("")
def _refuses_the_call(_: re.Match[str], fault: Fault) -> Words | None:
    """Say that the submission itself raised: by an `assert` that does not hold, or by a `raise` of its own."""
    asserted = fault.kind == "AssertionError" and fault.code.startswith("assert ")
    raised = fault.code.startswith(f"raise {fault.kind}(") and " from " not in fault.code
    if fault.in_kernel or "is_cuda" in fault.code or fault.kind == "NotImplementedError" or not (asserted or raised):
        return None
    return Words(
        "Your own code refuses this call",
        "",
        "The stub's docstring says which inputs a call may have, and this call has such inputs: remove the condition, "
        "and let your code handle them.",
    )


@RULES.rule("")
def _insists_on_a_gpu(_: re.Match[str], fault: Fault) -> Words | None:
    return Words("", "", _ON_THE_CPU) if "is_cuda" in fault.code else None
