"""Files that are handed out: the student bundle, which holds no solution, and the course of `grade init`."""
