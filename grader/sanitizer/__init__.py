"""Search for accesses outside tensors and for races, whatever the answers are: `grade sanitize`.

Takes a submission and a plan; gives an examination, as JSON or as text. Compares no answers and gives no points.
"""
