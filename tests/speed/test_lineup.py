"""Which baseline a check is measured against, what stands beside it, and what is said where it is another one."""

from __future__ import annotations

from typing import Any

import pytest

from grader.errors import SpecError
from grader.exercise.cases import Cases, Choice, Size, Space
from grader.exercise.curves import Curves
from grader.exercise.rules import SpeedBand
from grader.speed.lineup import Lineup, candidates, lineup, smallest

SPACE = Space({"N": Size(1, 1 << 20), "dtype": Choice(("float16", "float32"))})
NEWER = "RuntimeError: FlashAttention only supports Ampere GPUs or newer."
SLOW = "not timed: takes seconds to compile (grade … --baseline torch_compile times it)"


def band(**changes: Any) -> SpeedBand:
    """Measured against FlashAttention, else memory-efficient attention, else eager torch."""
    given: dict[str, Any] = {
        "suite": Cases(SPACE, ({"N": 4096}, {"N": 1024, "dtype": "float32"}, {"N": 1024}), generated=0),
        "bytes": "N * itemsize",
        "shown_beside": ("torch_eager", "sdpa_cudnn", "torch_compile"),
        "fallbacks": ("sdpa_efficient", "torch_eager"),
        "curves": Curves("N", "tflops", versus="torch_eager"),
        **changes,
    }
    return SpeedBand("sdpa_flash", 0.25, 1.0, **given)


def found(**missing: str) -> Lineup:
    """The lineup where these are missing, and all others that were asked about run."""
    return lineup(band(), dict.fromkeys(candidates(band()), "") | missing)


def test_the_specification_s_own_baseline_is_taken_where_it_runs() -> None:
    one = found()
    assert (one.baseline, one.beside, one.note) == ("sdpa_flash", ("torch_eager", "sdpa_cudnn"), "")
    # Nobody needed the other members of the chain.
    assert dict(one.missing) == {"sdpa_flash": "", "torch_eager": "", "sdpa_cudnn": "", "torch_compile": SLOW}


def test_the_next_of_the_chain_takes_its_place_and_the_reason_is_said() -> None:
    one = found(sdpa_flash=NEWER, sdpa_cudnn="RuntimeError: No available kernel.")
    assert (one.baseline, one.beside) == ("sdpa_efficient", ("torch_eager",))
    assert one.note == (
        "Measured against memory-efficient attention (SDPA), because FlashAttention (SDPA) cannot run here: " + NEWER
    )
    assert one.missing["sdpa_flash"] == NEWER


def test_every_member_that_was_passed_over_is_named() -> None:
    one = found(sdpa_flash=NEWER, sdpa_efficient="no kernel")
    assert (one.baseline, one.beside) == ("torch_eager", ("sdpa_cudnn",))
    assert one.note == (
        f"Measured against eager torch, because FlashAttention (SDPA) cannot run here: {NEWER}; "
        "memory-efficient attention (SDPA) cannot run here: no kernel"
    )


def test_where_nothing_of_the_chain_runs_there_is_no_baseline_and_every_reason() -> None:
    one = found(sdpa_flash="a", sdpa_efficient="b", torch_eager="c")
    assert (one.baseline, one.beside) == ("", ("sdpa_cudnn",))
    assert one.note == (
        "FlashAttention (SDPA) cannot run here: a; memory-efficient attention (SDPA) cannot run here: b; "
        "eager torch cannot run here: c"
    )
    assert one.apply(band()).baseline == "sdpa_flash"


def test_what_is_missing_beside_changes_nothing_for_the_baseline() -> None:
    one = found(torch_eager="OutOfMemoryError: 40 GiB")
    assert (one.baseline, one.beside, one.note) == ("sdpa_flash", ("sdpa_cudnn",), "")


def test_those_that_take_seconds_to_compile_take_part_only_if_wanted() -> None:
    assert candidates(band()) == ("sdpa_flash", "sdpa_efficient", "torch_eager", "sdpa_cudnn", "torch_compile")
    wanted = lineup(band(), dict.fromkeys(candidates(band()), ""), slow=("torch_compile",))
    assert wanted.beside == ("torch_eager", "sdpa_cudnn", "torch_compile")


def test_one_that_is_not_installed_says_so_whether_it_is_slow_or_not() -> None:
    assert found(torch_compile="no C compiler").missing["torch_compile"] == "no C compiler"


def test_an_unknown_baseline_is_asked_about_like_any_other() -> None:
    assert candidates(band(shown_beside=("cudnn", "torch_eager"))) == (
        "sdpa_flash",
        "sdpa_efficient",
        "torch_eager",
        "cudnn",
    )


def test_the_band_as_it_is_measured_names_the_chosen_one_and_keeps_all_others_beside_it() -> None:
    applied = found(sdpa_flash=NEWER).apply(band())
    assert (applied.baseline, applied.fallbacks) == ("sdpa_efficient", ())
    assert applied.shown_beside == ("sdpa_flash", "torch_eager", "sdpa_cudnn", "torch_compile")
    assert (applied.floor, applied.full, applied.suite) == (0.25, 1.0, band().suite)


def test_the_specification_s_figure_may_be_told_of_the_fallback_itself() -> None:
    applied = found(sdpa_flash=NEWER, sdpa_efficient="no").apply(band())
    assert applied.baseline == "torch_eager"
    assert applied.curves is not None
    assert applied.curves.versus == "torch_eager"


def test_baselines_are_tried_on_the_size_that_moves_the_fewest_bytes() -> None:
    assert smallest(band()).words() == "N=1024, dtype=float16"


@pytest.mark.parametrize("fallbacks", [("sdpa_flash",), ("torch_eager", "torch_eager"), "torch_eager"])
def test_a_chain_names_other_baselines_each_once(fallbacks: Any) -> None:
    with pytest.raises(SpecError, match=r"SpeedBand\.fallbacks must"):
        band(fallbacks=fallbacks)
