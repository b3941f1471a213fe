"""Replay the traces of a submission's calls on the true inputs, in a process that never runs the submission's Python.

Takes a trace and the submission's text, which is parsed and checked. Gives outputs, and what was seen of the launches.
"""
