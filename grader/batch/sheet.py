"""A CSV file that somebody wrote, as rows: whatever is wrong with it is said in words."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from grader.errors import UsageError


@dataclass(frozen=True)
class Sheet:
    """columns: the first row. rows: the others that are not blank, each with the number of the line that it ends on."""

    columns: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]


def read(text: str, path: object) -> Sheet:
    """Return the rows of a CSV file, whatever ends its lines. Raises UsageError."""
    reader = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=None))
    try:
        rows = [(reader.line_num, tuple(row)) for row in reader if row]
    except csv.Error as broken:
        raise UsageError(f"{path}, line {reader.line_num}: a table must be CSV, got: {broken}") from broken
    return Sheet(rows[0][1] if rows else (), tuple(rows[1:]))
