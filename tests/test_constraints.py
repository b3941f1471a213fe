"""constraints.txt holds every package that an installation brings, in the version that is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
# It comes with every environment and is what installs the others.
INSTALLER = "pip"


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def installed() -> dict[str, str]:
    """Our own package's requirements, and theirs: the version of each that is there. All extras of ours count."""
    found: dict[str, str] = {}
    open_ = [("grade", frozenset(distribution("grade").metadata.get_all("Provides-Extra") or ()))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_:
        name, wanted = open_.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            # An extra that this environment was made without.
            continue
        found[name] = package.version
        open_ += requirements(package.requires or [], wanted)
    return {name: version for name, version in found.items() if name not in ("grade", INSTALLER)}


def requirements(texts: list[str], extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for text in texts:
        needed = Requirement(text)
        marker = needed.marker
        # What a pinned package fixes by itself, as torch does with CUDA's libraries, needs no pin of ours.
        fixed = any(clause.operator == "==" for clause in needed.specifier)
        if not fixed and (marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})):
            yield canonicalize_name(needed.name), frozenset(needed.extras)


def test_every_package_that_an_installation_brings_is_pinned_in_the_version_that_is_there() -> None:
    known = pins()
    wrong = {
        name: (version, known.get(name, "no pin"))
        for name, version in installed().items()
        # Builds of one version for other devices differ behind the plus.
        if Version(version).public != known.get(name)
    }
    assert not wrong


def test_every_page_and_message_names_the_editable_install_the_readme_names() -> None:
    places = [*ROOT.glob("docs/*.md"), ROOT / "README.md"]
    places += [path for folder in ("grader", "exercises", "reference") for path in (ROOT / folder).rglob("*.py")]
    commands = [
        (path.name, command)
        for path in places
        for command in re.findall(r"pip install -c constraints\.txt\s[^\n`]*", path.read_text(encoding="utf-8"))
    ]
    assert len(commands) > 10
    assert [(name, command) for name, command in commands if " -e" not in command and "tox" not in command] == []
