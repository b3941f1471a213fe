"""Frames: what is no frame is refused by name, whatever a writer sends and however slowly."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.protocol.frames import Closed, FrameError, receive, send

LIMIT = 1 << 16
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A writer's end and a reader's end."""
    with connected() as ends:
        yield ends


@contextlib.contextmanager
def connected() -> Iterator[Pair]:
    writer, reader = socket.socketpair()
    with writer, reader:
        yield writer, reader


def frame(payload: bytes, magic: bytes = b"grd1", length: int | None = None) -> bytes:
    return struct.pack(">4sI", magic, len(payload) if length is None else length) + payload


def received(data: bytes, limit: int = LIMIT) -> dict[str, Any]:
    """What a reader makes of these bytes and the end of the stream."""
    with connected() as (writer, reader):
        writer.sendall(data)
        writer.close()
        return receive(reader, limit)[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (frame(b"{}", magic=b"HTTP"), "a frame must start with b'grd1', got b'HTTP'"),
        (b"\x80\x04\x95\x10cos\nsystem\n", r"a frame must start with b'grd1', got b'\x80\x04\x95\x10'"),
        (frame(b"won"), "a frame must hold JSON: Expecting value: line 1 column 1 (char 0)"),
        (frame(b""), "a frame must hold JSON: Expecting value: line 1 column 1 (char 0)"),
        (frame(b"{} {}"), "a frame must hold JSON: Extra data: line 1 column 4 (char 3)"),
        (frame(b'{"a": NaN}'), "a frame must hold JSON: NaN is not JSON"),
        (frame(b'{"a": [-Infinity]}'), "a frame must hold JSON: -Infinity is not JSON"),
        (frame(b"[1, 2]"), "a frame must hold a JSON object, got list"),
        (frame(b'"won"'), "a frame must hold a JSON object, got str"),
        (frame(b"null"), "a frame must hold a JSON object, got NoneType"),
    ],
)
def test_what_is_no_frame_is_refused_by_its_fault(data: bytes, message: str) -> None:
    with pytest.raises(FrameError) as refused:
        received(data)
    assert str(refused.value) == message


@pytest.mark.parametrize("payload", [b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', '{"a": 1}'.encode("utf-16")])
def test_a_payload_that_is_no_utf_8_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError, match="a frame must hold JSON: "):
        received(frame(payload))


@pytest.mark.parametrize("payload", [b"[" * 50_000, b'{"a":' * 10_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_what_python_s_parser_gives_up_on_is_refused(payload: bytes) -> None:
    with pytest.raises(FrameError, match="a frame must hold JSON: "):
        received(frame(payload))


def test_the_reason_of_a_refusal_is_short() -> None:
    with pytest.raises(FrameError) as refused:
        received(frame(b'{"a": ' + b"9" * 5000 + b"}"))
    assert len(str(refused.value)) <= 120


def test_a_frame_that_is_too_long_is_refused_before_its_payload_comes(pair: Pair) -> None:
    writer, reader = pair
    writer.sendall(frame(b"", length=65))
    with pytest.raises(FrameError, match=r"^a frame must hold at most 64 bytes, got 65$"):
        receive(reader, 64)


def test_a_frame_may_be_as_long_as_the_limit() -> None:
    payload = b'{"a": "' + b"x" * 55 + b'"}'
    assert len(payload) == 64
    assert received(frame(payload), limit=64) == {"a": "x" * 55}


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 9, 14])
def test_a_stream_that_ends_before_its_frame_is_closed(kept: int) -> None:
    with pytest.raises(Closed):
        received(frame(b'{"a":7}')[:kept])


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 14])
def test_it_is_closed_just_so_where_descriptors_are_awaited(pair: Pair, kept: int) -> None:
    writer, reader = pair
    writer.sendall(frame(b'{"a":7}')[:kept])
    writer.close()
    with pytest.raises(Closed):
        receive(reader, LIMIT, descriptors=1)


def test_a_reader_whose_deadline_has_passed_reads_nothing(pair: Pair) -> None:
    writer, reader = pair
    send(writer, {"a": 7})
    with pytest.raises(TimeoutError):
        receive(reader, LIMIT, deadline=time.monotonic() - 1)


def test_a_writer_that_dribbles_gains_nothing(pair: Pair) -> None:
    writer, reader = pair

    def dribble() -> None:
        # Ten bytes in each of the reader's whole allowances would keep a timeout per read from ever ending.
        with contextlib.suppress(OSError):
            for byte in frame(b" " * LIMIT):
                writer.sendall(bytes([byte]))
                time.sleep(0.01)

    thread = threading.Thread(target=dribble)
    thread.start()
    with pytest.raises(TimeoutError):
        receive(reader, LIMIT, deadline=time.monotonic() + 0.1)
    reader.close()
    thread.join()


def test_a_deadline_binds_its_own_frame_only(pair: Pair) -> None:
    writer, reader = pair
    send(writer, {"a": 7})
    receive(reader, LIMIT, deadline=time.monotonic() + 60)
    assert reader.gettimeout() is None


MESSAGES = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=7,
    ),
)


@settings(max_examples=50)
@given(st.lists(MESSAGES, min_size=1, max_size=3))
def test_messages_arrive_as_they_were_sent_and_in_order(messages: list[dict[str, Any]]) -> None:
    with connected() as (writer, reader):
        for message in messages:
            send(writer, message)
        assert [receive(reader, LIMIT) for _ in messages] == [(message, []) for message in messages]


def test_a_message_longer_than_the_socket_s_buffer_arrives_whole(pair: Pair) -> None:
    writer, reader = pair
    message = {"source": "x" * 3_000_017}
    thread = threading.Thread(target=send, args=(writer, message))
    thread.start()
    assert receive(reader, 1 << 22, deadline=time.monotonic() + 60) == (message, [])
    thread.join()


def test_descriptors_arrive_beside_their_message(pair: Pair) -> None:
    writer, reader = pair
    inlets = [os.pipe(), os.pipe()]
    send(writer, {"a": 7}, [inlet for _, inlet in inlets])
    send(writer, {"b": 17})
    message, received_fds = receive(reader, LIMIT, descriptors=2)
    assert message == {"a": 7}
    for (outlet, inlet), descriptor in zip(inlets, received_fds, strict=True):
        os.write(descriptor, b"hello")
        assert os.read(outlet, 63) == b"hello"
        for used in (outlet, inlet, descriptor):
            os.close(used)
    assert receive(reader, LIMIT, descriptors=2) == ({"b": 17}, [])


@given(st.binary(max_size=500))
@example(frame(b""))
@example(frame(b"{}", length=2**32 - 1))
def test_no_bytes_raise_anything_but_the_three_errors(data: bytes) -> None:
    for bytes_sent in (data, frame(data)):
        with contextlib.suppress(FrameError, Closed, TimeoutError):
            assert isinstance(received(bytes_sent), dict)


@given(st.text(max_size=500).map(json.dumps), st.data())
def test_no_broken_json_raises_anything_but_a_frame_error(text: str, data: Any) -> None:
    document = f'{{"a": [{text}, 1e999, -0, {{"b": null}}]}}'.encode()
    at = data.draw(st.integers(0, len(document) - 1))
    broken = document[:at] + data.draw(st.binary(max_size=3)) + document[at + 1 :]
    with contextlib.suppress(FrameError):
        assert isinstance(received(frame(broken)), dict)


def test_a_look_that_takes_longer_than_the_time_between_looks_ends_nothing() -> None:
    ours, theirs = socket.socketpair()
    looked: list[float] = []

    def look() -> None:
        looked.append(time.monotonic())
        time.sleep(0.12)

    late = threading.Timer(0.5, send, (theirs, {"answer": 7}))
    late.start()
    with ours, theirs:
        message, _ = receive(ours, 1 << 10, deadline=time.monotonic() + 10.0, watch=look)
        late.join()
    assert message == {"answer": 7}
    assert len(looked) >= 2
