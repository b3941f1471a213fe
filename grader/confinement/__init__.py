"""Shut a submission's process off from the machine: one module for each kind of layer.

Takes a scratch folder, a user and limits; gives the names of the layers that hold. It works on its own process alone,
after the fork and before the first line of a submission. It imports nothing of the grader, of torch or of triton, and
never loosens a layer.
"""
