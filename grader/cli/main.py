"""Entry point: finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from typing import Annotated, Optional

import typer

from grader import __version__
from grader.cli.group import Commands, ExportCommand, completion_script, exercise_ids, part_names
from grader.cli.say import say
from grader.errors import GradeError

app = typer.Typer(
    name="grade",
    cls=Commands,
    help="Grades GPU-kernel exercises. `grade ex_15` grades your file; `grade list` shows what there is.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Exercise = Annotated[
    str,
    typer.Argument(help="ex_15, 15, the full name, or a path to a file of that name", autocompletion=exercise_ids),
]
Submission = Annotated[Optional[str], typer.Option(help="the file to grade instead of the stub in exercises/")]  # noqa: UP045
Seed = Annotated[Optional[str], typer.Option(help="draws another plan: a number, decimal or 0x…")]  # noqa: UP045
Cpu = Annotated[bool, typer.Option("--cpu", help="use the interpreter even where there is a GPU")]
Output = Annotated[Optional[str], typer.Option(help="a file to write, or - for stdout")]  # noqa: UP045
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="end with 0 whenever grading itself worked")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="no progress on stderr")]
OpenCard = Annotated[bool, typer.Option("--open", help="open the scorecard in a browser")]
AllBaselines = Annotated[
    bool, typer.Option("--all-baselines", help="on a GPU, also time what is slow to compile: torch.compile, XLA …")
]


@app.command("run", help="Grade one exercise. `grade ex_15` is short for `grade run ex_15`.")
def run_command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="grade only this part (repeatable)", autocompletion=part_names),
    ] = None,
    seed: Seed = None,
    cpu: Cpu = False,
    json: Output = None,
    html: Output = None,
    junit: Output = None,
    open_card: OpenCard = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="print where the time went")] = False,
    all_baselines: AllBaselines = False,
    exit_zero: ExitZero = False,
    quiet: Quiet = False,
) -> None:
    """Grade one exercise and write its scorecard."""
    from grader.cli.run import Outputs, RunOptions, run

    outputs = Outputs(json=json, html=html, junit=junit, open_card=open_card, timeline=timeline)
    how = RunOptions(tuple(part or ()), seed, cpu=cpu, all_baselines=all_baselines, quiet=quiet)
    code = run(exercise, submission, how, outputs)
    raise typer.Exit(0 if exit_zero and code in (1, 3, 4) else code)


@app.command("watch", help="Grade after every save: verdict, hints, keys; the learner's loop.")
def watch_command(
    exercise: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="as for run; the first that is not done unless said", autocompletion=exercise_ids),
    ] = None,
    cpu: Cpu = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="show the scorecard at an address of this machine, always up to date")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Grade after every save."""
    from grader.cli.watch import watch

    raise typer.Exit(watch(exercise, cpu=cpu, serve=serve, quiet=quiet))


@app.command("all", help="Grade every exercise, and write one page over all of them.")
def all_command(
    seed: Seed = None,
    cpu: Cpu = False,
    json: Output = None,
    open_card: OpenCard = False,
    all_baselines: AllBaselines = False,
    exit_zero: ExitZero = False,
    quiet: Quiet = False,
) -> None:
    """Grade every exercise."""
    from grader.cli.every import grade_all
    from grader.cli.run import RunOptions

    how = RunOptions((), seed, cpu=cpu, all_baselines=all_baselines, quiet=quiet)
    code = grade_all(how, json, open_card=open_card)
    raise typer.Exit(0 if exit_zero and code in (1, 3, 4) else code)


@app.command("replay", help="Run exactly one recorded case and show it.")
def replay_command(
    token: Annotated[str, typer.Argument(help="as shown beside a failure: ex_15:vector_add.tail:N=65,…:0x5f")],
    submission: Submission = None,
    cpu: Cpu = False,
    json: Output = None,
) -> None:
    """Run one recorded case."""
    from grader.cli.run import replay

    raise typer.Exit(replay(token, submission, cpu=cpu, json=json))


@app.command("list", help="The exercises, and how far you are.")
def list_command(json: AsJson = False) -> None:
    """List the exercises."""
    from grader.cli.shelf import list_exercises

    list_exercises(as_json=json)


@app.command("hint", help="A hint for each part; three levels, from vague to plain.")
def hint_command(
    exercise: Exercise,
    part: Annotated[Optional[str], typer.Option(help="only this part", autocompletion=part_names)] = None,  # noqa: UP045
    level: Annotated[int, typer.Option(min=1, max=3, help="1 is vague, 3 is plain")] = 1,
    json: AsJson = False,
) -> None:
    """Print hints."""
    from grader.cli.shelf import hint

    hint(exercise, part, level, as_json=json)


@app.command("reset", help="Restore an exercise's stub, after a backup of your file.")
def reset_command(exercise: Exercise, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False) -> None:
    """Restore a stub."""
    from grader.cli.shelf import reset

    raise typer.Exit(reset(exercise, yes=yes))


@app.command("solution", help="The model solution, once your own file passes all that can be judged here.")
def solution_command(
    exercise: Exercise,
    show: Annotated[bool, typer.Option("--print", help="print its text")] = False,
    copy: Annotated[bool, typer.Option("--write", help="write a copy into solutions/")] = False,
    json: AsJson = False,
) -> None:
    """Show where the model solution lies."""
    from grader.cli.shelf import solution

    raise typer.Exit(solution(exercise, show=show, copy=copy, as_json=json))


@app.command("check", help="Prove that an exercise is sound: stub, solution, planted mistakes, honest variants.")
def check_command(
    exercise: Annotated[Optional[str], typer.Argument()] = None,  # noqa: UP045
    every: Annotated[bool, typer.Option("--all", help="every exercise")] = False,
    seed: Seed = None,
    cpu: Cpu = False,
    write_probe: Annotated[bool, typer.Option("--write-probe", help="write the margins beside the spec")] = False,
    jobs: Annotated[Optional[int], typer.Option(help="files graded at a time; one per core unless said")] = None,  # noqa: UP045
    write_wrong: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="DIR", help="write the planted mistakes as whole files into this folder; check nothing"),
    ] = None,
    json: Output = None,
) -> None:
    """Run the author's gate."""
    from grader.cli.author import CheckOptions, check

    raise typer.Exit(check(exercise, CheckOptions(seed, cpu, write_probe, jobs, json, write_wrong), every=every))


@app.command("profile", help="What your kernels are compiled to, what they move, and how long that should take.")
def profile_command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[Optional[list[str]], typer.Option(help="profile only this part (repeatable)")] = None,  # noqa: UP045
    json: Output = None,
    quiet: Quiet = False,
) -> None:
    """Profile a submission's kernels."""
    from grader.cli.profile import profile

    raise typer.Exit(profile(exercise, submission, tuple(part or ()), json, quiet=quiet))


@app.command("trace", help="What one call allocates, copies and launches, step by step; no kernel runs.")
def trace_command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[Optional[str], typer.Option(help="the function to call (the first one, if not given)")] = None,  # noqa: UP045
    case: Annotated[Optional[str], typer.Option(help='sizes and dtypes, as in "M=64,N=65"')] = None,  # noqa: UP045
) -> None:
    """Print what a submission's function does on its inputs."""
    from grader.cli.trace import trace

    raise typer.Exit(trace(exercise, submission, part, case))


@app.command("sanitize", help="Accesses outside tensors, and races, in every planned call; with and without a GPU.")
def sanitize_command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[Optional[list[str]], typer.Option(help="look at this part only (repeatable)")] = None,  # noqa: UP045
    seed: Seed = None,
    cpu: Cpu = False,
    tool: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="on a GPU: compute-sanitizer's memcheck, racecheck, initcheck or synccheck"),
    ] = None,
    json: Output = None,
    quiet: Quiet = False,
) -> None:
    """Look for accesses outside tensors and for races."""
    from grader.cli.sanitize import SanitizeOptions, sanitize

    how = SanitizeOptions(tuple(part or ()), seed, tool, cpu=cpu, json=json, quiet=quiet)
    raise typer.Exit(sanitize(exercise, submission, how))


@app.command("batch", help="Grade a folder of submissions: a whole class, in parallel, resumable.")
def batch_command(
    source: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="DIR",
            help="one folder or zip per student, or what Canvas, Gradescope, Moodle or GitHub Classroom gives; "
            "the one of the last run unless said",
        ),
    ] = None,
    out: Annotated[str, typer.Option(help="where records, scorecards and the gradebook go")] = "graded",
    exercise: Annotated[
        list[str] | None, typer.Option(help="grade this one (repeatable); all that are handed in unless said")
    ] = None,
    part: Annotated[Optional[list[str]], typer.Option(help="grade only this part (repeatable)")] = None,  # noqa: UP045
    roster: Annotated[Optional[str], typer.Option(help="CSV: id, name, email, section, canvas, sis, github, …")] = None,  # noqa: UP045
    late: Annotated[
        str | None, typer.Option(help="TOML: due dates, grace days, percentage per day, extensions")
    ] = None,
    overrides: Annotated[str | None, typer.Option(help="CSV: student, exercise, points, reason, author, time")] = None,
    times: Annotated[
        str | None, typer.Option(help="CSV: student, exercise, submitted_at, where the layout does not say")
    ] = None,
    seed: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="a number for everybody, or hidden: a random one that no student's file shows"),
    ] = None,
    only: Annotated[Optional[str], typer.Option(help="failed (again), changed, or a student's id (again)")] = None,  # noqa: UP045
    resume: Annotated[
        bool, typer.Option("--resume", help="go on with a run that was stopped; nothing else is asked for")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="grade everything again")] = False,
    workers: Annotated[
        int | None, typer.Option(help="gradings at a time; one per GPU, or per core, unless said")
    ] = None,
    scheduler: Annotated[Optional[str], typer.Option(help="a Dask cluster that runs already: tcp://HOST:8786")] = None,  # noqa: UP045
    limit_minutes: Annotated[
        float, typer.Option(help="a grading that takes longer is given up, and its worker restarted")
    ] = 30.0,
    cpu: Cpu = False,
    kernels: Annotated[bool, typer.Option("--kernels", help="also show what kernels compile to; takes longer")] = False,
    allow_unconfined: Annotated[
        bool, typer.Option("--allow-unconfined", help="run strangers' code even where this machine cannot confine it")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="write the hidden seed into all records and scorecards")
    ] = False,
    appeal: Annotated[
        str | None, typer.Option(metavar="STUDENT", help="print the commands that repeat a student's failing cases")
    ] = None,
    exit_zero: ExitZero = False,
    quiet: Quiet = False,
) -> None:
    """Grade a class."""
    from grader.cli import batch, batch_seed
    from grader.cli.batch_asked import Asked

    if publish or appeal is not None:
        raise typer.Exit(batch_seed.publish(out) if publish else batch_seed.appeal(out, str(appeal)))
    asked = Asked(
        source,
        out,
        tuple(exercise or ()),
        tuple(part or ()),
        roster,
        late,
        overrides,
        times,
        seed,
        only,
        scheduler,
        workers,
        limit_minutes,
        resume=resume,
        fresh=fresh,
        cpu=cpu,
        kernels=kernels,
        allow_unconfined=allow_unconfined,
        quiet=quiet,
    )
    code = batch.batch(asked)
    raise typer.Exit(0 if exit_zero and code in (1, 3, 4) else code)


@app.command(
    "export",
    cls=ExportCommand,
    help="Files for a platform or a gradebook, from an OUT_DIR of `grade batch` or one record.",
)
def export_command(
    source: Annotated[str, typer.Argument(help="an OUT_DIR, or a record (grade ex_15 --json FILE)")],
    format: Annotated[str, typer.Option("--format", help="the file's format")],
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="the file or folder to write; OUT_DIR/export/FORMAT, or stdout for one document"),
    ] = None,
    into: Annotated[str | None, typer.Option(help="canvas: a gradebook exported there, whose columns to fill")] = None,
    column: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="canvas: an exercise's assignment, as ex_15=90412 (repeatable)"),
    ] = None,
    of_judged: Annotated[bool, typer.Option("--of-judged", help="canvas: take what was judged for the whole")] = False,
    parts_left_out_too: Annotated[
        bool,
        typer.Option("--parts-left-out-too", help="with --of-judged: also where nothing of a whole part was judged"),
    ] = False,
    scale: Annotated[bool, typer.Option("--scale", help="canvas: fit points to what a column is worth")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="junit: the dialect of the Windy Road schema")] = False,
    metadata: Annotated[Optional[str], typer.Option(help="gradescope: its submission_metadata.json")] = None,  # noqa: UP045
    audience: Annotated[str, typer.Option(help="student hides what is secret; instructor hides nothing")] = "student",
) -> None:
    """Write what a platform reads."""
    from grader.cli.export import export
    from grader.export.formats import ExportOptions

    options = ExportOptions(
        format, out, into, tuple(column or ()), of_judged, parts_left_out_too, scale, strict, metadata, audience
    )
    raise typer.Exit(export(source, options))


@app.command("report", help="The class page: points, checks, common causes, speed, what was not judged.")
def report_command(
    out_dir: Annotated[str, typer.Argument(metavar="OUT_DIR", help="what `grade batch` wrote")],
    out: Annotated[Optional[str], typer.Option(help="the page to write; OUT_DIR/report.html unless given")] = None,  # noqa: UP045
    audience: Annotated[str, typer.Option(help="instructor names students; student names nobody")] = "instructor",
    similarity: Annotated[bool, typer.Option("--similarity", help="also a page of similar sources")] = False,
    threshold: Annotated[float, typer.Option(help="from which share on two sources are shown")] = 0.6,
) -> None:
    """Write the class page."""
    from grader.cli.report import report

    raise typer.Exit(report(out_dir, out, audience, similarity=similarity, threshold=threshold))


@app.command("release", help="The student bundle: stubs, grader, specifications, oracles; no solution.")
def release_command(
    target: Annotated[str, typer.Argument(metavar="DIR", help="the folder to write; new or empty")],
    exercises: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="only these: ex_15,ex_18 (repeatable)"),
    ] = None,
) -> None:
    """Write the student bundle."""
    from grader.cli.release import release

    raise typer.Exit(release(target, tuple(exercises or ())))


@app.command("doctor", help="What this machine can judge, and how to get what is missing.")
def doctor_command(json: AsJson = False) -> None:
    """Try a real kernel in each mode of this machine."""
    from grader.cli.doctor import doctor

    raise typer.Exit(doctor(as_json=json))


@app.command("version", help="The version of grade.")
def version_command(json: AsJson = False) -> None:
    """Print the version."""
    from json import dumps

    print(dumps({"name": "grade", "version": __version__}) if json else f"grade {__version__}")


@app.command("completion", help="A script that makes your shell complete commands, options and exercises.")
def completion_command(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish", autocompletion=lambda: ["bash", "zsh", "fish"])],
) -> None:
    """Print a completion script."""
    print(completion_script(shell), end="")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A letter that the terminal does not know is no reason to end in an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Being told to end is an exception like Ctrl-C, so that processes and scratch folders go on every way out.
    signal.signal(signal.SIGTERM, _terminate)
    code = dispatch(given)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Every file, process and scratch folder was seen to by now, and unloading torch takes a third of a second.
    os._exit(code)


def _terminate(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def dispatch(given: list[str]) -> int:
    """Run one command; its exit code. Errors become one line on stderr."""
    try:
        code = int(app(given, prog_name="grade", standalone_mode=False) or 0)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        said, code = _explain(error)
        if said:
            say(f"grade: {said}", sys.stderr)
    return code


def _explain(error: BaseException) -> tuple[str, int]:
    """(one line for stderr, exit code) of what ended a command; raises what nobody expected."""
    match error:
        case GradeError():
            return str(error), error.exit_code
        case BrokenPipeError():
            # Whoever read our output has seen enough; nothing may be flushed to the closed pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return "", 141
        case OSError():
            return f"the system must take what is written, got: {error}", 2
        case KeyboardInterrupt() | EOFError():
            return "interrupted", 130
    # Typer's own errors come from whichever click it was built with; they tell themselves apart by what they can do.
    if hasattr(error, "format_message"):
        return f"{error.format_message()} (grade --help)", int(getattr(error, "exit_code", 2))
    if type(error).__name__ == "Abort":
        return "interrupted", 130
    raise error
