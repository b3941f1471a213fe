"""Replay the traces of a submission's calls on the true inputs, in a process that never runs the submission's Python.

replayer   executes traces on the true inputs, and answers the grader
run        one run of a trace, step by step
memory     the numbered storages of a trace, between guard bands
text       the submission's text, parsed and never executed
kernels    builds the kernels that a trace names from that text
names      the things behind a kernel's names
signature  annotations and defaults, taken from a kernel's tree
checking   checks a kernel's tree against what is allowed
allowed    the builtins, attributes and operators that a kernel may name
things     what a name can lead to
rewriting  rewrites a checked tree where Python does more than Triton
making     Python functions and Triton's kernels of a checked tree
launching  guards the launches of a kernel
language   the parts of Triton's language that a kernel may name
values     plain data as Python's values
arguments  values as arguments of launches and operators
operators  the ATen operators that a trace may name
timing     prepares, tunes and times traces
clock      times work on one device

cute_programs   prepares CuTe programs once, and runs them on bound arguments
cute_checking   the allow-list for such programs
cute_arguments  tensors and numbers as a compiled program takes them
"""
