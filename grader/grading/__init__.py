"""One grading: one submission, one exercise, one plan in; one record out. No input or output of its own.

whole        from beginning to end: `grade`
answers      what every case gives, part by part, in fresh processes
shrinking    which case of a failing check is shown: the smallest that fails in the same way
smallest     the search for it
diagnosis    what is behind a failure
compilation  what asks a compiler
speed        how fast the parts with right answers are
results      how what was found out is written down
fitness      what this machine can judge
job          what is asked for
"""

from grader.grading.job import Job
from grader.grading.whole import grade, truth_of

__all__ = ["Job", "grade", "truth_of"]
