"""Replays what a submission's call did, in a process in which none of its Python ever runs.

replayer   does what a trace says, step by step, on the true inputs
memory     the numbered storages of a trace, between guard bands
kernels    takes kernels out of the submission's text, and refuses what is none
values     plain data as Python's values

cute_programs   prepares programs of CuTe's once, and runs them on whatever is bound
cute_checking   the list of what such a program may hold
cute_arguments  tensors and numbers as a compiled program takes them
"""
