"""Grade one submission: an exercise and a plan in, one record out. It prints nothing; the caller writes the record.

It never runs a line of the submission in this process: `sandbox` holds the processes, and `judge` decides the checks.

pipeline          from beginning to end: `grade`
workplace         opens processes, compilers and the timing setup
answers           judges the answers of every case, part by part, in fresh processes
shrinking         chooses the case of a failing check to show
smallest          searches the smallest case that fails
source_scan       scans the text for code that no kernel needs
kernel_prefetch   compiles on a GPU what later checks launch
compile_gate      judges what needs a compiler
part_compiler     compiles each part's kernels beside the grading
compile_outcomes  turns the compilers' answers into outcomes
speed             times the parts with right answers
excerpts          puts the lines that a cause names beside it
results           writes rulings as results of the record
fitness           finds out what this machine can judge
job               the request
"""

from grader.grading.job import Job
from grader.grading.pipeline import grade, truth_of

__all__ = ["Job", "grade", "truth_of"]
