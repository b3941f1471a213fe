"""Renderers: each takes a record and returns text (`render(record) -> str`); none writes a file."""
