"""Texts that mean to be more than text, and a way to put them into every text of a record at once."""

from __future__ import annotations

import dataclasses
import re
import typing
import unicodedata
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from typing import Any, TypeVar

from markupsafe import escape

from grader.report.page import copying

T = TypeVar("T")

TEXTS = {
    "tags": "<script>alert(1)</script></style></title></svg><img src=x onerror=alert(2)><!-- --> ]]> <![CDATA[ &lt;b>",
    "attributes": '" onmouseover="alert(1)" x="\' onfocus=\'alert(2)\' autofocus ` javascript:alert(3) url(http://x)',
    "templates": "{{ 7 * 7 }} {% raw %} {# x #} ${7*7} #{7*7} %s {0} {record.seed} %(x)s $\\frac{1}{$ _x^2_ \\u0041 \\",
    "markup": "[bold red]x[/] [/] [link=https://evil]y[/link] [@click=app.bell]z[/] :skull: \\[x]",
    "escapes": "\x1b[31mred\x1b[0m\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x07"
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1bP1\x1b\\\x1bc",
    "controls": "\x00\x07\x08\x0b\x0c\x0e\x7f\x85\x90\x9b2J\x9d0;x\x9c \x1b",
    "directions": "\u202eREVERSED\u200b\u00ad\u2060\u206a\u180e\u200d"
    "\u2066\u2069\u061c\u200e\u2028::error::x\u2029::error::y\ufeff\ufff9 "
    "\U000e0041\U000e007f",
    "no characters": "\ud800 \udfff\udc80 \ufffe\uffff \U0001f480",
    "commands": "::error file=a,line=1::owned\n::set-output name=x::y\r\n \t::add-mask::z\n\u00a0\u3000::warning::w\r"
    "::debug::v\n##[error]owned ##[command]x\n%0A::notice::u\n::stop-commands::t",
    "blank": " \n\t \n ",
    "long": "<&\"'\x1b[31m::error::" * 700,
}

# What rich prints for colours, and nothing else.
_STYLE = re.compile("\x1b\\[[0-9;]*m")
# What Unicode calls controls, surrogates, separators of lines and of paragraphs, and what turns the direction.
_OBEYED = {"Cc", "Cs", "Zl", "Zp", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
# What has no width or no shape: spaces, joiners and hyphens, marks of direction, byte order and annotation,
# noncharacters, and tags.
_HIDDEN = re.compile(
    "[\u00ad\u061c\u180e\u200b-\u200f\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
# Names that mean something to whoever reads a record.
_KEPT = {"submission"}
# Fields of digits: with any other text there is no matrix to draw, which has a test of its own.
_DIGITS = {"cells", "gaps"}


def changed(value: T, change: Callable[[str], str]) -> T:
    """The same dataclass with every text changed, but those that are one of a few words."""
    return typing.cast(T, _changed(value, type(value), change))


def _changed(value: Any, kind: Any, change: Callable[[str], str]) -> Any:
    arguments = typing.get_args(kind)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        fields = {one.name for one in dataclasses.fields(value) if one.init} - _DIGITS
        return dataclasses.replace(
            value, **{name: _changed(getattr(value, name), hints[name], change) for name in fields}
        )
    if typing.get_origin(kind) is typing.Literal:
        return value
    if isinstance(value, str):
        return value if not value or value in _KEPT else change(value)
    if isinstance(value, tuple):
        return tuple(_changed(one, arguments[0], change) for one in value)
    if isinstance(value, dict):
        return {change(name): _changed(one, arguments[1], change) for name, one in value.items()}
    assert value is None or isinstance(value, int | float), value
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Read a class's types once: every text changes thousands of values."""
    return typing.get_type_hints(kind)


def commands_in(text: str) -> list[str]:
    """The lines that GitHub's runner would obey: it leaves out leading blanks, and finds "##[" anywhere."""
    lines = re.split("\r\n|\r|\n", text)
    return [line[:200] for line in lines if line.lstrip().startswith("::") or "##[" in line]


def unseen_in(text: str) -> set[str]:
    """The characters that a terminal would obey or hide, our own colours apart."""
    seen = set(_STYLE.sub("", text)) - {"\n", "\t"}
    return {
        one
        for one in seen
        if {unicodedata.category(one), unicodedata.bidirectional(one)} & _OBEYED or _HIDDEN.match(one)
    }


def without_our_script(page: str) -> str:
    """The page without the one script that copies commands, which its policy names."""
    assert page.count(copying.ELEMENT) == 1
    assert str(escape(f"script-src {copying.SOURCE};")) in page
    return page.replace(copying.ELEMENT, "")


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, and what their attributes lead to."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []
        self.oddities: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action")]

    def handle_comment(self, data: str) -> None:
        self.oddities.append(data)

    def unknown_decl(self, data: str) -> None:
        self.oddities.append(data)

    def handle_pi(self, data: str) -> None:
        self.oddities.append(data)
