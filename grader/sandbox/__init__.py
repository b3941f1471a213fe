"""The trusted side of the process boundary: start, call, watch, end and replace the submission's process.

Takes calls and traces; gives outcomes. Never runs a line of the submission in the grader's own process, and judges no
value. It starts `grader.child` by name, and imports nothing that runs there.
"""
