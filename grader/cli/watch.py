"""`grade watch`: grade a file after every save, and show the result on the terminal.

Takes the name of an exercise or the path of a file, keys, saves, and signals. Gives the screen or a log, the scorecard,
the page that is served, and an exit code. Owns the terminal, the processes and the tasks.

Never decides what happens next: grader.watch.state decides, and this module does it. Changes the learner's file only
if the learner asks for the stub; the old file stays beside it.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from grader import machine
from grader.cli import saved
from grader.cli.browser import show_in_browser
from grader.cli.files import read_submission
from grader.cli.finish import finish_of
from grader.cli.job import RunOptions, job_for
from grader.cli.list import exercise_table
from grader.cli.next_step import next_exercise
from grader.cli.reset import restore
from grader.cli.say import say
from grader.cli.scorecard import can_keep, keep
from grader.cli.terminal import terminal_of
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, discover, find_root, resolve
from grader.moments import now
from grader.processes import Processes
from grader.progress import Progress
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.sandbox.cancellation import CancellableServer, CancelToken
from grader.text import clean
from grader.watch import order, screen
from grader.watch.follow import Follower
from grader.watch.keys import Keyboard
from grader.watch.latest_task import LatestTask, Task
from grader.watch.state import (
    Action,
    Begun,
    Broke,
    Cancel,
    CheckDecided,
    Do,
    Event,
    Grade,
    GradeAll,
    Graded,
    Pressed,
    ReplayCase,
    State,
    StatusLine,
    TextShown,
    WatchedExercise,
    passing_parts,
    step,
)
from grader.watch.unchanged import GradedText

if TYPE_CHECKING:
    from grader.grading import Job
    from grader.judge.truth import Truth
    from grader.watch.live import Live

# While something runs, the seconds on the screen show that it is alive.
_TICK_S = 1.0
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Keep the oracle's answers from save to save; those of a whole exercise take a few MiB.
_KNOWN_CASES = 2000


def watch(exercise: str | None, *, cpu: bool, serve: bool, quiet: bool) -> int:
    """Grade after every save, until the user leaves; return the exit code.

    exercise: names an exercise or a file, as in grader.exercise.catalogue.resolve; None: the learner's current one.
    cpu: grade in the interpreter. serve: serve the scorecard as a page. quiet: no progress in a log.

    Returns 0, or 128 plus the number of the signal that ended the loop. Raises UsageError for an unknown name.
    """
    root = find_root()
    entry, path = resolve(root, exercise if exercise is not None else saved.current(root).name)
    with ExitStack() as stack:
        # Closing the terminal ends it like a signal to end, and leaves nothing behind.
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))
        live = stack.enter_context(_served(entry.exercise.title)) if serve else None
        processes = stack.enter_context(Processes(cpu=cpu))
        loop = stack.enter_context(_Loop(entry, path, processes, live, cpu=cpu, quiet=quiet))
        return loop.run()


def _served(title: str) -> Live:
    """Return a server for the live page."""
    from grader.watch.live import Live

    return Live(title)


class _Loop:
    """One terminal, one file at a time. Use as a context manager."""

    def __init__(
        self, entry: Entry, path: Path, processes: Processes, live: Live | None, *, cpu: bool, quiet: bool
    ) -> None:
        self._processes = processes
        self._live = live
        self._options = RunOptions(cpu=cpu, quiet=quiet)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._tasks = LatestTask(self._broke, processes.stop_baseline_process)
        self._jobs: dict[tuple[str, bool], Job] = {}
        self._truths: dict[str, Truth] = {}
        # By exercise, file and mode: the text that was graded last.
        self._earlier: dict[tuple[str, Path, str], GradedText] = {}
        self._keyboard: Keyboard | None = None
        # A screen is repainted on a terminal with cursor control; a log only grows.
        self._is_screen = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._takes_keys = sys.stdin.isatty() and sys.stdout.isatty()
        self._shown: screen.Screen | None = None
        self._is_stale = False
        self._began = time.monotonic()
        self._left = False
        self._code = 0
        self._follower = ExitStack()
        self._runs = 0
        self._state: State
        self._turn_to(entry, path)

    def __enter__(self) -> _Loop:
        self._tasks.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._follower.close()
        self._tasks.__exit__()

    def run(self) -> int:
        """Run the loop until it ends, and return the exit code.

        0: the user left. 128 plus the signal's number: a signal ended it.
        """
        with self._told_to_end(), self._terminal():
            self._greet()
            self._follow()
            while not self._left:
                self._show()
                self._wait()
                while not self._left and not self._events.empty():
                    self._take(self._events.get())
        return self._code

    # -- events and actions ------------------------------------------------------------------------------------------

    def _post(self, event: Event) -> None:
        self._events.put(event)
        self._wake()

    @contextmanager
    def _told_to_end(self) -> Iterator[None]:
        """Turn a signal to end into a normal end of the loop, while the block runs.

        A signal that raised an exception at any line could be lost: some code catches exceptions. A second signal
        raises SystemExit.
        """

        def leave(number: int, _: object) -> None:
            if self._code:
                # A second signal: do not wait any longer.
                raise SystemExit(128 + number)
            self._left, self._code = True, 128 + number

        # A handler runs between two steps of this thread: a signal just before a wait must end that wait too.
        woken = signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        before = {number: signal.signal(number, leave) for number in _ENDING}
        try:
            yield
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wake(self) -> None:
        # A full pipe already wakes the reader.
        with suppress(BlockingIOError):
            os.write(self._waker, b".")

    def _broke(self, fault: Exception) -> None:
        said = clean(f"the grader failed, not your file: {type(fault).__name__}: {fault}", 300)
        self._post(Broke(self._state.run, said))

    def _wait(self) -> None:
        """Wait for a key, an event or a signal; while a grading is on the screen, at most a second. Take the keys."""
        sources = [self._woken] + ([self._keyboard.fd] if self._keyboard else [])
        timeout = _TICK_S if self._is_screen and self._state.phase == "checking" else None
        ready, _, _ = select.select(sources, [], [], timeout)
        if self._woken in ready:
            with suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self._keyboard and self._keyboard.fd in ready:
            pressed = self._keyboard.read()
            for key in pressed if pressed is not None else ("q",):
                self._take(Pressed(key))
            # A closed terminal sends no q either.
            self._left = self._left or pressed is None

    def _take(self, event: Event) -> None:
        before = self._state
        self._state, actions = step(before, event)
        if self._state.run != before.run:
            self._runs = self._state.run
            self._began = time.monotonic()
        if not self._is_screen:
            self._print(before)
        if self._live is not None:
            self._live.say(self._state.phase == "checking", self._state.attempts)
        for action in actions:
            self._act(action)

    def _act(self, action: Action) -> None:
        match action:
            case Grade():
                self._tasks.start(self._grade_task(action))
            case ReplayCase():
                self._tasks.start(self._replay_task(action))
            case GradeAll():
                self._tasks.start(self._grade_all_task(action))
            case Cancel():
                self._tasks.cancel()
            case Do("quit"):
                self._left = True
            case Do("list"):
                self._post(TextShown(self._state.run, exercise_table(self._entries, self._paper().ascii_only)))
            case Do("reset"):
                backup = restore(self._entry)
                self._post(StatusLine(f"Your file: {backup}" if backup else "It is the untouched stub already."))
            case Do("open"):
                address = self._live.address if self._live else self._card.resolve().as_uri()
                self._post(StatusLine(show_in_browser(address, 0.0)))
            case _:
                self._go_on()

    def _go_on(self) -> None:
        """Turn to the next exercise that is not done, in the order of the course.

        After the last exercise the search continues with the first. If none is left, say so.
        """
        following = next_exercise(self._entry)
        if following is None:
            self._post(StatusLine("Every exercise is done."))
            return
        self._turn_to(following, following.stub)
        self._follow()

    def _turn_to(self, entry: Entry, path: Path) -> None:
        self._entry, self._path = entry, path
        self._entries = discover(entry.root)
        self._card = saved.card_for(entry, path)
        self._keeps = can_keep(self._card)
        subject = WatchedExercise(
            entry.id,
            entry.exercise.title,
            str(path.resolve()),
            {part.name: part.hints for part in entry.exercise.parts},
            tuple(one.id for one in self._entries),
            entry.solution.is_file(),
            path.resolve() == entry.stub.resolve(),
        )
        latest = saved.record_beside(self._card)
        # Show the last failure first: the learner came back for it.
        mine = latest if latest is not None and latest.submission.path == subject.path else None
        # Run numbers continue, so late events of the previous exercise are ignored.
        self._state = State(
            subject,
            self._every_progress(),
            run=self._runs + 1,
            record=mine,
            passed=passing_parts(mine),
            attempts=saved.attempts(entry),
        )
        self._shown = None
        if self._live is not None:
            self._live.turn_to(entry.exercise.title)

    def _follow(self) -> None:
        self._follower.close()
        # Pending messages are about another file.
        while not self._events.empty():
            self._events.get()
        self._follower.enter_context(Follower(self._path, read_submission, self._post))

    def _every_progress(self) -> tuple[Progress, ...]:
        return tuple(saved.progress_of(entry) for entry in self._entries)

    # -- what takes time, on the thread of the latest task ---------------------------------------------------------

    def _grade_task(self, effect: Grade) -> Task:
        entry, path = self._entry, self._path

        def run(token: CancelToken) -> None:
            record = self._grade(token, entry, path, effect.source, effect.run, effect.first)
            attempts = self._store_card(entry, path, record, effect.source)
            self._post(Graded(effect.run, record, attempts, self._every_progress()))
            # Load the compilers now, while the learner reads: with the next save it would take seconds.
            self._processes.ready(entry)[0].beside("compile")

        return run

    def _grade(
        self, token: CancelToken, entry: Entry, path: Path, source: str, run: int, first: frozenset[str] = frozenset()
    ) -> Record:
        server, baselines = self._processes.ready(entry)
        token.check()
        job = self._job(entry, path, source, gpu=server.mode == "gpu")
        from grader.grading import grade

        self._processes.check()
        names = [part.name for part in entry.exercise.parts]
        earlier = self._earlier.get((entry.name, path, server.mode))
        kept = earlier.unchanged(source, names) if earlier else frozenset()
        changed = tuple(check for check in job.plan.checks if check.part.name not in kept)
        ordered = replace(job, plan=order.first(replace(job.plan, checks=changed), first))
        self._post(Begun(run, len(job.plan.checks)))
        for result in earlier.results(kept) if earlier else ():
            self._post(CheckDecided(run, result))

        def on_result(result: CheckResult) -> None:
            token.check()
            self._post(CheckDecided(run, result))

        record = grade(
            ordered,
            CancellableServer(server, token),
            on_result,
            baselines,
            self._truth(entry, on_gpu=server.mode == "gpu"),
        )
        token.check()
        exercise = entry.exercise
        whole = earlier.joined(record, source, kept, exercise) if earlier else order.in_order(record, exercise)
        self._earlier[entry.name, path, server.mode] = GradedText(source, whole)
        return whole

    def _job(self, entry: Entry, path: Path, source: str, *, gpu: bool) -> Job:
        """Return the job that grades a text.

        The plan does not depend on the text, so it is drawn once for each exercise and mode. Every save gets the same
        inputs, so the expected outputs are computed once.
        """
        key = entry.name, gpu
        if key not in self._jobs:
            job = job_for(entry, path, source, None, self._options, gpu=gpu)
            from grader.exercise.plan import with_shared_inputs

            self._jobs[key] = replace(job, plan=with_shared_inputs(job.plan))
        return replace(self._jobs[key], source=source, graded_at=now())

    def _truth(self, entry: Entry, *, on_gpu: bool) -> Truth:
        from grader.grading import truth_of

        if entry.name not in self._truths:
            self._truths[entry.name] = truth_of(entry, on_gpu=on_gpu, keep=_KNOWN_CASES)
        return self._truths[entry.name]

    def _store_card(self, entry: Entry, path: Path, record: Record, source: str) -> int:
        """Write the scorecard of a file, whose text is `source`, if it can be written; show it on the page.

        Returns the number of attempts so far.
        """
        card = saved.card_for(entry, path)
        if self._keeps:
            page = keep(entry, record, source, card)
        else:
            from grader.report.page import html

            page = html.render(record, finish=finish_of(entry, record))
        if self._live is not None and card == self._card:
            self._live.show(page)
        return saved.attempts(entry)

    def _replay_task(self, effect: ReplayCase) -> Task:
        entry, path = self._entry, self._path

        def run(token: CancelToken) -> None:
            server, _ = self._processes.ready(entry)
            from grader.exercise.replay_token import parse_token, replay_plan
            from grader.grading import Job, grade
            from grader.report.text import terminal

            abilities = machine.abilities(gpu=server.mode == "gpu")
            planned = replay_plan(entry.exercise, parse_token(effect.token), abilities)
            command, file = f"grade replay {effect.token}", str(path.resolve())
            job = Job(entry, file, effect.source, planned, command, now(), shrink=False, compiled=False)
            truth = self._truth(entry, on_gpu=server.mode == "gpu")
            record = grade(job, CancellableServer(server, token), truth=truth)
            token.check()
            paper = self._paper()
            text = terminal.render_case(record, width=paper.width, colour=paper.colour, ascii_only=paper.ascii_only)
            self._post(TextShown(effect.run, text))

        return run

    def _grade_all_task(self, effect: GradeAll) -> Task:
        def run(token: CancelToken) -> None:
            for entry in self._entries:
                # A file that cannot be graded does not stop the others; the list shows the progress of each.
                with suppress(UsageError):
                    source = read_submission(entry.stub)
                    record = self._grade(token, entry, entry.stub, source, effect.run)
                    self._store_card(entry, entry.stub, record, source)
            from grader.cli.all import write_index

            if self._keeps:
                write_index(self._entries)
            table = exercise_table(self._entries, self._paper().ascii_only)
            self._post(TextShown(effect.run, table, self._every_progress()))

        return run

    # -- the terminal ------------------------------------------------------------------------------------------------

    @contextmanager
    def _terminal(self) -> Iterator[None]:
        if not self._takes_keys:
            yield
            return
        before = signal.signal(signal.SIGWINCH, lambda *_: self._repaint())
        try:
            screen_fd = sys.stdout.fileno() if self._is_screen else -1
            with Keyboard(sys.stdin.fileno(), screen_fd, self._repaint) as self._keyboard:
                yield
        finally:
            self._keyboard = None
            signal.signal(signal.SIGWINCH, before)
            if self._is_screen:
                # Print a line end behind the footer for the shell's prompt, if there still is a terminal.
                with suppress(OSError):
                    print(flush=True)

    def _repaint(self) -> None:
        # A signal may come while the screen is being painted.
        self._is_stale = True
        self._wake()

    def _greet(self) -> None:
        if self._live is not None:
            say(f"Live card: {self._live.address}", sys.stderr)
            self._state = replace(self._state, notice=f"live card: {self._live.address}")
        if not self._takes_keys:
            say("No terminal here: no keys; Ctrl-C or a signal ends this.", sys.stderr)

    def _paper(self) -> screen.Paper:
        colour, ascii_only, width = terminal_of(sys.stdout)
        return screen.Paper(width, colour, ascii_only, keys=self._takes_keys)

    def _show(self) -> None:
        if self._is_screen:
            elapsed = int(time.monotonic() - self._began)
            new = screen.draw(self._state, self._paper(), elapsed)
            shown, self._is_stale = None if self._is_stale else self._shown, False
            sys.stdout.write(screen.paint(shown, new))
            sys.stdout.flush()
            self._shown = new

    def _print(self, before: State) -> None:
        result, progress = screen.plain(before, self._state, self._paper())
        if progress and not self._options.quiet:
            sys.stderr.write(progress)
            sys.stderr.flush()
        if result:
            sys.stdout.write(result)
            sys.stdout.flush()
