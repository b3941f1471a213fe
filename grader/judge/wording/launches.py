"""Say exceptions of launches and calls: a grid, a decorator, a name or an argument is not right."""

from __future__ import annotations

import ast
import re
from difflib import get_close_matches

from grader.judge.wording.rewriting import quoted
from grader.judge.wording.rules import LAUNCH, Fault, Rules, Words, write

RULES = Rules()


@RULES.rule(r"axis ([12]) of a grid must have at most ([\d,]+) programs, got ([\d,]+)")
def _too_many_on_axis(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "A grid that no GPU starts",
        f"A GPU starts at most {found[2]} programs on axis {found[1]} of a grid, and this launch asks for {found[3]}.",
        "Put the axis that grows without bound first: axis 0 may have 2,147,483,647 programs.",
    )


@RULES.rule(r"`ptxas` failed with error code -(\d+)")
def _assembler_died(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "NVIDIA's assembler crashes on this kernel",
        f"`ptxas` translates what Triton made of the kernel; signal {found[1]} ended it. This is a defect of ptxas.",
        "Triton makes a constant of each integer argument that is 1. If one is 1 in this case, write "
        '`@triton.jit(do_not_specialize=["NAME"])` with its name. If none is, try another block size, num_warps or '
        "num_stages.",
    )


@RULES.rule(r"(\w+) lies in the host's memory, where no kernel on a GPU reaches it: (\S+) in line (\d+)")
def _in_host_memory(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "A tensor in the host's memory",
        f"`{found[1]}` was made by `{found[2]}` in line {found[3]} without a device. So it lies in the host's "
        "memory, where no kernel on a GPU reaches it.",
        f"Write `{found[2]}(…, device=x.device)`, with one of the inputs for `x`.",
    )


@RULES.rule(r"^(\w+) is a kernel, and was called without a grid")
def _no_grid(found: re.Match[str], fault: Fault) -> Words:
    call = next(fault.calls(found[1]), None)
    launch, block = "", "BLOCK"
    if call is not None:
        sizes = (ast.unparse(one.value) for one in call.keywords if str(one.arg).isupper())
        block = next(sizes, block)
        launch = quoted(ast.Call(ast.Subscript(call.func, ast.Name("grid", ast.Load())), call.args, call.keywords))
    return Words(
        "A kernel is called without a grid",
        f"`{found[1]}` is a kernel: the grid between its name and its arguments says how many programs run it.",
        f"Write {launch or f'`{found[1]}[grid](…)`'}, with a tuple as the grid, such as "
        f"`grid = (triton.cdiv(x.numel(), {block}),)`.",
    )


@RULES.rule(r"^(\w+) of Triton's language was called outside a kernel")
def _language_function(found: re.Match[str], _: Fault) -> Words:
    name = found[1]
    helps = "Move the line into a kernel."
    if name in ("cdiv", "next_power_of_2"):
        helps = f"In ordinary Python, write `triton.{name}`."
    if name in ("zeros", "full", "zeros_like"):
        helps = f"In ordinary Python, allocate with `torch.{name}`."
    return Words("A function of kernels is called in Python", f"`tl.{name}` works only inside a kernel.", helps)


@RULES.rule(r"'function' object is not subscriptable")
def _not_jitted(_: re.Match[str], fault: Fault) -> Words | None:
    name = re.search(r"(\w+)\[[^\]]*\]\(", fault.code)
    if name is None:
        return None
    return Words(
        "A kernel without @triton.jit",
        f"`{name[1]}` is launched like a kernel, but it is an ordinary Python function.",
        f"Write `@triton.jit` on the line above `def {name[1]}`.",
    )


@RULES.rule(r"Did you forget to add @triton.jit|Cannot call @triton.jit'd outside of the scope of a kernel")
def _outside(_: re.Match[str], fault: Fault) -> Words | None:
    if fault.kind == "CompilationError":
        return None
    names = re.findall(r"\btl\.\w+", fault.code)
    return Words(
        "Triton's language outside a kernel",
        f"`{names[0] if names else 'triton.language'}` works only inside a kernel, and `{fault.function}` has no "
        "`@triton.jit`.",
        f"Is `{fault.function}` your kernel? Write `@triton.jit` on the line above its `def`, and launch it as "
        f"`{fault.function}[grid](…)`. Else move this line into a kernel.",
    )


@RULES.rule(r"`(\w+)`: a function, which a kernel cannot use|Unsupported function referenced: <function (\w+) at")
def _plain_helper(found: re.Match[str], _: Fault) -> Words:
    name = found[1] or found[2]
    return Words(
        "A helper without @triton.jit",
        f"`{name}` is an ordinary Python function, and a kernel calls only functions that are marked `@triton.jit`.",
        f"Write `@triton.jit` on the line above `def {name}`.",
    )


@RULES.rule(r"the (\w+) at line (\d+) replaces the one at line (\d+)")
def _two_definitions(found: re.Match[str], _: Fault) -> Words:
    return Words(
        f"`{found[1]}` is defined twice",
        f"The stub's `{found[1]}` at line {found[2]} replaces yours at line {found[3]}: of two definitions Python "
        "keeps the later one. Delete the stub's.",
        f"Delete the `{found[1]}` at line {found[2]}.",
    )


@RULES.rule(r"name '\w+' is not defined(?:\. Did you mean: '(\w+)'\?)?")
def _unknown_name(found: re.Match[str], _: Fault) -> Words:
    near = f"Is it `{found[1]}`? " if found[1] else ""
    return Words("A name that nothing defines", "", f"{near}Look for a misspelling, or for a line that is missing.")


@RULES.rule(r"`(\w+)`: no line of [\w ]+ defines it: (?:did you mean (\w+)\?)?")
def _unknown_in_kernel(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "A name that nothing defines",
        f"`{found[1]}` is no variable and no argument of this kernel, and is not defined at the top level.",
        write(f"`{found[2]}`" if found[2] else "", "Look for a misspelling, or for a line that is missing."),
    )


# Keywords of torch's that Triton's language calls otherwise.
_TORCHS = {"default": "other", "dim": "axis", "fill_value": "value", "keepdim": "keep_dims", "size": "shape"}


@RULES.rule(r"(\w+) has no parameter (\w+), only ([\w, ]*)")
def _unknown_argument(found: re.Match[str], _: Fault) -> Words:
    """Word the errors of a launch and of a function of Triton's language: both list the known names."""
    owner, name, known = found[1], found[2], found[3].split(", ")
    alike = [one for one in known if one[:1] == name[:1] or one in name or name in one]
    near = [_TORCHS[name]] if _TORCHS.get(name) in known else get_close_matches(name, alike, 1)
    listed = ", ".join(known[:16])
    return Words(
        "A keyword that does not exist",
        f"`{owner}` has no parameter `{name}`." + (f" The nearest is `{near[0]}`." if near else ""),
        f"Write `{near[0]}=` for `{name}=`." if near else f"It takes {listed}.",
    )


@RULES.rule(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
def _unknown_keyword(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "A keyword that does not exist",
        f"`{found[1]}` has no parameter `{found[2]}`.",
        f"Compare the call with the `def` of `{found[1]}`.",
    )


@RULES.rule(r"'builtin_function_or_method'|'method'")
def _not_called(_: re.Match[str], fault: Fault) -> Words | None:
    named = re.search(
        r"unsupported operand|not supported between|has no attribute|cannot be interpreted", fault.message
    )
    if named is None:
        return None
    return Words(
        "A method without its brackets",
        "One of the values is a method itself, and not what it returns.",
        "Look for a name such as `x.numel` or `x.stride`, here or in the launch, and write `x.numel()`, `x.stride(0)`.",
    )


@RULES.rule(r"'tuple' object cannot be interpreted as an integer")
def _grid_in_a_grid(_: re.Match[str], fault: Fault) -> Words | None:
    if not LAUNCH.search(fault.code):
        return None
    return Words(
        "A grid within a grid",
        "The brackets before the arguments hold one tuple: the number of programs on each axis.",
        "Write `kernel[grid](…)` alone; a block size is an argument of the kernel.",
    )


@RULES.rule(r"'float' object cannot be interpreted as an integer")
def _fractions(_: re.Match[str], fault: Fault) -> Words | None:
    if not LAUNCH.search(fault.code):
        return None
    return Words(
        "A grid of fractions",
        "A grid holds whole numbers of programs, and `/` gives a fraction.",
        "Write `triton.cdiv(n_elements, BLOCK)`: it divides and rounds up.",
    )


@RULES.rule(r"a grid must be a tuple, as in \w+\[\(programs,\)\]\(…\), got (.*)")
def _no_tuple(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "A grid that is no tuple",
        f"A grid is a tuple with the number of programs on each axis, and this one is {found[1]}.",
        "Write `grid = (triton.cdiv(n_elements, BLOCK),)`: the comma makes the tuple.",
    )


@RULES.rule(r"arange\(\) missing 1 required positional argument: 'end'")
def _arange_of_one(_: re.Match[str], fault: Fault) -> Words:
    given = next((quoted(one.args[0])[1:-1] for one in fault.calls("arange") if one.args), "BLOCK") or "BLOCK"
    return Words(
        "`tl.arange` takes a start and an end",
        "Unlike Python's range, `tl.arange` needs both of its ends.",
        f"Write `tl.arange(0, {given})`.",
    )


# Calls of functions that are often called with too few arguments.
_EXAMPLES = {
    "full": "tl.full((BLOCK,), 1.0, dtype=tl.float32)",
    "num_programs": "tl.num_programs(0)",
    "program_id": "tl.program_id(0)",
    "zeros": "tl.zeros((BLOCK,), dtype=tl.float32)",
}


@RULES.rule(r"(\w+)\(\) missing \d+ required positional arguments?: (.{1,200})")
def _missing(found: re.Match[str], fault: Fault) -> Words:
    names = re.findall(r"'(\w+)'", found[2])
    if not fault.lines:
        named = ", ".join(f"`{name}`" for name in names)
        return _unlike_stub(found[1], f"The call leaves out {named}, and your `{found[1]}` gives no default.")
    named = ", ".join(f"{name}=…" for name in names)
    example = _EXAMPLES.get(found[1], f"{found[1]}({named})")
    return Words("An argument is missing", f"`{found[1]}` got nothing for {found[2]}.", f"Write it, as in `{example}`.")


@RULES.rule(r"(\w+)\(\) takes (.{1,20}) positional arguments? but (\d+) (?:was|were) given")
def _more_than_taken(found: re.Match[str], fault: Fault) -> Words | None:
    if fault.lines:
        return None
    return _unlike_stub(found[1], f"The call passes {found[3]} arguments, and your `{found[1]}` takes {found[2]}.")


def _unlike_stub(function: str, rule: str) -> Words:
    """Word a call that no line of the submission made: the grader calls the stub's functions."""
    return Words(
        "Other parameters than the stub's",
        rule,
        f"Copy the line `def {function}(…)` from the stub: names, order and defaults.",
    )


@RULES.rule(r"(\w+) must get all of its arguments, got none for ([\w, ]+)")
def _too_few(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "An argument is missing in a launch",
        f"`{found[1]}` got nothing for {found[2]}.",
        "A launch passes every parameter of the kernel, in the order of its `def` or by name.",
    )


@RULES.rule(r"(\w+) takes (\d+) arguments, got (\d+)")
def _too_many(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "A launch with too many arguments",
        f"`{found[1]}` has {found[2]} parameters, and the launch passes {found[3]} arguments.",
        "Compare the launch with the kernel's `def`, argument by argument.",
    )


@RULES.rule(r"`(\w+)` gets an address that is passed as a number, and tl\.(\w+) follows")
def _address_for_tensor(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "An address in place of a tensor",
        f"`{found[1]}` is a number here, and `tl.{found[2]}` follows pointers. A tensor is a pointer in the kernel.",
        "Pass the tensor itself, without `.data_ptr()`.",
    )


@RULES.rule(r"(\w+)\(\) got multiple values for argument '(\w+)'")
def _twice(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "An argument is passed twice",
        f"`{found[1]}` gets `{found[2]}` by place and by name.",
        f"Count the arguments before `{found[2]}=`: is there one too many?",
    )


@RULES.rule(r"run\(\) got multiple values for keyword argument '(\w+)'|Conflicting meta-parameters: (\w+)")
def _tuned_twice(found: re.Match[str], _: Fault) -> Words:
    name = found[1] or found[2]
    return Words(
        "A launch sets what the autotuner chooses",
        f"The launch passes `{name}`, and so does each `triton.Config`.",
        f"Remove `{name}=` from the launch: the autotuner passes it. A grid reads it from its argument: "
        f'`lambda meta: (triton.cdiv(n, meta["{name}"]),)`.',
    )


@RULES.rule(r"a kernel cannot use a (?:list|tuple) of \d+ entries|'(?:list|tuple)' object has no attribute 'type'")
def _list_for_tensor(_: re.Match[str], __: Fault) -> Words:
    return Words(
        "A list where a tensor belongs",
        "A kernel got a Python list or tuple, and has no pointer to its numbers.",
        "Allocate a tensor and pass it, as in `z = torch.empty_like(x)`.",
    )
