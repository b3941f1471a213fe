"""What compilers make of a submission's kernels, on a machine that need not have a GPU.

    runner  which case of which part is compiled, for which GPUs, in processes of the submission's own
    report  from a compiler's numbers to occupancy and findings in words; pure

Nothing here decides points: the numbers come from the submission's process, and are claims.
"""
