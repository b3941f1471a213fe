"""The replayer: it runs what a trace tells, in a process that never ran a line of the submission."""
