"""Run a failing case again in another way: with other memory, other sizes, or in the interpreter."""
