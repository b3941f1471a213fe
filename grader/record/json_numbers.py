"""Hold numbers that JSON has no form for: infinities and NaN are words."""

from __future__ import annotations

import math

# A finite number, or "inf", "-inf", "nan": JSON has no other way to say these.
Number = float | str


def number(value: float) -> Number:
    """Return a float in the form that JSON can hold."""
    return value if math.isfinite(value) else str(value)
