"""invalid_submission: an exception while the file is loaded."""

raise RuntimeError("not today")
