"""Small edits of a text take back small mistakes; each is an expression, or a few lines, of a function that ran."""

from __future__ import annotations

import ast

import pytest

from grader.diagnosis.edits.edits import Edit, edits_of

RIGHT = """import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x_ptr, y_ptr, M, N, stride_xm, stride_ym, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * stride_xm + columns[None, :], mask=mask, other=0.0)
    top = tl.max(x, axis=1)
    tl.store(y_ptr + rows[:, None] * stride_ym + columns[None, :], x - top[:, None], mask=mask)


def unused(M, N):
    return M < N


def scale(x):
    M, N = x.shape
    y = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    scaled[grid](x, y, M, N, x.stride(0), y.stride(0), BLOCK_M=16, BLOCK_N=16)
    return y
"""
VALUES = {"x_ptr": "tensor 0", "y_ptr": "tensor 1", "M": 5, "N": 7, "stride_xm": 7, "stride_ym": 8, "BLOCK_M": 16}


def edits(source: str = RIGHT, **values: object) -> list[Edit]:
    return edits_of(source, {("scaled", 6): ((), {**VALUES, **values})}, "scale")


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("rows[:, None] < M", "rows[:, None] <= M", "missing_mask"),
        ("columns[None, :] < N", "columns[None, :] < M", "axes_exchanged"),
        ("tl.program_id(1)", "tl.program_id(0)", "axes_exchanged"),
        ("tl.program_id(0) * BLOCK_M", "tl.program_id(0)", "wrong_address"),
        ("rows[:, None] * stride_xm", "rows[:, None] * stride_ym", "strides_ignored"),
        ("tl.load(x_ptr", "tl.load(y_ptr", "operand_mixed_up"),
        (", x - top[:, None], mask=mask)", ", x - top[:, None])", "missing_mask"),
        ("other=0.0", 'other=float("-inf")', "padding_counted"),
        ("tl.max(x, axis=1)", "tl.max(x, axis=0)", "wrong_axis"),
        ("tl.max(x, axis=1)", "tl.max(x)", "wrong_axis"),
        ("x - top[:, None]", "(top[:, None]) - (x)", "wrong_factor"),
        ("x - top[:, None]", "x + top[:, None]", "wrong_factor"),
        ("tl.max(x, axis=1)", "tl.sum(x, axis=1)", "slip"),
        ("rows[:, None] < M", "rows[:, None] > M", "causal_missing"),
        ("x - top[:, None]", "x - top[:, None] + 1", "slip"),
        ("triton.cdiv(M, 16)", "M // 16", "remainder_skipped"),
        ("(triton.cdiv(M, 16), triton.cdiv(N, 16))", "(triton.cdiv(N, 16), triton.cdiv(M, 16))", "axes_exchanged"),
        ("x, y, M", "y, x, M", "operand_mixed_up"),
        ("torch.zeros(", "torch.empty(", "not_cleared"),
        ("dtype=torch.float32", "dtype=x.dtype", "low_precision_sum"),
    ],
)
def test_a_small_mistake_is_taken_back_by_an_edit_that_names_its_kind(right: str, wrong: str, kind: str) -> None:
    assert right in RIGHT
    source = RIGHT.replace(right, wrong, 1)
    wanted = ast.dump(ast.parse(RIGHT))
    repairs = [one for one in edits(source) if ast.dump(ast.parse(one.applied(source))) == wanted]
    assert {one.kinds[0] for one in repairs} == {kind}


def test_every_edit_is_python_and_moves_no_line() -> None:
    for edit in edits():
        edited = edit.applied(RIGHT)
        ast.parse(edited)
        assert edited.count("\n") == RIGHT.count("\n"), edit


def test_a_function_that_the_call_did_not_run_stays_as_it_is() -> None:
    (line,) = (number for number, text in enumerate(RIGHT.split("\n"), 1) if "M < N" in text)
    assert line not in {edit.line for edit in edits()}


@pytest.mark.parametrize(
    ("start", "mended"),
    [("tl.zeros((4,), tl.float32)", '(tl.zeros((4,), tl.float32) + float("-inf"))'), ("0.0", 'float("-inf")')],
)
def test_a_running_maximum_may_have_to_start_at_minus_infinity_and_a_sum_not(start: str, mended: str) -> None:
    text = RIGHT.replace("    top = ", f"    total = {start}\n    largest = {start}\n    top = ")
    text = text.replace("tl.max(x, axis=1)", "tl.maximum(largest, tl.max(x, axis=1)) + total")
    found = [one for one in edits(text) if one.kinds == ("maximum_start",) and one.after == mended]
    assert [one.line for one in found] == [13]


LOOP = """import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, stride_ak, stride_bk, group, n, BLOCK: tl.constexpr):
    h = tl.program_id(0)
    a_ptrs = a_ptr + h // group * K + tl.arange(0, BLOCK)
    b_ptrs = b_ptr + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    top = tl.load(a_ptr)
    for k in range(0, tl.minimum(K + 1, n), BLOCK):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        step = a * (b + k)
        acc = acc * top + step
        a_ptrs += BLOCK * stride_ak
        b_ptrs += BLOCK * stride_bk
    tl.store(c_ptr + tl.arange(0, BLOCK), tl.exp2(acc))
"""


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("tl.exp2(acc)", "tl.exp(acc)", "logarithm_base"),
        ("a * (b + k)", "a * b + k", "slip"),
        ("h // group * K", "h % group * K", "heads_mapping"),
        ("h // group * K", "h * K", "heads_mapping"),
        ("acc * top + step", "acc + step", "no_rescale"),
        ("acc = acc * top + step", "acc = step + step + top", ""),
        ("tl.minimum(K + 1, n)", "K + 1", "past_length"),
        ("    b_ptrs += BLOCK * stride_bk\n", "    pass\n", "not_advanced"),
        ("b_ptrs += (BLOCK) * stride_bk", "b_ptrs += BLOCK", "strides_ignored"),
    ],
)
def test_a_mistake_in_a_loop_is_taken_back(right: str, wrong: str, kind: str) -> None:
    assert right.replace("(BLOCK)", "BLOCK") in LOOP
    source = LOOP.replace(right.replace("(BLOCK)", "BLOCK"), wrong, 1)
    wanted = _steps(LOOP)
    found = edits_of(source, {("product", 5): ((), {})}, "none")
    repairs = [one for one in found if _steps(one.applied(source)) == wanted]
    assert {one.kinds[0] for one in repairs} == ({kind} if kind else set())


def _steps(source: str) -> list[str]:
    """Return the statements of a text without their order in a line, and without those that do nothing."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            node.body = [one for one in node.body if not isinstance(one, ast.Pass)]
    return ast.dump(tree).split(" ")


def test_an_edit_holds_for_each_line_that_reads_the_same() -> None:
    source = LOOP.replace("        b = tl.load(b_ptrs)\n", "        b = tl.load(b_ptrs)\n        b += tl.exp(h)\n")
    source = source.replace("    top = ", "    if h:\n            b += tl.exp(h)\n    top = ")
    edit = next(one for one in edits_of(source, {("product", 5): ((), {})}, "none") if one.after == "tl.exp2")
    assert edit.applied(source).count("b += tl.exp2(h)") == 2


def test_a_name_that_nothing_reads_comes_first() -> None:
    source = RIGHT.replace("rows[:, None] * stride_ym", "rows[:, None] * stride_xm")
    first, *_ = edits(source)
    assert (first.before, first.after) == ("stride_xm", "stride_ym")


def test_another_stride_in_a_pointer_s_step_comes_before_another_name_elsewhere() -> None:
    found = edits_of(LOOP, {("product", 5): ((), {})}, "none")
    place, *_ = [place for place, one in enumerate(found) if (one.before, one.after) == ("stride_bk", "stride_ak")]
    names = [place for place, one in enumerate(found) if one.before.isidentifier() and one.after == "b_ptr"]
    assert names
    assert place < min(names)


def test_two_names_of_one_value_are_not_exchanged() -> None:
    names = {(edit.before, edit.after) for edit in edits(stride_ym=7)}
    assert ("stride_xm", "stride_ym") not in names
    assert ("M", "N") in names
    assert ("M", "N") not in {(edit.before, edit.after) for edit in edits(N=5) if edit.in_kernel}


def test_letters_of_more_than_one_byte_shift_no_edit() -> None:
    source = RIGHT.replace("    top = ", '    "größer"; top = ')
    (edit,) = (one for one in edits(source) if one.before == "1" and one.after == "0" and "axis" in one.kinds[0])
    assert "tl.max(x, axis=0)" in edit.applied(source)


def test_a_function_that_is_too_long_has_no_edits_and_the_others_keep_theirs() -> None:
    lines = "".join(f"    a{i} = rows + {i} if {i} < M else rows - {i}\n" for i in range(1000))
    long = RIGHT.replace("    top = tl.max", f"{lines}    top = tl.max")
    assert {one.in_kernel for one in edits(long)} == {False}
    assert {one.in_kernel for one in edits()} == {False, True}


GROUPED = """import triton
import triton.language as tl


@triton.jit
def grouped(c_ptr, N, TILE: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    columns = tl.cdiv(N, TILE)
    width = GROUP * columns
    row = pid // width * GROUP + (pid % width) % GROUP
    column = (pid % width) // GROUP
    tl.store(c_ptr + row * columns + column, 1.0)
"""


def test_the_last_group_of_tiles_is_cut_in_the_remainder_and_in_the_quotient() -> None:
    found = edits_of(GROUPED, {("grouped", 5): ((), {})}, "none")
    (edit,) = (one for one in found if one.kinds == ("group_not_cut",))
    rows = "min(tl.num_programs(0) // (columns) - (pid // (width)) * GROUP, GROUP)"
    assert f"(pid % width) % {rows}\n    column = (pid % width) // {rows}\n" in edit.applied(GROUPED)
    assert edit.shown == ("% min(rows - first row, GROUP) … // min(rows - first row, GROUP)", "% GROUP … // GROUP")
    whole = edit.applied(GROUPED)
    assert not [one for one in edits_of(whole, {("grouped", 5): ((), {})}, "none") if one.kinds == edit.kinds]


def test_the_last_group_of_tiles_is_cut_where_the_remainder_is_that_of_the_program_itself() -> None:
    direct = GROUPED.replace("(pid % width) % GROUP", "pid % GROUP")
    (edit,) = (one for one in edits_of(direct, {("grouped", 5): ((), {})}, "none") if one.kinds == ("group_not_cut",))
    rows = "min(tl.num_programs(0) // (columns) - (pid // (width)) * GROUP, GROUP)"
    assert f"pid % {rows}\n    column = (pid % width) // {rows}\n" in edit.applied(direct)


def test_the_last_group_of_tiles_may_have_a_second_name() -> None:
    named = GROUPED.replace("    row = ", "    height = GROUP\n    row = ").replace("width) % GROUP", "width) % height")
    named = named.replace("width) // GROUP", "width) // height")
    (edit,) = (one for one in edits_of(named, {("grouped", 5): ((), {})}, "none") if one.kinds == ("group_not_cut",))
    assert "(pid % width) % min(tl.num_programs(0) // (columns) - " in edit.applied(named)


PERSISTENT = """import triton
import triton.language as tl


@triton.jit
def sums(x_ptr, s_ptr, tiles, K, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        first = tile * K
        for k in range(0, K, BLOCK):
            acc += tl.load(x_ptr + first + k + tl.arange(0, BLOCK))
        tl.store(s_ptr + tile, tl.sum(acc, axis=0))
"""


def test_an_accumulator_of_several_tiles_starts_anew_in_each() -> None:
    found = edits_of(PERSISTENT, {("sums", 5): ((), {})}, "none")
    (edit,) = (one for one in found if one.kinds == ("not_restarted",))
    assert "        first = tile * K; acc = tl.zeros((BLOCK,), dtype=tl.float32)\n" in edit.applied(PERSISTENT)
    right = PERSISTENT.replace("        first =", "        acc = tl.zeros((BLOCK,), dtype=tl.float32)\n        first =")
    assert not [one for one in edits_of(right, {("sums", 5): ((), {})}, "none") if one.kinds == edit.kinds]


NEXT_TILE = """import triton
import triton.language as tl


@triton.jit
def maxima(x_ptr, s_ptr, tiles, K, BLOCK: tl.constexpr):
    tile = tl.program_id(0)
    rows = tile * BLOCK + tl.arange(0, BLOCK)
    x_rows = x_ptr + rows * K
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    for _ in range(tiles):
        for k in range(0, K):
            new = tl.maximum(top, tl.load(x_rows + k))
            top = new
        tl.store(s_ptr + rows, top)
        tile += tl.num_programs(0)
        rows = tile * BLOCK + tl.arange(0, BLOCK)
"""


def test_what_was_computed_from_an_earlier_tile_is_computed_anew_and_so_is_a_maximum() -> None:
    found = edits_of(NEXT_TILE, {("maxima", 5): ((), {})}, "none")
    changed = {one.kinds[0]: one.applied(NEXT_TILE) for one in found if one.weight >= 30}
    assert "rows = tile * BLOCK + tl.arange(0, BLOCK); x_rows = x_ptr + rows * K\n" in changed["not_advanced"]
    assert '; top = tl.full((BLOCK,), float("-inf"), tl.float32)\n' in changed["not_restarted"]


MIRRORED = """import triton
import triton.language as tl


@triton.jit
def halves(x_ptr, y_ptr, n, m, BLOCK: tl.constexpr):
    offset = n - m
    left = tl.program_id(0) * 2 * BLOCK + tl.arange(0, BLOCK)
    right = left + BLOCK
    last = tl.minimum(n, left + BLOCK)
    x = tl.load(x_ptr + left, mask=right < n).to(tl.float16)
    tl.store(y_ptr + n - left, x, mask=left < n)
"""


@pytest.mark.parametrize(
    "line",
    [
        "    x = tl.load(x_ptr + right, mask=right < n).to(tl.float16)",
        "    x = tl.load(x_ptr + left, mask=left < n).to(tl.float16)",
        "    x = tl.load(x_ptr + left, mask=right < n)",
        "    tl.store((y_ptr + n - 1 - left), x, mask=left < n)",
        "    last = tl.minimum(n, (left + BLOCK + offset))",
    ],
)
def test_indices_of_a_mask_written_dtypes_the_last_index_and_offsets_are_looked_at(line: str) -> None:
    found = edits_of(MIRRORED, {("halves", 5): ((), {})}, "none")
    assert line in {changed for one in found for changed in one.applied(MIRRORED).splitlines()}


VISITED = """import triton.language as tl


@triton.jit
def scaled(x_ptr, y_ptr, N, M, chunk, BLOCK: tl.constexpr):
    begin = tl.program_id(0) * chunk
    end = tl.minimum(begin + chunk, N)
    full = (N - M) // BLOCK * BLOCK
    top = 0.0
    for start in range(begin, end, BLOCK):
        indices = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + indices, mask=(indices < N), other=0.0)
        s = x[:, None] + x[None, :]
        top = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - top[:, None])
        y = tl.load(y_ptr + indices[:, None], mask=(indices < N)[:, None])
        for start in range(full, end, BLOCK):
            p += y
    tl.store(y_ptr, p)


def scale(x):
    scaled[(1,)](x, x, 5, 3, 2, BLOCK=16)
"""


@pytest.mark.parametrize(
    "line",
    [
        "x = tl.load(x_ptr + indices, mask=(indices < end), other=0.0)",
        "full = tl.maximum((N - M) // BLOCK * BLOCK, 0)",
        "p = tl.where((indices < N)[None, :], tl.exp(s - top[:, None]), 0.0)",
        'top = tl.maximum(top, tl.max(tl.where((indices < N)[:, None], s, float("-inf")), 1))',
    ],
)
def test_ends_of_loops_negative_bounds_and_hidden_elements_are_looked_at(line: str) -> None:
    found = edits_of(VISITED, {("scaled", 5): ((), {"N": 5, "M": 3, "chunk": 2, "BLOCK": 16})}, "scale")
    assert any(line in one.applied(VISITED) for one in found), line


STEPS = """import triton.language as tl


@triton.jit
def joined(x_ptr, s_ptr, n, most, BLOCK: tl.constexpr):
    first = tl.cdiv(most - n, BLOCK)
    end = tl.minimum(n, most - BLOCK)
    if first >= end:
        return
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for step in range(first, end):
        e = tl.exp(tl.load(x_ptr + (step & (BLOCK - 1))))
        acc = tl.dot(e, e, acc)
        acc = acc * step
    tl.store(s_ptr, acc + e * most)


def scale(x):
    joined[(1,)](x, x, 5, 9, BLOCK=16)
"""


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("    first = ((most - n) // (BLOCK))\n", "loop_bounds"),
        ("    end = tl.maximum(n, most - BLOCK)\n", "loop_bounds"),
        ("    if False:\n", "returns_early"),
        ("        e = tl.exp(tl.load(x_ptr + (step)))\n", "position_shifted"),
        ("        acc = acc * step\n        acc = tl.dot(e, e, acc)\n", "lines_exchanged"),
        ("        acc = tl.dot((e * most), e, acc)\n", "not_normalised"),
    ],
)
def test_bounds_of_loops_returns_bits_orders_and_factors_of_other_lines_are_looked_at(lines: str, kind: str) -> None:
    found = edits_of(STEPS, {("joined", 4): ((), {"n": 5, "most": 9, "BLOCK": 16})}, "scale")
    assert kind in {one.kinds[0] for one in found if lines in one.applied(STEPS)}


COUNTED = """import triton.language as tl


@triton.jit
def parts(x_ptr, y_ptr, s_ptr, n, chunk, splits, BLOCK: tl.constexpr):
    first = tl.program_id(0) * chunk
    lanes = tl.arange(0, BLOCK)
    used = n // chunk + 1
    x_at = x_ptr + first
    y_at = y_ptr + first
    top = tl.full((BLOCK,), float("-inf"), tl.float32)
    for done in range(0, chunk, BLOCK):
        indices = first + done + lanes
        x = tl.load(x_at + lanes, mask=indices < n)
        y = tl.load(y_at + lanes, mask=indices < n)
        new = tl.max(x[:, None] + y[None, :], 1)
        top = new
        x_at += BLOCK
    ticket = tl.atomic_add(s_ptr, 1)
    if ticket == splits - 1:
        for part in range(0, tl.cdiv(n, chunk)):
            top += tl.load(s_ptr + part)
    tl.store(s_ptr, tl.sum(top, axis=0))


def scale(x):
    parts[(1,)](x, x, x, 5, 3, 2, BLOCK=16)
"""


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    used = tl.cdiv(n, chunk)", "count_too_large"),
        ("        x = tl.load(x_at + lanes, mask=(indices < n) & (done + lanes < chunk))", "done_again"),
        ("        new = tl.maximum(top, tl.max(x[:, None] + y[None, :], 1))", "maximum_restarted"),
        ("        x_at += BLOCK; y_at += BLOCK", "not_advanced"),
        ("    if ticket == tl.cdiv(n, chunk) - 1:", "not_all_covered"),
    ],
)
def test_counts_ends_of_parts_maxima_and_pointers_under_any_name_are_looked_at(line: str, kind: str) -> None:
    found = edits_of(COUNTED, {("parts", 4): ((), {"n": 5, "chunk": 3, "splits": 2, "BLOCK": 16})}, "scale")
    (edit,) = (one for one in found if line in one.applied(COUNTED).splitlines() and one.kinds[0] == kind)
    assert edit.adds_a_statement == ("; " in line)


SHARED = """import triton.language as tl


@triton.jit
def shares(x_ptr, s_ptr, n, scale, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    share = n // tl.num_programs(0)
    over = n % tl.num_programs(0)
    first = program * share
    total = tl.zeros((BLOCK,), x_ptr.dtype.element_ty)
    bias = tl.load(x_ptr)
    for at in range(first, first + share + (program < over), BLOCK):
        if at % BLOCK == 0:
            bias = tl.load(x_ptr + at)
        x = tl.load(x_ptr + at + tl.arange(0, BLOCK))
        total += tl.exp(x * scale - tl.max(tl.where(x == x, x, 0.0), 0) * scale) + bias
    tl.store(s_ptr, tl.sum(total, axis=0))


def scale(x):
    shares[(8,)](x, x, 5, 3.0, BLOCK=16)
"""


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    first = (program * share + tl.minimum(program, over))", "not_all_covered"),
        ("    total = tl.zeros((BLOCK,), tl.float32)", "low_precision_sum"),
        ("        if True:", "wrong_branch"),
        ("        if False:", "wrong_branch"),
        (
            "        total += tl.exp(x * scale - tl.max(tl.where(x == x, (x) * scale, 0.0), 0)) + bias",
            "scaled_maximum",
        ),
        ("    shares[(8,)](x, x, 5, 3.0, BLOCK=32)", "size_assumed"),
    ],
)
def test_uneven_shares_branches_dtypes_scaled_maxima_and_constants_are_looked_at(line: str, kind: str) -> None:
    found = edits_of(SHARED, {("shares", 4): ((), {"n": 5, "scale": 3.0, "BLOCK": 16})}, "scale")
    assert kind in {one.kinds[0] for one in found if line in one.applied(SHARED).splitlines()}


def test_an_exponential_without_its_maximum_is_hardly_a_repair() -> None:
    found = edits_of(VISITED, {("scaled", 4): ((), {"N": 5, "M": 3, "chunk": 2, "BLOCK": 16})}, "scale")
    guarded = 'p = tl.exp(s - tl.where(top[:, None] == float("-inf"), 0.0, top[:, None]))'
    assert any(guarded in one.applied(VISITED) for one in found)
    (without,) = (one for one in found if "p = tl.exp(s)\n" in one.applied(VISITED))
    assert without.kinds[0] == "inf_minus_inf"
    assert without.weight < min(one.weight for one in found if one.before == "tl.exp(s - top[:, None])")


def test_a_key_of_the_launch_may_be_another_one_and_no_configuration_is_changed() -> None:
    listed = (
        '@triton.autotune([triton.Config({"BLOCK_M": 16}), triton.Config({"BLOCK_M": 32})], key=["M"])\n@triton.jit'
    )
    keyed = "lambda meta: (triton.cdiv(M, meta['BLOCK_M']), triton.cdiv(N, meta['BLOCK_N']))"
    source = RIGHT.replace("(triton.cdiv(M, 16), triton.cdiv(N, 16))", keyed).replace("@triton.jit", listed)
    found = edits(source)
    assert ("'BLOCK_M'", "'BLOCK_N'") in {(one.before, one.after) for one in found}
    configured = next(number for number, line in enumerate(source.splitlines(), 1) if "Config" in line)
    assert not [one for one in found if one.line == configured]


def test_a_line_in_a_loop_may_belong_behind_it_and_the_reverse() -> None:
    behind = PERSISTENT.replace("        for k", "        total = 0.0\n        for k")
    behind = behind.replace("acc += tl.load", "total += tl.sum(tl.load").replace("BLOCK))\n", "BLOCK)), axis=0)\n")
    behind = behind.replace("tl.sum(acc, axis=0)", "(\n            total\n        )")
    last = "        tl.store(s_ptr + tile, (\n            total\n        ))\n"
    assert last in behind
    inside = behind.replace(last, "".join(f"    {line}\n" for line in last.splitlines()))
    for wrong, right, kind in ((inside, behind, "runs_in_every_step"), (behind, inside, "runs_once")):
        found = [one for one in edits_of(wrong, {("sums", 5): ((), {})}, "none") if one.kinds == (kind,)]
        (edit,) = (one for one in found if one.applied(wrong) == right)
        # Its line is named, and both texts say in words where it stands.
        assert wrong.split("\n")[edit.line - 1].strip() == "tl.store(s_ptr + tile, ("
        assert edit.shown is not None
        assert {one.partition("  # ")[2] for one in edit.shown} == {"in the loop", "after the loop"}


def test_a_kernel_s_helper_is_changed_like_the_kernel_and_its_decorator_like_launch_code() -> None:
    helper = "@triton.jit\ndef weight(v):\n    return tl.exp2(v * 0.6931471805599453)\n\n\n@triton.heuristics("
    even = '{"EVEN": lambda args: args["N"] % 64 == 0})\n@triton.jit\ndef scaled('
    source = RIGHT.replace("@triton.jit\ndef scaled(", helper + even).replace("x - top", "weight(x - top)")
    found = {(one.before, one.after): one for one in edits_of(source, {("scaled", 12): ((), VALUES)}, "scale")}
    base = found["0.6931471805599453", "1.4426950408889634"]
    assert (base.in_kernel, base.kinds[0]) == (True, "logarithm_base")
    block = found["64", 'args["BLOCK_N"]']
    assert (block.in_kernel, block.kinds[0]) == (False, "size_assumed")


PARTS = """import triton.language as tl


@triton.jit
def in_parts(x_ptr, s_ptr, n, PART: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * PART
    steps = tl.cdiv(PART, BLOCK)
    total = 0.0
    acc = tl.zeros((BLOCK,), tl.float32)
    for step in range(steps):
        at = step * BLOCK + tl.arange(0, BLOCK)
        slot = first + at
        x = tl.load(x_ptr + at % 16, mask=slot < n, other=0.0)
        acc += x
        if (step % 4 == 3) | (step == steps):
            total += tl.sum(acc)
    mean = total / n
    if n % 2:
        total += tl.sum(acc)
        n += 1
    tl.store(s_ptr + first, mean + total)


def scale(x):
    in_parts[(1,)](x, x, 5, PART=32, BLOCK=16)
"""


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("        x = tl.load(x_ptr + slot % 16, mask=slot < n, other=0.0)\n", "relative_index"),
        ("        x = tl.load(x_ptr + at % 16, mask=at < n, other=0.0)\n", "relative_index"),
        ("        if (step % 4 == 3) | (step == steps - 1):\n", "block_left_out"),
        ("        n += 1\n    mean = total / n\n    tl.store", "lines_exchanged"),
    ],
)
def test_indices_within_parts_last_steps_and_lines_that_stand_too_early_are_looked_at(lines: str, kind: str) -> None:
    found = edits_of(PARTS, {("in_parts", 4): ((), {"n": 5, "PART": 32, "BLOCK": 16})}, "scale")
    (edit,) = (one for one in found if lines in one.applied(PARTS) and one.kinds[0] == kind)
    assert edit.shown is None or edit.shown == ("if n % 2: …  # first", "mean = total / n  # first")


GUARDED = """import torch
import triton.language as tl


@triton.jit
def visible(x_ptr, s_ptr, n, group, D: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    last = first // group + BLOCK // group
    split = tl.maximum(first - n, 0)
    top = -float("inf")
    for step in range(last):
        x = tl.load(x_ptr + step + tl.arange(0, BLOCK))
        new = tl.maximum(top, tl.max(x, axis=0))
        new = tl.where(new == -float("inf"), 0.0, new)
        top = new
    tl.store(s_ptr + walk(split), top)


def scale(x):
    s = torch.empty_like(x)
    visible[(1,)](x, s, 5, 3, D=32, BLOCK=16)
    return s
"""


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("    last = ((first + BLOCK - 1) // group + 1)", "remainder_skipped"),
        ("    split = tl.maximum(first - n, 0) // BLOCK * BLOCK", "loop_bounds"),
        ('        top = tl.where(new == 0.0, float("-inf"), new)', "guard_carried"),
        ("    s = torch.empty_like(x, memory_format=torch.contiguous_format)", "strides_ignored"),
    ],
)
def test_quotients_ends_guards_and_layouts_of_new_memory_are_looked_at(line: str, kind: str) -> None:
    found = edits_of(GUARDED, {("visible", 5): ((), {"n": 5, "group": 3, "D": 32, "BLOCK": 16})}, "scale")
    (edit,) = (one for one in found if line in one.applied(GUARDED).splitlines() and one.kinds[0] == kind)
    assert edit.shown is None or edit.shown == ("new, as it is before line 14,", "new")


def test_a_sum_of_quotients_may_have_names_for_them() -> None:
    source = GUARDED.replace("last = first // group +", "tile = first // group\n    last = tile +")
    found = edits_of(source, {("visible", 5): ((), {"n": 5, "group": 3, "D": 32, "BLOCK": 16})}, "scale")
    line = "    last = ((first + BLOCK - 1) // group + 1)"
    (edit,) = (one for one in found if line in one.applied(source).splitlines())
    assert edit.kinds[0] == "remainder_skipped"


def test_a_return_before_a_store_is_a_likelier_reason_than_memory_that_is_not_cleared() -> None:
    source = GUARDED.replace("    top = -float", "    if split > n:\n        return\n    top = -float", 1)
    found = edits_of(source, {("visible", 5): ((), {"n": 5, "group": 3, "D": 32, "BLOCK": 16})}, "scale")
    places = [one.kinds[0] for one in found]
    assert places.index("returns_early") < places.index("not_cleared")


def test_no_minimum_of_values_is_an_edit() -> None:
    source = GUARDED.replace("        top = new\n", "        top = new + tl.sum(tl.exp(x - new), axis=0)\n")
    found = edits_of(source, {("visible", 5): ((), {"n": 5, "group": 3, "D": 32, "BLOCK": 16})}, "scale")
    assert not any(one.after.startswith("tl.minimum(new + ") for one in found)


@pytest.mark.parametrize(
    ("right", "wrong", "kinds"),
    [
        # A value is no position, and no mask.
        ("x - top[:, None], mask", "x - top[:, None] + 1e-5, mask", ("slip",)),
        ("tl.load(x_ptr +", "tl.load(x_ptr + 1 +", ("position_shifted",)),
        # A bound without a term lets more elements through, or fewer.
        ("< M)", "< M - 1)", ("last_left_out", "block_left_out")),
        ("< M)", "< M + 1)", ("missing_mask", "padding_counted")),
        # A remainder by a number, a maximum over a part of the row, along one axis more.
        ("rows = tl.program_id(0) * BLOCK_M", "rows = (tl.program_id(0) * BLOCK_M) % 4096", ("size_assumed",)),
        ("tl.max(x, axis=1)", "tl.max(tl.where(columns < 8, x, 0.0), axis=1)", ("no_maximum",)),
        ("tl.max(x, axis=1)", "tl.max(tl.max(x, axis=1), 0)", ("wrong_axis",)),
        ("(rows[:, None] < M)", "(rows[:, None] < M // BLOCK_M * BLOCK_M)", ("remainder_skipped",)),
    ],
)
def test_what_a_mistake_is_called_depends_on_what_its_line_computes(
    right: str, wrong: str, kinds: tuple[str, ...]
) -> None:
    assert right in RIGHT
    source = RIGHT.replace(right, wrong, 1)
    wanted = ast.dump(ast.parse(RIGHT))
    (repair,) = (one for one in edits(source) if ast.dump(ast.parse(one.applied(source))) == wanted)
    assert repair.kinds[: len(kinds)] == kinds


def test_a_known_number_is_written_with_all_its_digits() -> None:
    source = RIGHT.replace("x - top[:, None], mask", "(x - top[:, None]) * 1.442 + 1.4427 * 3.14159265, mask")
    found = [(one.before, one.after) for one in edits(source) if one.kinds == ("short_constant",)]
    assert found == [("1.442", "1.4426950408889634"), ("1.4427", "1.4426950408889634")]


def test_the_end_of_a_loop_that_is_one_too_small_is_named_by_what_it_depends_on() -> None:
    for end, kind in (("M - 1", "block_left_out"), ("tl.program_id(0) * BLOCK_M + M - 1", "causal_loop")):
        source = RIGHT.replace("    top = ", f"    for start in range(0, {end}):\n        x += start\n    top = ")
        assert {one.kinds[0] for one in edits(source) if one.before == end and one.after == end[:-4]} == {kind}


TAKEN_APART = """import triton
import triton.language as tl


@triton.jit
def copied(x_ptr, y_ptr, M, N, stride_xm, stride_xh, stride_ym, stride_yh, BLOCK: tl.constexpr):
    tiles_m = tl.cdiv(M, BLOCK)
    tiles_n = tl.cdiv(N, BLOCK)
    tile = tl.program_id(0)
    tm = tile // tiles_n
    tn = tile % tiles_n
    rows = tm * BLOCK + tl.arange(0, BLOCK)
    shared = tn // 2
    for i in tl.static_range(BLOCK):
        seen = (rows[:, None] < M) & (rows[None, :] < N)
        x = tl.load(x_ptr + tm * stride_xm + tn * stride_xh + rows, mask=seen)
        tl.store(y_ptr + tm * stride_ym + shared * stride_yh + rows, x, mask=seen)
"""


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"tile // tiles_n": "tile // tiles_m", "tile % tiles_n": "tile % tiles_m"}, "axes_exchanged"),
        ({"tile // tiles_n": "tile % tiles_n", "tn = tile % tiles_n": "tn = tile // tiles_n"}, "parts_exchanged"),
        ({"< M) & (": "< M) | ("}, "missing_mask"),
        ({"shared * stride_yh": "tn * stride_yh"}, "heads_mapping"),
        ({"static_range(BLOCK)": "static_range(BLOCK - 1)"}, "block_left_out"),
        ({"stride_xh + rows": "stride_xh + tl.arange(0, BLOCK)"}, "relative_index"),
    ],
    ids=["divisors", "quotient and remainder", "one of two conditions", "another index", "a step less", "no start"],
)
def test_a_number_that_is_taken_apart_wrongly_and_an_index_of_another_axis_are_taken_back(
    changes: dict[str, str], kind: str
) -> None:
    source = TAKEN_APART
    for right, wrong in changes.items():
        assert right in source
        source = source.replace(right, wrong, 1)
    numbers = {"M": 5, "N": 70, "stride_xm": 7, "stride_xh": 3, "stride_ym": 8, "stride_yh": 2, "BLOCK": 16}
    found = edits_of(source, {("copied", 5): ((), {**numbers, "x_ptr": "tensor 0", "y_ptr": "tensor 1"})}, "copy")
    wanted = ast.dump(ast.parse(TAKEN_APART))
    repairs = [one for one in found if ast.dump(ast.parse(one.applied(source))) == wanted]
    assert {one.kinds[0] for one in repairs} == {kind}


def test_a_quotient_and_a_remainder_of_two_divisors_are_made_to_belong_together() -> None:
    source = TAKEN_APART.replace("tile % tiles_n", "tile % tiles_m")
    found = edits_of(source, {("copied", 5): ((), {"M": 5, "N": 70, "BLOCK": 16})}, "copy")
    (edit,) = (one for one in found if one.applied(source) == TAKEN_APART)
    assert edit.kinds[0] == "parts_exchanged"
    assert edit.weight >= max(one.weight for one in found if one.before == "tiles_n")


def test_what_two_places_exchange_is_shown_short() -> None:
    source = TAKEN_APART.replace("tile // tiles_n", "tile // tiles_m").replace("tile % tiles_n", "tile % tiles_m")
    found = edits_of(source, {("copied", 5): ((), {"M": 5, "N": 70, "BLOCK": 16})}, "copy")
    shown = {one.shown for one in found if one.kinds[0] == "axes_exchanged"}
    assert ("tile // tiles_n … tile % tiles_n", "tile // tiles_m … tile % tiles_m") in shown


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("x.stride(0), y.stride(0)", "x.stride(0), x.stride(0)"),
        ("*x.stride(), *y.stride()", "*x.stride(), *x.stride()"),
        ("x.stride(0), x.stride(1), y.stride(0), y.stride(1)", "x.stride(0), x.stride(1), x.stride(0), x.stride(1)"),
    ],
)
def test_strides_that_a_launch_passes_twice_may_be_those_of_another_tensor(right: str, wrong: str) -> None:
    original = RIGHT.replace("x.stride(0), y.stride(0)", right)
    source = original.replace(right, wrong)
    repairs = [one for one in edits(source) if one.applied(source) == original]
    assert {one.kinds[0] for one in repairs} == {"strides_ignored"}
    assert max(one.weight for one in repairs) >= max(one.weight for one in edits(source) if not one.in_kernel)


def test_the_length_of_a_row_in_a_launch_may_stand_for_the_distance_of_rows() -> None:
    source = RIGHT.replace("x, y, M, N, x.stride(0)", "x, y, M, N, x.shape[1]")
    repairs = [one for one in edits(source) if one.applied(source) == RIGHT]
    assert {one.kinds[0] for one in repairs} == {"strides_ignored"}


def test_a_slot_in_16_bits_is_widened_to_64() -> None:
    kernel = RIGHT.replace("tl.program_id(0) * BLOCK_M", "tl.program_id(0).to(tl.int16) * BLOCK_M")
    (edit,) = (one for one in edits(kernel) if one.after == "tl.int64")
    assert (edit.before, edit.kinds) == ("tl.int16", ("offset_overflow",))


def test_a_term_of_a_quotient_that_a_helper_returns_shifts_no_position() -> None:
    helper = "@triton.jit\ndef normalised(e):\n    return e / (tl.sum(e, axis=1)[:, None] + 1.0)\n"
    source = RIGHT.replace("x - top[:, None]", "normalised(x)").replace("@triton.jit", f"{helper}\n\n@triton.jit", 1)
    found = edits_of(source, {("scaled", 11): ((), VALUES)}, "scale")
    (edit,) = (one for one in found if one.before.endswith("+ 1.0") and one.after == "tl.sum(e, axis=1)[:, None]")
    assert edit.kinds == ("slip",)


WALKED = """import triton
import triton.language as tl


@triton.jit
def walked(x, y, z, n, end, sx0, sx1, sy0, sy1, CAUSAL: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    px = x + lanes[:, None] * sx0 + lanes[None, :] * sx1
    py = y + lanes[:, None] * sy0 + lanes[None, :] * sy1
    last = n
    if CAUSAL:
        last = tl.minimum(n, (pid + 1) * BLOCK + end)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    left = n
    while left > 0:
        total += tl.load(px) * tl.load(py)
        px += BLOCK * sx1
        py += BLOCK * sy0
        left -= BLOCK
    for k in range(0, last, BLOCK):
        total += tl.load(z + k + lanes)
    for k in range(0, n, BLOCK):
        total += tl.load(z + k + lanes)
    for k in range(0, n, BLOCK):
        tl.store(z + k + lanes, tl.sum(total, axis=0))


def walk(x):
    walked[(1,)](x, x, x, 5, 3, 1, 2, 1, 2, CAUSAL=True, BLOCK=16)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("        py += BLOCK * sy0\n", "", "not_advanced"),
        ("range(0, n, BLOCK)", "range(1)", "not_all_covered"),
        ("(pid + 1) * BLOCK + end", "pid * BLOCK + end", "causal_loop"),
    ],
    ids=["a pointer of a while loop", "a literal number of steps", "an end before the block"],
)
def test_a_loop_that_ends_early_or_reads_one_block_again_is_taken_back(right: str, wrong: str, kind: str) -> None:
    assert right in WALKED
    source = WALKED.replace(right, wrong, 1)
    found = edits_of(source, {("walked", 5): ((), {"n": 5, "end": 3, "CAUSAL": True, "BLOCK": 16})}, "walk")
    wanted = ast.dump(ast.parse(WALKED))
    assert {one.kinds[0] for one in found if ast.dump(ast.parse(one.applied(source))) == wanted} == {kind}


def test_a_branch_that_only_sets_the_end_of_a_loop_is_left_out_because_of_that_end() -> None:
    found = edits_of(WALKED, {("walked", 5): ((), {"n": 5, "end": 3, "CAUSAL": True, "BLOCK": 16})}, "walk")
    kinds = {one.after: one.kinds[0] for one in found if one.before == "CAUSAL"}
    assert kinds["False"] == "causal_loop"
    assert kinds["True"] == "wrong_branch"


HEADS = """import triton
import triton.language as tl


@triton.jit
def heads(q_ptr, k_ptr, o_ptr, Hq, Hkv, group, D: tl.constexpr, ROWS: tl.constexpr):
    head = tl.program_id(0)
    shared = head // (Hq // Hkv)
    first = tl.program_id(1)
    rows = first * group + tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    k = tl.load(k_ptr + shared * D + dims)
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], tl.load(q_ptr + head * D + dims)[None, :] * k[None, :])


def launch(q):
    heads[(4, 2)](q, q, q, 4, 2, 2, D=16, ROWS=16)
"""
OF_HEADS = {"Hq": 4, "Hkv": 2, "group": 2, "D": 16, "ROWS": 16}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("head // (Hq // Hkv)", "head % Hkv"),
        ("head // (Hq // Hkv)", "head // Hkv"),
        ("first * group + tl.arange(0, ROWS)", "first + tl.arange(0, ROWS) * Hkv"),
    ],
)
def test_neighbouring_heads_share_what_a_group_reads(right: str, wrong: str) -> None:
    assert right in HEADS
    found = edits_of(HEADS.replace(right, wrong), {("heads", 5): ((), OF_HEADS)}, "launch")
    assert [one.kinds[0] for one in found if one.after == f"({right})"] == ["heads_mapping"]


def test_a_number_that_is_no_multiple_has_no_groups() -> None:
    wrong = HEADS.replace("head // (Hq // Hkv)", "head % Hkv")
    found = edits_of(wrong, {("heads", 5): ((), {**OF_HEADS, "Hq": 5})}, "launch")
    assert not any("Hq // Hkv" in one.after for one in found)


@pytest.mark.parametrize(
    ("dividend", "divisor", "kind"),
    [("h", "group", "heads_mapping"), ("n", "PAGE", "parts_exchanged"), ("head", "row", "heads_mapping")],
)
def test_a_quotient_of_pages_maps_no_heads(dividend: str, divisor: str, kind: str) -> None:
    head = f"import triton.language as tl\n\n\ndef pages(o_ptr, x_ptr, {dividend}, {divisor}):\n"
    source = f"{head}    tl.store(o_ptr, tl.load(x_ptr + {dividend} % {divisor}))\n"
    found = edits_of(source, {("pages", 4): ((), {})}, "none")
    assert [one.kinds[0] for one in found if one.after == f"({dividend} // {divisor})"] == [kind]


def table(factor: str, *more: str) -> str:
    arguments = ", ".join(("o_ptr", "table_ptr", "stride_of_rows", "splits", *more))
    head = f"import triton.language as tl\n\n\ndef pages({arguments}):\n"
    return f"{head}    tl.store(o_ptr, tl.load(table_ptr + tl.program_id(0) * {factor}) + splits * 2)\n"


@pytest.mark.parametrize(("more", "is_tried"), [((), True), (("stride_a", "stride_b"), False)])
def test_a_stride_that_nothing_reads_is_tried_as_any_factor_of_an_index(more: tuple[str, ...], is_tried: bool) -> None:
    found = edits_of(table("splits", *more), {("pages", 4): ((), {})}, "none")
    told = [one for one in found if one.applied(table("splits", *more)) == table("stride_of_rows", *more)]
    assert [one.kinds[0] for one in told] == (["strides_ignored"] if is_tried else [])
    assert not any(one.after == "stride_of_rows" and one.before == "2" for one in found)


@pytest.mark.parametrize(("index", "tried"), [("b", {"h"}), ("h", {"b"}), ("lanes", set())])
def test_one_number_may_be_loaded_by_another_index_of_the_program(index: str, tried: set[str]) -> None:
    source = f"""import triton.language as tl


def lengths(n_ptr, o_ptr, heads, BLOCK: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) // heads
    lanes = tl.arange(0, BLOCK) + b
    tl.store(o_ptr + b * heads + h, tl.load(n_ptr + {index}))
"""
    found = edits_of(source, {("lengths", 4): ((), {})}, "none")
    kinds = {one.after: one.kinds[0] for one in found if one.before == index and one.kinds[-1] == "axes_exchanged"}
    assert {name for name, kind in kinds.items() if kind == "wrong_address"} == tried


@pytest.mark.parametrize(("steps", "is_tried"), [("0, n", True), ("0, n, 1", True), ("0, n, BLOCK", False)])
def test_the_number_of_a_step_may_have_to_be_multiplied_by_a_block(steps: str, is_tried: bool) -> None:
    source = f"""import triton.language as tl


def stepping(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    for step in range({steps}):
        tl.store(o_ptr, tl.load(x_ptr + step + tl.arange(0, BLOCK)))
"""
    found = edits_of(source, {("stepping", 4): ((), {})}, "none")
    assert any(one.after == "step * BLOCK" and one.kinds[0] == "wrong_address" for one in found) is is_tried


TWO_LOOPS = """import triton
import triton.language as tl


@triton.jit
def walked_twice(x_ptr, y_ptr, n, whole, scale, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, whole, BLOCK):
        x = tl.load(x_ptr + start + lanes) * scale * 1.4426950408889634
        total += tl.exp2(x)
    for start in range(whole, n, BLOCK):
        x = tl.load(x_ptr + start + lanes) * scale * 1.4426950408889634
        total += tl.exp2(x)
    tl.store(y_ptr + lanes, total)
"""


def test_a_line_of_one_loop_may_have_to_be_like_that_of_another() -> None:
    x = "x = tl.load(x_ptr + start + lanes) * scale * 1.4426950408889634"
    head, _, rest = TWO_LOOPS.rpartition(x)
    source = f"{head}x = tl.load(x_ptr + start + lanes) * scale{rest}"
    found = edits_of(source, {("walked_twice", 5): ((), {})}, "none")
    (edit,) = (one for one in found if one.applied(source) == TWO_LOOPS)
    assert edit.line == 13
    assert edit.help == "Line 10 assigns the same name in another loop: must the two lines not be alike?"
    assert not any(one.after == one.before for one in found)


@pytest.mark.parametrize(
    ("wrong", "mended"),
    [
        ("qk = tl.dot(q, k) * scale", "qk = tl.dot(q, k) * scale * 1.4426950408889634"),
        ("qk = tl.dot(q, k); qk *= scale", "qk = tl.dot(q, k); qk *= scale * 1.4426950408889634"),
    ],
)
def test_logits_of_powers_of_2_may_have_to_be_brought_to_base_2(wrong: str, mended: str) -> None:
    text = "import triton.language as tl\n\n\ndef powers(q, k, scale, o):\n    LINE\n    tl.store(o, tl.exp2(qk))\n"
    source = text.replace("LINE", wrong)
    found = edits_of(source, {("powers", 4): ((), {})}, "none")
    (edit,) = (one for one in found if one.applied(source) == text.replace("LINE", mended))
    assert edit.kinds == ("logarithm_base",)


TILES = """import torch
import triton
import triton.language as tl


@triton.jit
def tiles(c_ptr, s_ptr, table_ptr, N, page, group, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    pid_m = tl.program_id(0) % GROUP
    pid_n = tl.program_id(1)
    offs_m = pid_m * BM + tl.arange(0, BM)
    offs_n = pid_n * BN + tl.arange(0, BN)
    entry = tl.load(table_ptr + offs_m // page)
    head = tl.load(table_ptr + pid_m // group)
    tl.store(c_ptr + (entry[:, None] + head) * N + offs_n[None, :], offs_n[None, :])
    tl.store(s_ptr + offs_m, (offs_m + tl.log2(offs_m)) * 0.6931471805599453)


def tile(c, s, table, N):
    tiles[(triton.cdiv(N, 64), triton.cdiv(N, 64))](c, s, table, N, 4, 2, BM=64, BN=64, GROUP=8)
"""


def edits_of_tiles(right: str, wrong: str) -> list[Edit]:
    assert right in TILES
    return edits_of(TILES.replace(right, wrong), {("tiles", 6): ((), {"N": 100, "page": 4, "group": 2})}, "tile")


def test_a_name_of_another_axis_than_all_others_of_its_line_is_tried_early() -> None:
    found = edits_of_tiles("pid_n * BN", "pid_m * BN")
    (place,) = (place for place, one in enumerate(found) if (one.before, one.after, one.line) == ("pid_m", "pid_n", 11))
    assert found[place].kinds[0] == "axes_exchanged"
    assert place < len(found) // 8


def test_a_grid_is_counted_by_no_constant_that_is_the_length_of_no_block() -> None:
    found = edits_of_tiles("BN=64, GROUP", "BN=32, GROUP")
    assert {one.after for one in found if not one.in_kernel and one.before == "64"} >= {"32"}
    assert "8" not in {one.after for one in found if not one.in_kernel and one.before == "64"}


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("(offs_m + tl.log2(offs_m)) * 0.6931471805599453", "offs_m + tl.log2(offs_m)", "logarithm_base"),
        ("offs_m // page", "offs_m % page", "parts_exchanged"),
        ("pid_m // group", "pid_m % group", "heads_mapping"),
    ],
)
def test_a_missing_base_and_exchanged_parts_of_an_index_are_named(right: str, wrong: str, kind: str) -> None:
    source, wanted = TILES.replace(right, wrong), ast.dump(ast.parse(TILES))
    found = [one for one in edits_of_tiles(right, wrong) if ast.dump(ast.parse(one.applied(source))) == wanted]
    assert {one.kinds[0] for one in found} == {kind}
