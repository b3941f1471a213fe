"""Feed files whose verdict is known to the evaluators of other projects, and to `grade`, on one GPU.

`python -m benchmarks.peers --help` says how. No code of those projects is part of this one: the caller names checkouts.
"""
