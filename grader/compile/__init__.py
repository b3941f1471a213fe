"""Compiles a submission's kernels for a GPU that need not be there, and reads the compilers' output.

kernels     compiles the Triton kernels that a launcher launches, and runs none
cute        the same for the CuTe DSL
disguise    CPU tensors and torch.cuda that claim to be on the target GPU
driver      a stand-in for Triton's driver
announcing  tells the grader which kernel is being compiled
assembly    ptxas's log, PTX and Triton's intermediate texts as numbers; pure
findings    from numbers to occupancy and findings in words; pure
cache       outcomes of one grading, stored for the next grading of the same file

Nothing here decides points: the numbers come from the submission's process, and are claims.
"""
