"""Write numbers and labels of a drawing in SVG."""

from __future__ import annotations

from markupsafe import Markup

from grader.phrases import two_decimals


def units(value: float) -> str:
    """Return a length or a place in the drawing's units."""
    return two_decimals(value)


def label(x: float, y: float, anchor: str, text: str) -> Markup:
    """Return an element with a text at a place. anchor: start, middle or end."""
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(units(x), units(y), anchor, text)
