"""`grade version`: the version of grade."""

from __future__ import annotations

from grader import __version__
from grader.cli.arguments import AsJson

ORDER = 180
HELP = "Print the version of grade."


def command(json: AsJson = False) -> None:
    """Print the version."""
    from json import dumps

    print(dumps({"name": "grade", "version": __version__}) if json else f"grade {__version__}")
