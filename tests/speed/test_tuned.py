"""The table of what an autotuned launch chose from: its words name what differs, and what does not fit is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.protocol.answers import TunedChoice
from grader.protocol.trace import (
    Choose,
    ConstexprValue,
    DtypeValue,
    KernelText,
    Launch,
    Operator,
    Trace,
    Value,
)
from grader.speed.tuned import tuned_tables

LINE = 17


def launch(line: int = LINE, *, num_warps: int = 4, kernel: int = 0, **constants: Value) -> Launch:
    return Launch(kernel, (7,), (), dict(constants), {"num_warps": num_warps}, line)


def trace_of(*choices: Choose, kernels: tuple[str, ...] = ("add_kernel",)) -> Trace:
    texts = tuple(KernelText(name, 3, "jit", {}) for name in kernels)
    return Trace({}, (), texts, choices, ())


def choose(*launches: Launch, line: int = LINE) -> Choose:
    return Choose(tuple((one,) for one in launches), line)


def words(*launches: Launch) -> list[str]:
    """What the rows of these configurations say."""
    times = tuple(float(place) for place in range(len(launches)))
    (table,) = tuned_tables(trace_of(choose(*launches)), [TunedChoice(LINE, times, 0)])
    return [row.words for row in table.configurations]


def test_a_row_names_only_what_differs_between_the_configurations() -> None:
    assert words(launch(BLOCK=1024, DEPTH=2), launch(BLOCK=4096, DEPTH=2)) == ["BLOCK=1024", "BLOCK=4096"]


def test_constants_come_first_and_options_after_them() -> None:
    assert words(launch(BLOCK=64, num_warps=4), launch(BLOCK=128, num_warps=8)) == [
        "BLOCK=64, num_warps=4",
        "BLOCK=128, num_warps=8",
    ]


def test_what_one_configuration_has_alone_is_named_there_alone() -> None:
    assert words(launch(BLOCK=64), launch(BLOCK=64, STAGED=True)) == ["", "STAGED=True"]


def test_a_constexpr_is_shown_by_its_value_and_what_is_no_plain_value_is_not_shown() -> None:
    one, other = (ConstexprValue(value) for value in (64, 128))
    halves, singles = DtypeValue("triton", "fp16"), DtypeValue("triton", "fp32")
    assert words(launch(BLOCK=one, KIND=halves), launch(BLOCK=other, KIND=singles)) == ["BLOCK=64", "BLOCK=128"]


@pytest.mark.parametrize("only", [1, 3])
def test_configurations_that_are_all_the_same_have_no_words(only: int) -> None:
    assert words(*[launch(BLOCK=64)] * only) == [""] * only


def test_a_table_says_which_kernel_in_which_line_how_long_each_took_and_which_was_chosen() -> None:
    step = choose(launch(BLOCK=64), launch(BLOCK=128), launch(BLOCK=256))
    (table,) = tuned_tables(trace_of(step), [TunedChoice(LINE, (7.5, -1.0, 6.25), 2)])
    assert (table.kernel, table.line) == ("add_kernel", LINE)
    assert [(row.words, row.time_us, row.chosen) for row in table.configurations] == [
        ("BLOCK=64", 7.5, False),
        ("BLOCK=128", -1.0, False),
        ("BLOCK=256", 6.25, True),
    ]


def test_a_configuration_is_told_by_its_first_launch_whatever_its_hook_did_before() -> None:
    fill = Operator("fill_.Scalar", (), {}, (), LINE)
    step = Choose(tuple((fill, launch(BLOCK=block, kernel=1)) for block in (64, 128)), LINE)
    trace = trace_of(step, kernels=("other_kernel", "add_kernel"))
    (table,) = tuned_tables(trace, [TunedChoice(LINE, (1.0, 2.0), 0)])
    assert table.kernel == "add_kernel"
    assert [row.words for row in table.configurations] == ["BLOCK=64", "BLOCK=128"]


def test_every_autotuned_launch_has_a_table_in_the_order_of_the_call() -> None:
    steps = [choose(launch(line, BLOCK=64), launch(line, BLOCK=128), line=line) for line in (7, 17)]
    tables = tuned_tables(trace_of(*steps), [TunedChoice(line, (1.0, 2.0), 0) for line in (7, 17)])
    assert [table.line for table in tables] == [7, 17]


def test_what_is_not_autotuned_has_no_table() -> None:
    trace = replace(trace_of(), steps=(launch(BLOCK=64),))
    assert tuned_tables(trace, []) == ()
    assert tuned_tables(trace, [TunedChoice(LINE, (1.0,), 0)]) == ()


@pytest.mark.parametrize(
    "choice",
    [
        TunedChoice(LINE + 1, (1.0, 2.0), 0),
        TunedChoice(LINE, (1.0,), 0),
        TunedChoice(LINE, (1.0, 2.0, 3.0), 0),
        TunedChoice(LINE, (1.0, 2.0), 2),
        TunedChoice(LINE, (1.0, 2.0), -1),
    ],
    ids=["another line", "too few times", "too many times", "a place too far", "a place before"],
)
def test_a_choice_that_does_not_fit_the_trace_is_left_out(choice: TunedChoice) -> None:
    assert tuned_tables(trace_of(choose(launch(BLOCK=64), launch(BLOCK=128))), [choice]) == ()


@pytest.mark.parametrize(("chosen", "rows"), [(0, 64), (63, 64), (80, 65)])
def test_of_very_many_configurations_the_first_are_shown_and_always_the_chosen_one(chosen: int, rows: int) -> None:
    many = [launch(BLOCK=block) for block in range(100)]
    (table,) = tuned_tables(trace_of(choose(*many)), [TunedChoice(LINE, (1.0,) * 100, chosen)])
    assert len(table.configurations) == rows
    assert [row.words for row in table.configurations if row.chosen] == [f"BLOCK={chosen}"]


def test_words_are_short_and_clean_whatever_a_configuration_holds() -> None:
    odd = words(launch(NAME="\x1b[31m" + "x" * 4000), launch(NAME="y"))
    assert "\x1b" not in "".join(odd)
    assert max(map(len, odd)) < 300
