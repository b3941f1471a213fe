"""The student bundle: stubs, grader, specifications and oracles, but no solution."""
