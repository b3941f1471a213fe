"""Grade one submission: an exercise and a plan in, one record out. It prints nothing; the caller writes the record.

It never runs a line of the submission in this process: `sandbox` holds the processes, and `judge` decides the checks.
"""

from grader.grading.job import Job
from grader.grading.pipeline import grade, truth_of

__all__ = ["Job", "grade", "truth_of"]
