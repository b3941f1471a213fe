"""The present moment, as records and journals write it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the present time in UTC, to the second: 2026-11-02T10:00:00Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
