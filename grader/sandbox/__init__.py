"""The trusted side of the process boundary: start, call, watch, end and replace the submission's process.

Takes calls and traces; gives outcomes. Never runs a line of the submission in the grader's own process, and judges no
value. `inside` runs in the child process; `confinement` shuts the child off from the machine.
"""
