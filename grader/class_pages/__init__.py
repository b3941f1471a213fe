"""Pages about a class for its instructor: a class page from all records, and similar sources side by side.

Takes the marks, records and texts of a batch; gives pages as text, and orders pairs by likeness. It never runs or
grades a submission, and writes no file.
"""
