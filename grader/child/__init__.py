"""Run in a child process, beside the submission or in its place: hostile ground.

Nothing here decides anything or holds an expected value, and the grader believes none of its reports. The fork server
is trusted up to the fork; `worker` then runs the submission and reports, or replays a trace. Imports nothing of the
judge.
"""
