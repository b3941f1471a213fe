"""Requests of the grader: to the fork server, to a submission's process, and to a replayer.

What they answer is in grader.protocol.answers; grader.protocol gives the overview.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from grader.protocol.observations import Pause, StaticCondition

T = TypeVar("T")
# The size of the memory that travels with Start, in which a child announces the kernel that it compiles.
NOTICE_BYTES = 256
# The socket by which a process under a tool finds the grader, in its working directory; by the number of the process.
CHANNEL = "channel-{}"


@dataclass(frozen=True)
class Spawn:
    """Ask the fork server for a child; the channel's and the log's descriptors travel with it.

    program: what the child becomes once it is confined, instead of waiting for messages itself. packages: what it is to
    find imported, if installed; the fork server imports it once. hidden: folders that it must not read, wherever they
    lie.
    """

    op: Literal["spawn"]
    scratch: str
    uid: int
    limits: dict[str, float]
    program: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reap:
    """Ask the fork server to end a child and everything it started, and to return the child's status."""

    op: Literal["reap"]
    pid: int
    uid: int


@dataclass(frozen=True)
class Start:
    """The first message to a child: the sources of the submission and of the input builders, as text.

    role: whether the child runs the submission, or only replays what another child recorded. target: the GPU, a key of
    grader.gpus.ARCHITECTURES, that a child of a server of mode "compile" is for: a submission's process finds
    it and is recorded on it; a replayer compiles for it and launches nothing. packages: modules beyond torch and triton
    that some part needs; where one is not installed, its name stands for nothing, so that the file loads all the same.
    multiprocessors: those of the GPU that launch code is told of where none is used; 0: the usual number.
    """

    submission_name: str
    submission: str
    inputs: str
    functions: tuple[str, ...]
    target: int = 0
    packages: tuple[str, ...] = ()
    role: Literal["submission", "replay"] = "submission"
    multiprocessors: int = 0


@dataclass(frozen=True)
class Slot:
    """The place for the bytes of one output, and the form that the output must have to be copied there."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Recipe:
    """The recipe of a call's inputs: a case and a seed; with `patch_seed`, a stretch of another seed's values."""

    part: str
    case: dict[str, int | float | bool | str]
    seed: int
    patch_seed: int | None = None


@dataclass(frozen=True)
class Call:
    """Run one function once.

    storage: "new" allocates the inputs, "same" writes the new bytes where the previous call's inputs lay.
    carries: arguments that stay as the previous call left them, regardless of the recipe. on_cpu: the inputs are on the
    CPU even beside a GPU. tensors: the library of the function's tensors. chooses: the argument that holds the things
    from which the function returns one; its output is then that thing's place, -1 for something else. defaults: last
    arguments to leave out, by name, each if it has this value and those after it are left out as well.
    """

    recipe: Recipe
    arguments: tuple[str, ...]
    mutates: tuple[str, ...]
    slots: tuple[Slot, ...]
    storage: Literal["new", "same"] = "new"
    carries: tuple[str, ...] = ()
    on_cpu: bool = False
    tensors: Literal["torch", "cute"] = "torch"
    chooses: str = ""
    defaults: dict[str, int | float | bool | str | None] = field(default_factory=dict)
    op: Literal["call"] = "call"

    def given(self, values: Sequence[T]) -> list[T]:
        """Return the arguments to pass: all `values` except those at the end that equal their defaults."""
        count = len(values)
        while (
            count and (name := self.arguments[count - 1]) in self.defaults and values[count - 1] == self.defaults[name]
        ):
            count -= 1
        return [*values[:count]]


RecordedInputs = Literal["guarded", "bare", "timed"]


@dataclass(frozen=True)
class RecordCall:
    """Call one function on decoys, and return its trace (grader.protocol.trace).

    call: its recipe is that of the decoys. afresh: memory of earlier calls was not replayed, and must be recorded anew.
    inputs: "bare" have no guard bands, as for a call under a tool; "timed" are also drawn on the device, as for a timed
    call, which the inputs of other cases may not be.
    """

    call: Call
    afresh: bool
    inputs: RecordedInputs = "guarded"
    op: Literal["record"] = "record"


# Numbers for memory that nobody wrote. The last bit of 1.337 is set in every floating-point dtype.
Filling = Literal["0", "-inf", "inf", "1.337"]
Unwritten = Literal["nan", "0", "-inf", "inf", "1.337"]


@dataclass(frozen=True)
class Wanted:
    """The configurations of a call's autotuned launches that may run.

    places: those to try, in this order, until one works, modulo the number that an autotuner has; (): all, in their own
    order. rehearsed: run the first of them twice on the same tensors, as an autotuner does, which tries it before.
    """

    places: tuple[int, ...] = ()
    rehearsed: bool = False


# Every configuration may run.
ANY = Wanted()


def only(place: int) -> Wanted:
    """Return the configuration that a call took, and no other; any where it took none (-1)."""
    return Wanted((place,)) if place >= 0 else ANY


# What the interpreter counts of a launch: bytes moved; also those moved for nothing; also what is computed element by
# element.
Counts = Literal["bytes", "waste", "instructions"]
# The lane that stays where several of a store meet at one address.
Lanes = Literal["last", "first", "drawn"]
# The share of the programs that others interrupt: nearly every one, about two of a launch, or none but those that wait.
Interrupted = Literal["most", "few", "none"]


@dataclass(frozen=True)
class ReplayCall:
    """Execute a trace on the inputs of the call's recipe."""

    call: Call
    trace: Mapping[str, Any]
    # Memory of earlier calls. kept: found, and left to later ones; afresh: forgotten before; isolated: neither found
    # nor left; before: as the latest replay of kept memory found it, and not left.
    memory: Literal["kept", "afresh", "isolated", "before"]
    # Run the trace's launches.
    launches: bool = True
    # What empty allocations hold.
    unwritten: Unwritten = "nan"
    # The configurations of its autotuners.
    wanted: Wanted = ANY
    # What the interpreter counts of each launch.
    counts: Counts = "bytes"
    # The time after which an interpreted call of many programs is given up; 0: never.
    patience_s: float = 0.0
    # Lines of loads whose masked lanes hold `filling` in the interpreter; of integers, the smallest or the largest for
    # an infinity.
    filled: tuple[int, ...] = ()
    filling: Filling = "0"
    # Interpreted kernels round a product and the sum that it goes into once, as compiled ones do.
    contracted: bool = True
    # The text that holds the kernels; "": the submission's.
    text: str = ""
    # The call was just replayed, and carries on what that replay found.
    again: bool = False
    # Interpreted programs of each launch run in the opposite order; one that waits is interrupted by another.
    backwards: bool = False
    # The pauses of that call in the programs' own order, and the programs that others interrupt behind one of these.
    pauses: tuple[Pause, ...] = ()
    interrupted: Interrupted = "none"
    # The lane that stays of those that store to one address.
    lanes: Lanes = "last"
    # Note where interpreted kernels make infinities and NaN; put a number in their place in the `settled` lines.
    births: bool = False
    settled: tuple[int, ...] = ()
    # Note the ways that interpreted kernels take.
    branches: bool = False
    op: Literal["replay"] = "replay"


Method = Literal["stream", "graph"]


@dataclass(frozen=True)
class Precompile:
    """Compile the launches of a trace, and run nothing.

    configuration: of its autotuners, as in Wanted; one that does not compile or fit the device raises. -1: every
    configuration, skipping those that do not work.
    """

    call: Call
    trace: Mapping[str, Any]
    configuration: int = -1
    op: Literal["precompile"] = "precompile"


@dataclass(frozen=True)
class Prepare:
    """Prepare to time a trace: tune its autotuned launches, and run it once.

    call: with the recipe of the inputs; every sample draws them from a seed of its own. traces: the last one is timed;
    those before it are run once, for the memory that they leave. method: "stream" launches step by step, "graph"
    replays a CUDA graph. cover_bytes: the memory to read and write before each sample. untried: configurations
    that its autotuners leave out.
    """

    call: Call
    traces: tuple[Mapping[str, Any], ...]
    method: Method
    cover_bytes: int
    untried: tuple[int, ...] = ()
    op: Literal["prepare"] = "prepare"


@dataclass(frozen=True)
class Sample:
    """Time the prepared work once, on inputs of this seed. baseline: its name, "" for a trace.

    examines: also check for changes of inputs that must not change.
    """

    seed: int
    baseline: str = ""
    examines: bool = False
    op: Literal["sample"] = "sample"


@dataclass(frozen=True)
class Show:
    """Show bytes first … first+count-1 of an output of the latest sample, in the memory file."""

    output: int
    first: int
    count: int
    op: Literal["show"] = "show"


CompileUntil = Literal["end", "read", "fit"]


@dataclass(frozen=True)
class Compile:
    """Compile the launches of a trace for a GPU that need not be there, and describe the result; run nothing.

    target: a key of grader.gpus.ARCHITECTURES. every_configuration: of autotuned kernels, not only the first
    configuration that a launch could use. until: how far to compile: "end", or until the front end has read the
    kernel ("read"), or until it is known whether one with products fits the GPU ("fit"). Short of the end, only
    kernels that are refused are described. conditions: as they turned out in the interpreter; a kernel in which the
    compiler decides one otherwise counts as refused.
    """

    call: Call
    trace: Mapping[str, Any]
    target: int
    every_configuration: bool = False
    until: CompileUntil = "end"
    conditions: tuple[StaticCondition, ...] = ()
    op: Literal["compile"] = "compile"
