"""crash: an exception while the file is loaded."""

raise RuntimeError("not today")
