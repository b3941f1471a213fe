"""Write moments as text in UTC, to the second, in the form of records and journals: 2026-11-02T10:00:00Z."""

from __future__ import annotations

from datetime import UTC, datetime

from grader.errors import UsageError

# Far from the limits of datetime: offsets, days of grace and extensions are added.
_FIRST_YEAR, _LAST_YEAR = 1970, 2999
_FORM = "%Y-%m-%dT%H:%M:%SZ"


def now() -> str:
    """Return the present moment."""
    return datetime.now(UTC).strftime(_FORM)


def utc(moment: datetime) -> str:
    """Return a moment in UTC. One without a zone counts as UTC.

    Raises UsageError for a year outside the range for computing with dates.
    """
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise UsageError(f"a moment must lie in the years {_FIRST_YEAR} to {_LAST_YEAR}, got {moment.isoformat()}")
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime(_FORM)
