"""Put counts, lists, sizes and shares into words that messages and reports have in common."""

from __future__ import annotations

from collections.abc import Sequence

# A submission may repeat a fault in thousands of lines.
_MOST_LINES = 8


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number and what it counts: "1 call", "1,024 calls". plural: where more than an s is added."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def listed(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first names and the number of the others: "a, b and 3 more"; with "; " between: "a; b; and 3 more"."""
    more, before = len(names) - most, " " if between == ", " else between
    return between.join(names[:most]) + (f"{before}and {more} more" if more > 0 else "")


def all_of(names: Sequence[str]) -> str:
    """Return all names as a list in a sentence: "a", "a and b", "a, b and c"."""
    return _in_sentence(names, " and ")


def one_of(names: Sequence[str]) -> str:
    """Return alternatives as a list in a sentence: "a", "a or b", "a, b or c"."""
    return _in_sentence(names, " or ")


def _in_sentence(names: Sequence[str], last: str) -> str:
    return last.join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def lines_named(lines: Sequence[int]) -> str:
    """Return the numbers of lines in words: "line 3", "lines 3, 5 and 7"; of many the first, and how many more."""
    more = len(lines) - _MOST_LINES
    named = [*map(str, lines[:_MOST_LINES]), *([f"{more} more"] if more > 0 else [])]
    return f"{'line' if len(lines) == 1 else 'lines'} {all_of(named)}"


def cut(text: str, most: int) -> str:
    """Return at most `most` characters of a text. A cut is marked."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def two_decimals(value: float) -> str:
    """Return a number with at most two decimals: 4, 2.5, 0.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def kib(size: int) -> str:
    """Return a number of bytes in KiB: "12.5 KiB"."""
    return f"{size / 1024:.1f}".removesuffix(".0") + " KiB"


def in_percent(share: float, digits: int = 0) -> str:
    """Return a share in per cent; 0% and 100% stand for exactly nothing and everything: "under 1%", "99%"."""
    value, step = 100 * share, 10.0**-digits
    if 0 < value < step:
        return f"under {step:g}%"
    return f"{min(value, 100 - step):.{digits}f}%" if 0 < value < 100 else f"{max(value, 0):.0f}%"
