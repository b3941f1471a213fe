"""The messages between the grader and a submission's process.

    parent -> fork server   Spawn, Reap            (trusted both ways)
    parent -> child         Start, Call
    child  -> parent        Ready                      (before anything of the submission is there)
                            Loaded, Returned, Raised   (untrusted: decoded strictly, believed only where verified)

Tensors never travel in a message. A call comes with a memory file that the parent created and sealed at its size; the
child copies the raw bytes of the outputs into the slots that the call names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from grader.protocol.decode import DecodeError, decode


@dataclass(frozen=True)
class Spawn:
    """Ask the fork server for a child; the channel's and the log's descriptors travel with it."""

    op: Literal["spawn"]
    scratch: str
    uid: int
    limits: dict[str, float]


@dataclass(frozen=True)
class Reap:
    """Ask the fork server to end a child and everything it started, and to say how the child ended."""

    op: Literal["reap"]
    pid: int
    uid: int


@dataclass(frozen=True)
class Start:
    """The first message to a child: the sources of the submission and of the input builders, as text."""

    submission_name: str
    submission: str
    inputs: str
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Slot:
    """Where the bytes of one output go, and the form it must have to be copied there."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Recipe:
    """How the inputs of a call come about: a case and a seed; with `patch_seed`, a stretch of another seed's values."""

    part: str
    case: dict[str, int | float | bool | str]
    seed: int
    patch_seed: int | None = None


@dataclass(frozen=True)
class Call:
    """Run one function once.

    storage: "new" allocates the inputs, "same" writes the new bytes where the previous call's inputs lay.
    decoy_seed: seals the call. Outside the kernels the inputs then hold the values of this seed, and what kernels wrote
    cannot be read.
    """

    recipe: Recipe
    arguments: tuple[str, ...]
    mutates: tuple[str, ...]
    slots: tuple[Slot, ...]
    storage: Literal["new", "same"] = "new"
    decoy_seed: int | None = None


@dataclass(frozen=True)
class Form:
    """What one output looked like. kind "tensor" is exactly torch.Tensor with a plain layout; else the type's name."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""
    alias: str = ""
    copied: bool = False


@dataclass(frozen=True)
class Launch:
    """One kernel launch: its name, grid, and the integers it was specialised on (block sizes)."""

    kernel: str
    grid: tuple[int, ...]
    constants: dict[str, int]


@dataclass(frozen=True)
class Frame:
    """One line of a traceback inside the submission's file."""

    line: int
    function: str
    code: str


@dataclass(frozen=True)
class Ready:
    """The child is confined, by these layers, and waits. Sent before it has received a byte of the submission: this
    one message can be believed.
    """

    answer: Literal["ready"]
    isolation: tuple[str, ...]
    device: str


@dataclass(frozen=True)
class Loaded:
    """The submission's file was executed; which of the exercise's functions, and which others, it defines."""

    answer: Literal["loaded"]
    functions: tuple[str, ...]
    others: tuple[str, ...]


@dataclass(frozen=True)
class Returned:
    """The function returned; the bytes of every output whose form matched its slot lie in the memory file."""

    answer: Literal["returned"]
    outputs: tuple[Form, ...]
    changed: tuple[str, ...]
    overrun: tuple[str, ...]
    launches: tuple[Launch, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True)
class Raised:
    """The submission raised. `verdict` sorts the exception; `fatal` says that the process is no longer usable."""

    answer: Literal["raised"]
    verdict: Literal["not_implemented", "invalid_submission", "compile_error", "oom", "crash"]
    kind: str
    message: str
    frames: tuple[Frame, ...]
    fatal: bool = False


Answer = Ready | Loaded | Returned | Raised

_ANSWERS: dict[object, type[Ready] | type[Loaded] | type[Returned] | type[Raised]] = {
    "ready": Ready,
    "loaded": Loaded,
    "returned": Returned,
    "raised": Raised,
}


def decode_answer(message: dict[str, Any]) -> Answer:
    """A child's message as one of its answers. Raises DecodeError."""
    name = message.get("answer")
    if not isinstance(name, str) or name not in _ANSWERS:
        raise DecodeError(f"answer must be one of {', '.join(map(str, _ANSWERS))}, got {str(name)[:80]!r}")
    return decode(_ANSWERS[name], message, "answer")
