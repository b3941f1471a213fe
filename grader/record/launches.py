"""Define what a record tells of launches: the elements that programs touch, and the sizes of grids."""

from __future__ import annotations

from dataclasses import dataclass

from grader.protocol.footprint import Footprint


@dataclass(frozen=True)
class CoveringLaunch:
    """One launch of a call in the interpreter: its kernel, its grid, and what its programs touch."""

    kernel: str
    grid: tuple[int, ...]
    footprint: Footprint


@dataclass(frozen=True)
class Coverage:
    """The elements that the programs of one small call touch, launch by launch.

    words: the case. check: the check that failed there, "" for a right call. lacking: elements that no program writes
    are among the wrong ones. more: launches that are left out.
    """

    words: str
    launches: tuple[CoveringLaunch, ...]
    check: str = ""
    lacking: bool = False
    more: int = 0


@dataclass(frozen=True)
class Grid:
    """The largest launch of a call at a timed size, as the submission's process recorded it; no kernel ran.

    multiprocessors: as many as the launch code was told of.
    """

    case: dict[str, int | float | bool | str]
    programs: int
    multiprocessors: int
