"""Measure the grader's accuracy: what it catches of changed model solutions, and what it refuses wrongly."""
