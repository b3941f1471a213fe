"""Files for platforms and gradebooks, made from records: one module per format.

A module takes records and a gradebook and returns texts; it writes no file and grades nothing. It declares
`FORMAT = Format(…)`, and `grader.export.formats` finds it.
"""
