"""What runs inside the submission's process, beside the submission: hostile ground.

Nothing here decides anything, holds an expected value, or may be believed. The fork server is trusted up to the fork;
`worker` then runs the submission and reports, or replays a trace. Imports nothing of the judge.
"""
