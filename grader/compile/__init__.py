"""Compile a submission's kernels for a GPU that need not be there, and read the compilers' output.

A process of the submission is recorded; a clean process compiles the trace (grader.replay.compiling).
"""
