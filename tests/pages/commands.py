"""`python -m tests.pages.commands`: writes docs/commands.md, the reference, from the commands' own definitions.

What a command is for, its arguments and its options are what `grade help COMMAND` prints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from grader.cli.main import app
from grader.export.formats import formats

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "commands.md"

INTRODUCTION = """\
# Commands

This page lists every command with its arguments and options. Made by `python -m tests.pages.commands`; do not edit.
`tests/docs/test_commands.py` fails when this page is stale.

`grade ex_15` is short for `grade run ex_15`. `grade help COMMAND` prints what stands here. [The learner's
commands](learning.md) shows what the commands print, and lists the [exit codes](learning.md#exit-codes).
"""


def page() -> str:
    """Return the text of docs/commands.md."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="grade")
    sections: dict[str, list[str]] = {}
    for name in group.list_commands(context):
        command = group.commands[name]
        text = _section(command, typer.Context(command, parent=context, info_name=name))
        sections.setdefault(command.rich_help_panel, []).append(text)
    parts = [line for heading, texts in sections.items() for line in (f"## {heading}\n", *texts)]
    return "\n".join([INTRODUCTION, *parts])


def _section(command: Any, context: typer.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    rows = [_row(one, context) for one in command.params]
    table = ["| word | meaning |", "| --- | --- |", *rows, ""] if rows else []
    form = f"```text synopsis\n{usage}\n```\n"
    return "\n".join([f"### `grade {context.info_name}`\n", f"{command.help}\n", form, *table])


def _row(one: Any, context: typer.Context) -> str:
    word, said = one.get_help_record(context)
    word = word.replace("list[str]", "str")
    # The one help that is not written where its option is: the folder of formats makes it.
    said = ", ".join(formats()) if one.name == "format" else said
    return f"| `{word}` | {said.replace('  [', ' [')} |".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
