"""Compiled kernels in words, on a terminal and on the scorecard."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from grader.gpus import why_unknown
from grader.record.checks import CheckResult, PartInfo
from grader.record.kernels import KernelFinding
from grader.record.record import Record, from_json, to_json
from grader.report import kernels
from grader.report.page import html
from grader.report.text import terminal
from tests.hostile import without_our_script
from tests.records import compiled, samples
from tests.records.compiled import COPY, GEMM, kernel

GEMM_LINES = (
    "✗ sm_100 gemm_kernel (line 42): does not compile: arange's range must be a power of 2 (line 44)",
    "! sm_80 gemm_kernel (line 42): spills 348 bytes of each thread's registers: the tile is too large for 8 warps; "
    "lines 50 and 51 load 2 bytes at a time where 16 are possible; line 60 stores 4 bytes at a time where 16 are "
    "possible",
)
GEMM_90 = "sm_90 gemm_kernel, line 42: 174 registers, 224 KiB shared, occupancy 12.5%, wgmma × 4, TMA × 12"


def lines_of(record: Record, **how: bool) -> list[str]:
    return [line.strip() for line in terminal.render(record, width=300, **how).splitlines()]


def failing(record: Record) -> Record:
    check: CheckResult = replace(record.checks[0], id="other.right", part="other", status="fail", points=0.0)
    parts = (*record.parts, PartInfo("other", "Another part"))
    return replace(record, parts=parts, checks=(*record.checks, check), verdict="fail")


# -- in words --------------------------------------------------------------------------------------------------------


def test_a_row_says_what_the_compiler_made() -> None:
    (found,) = kernels.kernels(PartInfo("copy", "Copy", (kernel(COPY),)))
    assert (found.title, found.common) == ("copy_kernel, line 7", "BLOCK=1024, 1 warp, 3 stages")
    (row,) = found.rows
    assert (row.registers, row.spills, row.shared) == ("18", "–", "0")
    assert (row.occupancy, row.limited_by, row.programs) == ("50%", "programs", "32")
    assert (row.loads, row.stores) == ("16 B × 72, 2 B × 1", "16 B × 8")
    assert (row.tensor_cores, row.copies) == ("–", "–")


def test_a_dot_without_tensor_cores_says_none() -> None:
    (found,) = kernels.kernels(PartInfo("gemm", "Product", (kernel(GEMM, tensor_cores={}),)))
    assert found.rows[0].tensor_cores == "none"


def test_what_tells_configurations_apart_stands_in_their_rows() -> None:
    tried = [kernel(GEMM, constants={"BLOCK_M": m, "FUSED": False}, configurations=2) for m in (64, 128)]
    tried.append(kernel(GEMM, constants={"BLOCK_M": 128, "FUSED": False}, configurations=2, num_warps=1))
    tried += [kernel(GEMM, constants={"BLOCK_M": 32, "FUSED": False}, configurations=2, shared_bytes=300 << 10)]
    part = PartInfo("gemm", "Product", tuple(tried))
    (found,) = kernels.kernels(part)
    assert found.common == "FUSED=False, 4 stages"
    assert [row.configuration for row in found.rows] == [
        "BLOCK_M=64, 8 warps",
        "BLOCK_M=128, 8 warps",
        "BLOCK_M=128, 1 warp",
        "BLOCK_M=32, 8 warps",
    ]
    (told,) = kernels.kernel_notes(part)
    # Tried by an autotuner only: nothing that cannot run.
    assert (told.look.tone, told.kernel) == ("part", "gemm_kernel (line 42; BLOCK_M=32, 8 warps)")


def test_a_configuration_that_an_autotuner_took_is_one_of_several() -> None:
    (found,) = kernels.kernels(PartInfo("gemm", "Product", (kernel(GEMM, configurations=12),)))
    assert found.title == "gemm_kernel, line 42, 1 of 12 configurations"


def test_a_finding_about_several_gpus_is_told_once() -> None:
    spills = [kernel(GEMM, capability, spill_store_bytes=8, shared_bytes=0) for capability in (80, 90, 100)]
    (told,) = kernels.kernel_notes(PartInfo("gemm", "Product", tuple(spills)))
    assert told.targets == "sm_80, sm_90, sm_100"


def test_what_is_said_of_several_configurations_alike_is_told_once_with_their_number() -> None:
    finding = KernelFinding("compile_error", "does not compile: no more registers", 44)
    tried = [
        replace(kernel(GEMM, constants={"BLOCK_M": m}, configurations=3), findings=(finding,)) for m in (32, 64, 128)
    ]
    (told,) = kernels.kernel_notes(PartInfo("gemm", "Product", tuple(tried)))
    assert told.kernel == "gemm_kernel (line 42; 3 configurations)"
    assert told.text == "does not compile: no more registers (line 44)"


def test_what_is_missing_is_told_once_for_every_reason() -> None:
    why = {"sm_80": "not compiled in time", "sm_90": "no Triton kernel was launched", "sm_100": "not compiled in time"}
    found = kernels.missing(PartInfo("gemm", "Product", (), why))
    assert found == (("sm_80, sm_100", "not compiled in time"), ("sm_90", "no Triton kernel was launched"))


@pytest.mark.parametrize(
    ("capability", "shown"),
    [("", "sm_90"), ("9.0", "sm_90"), ("8.0", "sm_80"), ("10.0", "sm_100"), ("8.9", "sm_89"), ("unknown", "")],
)
def test_the_gpu_that_is_there_stands_for_the_others(capability: str, shown: str) -> None:
    assert kernels.shown_target(replace(samples.passing().env, capability=capability)) == shown


# -- on a terminal ---------------------------------------------------------------------------------------------------


def test_on_a_gpu_that_nothing_was_compiled_for_no_other_s_figures_are_shown() -> None:
    there = compiled.record(compiled.gemm())
    older = replace(there, env=replace(there.env, capability="8.9"))
    lines = lines_of(older)
    assert "sm_89: no kernel was compiled for this GPU" in lines
    assert GEMM_90 not in lines


def test_on_an_unknown_gpu_a_sentence_takes_the_place_of_figures() -> None:
    why = why_unknown("8.7")
    part = replace(compiled.gemm(), uncompiled={"sm_87": why})
    there = compiled.record(part)
    text = " ".join(lines_of(replace(there, env=replace(there.env, capability="8.7"))))
    assert f"sm_87: {why}" in " ".join(text.split())
    assert "no kernel was compiled for this GPU" not in text
    assert GEMM_90 not in text


def test_the_terminal_has_a_line_for_each_kernel_and_its_findings() -> None:
    lines = lines_of(compiled.record(compiled.gemm()))
    start = lines.index(GEMM_90)
    assert tuple(lines[start + 1 : start + 3]) == GEMM_LINES


def test_where_something_else_needs_attention_it_has_the_findings_only() -> None:
    lines = lines_of(failing(compiled.record(compiled.gemm())))
    assert GEMM_90 not in lines
    assert set(GEMM_LINES) <= set(lines)


def test_in_ascii_it_has_no_other_letters() -> None:
    text = terminal.render(compiled.record(compiled.gemm()), ascii_only=True)
    assert text.isascii()
    assert "x sm_100 gemm_kernel" in text


def test_a_record_without_kernels_has_no_line_about_them() -> None:
    part = PartInfo("gemm", "Product")
    assert "sm_" not in terminal.render(compiled.record(part))


def test_more_kernels_and_findings_than_a_screen_holds_are_cut_and_that_is_said() -> None:
    many = tuple(kernel(COPY, kernel=f"copy_{i}", spill_store_bytes=8) for i in range(9))
    lines = lines_of(compiled.record(PartInfo("copy", "Copy", many)))
    assert "… 5 more kernels are in the scorecard …" in lines
    assert "… 3 more findings are in the scorecard …" in lines


def test_a_profile_shows_every_gpu() -> None:
    text = terminal.render_kernels([compiled.gemm()], width=140)
    rows = {line.split()[0]: line.split() for line in text.splitlines() if re.match(r" +sm_", line)}
    assert rows["sm_80"][:6] == ["sm_80", "255", "348", "B", "48", "KiB"]
    assert rows["sm_90"][:5] == ["sm_90", "174", "–", "224", "KiB"]
    assert " ".join(rows["sm_100"]).endswith("does not compile")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_it_fits_a_terminal_of_any_width(width: int) -> None:
    text = terminal.render_kernels([compiled.gemm()], width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "sm_100" in text


# -- on the scorecard ------------------------------------------------------------------------------------------------


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page.partition("</style>")[2]).split())


def test_the_scorecard_has_a_table_with_every_gpu() -> None:
    page = html.render(compiled.record(compiled.gemm()))
    shown = text_of(page)
    assert "Compiled kernels 1 kernel; sm_80, sm_90, sm_100; 2 findings" in shown
    assert "sm_90 174 – 224 KiB 12.5% registers, shared wgmma × 4 TMA × 12" in shown
    assert "✗ cannot run sm_100, gemm_kernel (line 42) : does not compile: arange&#39;s range" in shown
    assert "! could be better sm_80, gemm_kernel (line 42) : spills 348 bytes" in shown
    assert '<details class="compiled" open>' in page
    assert 'aria-label="gemm_kernel, line 42"' in page


def test_it_is_closed_where_there_is_nothing_to_find() -> None:
    page = html.render(compiled.record(PartInfo("copy", "Copy", (kernel(COPY),))))
    assert '<details class="compiled">' in page


def test_it_says_what_is_missing() -> None:
    part = PartInfo("gemm", "Product", (), {"sm_90": "not compiled in time"})
    assert "– missing sm_90: not compiled in time" in text_of(html.render(compiled.record(part)))


def test_a_page_without_kernels_has_no_such_section() -> None:
    assert '<details class="compiled"' not in html.render(samples.passing())


def test_hostile_texts_are_escaped_everywhere() -> None:
    text = samples.HOSTILE
    one = replace(
        kernel(GEMM, spill_store_bytes=8),
        kernel=text,
        target=text,
        case=text,
        constants={text: 1},
        tensor_cores={text: 1},
        copies={text: 1},
        loads={text: 1},
    )
    record = compiled.record(PartInfo("gemm", "Product", (one,), {text: text}))
    page = html.render(record)
    assert "<script" not in without_our_script(page)
    assert "<img" not in page
    for shown in (page, terminal.render(record), terminal.render_kernels(record.parts)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066\ud800]", shown)
        assert not re.search(r"^\s*::", shown, re.MULTILINE)


# -- the record ------------------------------------------------------------------------------------------------------


def test_kernels_survive_the_record_s_json() -> None:
    record = compiled.record(compiled.gemm(), PartInfo("copy", "Copy", (), {"sm_90": "not compiled in time"}))
    assert from_json(to_json(record)) == record


def test_a_record_from_before_kernels_were_compiled_is_readable() -> None:
    record = compiled.record(PartInfo("gemm", "Product"))
    document = json.loads(to_json(record))
    del document["parts"][0]["kernels"], document["parts"][0]["uncompiled"]
    assert from_json(json.dumps(document)) == record
