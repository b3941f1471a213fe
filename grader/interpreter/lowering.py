"""Cache the builder calls that an operation of Triton's language is lowered to, so that type rules are applied once.

The interpreter checks types, broadcasts and converts anew for every `x + y`, which costs ten times the NumPy operation.
The outcome depends on types and constants alone: a few calls of the interpreter's builder. They are noted the first
time, and replayed on other values later.

An operation is cached only if every value can be followed from its operands through the builder to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grader.interpreter.versions import block_pointer_handle

# The counter of a loop that is unrolled is a constant to the operations in it: a long loop needs many entries.
_MOST_REMEMBERED = 20_000
_Key = tuple[Any, ...]
# Calls whose result depends on constants only, not on the program: their values are made once.
_PURE = frozenset(
    {
        *("create_make_range", "create_splat", "create_broadcast", "create_expand_dims", "create_bitcast"),
        *("create_int_cast", "create_si_to_fp", "create_ui_to_fp", "create_fp_ext", "create_fp_trunc"),
    }
)


@dataclass(frozen=True)
class _BuilderCall:
    """One call of the builder.

    places: (position of an argument that is a value, its number; a list for a list of values). value: the result, if
    it is the same every time.
    """

    method: Callable[..., Any]
    arguments: list[Any]
    named: dict[str, Any]
    places: list[tuple[int, int | list[int]]]
    value: Any = None


class _Unknown(Exception):
    """A value that has no key, or that cannot be followed."""


class _Lowered:
    """The builder calls of one operation. Values are numbered: first the operands, then the result of each call."""

    def __init__(self, calls: Sequence[_BuilderCall]) -> None:
        self._calls = calls
        self._result: int | None = None
        self._like: dict[str, Any] = {}

    def returns(self, tensor: Any, number: int) -> None:
        """Let `run` return tensors like this one that hold the value of that number."""
        self._result, self._like = number, {name: one for name, one in vars(tensor).items() if name != "handle"}

    def run(self, values: list[Any], kind: Any) -> Any:
        """Make the calls on the handles of the operands, and return a tensor of that class, or None."""
        for call in self._calls:
            if (value := call.value) is not None:
                # Some operations change a handle, but none changes the array that it holds.
                values.append(type(value)(value.data, value.dtype))
                continue
            arguments = call.arguments.copy()
            for place, number in call.places:
                arguments[place] = values[number] if isinstance(number, int) else [values[one] for one in number]
            values.append(call.method(*arguments, **call.named))
        if self._result is None:
            return None
        made = kind.__new__(kind)
        made.__dict__.update(self._like)
        made.handle = values[self._result]
        return made


# The operation that is being lowered for the first time, if one is.
_NOTING: list[_Noting] = []
# The cache of this process. None: not to be cached.
_KNOWN: dict[_Key, _Lowered | None] = {}


def forget_lowered() -> None:
    """Lower every operation anew: the builder's methods are others from now on."""
    _KNOWN.clear()


def value_was_read() -> None:
    """Keep the current operation out of the cache: it depends on more than types and constants."""
    for noting in _NOTING:
        noting.followed = False


def is_constant(handle: Any) -> bool:
    """Return whether the operation that is lowered for the first time made this value out of constants alone.

    The cache keeps such values, as a compiler does.
    """
    return any(noting.is_steady(handle) for noting in _NOTING)


class Lowerings:
    """The cache of lowered operations of one process."""

    def __init__(self) -> None:
        from triton import knobs
        from triton.runtime.interpreter import TensorDescHandle, TensorHandle, interpreter_semantic, tl

        self._core, self._language = tl.core, knobs.language
        self._semantic = interpreter_semantic
        self._handles = TensorHandle, block_pointer_handle(), TensorDescHandle
        self._types = tl.dtype, tl.pointer_type, tl.block_type

    def shorten_assignments(self) -> None:
        """Return a tensor unchanged from `to_tensor` without further checks: every assignment of a kernel calls it."""
        tensor, to_tensor = self._core.tensor, self._semantic.to_tensor

        def unless_it_is_one(value: Any, check_type: bool = True) -> Any:
            return value if type(value) is tensor else to_tensor(value, check_type)

        self._semantic.to_tensor = unless_it_is_one

    def remembering(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """Return a builtin of the language with a cache, keyed by types and constants."""
        known, tensor, semantic = _KNOWN, self._core.tensor, self._semantic
        # A product of float32 depends on one setting, too.
        multiplies = getattr(operation, "__name__", "") == "dot"
        key_of, new = self._key_of, _Lowered(())

        def remembered(*operands: Any, **named: Any) -> Any:
            named.pop("_semantic", None)
            if _NOTING:
                return operation(*operands, **named, _semantic=semantic)
            values: list[Any] = []
            try:
                key = (
                    operation,
                    semantic.builder,
                    tuple([key_of(one, values) for one in operands]),
                    tuple([(name, key_of(one, values)) for name, one in named.items()]) if named else (),
                    _shared(values),
                    self._language.fp32_default if multiplies else None,
                )
            except _Unknown:
                return operation(*operands, **named, _semantic=semantic)
            lowered = known.get(key, new)
            if lowered is new:
                return self._note(key, operation, operands, named, values)
            if lowered is None:
                return operation(*operands, **named, _semantic=semantic)
            return lowered.run(values, tensor)

        return remembered

    def _note(self, key: _Key, operation: Any, operands: Any, named: Any, values: list[Any]) -> Any:
        noting = _Noting(self._semantic.builder, values, self._handles)
        self._semantic.builder = noting
        _NOTING.append(noting)
        try:
            result = operation(*operands, **named, _semantic=self._semantic)
        finally:
            _NOTING.clear()
            self._semantic.builder = noting.builder
        if len(_KNOWN) >= _MOST_REMEMBERED:
            _KNOWN.clear()
        _KNOWN[key] = noting.lowered(result, self._core.tensor)
        return result

    def _key_of(self, one: Any, values: list[Any]) -> Any:
        """Return the key of an operand, and append the handles of tensors to `values`. Raises _Unknown."""
        kind = type(one)
        if kind is self._core.tensor:
            values.append(one.handle)
            return self._type(one.type)
        if isinstance(one, self._core.tensor_descriptor_base):
            values.append(one.handle)
            return kind, self._type(one.block_type)
        # 1 equals True, but may have another meaning.
        return kind, self._constant(one, values)

    def _constant(self, one: Any, values: list[Any]) -> Any:
        if one is None or isinstance(one, str | int):
            return one
        if isinstance(one, float):
            # 0.0 equals -0.0, and a NaN nothing.
            return one.hex()
        if isinstance(one, self._types):
            return self._type(one)
        return tuple([self._key_of(each, values) for each in self._parts(one)])

    def _parts(self, one: Any) -> Iterable[Any]:
        """Return the parts of a container. Raises _Unknown for anything else."""
        if isinstance(one, tuple | list):
            return one
        if isinstance(one, slice):
            return one.start, one.stop, one.step
        if isinstance(one, self._core.constexpr):
            return (one.value,)
        if isinstance(one, self._core.tuple):
            return list(one.values)
        raise _Unknown

    def _type(self, one: Any) -> Any:
        """Return the key of a type, stored on the type, since types never change. Raises _Unknown."""
        key = one.__dict__.get("lowering_key")
        if key is None:
            kind, (dtype, pointer, block) = type(one), self._types
            if kind is dtype:
                key = one.name
            elif kind is pointer:
                key = "*", self._type(one.element_ty), one.address_space, one.const
            elif kind is block:
                key = self._type(one.element_ty), one.shape
            else:
                raise _Unknown
            one.lowering_key = key
        return key


def _shared(values: list[Any]) -> tuple[int, ...]:
    """Return, for each operand, the first place that holds the same value; () where all differ."""
    if len(values) < 2 or (len(values) == 2 and values[0] is not values[1]):
        return ()
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(one), place) for place, one in enumerate(values)])


def _is_constant(one: Any) -> bool:
    """Return whether an argument depends on no value: numbers, types and the builder's options."""
    if isinstance(one, list | tuple):
        return all(map(_is_constant, one))
    kind = type(one)
    return one is None or kind.__module__ == "builtins" or kind.__module__.startswith(("triton._C.", "triton.language"))


class _Noting:
    """A proxy of the builder that notes its calls while an operation is lowered."""

    def __init__(self, builder: Any, values: list[Any], handles: tuple[type, ...]) -> None:
        self.builder = builder
        self.followed = True
        self._handles = handles
        # The numbers of values that are the same every time.
        self._steady: set[int] = set()
        # Stored, because an id is unique only as long as its object lives.
        self._values = [*values]
        self._numbers = {id(one): number for number, one in reversed([*enumerate(values)])}
        self._calls: list[_BuilderCall] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.builder, name)
        if not callable(method):
            return method

        def noted(*arguments: Any, **named: Any) -> Any:
            result = method(*arguments, **named)
            # Types are constants like any other.
            if isinstance(result, self._handles) or not name.startswith("get_"):
                self._note(name, method, arguments, named, result)
            return result

        return noted

    def _note(
        self, name: str, method: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any], result: Any
    ) -> None:
        plain = list(arguments)
        places: list[tuple[int, int | list[int]]] = []
        for place, one in enumerate(arguments):
            if isinstance(one, self._handles):
                places.append((place, self._number(one)))
                plain[place] = None
            elif isinstance(one, list | tuple) and one and all(isinstance(each, self._handles) for each in one):
                places.append((place, [self._number(each) for each in one]))
                plain[place] = None
            elif not _is_constant(one):
                self.followed = False
        self.followed = self.followed and all(map(_is_constant, named.values()))
        steady = (name.startswith("get_") or name in _PURE) and all(
            isinstance(number, int) and number in self._steady for _, number in places
        )
        if steady:
            self._steady.add(len(self._values))
        self._numbers[id(result)] = len(self._values)
        self._values.append(result)
        self._calls.append(_BuilderCall(method, plain, dict(named), places, result if steady else None))

    def is_steady(self, handle: Any) -> bool:
        """Return whether a value is the same every time."""
        return self._numbers.get(id(handle)) in self._steady

    def _number(self, handle: Any) -> int:
        number = self._numbers.get(id(handle))
        self.followed = self.followed and number is not None
        return number or 0

    def lowered(self, result: Any, tensor: Any) -> _Lowered | None:
        """Return the noted calls if all values could be followed to the result, else None."""
        made = _Lowered(self._calls)
        if type(result) is tensor:
            number = self._numbers.get(id(result.handle))
            if number is None:
                return None
            made.returns(result, number)
        elif result is not None:
            return None
        return made if self.followed else None
