"""`grade replay`: run one case again, and show its inputs."""

from __future__ import annotations

import sys

from grader import machine
from grader.cli.exit_codes import exit_code
from grader.cli.files import check_target, chosen_file, write_or_print
from grader.cli.saved import last_failure
from grader.cli.say import say
from grader.cli.terminal import show_record
from grader.errors import UsageError
from grader.exercise.catalogue import find_root
from grader.moments import now
from grader.processes import Processes
from grader.record.record import to_json
from grader.report import view


def replay(token_text: str | None, submission: str | None, *, cpu: bool, json: str | None = None) -> int:
    """Run the one case that a token names; return the exit code.

    token_text: None means the last failure of the learner's own file. json: where its record goes.
    """
    if token_text is None:
        if submission is not None:
            raise UsageError(f"a token must be given with --submission, got only {submission}")
        token_text = last_failure(find_root())
        say(f"Replaying {token_text} …", sys.stderr)
    from grader.exercise.replay_token import parse_token, replay_plan

    token = parse_token(token_text)
    entry, path, source = chosen_file(token.exercise_id, submission)
    check_target(json)
    with Processes(cpu=cpu) as processes:
        from grader.grading import Job, grade

        server = processes.checked()
        planned = replay_plan(entry.exercise, token, machine.abilities(gpu=server.mode == "gpu"))
        command = f"grade replay {token}"
        job = Job(entry, str(path.resolve()), source, planned, command, now(), shrink=False, compiled=False)
        record = grade(job, server)
    if json is not None:
        write_or_print(json, to_json(record))
    part = record.checks[0].part
    passed = view.Step("grade all cases of the part", f"grade {entry.id} --part {part}")
    stream = sys.stderr if json == "-" else sys.stdout
    show_record(record, stream, passed if record.verdict == "pass" else None, one_case=True)
    return exit_code(record.verdict)
