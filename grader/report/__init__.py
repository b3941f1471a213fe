"""Renderers: each takes a record and returns text (`render(record) -> str`); none writes a file.

It takes everything that it shows from the record: it decides nothing, reads no clock, and treats each text of the
record as hostile.
"""
