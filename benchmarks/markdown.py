"""Write tables in Markdown, for the pages that commands make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table, with a line break at its end. Cells are taken as they are."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
