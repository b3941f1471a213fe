"""List edits for small mistakes in loops and their bounds."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product

from grader.diagnosis.edits.edit_scope import (
    LIMITS,
    MOST,
    NOW_AND_THEN,
    OFTEN,
    RARELY,
    SOMETIMES,
    Edit,
    Finder,
    Scope,
    addends,
    bare_name,
    called,
    names_in,
)
from grader.phrases import cut

# The kinds of a branch that is taken in the wrong cases, and of a return before a store.
WRONG_BRANCH, RETURN = "wrong_branch", "returns_early"
# The kinds of a limit that must be left out.
_LIMITS = {"minimum": ("past_length", "done_again", "missing_mask"), "maximum": ("maximum_start", "missing_mask")}
# Functions whose results are no indices.
_OF_VALUES = frozenset({"exp", "exp2", "log", "log2", "sum", "max", "dot"})
# The number of last statements of a loop that are moved after it, and the letters of them that a card shows.
_MOST_MOVED, _LONGEST_MOVED = 3, 60
# The kinds of a bound that may be negative, and of a mask by the whole length in a loop over a part of it.
_NEGATIVE = ("bad_index", "position_shifted", "causal_loop", "wrong_address")
_BEYOND_PART = ("done_again", "causal_loop", "past_length", "missing_mask")
# Statements that are exchanged with the line before them.
_EXCHANGED = (ast.Assign, ast.AugAssign, ast.If, ast.For, ast.While)
# The kinds of a comparison with a number that must be another one in some cases.
_COUNTS = ("not_all_covered", "done_again", "missing_mask")
# The kinds of a loop whose end is too small, and of one with a literal number of steps.
_TOO_EARLY = ("causal_loop", "block_left_out")
_STEPS = ("not_all_covered", "remainder_skipped", "size_assumed")
_NEVER_MET = ("block_left_out", "remainder_skipped", "last_left_out")
_HIDDEN = ("padding_counted", "maximum_start", "causal_missing", "overflow", "inf_minus_inf")


def _moved_lines(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Move the last statements of a loop after it, or the first statements after it into it."""
    if not isinstance(node, ast.For | ast.While) or node.orelse or node.body[0].lineno == node.lineno:
        return
    by = node.body[0].col_offset - node.col_offset
    for count in range(1, min(_MOST_MOVED, len(node.body) - 1) + 1):
        yield from _indented(scope, node.body[-count:], -by, "runs_in_every_step")
    bodies = (body for _, body in ast.iter_fields(scope.parents[node]) if isinstance(body, list) and node in body)
    for body in bodies:
        behind = body[body.index(node) + 1 :]
        for count in range(1, min(_MOST_MOVED, len(behind)) + 1):
            yield from _indented(scope, behind[:count], by, "runs_once")


def _indented(scope: Scope, moved: Sequence[ast.stmt], by: int, kind: str) -> Iterator[Edit]:
    """Yield the edit that moves statements to the right, or to the left if `by` is negative."""
    first, last = moved[0].lineno, moved[-1].end_lineno or moved[-1].lineno
    if any(isinstance(one, ast.Return) for one in moved) or first <= 1:
        return
    # With the end of the line before: only whitespace changes in this text.
    start, end = scope.starts[first - 1] - 1, scope.starts[last - 1] + (moved[-1].end_col_offset or 0)
    before = scope.source[start:end].decode()
    space = " " * abs(by)
    after = before.replace("\n", f"\n{space}") if by > 0 else before.replace(f"\n{space}", "\n")
    where = "in the loop", "after the loop"
    now, then = where if by < 0 else where[::-1]
    words = cut(" ".join(before.split()), _LONGEST_MOVED)
    shown = f"{words}  # {then}", f"{words}  # {now}"
    yield Edit(first, before, after, (kind,), SOMETIMES, start, end, scope.in_kernel, shown=shown)


def _swapped_lines(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange two neighbouring lines: lines of a loop of which one uses the other, or a line that reads too early."""
    if not scope.in_kernel or not isinstance(node, ast.For | ast.While | ast.If | ast.FunctionDef):
        return
    for one, other in (pair for body in (node.body, getattr(node, "orelse", [])) for pair in pairwise(body)):
        if not isinstance(one, ast.Assign | ast.AugAssign) or not isinstance(other, _EXCHANGED):
            continue
        if not (isinstance(node, ast.For | ast.While) and _follows(one, other)) and not _is_too_early(one, other):
            continue
        first, second = scope.text(one), scope.text(other)
        start, end = scope.span(one)[0], scope.span(other)[1]
        before = scope.source[start:end].decode()
        between = before[len(first) : len(before) - len(second)]
        shown = f"{_first_line(second)}  # first", f"{_first_line(first)}  # first"
        kinds = ("lines_exchanged", "no_rescale")
        yield Edit(
            one.lineno, before, f"{second}{between}{first}", kinds, SOMETIMES, start, end, scope.in_kernel, shown=shown
        )


def _follows(one: ast.Assign | ast.AugAssign, other: ast.stmt) -> bool:
    """Return whether a line reads or replaces the value of the line before it."""
    given = {name for target in _targets(one) for name in names_in(target)}
    is_next = one.lineno == one.end_lineno and other.lineno == one.lineno + 1
    return isinstance(other, ast.Assign | ast.AugAssign) and is_next and bool(given & names_in(other))


def _is_too_early(one: ast.Assign | ast.AugAssign, other: ast.stmt) -> bool:
    """Return whether a line reads a name that the next statement changes, and that statement does not need the line."""
    given = {name for target in _targets(one) for name in names_in(target)}
    changed = {node.id for node in ast.walk(other) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bool(changed & names_in(one.value)) and not given & names_in(other)


def _first_line(text: str) -> str:
    """Return the first line of a statement, with "…" if more lines follow."""
    first, *rest = text.splitlines()
    return f"{first} …" if rest else first


def _targets(one: ast.Assign | ast.AugAssign) -> list[ast.expr]:
    return one.targets if isinstance(one, ast.Assign) else [one.target]


def _early_returns(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Remove an early return of a program: others wait for its result, or for its ticket."""
    if not scope.in_kernel or not isinstance(node, ast.If) or node.orelse or len(node.body) > 1:
        return
    if isinstance(node.body[0], ast.Return) and node.body[0].value is None:
        # To clear the memory would make the call right too, but the return is the reason.
        stores = (one for one in ast.walk(scope.function) if called(one) == "store" and isinstance(one, ast.Call))
        weight = MOST if any(one.lineno > node.lineno for one in stores) else OFTEN
        yield scope.edit(node.test, "False", (RETURN, "not_all_covered", "not_cleared"), weight)


def _accumulators(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Add to the value of earlier steps of a loop, if a step starts again."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return
    name, value = node.targets[0].id, node.value
    if name in names_in(value):
        return
    if scope.known_from[name] >= node.lineno or not scope.in_a_loop(node):
        return
    text = scope.text(value)
    yield scope.edit(value, f"{name} + {text}", ("sum_restarted",), OFTEN)
    if called(value) == "dot" and isinstance(value, ast.Call) and len(value.args) == 2:
        yield scope.edit(value.args[1], f"{scope.text(value.args[1])}, {name}", ("sum_restarted",), OFTEN)


def _kept_accumulators(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Reset an accumulator in every step of an outer loop: an inner loop adds to it, and the outer one stores it."""
    if not scope.in_kernel or not isinstance(node, ast.For):
        return
    inner = [one for one in node.body if isinstance(one, ast.For | ast.While)]
    named = [one for loop in inner for one in ast.walk(loop) if isinstance(one, ast.Name)]
    added_to = {scope.target_of(one)[0] for loop in inner for one in ast.walk(loop) if isinstance(one, ast.expr)}
    read = {one.id for one in named if isinstance(one.ctx, ast.Load)} | added_to
    grown = {one.id for one in named if isinstance(one.ctx, ast.Store)} & read
    own = {name for one in node.body if isinstance(one, ast.Assign) for name in names_in(one.targets[0])}
    steps = [one for one in node.body if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
    for one in ast.walk(scope.function):
        is_start = isinstance(one, ast.Assign) and one.lineno < node.lineno and called(one.value) in ("zeros", "full")
        name = bare_name(one.targets[0]) if isinstance(one, ast.Assign) else ""
        if is_start and name in grown and name not in own and steps and isinstance(one, ast.Assign):
            first = steps[0].value
            after = f"{scope.text(first)}; {name} = {scope.text(one.value)}"
            yield scope.edit(first, after, ("not_restarted",), MOST)


def _stale_values(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Compute a value again in a loop that changes its operands: the pointers to the rows of the next tile."""
    if not scope.in_kernel or not isinstance(node, ast.For | ast.While):
        return
    assigned = [one for one in ast.walk(node) if isinstance(one, ast.Assign) and bare_name(one.targets[0])]
    last = {bare_name(one.targets[0]): one for one in sorted(assigned, key=lambda one: one.lineno)}
    names = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
    stored = {one.id for one in names if isinstance(one.ctx, ast.Store)}
    used = {one.id for one in names if isinstance(one.ctx, ast.Load)}
    for one in ast.walk(scope.function):
        name = bare_name(one.targets[0]) if isinstance(one, ast.Assign) else ""
        if not isinstance(one, ast.Assign) or name not in used - stored or one.lineno >= node.lineno:
            continue
        sources = [last[source] for source in names_in(one.value) if source in last]
        if sources:
            latest = max(sources, key=lambda source: source.lineno).value
            after = f"{scope.text(latest)}; {name} = {scope.text(one.value)}"
            yield scope.edit(latest, after, ("not_advanced",), MOST)


def _branches(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Take a branch in no case, or in all.

    If a call is right without a branch that only sets bounds of loops, one of these bounds is wrong.
    """
    if isinstance(node, ast.If) and not isinstance(node.test, ast.Constant):
        set_in = [bare_name(one.targets[0]) if isinstance(one, ast.Assign) else "" for one in node.body]
        kinds = (*_TOO_EARLY, WRONG_BRANCH) if all(name in scope.bounds for name in set_in) else (WRONG_BRANCH,)
        for taken in ("False", "True"):
            yield scope.edit(node.test, taken, kinds if taken == "False" else (WRONG_BRANCH,), NOW_AND_THEN / 2)


def _ends_of_blocks(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """End a loop behind the program's block, and not before it: `(pid + 1) * BLOCK`."""
    match node:
        case ast.BinOp(ast.Name(number), ast.Mult(), ast.Name(block)) if {number, block} & {*scope.constants}:
            place, size = (number, block) if block in scope.constants else (block, number)
        case _:
            return
    inside: ast.AST | None = node
    at = scope.parents.get(node)
    while isinstance(at, ast.BinOp) or called(at) in (*LIMITS, "cdiv"):
        inside, at = at, scope.parents[at] if at else None
    is_bound = isinstance(at, ast.Assign) and bare_name(at.targets[0]) in scope.bounds
    if inside is not node and (is_bound or (at in scope.ranges and inside in at.args[:2])):
        yield scope.edit(node, f"({place} + 1) * {size}", _TOO_EARLY, OFTEN)


def _missing_terms(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Add a difference of two sizes to a bound: the offset of the causal diagonal."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return
    parent = scope.parents.get(node)
    if called(parent) not in (*LIMITS, "range", "cdiv") and not isinstance(parent, ast.Compare | ast.Assign):
        return
    for name, line in scope.known_from.items():
        meaning = scope.meaning(ast.Name(name))
        is_difference = isinstance(meaning, ast.BinOp) and isinstance(meaning.op, ast.Sub)
        if is_difference and line < node.lineno and name not in names_in(node):
            yield scope.edit(node, f"({scope.text(node)} + {name})", ("causal_loop", "causal_alignment"), OFTEN)


def _is_reduction(node: ast.Call) -> bool:
    """Return whether a call is `tl.max(x, axis)` or `tl.min(x, axis)`."""
    is_method = isinstance(node.func, ast.Attribute) and called(node) in ("max", "min")
    return is_method and len(node.args) == 2 and isinstance(node.args[1], ast.Constant)


def _limits(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Limit a bound by a size, or remove its limit."""
    if not scope.in_kernel or not isinstance(node, ast.expr):
        return
    if isinstance(node, ast.Call) and _is_reduction(node):
        # tl.max(x, 0) takes the maximum along an axis, and limits nothing.
        # Along two axes, one after the other: one of them is an axis of the result.
        twice = called(node.args[0]) == called(node)
        yield scope.edit(node, scope.text(node.args[0]), ("wrong_axis",), MOST if twice else SOMETIMES)
    elif isinstance(node, ast.Call) and called(node) in LIMITS and len(node.args) == 2:
        kinds = _LIMITS["minimum" if called(node).startswith("min") else "maximum"]
        # A literal number limits values, not a bound.
        limits_values = any(_is_number(one) for one in node.args)
        for one in node.args:
            if limits_values and not _is_number(one):
                yield scope.edit(node, scope.text(one), ("value_shortcut", *kinds), SOMETIMES)
            else:
                yield scope.edit(node, scope.text(one), kinds, RARELY)
    if isinstance(node, ast.Call) and called(node) == "clamp" and node.args:
        yield scope.edit(node, scope.text(node.args[0]), ("value_shortcut",), SOMETIMES)
    parent = scope.parents.get(node)
    is_bound = called(parent) in ("range", "static_range") and isinstance(parent, ast.Call) and node in parent.args[:2]
    is_bound |= isinstance(parent, ast.Assign) and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    # A minimum of values hides NaN.
    is_bound &= not any(called(one) in _OF_VALUES for one in ast.walk(node))
    if is_bound and not isinstance(node, ast.Constant) and called(node) not in ("minimum", "maximum"):
        for name in (*scope.sizes, *scope.loaded):
            if name != scope.text(node) and scope.known_from[name] < node.lineno:
                after = f"tl.minimum({scope.text(node)}, {name})"
                yield scope.edit(node, after, _LIMITS["minimum"], RARELY)


def bounds_a_loop(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is a bound of a loop, or is assigned to a name in one."""
    return _is_given_to(scope, node, [bound for loop in scope.ranges for bound in loop.args])


def starts_a_loop(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is the start of a loop, or is assigned to a name in it."""
    return _is_given_to(scope, node, [loop.args[0] for loop in scope.ranges if len(loop.args) > 1])


def _is_given_to(scope: Scope, node: ast.expr, bounds: Sequence[ast.expr]) -> bool:
    parent = scope.parents.get(node)
    name = bare_name(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
    return node in bounds or (bool(name) and any(name in names_in(bound) for bound in bounds))


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression is a literal number, with or without a sign."""
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and isinstance(inner.value, int | float)


def _ends(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Mask by the end of a loop, and not by the whole length: the last block of a part reaches into the next part."""
    if not scope.in_kernel or not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
        return
    if called(node.iter) != "range" or len(node.iter.args) < 2:
        return
    end = scope.text(node.iter.args[1])
    for one in ast.walk(node):
        if isinstance(one, ast.Compare) and len(one.ops) == 1 and isinstance(one.ops[0], ast.Lt):
            bound = one.comparators[0]
            if bare_name(bound) in scope.sizes and scope.text(bound) != end:
                yield scope.edit(bound, end, _BEYOND_PART, OFTEN)
                if (within := _within_part(scope, one.left, bare_name(node.target))) is not None:
                    yield scope.edit(one, f"({scope.text(one)}) & ({within} < {end})", _BEYOND_PART, OFTEN)


def _within_part(scope: Scope, index: ast.expr, step: str) -> str | None:
    """Return the index within a part, if an index adds the part's start to it; else None."""
    terms = addends(scope.meaning(index))
    inside = [one for one in terms if bare_name(one) == step or _is_range(scope, one)]
    is_of_part = step in map(bare_name, inside) and 1 < len(inside) < len(terms)
    return " + ".join(map(scope.text, inside)) if is_of_part else None


def _is_range(scope: Scope, node: ast.expr) -> bool:
    """Return whether an expression is a range of lanes, or a name that stands for one."""
    return called(scope.meaning(node)) == "arange"


def _literal_ranges(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Iterate over the range of another loop, if the range of this one has literal numbers only."""
    if not scope.in_kernel or node not in scope.ranges or not isinstance(node, ast.Call):
        return
    if not all(map(_is_number, node.args)):
        return
    for other in dict.fromkeys(map(scope.text, (one for one in scope.ranges if not all(map(_is_number, one.args))))):
        yield scope.edit(node, other, _STEPS, OFTEN)


def _counts(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Compare with the number of steps of a loop, or with its last step, and not with another number."""
    if not scope.in_kernel or not isinstance(node, ast.Compare):
        return
    ends = [one.args[min(1, len(one.args) - 1)] for one in scope.ranges]
    if isinstance(node.ops[0], ast.Eq) and scope.text(node.comparators[0]) in map(scope.text, ends):
        # A counter never reaches the end of its range.
        yield scope.edit(node.comparators[0], f"{scope.text(node.comparators[0])} - 1", _NEVER_MET, OFTEN)
    names = [one for bound in node.comparators for one in ast.walk(bound) if bare_name(one) in scope.sizes]
    for one, end in product(names, ends):
        is_known = all(scope.known_from.get(name, 0) < node.lineno for name in names_in(end))
        if isinstance(one, ast.Name) and is_known and one.id not in names_in(end):
            yield scope.edit(one, scope.text(end), _COUNTS, SOMETIMES)


def _negative_bounds(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Limit a bound from below by 0: the last visible key of a row without any is negative."""
    parent = scope.parents.get(node)
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(parent, ast.Assign):
        return
    name = bare_name(parent.targets[0])
    is_passed_on = any(
        isinstance(one, ast.Call) and name in map(bare_name, one.args) for one in ast.walk(scope.function)
    )
    meant = [node, *(scope.meaning(ast.Name(one)) for one in names_in(node))]
    subtracts = any(isinstance(getattr(part, "op", None), ast.Sub) for one in meant for part in ast.walk(one))
    if name and is_passed_on and subtracts:
        yield scope.edit(node, f"tl.maximum({scope.text(node)}, 0)", _NEGATIVE, SOMETIMES)


def _hidden_elements(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Mask hidden elements in a maximum, or in the result of an exponential."""
    if not scope.in_kernel or not isinstance(node, ast.Call) or not node.args or not scope.in_a_loop(node):
        return
    text = scope.text(node)
    for mask in scope.conditions:
        if called(node) in ("exp", "exp2") and called(scope.parents.get(node)) != "where":
            edit = scope.edit(node, f"tl.where({mask}, {text}, 0.0)", _HIDDEN, SOMETIMES)
            yield replace(edit, shown=(f"tl.where({mask}, {called(node)}(…), 0.0)", f"{called(node)}(…)"))
        elif called(node) == "max" and len(node.args) + len(node.keywords) == 2 and not _is_of_maxima(scope, mask):
            # If nothing is visible yet, a maximum of -inf gives NaN.
            for lowest in ('float("-inf")', "-1e30"):
                after = f"tl.where({mask}, {scope.text(node.args[0])}, {lowest})"
                yield scope.edit(node.args[0], after, _HIDDEN, SOMETIMES)


def _is_of_maxima(scope: Scope, condition: str) -> bool:
    """Return whether a condition depends on a maximum: it hides no elements of one."""
    return any(re.search(rf"\b{name}\b", condition) for name in scope.given_maxima)


def _missing_steps(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Advance another pointer in a loop, in the same way as one that advances, by each stride of its own."""
    if not isinstance(node, ast.For | ast.While):
        return
    loaded = {
        _pointer_in(one.args[0])
        for one in ast.walk(node)
        if isinstance(one, ast.Call) and called(one) == "load" and one.args
    }
    steps = [one for one in node.body if isinstance(one, ast.Assign | ast.AugAssign) and step_of(one, loaded)]
    moved = {step_of(one, loaded) for one in steps}
    for name in sorted(loaded - moved - {""}):
        for step in steps if scope.known_from.get(name, node.lineno) < node.lineno else ():
            value, target = scope.text(step.value), step_of(step, loaded)
            sign = "+=" if isinstance(step, ast.AugAssign) else "="
            for strides in _strides_of(scope, step, target, name):
                moving = scope.renamed(step.value, {target: name, **strides})
                yield scope.edit(step.value, f"{value}; {name} {sign} {moving}", ("not_advanced",), MOST)


def _pointer_in(address: ast.expr) -> str:
    """Return the first name of an address: a pointer to which offsets are added."""
    return bare_name(addends(address)[0])


def step_of(one: ast.Assign | ast.AugAssign, pointers: Collection[str] = ()) -> str:
    """Return the name of the pointer that a statement advances; "" for any other statement.

    pointers: names of pointers; others have `ptr` in their names.
    """
    if isinstance(one, ast.AugAssign):
        name = bare_name(one.target)
        return name if "ptr" in name or name in pointers else ""
    name = bare_name(one.targets[0])
    return name if called(one.value) == "advance" and name in {getattr(arg, "id", "") for arg in one.value.args} else ""  # type: ignore[attr-defined]


def _strides_of(scope: Scope, step: ast.Assign | ast.AugAssign, one: str, other: str) -> Iterator[Mapping[str, str]]:
    """Yield names of strides of a second pointer, by those in the step of a first one.

    Names that tell the letter of the pointer come first. Otherwise each factor in the second pointer's own address may
    stand in the place of a factor that only the first one's address has.
    """
    strides = [name for name in scope.arguments if "stride" in name.lower()]
    pairs = {name: name.replace(f"_{one[0]}", f"_{other[0]}", 1) for name in strides}
    yield {name: found for name, found in pairs.items() if found in strides and found != name}
    first, second = (_factors_in(scope, name) for name in (one, other))
    for name, own in product(sorted(first & names_in(step.value)), sorted(second - first)):
        if name not in second and pairs.get(name) != own:
            yield {name: own}


def _factors_in(scope: Scope, pointer: str) -> set[str]:
    """Return the arguments by which the offsets in a pointer's address are multiplied."""
    address = scope.meaning(ast.Name(pointer))
    products = (one for one in ast.walk(address) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult))
    return {bare_name(side) for one in products for side in (one.left, one.right)} & {*scope.arguments}


IN_LOOPS: tuple[Finder, ...] = (
    _moved_lines,
    _swapped_lines,
    _early_returns,
    _accumulators,
    _kept_accumulators,
    _stale_values,
    _branches,
    _ends_of_blocks,
    _missing_terms,
    _limits,
    _ends,
    _literal_ranges,
    _counts,
    _negative_bounds,
    _hidden_elements,
    _missing_steps,
)
