"""Test what `grade doctor` says of absent layers of confinement, in and outside containers."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from grader import machine
from grader.cli.layers import Surroundings, absent, surroundings
from grader.confinement import namespaces

# What Docker's defaults leave to root, with a profile that knows Landlock.
IN_DOCKER = ("process group", "private scratch", "rlimits", "own user", "no new privileges", "Landlock 6", "seccomp")
BARE = ("process group", "private scratch", "rlimits")
DOCKER = Surroundings("docker", (6, 12), is_root=True, landlock=0, namespaces="", has_bubblewrap=False)


def test_outside_a_container_nothing_is_said_while_every_promise_holds() -> None:
    assert absent(IN_DOCKER, replace(DOCKER, container="")) == ()


def test_docker_s_defaults_leave_out_one_layer_and_the_doctor_says_that_seccomp_stands_in() -> None:
    assert absent(IN_DOCKER, DOCKER) == (
        "own network and IPC (reaches no other program): needs CAP_SYS_ADMIN: docker run --cap-add SYS_ADMIN; "
        "not needed for the network, which seccomp closes",
    )


@pytest.mark.parametrize(
    ("here", "advice"),
    [
        (replace(DOCKER, kernel=(5, 10), landlock=errno.ENOSYS), "needs Linux 5.13, got 5.10"),
        (replace(DOCKER, landlock=errno.EOPNOTSUPP), "boot with lsm=landlock"),
        (replace(DOCKER, landlock=errno.ENOSYS), "docker run --security-opt seccomp=FILE"),
        (replace(DOCKER, container="podman", landlock=errno.EPERM), "podman run --security-opt seccomp=FILE"),
        (replace(DOCKER, container="kubernetes", landlock=errno.EPERM), "seccompProfile: {type: Localhost"),
        (replace(DOCKER, container="", landlock=errno.ENOSYS), "CONFIG_SECURITY_LANDLOCK"),
    ],
)
def test_what_keeps_landlock_away_follows_from_the_kernel_s_answer(here: Surroundings, advice: str) -> None:
    (said,) = (line for line in absent(BARE, here) if line.startswith("Landlock"))
    assert advice in said


@pytest.mark.parametrize(
    ("here", "advice"),
    [
        (DOCKER, "needs CAP_SYS_ADMIN: docker run --cap-add SYS_ADMIN"),
        (replace(DOCKER, container="kubernetes"), "capabilities: {add: [SYS_ADMIN]}"),
        (replace(DOCKER, is_root=False), "a profile that allows unshare"),
        (replace(DOCKER, is_root=False, namespaces="a.b=1"), "needs user namespaces, which a.b=1 forbids"),
        (replace(DOCKER, is_root=False, container=""), "needs user namespaces"),
    ],
)
def test_a_network_of_its_own_takes_a_capability_as_root_and_a_user_namespace_else(
    here: Surroundings, advice: str
) -> None:
    (said,) = (line for line in absent(BARE, here) if line.startswith("own network"))
    assert advice in said


def test_only_another_user_than_root_is_told_to_become_root() -> None:
    assert not any("own user" in line for line in absent(BARE, DOCKER))
    user = replace(DOCKER, is_root=False)
    (said,) = (line for line in absent(BARE, user) if line.startswith("own user"))
    assert said.endswith("run as root: docker run --user 0")
    (said,) = (line for line in absent((*BARE, "Landlock 6"), user) if line.startswith("own user"))
    assert said.endswith("not needed for that: this Landlock blocks signals")
    (said,) = (line for line in absent(BARE, replace(user, container="")) if line.startswith("own user"))
    assert said.endswith("run as root, or use Linux 6.12")


def test_bubblewrap_is_named_where_it_is_installed_and_may_not_work() -> None:
    here = replace(DOCKER, has_bubblewrap=True)
    assert any(line.startswith("bubblewrap") for line in absent(IN_DOCKER, here))
    assert not any(line.startswith("bubblewrap") for line in absent((*IN_DOCKER, "bubblewrap"), here))


def test_the_kernel_is_asked_and_every_setting_is_named_with_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert surroundings().kernel > (4, 0)
    monkeypatch.setattr(namespaces.Path, "read_text", lambda path: "0\n")
    assert namespaces.forbidden_by() == "user.max_user_namespaces=0"


@pytest.mark.parametrize(
    ("variables", "file", "runtime"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "/.dockerenv", "kubernetes"),
        ({}, "/run/.containerenv", "podman"),
        ({}, "/.dockerenv", "docker"),
        ({"container": "lxc"}, "", "container"),
        ({}, "", ""),
    ],
)
def test_a_container_s_runtime_is_known_by_its_marks(
    variables: dict[str, str], file: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "container"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "exists", lambda path: str(path) == file)
    assert machine.container() == runtime
