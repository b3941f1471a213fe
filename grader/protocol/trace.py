"""The trace: what one call of a submission's function allocated, copied and launched, as plain data.

    recorder -> grader -> replayer     Recorded, which holds a Trace (untrusted: decoded strictly, within bounds)

A storage has a number. A tensor is a window onto one: dtype, first element, shape, strides; so views need
no steps. Numbers go on from call to call, because a submission may keep memory, and the replayer keeps it as well.

On the wire a value is JSON: null, booleans, numbers and texts stand for themselves; everything else is a list that
begins with its kind, as in ["tensor", 3] or ["tuple", [1, 2]]. docs/trace.md shows a whole trace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from grader.protocol.answers import Form

# The beginning of the description of a kernel whose text is not the submission's.
FROM_ELSEWHERE = "the kernel "
# The beginning of the description of a class whose objects kernels make. Triton compiles it; a replay cannot make it.
AGGREGATE = "the @aggregate class "
# The description of an argument of a launch that holds an address as a number: the memory of a replay lies elsewhere.
ADDRESS = "an address that is passed as a number"

# Bounds, which a recorder keeps and a decoder demands. Honest calls need at most a tenth of the steps.
MOST_STEPS = 4096
# A launch may take several views that no other launch takes.
MOST_WINDOWS = 4 * MOST_STEPS
# Encoded again, a character may take three times as many bytes, and must fit into a frame for the replayer.
TRACE_BYTES = 4 << 20
MOST_DEPTH = 12
MOST_CONSTANT_BYTES = 256 << 20
# The largest kernel of the reference solutions has 300 KiB.
MOST_PROGRAM_BYTES = 4 << 20
MOST_PROGRAMS = 64

# -- values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorValue:
    """A tensor: its place in the trace's table."""

    index: int


@dataclass(frozen=True)
class DtypeValue:
    """A dtype of "torch" (float16) or of "triton" (fp16)."""

    library: Literal["torch", "triton"]
    name: str


@dataclass(frozen=True)
class EnumValue:
    """A member of one of torch's or triton's own enumerations: a memory format, a layout, a padding."""

    kind: str
    name: str


@dataclass(frozen=True)
class TupleValue:
    """A tuple."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class ListValue:
    """A list."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class DictValue:
    """A dictionary, as pairs."""

    items: tuple[tuple[Value, Value], ...]


@dataclass(frozen=True)
class NamedValue:
    """A named tuple, or ("record") a dataclass, a class or an enumeration that only holds constants."""

    kind: Literal["tuple", "record", "class"]
    name: str
    fields: tuple[str, ...]
    items: tuple[Value, ...]


@dataclass(frozen=True)
class ConstexprValue:
    """A tl.constexpr."""

    value: Value


@dataclass(frozen=True)
class DescriptorValue:
    """A tensor descriptor that was made on the host.

    layout: the fields of Gluon's layout of a box in shared memory; empty for a descriptor of triton.tools.
    """

    base: TensorValue
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    block_shape: tuple[Value, ...]
    padding: str
    round_f32_to_tf32: bool = False
    layout: tuple[Value, ...] = ()


@dataclass(frozen=True)
class WrapperValue:
    """A tensor under another dtype (triton.reinterpret)."""

    base: TensorValue
    dtype: str


@dataclass(frozen=True)
class KernelValue:
    """A function of the submission's text: its place in the trace's table of kernels."""

    index: int


@dataclass(frozen=True)
class LanguageValue:
    """An object that comes with Triton or Python, by its dotted name: a module, a builtin, a jitted function."""

    path: str


@dataclass(frozen=True)
class UnknownValue:
    """A value that cannot be recorded, and its description. Harmless where nothing uses it."""

    what: str


Value = (
    None
    | bool
    | int
    | float
    | str
    | TensorValue
    | DtypeValue
    | EnumValue
    | TupleValue
    | ListValue
    | DictValue
    | NamedValue
    | ConstexprValue
    | DescriptorValue
    | WrapperValue
    | KernelValue
    | LanguageValue
    | UnknownValue
)


# -- steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """A tensor: a storage, and the elements in it. offset and strides are in elements of the dtype."""

    storage: int
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the number of elements in memory from a tensor's first to its last one, both included; 0 without any."""
    return 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


@dataclass(frozen=True)
class KernelText:
    """A function that a launch runs, and the values of the global and enclosing names in it.

    line: its first, decorators included. kind: of decorator. options: of the decorator. defaults: by parameter, the
    values of those that are no literals of the text. home: the dotted name of the installed module whose
    text holds it; empty for the submission's own text.
    """

    name: str
    line: int
    kind: Literal["jit", "gluon", "constexpr"]
    names: Mapping[str, Value]
    options: Mapping[str, Value] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    home: str = ""

    @property
    def words(self) -> str:
        """Return its name, and the package that it comes from."""
        return f"{self.name} of {self.home}" if self.home else self.name


@dataclass(frozen=True)
class Operator:
    """An operator of ATen that allocates, fills, copies or casts. results: windows onto what it returned."""

    name: str
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]
    results: tuple[int, ...]
    line: int


@dataclass(frozen=True)
class Constant:
    """A storage whose bytes came from Python. data: zlib, in base64."""

    storage: int
    nbytes: int
    data: str


@dataclass(frozen=True)
class Launch:
    """A kernel launch. args by place, kwargs by name; options: num_warps and the like.

    lends: launch code had set an allocator, which lends memory to kernels that ask for it (triton.set_allocator).
    """

    kernel: int
    grid: tuple[int, ...]
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]
    options: Mapping[str, Value]
    line: int
    lends: bool = False


@dataclass(frozen=True)
class CuteProgram:
    """A traced function of CuTe's DSL: MLIR, as text.

    name: of the function. nbytes: of the text. data: the text, zlib, in base64.
    """

    name: str
    nbytes: int
    data: str


@dataclass(frozen=True)
class CuteCall:
    """A call of a function that CuTe's DSL traced. args: one for each argument of the program."""

    program: int
    args: tuple[Value, ...]
    line: int


@dataclass(frozen=True)
class Renewal:
    """The windows that an autotuner renews around each trial: those that it clears, and those that it puts back."""

    cleared: tuple[int, ...]
    restored: tuple[int, ...]


@dataclass(frozen=True)
class Choose:
    """A launch of an autotuned kernel: the steps of every configuration, in the order of its configurations.

    renewal: None where hooks of the submission prepare the trials. kept: the number of configurations, the last ones,
    that an earlier call with the same key had left and this one has pruned.
    """

    alternatives: tuple[tuple[Step, ...], ...]
    line: int
    renewal: Renewal | None = None
    kept: int = 0


@dataclass(frozen=True)
class Free:
    """Storages that nothing holds any more."""

    storages: tuple[int, ...]


@dataclass(frozen=True)
class StreamStep:
    """Says which stream works, or what waits for what.

    use: later steps run on `stream`; 0 is the one that the call began on. mark: `event` stands behind all work of
    `stream` so far. wait: `stream` waits for `event`. A stream of -1 is the host, an event of -1 all work so far.
    """

    action: Literal["use", "mark", "wait"]
    stream: int
    event: int = 0


Step = Operator | Constant | Launch | CuteCall | Choose | Free | StreamStep


@dataclass(frozen=True)
class Output:
    """One output of the function: a tensor's window (-1: none), and its form."""

    window: int
    form: Form


@dataclass(frozen=True)
class Trace:
    """One call. arguments: the storage of every tensor argument, by name."""

    arguments: Mapping[str, int]
    windows: tuple[Window, ...]
    kernels: tuple[KernelText, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    programs: tuple[CuteProgram, ...] = ()


@dataclass(frozen=True)
class TraceNote:
    """An operation of a call outside the submission's kernels, and its line.

    of: the names of the arguments that it read, as far as they are known.
    """

    name: str
    line: int
    of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """The recording of a function that was called on decoys.

    outside_work: operations that computed besides the kernels. unrecordable: operations that could not be recorded;
    with any of them, the trace must not be replayed. asked: the file asked for the GPU's properties, in this call or
    before.
    """

    answer: Literal["recorded"]
    trace: Mapping[str, Any]
    outside_work: tuple[TraceNote, ...] = ()
    unrecordable: tuple[TraceNote, ...] = ()
    asked: bool = False

    def message(self) -> dict[str, Any]:
        """Return it as plain data for the channel."""
        rows = {name: [vars(one) for one in getattr(self, name)] for name in ("outside_work", "unrecordable")}
        return {"answer": self.answer, "trace": self.trace, **rows, "asked": self.asked}


def launches_in(steps: Sequence[Step]) -> tuple[Launch | CuteCall, ...]:
    """Return the launches of these steps; for an autotuned kernel, those of its first configuration."""
    found: list[Launch | CuteCall] = []
    for step in steps:
        match step:
            case Launch() | CuteCall():
                found.append(step)
            case Choose(alternatives):
                found += launches_in(alternatives[0])
    return tuple(found)


def every_step(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield these steps; in place of a choice, those of every alternative."""
    for step in steps:
        if isinstance(step, Choose):
            for one in step.alternatives:
                yield from every_step(one)
        else:
            yield step


def operators_in(steps: Sequence[Step]) -> Iterator[Operator]:
    """Yield the operators of these steps, those of every alternative among them."""
    return (step for step in every_step(steps) if isinstance(step, Operator))


def every_launch(steps: Sequence[Step]) -> Iterator[Launch | CuteCall]:
    """Yield the launches of these steps; for an autotuned kernel, those of all its configurations."""
    return (step for step in every_step(steps) if isinstance(step, Launch | CuteCall))


def kept_storages(trace: Trace) -> frozenset[int]:
    """Return the storages of a call that are no argument's, and that no step of it makes: an earlier call made them."""
    made = {trace.windows[place].storage for one in operators_in(trace.steps) for place in one.results}
    made |= {one.storage for one in trace.steps if isinstance(one, Constant)}
    return frozenset(one.storage for one in trace.windows) - made - {*trace.arguments.values()}


def launch_numbers(steps: Sequence[Step]) -> dict[int, int]:
    """Return the place of each launch among those of all alternatives, by the id of its step."""
    launches = (step for step in _every(steps) if isinstance(step, Launch | CuteCall))
    return {id(step): number for number, step in enumerate(launches)}


def is_out_of_order(launches: Sequence[bool]) -> bool:
    """Return whether an alternative goes on after a launch. launches: which of its steps are launches."""
    return any(before and not after for before, after in pairwise(launches))


def windows_in(value: Value) -> Iterator[int]:
    """Yield the places of the tensors in a value."""
    return (index for index, _ in shown_in(value))


def shown_in(value: Value) -> Iterator[tuple[int, str]]:
    """Yield the place of each tensor in a value, and the dtype that it is seen under; "" for its own."""
    match value:
        case TensorValue(index):
            yield index, ""
        case WrapperValue(base, dtype):
            yield base.index, dtype
        case TupleValue(items) | ListValue(items) | NamedValue(items=items):
            for one in items:
                yield from shown_in(one)
        case DictValue(items):
            for key, one in items:
                yield from (*shown_in(key), *shown_in(one))
        case ConstexprValue(one) | DescriptorValue(base=one):
            yield from shown_in(one)


def kernels_in(value: Value) -> Iterator[int]:
    """Yield the places of the functions in a value."""
    match value:
        case KernelValue(index):
            yield index
        case TupleValue(items) | ListValue(items) | NamedValue(items=items):
            for one in items:
                yield from kernels_in(one)
        case DictValue(items):
            for key, one in items:
                yield from (*kernels_in(key), *kernels_in(one))
        case ConstexprValue(one):
            yield from kernels_in(one)


def choices_in(steps: Sequence[Step]) -> tuple[Choose, ...]:
    """Return the autotuned launches of these steps; within an autotuned kernel, those of its first configuration."""
    found: list[Choose] = []
    for step in steps:
        if isinstance(step, Choose):
            found += [step, *choices_in(step.alternatives[0])]
    return tuple(found)


def constants_in(steps: Sequence[Step]) -> Iterator[Constant]:
    """Yield the constants of these steps; for an autotuned kernel, those of all its configurations."""
    return (step for step in _every(steps) if isinstance(step, Constant))


def _every(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield these steps; for an autotuned kernel, those of all its configurations."""
    for step in steps:
        yield step
        if isinstance(step, Choose):
            for alternative in step.alternatives:
                yield from _every(alternative)


def relaunched(
    message: Mapping[str, Any], changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the message of a trace whose launches have other options.

    changed: gives the options of a launch, such as num_warps, in place of its own.
    """

    def of_step(row: list[Any]) -> list[Any]:
        match row:
            case ["launch", *rest, options, line, lends]:
                return ["launch", *rest, {**changed(options)}, line, lends]
            case ["choose", alternatives, *rest]:
                return ["choose", [[*map(of_step, steps)] for steps in alternatives], *rest]
        return row

    return {**message, "steps": [*map(of_step, message["steps"])]}


def fingerprint(message: Mapping[str, Any]) -> bytes:
    """Return bytes that are equal for traces that do the same, whatever their storage numbers and devices are."""
    numbers: dict[int, int] = {}

    def renumbered(storage: int) -> int:
        return numbers.setdefault(storage, len(numbers))

    def plain(steps: Sequence[Any]) -> list[Any]:
        plain_steps: list[Any] = []
        for step in steps:
            match step:
                case ["free", storages]:
                    # A storage without a window in this trace makes no difference.
                    if seen := [numbers[one] for one in storages if one in numbers]:
                        plain_steps.append(["free", seen])
                case ["stream", *_]:
                    # A GPU's streams are not recorded.
                    continue
                case ["constant", storage, *rest]:
                    plain_steps.append(["constant", renumbered(storage), *rest])
                case ["choose", alternatives, *rest]:
                    plain_steps.append(["choose", [plain(one) for one in alternatives], *rest])
                case _:
                    plain_steps.append(step)
        return plain_steps

    arguments = {name: renumbered(number) for name, number in sorted(message["arguments"].items())}
    windows = [[renumbered(storage), *rest] for storage, *rest in message["windows"]]
    for step in message["steps"]:
        if step[0] == "constant":
            renumbered(step[1])
    # With and without a GPU the same file gets the same inputs.
    outputs = [[window, {**form, "device": "cpu"}] for window, form in message["outputs"]]
    rest = [message["kernels"], plain(message["steps"]), outputs, *message.get("programs", ())]
    return json.dumps([arguments, windows, *rest], sort_keys=True).encode()
