"""The command line: the only room that prints.

Imports at the top of these modules stay light, so that `grade list` answers at once and the fork server starts loading
torch before anything else does.
"""
