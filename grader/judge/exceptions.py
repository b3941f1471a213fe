"""Say an exception in the learner's words: what is wrong, and what to write instead.

Triton's messages speak of its own insides. Takes the class, the message and the lines of an exception. Gives words, or
None where the message says enough. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from grader.judge.rewriting import element_in, last_name, parsed, quoted, with_arange, with_load, with_signs
from grader.protocol.messages import Frame
from grader.record import clean


@dataclass(frozen=True)
class Words:
    """An exception in the learner's words.

    title: of the card. rule: what is wrong, a sentence. help: what to write. An empty title or rule leaves what the
    card says without it.
    """

    title: str
    rule: str
    help: str


@dataclass(frozen=True)
class _Fault:
    """An exception: its class, its message, and where it was raised.

    code, function: of the innermost line in the submission. lines: all of them. in_kernel: a launch led to it.
    """

    kind: str
    message: str
    code: str
    function: str
    lines: tuple[str, ...]
    in_kernel: bool

    @property
    def tree(self) -> ast.stmt | None:
        """Return the syntax tree of the line; None for a part of a statement."""
        return parsed(self.code)

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yield the line's calls of functions with these names, such as `load` for tl.load."""
        for node in ast.walk(self.tree or ast.Pass()):
            if isinstance(node, ast.Call) and last_name(node.func) in names:
                yield node

    def number(self, name: str) -> int | None:
        """Return the number that one of the lines gives to a name, as in BLOCK=1000; None where none does."""
        found = re.search(rf"\b{re.escape(name)}\s*=\s*(\d{{1,9}})\b", "\n".join(self.lines))
        return int(found[1]) if found else None


_Say = Callable[["re.Match[str]", _Fault], Words | None]
_LAUNCH = re.compile(r"\w\[.*\]\(")
_RULES: list[tuple[re.Pattern[str], _Say]] = []


def in_words(kind: str, message: str, frames: Sequence[Frame]) -> Words | None:
    """Return an exception in the learner's words, or None.

    frames: the submission's lines on the way to the exception, innermost last.
    """
    last = frames[-1] if frames else Frame(0, "", "")
    lines = tuple(clean(frame.code, 200) for frame in frames)
    pointed_at = _code_in(message)
    code = (pointed_at or (lines[-1] if lines else "")).strip()
    in_kernel = bool(pointed_at) or any(_LAUNCH.search(line) for line in lines[:-1])
    fault = _Fault(kind, message, code, clean(last.function, 80), lines, in_kernel)
    for pattern, say in _RULES:
        found = pattern.search(message)
        words = say(found, fault) if found else None
        if words is not None:
            return words
    return None


def _code_in(message: str) -> str:
    """Return the line that a message of Triton's compiler points at with a caret; "" for other messages."""
    lines = message.splitlines()
    place = next((i for i, line in enumerate(lines) if i and line.strip() == "^"), 0)
    return lines[place - 1] if place and re.match(r"at \d+:\d+:", message) else ""


def _rule(pattern: str) -> Callable[[_Say], _Say]:
    """Register a function that says the exceptions whose message holds a pattern. The first that returns words wins."""

    def register(say: _Say) -> _Say:
        _RULES.append((re.compile(pattern), say))
        return say

    return register


def _write(text: str, otherwise: str) -> str:
    return f"Write {text}." if text else otherwise


# -- kernels and functions ---------------------------------------------------------------------------------------------


@_rule(r"^(\w+) is a kernel, and was called without a grid")
def _no_grid(found: re.Match[str], fault: _Fault) -> Words:
    call = next(fault.calls(found[1]), None)
    launch = f"`{found[1]}[grid](…)`"
    if call is not None:
        launch = quoted(ast.Call(ast.Subscript(call.func, ast.Name("grid", ast.Load())), call.args, call.keywords))
    return Words(
        "A kernel is called without a grid",
        f"`{found[1]}` is a kernel: the grid between its name and its arguments says how many programs run it.",
        f"Write {launch or f'`{found[1]}[grid](…)`'}, with a tuple as the grid, such as "
        "`grid = (triton.cdiv(n_elements, BLOCK),)`.",
    )


@_rule(r"^(\w+) of Triton's language was called outside a kernel")
def _language_function(found: re.Match[str], _: _Fault) -> Words:
    name = found[1]
    helps = "Move the line into a kernel."
    if name in ("cdiv", "next_power_of_2"):
        helps = f"In ordinary Python, write `triton.{name}`."
    if name in ("zeros", "full", "zeros_like"):
        helps = f"In ordinary Python, allocate with `torch.{name}`."
    return Words("A function of kernels is called in Python", f"`tl.{name}` works only inside a kernel.", helps)


@_rule(r"'function' object is not subscriptable")
def _not_jitted(_: re.Match[str], fault: _Fault) -> Words | None:
    name = re.search(r"(\w+)\[[^\]]*\]\(", fault.code)
    if name is None:
        return None
    return Words(
        "A kernel without @triton.jit",
        f"`{name[1]}` is launched like a kernel, but it is an ordinary Python function.",
        f"Write `@triton.jit` on the line above `def {name[1]}`.",
    )


@_rule(r"Did you forget to add @triton.jit|Cannot call @triton.jit'd outside of the scope of a kernel")
def _outside(_: re.Match[str], fault: _Fault) -> Words | None:
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


@_rule(r"`(\w+)`: a function, which a kernel cannot use|Unsupported function referenced: <function (\w+) at")
def _plain_helper(found: re.Match[str], _: _Fault) -> Words:
    name = found[1] or found[2]
    return Words(
        "A helper without @triton.jit",
        f"`{name}` is an ordinary Python function, and a kernel calls only functions that are marked `@triton.jit`.",
        f"Write `@triton.jit` on the line above `def {name}`.",
    )


@_rule(r"the (\w+) at line (\d+) replaces the one at line (\d+)")
def _two_definitions(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        f"`{found[1]}` is defined twice",
        f"The stub's `{found[1]}` at line {found[2]} replaces yours at line {found[3]}: of two definitions Python "
        "keeps the later one. Delete the stub's.",
        f"Delete the `{found[1]}` at line {found[2]}.",
    )


@_rule(r"name '\w+' is not defined(?:\. Did you mean: '(\w+)'\?)?")
def _unknown_name(found: re.Match[str], _: _Fault) -> Words:
    near = f"Is it `{found[1]}`? " if found[1] else ""
    return Words("A name that nothing defines", "", f"{near}Look for a misspelling, or for a line that is missing.")


# -- arguments ---------------------------------------------------------------------------------------------------------


# Keywords of torch's that Triton's language calls otherwise.
_TORCHS = {"default": "other", "dim": "axis", "fill_value": "value", "keepdim": "keep_dims", "size": "shape"}


@_rule(r"(\w+) has no parameter (\w+), only ([\w, ]*)")
def _unknown_argument(found: re.Match[str], _: _Fault) -> Words:
    """Speak of a launch, and of a function of Triton's language: both come with the list of what there is."""
    owner, name, known = found[1], found[2], found[3].split(", ")
    alike = [one for one in known if one[:1] == name[:1] or one in name or name in one]
    near = [_TORCHS[name]] if _TORCHS.get(name) in known else get_close_matches(name, alike, 1)
    listed = ", ".join(known[:16])
    return Words(
        "A keyword that does not exist",
        f"`{owner}` has no parameter `{name}`." + (f" The nearest is `{near[0]}`." if near else ""),
        f"Write `{near[0]}=` for `{name}=`." if near else f"It takes {listed}.",
    )


@_rule(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
def _unknown_keyword(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "A keyword that does not exist",
        f"`{found[1]}` has no parameter `{found[2]}`.",
        f"Compare the call with the `def` of `{found[1]}`.",
    )


@_rule(r"'builtin_function_or_method'|'method'")
def _not_called(_: re.Match[str], fault: _Fault) -> Words | None:
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


@_rule(r"'tuple' object cannot be interpreted as an integer")
def _grid_in_a_grid(_: re.Match[str], fault: _Fault) -> Words | None:
    if not _LAUNCH.search(fault.code):
        return None
    return Words(
        "A grid within a grid",
        "The brackets before the arguments hold one tuple: the number of programs on each axis.",
        "Write `kernel[grid](…)` alone; a block size is an argument of the kernel.",
    )


@_rule(r"'float' object cannot be interpreted as an integer")
def _fractions(_: re.Match[str], fault: _Fault) -> Words | None:
    if not _LAUNCH.search(fault.code):
        return None
    return Words(
        "A grid of fractions",
        "A grid holds whole numbers of programs, and `/` gives a fraction.",
        "Write `triton.cdiv(n_elements, BLOCK)`: it divides and rounds up.",
    )


@_rule(r"a grid must be a tuple, as in \w+\[\(programs,\)\]\(…\), got (.*)")
def _no_tuple(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "A grid that is no tuple",
        f"A grid is a tuple with the number of programs on each axis, and this one is {found[1]}.",
        "Write `grid = (triton.cdiv(n_elements, BLOCK),)`: the comma makes the tuple.",
    )


@_rule(r"arange\(\) missing 1 required positional argument: 'end'")
def _arange_of_one(_: re.Match[str], fault: _Fault) -> Words:
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


@_rule(r"(\w+)\(\) missing \d+ required positional arguments?: (.{1,200})")
def _missing(found: re.Match[str], _: _Fault) -> Words:
    named = ", ".join(f"{name}=…" for name in re.findall(r"'(\w+)'", found[2]))
    example = _EXAMPLES.get(found[1], f"{found[1]}({named})")
    return Words("An argument is missing", f"`{found[1]}` got nothing for {found[2]}.", f"Write it, as in `{example}`.")


@_rule(r"(\w+) must get all of its arguments, got none for ([\w, ]+)")
def _too_few(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "An argument is missing in a launch",
        f"`{found[1]}` got nothing for {found[2]}.",
        "A launch passes every parameter of the kernel, in the order of its `def` or by name.",
    )


@_rule(r"(\w+) takes (\d+) arguments, got (\d+)")
def _too_many(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "A launch with too many arguments",
        f"`{found[1]}` has {found[2]} parameters, and the launch passes {found[3]} arguments.",
        "Compare the launch with the kernel's `def`, argument by argument.",
    )


@_rule(r"(\w+)\(\) got multiple values for argument '(\w+)'")
def _twice(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "An argument is passed twice",
        f"`{found[1]}` gets `{found[2]}` by place and by name.",
        f"Count the arguments before `{found[2]}=`: is there one too many?",
    )


# -- blocks ------------------------------------------------------------------------------------------------------------


@_rule(r"'(?:static_)?range' object has no attribute|cannot convert (?:static_)?range\(")
def _range_as_value(_: re.Match[str], fault: _Fault) -> Words:
    return Words(
        "`range` where `tl.arange` is meant",
        "`range` counts the steps of a `for` loop; it is no block of numbers.",
        _write(with_arange(fault.tree), "Write `tl.arange(0, BLOCK)` for a block of numbers."),
    )


@_rule(r"'(?:int|constexpr)' object is not iterable")
def _shape_without_tuple(_: re.Match[str], fault: _Fault) -> Words | None:
    call = next(fault.calls("zeros", "full"), None)
    if call is None or not call.args or isinstance(call.args[0], ast.Tuple | ast.List):
        return None
    call.args[0] = ast.Tuple([call.args[0]], ast.Load())
    return Words(
        "A shape that is no tuple",
        "A shape is a tuple, with the size of each axis.",
        _write(quoted(call), "Write `tl.zeros((BLOCK,), dtype=tl.float32)`."),
    )


@_rule(r"Mask must have boolean scalar type")
def _mask_of_numbers(_: re.Match[str], __: _Fault) -> Words:
    return Words(
        "A mask that holds numbers",
        "A mask says yes or no for each lane, and this one holds numbers.",
        "Compare: `mask = offsets < n_elements`.",
    )


@_rule(
    r"'int' object is not iterable|object is not subscriptable|nsupported tensor index|"
    r"_semantic.? argument must be provided|only integer tensors of a single element"
)
def _indexed_pointer(_: re.Match[str], fault: _Fault) -> Words | None:
    element = element_in(fault.tree)
    if element is None or not fault.in_kernel:
        return None
    base, place = ast.unparse(element.value), ast.unparse(element.slice)
    if isinstance(element.slice, ast.Tuple):
        place = "rows * stride + columns"
    if _is_pointer(base):
        return Words(
            "An element is read with brackets",
            f"`{base}` is a pointer and no list: tl.load follows it.",
            _write(with_load(fault.tree), f"Write `tl.load({base} + {place}, mask=mask)`."),
        )
    return Words(
        "An element is read with brackets",
        f"`{base}` is no list: tl.load follows a pointer, and a block is computed with as a whole.",
        f"Is `{base}` a pointer? Write `tl.load({base} + {place}, mask=mask)`. Is it a block? Use all of its lanes at "
        "once, or sum them: `tl.sum(x, axis=0)`.",
    )


@_rule(r"nsupported tensor index: slice")
def _sliced(_: re.Match[str], __: _Fault) -> Words:
    return Words(
        "A slice of a block",
        "A block has no slices: its shape is fixed when the kernel is compiled.",
        "Load the elements that you need, `tl.load(x_ptr + offsets, mask=mask)`, or choose among lanes with tl.where.",
    )


def _is_pointer(name: str) -> bool:
    """Return whether a name is that of a pointer, as far as names tell."""
    return "ptr" in name.lower() or "pointer" in name.lower()


@_rule(r"a kernel stores to no element")
def _indexed_store(_: re.Match[str], fault: _Fault) -> Words | None:
    tree = fault.tree
    if not isinstance(tree, ast.Assign) or not isinstance(tree.targets[0], ast.Subscript):
        return None
    place = tree.targets[0]
    base, index, value = (ast.unparse(one) for one in (place.value, place.slice, tree.value))
    store = f"Write `tl.store({base} + {index}, {value if '[' not in value else 'value'}, mask=mask)`"
    return Words(
        "An element is stored with brackets",
        f"`{base}` is no list: tl.store follows a pointer, and a block is computed as a whole.",
        f"{store}."
        if _is_pointer(base)
        else f"Is `{base}` a pointer? {store}. Is it a block? Compute all of its lanes at once, as in `x + y`, or "
        "choose between two with tl.where.",
    )


@_rule(r"a kernel loops over range, tl\.range or tl\.static_range")
def _loop_over_block(_: re.Match[str], __: _Fault) -> Words:
    return Words(
        "A loop over something that is no range",
        "A kernel loops over range, tl.range or tl.static_range.",
        "A block needs no loop: an operator computes all of its lanes at once. Else write `for i in range(n):`.",
    )


@_rule(r"only a scalar is true or false|[Tt]ruth value of an array|Boolean value of Tensor with more than one value")
def _truth_of_block(_: re.Match[str], fault: _Fault) -> Words:
    text = with_signs(fault.tree)
    if fault.code.startswith(("if ", "while ", "elif ")) and not text:
        word = fault.code.split()[0]
        return Words(
            f"`{word}` on a whole block",
            f"The condition is a block of truth values, one for each lane, and `{word}` asks for a single one.",
            "All lanes take the same way through a kernel. Pass the condition as `mask=` to tl.load and tl.store, or "
            "choose for each lane: `tl.where(condition, a, b)`.",
        )
    if next(fault.calls("max", "min"), None):
        return Words(
            "Python's max or min on blocks",
            "`max` and `min` compare single numbers, and here they get blocks.",
            "Write `tl.maximum(a, b)` or `tl.minimum(a, b)` lane by lane; `tl.max(x, axis=0)` over a block.",
        )
    if not text:
        return Words(
            "A block where one truth value is needed",
            "`if`, `while`, `and`, `or` and `not` ask for a single truth value, and a block has one for each lane.",
            "Write `&` for `and`, `|` for `or`, `~` for `not`, with brackets: `(a >= 0) & (a < n)`. For `if`, pass the "
            "condition as `mask=`, or choose for each lane: `tl.where(condition, a, b)`.",
        )
    return Words(
        "`and`, `or` or `not` on blocks",
        "`and`, `or` and `not` ask for a single truth value, and a block has one for each lane.",
        f"Write {text}.",
    )


@_rule(r"compares two values at a time|simultaneous multiple comparison")
def _chained(_: re.Match[str], fault: _Fault) -> Words:
    return Words(
        "A chained comparison",
        "A kernel compares two values at a time.",
        _write(with_signs(fault.tree), "Write `(a <= b) & (b < c)`."),
    )


@_rule(r"arange's arguments must be of type tl.constexpr|must have type `constexpr\[int\]`")
def _no_constexpr(_: re.Match[str], fault: _Fault) -> Words:
    calls = fault.calls("arange", "zeros", "full", "reshape", "broadcast_to")
    given = [node for call in calls for argument in call.args for node in ast.walk(argument)]
    if any(isinstance(node, ast.Div) for node in given):
        return Words(
            "A block size with a fraction",
            "`/` gives a number with a fraction, and a size is whole.",
            "Write `//`, as in `BLOCK // 2`.",
        )
    sizes = [node.id for node in given if isinstance(node, ast.Name) and node.id != "tl"]
    name = f"`{sizes[0]}`" if sizes else "The size of the block"
    block = sizes[0] if sizes else "BLOCK"
    declared = f"eclare it in the kernel's `def`: `{block}: tl.constexpr`."
    length = "Is it the length of the data? Take a block size of your own, and a mask for the lanes beyond the end."
    return Words(
        "A block size that is no tl.constexpr",
        f"{name} is known only when the kernel runs, and the compiler must know how large a block is.",
        f"D{declared}" if block.isupper() else f"{length} Is it the block size? D{declared}",
    )


@_rule(r"arange's range must be a power of 2|Shape element \d+ must be a power of 2")
def _no_power_of_two(_: re.Match[str], fault: _Fault) -> Words:
    makers = fault.calls("arange", "zeros", "full", "reshape", "broadcast_to")
    found = [node for call in makers for argument in call.args for node in ast.walk(argument)]
    names = [node.id for node in found if isinstance(node, ast.Name) and node.id != "tl"]
    plain = [node.value for node in found if isinstance(node, ast.Constant) and type(node.value) is int]
    size = next((value for value in plain if value & (value - 1)), None)
    for name in names:
        size = fault.number(name) if size is None else size
    got = f", and {size} is none" if size else ""
    larger = f"{1 << (size - 1).bit_length()}, the next one," if size else "`triton.next_power_of_2(size)`"
    return Words(
        "A block size that is no power of two",
        f"The sides of a block must be powers of two{got}.",
        f"Take {larger} and a mask for the lanes beyond the end.",
    )


@_rule(r"axis (-?\d+) out of bounds for shape \[(.{0,200})|invalid axis -?\d+")
def _no_such_axis(found: re.Match[str], _: _Fault) -> Words:
    shape = re.findall(r"\d+", found[2] or "")
    if not shape:
        return Words("An axis that does not exist", "", "A block of one axis has axis 0, one of two has 0 and 1.")
    axes = "axis 0" if len(shape) == 1 else f"axes 0 to {len(shape) - 1}"
    return Words(
        "An axis that does not exist",
        f"The block has the shape [{', '.join(shape)}]: it has {axes}, and no axis {found[1]}.",
        "Write `axis=0`." if len(shape) == 1 else "Axis 0 runs down the rows, axis 1 along a row.",
    )


@_rule(r"(program_id|num_programs) axis must be 0, 1, or 2 but got (-?\d+)")
def _no_axis_of_grid(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "An axis that a grid does not have",
        f"A grid has the axes 0, 1 and 2, and `tl.{found[1]}` was asked for {found[2]}.",
        f"Write `tl.{found[1]}(0)` for the first axis of the grid, 1 for the second.",
    )


@_rule(r"incompatible dimensions at index (\d+): (\d+) and (\d+)")
def _shapes(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "Two shapes that do not fit together",
        f"Along axis {found[1]} one block has {found[2]} elements and the other {found[3]}; sizes must be equal, or "
        "one of them 1.",
        "Are both made with the same block size? To combine every row with every column, give each an axis of its "
        "own: `rows[:, None]` and `columns[None, :]`.",
    )


@_rule(
    r"Cannot broadcast, |operands could not be broadcast|shape mismatch: objects cannot be broadcast|"
    r"non-broadcastable|cannot be broadcast"
)
def _broadcast(found: re.Match[str], fault: _Fault) -> Words:
    shapes = re.findall(r"[\[(]\d[\d, ']*[\])]", fault.message[found.start() :])
    given = f": {' and '.join(shapes[:2])}" if len(shapes) > 1 else ""
    return Words(
        "Two shapes that do not fit together",
        f"The shapes of two blocks do not combine{given}. Sizes must be equal, or one of them 1.",
        "Print the shapes with tl.static_print. `rows[:, None]` and `columns[None, :]` give each an axis of its own.",
    )


@_rule(r"(Value|Mask|Other) argument cannot be block type if pointer argument is not a block")
def _scalar_pointer(found: re.Match[str], fault: _Fault) -> Words:
    call = next(fault.calls("load", "store"), None)
    pointer = ast.unparse(call.args[0]) if call and call.args else "the pointer"
    what = {"Value": "the value", "Mask": "`mask=`", "Other": "`other=`"}[found[1]]
    verb = "store" if call is not None and last_name(call.func) == "store" else "load"
    return Words(
        f"A block, and a pointer to one element, in tl.{verb}",
        f"`{pointer}` points to one element, and {what} is a whole block.",
        f"Write `tl.{verb}({pointer} + offsets, …)`: a block of pointers, one for each lane.",
    )


@_rule(r"Unsupported ptr type .* in `tl\.(load|store)`")
def _no_pointer(found: re.Match[str], fault: _Fault) -> Words:
    call = next(fault.calls(found[1]), None)
    given = f"`{ast.unparse(call.args[0])}`" if call and call.args else "Its first argument"
    return Words(
        f"tl.{found[1]} without a pointer",
        f"{given} holds numbers, and tl.{found[1]} follows pointers.",
        f"Add the offsets to a tensor's pointer: `tl.{found[1]}(x_ptr + offsets, …)`.",
    )


@_rule(r"cannot add pointers together")
def _two_pointers(_: re.Match[str], __: _Fault) -> Words:
    return Words(
        "Two pointers are added",
        "A pointer plus a number is an address; a pointer plus a pointer is nothing.",
        "Load both first: `tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)`.",
    )


@_rule(r"Loop-carried variable (\w+) has initial type (.{1,80}?) but is re-assigned to (.{1,80}?) in loop")
def _changing_type(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "A variable that changes its type in a loop",
        f"`{found[1]}` is {found[2]} before the loop, and the loop makes it {found[3]}.",
        f"Give it the loop's type and shape from the start, such as `{found[1]} = tl.zeros((BLOCK,), "
        "dtype=tl.float32)`, or convert what you assign to it with `.to(…)`.",
    )


# -- tl.dot ------------------------------------------------------------------------------------------------------------


@_rule(r"Both operands must be same dtype\. Got (\w+) and (\w+)")
def _dot_dtypes(found: re.Match[str], fault: _Fault) -> Words:
    call = next(fault.calls("dot"), None)
    example = "`b.to(a.dtype)`"
    if call is not None and len(call.args) > 1:
        left, right = (ast.unparse(one) for one in call.args[:2])
        example = f"`tl.dot({left}, {right}.to({left}.dtype))`"
    return Words(
        "dtypes that do not mix in tl.dot",
        f"tl.dot multiplies two blocks of the same dtype, and got {found[1]} and {found[2]}.",
        f"Convert one of them: {example}. The smaller dtype is faster, and loses digits of the other one.",
    )


@_rule(r"equal reduction dimensions|First input shape|must have equal ranks|be either 2D or 3D")
def _dot_shapes(_: re.Match[str], __: _Fault) -> Words:
    return Words(
        "Shapes that do not fit in tl.dot",
        "tl.dot multiplies blocks of the shapes [M, K] and [K, N].",
        "Give both two axes, and the same K. For Kᵀ exchange the axes: `tl.trans(k)`. A sum over two vectors is "
        "`tl.sum(a * b, axis=0)`.",
    )


@_rule(r"Input shapes should have M >= (\d+), N >= (\d+) and K >= (\d+)")
def _dot_sizes(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "Blocks that are too small for tl.dot",
        f"tl.dot needs at least M = {found[1]}, N = {found[2]} and K = {found[3]} here.",
        "Take larger blocks and mask what is too much; or sum products: `tl.sum(a * b, axis=0)`.",
    )


# -- Python's and torch's functions ------------------------------------------------------------------------------------

# What to write for functions and methods of NumPy, torch or math that Triton's language calls otherwise.
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


@_rule(r"([\w.]+)\.(\w+) is Python's, and a kernel has none: (.*)")
def _foreign_function(found: re.Match[str], _: _Fault) -> Words:
    home, name, advice = found[1], found[2], found[3]
    otherwise = _otherwise(name)
    top = home.partition(".")[0]
    library = {"np": "NumPy", "numpy": "NumPy", "math": "Python's math"}.get(top, top)
    return Words(
        f"{library} inside a kernel",
        f"`{home}.{name}` is not of Triton's language: a kernel runs on the GPU, where Python's libraries are not.",
        f"Write {otherwise}." if otherwise else f"{advice[:1].upper()}{advice[1:]}.",
    )


@_rule(
    r"`(\w+)`: a \w+, which a kernel cannot use|"
    r"a kernel has no (\w+)(?: \([\w.]+ is Python's\)|, which is Python's)"
)
def _function_of_python(found: re.Match[str], fault: _Fault) -> Words | None:
    name = found[1] or found[2]
    if not re.search(rf"\b{name}\(", fault.code):
        return None
    known = re.search(r"write (tl\.\w+)", fault.message)
    otherwise = _otherwise(name) or (f"`{known[1]}(…)`" if known else "")
    return Words(
        "A function of Python's inside a kernel",
        f"`{name}` is not of Triton's language: a kernel runs on the GPU, where Python's functions are not.",
        _write(otherwise, f"Write what triton.language offers for it: look for a function like `tl.{name}`."),
    )


@_rule(r"a kernel uses (int|float|bool) in no other way than to call it")
def _type_of_python(found: re.Match[str], _: _Fault) -> Words:
    kind = {"int": "tl.int32", "float": "tl.float32", "bool": "tl.int1"}[found[1]]
    return Words(
        "A dtype of Python's",
        f"`{found[1]}` is a type of Python's, and blocks have Triton's dtypes.",
        f"Write `{kind}`.",
    )


@_rule(r"Unsupported function referenced: <(?:ufunc '|built-in (?:method|function) )(\w+)")
def _foreign_object(found: re.Match[str], _: _Fault) -> Words:
    return Words(
        "NumPy or torch inside a kernel",
        f"`{found[1]}` is not of Triton's language: a kernel runs on the GPU, where Python's libraries are not.",
        _write(
            _otherwise(found[1]), f"Write what triton.language offers for it: look for a function like `tl.{found[1]}`."
        ),
    )


@_rule(r"convert an array of size 1 to a Python scalar|must be real number, not tensor|only length-1 arrays|only 0-dim")
def _of_one_number(_: re.Match[str], fault: _Fault) -> Words | None:
    name = re.search(r"\bmath\.(\w+)\(", fault.code)
    if name is None:
        return None
    return Words(
        "Python's math on a block",
        f"`math.{name[1]}` takes a single number of Python's, and here it gets a block.",
        f"Write `tl.{name[1]}(…)`.",
    )


@_rule(r"a (?:tensor|block|pointer) has no (\w+)|'tensor' object has no attribute '(\w+)'|a kernel has no `\.(\w+)`")
def _foreign_method(found: re.Match[str], _: _Fault) -> Words | None:
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


@_rule(r"`([\w.]+)\.(\w+)` is not of Triton's language: (?:did you mean ([\w.]+)\?)?")
def _no_such_function(found: re.Match[str], _: _Fault) -> Words:
    write = f"`{found[3]}`" if found[3] else _otherwise(found[2])
    return Words(
        "A function that Triton's language does not have",
        f"There is no `{found[1]}.{found[2]}`." + (f" The nearest name is `{found[3]}`." if found[3] else ""),
        _write(write, "Compute with what triton.language offers."),
    )


@_rule(r"'int' object is not callable|tuple index out of range|list index out of range")
def _asked_for_length(_: re.Match[str], fault: _Fault) -> Words | None:
    name = re.search(r"\.(numel|size|stride|dim|shape)\b", fault.code)
    return _length_of_pointer(name[1]) if name and fault.in_kernel else None


def _length_of_pointer(name: str) -> Words:
    return Words(
        "A pointer knows no length",
        f"A kernel gets a tensor as a bare pointer, without `.{name}`.",
        "Pass lengths and strides as arguments of their own, such as `n_elements` or `x.stride(0)`.",
    )


# -- the machine -------------------------------------------------------------------------------------------------------


@_rule(r"not compiled with CUDA|No CUDA GPUs|no NVIDIA driver|Expected a cuda device")
def _no_gpu(_: re.Match[str], __: _Fault) -> Words:
    return Words("", "", _ON_THE_CPU)


_ON_THE_CPU = "Tensors are on the CPU here: allocate on x.device, and remove code that insists on a GPU."


@_rule("tl.multiple_of promises")
def _broken_promise(_: re.Match[str], __: _Fault) -> Words:
    return Words(
        "",
        "",
        "Because of it, compiled code loads several elements at once, and fails or goes wrong if it is false: "
        "remove tl.multiple_of where a size, a stride or a first element can be any number.",
    )


@_rule("misaligned address")
def _misaligned(_: re.Match[str], __: _Fault) -> Words:
    return Words(
        "",
        "",
        "A load or a store of several elements at once met a misaligned address. Look for a tl.multiple_of or "
        "tl.max_contiguous that promises too much: `rows % M` starts again at 0 where M ends.",
    )


@_rule(r"No module named '([\w.]{1,80})'")
def _no_module(found: re.Match[str], _: _Fault) -> Words:
    said = f"{found[1]} is not installed where this is graded: copy the code that you need into the file."
    return Words("", "", said)


@_rule("")
def _insists_on_a_gpu(_: re.Match[str], fault: _Fault) -> Words | None:
    return Words("", "", _ON_THE_CPU) if "is_cuda" in fault.code else None
