"""Keep what was measured in a file, so that a measurement can be made in several runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.peers.files import Fed
from benchmarks.peers.outcome import Outcome
from benchmarks.peers.report import Row

Key = tuple[str, str, str]


def load(path: Path | None, feds: Iterable[Fed]) -> dict[Key, Row]:
    """Return the rows of a file by their keys; none without a file. Rows of files that are not fed are left out."""
    if path is None or not path.is_file():
        return {}
    by_key = {fed.key: fed for fed in feds}
    rows = {}
    for one in json.loads(path.read_text(encoding="utf-8")):
        key = one["kind"], one["part"], one["name"]
        if key in by_key:
            rows[key] = Row(by_key[key], {name: Outcome(**told) for name, told in one["outcomes"].items()})
    return rows


def save(path: Path | None, rows: Sequence[Row]) -> None:
    """Write the rows that have outcomes."""
    if path is not None:
        path.write_text(json.dumps([_plain(row) for row in rows if row.outcomes], indent=1), encoding="utf-8")


def _plain(row: Row) -> Mapping[str, object]:
    kind, part, name = row.fed.key
    outcomes = {grader: asdict(outcome) for grader, outcome in row.outcomes.items()}
    return {"kind": kind, "part": part, "name": name, "outcomes": outcomes}
