"""What platforms read, made from records: one pure module per format, which writes no file and grades nothing.

A format's `render` gives the whole text; one that needs several files gives them by name (`files`).
"""
