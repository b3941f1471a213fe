"""Grade one submission against one exercise: plan in, record out. It prints nothing.

All answers are judged first, part by part, while a compiler works beside them. Speed comes last, when nothing else is
busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from time import monotonic

import torch

from grader import machine
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part
from grader.exercise.plan import PlannedCheck
from grader.grading.answers import Answers
from grader.grading.excerpts import with_excerpt, with_repeats
from grader.grading.job import Job
from grader.grading.kernel_prefetch import prefetching
from grader.grading.part_compiler import PartCompiler
from grader.grading.results import was_run
from grader.grading.source_scan import sightings
from grader.grading.speed import SpeedJudge
from grader.grading.workplace import open_workplace
from grader.judge.truth import MOST_KNOWN, Truth
from grader.record.begun import begun_record
from grader.record.checks import CheckResult, PartInfo
from grader.record.record import PrintedOutput, Record, SubmissionInfo
from grader.sandbox.server import Server
from grader.speed.baseline_process import BaselineProcess
from grader.text import clean, sha256_of
from grader.timeline import age_s, since, spent

# On a GPU, where a grading takes minutes, the record waits at least this long for compiled kernels.
_GPU_PATIENCE_S = 20.0


def grade(
    job: Job,
    server: Server,
    on_result: Callable[[CheckResult], None] = lambda result: None,
    baseline_process: BaselineProcess | None = None,
    truth: Truth | None = None,
    beside: Callable[[], None] = lambda: None,
) -> Record:
    """Grade the job's submission in children of `server`, and return its record.

    on_result: called with every check as it is decided. baseline_process: one that was started early; without it, one
    is started where something is timed. truth: shared with other gradings of the exercise. beside: if something will be
    timed, called on a thread of its own while this process waits for a compiler; it ends before the timing.
    """
    started, earlier_s = monotonic(), age_s()
    gpu = machine.find_gpu() if server.mode == "gpu" else None
    truth = truth or truth_of(job.entry, on_gpu=gpu is not None)
    # A GPU, if there is one, computes large cases: the submission needs the cores.
    torch.set_num_threads(1)
    parts = [(part, list(planned)) for part, planned in groupby(job.plan.checks, key=lambda check: check.part)]
    results: dict[str, CheckResult] = {}
    with open_workplace(job, server, truth, gpu, baseline_process) as workplace:
        pair, gate, part_compiler = workplace.pair, workplace.gate, workplace.part_compiler
        session = pair.session
        answers = Answers(job, workplace)
        speed = SpeedJudge(job, pair, workplace.setup, answers)

        def report_results(found: Iterable[CheckResult]) -> None:
            for result in found:
                results[result.id] = result
                on_result(result)

        with prefetching(session, pair.compilers, job.plan) as begin_to_end:
            for part, planned in parts:
                with spent(f"answers of {part.name}"):
                    report_results(answers.judge_part(part, [one for one in planned if not speed.is_timed(one)]))
            begin_to_end()
            # Nothing else may run while something is timed.
            with ThreadPoolExecutor(1) as aside, spent("wait for what kernels compile to"):
                if speed.is_due:
                    aside.submit(beside)
                deadline = monotonic() + max(job.patience_s, _GPU_PATIENCE_S if gpu else 0.0)
                gate.wait()
                part_compiler.recall(max(0.0, deadline - monotonic()))
        report_results(gate.release(dict(results)))
        if workplace.interpreter:
            workplace.interpreter.end()
        report_results(speed.results())
        isolation = session.ready.isolation if session.ready else ()
    if baseline_process and any(result.status == "grader_error" for result in results.values()):
        # The error may be in this process: the next grading gets another one.
        baseline_process.stop()

    compiled = {part.name: _part_info(part, results.values(), part_compiler) for part, _ in parts}

    def finished(planned: PlannedCheck) -> CheckResult:
        """Return a result as the record holds it. on_result got it without prediction, suspects and excerpt."""
        seen = compiled[planned.part.name]
        result = workplace.diagnosis.explained(planned, speed.predicted(planned, results, gpu, seen))
        return with_repeats(with_excerpt(result, job.source), job.source)

    begun = begun_record(
        job.entry,
        SubmissionInfo(clean(job.path), sha256_of(job.source), clean(job.student, 200)),
        machine.environment(server.mode, isolation, gpu),
        tuple(replace(compiled[part.name], coverage=answers.coverage(part)) for part, _ in parts),
        tuple(map(finished, job.plan.checks)),
        job.graded_at,
    )
    printed = session.printed
    return replace(
        begun,
        seed=f"{job.plan.seed:#x}",
        command=clean(job.command),
        printed=PrintedOutput(clean(printed.text, 12000), printed.total_bytes, printed.cut_bytes),
        duration_s=round(monotonic() - started, 3),
        sightings=sightings(job.source),
        timeline=since(started, before_s=earlier_s),
    )


def truth_of(entry: Entry, *, on_gpu: bool, keep: int = MOST_KNOWN) -> Truth:
    """Return the truth of an exercise.

    on_gpu: compute large cases on the GPU, from the same inputs. keep: number of cases to store.
    """
    return Truth.of(entry, keep=keep, computes_on="cuda" if on_gpu else "")


def _part_info(part: Part, checks: Iterable[CheckResult], part_compiler: PartCompiler) -> PartInfo:
    if not part_compiler.sent or not any(was_run(check) for check in checks if check.part == part.name):
        return PartInfo(part.name, part.title)
    kernels, missing = part_compiler.kernels_of(part.name)
    return PartInfo(part.name, part.title, kernels, missing, grids=part_compiler.grids_of(part.name))
