"""Record the calls of a submission's functions on decoys, inside the submission's process. Never runs a kernel.

Gives a trace. Trusts nothing and decides nothing: whatever the submission does to the recorder, the trace is a claim
that is replayed in a process in which none of the submission's Python ever ran.
"""
