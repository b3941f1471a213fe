"""docs/architecture.md says what the code says, and names only modules that there are."""

from __future__ import annotations

import pytest

from tests.pages.architecture import PAGE, ROOT, WAY, page, rooms

pytestmark = pytest.mark.process


def test_the_page_is_what_python_m_tests_architecture_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("place", [place for place, _ in WAY])
def test_every_step_of_a_case_names_a_module_that_there_is(place: str) -> None:
    assert (ROOT / place).exists()


def test_a_room_stands_above_all_that_it_imports() -> None:
    order = list(rooms())
    for name, below in rooms().items():
        assert all(order.index(name) < order.index(one) for one in below), name
