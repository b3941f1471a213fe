"""Report the layers of confinement that a machine or a container lacks, and the setting that restores each.

The layers are those of grader.confinement. The words follow from facts, so every case can be tested anywhere.
"""

from __future__ import annotations

import errno
import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader import machine
from grader.confinement import landlock, namespaces
from grader.report.isolation import LANDLOCK_WITH_SIGNALS, landlock_version, missing

# The settings by which a container's runtime grants each permission.
_FLAGS = {
    "capability": "--cap-add SYS_ADMIN",
    "root": "--user 0",
    "seccomp": "--security-opt seccomp=FILE",
    "bubblewrap": "--cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined",
}
_FIELDS = {
    "capability": "capabilities: {add: [SYS_ADMIN]} in the securityContext",
    "root": "runAsUser: 0 in the securityContext",
    "seccomp": "seccompProfile: {type: Localhost, localhostProfile: FILE} in the securityContext",
    "bubblewrap": "privileged: true in the securityContext",
}
_CALLS = "landlock_create_ruleset, landlock_add_rule and landlock_restrict_self"
_LANDLOCK_SINCE = (5, 13)


@dataclass(frozen=True)
class Surroundings:
    """Hold the facts that decide which layers are possible here.

    container: the runtime, "docker", "podman", "kubernetes" or "container"; '' outside. kernel: major and minor.
    landlock: the error with which Landlock is refused, 0 if it is not. namespaces: the kernel's setting that keeps
    namespaces from users other than root, '' for none.
    """

    container: str
    kernel: tuple[int, int]
    is_root: bool
    landlock: int
    namespaces: str
    has_bubblewrap: bool


def surroundings() -> Surroundings:
    """Examine this machine or container."""
    numbers = re.match(r"(\d+)\.(\d+)", platform.release())
    return Surroundings(
        container=machine.container(),
        kernel=(int(numbers[1]), int(numbers[2])) if numbers else (0, 0),
        is_root=machine.is_root(),
        landlock=landlock.refusal(),
        namespaces=namespaces.forbidden_by(),
        has_bubblewrap=shutil.which("bwrap") is not None,
    )


def absent(layers: Sequence[str], here: Surroundings) -> tuple[str, ...]:
    """Return a line for each layer that is absent: its name, and what to allow.

    Returns nothing outside a container if every promise holds.
    """
    return tuple(_absent(layers, here)) if here.container or missing(layers) else ()


def _absent(layers: Sequence[str], here: Surroundings) -> Iterator[str]:
    landlock_here = landlock_version(layers)
    if not landlock_here:
        yield f"Landlock (reads no file of others): {_landlock(here)}"
    if not here.is_root and not any(layer.startswith("own user") for layer in layers):
        stops = "; not needed for that: this Landlock blocks signals" if landlock_here >= LANDLOCK_WITH_SIGNALS else ""
        yield f"own user (stops no process of others): {_root(here)}{stops}"
    if not any(layer.startswith("own network") for layer in layers):
        known = "; not needed for the network, which seccomp closes" if "seccomp" in layers else ""
        yield f"own network and IPC (reaches no other program): {_namespaces(here)}{known}"
    if "seccomp" not in layers:
        yield "seccomp (makes no dangerous system call): needs Linux with CONFIG_SECCOMP_FILTER, on x86-64 or arm64"
    if here.has_bubblewrap and "bubblewrap" not in layers:
        yield f"bubblewrap (one more layer for files): it may not mount here{_by(here, 'bubblewrap')}"


def _landlock(here: Surroundings) -> str:
    major, minor = here.kernel
    if here.kernel < _LANDLOCK_SINCE:
        return f"needs Linux 5.13, got {major}.{minor}"
    if here.landlock == errno.EOPNOTSUPP:
        return "this kernel has it switched off: boot with lsm=landlock,… (all names of /sys/kernel/security/lsm)"
    if here.container:
        how = _allow(here, "seccomp")
        return (
            f"refused by this kernel or by the container's seccomp profile. Docker's own has allowed it since 2022. "
            f"Another one: {how}, a profile that also allows {_CALLS}"
        )
    return "needs a kernel with CONFIG_SECURITY_LANDLOCK"


def _root(here: Surroundings) -> str:
    return f"run as root: {_allow(here, 'root')}" if here.container else "run as root, or use Linux 6.12"


def _namespaces(here: Surroundings) -> str:
    if here.is_root:
        return f"needs CAP_SYS_ADMIN{_by(here, 'capability')}"
    if here.namespaces:
        return f"needs user namespaces, which {here.namespaces} forbids"
    return f"needs user namespaces{_by(here, 'seccomp')}{', a profile that allows unshare' if here.container else ''}"


def _by(here: Surroundings, what: str) -> str:
    return f": {_allow(here, what)}" if here.container else ""


def _allow(here: Surroundings, what: str) -> str:
    """Return the setting of this container's runtime; Docker's for an unknown one."""
    if here.container == "kubernetes":
        return _FIELDS[what]
    return f"{here.container if here.container == 'podman' else 'docker'} run {_FLAGS[what]}"
