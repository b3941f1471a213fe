"""Records what a function of the submission does on decoys: inside the submission's process, and never runs a kernel.

recorder   what a call allocates, copies and launches, in order
storages   which memory is which
telling    Python's values as plain data
kernels    where the functions that a launch runs stand in the text
launching  stands in front of Triton's launches and autotuners
handles    what a launch returns
cute       stands in front of the CuTe DSL

Trusts nothing and decides nothing: whatever the submission does to it, the trace is a claim that is replayed in a
process in which none of the submission's Python ever ran.
"""
