"""The commands, one file each: `command` is the function that typer reads, HELP its help, ORDER its place in `--help`.

To add a command, add its file: the folder is scanned. A file imports the modules that do the work inside `command`, so
that `grade list` stays instant. `CLASS`, where a file has one, replaces typer's class of commands. `GROUP`, where a
file has one, puts the command under another heading of `--help` than the learner's.
"""

from __future__ import annotations

import importlib
import pkgutil

import typer

from grader.cli.group import LEARNER


def register(app: typer.Typer) -> None:
    """Add every command of this folder, in their order."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    modules = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    for name, module in sorted(modules.items(), key=lambda item: (item[1].ORDER, item[0])):
        heading = getattr(module, "GROUP", LEARNER)
        named = app.command(name, cls=getattr(module, "CLASS", None), help=module.HELP, rich_help_panel=heading)
        named(module.command)
