"""What programs touch, in words, as signs on a terminal, and as drawings on the page."""

from __future__ import annotations

import dataclasses
import re

import pytest

from grader.record.checks import PartInfo
from grader.record.launches import Coverage, CoveringLaunch
from grader.report import coverage
from grader.report.figures import matrix
from grader.report.page import html
from grader.report.text import terminal
from tests.records import samples
from tests.report.test_html import Page

WHOLE, SHORT = samples.footprint(10, 4, 3), samples.footprint(10, 4, 2)


def launch_of(shown: Coverage) -> CoveringLaunch:
    return shown.launches[0]


def said(shown: Coverage) -> str:
    return coverage.sentence(launch_of(shown))


# -- in words --------------------------------------------------------------------------------------------------------


def test_a_launch_is_told_by_its_programs_and_the_elements_that_they_write() -> None:
    assert said(samples.covering(SHORT)) == "add_kernel: 2 programs × 4 elements cover 8 of 10 in z_ptr"


def test_programs_that_write_fewer_than_the_others_are_told_as_up_to() -> None:
    assert said(samples.covering(WHOLE)) == "add_kernel: 3 programs × up to 4 elements cover 10 of 10 in z_ptr"


def test_programs_that_write_nothing_are_told_first() -> None:
    text = said(samples.covering(samples.footprint(10, 4, 3, idle=20)))
    assert text == "add_kernel: 23 programs, 20 write nothing: 3 programs × up to 4 elements cover 10 of 10 in z_ptr"


def test_a_launch_that_only_updates_by_atomics_covers_nothing() -> None:
    (_, z) = WHOLE.tensors
    total = dataclasses.replace(z, argument="s_ptr", elements=1, written=1, updated=1)
    shown = samples.covering(dataclasses.replace(WHOLE, tensors=(total,)))
    assert said(shown) == "add_kernel: 3 programs update 1 of 1 in s_ptr"


def test_a_launch_in_which_no_program_writes_says_so() -> None:
    x, _ = WHOLE.tensors
    shown = samples.covering(dataclasses.replace(WHOLE, idle=3, tensors=(x,)))
    assert said(shown) == "add_kernel: 3 programs, and none writes anything"


def test_tensors_that_are_written_alike_share_a_sentence() -> None:
    (_, z) = WHOLE.tensors
    shown = samples.covering(dataclasses.replace(WHOLE, tensors=(z, dataclasses.replace(z, argument="v_ptr"))))
    assert said(shown).endswith("3 programs × up to 4 elements cover 10 of 10 in z_ptr and 10 of 10 in v_ptr")


def test_further_launches_are_counted() -> None:
    shown = dataclasses.replace(samples.covering(WHOLE), more=2)
    assert coverage.sentences(shown)[1:] == ["… and 2 more launches"]


def test_elements_that_no_program_writes_are_named() -> None:
    assert coverage.facts(launch_of(samples.covering(SHORT))) == [
        "No program writes 2 elements of z_ptr: z_ptr[8] to [9]."
    ]


def test_elements_of_a_matrix_are_named_by_row_and_column() -> None:
    product = dataclasses.replace(samples.product_footprint().tensors[0], written=60, shared=0, missing=((28, 31),))
    shown = samples.covering(dataclasses.replace(samples.product_footprint(), tensors=(product,)))
    assert coverage.facts(launch_of(shown)) == ["No program writes 4 elements of c_ptr: c_ptr[3, 4] to [3, 7]."]


def test_elements_that_several_programs_store_are_counted() -> None:
    shown = samples.covering(samples.product_footprint())
    assert coverage.facts(launch_of(shown)) == ["Several programs store 16 elements of c_ptr."]


def test_a_grid_of_idle_programs_gets_advice_and_a_few_idle_ones_do_not() -> None:
    many = launch_of(samples.covering(samples.footprint(10, 4, 3, idle=20)))
    assert coverage.advice(many) == [
        "3 programs would do. Where the others lie past the end, divide the grid by the block, as "
        "triton.cdiv(n, BLOCK)."
    ]
    assert coverage.advice(launch_of(samples.covering(samples.footprint(10, 4, 3, idle=5)))) == []


# -- on the card -----------------------------------------------------------------------------------------------------


def card(part: PartInfo, status: str = "pass", **how: object) -> str:
    one = samples.check(f"{part.name}.tail", "Right for any length", status, most=3)  # type: ignore[arg-type]
    return " ".join(terminal.render(samples.record((one,), (part,)), **how).split())  # type: ignore[arg-type]


def test_a_part_that_passed_has_one_line_without_the_case() -> None:
    part = dataclasses.replace(samples.VECTOR_ADD, coverage=samples.covering(WHOLE))
    text = card(part)
    assert "grid add_kernel: 3 programs × up to 4 elements cover 10 of 10 in z_ptr" in text
    assert "N=10, float32" not in text


def test_a_part_that_failed_by_coverage_says_what_is_missing_and_in_which_case() -> None:
    part = dataclasses.replace(
        samples.VECTOR_ADD, coverage=samples.covering(SHORT, check="vector_add.tail", lacking=True)
    )
    text = card(part, "fail")
    assert "! grid add_kernel: 2 programs × 4 elements cover 8 of 10 in z_ptr (N=10, float32)." in text
    assert "No program writes 2 elements of z_ptr: z_ptr[8] to [9]." in text


@pytest.mark.parametrize("check", ["", "vector_add.tail"])
def test_elements_that_no_program_need_write_are_no_fault(check: str) -> None:
    part = dataclasses.replace(samples.VECTOR_ADD, coverage=samples.covering(SHORT, check=check))
    assert "No program writes" not in card(part, "fail" if check else "pass")


def test_a_grid_that_is_too_large_is_told_on_a_part_that_passed() -> None:
    part = dataclasses.replace(samples.VECTOR_ADD, coverage=samples.covering(samples.footprint(10, 4, 3, idle=20)))
    assert "! grid add_kernel: 23 programs, 20 write nothing" in card(part)


# -- the picture on a terminal ---------------------------------------------------------------------------------------


def test_a_picture_has_a_row_for_each_program_and_the_tensors_side_by_side() -> None:
    lines = terminal.render_coverage(samples.covering(SHORT), width=60).splitlines()
    assert [line.split() for line in lines[3:7]] == [
        ["1", "a", "cell", "1", "a", "cell"],
        ["0", "░░░░······", "████······"],
        ["1", "····░░░░··", "····████··"],
        ["none", "□□"],
    ]
    assert lines[-1] == "░ read   █ written   · not touched   □ written by no program"


def test_a_picture_in_ascii_holds_ascii_only() -> None:
    text = terminal.render_coverage(samples.covering(samples.product_footprint(), SHORT), width=80, ascii_only=True)
    assert text.isascii()
    assert "X stored by several programs" in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_picture_is_no_wider_than_the_terminal(width: int) -> None:
    long = dataclasses.replace(
        WHOLE.tensors[1], shape=(64,), elements=64, cells=("2" * 32 + "0" * 32, "0" * 64, "0" * 64), gaps="0" * 64
    )
    shown = samples.covering(dataclasses.replace(WHOLE, tensors=(long, long, long)), samples.product_footprint())
    assert max(map(len, terminal.render_coverage(shown, width=width).splitlines())) <= width


def test_rows_of_tiles_stand_apart() -> None:
    text = terminal.render_coverage(samples.covering(samples.product_footprint()), width=60)
    assert "████ ···· ···· ····" in text
    assert text.count("···· ···· ···· XXXX") == 2


def test_a_launch_without_a_matrix_asks_for_a_smaller_case() -> None:
    shown = samples.covering(dataclasses.replace(WHOLE, tensors=()))
    assert "choose a smaller case" in terminal.render_coverage(shown)


def test_a_matrix_with_fewer_columns_still_shows_every_cell() -> None:
    (panel,) = matrix.panels(launch_of(samples.covering(samples.product_footprint())), columns=7)
    assert (panel.each, len(panel.hollow)) == ("4×4", 4)
    assert [row.looks for row in panel.rows][3:] == [("", "", "clash", "clash")] * 2


def test_many_rows_become_ranges_of_programs() -> None:
    shown = samples.covering(samples.footprint(20, 1, 20))
    rows = matrix.panels(launch_of(shown), rows=16)[0].rows
    assert [row.label for row in rows] == [f"{first}–{first + 1}" for first in range(0, 20, 2)]


def test_programs_of_a_grid_of_two_axes_are_named_by_both() -> None:
    launch = dataclasses.replace(launch_of(samples.covering(samples.footprint(8, 2, 4))), grid=(2, 2))
    assert [row.label for row in matrix.panels(launch)[0].rows] == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]


def test_hostile_matrices_are_not_drawn_and_hurt_nobody() -> None:
    text = terminal.render_coverage(samples.hostile_coverage(samples.HOSTILE), width=80)
    assert "\x1b" not in text


# -- the picture on the page -----------------------------------------------------------------------------------------


def section(page: str, part: str) -> str:
    found = re.search(
        rf'<details class="compiled covered(?: lacking)?" id="reach-{part}".*?</details>', page, re.DOTALL
    )
    assert found is not None
    return found[0]


def test_a_picture_is_folded_on_a_part_that_passed_and_open_where_a_program_is_missing() -> None:
    page = html.render(samples.covered())
    opened = {name: " open>" in section(page, name)[:90] for name in ("vector_add", "fused_multiply_add", "product")}
    assert opened == {"vector_add": False, "fused_multiply_add": True, "product": True}


def test_a_drawing_says_in_words_what_it_shows() -> None:
    text = Page(html.render(samples.covered())).text
    assert "Which program touches which elements of z_ptr 10" in text
    assert "Of 10 elements of z_ptr, programs load 0 and write 8; no program writes the other 2." in text
    assert "Of 64 elements of c_ptr, programs load 0 and write 64; several programs store 16." in text


def test_a_drawing_marks_gaps_and_collisions_with_shapes_of_their_own() -> None:
    page = html.render(samples.covered())
    assert 'class="h"' in section(page, "fused_multiply_add")
    assert 'class="h"' not in section(page, "vector_add")
    assert 'class="x"' in section(page, "product")
