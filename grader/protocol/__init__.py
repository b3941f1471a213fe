"""What crosses the boundary between the trusted process and the submission's: frames and their messages.

Both sides import this room and nothing of each other. It imports neither torch nor triton.
"""
