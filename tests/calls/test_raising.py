"""An exception is described with the facts that only its own process knows: names, keywords, earlier definitions."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from grader.calls.raising import Raising
from grader.protocol.answers import Raised

STUB = 'def add(x):\n    raise NotImplementedError("add: write it")\n'


def described(path: Path, text: str) -> Raised:
    """Return the description of what `add(1)` raises in a file of this text."""
    path.write_text(text, encoding="utf-8")
    add = runpy.run_path(str(path))["add"]
    with pytest.raises((NotImplementedError, NameError, TypeError)) as caught:
        add(1)
    return Raising(str(path), lambda name: ("pointer", "mask") if name == "load" else ()).describe(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ex.py"


def test_a_stub_below_ones_own_function_is_told_with_both_lines(path: Path) -> None:
    raised = described(path, f"def add(x):\n    return x\n\n\n{STUB}")
    assert raised.verdict == "not_implemented"
    assert raised.message == "add: write it (the add at line 5 replaces the one at line 1)"


def test_lines_of_earlier_definitions_count_as_python_counts_them(path: Path) -> None:
    raised = described(path, f"# a\x0cpage\u2028and a line\ndef add(x):\n    return x\n\n\n{STUB}")
    assert raised.message == "add: write it (the add at line 6 replaces the one at line 2)"


def test_a_stub_alone_is_told_as_it_is(path: Path) -> None:
    assert described(path, f"def added(x):\n    return x\n\n\n{STUB}").message == "add: write it"


def test_an_unknown_keyword_is_told_with_those_that_there_are(path: Path) -> None:
    raised = described(path, "def load(pointer, mask):\n    pass\n\n\ndef add(x):\n    load(x, msk=x)\n")
    assert raised.message.endswith("'msk' (tl.load has no parameter msk, only pointer, mask)")


def test_a_name_that_nothing_defines_is_told_with_its_nearest(path: Path) -> None:
    raised = described(path, "def add(n_elements):\n    return n_element\n")
    assert raised.message == "name 'n_element' is not defined. Did you mean: 'n_elements'?"
