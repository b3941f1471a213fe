"""Open what the grading of one submission works with, and end all of it afterwards.

Takes a job and a server; gives sessions, compilers and the timing setup. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby

from grader import __version__, machine
from grader.compile.outcome_cache import ACCEPTED, place_for
from grader.diagnosis.diagnosis import Diagnosis
from grader.grading.compile_gate import CompileGate
from grader.grading.job import Job
from grader.grading.part_compiler import PartCompiler
from grader.judge.truth import Truth
from grader.machine import CudaDevice
from grader.sandbox.clean_compiler import CleanCompiler
from grader.sandbox.kernel_cache import cache_entry_for
from grader.sandbox.pair import Pair, RecordedAnswer, paired
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import Server
from grader.sandbox.session import Session
from grader.speed.baseline_process import BaselineProcess
from grader.speed.setup import TimingSetup, open_setup


@dataclass(frozen=True)
class Workplace:
    """Hold what the grading of one submission works with.

    diagnosis: collects clues to the causes of failures. pair: the submission's process, and its replayers. interpreter:
    on a GPU, a second pair, which interprets and counts bytes; None if nothing is counted or `pair` itself interprets.
    part_compiler: compiles beside the grading. gate: of the checks that wait for a compiler. refusal: as in Bench.
    """

    truth: Truth
    diagnosis: Diagnosis
    pair: Pair
    interpreter: Pair | None
    setup: TimingSetup
    part_compiler: PartCompiler
    gate: CompileGate
    refusal: Callable[[RecordedAnswer, int], str]


@contextmanager
def open_workplace(
    job: Job,
    server: Server,
    truth: Truth,
    gpu: CudaDevice | None,
    baseline_process: BaselineProcess | None,
) -> Iterator[Workplace]:
    """Yield the workplace of one grading.

    baseline_process: one that was started early; without it, one is started where something is timed.
    """
    entry = job.entry
    spec = ProcessSpec.of(server, entry, job.source)

    def compiling() -> ProcessSpec:
        return spec.on(server.beside("compile"))

    diagnosis = Diagnosis(entry.exercise, truth, job.source)
    versions = machine.version("triton"), machine.version("torch")
    kernel_cache = cache_entry_for(job.owner, entry.id, versions) if gpu else None
    outcomes_file = place_for(spec.start, (*versions, __version__))
    is_timed = job.timed and any(planned.check.rule.is_timed for planned in job.plan.checks)
    with (
        Session(spec) as session,
        paired(spec, session, kernel_cache) as pair,
        _interpreting_pair(job, server, spec) as interpreter,
        CleanCompiler(compiling) as compiler,
        open_setup(entry, gpu.uuid if gpu else "", baseline_process, timed=is_timed) as setup,
        PartCompiler(
            compiling,
            [part for part, _ in groupby(job.plan.checks, key=lambda planned: planned.part)],
            cache_file=outcomes_file,
            capability=gpu.capability if gpu else "",
            for_checks=True,
        ) as part_compiler,
        CompileGate(
            job.plan,
            part_compiler,
            diagnosis,
            truth,
            on_gpu=gpu is not None,
            for_record=job.compiled,
            cache_file=outcomes_file.with_suffix(ACCEPTED),
        ) as gate,
    ):
        yield Workplace(truth, diagnosis, pair, interpreter, setup, part_compiler, gate, compiler.refusal)


@contextmanager
def _interpreting_pair(job: Job, server: Server, spec: ProcessSpec) -> Iterator[Pair | None]:
    """Yield a pair that interprets beside a GPU, to count bytes; None if nothing is counted or no GPU is used."""
    counted = any(planned.check.rule.needs_interpreter for planned in job.plan.checks)
    if server.mode == "interpret" or not counted:
        yield None
        return
    beside = spec.on(server.beside("interpret"))
    with Session(beside) as session, paired(beside, session) as pair:
        yield pair
