"""`grade all`: grade every exercise, and write one page over all of them."""

from __future__ import annotations

from grader.cli.arguments import AllBaselines, Cpu, ExitZero, OpenCard, Output, Quiet, Seed

ORDER = 30
HELP = "Grade every exercise, and write one page over all of them."


def command(
    seed: Seed = None,
    cpu: Cpu = False,
    json: Output = None,
    open_card: OpenCard = False,
    all_baselines: AllBaselines = False,
    exit_zero: ExitZero = False,
    quiet: Quiet = False,
) -> None:
    """Grade every exercise."""
    from grader.cli.all import grade_all
    from grader.cli.exit_codes import leave
    from grader.cli.job import RunOptions

    options = RunOptions(seed=seed, cpu=cpu, all_baselines=all_baselines, quiet=quiet)
    leave(grade_all(options, json, open_card=open_card), exit_zero=exit_zero)
