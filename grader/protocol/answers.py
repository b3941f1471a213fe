"""Answers of a submission's process and of a replayer: untrusted, decoded strictly, believed only where verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from grader.protocol.decode import Bounds, DecodeError, decode
from grader.protocol.observations import Birth, BranchTaken, GuardFinding, LaunchInfo, Pause, StaticCondition

# Far above most honest answers: a worker cuts its texts at 2000 characters, and counts bytes and elements. A call
# may have as many launches as a trace has steps. As microseconds, the magnitude is thirty years.
_UNTRUSTED = Bounds(text=4096, entries=4096, bits=64, magnitude=1e15)
# Larger whole numbers lose digits in some readers of JSON.
EXACT_IN_JSON = 1 << 53
# The kind of a Raised: the replayer refuses what Triton might take.
UNRECORDABLE = "Unrecordable"
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
class Form:
    """The form of one output. kind "tensor" is exactly torch.Tensor with a plain layout; else the type's name."""

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    device: str = ""
    alias: str = ""
    copied: bool = False


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
class Returned:
    """The function returned; the bytes of every output that fits its slot are in the memory file.

    A call in the submission's own process fills the first five fields and `findings`; a replay fills the others too.
    """

    answer: Literal["returned"]
    outputs: tuple[Form, ...]
    # Arguments that changed and must not; writes behind the end of an argument.
    changed: tuple[str, ...]
    overrun: tuple[str, ...]
    launches: tuple[LaunchInfo, ...]
    findings: tuple[GuardFinding, ...] = ()
    # The peak size of the tensors that the call allocated, its results included.
    allocated_bytes: int = 0
    # The place of the one that the first autotuner took; -1 without any.
    configuration: int = -1
    # Lines of the loads that masked lanes in the interpreter: without `other`, and with it.
    undefined: tuple[int, ...] = ()
    padded: tuple[int, ...] = ()
    # Lines of atomic additions whose sums depend on their order.
    unordered: tuple[int, ...] = ()
    # A program may have read what another program of its launch stored.
    meets: bool = False
    # Lines behind which another program may have run in between.
    pauses: tuple[Pause, ...] = ()
    # Lines of stores in which lanes of one program store different values to one address.
    clashes: tuple[int, ...] = ()
    # Views of arguments that reach beyond them.
    outside: tuple[str, ...] = ()
    # A sum in an interpreted kernel took a product that was not rounded.
    contracted: bool = False
    # An operation of an interpreted kernel got NaN and gave a number.
    hides_nan: bool = False
    # Of `undefined`, some loads were of whole numbers.
    undefined_whole: bool = False
    # A kernel took fractions in memory for whole numbers.
    reads_bits: bool = False
    # What of earlier calls this one changed.
    spoiled: tuple[str, ...] = ()
    # What torch reads and writes to copy and cast, the line of most of it (0 without any), and by how much these copies
    # are larger than what they copy.
    copied_bytes: int = 0
    copying_line: int = 0
    enlarged_bytes: int = 0
    # Of interpreted kernels.
    conditions: tuple[StaticCondition, ...] = ()
    births: tuple[Birth, ...] = ()
    branches: tuple[BranchTaken, ...] = ()
    # Arguments that a program of the CuTe DSL reads or writes beyond their end.
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
    """The compiler's output for one kernel, or its error."""

    kernel: str
    # Of the definition; 0 where it is not in the submission's file.
    line: int
    # Numbers among the compile-time arguments.
    constants: dict[str, int | bool]
    # The number that an autotuner chooses from; 0 without one.
    configurations: int
    num_warps: int
    num_stages: int
    threads: int = 0
    # Of a thread, and the launch's limit for a thread; 0 without one.
    registers: int = 0
    most_registers: int = 0
    stack_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    # Of arrays in local memory, and what a step of the loop with tensor cores loads of them.
    array_bytes: int = 0
    array_step_bytes: int = 0
    shared_bytes: int = 0
    tensor_memory_columns: int = 0
    # The types that tl.dot multiplies, or CuTe's tensor-core instructions.
    dots: tuple[str, ...] = ()
    # Instructions in the PTX, by name.
    tensor_cores: dict[str, int] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    # Instructions in the PTX for global memory, by bytes.
    loads: dict[str, int] = field(default_factory=dict)
    stores: dict[str, int] = field(default_factory=dict)
    narrow: tuple[Narrow, ...] = ()
    remarks: tuple[str, ...] = ()
    # Of compiling.
    seconds: float = 0.0
    # The reason for a missing binary, and its line; whether it is a condition that turned out otherwise in the
    # interpreter.
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
