"""Tell how far a learner is with an exercise: from the file as it is now, and the results that are kept of its parts.

Pure functions: they take texts and records, and read or write no file.
"""

from grader.progress.kept import Kept, kept_from_json, kept_to_json, merged
from grader.progress.states import File, PartProgress, PartState, Progress, bar, progress_of_file, words

__all__ = [
    "File",
    "Kept",
    "PartProgress",
    "PartState",
    "Progress",
    "bar",
    "kept_from_json",
    "kept_to_json",
    "merged",
    "progress_of_file",
    "words",
]
