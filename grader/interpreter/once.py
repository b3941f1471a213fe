"""Replace functions of Triton's language for launches, and let the interpreter patch the language once.

Once, instead of for every launch and every call of a helper, serves a process that only replays: nothing else there
needs the language as the compiler sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from grader.interpreter.lowering import Lowerings


def replace_in_language(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Let kernels call these functions in place of the language's, by their names there.

    Call it before the submission is loaded.
    """
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_core

    def patched(lang: Any, scope: Any) -> None:
        patch(lang, scope)
        for name, function in functions.items():
            scope.set_attr(lang, name, function)

    interpreter._patch_lang_core = patched


class _NothingToRestore:
    """A stand-in for the interpreter's undo step at the end of a launch."""

    def restore(self) -> None:
        """Do nothing: the language stays as the interpreter needs it."""


def patch_language_once() -> None:
    """Patch the language for the interpreter for the rest of the process.

    Call it after every other patch of the interpreter, and after all readers of the unpatched language.
    """
    from triton.runtime import interpreter
    from triton.runtime.interpreter import tl

    lowerings = Lowerings()

    def patch_attr(holder: Any, name: str, operation: Any, *_: Any) -> None:
        setattr(holder, name, lowerings.remembering(operation))

    interpreter._patch_attr = patch_attr
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    lowerings.shorten_assignments()
    scope = _NothingToRestore()
    interpreter._patch_lang = lambda _: scope
    _remember_dtypes(interpreter)
    _make_handles_quickly(interpreter)


def _remember_dtypes(interpreter: Any) -> None:
    """Look a dtype up once: the interpreter makes its whole table for every value."""
    tl, plain = interpreter.tl, interpreter._get_np_dtype
    known: dict[str, Any] = {}
    address = plain(tl.pointer_type(tl.float32))

    def get_np_dtype(tt_dtype: Any) -> Any:
        kind = type(tt_dtype)
        if kind is tl.block_type:
            return get_np_dtype(tt_dtype.element_ty)
        if kind is tl.pointer_type:
            return address
        if kind is not tl.dtype:
            return plain(tt_dtype)
        if tt_dtype.name not in known:
            known[tt_dtype.name] = plain(tt_dtype)
        return known[tt_dtype.name]

    interpreter._get_np_dtype = get_np_dtype


def _make_handles_quickly(interpreter: Any) -> None:
    """Check a value against the width of its type, and look that width up once."""
    tl, handle = interpreter.tl, interpreter.TensorHandle
    check = handle.__post_init__
    widths: dict[str, int] = {}

    def made(self: Any, data: Any, dtype: Any, attr: dict[str, Any] | None = None) -> None:
        self.data, self.dtype, self.attr = data, dtype, {} if attr is None else attr
        kind = type(dtype)
        if kind is tl.pointer_type:
            return
        if kind is not tl.dtype:
            check(self)
            return
        if dtype.name not in widths:
            widths[dtype.name] = max(1, dtype.primitive_bitwidth // 8)
        if data.itemsize > widths[dtype.name]:
            # It raises the error.
            check(self)

    handle.__init__ = made
