"""Correct and watch Triton's interpreter: the one room that changes Triton's behaviour under TRITON_INTERPRET=1.

    contract            the assumptions about the interpreter that all modules here make, and their check
    versions            the differences between Triton's versions
    corrections         patches, so that a kernel that passes here deserves to pass on a GPU
    numerics            arithmetic in types that the interpreter computes wrongly
    contraction         products that are rounded once together with the sum that they go into
    implicit_dots       sums of products that the compiler makes a tl.dot
    reductions          reductions and scans along a tree
    libdevice           CUDA's mathematical functions
    loops               loop counters that are scalars, and end with their loop
    conditions          `and`, `or` and `not` as compiled code computes them
    extremes            Python's max and min on tensors
    static_conditions   conditions that no tensor decides, and how they turned out
    branches            the ways that conditions and loops take
    assumptions         promises by tl.assume
    dependence          programs that wait for the launches before
    promises            hints by tl.multiple_of, tl.max_contiguous and tl.max_constancy
    constant_arguments  arguments of 1, which are constants
    unspecified         the order of some blocks, and elements outside them, that Triton leaves open
    workspaces          the memory that kernels ask for to make descriptors
    hidden_nan          operations that hide NaN
    births              operations that make infinities and NaN
    padding             masked lanes of loads
    basic_blocks        the stretches of a kernel between branches and loops
    gather              loads and stores of whole blocks
    beyond              refuses kernels that only a GPU can run
    patience            gives up a call that has too many programs
    places              the line of a kernel that is running
    memory              hooks on every load, store and atomic, before it happens
    guard               bounds and traffic of one launch
    races               data races between the programs of one launch
    sums                atomic additions whose sums depend on their order
    footprint           which program reads and writes which elements
    switched            other methods of the interpreter while a call is observed
    instructions        what kernels compute element by element
    backwards           the programs of a launch in the opposite order
    lockstep            many programs of a launch at once, as long as they do the same
    groups              the group of programs that runs at present
    leading_axis        operations on the values of many programs
    lowering            a cache of the builder's calls behind each operation
    once                replaces functions of the language, and prepares it once where nothing else needs it
    trees               copies of syntax trees

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
