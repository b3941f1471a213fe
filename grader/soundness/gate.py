"""Run the whole gate of one exercise: grade its files, and look at its oracle and its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch

from grader import machine
from grader.exercise.catalogue import Entry
from grader.exercise.plan import Plan, draw, with_shared_inputs
from grader.exercise.triton_version import lacking
from grader.grading import Job, grade, truth_of
from grader.judge.truth import Truth
from grader.record.record import Record
from grader.sandbox.server import ForkServer
from grader.soundness.cheats import constant_choices, trivial_answers
from grader.soundness.claims import passes, planted_finding
from grader.soundness.findings import Gate, GateLine, named
from grader.soundness.inputs import early_whole_numbers, repeatable_inputs, seeded_inputs, steady_forms
from grader.soundness.margins import Extremes
from grader.soundness.oracles import wide_oracles
from grader.soundness.trials import FileTrial, text_of, trials_of
from grader.soundness.verdicts import findings_of

# Number of cases whose tensors are stored for the next file: all of an exercise.
_KNOWN_CASES = 1024


def run_gate(
    entry: Entry,
    server: ForkServer,
    seed: int,
    on_finding: Callable[[GateLine], None],
    jobs: int = 1,
    interpreter: ForkServer | None = None,
    measured: bool = False,
) -> Gate:
    """Run the whole gate, `jobs` files at a time.

    on_finding: called with every finding, in the order of the gate. interpreter: judges mistakes that pass on a GPU
    once more, because only the interpreter sees every access. measured: every file runs on every case, for the margins;
    otherwise a mistake's first failing case is enough, and honest variants share the cases.
    """
    gate = Gate()
    extremes = Extremes()

    def note(finding: GateLine) -> None:
        gate.findings.append(finding)
        on_finding(finding)

    trials = trials_of(entry)
    # Every file meets the same inputs, so that each expected value is computed once.
    truth = truth_of(entry, on_gpu=server.mode == "gpu", keep=_KNOWN_CASES)

    def planned(on: ForkServer) -> Plan:
        return with_shared_inputs(draw(entry.exercise, seed, machine.abilities(gpu=on.mode == "gpu")))

    # Hypothesis draws on one thread only.
    drawn = {one.mode: planned(one) for one in (server, interpreter or server)}

    def graded(trial: FileTrial, on: ForkServer = server) -> Record:
        plan = trial.of(drawn[on.mode], every_case=measured or (trial.timed and on.mode == "gpu"))
        job = Job(
            entry,
            str(trial.path),
            trial.text,
            plan,
            f"grade {entry.id} --submission {trial.path}",
            "",
            shrink=False,
            timed=trial.timed,
            compiled=trial.path == entry.solution,
            patience_s=60.0,
            # A claim names a check and a status. Causes are measured elsewhere (benchmarks.causes).
            diagnosed=False,
            first_failure=trial.claim is not None and not measured,
        )
        return grade(job, on, truth=truth)

    def judged(trial: FileTrial, record: Record) -> Iterator[GateLine]:
        for finding in findings_of(trial, record, entry):
            if finding.holds is False and trial.claim and interpreter and passes(trial.claim, record):
                again = planted_finding(trial.path, trial.claim, graded(trial, interpreter))
                yield replace(again, outcome=f"{again.outcome} in the interpreter, pass on this GPU")
            else:
                yield finding

    whole = drawn[server.mode]
    pool = ThreadPoolExecutor(jobs)
    try:
        # First: after the last file, it would leave all cores but one idle.
        proved = pool.submit(_without_submission, whole, truth)
        for trial, record in zip(trials, pool.map(graded, trials), strict=True):
            for finding in judged(trial, record):
                note(finding)
            for result in record.checks:
                if trial.claim is None:
                    extremes.note_honest(result, trial.path.name)
                elif measured and result.id == trial.claim.check:
                    extremes.note_cheat(result, trial.path.name)
        found = proved.result()
    finally:
        pool.shutdown(cancel_futures=True)
    for path in (*entry.fast, *entry.honest):
        if why := lacking(text_of(path)):
            note(GateLine(named(path), None, f"not judged: {why}"))
    # Last, and alone: it computes on several threads at once.
    for finding in (*found, *repeatable_inputs(whole, truth)):
        note(finding)
    gate.margins = [extremes.margin(part.name) for part in entry.exercise.parts]
    return gate


def _without_submission(plan: Plan, truth: Truth) -> list[GateLine]:
    """Return what the plan, the inputs and the oracle show by themselves; on one core, for the others have files."""
    torch.set_num_threads(1)
    looks = (trivial_answers, constant_choices, wide_oracles, seeded_inputs, steady_forms, early_whole_numbers)
    return [finding for look in looks for finding in look(plan, truth)]
