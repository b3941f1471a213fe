"""Hold a call that is ready to be replayed: its request, its recording, and the recipe of its true inputs."""

from __future__ import annotations

from dataclasses import dataclass

from grader.judge.trial import CallRequest
from grader.protocol.messages import Raised, Recipe
from grader.sandbox.outcome import Unanswered
from grader.sandbox.pair import RecordedAnswer

# What recording a call gave; None: its part is not recorded.
Recording = RecordedAnswer | Raised | Unanswered | None


@dataclass(frozen=True)
class PreparedCall:
    """A request, what recording it gave, and the recipe to judge it on."""

    request: CallRequest
    recording: Recording
    recipe: Recipe

    @property
    def recorded(self) -> RecordedAnswer | None:
        """The recorded answer; None where nothing was recorded."""
        return self.recording if isinstance(self.recording, RecordedAnswer) else None

    @property
    def found(self) -> frozenset[int]:
        """The storages that the call found, without those of arguments that are written anew."""
        assert self.recorded is not None
        written = () if self.request.carries else self.recorded.trace.arguments.values()
        return self.recorded.found.difference(written)

    @property
    def stands_alone(self) -> bool:
        """The call can be replayed without what earlier calls left; its arguments may be written anew."""
        return self.recorded is not None and self.recorded.is_replayable and not self.found
