"""Messages and frames that cross the boundary between the trusted process and the submission's.

Both sides import this room and nothing of each other. It imports neither torch nor triton.
"""
