"""How accurate the grader is: what it catches of model solutions with one change, and what it refuses wrongly."""
