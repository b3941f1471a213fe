"""Compiled kernels that are kept between gradings: what comes back, and what a hostile folder cannot smuggle along."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.sandbox import kernels
from grader.sandbox.kernels import bring, keep, shelf_for


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    (folder / "triton" / "HASH").mkdir(parents=True)
    (folder / "triton" / "HASH" / "k.cubin").write_bytes(b"machine code")
    group = f'{{"child_paths": {{"k.cubin": "{folder}/triton/HASH/k.cubin"}}}}'
    (folder / "triton" / "HASH" / "__grp__k.json").write_text(group)
    return folder


def kept(scratch: Path, shelf: Path) -> set[str]:
    """What the shelf holds after keeping a scratch folder whose descriptor is as old as the folder."""
    descriptor = os.open(scratch, os.O_RDONLY)
    try:
        keep(shelf, descriptor, scratch / "triton")
    finally:
        os.close(descriptor)
    return {str(path.relative_to(shelf)) for path in shelf.rglob("*") if path.is_file()}


def test_what_was_compiled_comes_back_with_the_paths_of_its_new_place(scratch: Path, tmp_path: Path) -> None:
    shelf = tmp_path / "shelves" / "key"
    assert kept(scratch, shelf) == {"HASH/k.cubin", "HASH/__grp__k.json"}
    elsewhere = tmp_path / "elsewhere" / "triton"
    bring(shelf, elsewhere, 0)
    assert (elsewhere / "HASH" / "k.cubin").read_bytes() == b"machine code"
    assert f"{elsewhere}/HASH/k.cubin" in (elsewhere / "HASH" / "__grp__k.json").read_text()


def test_links_pipes_and_odd_names_are_left_behind(scratch: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "solution.py").write_text("the answer")
    (scratch / "triton" / "HASH" / "linked.py").symlink_to(secret / "solution.py")
    (scratch / "triton" / "LINKED").symlink_to(secret)
    os.mkfifo(scratch / "triton" / "HASH" / "pipe")
    (scratch / "triton" / "HASH" / "..odd").write_text("odd")
    assert kept(scratch, tmp_path / "shelf") == {"HASH/k.cubin", "HASH/__grp__k.json"}


def test_empty_files_without_end_are_not_all_kept(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_MOST_BYTES", 7 * 4096)
    for number in range(63):
        (scratch / "triton" / "HASH" / f"empty{number}").touch()
    assert len(kept(scratch, tmp_path / "shelf")) == 7


@pytest.mark.parametrize("replaced", ["triton", "scratch"])
def test_a_folder_replaced_by_a_link_is_not_followed(scratch: Path, tmp_path: Path, replaced: str) -> None:
    secret = tmp_path / "secret"
    (secret / "triton" / "sub").mkdir(parents=True)
    (secret / "sub").mkdir()
    for place in (secret / "sub", secret / "triton" / "sub"):
        (place / "solution.py").write_text("the answer")
    descriptor = os.open(scratch, os.O_RDONLY)
    if replaced == "triton":
        (scratch / "triton").rename(tmp_path / "gone")
        (scratch / "triton").symlink_to(secret)
    else:
        scratch.rename(tmp_path / "gone")
        scratch.symlink_to(secret)
    keep(tmp_path / "shelf", descriptor, scratch / "triton")
    os.close(descriptor)
    assert not [path for path in (tmp_path / "shelf").rglob("*") if path.name == "solution.py"]


def test_nothing_is_kept_of_a_submission_that_compiled_nothing(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    assert kept(tmp_path / "scratch", tmp_path / "shelf") == set()
    assert not (tmp_path / "shelf").exists()


def test_another_text_or_another_compiler_has_another_shelf() -> None:
    assert shelf_for("a", ("3.6", "2.11")) == shelf_for("a", ("3.6", "2.11"))
    assert len({shelf_for("a", ("3.6",)), shelf_for("b", ("3.6",)), shelf_for("a", ("3.7",))}) == 3
