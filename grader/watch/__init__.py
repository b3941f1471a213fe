"""The learner's loop: it follows one file, grades the file after each change, and shows the result.

`state` decides what happens next, and reads no clock, file or screen.
"""
