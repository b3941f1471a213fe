"""Give Triton's language the meaning that it has for the compiler: loops, conditions, constants, hints."""
