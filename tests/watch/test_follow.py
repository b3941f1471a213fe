"""Following a file: whatever way an editor saves it, and where no events come."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.cli.files import read_submission
from grader.watch import follow
from grader.watch.follow import Follower, signature
from grader.watch.state import Event, Polls, Saved, Unreadable

PATIENCE_S = 20


class Heard:
    """The texts that a follower reported, with a timeout."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def next(self) -> Event:
        return self.events.get(timeout=PATIENCE_S)

    def text(self) -> str:
        """Return the next text, and skip all other events."""
        while not isinstance(event := self.next(), Saved):
            pass
        return event.source


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ex_1.py"
    path.write_text("one\n")
    return path


@pytest.fixture
def heard(file: Path) -> Iterator[Heard]:
    heard = Heard()
    with Follower(file, read_submission, heard.events.put):
        assert heard.next() == Saved("one\n")
        yield heard


def test_a_save_in_place_is_told(file: Path, heard: Heard) -> None:
    file.write_text("two\n")
    assert heard.text() == "two\n"


def test_a_file_put_in_its_place_is_told_again_and_again(file: Path, heard: Heard) -> None:
    for text in ("two\n", "three\n"):
        beside = file.with_suffix(".tmp")
        beside.write_text(text)
        os.replace(beside, file)
        assert heard.text() == text


def test_a_backup_that_takes_the_old_file_away_is_no_loss(file: Path, heard: Heard) -> None:
    file.rename(file.with_suffix(".bak"))
    file.write_text("two\n")
    assert heard.next() == Saved("two\n")


def test_a_file_that_is_gone_is_told_and_so_is_its_return(file: Path, heard: Heard) -> None:
    file.unlink()
    assert isinstance(heard.next(), Unreadable)
    file.write_text("again\n")
    assert heard.text() == "again\n"


def test_what_is_no_text_is_told_with_its_reason(file: Path, heard: Heard) -> None:
    file.write_bytes(b"x = '\xff'")
    event = heard.next()
    assert isinstance(event, Unreadable)
    assert "must be UTF-8" in event.why


def test_the_file_behind_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "real.py", tmp_path / "ex_1.py"
    real.write_text("one\n")
    link.symlink_to(real)
    heard = Heard()
    with Follower(link, read_submission, heard.events.put):
        assert heard.text() == "one\n"
        real.write_text("two\n")
        assert heard.text() == "two\n"


def test_without_events_the_file_is_looked_at_and_that_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network share: the watch stands, and nothing ever comes of it."""
    import watchfiles

    def silent(*folders: object, stop_event: object, rust_timeout: int, **_: object) -> Iterator[set[object]]:
        while not stop_event.wait(rust_timeout / 1000):  # type: ignore[attr-defined]
            yield set()

    monkeypatch.setattr(watchfiles, "watch", silent)
    heard = Heard()
    with Follower(file, read_submission, heard.events.put):
        assert heard.next() == Saved("one\n")
        file.write_text("two\n")
        assert heard.next() == Saved("two\n")
        assert heard.next() == Polls()


@pytest.mark.parametrize("fault", [OSError("no more watches"), RuntimeError("not here"), ImportError("watchfiles")])
def test_where_nothing_can_be_watched_the_file_is_looked_at(
    file: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def refused(*folders: object, **_: object) -> Iterator[set[object]]:
        raise fault

    import watchfiles

    monkeypatch.setattr(watchfiles, "watch", refused)
    monkeypatch.setattr(follow, "_LOOK_S", 0.02)
    heard = Heard()
    with Follower(file, read_submission, heard.events.put):
        assert heard.next() == Saved("one\n")
        file.write_text("two\n")
        assert heard.text() == "two\n"


def test_a_signature_tells_versions_apart_and_a_missing_file_from_both(file: Path) -> None:
    before = signature(file)
    os.utime(file, ns=(0, 0))
    assert None not in (before, signature(file))
    assert signature(file) != before
    assert signature(file.with_name("gone.py")) is None
