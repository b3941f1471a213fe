"""Decides. Holds the oracle's values, the tolerances and the rules; never runs a line of a submission."""
