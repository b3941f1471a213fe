"""Renderers: each turns a record into text and does nothing else (`render(record) -> str`)."""
