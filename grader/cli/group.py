"""The commands as a group in which `grade ex_15` is short for `grade run ex_15`; help; completion of words."""

from __future__ import annotations

import difflib
import os
from typing import Any

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]
from typer.core import TyperCommand, TyperGroup

from grader.errors import GradeError, UsageError

# The variable in which the scripts of `grade completion` pass the shell's name and the words so far.
VARIABLE = "_GRADE_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
_MAIN = "run"
_HELP = ("--help", "-h")
# The headings of --help.
LEARNER, INSTRUCTOR = "Commands for learners", "Commands for authors and instructors"


class Commands(TyperGroup):
    """A command group that grades an argument that is not a command, and asks about a near miss."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments, with the missing command added."""
        return super().parse_args(ctx, self._spelled_out(args, asking=not ctx.resilient_parsing))

    def _spelled_out(self, args: list[str], *, asking: bool) -> list[str]:
        if not args:
            return ["--help"] if asking else args
        if args[0] == "help":
            return self._spelled_out([*args[1:2], "--help"], asking=asking)
        if args in (["--version"], ["-V"]):
            return ["version"]
        if args[0] in self.commands or args[0] in _HELP:
            return ["--help"] if args[0] == "-h" else args
        if asking and (meant := self._close_command(args[0])):
            raise UsageError(f"a command must be one of those in grade --help, got {args[0]!r}; did you mean {meant}?")
        return [_MAIN, *args]

    def _close_command(self, word: str) -> str:
        """Return the command that a word is close to; none if the word may name an exercise or a file."""
        if word.startswith("-") or os.sep in word or any(sign.isdigit() for sign in word):
            return ""
        return next(iter(difflib.get_close_matches(word, self.commands, n=1, cutoff=0.7)), "")

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below the heading of their group."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.commands[name]
            rows.setdefault(command.rich_help_panel, []).append((name, command.get_short_help_str(formatter.width)))
        for heading, commands in rows.items():
            with formatter.section(heading):
                formatter.write_dl(commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the commands, and what may stand in place of one: the exercises."""
        found = super().shell_complete(ctx, incomplete)
        exercise = self.commands[_MAIN].params[0]
        return found if incomplete.startswith("-") else [*found, *exercise.shell_complete(ctx, incomplete)]


class ExportCommand(TyperCommand):
    """`grade export`, whose help names the formats. Only the help imports them, so other commands start faster."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, with the names of all formats at --format."""
        from grader.export.formats import formats

        option: Any = next(one for one in self.params if one.name == "format")
        option.help = ", ".join(formats())
        super().format_options(ctx, formatter)


def exercise_ids(incomplete: str) -> list[tuple[str, str]]:
    """Return the exercises that complete a word, with their titles; by full names if the word is longer than an id."""
    from grader.exercise.catalogue import discover, find_root

    try:
        entries = discover(find_root())
        ids = [(entry.id, entry.exercise.title) for entry in entries if entry.id.startswith(incomplete)]
        names = [(entry.name, entry.exercise.title) for entry in entries if entry.name.startswith(incomplete)]
    except GradeError:
        # Offer nothing: completion in a shell must not show errors.
        return []
    return ids or names


def part_names(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the parts of the exercise that was named before."""
    from grader.exercise.catalogue import find_root, resolve

    try:
        # While an option lacks its value, the words before it are unread.
        named = ctx.params.get("exercise") or next(iter(ctx.args), "")
        entry, _ = resolve(find_root(), str(named))
        return [(part.name, part.title) for part in entry.exercise.parts if part.name.startswith(incomplete)]
    except GradeError:
        return []


def completion_script(shell: str) -> str:
    """Return the script that makes a shell complete `grade`. Raises UsageError."""
    if shell not in SHELLS:
        raise UsageError(f"the shell must be one of {', '.join(SHELLS)}, got {shell!r}")
    return f"{get_completion_script(prog_name='grade', complete_var=VARIABLE, shell=shell)}\n"


# Without it, the script's variable would cause an error.
completion_init()
