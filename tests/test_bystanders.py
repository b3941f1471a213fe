"""Whatever is not known and starts to run is named before it does; and is afterwards what it was."""

from __future__ import annotations

import gc
import operator
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat

import pytest

from grader.child import bystanders, traps
from grader.child.bystanders import Bystanders

ran: list[str] = []
named: list[str] = []


def plain(_: object = None) -> str:
    ran.append(f"plain, behind {named}")
    return "what it returns"


def outer(said: str) -> Callable[[], str]:
    return lambda: f"{said}, behind {named}"


def steps() -> Iterator[str]:
    while True:
        yield f"a step, behind {named}"


class Own:
    def __del__(self) -> None:
        ran.append(f"a finaliser, behind {named}")


CODE = plain.__code__
KNOWN = Bystanders()


# A hook cannot be taken away; where nothing is excluded it hears nothing.
sys.addaudithook(KNOWN.heard)


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """All code is known but that of this file; also what tests of other files have left behind."""
    ran.clear()
    named.clear()
    halted = filter(None, map(traps._halted_code, gc.get_objects()))
    codes = [*bystanders._codes_there().values(), *halted]
    known = {id(code): code for code in codes if code.co_filename != __file__}
    monkeypatch.setattr(KNOWN, "_known", known)
    monkeypatch.setattr(KNOWN, "_places", ())


def excluded(run: Callable[[], object]) -> object:
    """What a callable that is not Python code gives while all of this file is excluded."""
    with KNOWN.excluded((excluded.__code__,), named.append):
        return run()


@pytest.mark.parametrize("make", [lambda: plain, lambda: outer("a closure"), lambda: partial(next, steps())])
def test_a_function_that_is_called_is_named_before_it_runs(make: Callable[[], Callable[[], object]]) -> None:
    given = make()
    excluded(given)
    assert len(named) == 1
    assert named[0].endswith("() while a kernel ran")


def test_what_was_named_runs_all_the_same_and_has_its_own_code_again() -> None:
    assert excluded(plain) == "what it returns"
    assert ran == ["plain, behind ['plain() while a kernel ran']"]
    assert plain.__code__ is CODE
    assert not sys.gettrace()


def test_a_generator_that_had_begun_is_named_when_it_goes_on() -> None:
    going = steps()
    next(going)
    assert excluded(partial(next, going)) == "a step, behind ['steps() while a kernel ran']"


def test_a_finaliser_is_named() -> None:
    kept = [Own()]
    excluded(kept.clear)
    assert ran == ["a finaliser, behind ['__del__() while a kernel ran']"]


@pytest.mark.parametrize(
    "calls",
    [
        lambda: map(exec, repeat(compile("ran.append(str(named))", "x", "exec")), repeat(globals())),
        lambda: map(operator.call, map(types.FunctionType, repeat(CODE), repeat(globals())), repeat(None)),
    ],
    ids=["executed", "made a function of"],
)
def test_code_without_a_function_is_named_before_it_runs(calls: Callable[[], Iterator[object]]) -> None:
    excluded(partial(next, calls()))
    assert len(named) == 1
    assert named[0] in ran[0]
    assert not sys.gettrace()


def test_what_the_collector_was_told_to_forget_is_found_all_the_same() -> None:
    gc.freeze()
    try:
        excluded(plain)
    finally:
        gc.unfreeze()
    assert named == ["plain() while a kernel ran"]


def test_every_call_is_looked_at_only_where_a_generator_could_go_on() -> None:
    assert excluded(sys.gettrace) is None
    going = steps()
    assert excluded(sys.gettrace) is not None
    excluded(partial(sys.settrace, None))
    assert named == ["sys.settrace() while a kernel ran"]
    del going


def test_code_that_is_admitted_is_not_named() -> None:
    with KNOWN.excluded((excluded.__code__, CODE), named.append):
        (plain)()
    assert (len(ran), named) == (1, [])


def test_where_nothing_strange_runs_nothing_is_named_and_every_function_keeps_its_code() -> None:
    before = outer("closure").__code__, steps.__code__
    assert excluded(partial(sum, (1, 2))) == 3
    assert (named, (outer("closure").__code__, steps.__code__)) == ([], before)
