"""Record the calls of a submission's functions on decoys, inside the submission's process. Never runs a kernel.

recorder     allocations, copies and launches of a call, in order
storages     numbers of memory
host_memory  tensors that no kernel would reach on a GPU
telling      Python's values as plain data
kernels      the places of a launch's functions in the text
launching    stands in front of Triton's launches and autotuners
handles      the return value of a launch
cute         stands in front of the CuTe DSL

Gives a trace. Trusts nothing and decides nothing: whatever the submission does to the recorder, the trace is a claim
that is replayed in a process in which none of the submission's Python ever ran.
"""
