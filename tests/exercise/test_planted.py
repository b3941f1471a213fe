"""Planted mistakes: patches that fit their base to the letter, and whole files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from grader.errors import SpecError
from grader.exercise.planted import bases, planted, read
from grader.soundness.claims import claim_of

BASE = '"""Add one."""\n\nSTEP = 1\n\n\ndef f(x):\n    # The step.\n    return x + STEP\n'
TOP = "f.values fail: two are added.\n\nCause: wrong_constant\n\n"
DIFF = "--- base_f.py\n+++ two.py\n@@ -3,3 +3,3 @@\n \n-STEP = 1\n+STEP = 2\n \n".replace(
    "@@ -3,3 +3,3", "@@ -2,3 +2,3"
)
TWO_HUNKS = f"{DIFF}@@ -7,2 +7,3 @@\n     # The step.\n+    x = x + 0\n     return x + STEP\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base_f.py").write_text(BASE, encoding="utf-8")
    return tmp_path


def patch(folder: Path, diff: str = DIFF, top: str = TOP) -> Path:
    path = folder / "two.patch"
    path.write_text(top + diff, encoding="utf-8")
    return path


def test_a_patch_is_applied_and_its_text_takes_the_place_of_the_docstring(folder: Path) -> None:
    mistake = read(patch(folder))
    assert (mistake.name, mistake.path) == ("two", folder / "two.patch")
    assert mistake.text == f'"""{TOP.strip()}\n"""\n' + BASE.partition("\n")[2].replace("= 1", "= 2")
    claim = claim_of(mistake)
    assert (claim.check, claim.status, claim.causes) == ("f.values", "fail", ("wrong_constant",))
    assert claim.on_gpu == "fail"
    with_gpu = TOP.replace(" fail:", " fail, on a GPU crash:")
    assert claim_of(read(patch(folder, top=with_gpu))).on_gpu == "crash"


def test_several_hunks_are_applied_and_what_lies_between_is_kept(folder: Path) -> None:
    text = read(patch(folder, TWO_HUNKS)).text
    assert text.endswith("STEP = 2\n\n\ndef f(x):\n    # The step.\n    x = x + 0\n    return x + STEP\n")


def test_what_diff_writes_behind_names_and_lines_without_context_are_understood(folder: Path) -> None:
    dated = DIFF.replace("base_f.py", "base_f.py\t2026-01-02 03:04:05").replace("two.py", "two.py\t2026-01-02 03:04:06")
    assert read(patch(folder, dated)) == read(patch(folder))
    bare = "--- base_f.py\n+++ two.py\n@@ -3,0 +4 @@\n+STEP = 2\n"
    assert "STEP = 1\nSTEP = 2\n\n\n" in read(patch(folder, bare)).text


def test_patches_and_whole_files_come_sorted_and_bases_apart(folder: Path) -> None:
    patch(folder)
    for name in ("three", "a_whole_file"):
        (folder / f"{name}.py").write_text('"""f.values fail: no."""\n', encoding="utf-8")
    (folder / "notes.txt").write_text("", encoding="utf-8")
    assert [one.name for one in planted(folder)] == ["a_whole_file", "three", "two"]
    assert bases(folder) == (folder / "base_f.py",)


def test_a_patch_that_no_longer_fits_names_itself_its_base_the_hunk_and_the_way_out(folder: Path) -> None:
    path = patch(folder, TWO_HUNKS)
    (folder / "base_f.py").write_text(BASE.replace("# The step.", "# A step."), encoding="utf-8")
    with pytest.raises(SpecError) as refused:
        read(path)
    assert str(refused.value) == (
        "two.patch must fit base_f.py, got other lines at hunk '@@ -7,2 +7,3 @@'; make the patch anew: see "
        "docs/adding-an-exercise.md, 'A mistake as a patch'"
    )


@pytest.mark.parametrize(
    ("diff", "said"),
    [
        (DIFF.replace("-STEP = 1", "-STEP = 3"), "two.patch must fit base_f.py"),
        (DIFF.replace("-2,3", "-3,3"), "two.patch must fit base_f.py"),
        (DIFF.replace("-2,3 +2,3", "-7,3 +7,3"), "two.patch must fit base_f.py"),
        (TWO_HUNKS.replace("@@ -7,2", "@@ -2,2"), "two.patch must fit base_f.py"),
        (DIFF.replace("-2,3 +2,3", "-2,4 +2,4"), "two.patch must hold a unified diff: Hunk is shorter than expected"),
        (DIFF.replace("+STEP", "STEP"), "two.patch must hold a unified diff: Hunk diff line expected: STEP = 2"),
        (f"{DIFF}STEP = 4\n", "two.patch must end where its last hunk ends, got other lines than '@@' counts"),
        ("--- base_f.py\n+++ two.py\n", "then a unified diff of one file, got 1 files"),
        ("", "then a unified diff of one file, got 0 files"),
        (DIFF + DIFF, "then a unified diff of one file, got 2 files"),
        (DIFF.replace("base_f", "base_g"), "the line '---' must name a file base_*.py beside it, got base_g.py"),
        (DIFF.replace("base_f", "solution"), "the line '---' must name a file base_*.py beside it, got solution.py"),
        (DIFF.replace("two.py", "three.py"), "the line '+++' must name two.py, got three.py"),
        (DIFF.replace("STEP = 2", "STEP = ("), "two.patch must give a Python file, got '(' was never closed in line 3"),
        (
            '--- base_f.py\n+++ two.py\n@@ -1,2 +1,1 @@\n-"""Add one."""\n \n',
            "two.patch must leave the docstring of its base alone",
        ),
    ],
)
def test_a_patch_that_is_not_exactly_one_is_refused(folder: Path, diff: str, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        read(patch(folder, diff))
    assert said in str(refused.value)


@pytest.mark.parametrize("top", ['f.values fail: """ ends it.\n\n', "f.values fail: a \\ escapes.\n\n"])
def test_text_that_cannot_stand_in_a_docstring_is_refused(folder: Path, top: str) -> None:
    with pytest.raises(SpecError, match="the text on top becomes a docstring"):
        read(patch(folder, top=top))


def test_a_whole_file_is_read_as_it_is(folder: Path) -> None:
    path = folder / "whole.py"
    path.write_text(f'"""{TOP}"""\n', encoding="utf-8")
    assert read(path).text == f'"""{TOP}"""\n'
    assert ast.get_docstring(ast.parse(read(path).text)) == TOP.strip()
