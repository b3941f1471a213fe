"""The trusted side of the process boundary: starts, calls, watches, ends and replaces the submission's process.

Takes calls and traces; gives outcomes. Never runs a line of the submission in the grader's own process, and judges no
value. `inside` runs in the child process; `confinement` shuts the child off from the machine.
"""
