"""A submission on its bench: calls in a process of its own, examined beside the truth, with no grading around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.catalogue import Entry
from grader.judge.bench import Bench
from grader.judge.truth import Truth
from grader.sandbox.server import ForkServer
from tests.racing import session_of


@contextmanager
def bench_of(server: ForkServer, entry: Entry, source: str | Path, part: str = "vector_add") -> Iterator[Bench]:
    """The bench of one part of a submission, whose file is loaded."""
    found = entry.exercise.part(part)
    assert found is not None
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    with session_of(server, entry, text) as session:
        session.load()
        yield Bench(session, Truth(entry.source("inputs.py"), entry.source("oracle.py")), found, "x.py", "cpu", 0)
