"""Triton's interpreter, corrected and watched: the one place that changes what triton does under TRITON_INTERPRET=1.

    corrections  what passes there deserves to pass on a GPU
    numerics     arithmetic in types that the interpreter computes wrongly
    memory       every load, store and atomic, before it happens

Nothing else of grader.child touches triton.runtime.interpreter.
"""
