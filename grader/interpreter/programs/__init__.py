"""Run the programs of a launch: many at once, in another order, and no longer than makes sense."""
