"""Explain why a part failed: rank what the failing cases and their wrong values point to."""
