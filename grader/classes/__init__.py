"""What an instructor wants to know of a class: a page drawn from all records, and sources that are much alike."""
