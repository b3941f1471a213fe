"""Replays the traces of a submission's calls on the true inputs, in a process that never runs the submission's Python.

replayer   executes traces on the true inputs, and answers the grader
run        one run of a trace, step by step
memory     the numbered storages of a trace, between guard bands
kernels    builds kernels from the submission's text, without executing a line of it
checking   the allow-list for those kernels
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
