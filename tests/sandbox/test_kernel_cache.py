"""Compiled kernels that are kept between gradings: what comes back, and what a hostile folder cannot smuggle along."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from grader.sandbox import kernel_cache
from grader.sandbox.kernel_cache import cache_entry_for, restore, save


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    (folder / "triton" / "HASH").mkdir(parents=True)
    (folder / "triton" / "HASH" / "k.cubin").write_bytes(b"machine code")
    group = f'{{"child_paths": {{"k.cubin": "{folder}/triton/HASH/k.cubin"}}}}'
    (folder / "triton" / "HASH" / "__grp__k.json").write_text(group)
    return folder


def saved(scratch: Path, entry: Path) -> set[str]:
    """What the entry holds after saving a scratch folder whose descriptor is as old as the folder."""
    descriptor = os.open(scratch, os.O_RDONLY)
    try:
        save(entry, descriptor, scratch / "triton")
    finally:
        os.close(descriptor)
    return {str(path.relative_to(entry)) for path in entry.rglob("*") if path.is_file()}


def members(group: Path) -> dict[str, str]:
    """Where a group file says that its members lie."""
    found: dict[str, str] = json.loads(group.read_text())["child_paths"]
    return found


def test_what_was_compiled_comes_back_with_the_paths_of_its_new_place(scratch: Path, tmp_path: Path) -> None:
    entry = tmp_path / "cache" / "key"
    assert saved(scratch, entry) == {"HASH/k.cubin", "HASH/__grp__k.json"}
    elsewhere = tmp_path / "elsewhere" / "triton"
    restore(entry, elsewhere, 0)
    assert (elsewhere / "HASH" / "k.cubin").read_bytes() == b"machine code"
    assert members(elsewhere / "HASH" / "__grp__k.json") == {"k.cubin": f"{elsewhere}/HASH/k.cubin"}


def test_an_entry_that_has_all_of_it_stays_as_it_is(scratch: Path, tmp_path: Path) -> None:
    entry = tmp_path / "cache" / "key"
    files = saved(scratch, entry)
    (scratch / "triton" / "HASH" / "k.cubin").write_bytes(b"changed since")
    assert saved(scratch, entry) == files
    assert (entry / "HASH" / "k.cubin").read_bytes() == b"machine code"
    (scratch / "triton" / "NEW").mkdir()
    (scratch / "triton" / "NEW" / "k.cubin").write_bytes(b"of another kernel")
    assert saved(scratch, entry) == {*files, "NEW/k.cubin"}


def test_of_what_a_compiler_writes_only_what_a_launch_needs_is_kept(scratch: Path, tmp_path: Path) -> None:
    folder = scratch / "triton" / "HASH"
    wrote = [f"k.{kind}" for kind in ("cubin", "json", "llir", "ptx", "source", "ttgir", "ttir")]
    for name in wrote:
        (folder / name).write_bytes(b"written")
    (folder / "__grp__k.json").write_text(json.dumps({"child_paths": {name: f"{folder}/{name}" for name in wrote}}))
    (scratch / "triton" / "LAUNCHER").mkdir()
    for name in ("__triton_launcher.so", "main.c"):
        (scratch / "triton" / "LAUNCHER" / name).write_bytes(b"written")
    entry = tmp_path / "entry"
    needed = {"HASH/k.cubin", "HASH/k.json", "HASH/__grp__k.json", "LAUNCHER/__triton_launcher.so"}
    assert saved(scratch, entry) == needed
    elsewhere = tmp_path / "elsewhere" / "triton"
    restore(entry, elsewhere, 0)
    # A member that is named and not there makes Triton fail.
    assert members(elsewhere / "HASH" / "__grp__k.json") == {
        name: f"{elsewhere}/HASH/{name}" for name in ("k.cubin", "k.json")
    }


@pytest.mark.parametrize("content", ["", "[7]", '{"child_paths": 7}', "{", "\ud800"])
def test_a_group_file_that_is_none_is_no_trouble(scratch: Path, tmp_path: Path, content: str) -> None:
    group = scratch / "triton" / "HASH" / "__grp__k.json"
    group.write_bytes(content.encode(errors="surrogatepass"))
    assert saved(scratch, tmp_path / "entry") == {"HASH/k.cubin", "HASH/__grp__k.json"}


def test_where_there_is_no_room_for_all_the_latest_are_kept(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "_MOST_BYTES", 2 * 4096)
    for number, name in enumerate(("NEWER", "NEWEST", "OLDEST")):
        folder = scratch / "triton" / name
        folder.mkdir()
        (folder / "k.cubin").touch()
        os.utime(folder, times=(2e9, {"OLDEST": 1e8, "NEWER": 2e9, "NEWEST": 3e9}[name] + number))
    assert saved(scratch, tmp_path / "entry") == {"NEWEST/k.cubin", "NEWER/k.cubin"}


def test_links_pipes_and_odd_names_are_left_behind(scratch: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "solution.py").write_text("the answer")
    (scratch / "triton" / "HASH" / "linked.cubin").symlink_to(secret / "solution.py")
    (scratch / "triton" / "LINKED").symlink_to(secret)
    os.mkfifo(scratch / "triton" / "HASH" / "pipe.cubin")
    (scratch / "triton" / "HASH" / "folder.cubin").mkdir()
    (scratch / "triton" / "HASH" / "..odd.cubin").write_text("odd")
    assert saved(scratch, tmp_path / "entry") == {"HASH/k.cubin", "HASH/__grp__k.json"}


def test_empty_files_without_end_are_not_all_kept(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "_MOST_BYTES", 7 * 4096)
    for number in range(63):
        (scratch / "triton" / "HASH" / f"empty{number}.cubin").touch()
    assert len(saved(scratch, tmp_path / "entry")) == 7


@pytest.mark.parametrize("replaced", ["triton", "scratch"])
def test_a_folder_replaced_by_a_link_is_not_followed(scratch: Path, tmp_path: Path, replaced: str) -> None:
    secret = tmp_path / "secret"
    (secret / "triton" / "sub").mkdir(parents=True)
    (secret / "sub").mkdir()
    for place in (secret / "sub", secret / "triton" / "sub"):
        (place / "solution.so").write_text("the answer")
    descriptor = os.open(scratch, os.O_RDONLY)
    if replaced == "triton":
        (scratch / "triton").rename(tmp_path / "gone")
        (scratch / "triton").symlink_to(secret)
    else:
        scratch.rename(tmp_path / "gone")
        scratch.symlink_to(secret)
    save(tmp_path / "entry", descriptor, scratch / "triton")
    os.close(descriptor)
    assert not [path for path in (tmp_path / "entry").rglob("*") if path.name == "solution.so"]


def test_nothing_is_kept_of_a_submission_that_compiled_nothing(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    assert saved(tmp_path / "scratch", tmp_path / "entry") == set()
    assert not (tmp_path / "entry").exists()


def test_every_owner_exercise_and_compiler_has_a_cache_entry_of_its_own() -> None:
    versions = "3.6", "2.11"
    assert cache_entry_for("a", "ex_1", versions) == cache_entry_for("a", "ex_1", versions)
    shelves = {
        cache_entry_for("a", "ex_1", versions),
        cache_entry_for("b", "ex_1", versions),
        cache_entry_for("a", "ex_2", versions),
        cache_entry_for("a", "ex_1", ("3.7", "2.11")),
        cache_entry_for("a", "ex_1", ("3.6", "2.12")),
    }
    assert len(shelves) == 5


def test_what_one_submission_left_is_there_for_its_owners_next_one_and_for_nobody_else(scratch: Path) -> None:
    own = cache_entry_for("anna", "ex_1", ("3.6",))
    saved(scratch, own)
    assert cache_entry_for("anna", "ex_1", ("3.6",)).is_dir()
    assert not cache_entry_for("ben", "ex_1", ("3.6",)).exists()
