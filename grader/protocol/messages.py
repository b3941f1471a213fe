"""The messages between the grader and a submission's process.

    parent -> fork server   Spawn, Reap            (trusted both ways)
    parent -> child         Start, then Record, Call
    child  -> parent        Ready                      (before anything of the submission is there)
                            Loaded, Recorded, Returned, Raised
                                                       (untrusted: decoded strictly, believed only where verified)
    parent -> replayer      Start, then Replay, Precompile, Compile, Prepare, Sample, Show
    replayer -> parent      Ready, Loaded, Returned, Precompiled, Compiled, Prepared, Sampled, Shown, Raised

A case is timed by one Prepare, then Sample after Sample, each with a seed of its own. What the baseline process is told
and answers is in grader.protocol.baseline_messages.

Tensors never travel in a message. A call comes with a memory file that the parent created and sealed at its size; the
child copies the raw bytes of the outputs into the slots that the call names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from grader.protocol.decode import Bounds, DecodeError, decode
from grader.protocol.footprint import Footprint

# Far above most honest answers: a worker cuts its texts at 2000 characters, and counts bytes and elements. A call
# may have as many launches as a trace has steps. As microseconds, the magnitude is thirty years.
_UNTRUSTED = Bounds(text=4096, entries=4096, bits=64, magnitude=1e15)


T = TypeVar("T")

# Larger whole numbers lose digits in some readers of JSON.
EXACT_IN_JSON = 1 << 53
# The size of the memory that travels with Start, in which a child announces the kernel that it compiles.
NOTICE_BYTES = 256
# The socket by which a process under a tool finds the grader, in its working directory; by the number of the process.
CHANNEL = "channel-{}"
# The kind of a Raised: the replayer refuses what Triton might take.
UNTOLD = "Untold"
# The kind where torch computes in place of kernels; the message names the operator.
COMPUTED = "Computed"
# The kind where the interpreter cannot run a kernel; the message says what needs a GPU.
NEEDS_GPU = "NeedsGpu"
# The kind where a program waits for another one, which the interpreter does not run beside it.
WAITS = "Waits"
# The kind where a launch has more programs than the interpreter runs in the time of a call.
TOO_SLOW = "TooSlow"
# The kinds of calls that the interpreter cannot finish, and a GPU may.
ONLY_ON_A_GPU = (NEEDS_GPU, WAITS, TOO_SLOW)
# The kinds after which Triton's autotuner goes on to the next configuration.
PASSED_OVER = frozenset({"StaticAssertFailed", "CompileTimeAssertionFailure", "OutOfResources", "PTXASError"})


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


@dataclass(frozen=True)
class Pause:
    """A line of an interpreted kernel with an atomic or a volatile load.

    most: passes of the program with the most. programs: those that pass it.
    """

    line: int
    most: int
    programs: int = 1


# What the interpreter counts of a launch: bytes moved; also those moved for nothing; also what is computed element by
# element.
Counts = Literal["bytes", "waste", "instructions"]
# The lane that stays where several of a store meet at one address.
Lanes = Literal["last", "first", "drawn"]
# The share of the programs that others interrupt: nearly every one, about two of a launch, or none but those that wait.
Interrupted = Literal["most", "few", "none"]


@dataclass(frozen=True)
class ReplayCall:
    """Execute a trace on the inputs of the call's recipe. launches: run its launches.

    memory: of earlier calls. kept: found, and left to later ones; afresh: forgotten before; alone: neither found nor
    left; before: as the latest replay of kept memory found it, and not left. wanted: of the configurations of its
    autotuners. counts: of each launch in the interpreter. unwritten: what empty allocations hold. patience_s: the time
    after which an interpreted call of many programs is given up; 0: never. filled: lines of loads whose masked lanes
    hold `filling` in the interpreter; of integers, the smallest or the largest for an infinity. contracted: interpreted
    kernels round a product and the sum that it goes into once, as compiled ones do. text: the text that holds the
    kernels; "": the submission's. again: the call was just replayed, and carries on what that replay found. backwards:
    interpreted programs of each launch run in the opposite order; one that waits is interrupted by another. pauses: of
    that call in the programs' own order. interrupted: programs that do not wait, behind one of these. births: note
    where interpreted kernels make infinities and NaN; settled: lines where a number stands in their place. branches:
    note the ways that interpreted kernels take. lanes: the one that stays of those that store to one address.
    """

    call: Call
    trace: Mapping[str, Any]
    memory: Literal["kept", "afresh", "alone", "before"]
    launches: bool = True
    unwritten: Unwritten = "nan"
    wanted: Wanted = ANY
    counts: Counts = "bytes"
    patience_s: float = 0.0
    filled: tuple[int, ...] = ()
    filling: Filling = "0"
    contracted: bool = True
    text: str = ""
    again: bool = False
    backwards: bool = False
    pauses: tuple[Pause, ...] = ()
    interrupted: Interrupted = "none"
    lanes: Lanes = "last"
    births: bool = False
    settled: tuple[int, ...] = ()
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


@dataclass(frozen=True)
class StaticCondition:
    """A condition in a kernel that no tensor decides, and how it turned out.

    launch: the place of its launch in the trace. place: where the condition stands in the submission's text: its first
    line, column, last line and the column behind it.
    """

    launch: int
    place: tuple[int, int, int, int]
    holds: bool


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


@dataclass(frozen=True)
class Form:
    """The form of one output. kind "tensor" is exactly torch.Tensor with a plain layout; else the type's name."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""
    alias: str = ""
    copied: bool = False


@dataclass(frozen=True)
class Traffic:
    """The traffic of one launch in the interpreter, in bytes, and what it computes. dot_flops: those of its tl.dot.

    loaded and stored count every active lane of every access, atomics as both; unique ones count every byte once.
    dots: how many tl.dot. exponentials, operations: elements that special functions and all other operations compute,
    those on addresses and masks too. complete: all accesses were recorded; if not, unique bytes are missing, and there
    was no race check.
    """

    loaded_bytes: int
    stored_bytes: int
    unique_loaded_bytes: int
    unique_stored_bytes: int
    dot_flops: int
    complete: bool = True
    dots: int = 0
    exponentials: int = 0
    operations: int = 0


@dataclass(frozen=True)
class Waste:
    """Bytes that one launch in the interpreter moves for nothing; 0 where not all accesses were recorded.

    used_bytes, sector_bytes: what programs use of the sectors that they touch, and these sectors; 0 unless lanes of
    apart_line lie apart. reloaded_bytes: what programs load again although they have stored no result since.
    in_a_row_bytes: what they load again although their last load of the same tensor had it.
    """

    used_bytes: int = 0
    sector_bytes: int = 0
    apart_line: int = 0
    reloaded_bytes: int = 0
    in_a_row_bytes: int = 0


@dataclass(frozen=True)
class LaunchInfo:
    """One kernel launch: its name, its grid, and the integers that it was specialised on (block sizes).

    constants: for a function that the CuTe DSL compiled, the number of each of CuTe's operations in it; digest: of
    those that do something, and of the numbers that it got. traffic, footprint, waste: of a launch in the interpreter;
    one after many others has no footprint, and waste is counted on request.
    """

    kernel: str
    grid: tuple[int, ...]
    constants: dict[str, int]
    traffic: Traffic | None = None
    footprint: Footprint | None = None
    waste: Waste | None = None
    digest: str = ""


@dataclass(frozen=True)
class GuardFinding:
    """A finding of the guard in the interpreter: an access outside a tensor, which was not executed, or a race.

    line and code are of the learner's file. index lies in `shape` where the access was legal; element counts from the
    tensor's first to its last, `elements` in all. lanes of active_lanes were outside; for a race, lanes is the number
    of elements that met. masked: the access had a mask that left lanes out; clipped: a block pointer or a descriptor
    made that mask. beside: the distance behind `index`, in elements, in a gap between two; wide: the access touches
    more than one element; spill: a descriptor's store past the end of a row, to the end of a unit of 16 bytes. For a
    race, `access` describes this access, and the `other_` fields the one that came first in the interpreter; updates:
    both programs load there and store there. between: what races; streams: two launches; end: a launch and the end of
    the call, which does not wait for its stream. line and other_line are then those of the launches. dependent: an
    access of a launch that begins early, and the launch in other_line.
    """

    kind: Literal["load", "store", "atomic", "race"]
    kernel: str
    line: int
    code: str
    program: tuple[int, ...]
    argument: str
    index: tuple[int, ...]
    shape: tuple[int, ...]
    element: int
    elements: int
    lanes: int
    active_lanes: int
    masked: bool
    access: Literal["load", "store", "atomic", ""] = ""
    other_access: Literal["load", "store", "atomic", ""] = ""
    other_program: tuple[int, ...] = ()
    other_line: int = 0
    grid: tuple[int, ...] = ()
    clipped: bool = False
    beside: int = 0
    wide: bool = False
    updates: bool = False
    spill: bool = False
    between: Literal["programs", "streams", "end", "dependent"] = "programs"
    other_kernel: str = ""


@dataclass(frozen=True)
class Frame:
    """One line of a traceback inside the submission's file."""

    line: int
    function: str
    code: str


@dataclass(frozen=True)
class Ready:
    """The child is confined by these layers, and all that is ours in it is prepared.

    Sent before a line of the submission has run. So this one message can be believed, and a child that ends before it
    is the grader's fault.
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
class Birth:
    """The first infinity or NaN that a line of an interpreted kernel makes of numbers.

    words: the operation. padded: all that the line makes lies in lanes that a mask left out of a load.
    """

    line: int
    made: Literal["inf", "nan"]
    words: str
    padded: bool = False


WayTaken = Literal["true", "false", "no turn", "one turn", "several turns"]


@dataclass(frozen=True)
class BranchTaken:
    """The way that a line of an interpreted kernel took: at its condition, or by the number of turns of its loop."""

    line: int
    outcome: WayTaken


@dataclass(frozen=True)
class Returned:
    """The function returned; the bytes of every output that fits its slot are in the memory file.

    allocated_bytes: the peak size of the tensors that the call allocated, its results included. configuration: which
    one the first autotuner took, -1 without any. undefined, padded: the lines of the loads that masked lanes in the
    interpreter, without `other` and with it. unordered: the lines of atomic additions whose sums depend on their order.
    meets: a program may have read what another program of its launch stored. pauses: behind which another program may
    have run in between. clashes: lines of stores in which lanes of one program store different values to one address.
    outside: views of arguments that reach beyond them. contracted: a sum in an interpreted kernel took a product that
    was not rounded. hides_nan: an operation of an interpreted kernel got NaN and gave a number. undefined_whole: of
    `undefined`, some loads were of whole numbers. reads_bits: a kernel took fractions in memory for whole numbers.
    spoiled: what of earlier calls this one changed. copied_bytes: what torch reads and writes to copy and cast;
    copying_line: the line of most of them, 0 without any. enlarged_bytes: by which these copies are larger than what
    they copy. conditions: of interpreted kernels. births, branches: in these.
    reached_beyond: arguments that a program of CuTe's reads or writes beyond the end of.
    """

    answer: Literal["returned"]
    outputs: tuple[Form, ...]
    changed: tuple[str, ...]
    overrun: tuple[str, ...]
    launches: tuple[LaunchInfo, ...]
    findings: tuple[GuardFinding, ...] = ()
    allocated_bytes: int = 0
    configuration: int = -1
    undefined: tuple[int, ...] = ()
    padded: tuple[int, ...] = ()
    unordered: tuple[int, ...] = ()
    meets: bool = False
    pauses: tuple[Pause, ...] = ()
    clashes: tuple[int, ...] = ()
    outside: tuple[str, ...] = ()
    contracted: bool = False
    hides_nan: bool = False
    undefined_whole: bool = False
    reads_bits: bool = False
    spoiled: tuple[str, ...] = ()
    copied_bytes: int = 0
    copying_line: int = 0
    enlarged_bytes: int = 0
    conditions: tuple[StaticCondition, ...] = ()
    births: tuple[Birth, ...] = ()
    branches: tuple[BranchTaken, ...] = ()
    reached_beyond: tuple[str, ...] = ()


@dataclass(frozen=True)
class Raised:
    """The submission raised an exception.

    verdict: its class. fatal: the process is no longer usable. asked: as in Recorded.
    """

    answer: Literal["raised"]
    verdict: Literal["not_implemented", "invalid_submission", "compile_error", "oom", "crash"]
    kind: str
    message: str
    frames: tuple[Frame, ...]
    fatal: bool = False
    findings: tuple[GuardFinding, ...] = ()
    asked: bool = False

    @property
    def line(self) -> int:
        """Return the innermost line of the submission on the way to it; 0 if there is none."""
        return self.frames[-1].line if self.frames else 0


@dataclass(frozen=True)
class TunedChoice:
    """The choice of an autotuned launch.

    line: of the launch. times_us: of each configuration; -1: does not work, -2: not tried. chosen: the place of the
    fastest.
    """

    line: int
    times_us: tuple[float, ...]
    chosen: int


@dataclass(frozen=True)
class Precompiled:
    """The number of launches that were compiled, or found compiled."""

    answer: Literal["precompiled"]
    launches: int


@dataclass(frozen=True)
class Prepared:
    """Everything is ready to be timed. outputs: their forms. launches: the number of kernels that run."""

    answer: Literal["prepared"]
    outputs: tuple[Form, ...]
    choices: tuple[TunedChoice, ...] = ()
    launches: int = 0


@dataclass(frozen=True)
class Sampled:
    """One sample. device_us: by events on the device. exposed: the device may have waited for the host.

    projections, scales: of every output, piece by piece: the sum of its elements under random signs, which follow from
    the seed, and the root of the sum of their squares; both -1 where that is not finite. Of an input that is changed in
    place, of what changed. peak_bytes: the most device memory that was held beyond the inputs (-1: not known). changed:
    names of inputs that changed and must not, if Sample.examines.
    """

    answer: Literal["sampled"]
    device_us: float
    projections: tuple[tuple[float, ...], ...]
    scales: tuple[tuple[float, ...], ...]
    exposed: bool = False
    peak_bytes: int = -1
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class BytesShown:
    """The requested bytes are in the memory file, if `copied`."""

    answer: Literal["shown"]
    copied: bool


@dataclass(frozen=True)
class Narrow:
    """Accesses to global memory in one line of the submission: `bytes` at a time, where `possible` bytes would do."""

    line: int
    access: Literal["load", "store"]
    bytes: int
    possible: int


@dataclass(frozen=True)
class Binary:
    """The compiler's output for one kernel, or its error.

    line: of the definition; 0 where it is not in the submission's file. constants: numbers among the compile-time
    arguments. configurations: the number that an autotuner chooses from, 0 without one. most_registers: the launch's
    limit for a thread, 0 without one. array_bytes: of arrays in local memory; array_step_bytes: the bytes of them that
    a step of the loop with tensor cores loads. dots: the types that tl.dot multiplies, or CuTe's tensor-core
    instructions. tensor_cores, copies: instructions in the PTX, by name. loads, stores: instructions in the PTX for
    global memory, by bytes. seconds: of compiling. error, error_line: the reason for a missing binary, and its line.
    other_branch: the reason is a condition that turned out otherwise in the interpreter.
    """

    kernel: str
    line: int
    constants: dict[str, int | bool]
    configurations: int
    num_warps: int
    num_stages: int
    threads: int = 0
    registers: int = 0
    most_registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    array_bytes: int = 0
    array_step_bytes: int = 0
    shared_bytes: int = 0
    tensor_memory_columns: int = 0
    dots: tuple[str, ...] = ()
    tensor_cores: dict[str, int] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    loads: dict[str, int] = field(default_factory=dict)
    stores: dict[str, int] = field(default_factory=dict)
    narrow: tuple[Narrow, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""
    error_line: int = 0
    other_branch: bool = False


@dataclass(frozen=True)
class Compiled:
    """The launches of a trace were compiled.

    cut: the number of kernels beyond those listed. stopped: the exception that ended it after the last of them.
    """

    answer: Literal["compiled"]
    binaries: tuple[Binary, ...]
    cut: int
    stopped: str


Answer = Ready | Loaded | Returned | Raised | Compiled | Precompiled | Prepared | Sampled | BytesShown

_ANSWERS: dict[object, type[Answer]] = {
    "ready": Ready,
    "loaded": Loaded,
    "returned": Returned,
    "raised": Raised,
    "compiled": Compiled,
    "precompiled": Precompiled,
    "prepared": Prepared,
    "sampled": Sampled,
    "shown": BytesShown,
}


def decode_answer(message: dict[str, Any]) -> Answer:
    """Decode a child's message as one of its answers. Raises DecodeError."""
    name = message.get("answer")
    if not isinstance(name, str) or name not in _ANSWERS:
        raise DecodeError(f"answer must be one of {', '.join(map(str, _ANSWERS))}, got {str(name)[:80]!r}")
    return decode(_ANSWERS[name], message, "answer", _UNTRUSTED)
