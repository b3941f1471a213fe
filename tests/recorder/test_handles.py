"""What launch code asks a launch's handle."""

from collections import namedtuple
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from triton.runtime.driver import driver

from grader.compile.driver import stand_in
from grader.gpus import USUAL
from grader.recorder.handles import Handle


@pytest.fixture
def handle() -> Iterator[Handle]:
    before = driver._active
    driver.set_active(stand_in(USUAL))
    yield Handle("add", ("x", "n"), {"x": 1, "n": 2}, {"num_warps": 8}, _relaunch)
    driver._active = before


def _relaunch(given: tuple[Any, ...], options: dict[str, Any], grid: Any) -> tuple[Any, ...]:
    return given, options, grid


def test_a_handle_answers_what_occupancy_is_computed_from(handle: Handle) -> None:
    handle._init_handles()
    assert handle.n_regs > 0
    assert handle.n_spills == 0
    assert handle.n_max_threads >= 8 * 32
    assert handle.metadata.shared > 0
    assert (handle.metadata.num_warps, handle.metadata.num_ctas) == (8, 1)
    assert handle.metadata.target.backend == "cuda"


def test_a_handle_has_a_name_a_hash_and_the_stages_of_its_code(handle: Handle) -> None:
    assert handle.name == handle.metadata.name == "add"
    assert handle.hash == handle.metadata._asdict()["hash"]
    assert [*handle.asm] == ["ttir", "ttgir", "llir", "ptx", "cubin"]


def test_a_field_of_old_releases_says_where_it_is_now(handle: Handle) -> None:
    with pytest.raises(AttributeError, match=r"`kernel\.shared` is `kernel\.metadata\.shared` since Triton 3\.0"):
        _ = handle.shared
    with pytest.raises(AttributeError, match="a compiled kernel of Triton's has no num_registers"):
        _ = handle.num_registers


def test_a_handle_launches_with_all_arguments(handle: Handle) -> None:
    assert handle[(4,)](1, 2) == ((1, 2), {"num_warps": 8}, (4,))


def test_launch_code_may_divide_by_the_shared_memory_of_a_compiled_kernel_that_uses_none(handle: Handle) -> None:
    Metadata = namedtuple("Metadata", ["num_warps", "shared"])
    compiled = SimpleNamespace(_init_handles=lambda: None, metadata=Metadata(8, 0), n_regs=17)
    handle._compiled = compiled
    assert (handle.metadata.shared, handle.metadata.num_warps, handle.n_regs) == (1, 8, 17)
    compiled.metadata = Metadata(8, 4096)
    assert handle.metadata.shared == 4096
