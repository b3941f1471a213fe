"""Explain why a part failed: rank what the failing cases and their wrong values point to.

`diagnosis` is the door, `kinds` the list of causes. Beside them stand the clues that need no call: values, cases, and
known mistakes. `probes` makes failing cases again, and `edits` makes them with edited texts.
"""
