"""Find why an access is outside a tensor: what its mask lacks, or a number in too few bits.

A mask may lack a condition on an index, a bound, or the steps of a pointer.

Take a call in which the guard found such an access, and the submission's text. Return a clue. Run only launch code.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from grader.diagnosis.edits.edit_scope import Scope, bare_name, called, keyword
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import scopes_of
from grader.diagnosis.edits.repairs import kernels_in
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.failure import WrongCall
from grader.phrases import counted
from grader.protocol.observations import GuardFinding
from grader.text import clean

# The kinds of a block that is partly beyond the end, and of one that is wholly beyond it, as without any tail.
TAIL, WHOLE = "missing_mask", "axis_unmasked"
# The kind of a bound that is the length of something else.
BOUND = "bound_too_large"
# The kind of a number in too few bits, and the largest numbers of dtypes.
TOO_NARROW, _LARGEST_NUMBERS = "offset_overflow", {"int8": 127, "int16": 32767}
# It says more than the place of the block, but the mistake may be a step too many.
_WEIGHT = 0.85
_ACCESSES = frozenset({"load", "store"})
_LONGEST = 60


def unmasked_clue(bench: Bench, text: str, wrong_call: WrongCall) -> Clue | None:
    """Return the clue of the mask of the first access outside a tensor: an index without a condition, or its bound.

    Or a pointer that moves on, beside a mask that does not; before the tensor, a number that the kernel narrows. None
    if none explains the access. bench: interprets. text: the submission's.
    """
    found = next(iter(wrong_call.outcome.answer.findings), None)
    if found is None or found.kind not in _ACCESSES or 0 <= found.element < found.elements:
        return None
    with bench.findings.aside():
        recorded = Edited.of(bench, wrong_call.recipe).recorded
    if recorded is None or recorded.trace.programs:
        return None
    scopes = [one for one in scopes_of(text, kernels_in(recorded.trace), bench.part.name) if one.in_kernel]
    if found.element < 0:
        return _narrowed(scopes)
    accesses = ((scope, one) for scope in scopes for one in ast.walk(scope.function) if isinstance(one, ast.Call))
    clues = (_of_mask(scope, one, found) for scope, one in accesses if _is_at(one, found) and one.args)
    return next((clue for clue in clues if clue), None)


def _of_mask(scope: Scope, access: ast.Call, found: GuardFinding) -> Clue | None:
    """Return the clue of the mask of an access: its bound, an index that it does not depend on, or a pointer."""
    mask = keyword(access, "mask")
    if mask is None:
        return None
    text = clean(scope.text(mask), _LONGEST)
    if bound := _bound_beyond(scope, access.args[0], mask, found):
        return _bound_clue(*bound, text, found)
    free = _free(scope, access.args[0], mask, found)
    if len(free) == 1:
        return _clue(free[0], text, found)
    moved = _moved_on(scope, access, mask)
    return _clue_of_steps(*moved, text) if moved else None


def _narrowed(scopes: Sequence[Scope]) -> Clue | None:
    """Return the clue of the only number that kernels convert to 8 or 16 bits; None for none, or several."""
    calls = [(scope, one) for scope in scopes for one in ast.walk(scope.function) if called(one) in ("to", "cast")]
    dtypes = [
        (scope.text(one.args[-1]).rpartition(".")[2], one.lineno)
        for scope, one in calls
        if isinstance(one, ast.Call) and one.args
    ]
    narrow = [(dtype, line) for dtype, line in dtypes if dtype in _LARGEST_NUMBERS]
    if len(narrow) != 1:
        return None
    ((dtype, line),) = narrow
    ends = f"Line {line} makes {dtype} of a number. {dtype} ends at {_LARGEST_NUMBERS[dtype]:,}"
    evidence = f"{ends}, and a larger number becomes negative: the address lies before the tensor."
    return Clue(TOO_NARROW, _WEIGHT, evidence, help=f"Write tl.int64 in place of tl.{dtype} in line {line}.", firm=True)


def _is_at(node: ast.Call, found: GuardFinding) -> bool:
    """Return whether a call is the access that was found."""
    return called(node) == found.kind and node.lineno <= found.line <= (node.end_lineno or node.lineno)


def _free(scope: Scope, address: ast.expr, mask: ast.expr, found: GuardFinding) -> list[str]:
    """Return the indices of an address that its mask does not depend on, if a block of one may reach the access."""
    held = {one for one in scope.origins(mask) if called(one) == "arange"}
    names = dict.fromkeys(one.id for one in scope.origins(address) if isinstance(one, ast.Name))
    ranges = {name: [one for value in scope.given.get(name, ()) for one in ast.walk(value)] for name in names}
    blocks = {name: [one for one in nodes if called(one) == "arange"] for name, nodes in ranges.items()}
    return [
        name
        for name, own in blocks.items()
        for block in own
        # `% N` begins again at 0: such an index leaves no tensor.
        if block not in held and not _is_wrapped(block, ranges[name]) and _overruns(scope, block, found)
    ]


def _is_wrapped(block: ast.AST, nodes: Sequence[ast.AST]) -> bool:
    remainders = (one for one in nodes if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod))
    return any(block in ast.walk(one.left) for one in remainders)


def _moved_on(scope: Scope, access: ast.Call, mask: ast.expr) -> tuple[str, int] | None:
    """Return the pointer of an access that a loop moves on, and its line, if the mask is the same in every step."""
    pointer = bare_name(access.args[0])
    for loop in ast.walk(scope.function):
        if not isinstance(loop, ast.For) or access not in ast.walk(loop):
            continue
        inside = [one for each in loop.body for one in ast.walk(each)]
        steps = (one for one in inside if isinstance(one, ast.AugAssign) and bare_name(one.target) == pointer)
        step = next(steps, None)
        changed = {
            one.id for one in (loop.target, *inside) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        if step is not None and pointer and not changed & {*map(bare_name, scope.origins(mask))}:
            return pointer, step.lineno
    return None


def _bound_beyond(scope: Scope, address: ast.expr, mask: ast.expr, found: GuardFinding) -> tuple[str, int] | None:
    """Return the bound of a mask that lets the access through, with its value; None if there is no such bound.

    Only of a tensor with one axis, where the compared index is the element.
    """
    if len(found.shape) != 1 or isinstance(mask, ast.BinOp):
        return None
    match scope.meaning(mask):
        case ast.Compare(ast.Name(index), [ast.Lt()], [ast.Name(bound)]):
            value = scope.values.get(bound)
            indices = {one.id for one in ast.walk(address) if isinstance(one, ast.Name)}
            if type(value) is int and index in indices and found.elements <= found.element < value:
                return bound, value
    return None


def _overruns(scope: Scope, block: ast.AST, found: GuardFinding) -> bool:
    """Return whether a block that begins at the end of an axis may begin at the place of the access."""
    length = _length(scope, block)
    if length is None or length in found.shape or len(found.shape) < 2:
        return False
    return found.element - found.elements < length * found.shape[-1]


def _length(scope: Scope, block: ast.AST) -> int | None:
    """Return the length of `tl.arange(0, length)`, where the text or the launch gives it."""
    if not isinstance(block, ast.Call) or len(block.args) != 2:
        return None
    end = block.args[1]
    value = scope.values.get(end.id) if isinstance(end, ast.Name) else getattr(end, "value", None)
    return value if type(value) is int else None


def _bound_clue(bound: str, value: int, mask: str, found: GuardFinding) -> Clue:
    has = f"{clean(found.argument, _LONGEST)} has {counted(found.elements, 'element')}"
    evidence = f"{bound} is {value:,}, and {has}: `mask={mask}` lets too many through."
    return Clue(BOUND, _WEIGHT, evidence, firm=True)


def _clue_of_steps(pointer: str, line: int, mask: str) -> Clue:
    return Clue(
        TAIL,
        _WEIGHT,
        f"Every step of the loop moves {pointer} on (line {line}), and `mask={mask}` is the same in every step.",
        title=f"Looks like a mask that does not move on with {pointer}",
        help="Compare with what is left after the steps so far: `ks < K - step * BLOCK_K`.",
        firm=True,
    )


def _clue(index: str, mask: str, found: GuardFinding) -> Clue:
    argument = clean(found.argument, _LONGEST)
    return Clue(
        WHOLE if found.lanes == found.active_lanes else TAIL,
        _WEIGHT,
        f"`mask={mask}` does not depend on {index}, and the block of {index} goes beyond the end of {argument}.",
        title=f"Looks like a mask that has no condition on {index}",
        help=f"Compare {index} with the length of its axis of {argument}, in the mask itself: a tl.where after the "
        "access does not prevent it. Or let no step of a loop, and no program, go beyond the end of that axis.",
        firm=True,
    )
