"""Shut a submission's process off from the machine: one module for each kind of layer.

Takes a scratch folder, a user and limits; gives the names of the layers that hold. It works on its own process alone,
after the fork and before the first line of a submission. It imports nothing of the grader, of torch or of triton, and
never loosens a layer.

confine     applies all of them, in an order in which each is still possible
system      the C library, prctl and capabilities
users       a user of the submission's own
namespaces  no network, no shared memory of others
landlock    an allow-list of readable files; only the scratch folder is writable
seccomp     refuses system calls that no kernel exercise needs
"""
