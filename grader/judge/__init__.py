"""Decide checks: oracle values, tolerances and rules.

Takes calls as other rooms recorded and replayed them. Never runs a line of a submission in its own process.
"""
