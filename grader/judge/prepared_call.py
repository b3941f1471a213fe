"""Hold a call that is ready to be replayed: its request, its recording, and the recipe of its true inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from grader.judge.trial import CallRequest
from grader.protocol.answers import Raised
from grader.protocol.requests import Recipe
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
    def given_anew(self) -> RecordedAnswer | None:
        """The recorded answer, if the arguments are written anew: what earlier calls left in them is not found."""
        if self.recorded is None or self.request.carries:
            return self.recorded
        found = self.recorded.found.difference(self.recorded.trace.arguments.values())
        return replace(self.recorded, found=found)

    @property
    def needs_no_memory(self) -> bool:
        """The call can be replayed without what earlier calls left, but for arguments that are written anew."""
        return self.given_anew is not None and self.given_anew.needs_no_memory
