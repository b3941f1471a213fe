"""Get the answer to one call: recorded and replayed where possible, else made in the submission's own process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from grader.protocol.requests import Call
from grader.sandbox.outcome import Outcome, replay_refusal
from grader.sandbox.pair import Pair, RecordedAnswer, seeds_after
from grader.sandbox.session import Session

Source = Literal["recorder", "replayer", "submission"]


@dataclass(frozen=True)
class Answered:
    """The outcome of a call.

    source: the process that answered. why, line: the reason against a replay, and its line (0: not known); only for
    "submission".
    """

    outcome: Outcome
    source: Source
    why: str = ""
    line: int = 0


def answer(pair: Pair, call: Call, salt: str, own: Session, *, is_replayed: bool = True) -> Answered:
    """Get the answer to a call, on inputs whose seed follows from the trace and from `salt`.

    own: makes a call that cannot be replayed. is_replayed: whether calls of this part are recorded at all.
    """
    if not is_replayed:
        return Answered(own.call(call), "submission", "calls of this part are not recorded")
    recorded = pair.record(call)
    if not isinstance(recorded, RecordedAnswer):
        return Answered(recorded, "recorder")
    seeded = replace(call, recipe=replace(call.recipe, seed=seeds_after([recorded], salt)(call.recipe.seed)))
    why, line = next(((note.name, note.line) for note in (*recorded.unrecordable, *recorded.outside_work)), ("", 0))
    if recorded.is_replayable:
        outcome = pair.replay(recorded, seeded)
        refusal = replay_refusal(outcome)
        if refusal is None:
            return Answered(outcome, "replayer")
        why, line = refusal.message, refusal.line
    return Answered(own.call(seeded), "submission", why, line)
