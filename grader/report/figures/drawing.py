"""Turn a matplotlib drawing into an element of the page: no background, colours or ids of its own, nothing to load.

Figures are drawn in stand-in colours, which become currentColor and the page's variables. So one drawing serves light,
dark and print.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from markupsafe import Markup

from grader.report import view

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT = 11.5

# Stand-in colours, which no figure uses otherwise, and the colours that replace them.
INK, OWN, BAND = "#010000", "#010001", "#010002"
SERIES = ("#010003", "#010004", "#010005", "#010006")
_PAINT = {
    INK: "currentColor",
    OWN: "var(--own)",
    BAND: "var(--band)",
    **{stand_in: f"var(--s{i})" for i, stand_in in enumerate(SERIES, 1)},
}


def drawn(draw: Callable[[Figure], None], name: str, words: str) -> Markup:
    """Return a figure as inline SVG. `name` makes its ids unique, `words` describe it."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    out = io.StringIO()
    # The learner's own matplotlib settings must not reach the page; the browser replaces glyphs that a font lacks.
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_settings(name))
        figure = Figure(dpi=72)
        FigureCanvasSVG(figure)
        draw(figure)
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _inline(out.getvalue(), name, words)


def _settings(name: str) -> dict[Any, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        # A dollar sign in a name is a dollar sign.
        "text.parse_math": False,
        "font.size": TEXT,
        "xtick.labelsize": TEXT - 0.5,
        "ytick.labelsize": TEXT - 0.5,
        "legend.fontsize": TEXT - 0.5,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    }


_KEPT = {"svg", "g", "defs", "path", "use", "text"}
_NUMBER = re.compile(r"-?\d+\.\d+")


def _inline(document: str, name: str, words: str) -> Markup:
    """Return the drawing without prolog, style sheet, metadata and clip paths, and with ids of its own."""
    root = ElementTree.fromstring(document)  # noqa: S314 - matplotlib wrote it, a line above
    used = {value[1:] for element in root.iter() for key, value in element.items() if key.endswith("href")}
    bare = _bare(root, name, used)
    _, _, width, height = bare.get("viewBox", "0 0 0 0").split()
    bare.attrib.clear()
    bare.attrib.update({"class": "plot", "role": "img", "aria-label": view.line(words, 1000)})
    bare.attrib.update({"viewBox": f"0 0 {width} {height}", "width": width})
    return Markup(ElementTree.tostring(bare, encoding="unicode"))  # noqa: S704 - ElementTree escapes


def _bare(element: Element, name: str, used: set[str]) -> Element:
    copy = Element(_local(element.tag))
    copy.text = element.text if copy.tag == "text" else None
    for key, value in element.items():
        attribute = _local(key)
        if attribute == "href":
            copy.set("href", f"#{name}-{value[1:]}")
        elif attribute == "id" and value in used:
            copy.set("id", f"{name}-{value}")
        elif attribute == "style":
            copy.set("style", _painted(value))
        elif attribute in ("d", "x", "y", "viewBox") or (attribute == "transform" and "rotate(-0 " not in value):
            copy.set(attribute, " ".join(_NUMBER.sub(lambda found: f"{float(found[0]):.2f}", value).split()))
    for child in element:
        inner = _bare(child, name, used) if _local(child.tag) in _KEPT else None
        if inner is not None and not _invisible(inner):
            copy.append(inner)
    # An empty group, or a group of one element, is redundant.
    if copy.tag == "g" and len(copy) == 1 and not copy.attrib:
        return copy[0]
    return copy


def _invisible(element: Element) -> bool:
    if element.tag in ("g", "defs"):
        return len(element) == 0
    return element.tag == "path" and element.get("style") == "fill: none"


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _painted(style: str) -> str:
    style = re.sub(r"font-family: [^;]*;? ?", "", style)
    return re.sub("#[0-9a-f]{6}", lambda found: _PAINT.get(found[0], "currentColor"), style)
