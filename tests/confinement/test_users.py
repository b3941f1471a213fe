"""When the submission's own user needs root's right to read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from grader.confinement import users


@pytest.mark.parametrize(("mode", "is_closed"), [(0o700, True), (0o755, False)])
def test_a_temporary_folder_that_only_root_may_enter_counts_as_closed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, mode: int, *, is_closed: bool
) -> None:
    folder = tmp_path_factory.mktemp("temporary")
    folder.chmod(mode)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "prefix", "/")
    monkeypatch.setattr(sys, "base_prefix", "/")
    monkeypatch.setattr(users, "_enterable", lambda path: path in (Path("/"), folder.parent) or path.stat().st_mode & 1)
    assert users._closed(f"{folder}/scratch") == (str(folder) if is_closed else "")
