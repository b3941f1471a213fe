"""invalid_submission: a syntax error."""

def vector_add(x, y:
    return x
