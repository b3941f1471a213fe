"""Triton's interpreter, corrected and watched: the one place that changes what triton does under TRITON_INTERPRET=1.

    contract     what the others take for granted about it
    corrections  what passes there deserves to pass on a GPU
    numerics     arithmetic in types that the interpreter computes wrongly
    reductions   reductions and scans along a tree
    indices      the numbers of loops
    libdevice    CUDA's mathematical functions
    memory       every load, store and atomic, before it happens
    lowering     what an operation is lowered to, remembered
    once         the language prepared for good, where nothing else wants it

Nothing else of the grader touches triton.runtime.interpreter.
"""

from typing import Any


def kind_of_kernels() -> Any:
    """The class of what @triton.jit makes of a function there."""
    from triton.runtime.interpreter import InterpretedFunction

    return InterpretedFunction


def semantic() -> Any:
    """Return what a rewritten kernel calls in every assignment and loop."""
    from triton.runtime.interpreter import interpreter_semantic

    return interpreter_semantic
