"""A session whose process says anything at all: it ends in an outcome, in time, and leaves nothing open behind it."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from grader.errors import GradeError
from grader.protocol.answers import Compiled, Loaded, Precompiled, Prepared, Raised, Sampled
from grader.protocol.frames import FrameError, receive, send
from grader.protocol.requests import Call, Compile, Precompile, Prepare, Recipe, Sample, Show, Slot
from grader.sandbox import session as sandbox
from grader.sandbox.outcome import Died, Finished, Garbled, OutOfMemory, TimedOut
from grader.sandbox.session import Session
from tests.impostor import (
    ANSWERS,
    COMPILED,
    LOADED,
    PRECOMPILED,
    PREPARED,
    READY,
    RETURNED,
    SAMPLED,
    SHOWN,
    Impostor,
    Saying,
    descriptors_open,
    framed,
    said,
    script,
    session_with,
)

pytestmark = pytest.mark.process

RECIPE = Recipe("copy", {"N": 7}, 17)
UNANSWERED = (Died, TimedOut, OutOfMemory, Garbled)
SLOTS = (Slot("float32", (7,), 0, 28), Slot("int64", (), 64, 8))

Ask = Callable[[Session], object]


def load(session: Session) -> object:
    return session.load()


def call(session: Session) -> object:
    return session.call(Call(RECIPE, ("x",), (), SLOTS))


def precompile(session: Session) -> object:
    return session.precompile(Precompile(Call(RECIPE, ("x",), (), ()), {}), 0.05)


def prepare(session: Session) -> object:
    return session.prepare(Prepare(Call(RECIPE, ("x",), (), ()), ({},), "stream", 64), 0.05)


def sample(session: Session) -> object:
    return session.sample(Sample(17), 0.05)


def show(session: Session) -> object:
    return session.show(Show(0, 0, 17))


def compile_(session: Session) -> object:
    return session.compile(Compile(Call(RECIPE, ("x",), (), ()), {}, 90), 0.05)[0]


ASKS: dict[Ask, tuple[type, ...]] = {
    load: (Loaded, Raised, *UNANSWERED),
    call: (Finished, Raised, *UNANSWERED),
    precompile: (Precompiled, Raised, *UNANSWERED),
    prepare: (Prepared, Raised, *UNANSWERED),
    sample: (Sampled, Raised, *UNANSWERED),
    show: (bytes, type(None)),
    compile_: (Compiled, Raised, *UNANSWERED),
}
HONEST = {
    load: LOADED,
    call: RETURNED,
    precompile: PRECOMPILED,
    prepare: PREPARED,
    sample: SAMPLED,
    show: SHOWN,
    compile_: COMPILED,
}


def asked(impostor: Impostor, *asks: Ask, limit_s: float = 5.0) -> list[object]:
    """What becomes of these questions. Whatever it is, nothing is left open, and every process is given back."""
    before = descriptors_open()
    found: list[object] = []
    with session_with(impostor, limit_s) as session:
        for ask in asks:
            try:
                found.append(ask(session))
            except GradeError as refused:
                # The one exception that is documented: the process was not there before the submission was.
                found.append(refused)
                break
    for ask, one in zip(asks, found, strict=False):
        assert isinstance(one, ASKS[ask]) or str(one).startswith("a fresh process must be ready for a submission"), one
    assert impostor.reaped == impostor.spawned
    assert descriptors_open() <= before
    return found


# -- what it may say -------------------------------------------------------------------------------------------------

EXTREMES = st.sampled_from(
    [
        *(0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, -(2**64), 10**400, -(10**4299)),
        *(0.0, -0.0, 5e-324, 1e15, 1.1e15, -1e308, 1e308, True, False, None),
        *("", "nan", "7", "\x00", "\ud800", "\x9b2J", "::error::x", "{{ 7*7 }}", "a" * 5000),
        *([], {}, [[]], [0] * 2000, {"": 0}, {str(i): i for i in range(2000)}),
    ]
)
JSON = st.recursive(
    EXTREMES | st.text(max_size=7) | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=7), inner, max_size=3),
    max_leaves=7,
)


@st.composite
def distorted(draw: Any) -> bytes:
    """An answer in which one value is another, or is missing, or there is one too many."""
    answer = json.loads(json.dumps(draw(st.sampled_from(ANSWERS))))
    places = [(answer, key) for key in answer]
    for container, key in list(places):
        if isinstance(container[key], list) and container[key] and isinstance(container[key][0], dict):
            places += [(container[key][0], inner) for inner in container[key][0]]
    container, key = draw(st.sampled_from(places))
    match draw(st.sampled_from(["replaced", "missing", "added", "twice"])):
        case "replaced":
            container[key] = draw(JSON)
        case "missing":
            del container[key]
        case "added":
            container[draw(st.text(max_size=7))] = draw(JSON)
        case "twice":
            text = json.dumps(answer)
            return framed(f"{{{json.dumps(key)}: {json.dumps(draw(JSON))}, {text[1:]}".encode())
    return said(answer)


ODD_PAYLOADS = st.sampled_from(
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"answer": NaN}',
        b'{"answer": "loaded", "functions": [1e999], "others": []}',
        b'{"answer": "\xff"}',
        b'{"answer": "\\ud800"}',
        b'{"a":' * 5000,
        b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"answer": "returned", "outputs": ' + b"[" * 40 + b"]" * 40 + b"}",
    ]
)
FRAMES = st.one_of(
    st.sampled_from([*map(said, ANSWERS)]),
    distorted(),
    ODD_PAYLOADS.map(framed),
    st.binary(max_size=40),
    st.builds(framed, st.binary(max_size=40), st.sampled_from([b"grd1", b"grd2", b"HTTP"])),
    st.builds(
        framed, st.binary(max_size=40), length=st.sampled_from([0, 7, 1 << 20, (1 << 20) + 1, 1 << 31, 2**32 - 1])
    ),
    # Half a frame, and then silence.
    st.sampled_from(ANSWERS).flatmap(lambda answer: st.integers(0, 20).map(lambda kept: said(answer)[:kept])),
)
SAYINGS = st.builds(Saying, st.lists(FRAMES, max_size=3).map(b"".join), st.sampled_from([0, 0, 0, 1, 3]))
STATUSES = st.sampled_from([-1, 0, 7 << 8, 255 << 8, 9, 11, 6 | 0x80, 34, 64, 0x7F])


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    st.lists(SAYINGS, max_size=4),
    st.lists(st.sampled_from(list(ASKS)), min_size=1, max_size=3),
    st.integers(0, 3),
    st.booleans(),
    STATUSES,
)
@example([], [call], 0, True, -1)
@example([Saying(framed(b"", length=2**31))], [call], 2, False, 0)
def test_whatever_a_process_says_the_session_ends_in_an_outcome_and_in_time(
    sayings: list[Saying], asks: list[Ask], honest: int, closes: bool, status: int
) -> None:
    beginning = script(READY, LOADED, HONEST[asks[0]])[:honest]
    started = time.monotonic()
    asked(Impostor((*beginning, *sayings), closes, status=status), *asks, limit_s=0.05)
    assert time.monotonic() - started < 5


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(FRAMES, max_size=6), st.lists(st.sampled_from(list(ASKS)), min_size=1, max_size=3), st.booleans())
def test_a_process_that_says_everything_before_it_is_asked_gains_no_time(
    frames: list[bytes], asks: list[Ask], closes: bool
) -> None:
    started = time.monotonic()
    asked(Impostor(script(READY, LOADED, *frames), closes, deaf=True), *asks, limit_s=0.05)
    assert time.monotonic() - started < 5


# -- what has a name -------------------------------------------------------------------------------------------------


def test_honest_answers_are_taken_one_after_another() -> None:
    answers = script(READY, LOADED, RETURNED, PREPARED, SAMPLED, SHOWN, COMPILED)
    found = asked(Impostor(answers), load, call, prepare, sample, show, compile_)
    assert [type(one) for one in found] == [Loaded, Finished, Prepared, Sampled, bytes, Compiled]


def test_a_sample_of_a_process_that_has_ended_is_none() -> None:
    first, second = asked(Impostor(script(READY, LOADED)), prepare, sample)
    assert isinstance(first, UNANSWERED)
    assert second == Died("ended before it was timed")


@pytest.mark.parametrize("ask", [call, precompile, prepare, compile_])
@pytest.mark.parametrize("answer", [*ANSWERS, {"answer": "won"}], ids=lambda answer: answer["answer"])
def test_the_answer_to_another_question_is_none(ask: Ask, answer: dict[str, Any]) -> None:
    if answer is HONEST[ask] or answer["answer"] == "raised":
        return
    (found,) = asked(Impostor(script(READY, LOADED, answer)), ask)
    assert found is None or isinstance(found, Garbled)


@pytest.mark.parametrize("answer", ANSWERS[2:], ids=lambda answer: answer["answer"])
def test_what_loads_nothing_is_no_loaded_file(answer: dict[str, Any]) -> None:
    (found,) = asked(Impostor(script(READY, answer)), load)
    assert isinstance(found, Raised if answer["answer"] == "raised" else Garbled)


@pytest.mark.parametrize(
    "first", [b"", b"HTTP/1.1 200 OK\r\n\r\n", said(LOADED), framed(b"[]"), framed(b"", length=1 << 31)]
)
def test_a_process_that_is_not_ready_is_the_grader_s_own_trouble(first: bytes) -> None:
    with (
        session_with(Impostor(script(first)), 0.2) as session,
        pytest.raises(GradeError, match="must be ready for a submission, got"),
    ):
        session.load()


def test_an_answer_that_comes_twice_is_no_answer_to_the_next_question() -> None:
    twice = said(RETURNED) * 2
    first, second = asked(Impostor(script(READY, LOADED, twice, RETURNED)), call, call)
    assert isinstance(first, Finished)
    assert second == Garbled("an answer must follow its question, got one before it was asked")


def test_a_sample_that_comes_before_its_seed_is_none() -> None:
    early = said(PREPARED) + said(SAMPLED)
    first, second = asked(Impostor(script(READY, LOADED, early, SAMPLED)), prepare, sample)
    assert isinstance(first, Prepared)
    assert second == Garbled("an answer must follow its question, got one before it was asked")


def test_a_process_that_answers_and_never_reads_is_not_written_to_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not read fills the channel; the next message waits for room that never comes."""
    # As for a process that answers in the moment between this look and the question.
    monkeypatch.setattr(sandbox, "has_more", lambda channel: False)
    impostor = Impostor(script(READY, LOADED, *[RETURNED] * 2000), deaf=True)
    found: list[object] = []
    with session_with(impostor, 0.5) as session:
        asking = threading.Thread(target=lambda: found.append(first_unanswered(session)), daemon=True)
        asking.start()
        asking.join(30)
        assert not asking.is_alive()
    assert found == [TimedOut(0.5)]


def first_unanswered(session: Session) -> object:
    """Ask until no answer comes."""
    return next(found for _ in range(500) if not isinstance(found := session.call(long_call()), Finished))


def long_call() -> Call:
    return Call(Recipe("copy", {"dtype": "x" * 8000}, 17), ("x",), (), ())


def test_half_a_frame_does_not_hide_how_a_process_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([1 << 20, 1 << 20, 2 << 30])
    monkeypatch.setattr(sandbox.usage, "resident_bytes", lambda pid: next(sizes))
    (found,) = asked(Impostor(script(READY, LOADED, said(RETURNED)[:17])), call)
    assert found == OutOfMemory(1 << 30, 2 << 30)


def test_a_process_that_dribbles_is_watched_and_waited_for_no_longer_than_another() -> None:
    # Every byte comes within the time that the next look would take.
    ours, theirs = socket.socketpair()
    done, looked = threading.Event(), []

    def dribble() -> None:
        for byte in framed(b" " * 1000):
            theirs.send(bytes([byte]))
            if done.wait(0.01):
                return

    thread = threading.Thread(target=dribble)
    with ours, theirs:
        thread.start()
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            receive(ours, 1 << 20, deadline=started + 0.5, watch=lambda: looked.append(time.monotonic()))
        assert time.monotonic() - started < 5
        done.set()
        thread.join()
    assert len(looked) >= 2


def test_descriptors_that_nobody_asked_for_are_closed() -> None:
    sent = [Saying(said(answer), 3) for answer in (READY, LOADED, RETURNED)]
    (found,) = asked(Impostor(sent), call)
    assert isinstance(found, Finished)


def test_a_status_that_is_no_end_is_told_all_the_same() -> None:
    for status in (-1, 0, 9, 34, 40, 64, 0x7F, 255 << 8):
        (found,) = asked(Impostor(script(READY, LOADED), closes=True, status=status), call)
        assert isinstance(found, Died)


# -- the memory file -------------------------------------------------------------------------------------------------


def memory_file() -> int:
    return sandbox._sealed_memory(100)


@pytest.mark.parametrize(
    "change",
    [
        lambda descriptor: os.ftruncate(descriptor, 0),
        lambda descriptor: os.ftruncate(descriptor, 1 << 30),
        lambda descriptor: os.posix_fallocate(descriptor, 0, 1 << 20),
        lambda descriptor: os.pwrite(descriptor, b"x", 1 << 20),
    ],
    ids=["shrunk", "grown", "allocated", "written behind its end"],
)
def test_whoever_holds_the_memory_file_cannot_change_its_size(change: Callable[[int], object]) -> None:
    descriptor = memory_file()
    with pytest.raises(OSError, match="not permitted"):
        change(descriptor)
    assert os.fstat(descriptor).st_size == 100
    os.close(descriptor)


@given(st.lists(st.booleans(), max_size=20))
def test_outputs_beyond_the_slots_and_slots_without_an_output_are_no_bytes(copied: list[bool]) -> None:
    forms = [{"kind": "tensor", "copied": one} for one in copied]
    (found,) = asked(Impostor(script(READY, LOADED, RETURNED | {"outputs": forms})), call)
    assert isinstance(found, Finished)
    assert [raw is not None for raw in found.outputs] == (copied + [False] * 2)[:2]


# -- time and memory of the decoders ---------------------------------------------------------------------------------


def largest_frames() -> Iterator[tuple[str, bytes]]:
    """Answers that fill a frame with as many values as it takes."""
    room = (1 << 20) - 400
    fill = {
        "launches": '{"kernel":"","grid":[],"constants":{}},',
        "outputs": '{"kind":""},',
        "changed": "[],",
        "findings": "{},",
    }
    for name, one in fill.items():
        items = (one * (room // len(one)))[:-1]
        empty = json.dumps({**RETURNED, name: []})
        yield name, empty.replace(f'"{name}": []', f'"{name}": [{items}]').encode()
    many = ",".join(f'"{i:x}":1' for i in range(room // 10))
    yield "constants", json.dumps(RETURNED).replace('{"BLOCK": 64}', f"{{{many}}}").encode()
    shape = ",".join(["9" * 4000] * 250)
    yield "shape", json.dumps(RETURNED).replace('"shape": [7]', f'"shape": [{shape}]').encode()


@pytest.mark.parametrize(
    ("name", "payload"), list(largest_frames()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_frame_full_of_values_costs_the_grader_neither_time_nor_memory(name: str, payload: bytes) -> None:
    assert len(payload) <= 1 << 20
    started = time.process_time()
    (found,) = asked(Impostor(script(READY, LOADED, framed(payload))), call)
    assert isinstance(found, Garbled), found
    assert len(found.why) < 6000
    assert time.process_time() - started < 3


@given(st.binary(max_size=64), st.integers(1, 64))
def test_a_reader_takes_no_more_than_its_frame(rest: bytes, limit: int) -> None:
    writer, reader = socket.socketpair()
    with writer, reader:
        writer.sendall(framed(b"{}") + rest)
        writer.close()
        assert receive(reader, max(limit, 2))[0] == {}
        assert reader.recv(100) == rest


@given(st.integers(801, 2**32 - 1))
def test_a_length_is_refused_before_anything_is_set_aside_for_it(length: int) -> None:
    writer, reader = socket.socketpair()
    with writer, reader:
        writer.sendall(framed(b"", length=length))
        with pytest.raises(FrameError, match="a frame must hold at most"):
            receive(reader, 800)


def test_a_message_to_a_reader_that_reads_arrives_whole_within_its_deadline() -> None:
    writer, reader = socket.socketpair()
    message = {"source": random.Random(17).randbytes(1 << 20).hex()}
    with writer, reader:
        thread = threading.Thread(target=send, args=(writer, message, (), time.monotonic() + 60))
        thread.start()
        assert receive(reader, 1 << 23, deadline=time.monotonic() + 60) == (message, [])
        thread.join()
        assert writer.gettimeout() is None


@pytest.mark.parametrize("descriptors", [(), (sys.__stderr__.fileno(),)])
def test_a_message_to_a_reader_that_does_not_read_is_given_up(descriptors: tuple[int, ...]) -> None:
    writer, reader = socket.socketpair()
    with writer, reader:
        with pytest.raises(TimeoutError):
            send(writer, {"source": "x" * (1 << 20)}, descriptors, time.monotonic() + 0.05)
        with pytest.raises(TimeoutError):
            send(writer, {}, descriptors, time.monotonic() - 1)
