"""Test the words for missing isolation layers."""

from __future__ import annotations

import pytest

from grader.report.isolation import FILES, NETWORK, PROCESSES, missing

AS_USER = (
    "process group",
    "private scratch",
    "rlimits",
    "own network and IPC, by a user namespace",
    "no new privileges",
    "Landlock 7",
    "seccomp",
)


def test_with_every_layer_nothing_is_missing() -> None:
    assert missing(AS_USER) == ()


@pytest.mark.parametrize(
    ("without", "open_to"),
    [
        (("Landlock 7",), (FILES, PROCESSES)),
        (("own network and IPC, by a user namespace",), ()),
        (("own network and IPC, by a user namespace", "seccomp"), (NETWORK,)),
        (("seccomp",), ()),
        (AS_USER, (FILES, NETWORK, PROCESSES)),
    ],
)
def test_what_a_missing_layer_would_have_kept_away_is_said(without: tuple[str, ...], open_to: tuple[str, ...]) -> None:
    assert missing([layer for layer in AS_USER if layer not in without]) == open_to


def test_an_early_landlock_keeps_files_but_not_signals() -> None:
    early = [layer.replace("Landlock 7", "Landlock 3") for layer in AS_USER]
    assert missing(early) == (PROCESSES,)
    assert missing([*early, "own user"]) == ()
