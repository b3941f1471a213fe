"""Print a record on a terminal, in lines."""
