"""The student bundle: what learners need to work and to grade themselves, and no answer."""
