"""Answer the questions that an exercise prepares for, in words and in the figures of the learner's latest record."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from grader.cli import saved
from grader.cli.finish import records_for
from grader.cli.say import say
from grader.cli.terminal import terminal_of
from grader.exercise.catalogue import find_root, resolve
from grader.report.interview import answers


def explain(exercise: str, *, as_json: bool) -> int:
    """Print the questions with their answers; return the exit code, 0."""
    entry, _ = resolve(find_root(), exercise)
    record = saved.record_of(entry)
    found = answers(entry.questions, records_for(entry) | ({"": record} if record else {}))
    if as_json:
        print(json.dumps({"id": entry.id, "questions": [asdict(one) for one in found]}, indent=1))
    elif found:
        from grader.report.text import terminal

        colour, ascii_only, width = terminal_of(sys.stdout)
        print(terminal.render_answers(found, width=width, colour=colour, ascii_only=ascii_only), end="")
        if not any(one.own for one in found):
            say(f"No figures of yours yet: your record has none of these. Next: grade {entry.id}", sys.stdout)
    else:
        say(f"{entry.id} has no questions.", sys.stdout)
    return 0
