"""Who could look on while a kernel runs: arguments with code of their own, hooks, modes, timers, threads, processes."""

from __future__ import annotations

import dataclasses
import enum
import gc
import os
import signal
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from grader.child.confinement import system

_PLAIN = (Tensor, torch.nn.Parameter, int, float, bool, str, type(None), torch.dtype, torch.device)
_KNOBS = ("launch_enter_hook", "launch_exit_hook", "jit_cache_hook", "jit_post_compile_hook", "kernel_load_start_hook")
_MONITORING_TOOLS = 6
_THREAD_ENDS_S = 0.1


def among(values: Any) -> Iterator[str]:
    """Arguments that could run code of their own while the kernel runs."""
    if isinstance(values, Tensor) and any(map(callable, vars(values).values())):
        yield "a tensor with methods of its own"
    if type(values) in (tuple, list, torch.Size) or _is_named_tuple(values):
        for value in values:
            yield from among(value)
    elif _is_plain_dataclass(values):
        for field in dataclasses.fields(values):
            yield from among(object.__getattribute__(values, field.name))
    elif type(values) not in _PLAIN and not is_triton(values) and not _is_plain_enum(values):
        yield f"an argument of type {type(values).__name__}"


def _is_named_tuple(value: Any) -> bool:
    """A tuple of the kind that collections.namedtuple makes, with nothing of its own to run."""
    return isinstance(value, tuple) and _maker(type(value)) is not None


def _maker(kind: Any) -> CodeType | None:
    """The code that makes a named tuple, if it is what collections.namedtuple makes."""
    try:
        plain = namedtuple(kind.__name__, kind._fields)  # type: ignore[misc]
        code = kind.__new__.__code__
    except (AttributeError, TypeError, ValueError):
        return None
    return code if code == plain.__new__.__code__ else None


def _is_plain_dataclass(value: Any) -> bool:
    """A dataclass's object, of a class with nothing but fields and functions: those would be seen to run."""
    kind = type(value)
    if not dataclasses.is_dataclass(kind) or type(kind) is not type or kind.__mro__ != (kind, object):
        return False
    own = {name: one for name, one in vars(kind).items() if not (name.startswith("__") and name.endswith("__"))}
    return all(type(one) in (*_PLAIN, tuple, FunctionType, MemberDescriptorType) for one in own.values())


def makers(values: Any) -> Iterator[CodeType]:
    """The interpreter makes an argument's tuples anew."""
    if isinstance(values, tuple | list):
        if code := _maker(type(values)):
            yield code
        for value in values:
            yield from makers(value)


def _is_plain_enum(value: Any) -> bool:
    if not (isinstance(value, int | str) and isinstance(value, enum.Enum)):
        return False
    own = [one for one in vars(type(value)).values() if isinstance(one, FunctionType)]
    return all(one.__code__.co_filename == enum.__file__ for one in own)


def is_triton(value: Any) -> bool:
    """Whether a value's class is one of triton's own."""
    kind = type(value)
    home = sys.modules.get(kind.__module__) if kind.__module__.partition(".")[0] == "triton" else None
    return getattr(home, kind.__name__, None) is kind


def beside(kernel: Any, own_modes: tuple[type, ...]) -> Iterator[str]:
    """What could run beside a kernel, and see what it sees. `own_modes` are torch modes that are ours."""
    from triton import knobs

    modes = [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]  # type: ignore[no-untyped-call]
    if any(type(mode) not in (*own_modes, DeviceContext) for mode in modes):
        yield "a torch mode of your own"
    if len(sys._current_frames()) > 1:
        yield "a second Python thread"
    if sys.getprofile() or sys.gettrace():
        yield "a profile or trace function"
    # From Python 3.12 on.
    monitoring = getattr(sys, "monitoring", None)
    if monitoring and any(monitoring.get_tool(tool) for tool in range(_MONITORING_TOOLS)):
        yield "a tool of sys.monitoring"
    if gc.callbacks:
        yield "a callback of the garbage collector"
    if any(signal.getitimer(which)[0] for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)):
        yield "a timer that is running"
    if not system.is_subreaper():
        yield "processes that nobody adopts"
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WNOHANG | os.WNOWAIT | os.WEXITED)
        yield "a second process"
    hooks = [getattr(knobs.runtime, name, None) for name in _KNOBS]
    if any(getattr(hook, "calls", hook) for hook in hooks) or getattr(kernel, "launch_metadata", None):
        yield "a hook of triton's that runs with the launch"


def native_threads() -> int:
    """How many threads this process has, in the eyes of the kernel."""
    return len(os.listdir("/proc/self/task"))


def more_threads_than(known: int) -> bool:
    """Whether there are; one that Python has joined may still be on its way out."""
    deadline = time.monotonic() + _THREAD_ENDS_S
    while native_threads() > known:
        if time.monotonic() > deadline:
            return True
        time.sleep(0.001)
    return False
