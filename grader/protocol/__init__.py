"""Messages and frames that cross the boundary between the trusted process and the submission's.

    parent -> fork server   Spawn, Reap                (trusted both ways)
    parent -> child         Start, then RecordCall, Call
    child  -> parent        Ready                      (before anything of the submission is there)
                            Loaded, Recorded, Returned, Raised
                                                       (untrusted: decoded strictly, believed only where verified)
    parent -> replayer      Start, then ReplayCall, Precompile, Compile, Prepare, Sample, Show
    replayer -> parent      Ready, Returned, Precompiled, Compiled, Prepared, Sampled, BytesShown, Raised

What the grader says is in `requests`, what comes back in `answers` and `trace`; `baseline_messages` has both for the
baseline process. A case is timed by one Prepare, then Sample after Sample, each with a seed of its own.

Tensors never travel in a message. A call comes with a memory file that the parent created and sealed at its size; the
child copies the raw bytes of the outputs into the slots that the call names.

Both sides import this room and nothing of each other. It imports neither torch nor triton.
"""
