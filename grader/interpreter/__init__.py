"""Correct and watch Triton's interpreter: the one room that changes Triton's behaviour under TRITON_INTERPRET=1.

Nothing else of the grader touches triton.runtime.interpreter.
"""

from typing import Any


def kind_of_kernels() -> Any:
    """Return the class of a kernel that @triton.jit makes under the interpreter."""
    from triton.runtime.interpreter import InterpretedFunction

    return InterpretedFunction


def semantic() -> Any:
    """Return the object that a rewritten kernel calls in every assignment and loop."""
    from triton.runtime.interpreter import interpreter_semantic

    return interpreter_semantic
