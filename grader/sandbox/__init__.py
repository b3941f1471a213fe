"""The trusted side of the process boundary: starts, calls, watches, ends and replaces the submission's process."""
