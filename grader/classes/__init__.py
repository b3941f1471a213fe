"""Pages about a class for its instructor: a class page from all records, and similar sources side by side."""
