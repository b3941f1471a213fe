"""The learner's loop: it follows one file, grades the file after each change, and shows the result.

Takes saves, keys and finished records as events; gives what to do next, and the screen. It never starts a grading or
writes a file: `cli.watch` does both. `state` decides what happens next, and reads no clock, file or screen.
"""
