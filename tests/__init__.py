"""Tests of the grader. Every process of a run computes on one core: the other cores have tests of their own.

With more threads than cores, torch waits for them in a loop, and its products take twice the time of a core.
"""

import os

# Before anything loads torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")
