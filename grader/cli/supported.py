"""List the tested versions of torch and triton, and refuse others for `grade doctor`."""

from __future__ import annotations

import re

# Each torch on PyPI asks for one triton.
PAIRS = (("2.11", "3.6"), ("2.12", "3.7"), ("2.13", "3.7"), ("2.14", "3.8"), ("2.15", "3.9"))

_TESTED = {"torch": tuple(torch for torch, _ in PAIRS), "triton": tuple(triton for _, triton in PAIRS)}
_RELEASE = re.compile(r"\d+\.\d+")


def why_unsupported(package: str, version: str) -> str:
    """Return the rule that an installed version breaks, and the command that installs another; '' if it breaks none."""
    tested = _TESTED.get(package)
    release = _RELEASE.match(version)
    if tested is None or (release and release[0] in tested):
        return ""
    first, last = tested[0], tested[-1]
    return f"{package} must be {first} to {last}, got {version}: pip install '{package}{requirement(package)}'"


def requirement(package: str) -> str:
    """Return the range of tested versions as pip writes it: ">=3.6,<3.10"."""
    first, last = _TESTED[package][0], _TESTED[package][-1]
    major, minor = last.split(".")
    return f">={first},<{major}.{int(minor) + 1}"
