"""fail: zeros: the worker's own method says that everything fits and was copied.

Attack 6. Twin: controls/helpers_beside_kernels.
"""

import sys

import torch


def vector_add(x, y):
    worker = sys.modules["grader.child.worker"]

    def copied_out(self, outputs, slots, memory_fd, returned, device=""):
        form = worker_form_of(outputs[0])
        return (form.__class__(form.kind, form.dtype, form.shape, form.device, "", True),)

    worker.worker_form_of = worker.form_of
    worker.Worker._copied_out.__code__ = copied_out.__code__
    return torch.zeros_like(x)
