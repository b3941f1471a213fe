"""Say exceptions of blocks and pointers: their sizes, shapes, truth values, elements and dtypes."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from grader.judge.wording.rewriting import element_in, last_name, quoted, with_arange, with_load, with_signs
from grader.judge.wording.rules import Fault, Rules, Words, write

RULES = Rules()
# Types of tl that are written like a conversion.
_TYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "int1")


@RULES.rule(r"'(?:static_)?range' object has no attribute|cannot convert (?:static_)?range\(")
def _range_as_value(_: re.Match[str], fault: Fault) -> Words:
    return Words(
        "`range` where `tl.arange` is meant",
        "`range` counts the steps of a `for` loop; it is no block of numbers.",
        write(with_arange(fault.tree), "Write `tl.arange(0, BLOCK)` for a block of numbers."),
    )


@RULES.rule(r"'(?:int|constexpr)' object is not iterable")
def _shape_without_tuple(_: re.Match[str], fault: Fault) -> Words | None:
    call = next(fault.calls("zeros", "full"), None)
    if call is None or not call.args or isinstance(call.args[0], ast.Tuple | ast.List):
        return None
    call.args[0] = ast.Tuple([call.args[0]], ast.Load())
    return Words(
        "A shape that is no tuple",
        "A shape is a tuple, with the size of each axis.",
        write(quoted(call), "Write `tl.zeros((BLOCK,), dtype=tl.float32)`."),
    )


@RULES.rule(r"cannot access local variable '(\w+)'")
def _without_value(found: re.Match[str], fault: Fault) -> Words | None:
    if not fault.in_kernel:
        return None
    return Words(
        "A variable without a value",
        f"`{found[1]}` has no value here: only a branch or a loop assigns it, or it is the counter of a loop that has "
        "ended. Compiled code then holds any number.",
        f"Assign `{found[1]}` before the branch or the loop. Behind a loop, compute with the loop's bounds.",
    )


@RULES.rule(r"Mask must have boolean scalar type")
def _mask_of_numbers(_: re.Match[str], __: Fault) -> Words:
    return Words(
        "A mask that holds numbers",
        "A mask says yes or no for each lane, and this one holds numbers.",
        "Compare: `mask = offsets < n_elements`.",
    )


@RULES.rule(
    r"'int' object is not iterable|object is not subscriptable|nsupported tensor index|"
    r"_semantic.? argument must be provided|only integer tensors of a single element"
)
def _indexed_pointer(_: re.Match[str], fault: Fault) -> Words | None:
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
            write(with_load(fault.tree), f"Write `tl.load({base} + {place}, mask=mask)`."),
        )
    return Words(
        "An element is read with brackets",
        f"`{base}` is no list: tl.load follows a pointer, and a block is computed with as a whole.",
        f"Is `{base}` a pointer? Write `tl.load({base} + {place}, mask=mask)`. Is it a block? Use all of its lanes at "
        "once, or sum them: `tl.sum(x, axis=0)`.",
    )


@RULES.rule(r"nsupported tensor index: slice")
def _sliced(_: re.Match[str], __: Fault) -> Words:
    return Words(
        "A slice of a block",
        "A block has no slices: its shape is fixed when the kernel is compiled.",
        "Load the elements that you need, `tl.load(x_ptr + offsets, mask=mask)`, or choose among lanes with tl.where.",
    )


def _is_pointer(name: str) -> bool:
    """Return whether a name looks like a pointer's."""
    return "ptr" in name.lower() or "pointer" in name.lower()


@RULES.rule(r"a kernel stores to no element")
def _indexed_store(_: re.Match[str], fault: Fault) -> Words | None:
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


@RULES.rule(r"a kernel loops over range, tl\.range or tl\.static_range")
def _loop_over_block(_: re.Match[str], __: Fault) -> Words:
    return Words(
        "A loop over something that is no range",
        "A kernel loops over range, tl.range or tl.static_range.",
        "A block needs no loop: an operator computes all of its lanes at once. Else write `for i in range(n):`.",
    )


@RULES.rule(
    r"only a scalar is true or false|[Tt]ruth value of an array|Boolean value of Tensor with more than one value"
)
def _truth_of_block(_: re.Match[str], fault: Fault) -> Words:
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


@RULES.rule(r"compares two values at a time|simultaneous multiple comparison")
def _chained(_: re.Match[str], fault: Fault) -> Words:
    return Words(
        "A chained comparison",
        "A kernel compares two values at a time.",
        write(with_signs(fault.tree), "Write `(a <= b) & (b < c)`."),
    )


def _sizes_given(fault: Fault) -> list[ast.AST]:
    """Return all nodes in the arguments of those functions of the line that make blocks of a size."""
    makers = fault.calls("arange", "zeros", "full", "reshape", "broadcast_to")
    return [node for call in makers for argument in call.args for node in ast.walk(argument)]


def _names_in(nodes: Sequence[ast.AST]) -> list[str]:
    return [node.id for node in nodes if isinstance(node, ast.Name) and node.id != "tl"]


@RULES.rule(r"arange's arguments must be of type tl.constexpr|must have type `constexpr\[int\]`")
def _no_constexpr(_: re.Match[str], fault: Fault) -> Words:
    given = _sizes_given(fault)
    if any(isinstance(node, ast.Div) for node in given):
        return Words(
            "A block size with a fraction",
            "`/` gives a number with a fraction, and a size is whole.",
            "Write `//`, as in `BLOCK // 2`.",
        )
    sizes = _names_in(given)
    name = f"`{sizes[0]}`" if sizes else "The size of the block"
    block = sizes[0] if sizes else "BLOCK"
    declared = f"eclare it in the kernel's `def`: `{block}: tl.constexpr`."
    length = "Is it the length of the data? Take a block size of your own, and a mask for the lanes beyond the end."
    return Words(
        "A block size that is no tl.constexpr",
        f"{name} is known only when the kernel runs, and the compiler must know how large a block is.",
        f"D{declared}" if block.isupper() else f"{length} Is it the block size? D{declared}",
    )


@RULES.rule(r"arange's range must be a power of 2|Shape element \d+ must be a power of 2")
def _no_power_of_two(_: re.Match[str], fault: Fault) -> Words:
    found = _sizes_given(fault)
    names = _names_in(found)
    plain = [node.value for node in found if isinstance(node, ast.Constant) and type(node.value) is int]
    size = next((value for value in plain if value & (value - 1)), None)
    for name in names:
        size = fault.number(name) if size is None else size
    got = f", and {size} is none" if size else ""
    name = names[0] if names else "size"
    larger = (
        f"{1 << (size - 1).bit_length()}, the next one," if size else f"`triton.next_power_of_2({name})`, where the "
    )
    larger += "" if size else f"launch gives `{name}`,"
    return Words(
        "A block size that is no power of two",
        f"The sides of a block must be powers of two{got}.",
        f"Take {larger} and a mask for the lanes beyond the end.",
    )


@RULES.rule(r"axis (-?\d+) out of bounds for shape \[(.{0,200})|invalid axis -?\d+")
def _no_such_axis(found: re.Match[str], _: Fault) -> Words:
    shape = re.findall(r"\d+", found[2] or "")
    if not shape:
        return Words("An axis that does not exist", "", "A block of one axis has axis 0, one of two has 0 and 1.")
    axes = "axis 0" if len(shape) == 1 else f"axes 0 to {len(shape) - 1}"
    return Words(
        "An axis that does not exist",
        f"The block has the shape [{', '.join(shape)}]: it has {axes}, and no axis {found[1]}.",
        "Write `axis=0`." if len(shape) == 1 else "Axis 0 runs down the rows, axis 1 along a row.",
    )


@RULES.rule(r"(program_id|num_programs) axis must be 0, 1, or 2 but got (-?\d+)")
def _no_axis_of_grid(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "An axis that a grid does not have",
        f"A grid has the axes 0, 1 and 2, and `tl.{found[1]}` was asked for {found[2]}.",
        f"Write `tl.{found[1]}(0)` for the first axis of the grid, 1 for the second.",
    )


def _operands_of(fault: Fault) -> str:
    """Return the two names that a line combines, in words. A pointer and its offsets are no pair."""
    pairs = [
        f"`{node.left.id}` and `{node.right.id}`"
        for node in ast.walk(fault.tree or ast.Pass())
        if isinstance(node, ast.BinOp) and isinstance(node.left, ast.Name) and isinstance(node.right, ast.Name)
        if "ptr" not in f"{node.left.id} {node.right.id}"
    ]
    return pairs[0] if len(pairs) == 1 else "both"


@RULES.rule(r"`(and|or)` joins truth values, and here it gets (\w+)")
def _joined_numbers(found: re.Match[str], _: Fault) -> Words:
    sign = "&" if found[1] == "and" else "|"
    return Words(
        f"`{found[1]}` of numbers in a kernel",
        f"`{found[1]}` joins conditions, and one side is a block of {found[2]}.",
        f"Compare it, as in `x != 0`, and join conditions of blocks by `{sign}` in brackets: `mask {sign} (x != 0)`.",
    )


@RULES.rule(r"incompatible dimensions at index (\d+): (\d+) and (\d+)")
def _shapes(found: re.Match[str], fault: Fault) -> Words:
    return Words(
        "Two shapes that do not fit together",
        f"Along axis {found[1]} one block has {found[2]} elements and the other {found[3]}; sizes must be equal, or "
        "one of them 1.",
        f"Make {_operands_of(fault)} with the same block size, in the lines that load or compute them. To combine "
        "every row with every column, give each an axis of its own: `rows[:, None]` and `columns[None, :]`.",
    )


@RULES.rule(
    r"Cannot broadcast, |operands could not be broadcast|shape mismatch: objects cannot be broadcast|"
    r"non-broadcastable|cannot be broadcast"
)
def _broadcast(found: re.Match[str], fault: Fault) -> Words:
    shapes = re.findall(r"[\[(]\d[\d, ']*[\])]", fault.message[found.start() :])
    given = f": {' and '.join(shapes[:2])}" if len(shapes) > 1 else ""
    return Words(
        "Two shapes that do not fit together",
        f"The shapes of two blocks do not combine{given}. Sizes must be equal, or one of them 1.",
        "Print the shapes with tl.static_print. `rows[:, None]` and `columns[None, :]` give each an axis of its own.",
    )


@RULES.rule(r"(Value|Mask|Other) argument cannot be block type if pointer argument is not a block")
def _scalar_pointer(found: re.Match[str], fault: Fault) -> Words:
    call = next(fault.calls("load", "store"), None)
    pointer = ast.unparse(call.args[0]) if call and call.args else "the pointer"
    base = ast.unparse(_first_term(call.args[0])) if call and call.args else pointer
    what = {"Value": "the value", "Mask": "`mask=`", "Other": "`other=`"}[found[1]]
    verb = "store" if call is not None and last_name(call.func) == "store" else "load"
    return Words(
        f"A block, and a pointer to one element, in tl.{verb}",
        f"`{pointer}` points to one element, and {what} is a whole block.",
        f"Write `tl.{verb}({base} + offsets, …, mask=mask)`: a block of pointers, one for each lane, with the indices "
        "and the mask that the other accesses of this block take.",
    )


def _first_term(node: ast.expr) -> ast.expr:
    """Return the first term of a sum: z_ptr of `z_ptr + pid * BLOCK`."""
    return _first_term(node.left) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else node


@RULES.rule(r"Unsupported ptr type .* in `tl\.(load|store)`")
def _no_pointer(found: re.Match[str], fault: Fault) -> Words:
    call = next(fault.calls(found[1]), None)
    given = f"`{ast.unparse(call.args[0])}`" if call and call.args else "Its first argument"
    return Words(
        f"tl.{found[1]} without a pointer",
        f"{given} holds numbers, and tl.{found[1]} follows pointers.",
        f"Add the offsets to a tensor's pointer: `tl.{found[1]}(x_ptr + offsets, …)`.",
    )


@RULES.rule(r"cannot add pointers together")
def _two_pointers(_: re.Match[str], __: Fault) -> Words:
    return Words(
        "Two pointers are added",
        "A pointer plus a number is an address; a pointer plus a pointer is nothing.",
        "Load both first: `tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)`.",
    )


@RULES.rule(r"Loop-carried variable (\w+) has initial type (.{1,80}?) but is re-assigned to (.{1,80}?) in loop")
def _changing_type(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "A variable that changes its type in a loop",
        f"`{found[1]}` is {found[2]} before the loop, and the loop makes it {found[3]}.",
        f"Give it the loop's type and shape from the start, such as `{found[1]} = tl.zeros((BLOCK,), "
        "dtype=tl.float32)`, or convert what you assign to it with `.to(…)`.",
    )


@RULES.rule(r"Both operands must be same dtype\. Got (\w+) and (\w+)")
def _dot_dtypes(found: re.Match[str], fault: Fault) -> Words:
    call = next(fault.calls("dot"), None)
    example = "`b.to(a.dtype)`"
    if call is not None and len(call.args) > 1:
        left, right = (ast.unparse(_unconverted(one)) for one in call.args[:2])
        plain = [left, right] == [ast.unparse(one) for one in call.args[:2]]
        second = f"{right}.to({left}.dtype)" if plain else right
        meant = ast.Call(call.func, [ast.Name(left), ast.Name(second), *call.args[2:]], call.keywords)
        example = quoted(meant) or f"`{second}`"
    return Words(
        "dtypes that do not mix in tl.dot",
        f"tl.dot multiplies two blocks of the same dtype, and got {found[1]} and {found[2]}.",
        f"Give both the same dtype: {example}. The smaller dtype is faster, and loses digits of the other one.",
    )


def _unconverted(node: ast.expr) -> ast.expr:
    """Return x of x.to(dtype); any other expression as it is."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="to")):
            return value
        case _:
            return node


@RULES.rule(r"equal reduction dimensions|First input shape|must have equal ranks|be either 2D or 3D")
def _dot_shapes(_: re.Match[str], __: Fault) -> Words:
    return Words(
        "Shapes that do not fit in tl.dot",
        "tl.dot multiplies blocks of the shapes [M, K] and [K, N].",
        "Give both two axes, and the same K. For Kᵀ exchange the axes: `tl.trans(k)`. A sum over two vectors is "
        "`tl.sum(a * b, axis=0)`.",
    )


@RULES.rule(r"Input shapes should have M >= (\d+), N >= (\d+) and K >= (\d+)")
def _dot_sizes(found: re.Match[str], _: Fault) -> Words:
    return Words(
        "Blocks that are too small for tl.dot",
        f"tl.dot needs at least M = {found[1]}, N = {found[2]} and K = {found[3]} here.",
        "Take larger blocks and mask what is too much; or sum products: `tl.sum(a * b, axis=0)`.",
    )


@RULES.rule(r"(base|strides?) must be 16-byte aligned|[Ll]ast dim(?:ension)? must be contiguous")
def _no_descriptor(found: re.Match[str], _: Fault) -> Words:
    what = {
        "base": "its first element lies at an address that is a multiple of 16 bytes",
        None: "its last axis is contiguous (stride 1)",
    }.get(found[1], "every stride but the last one is a multiple of 16 bytes: 8 elements of float16, 4 of float32")
    return Words(
        "A tensor that descriptors cannot describe",
        f"The hardware that copies tiles (TMA) takes a tensor only if {what}.",
        "Take a kernel with pointers and masks for such a tensor, or copy it into memory with padded rows.",
    )


@RULES.rule(r"a static assertion failed|static_assert\(.*\n\s*\^")
def _false_assertion(_: re.Match[str], fault: Fault) -> Words:
    call = next(fault.calls("static_assert"), None)
    condition = quoted(call.args[0]) if call is not None and call.args else ""
    return Words(
        "A static assertion is false",
        f"{condition or 'Its condition'} is false for the sizes of this case.",
        "Choose block sizes for which it holds, or write the kernel so that it is not needed.",
    )


@RULES.rule(r"'dtype' object is not callable")
def _called_type(_: re.Match[str], fault: Fault) -> Words:
    call = next(fault.calls(*_TYPES), None)
    written = f"tl.{last_name(call.func)}" if call is not None else "tl.float32"
    given = call.args[0] if call is not None and len(call.args) == 1 else ast.Name("x")
    value = ast.unparse(given)
    is_number = isinstance(given, ast.Constant) or (isinstance(given, ast.Call) and last_name(given.func) == "float")
    converted = "" if is_number else f"`({value}).to({written})` for a block, and "
    return Words(
        "A type is called like a function",
        f"`{written}` is a type, and converts nothing by a call.",
        f"Write {converted}`tl.full((), {value}, {written})` for a number.",
    )
