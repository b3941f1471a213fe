"""Describe a process of a submission: the server that starts it, its first message, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grader.exercise.catalogue import Entry
from grader.exercise.model import Limits
from grader.protocol.requests import Start
from grader.sandbox.server import Spawner


@dataclass(frozen=True)
class ProcessSpec:
    """Say how to start a process of one submission. server: starts it. start: its first message. limits: its own."""

    server: Spawner
    start: Start
    limits: Limits

    @classmethod
    def of(cls, server: Spawner, entry: Entry, submission: str) -> ProcessSpec:
        """Return the spec of a process that runs a text as a submission, with the limits of the exercise."""
        return cls(server, entry.start(submission), entry.exercise.limits)

    def on(self, server: Spawner) -> ProcessSpec:
        """Return the same spec for another server, as one of another mode."""
        return replace(self, server=server)

    def replaying(self) -> ProcessSpec:
        """Return the spec of a clean process, which replays what the submission's process recorded."""
        return replace(self, start=replace(self.start, role="replay"))

    def targeting(self, target: int) -> ProcessSpec:
        """Return the spec of a process that finds, or compiles for, the GPU of this capability."""
        return replace(self, start=replace(self.start, target=target))
