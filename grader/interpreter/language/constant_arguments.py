"""Pass an integer argument of 1 to kernels as a constant, as a launch on a GPU does; the interpreter makes a scalar.

A constant has no `.to` and no `.dtype`, divides as Python does, and decides a condition when the kernel is compiled.
"""

from __future__ import annotations

import inspect
from functools import cache
from itertools import zip_longest
from typing import Any

from grader.interpreter import kind_of_kernels


def pass_ones_as_constants() -> None:
    """Patch the launches of this process's interpreter."""
    kind = kind_of_kernels()
    run = kind.run

    def with_constants(kernel: Any, *args: Any, **named: Any) -> Any:
        defaults = _specialised(kernel.fn, _exempt(kernel))
        left_out = defaults.keys() - {*kernel.arg_names[: len(args)], *named}
        named |= {name: defaults[name] for name in left_out if defaults[name] is not inspect.Parameter.empty}
        named = {name: _constant(value) if name in defaults else value for name, value in named.items()}
        # A launch with too many arguments is refused elsewhere.
        places = zip_longest(kernel.arg_names[: len(args)], args)
        return run(kernel, *(_constant(value) if name in defaults else value for name, value in places), **named)

    kind.run = with_constants


def _exempt(kernel: Any) -> frozenset[Any]:
    """Return the names and places of the parameters whose values a launch must not look at."""
    return frozenset(kernel.kwargs.get("do_not_specialize") or ())


@cache
def _specialised(fn: Any, exempt: frozenset[Any]) -> dict[str, Any]:
    """Return the parameters whose values a launch looks at, with their defaults. exempt: names and places of others."""
    from triton.runtime.jit import KernelParam

    parameters = [
        KernelParam(place, one, one.name in exempt or place in exempt, False)
        for place, one in enumerate(inspect.signature(fn).parameters.values())
    ]
    free = (one for one in parameters if not (one.is_constexpr or one.do_not_specialize or one.annotation_type))
    return {one.name: one.default for one in free}


def _constant(value: Any) -> Any:
    """Return 1 as a constant, in tuples too; anything else unchanged."""
    from triton.language import constexpr

    if isinstance(value, tuple):
        items = list(map(_constant, value))
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return constexpr(1) if type(value) is int and value == 1 else value
