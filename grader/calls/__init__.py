"""Helpers around one call in a child process: arguments, outputs, observers of torch and of launches, errors.

Takes the inputs of a call; gives guarded arguments, copied outputs, observations and descriptions of exceptions.
Recorder, replayer, compiler and worker share these modules. None of them judges a result.
"""
