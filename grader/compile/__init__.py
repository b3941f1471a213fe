"""Compile a submission's kernels for a GPU that need not be there, and read the compilers' output.

kernels        describes what the Triton kernels of a trace compile to, and runs none
cute           reads what the CuTe DSL's compiler made of a program
disguise       CPU tensors and torch.cuda that claim to be on the target GPU
values         leaves out torch's matrix products and random numbers where only launches matter
driver         a stand-in for Triton's driver
announcing     tells the grader which kernel is being compiled
assembly       ptxas's log, PTX and Triton's intermediate texts as numbers; pure
findings       from numbers to occupancy and findings in words; pure
outcome_cache  outcomes of one grading, stored for the next grading of the same file

A process of the submission is recorded; a clean process compiles the trace (grader.replay.compiling).
"""
