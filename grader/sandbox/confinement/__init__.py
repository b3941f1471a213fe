"""What stands between a submission's process and the machine: one module for each kind of layer.

confine     puts all of them on, in an order in which each still can be
system      the C library, prctl and capabilities
users       a user of the submission's own
namespaces  no network, no shared memory of others
landlock    which files can be read, and that nothing but the scratch folder is written
seccomp     system calls that no kernel exercise needs
"""
