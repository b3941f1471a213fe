"""`grade explain`: questions that an exercise prepares for, answered beside the learner's own figures."""

from __future__ import annotations

import typer

from grader.cli.arguments import AsJson, Exercise

ORDER = 85
HELP = "Answer the questions that an exercise prepares for, beside your own figures."


def command(exercise: Exercise, json: AsJson = False) -> None:
    """Print questions and answers."""
    from grader.cli.explain import explain

    raise typer.Exit(explain(exercise, as_json=json))
