"""Collect the functions of an exercise that baselines call: those of baselines.py, and the record kernels in fast/.

Takes an exercise's entry; gives one module. It runs in the trusted baseline process, and calls none of them.
"""

from __future__ import annotations

import functools
import importlib.util
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grader.exercise.catalogue import Entry
from grader.exercise.tensors import module_from_text
from grader.speed.baselines import FAMILIES


def functions_of(entry: Entry) -> types.ModuleType:
    """Return an exercise's baselines.py as a module, with its record kernels as `<part>_our_fastest`.

    Raises SpecError, and what the text raises.
    """
    module = module_from_text("baselines.py", entry.source("baselines.py"))
    for path in entry.fast:
        for part in entry.parts_in(path):
            setattr(module, f"{part}_{FAMILIES['our_fastest'].source}", _in_file(path, part))
    return module


def _in_file(path: Path, name: str) -> Callable[..., Any]:
    """Return a file's function. The first call imports the file, so a failure is this baseline's alone."""

    def call(*args: Any) -> Any:
        return getattr(_imported(path), name)(*args)

    return call


@functools.cache
def _imported(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"fast_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
