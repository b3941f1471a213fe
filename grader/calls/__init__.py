"""What surrounds one call in a child process: its arguments and outputs, observers of torch and of launches, errors.

Recorder, replayer, compiler and worker share these modules. None of them decides anything, and none imports the room
of another.
"""
