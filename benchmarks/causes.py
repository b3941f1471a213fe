"""Measure how often cards name the cause behind a mistake.

    python -m benchmarks.causes [ex_18 …] [--markdown docs/causes.md]

Every planted mistake names its true cause itself. It is graded with everybody's plan, and the card of the check that it
names is compared with that cause. The same is done for small changes of the model solutions, benchmarks/tried.json, and
for files that no rule was made with, benchmarks/blind/: there the first failing check counts.

Without the CUTLASS DSL, most of ex_17 is not judged: run it on a machine that has it, with --json, and join it by
--also. Results that several machines wrote make the page together; `--only -` grades nothing more:

    python -m benchmarks.causes --only - --also results.json ex_17.json --markdown docs/causes.md

A file that uses what the installed triton lacks is left out, and named.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal

from grader.diagnosis.kinds import GENERAL, SHARED
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.catalogue import Entry, discover, resolve
from grader.exercise.causes import Kind
from grader.exercise.plan import Plan, default_seed, draw
from grader.exercise.triton_version import lacking
from grader.grading import Job, grade
from grader.judge.truth import Truth
from grader.record.causes import Suspect
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.sandbox.server import ForkServer
from grader.soundness.claims import claim_of

ROOT = Path(__file__).resolve().parents[1]
TRIED, BLIND = Path(__file__).parent / "tried.json", Path(__file__).parent / "blind"
NOTES = Path(__file__).parent / "causes.json"
# Tensors of so many cases are kept for the next file.
_KNOWN_CASES = 256
# The line of an edit that makes failing calls right, in a suspect's evidence.
_REPAIR = re.compile(r"in line (\d+)(?: and each like it)?, every failing call")
# The first line of a file that no rule was made with: its part, and the true causes.
_BLIND = re.compile(r'"""(\w+): (\w+(?: or \w+)*)\n')

INTRODUCTION = """\
# Why did it fail: how causes are found, and how often that is right

This page explains how a card names the likely cause of a failure, and measures how often the name is right. Made by
`python -m benchmarks.causes --markdown docs/causes.md`; do not edit.

The docstring of every planted mistake names its true cause (`Cause: <kind>`). The benchmark grades each mistake without
a GPU, with the default plan. Then it compares the suspects on the card of the named check with the true cause.

## How causes are found

A card's suspects are weighed clues (`grader/diagnosis/ranking.py`). They change no status and no points.

- **Values** (`grader/diagnosis/patterns.py`): zeros, copies, memory that was never stored to, NaN that can only come
  from around an argument, a limit, a constant factor, a factor of each row, exchanged axes, shifted positions, another
  output's values, errors as small as a rounding's.
- **Known mistakes** (`<part>_mistakes` in `mistakes.py`): an answer that equals a known mistake's, except for
  rounding, is not a guess. **Known roundings** (`<part>_roundings`): the errors are, element by element, those of a sum
  or an intermediate value in too few bits.
- **Altered inputs** (`grader/diagnosis/altered.py`): the oracle computes on inputs that are read in a wrong way: one
  tensor in place of another, the first block again in every step, neighbours, exchanged axes, another tensor's strides,
  steps along another axis, blocks that start at a wrong place, an axis that is masked at another axis's length. Right
  results may also be stored by the strides of an argument. An answer with these values is not a guess either.
- **Misplaced values** (`grader/diagnosis/misplaced.py`): stretches of an output that hold the right values of another
  place, all equally far away, in exchanged tiles, or without an order; and sums that contain another place's value.
- **Case contrast** (`grader/diagnosis/case_contrast.py`): all cases of the part, failing and passing, are compared
  along every axis. A specification names the kind that an axis points to (`contrasts`). A kind that leaves other cases
  right is unlikely if those fail too, and a kind that spares no case is unlikely if some pass. No mask is missing if
  the layout alone separates failing and passing cases. If failure depends only on which of two sizes is larger, two
  axes may be swapped. A length that fits into one block in every passing case points to the blocks after the first one.
  A part that reduces nothing (`reduces=False`) is offered no mistake in a sum or a maximum.
- **Variations** (`grader/diagnosis/probes/variations.py`): the first failing case of a part is repeated with one
  difference: in the simplest layout, with the simplest value of each declared axis, with sizes that fill every block,
  and with such sizes that are all equal. An access outside a tensor that happens with full blocks too is a wrong
  address. A case that fails with different sizes and passes with equal ones has two exchanged axes.
- **The replay**: accesses and races, launches, bytes, memory, repeated calls; also the compiled kernels. The trace of
  the call names other computations ([the trace](trace.md)).
- **Probes**: the first failing call of a part is repeated on the same inputs (`grader/diagnosis/probes/repeats.py`). A
  failing call is also made as the first one of a new process: if it is right there, something of an earlier call is
  remembered. A wrong answer is compared with the right answers of earlier calls. A call that is wrong in the replay is
  made in the submission's own process. If loads masked lanes, the call is replayed with 0 and infinities in these
  lanes: a value that makes the answer right proves that they count (`grader/diagnosis/probes/padding.py`). If a product
  was not rounded before it was added, as in a fused multiply-add, the call is replayed with every product rounded
  (`grader/diagnosis/probes/contraction.py`).
- **Branches** (`grader/diagnosis/probes/branches.py`): if the first failure has no confirmed cause, up to five failing
  and twelve passing calls are replayed with notes of each condition, loop and launch. The card names the line of a
  branch that all failing calls take and no passing call takes, or the reverse. It says where, not why; repairs begin
  there.
- **Unstored memory** (`grader/diagnosis/edits/unstored.py`): if an answer depends on memory that no program wrote, the
  call is replayed without an early return, with a branch always taken, or without a condition of a store's mask. If the
  answer no longer depends on that memory, the card names the line.
- **Infinities and NaN** (`grader/diagnosis/probes/nonfinite.py`): if a result is infinite or NaN, the call is replayed
  with notes of the lines that make infinities or NaN of numbers, and then with a number in place of what one line
  makes. If the result is finite then, the card names the line and its operation, as in `inf - inf`. A mask that
  multiplies an infinity is proved if 0 in place of the product makes the call right.
- **Repairs** (`grader/diagnosis/edits/repairs.py`): if the first failure has no confirmed cause, the smallest failing
  call is repeated with one small edit of the text after the other, the likeliest first, for eight seconds of work: a
  stride, a size or a tensor of a similar name, a bound, a factor, a sign, brackets, a mask, an axis, a division that
  rounds up, a pointer that advances, a value of an earlier tile, a maximum that is carried on, an early return that is
  left out, two neighbours, two lines, or a quotient and a remainder exchanged, a line moved into a loop or out of it,
  an index that counts from another start, a share of the work that is rounded down, a grid over another length or under
  a limit, a maximum that is overwritten too early, a narrow dtype (`grader/diagnosis/edits/slips.py` and what it
  imports). If some outputs are right, lines that
  lead only to those come last (`grader/diagnosis/edits/influence.py`), and a name that nothing reads comes first. An
  edit must make the larger failing calls right too, and passing calls must stay right; the card names its line. If
  errors confirm a rounding, only edits of dtypes are tried, to name the line
  (`grader/diagnosis/edits/precision.py`).
- **Other checks** (`grader/diagnosis/cross_check.py`): a cause that another check of the part has confirmed counts too,
  if it can lead to what this check shows. Low precision causes rounding errors or overflow, not wrong addresses; a
  second launch makes no NaN; and a cause that ends one call explains no call that returns.

Clues of one kind strengthen each other. A clue that only some of the failing cases show counts less. A suspect is
*confirmed* if values or a probe leave no doubt; all others say "looks like". A suspect is left out if its weight is
below 0.3, or below 0.4 of the first one's: a plain mismatch is better than a wrong cause.
"""


@dataclass(frozen=True)
class Named:
    """A planted mistake's true causes, by its own word, and the kinds that its card offers, the likeliest first."""

    file: str
    check: str
    causes: tuple[str, ...]
    offered: tuple[str, ...]
    confirmed: bool = False
    repaired: Literal["", "changed line", "another line"] = ""

    def among(self, most: int) -> bool:
        """Whether a true cause is among the first few."""
        return any(kind in self.causes for kind in self.offered[:most])


def _named_cause(one: Mistake, check: str, record: Record) -> Named | None:
    """Return the causes that a check's card offers; None if it was not judged, or did not fail."""
    result = next((result for result in record.checks if result.id == check), None)
    if result is None or result.status in UNJUDGED or result.cause is None:
        return None
    suspects = result.cause.suspects
    offered = tuple(one.kind for one in suspects)
    confirmed = bool(suspects) and suspects[0].confirmed
    return Named(one.name, check, one.causes, offered, confirmed, _repaired(one, suspects[:1]))


def _repaired(one: Mistake, suspects: Sequence[Suspect]) -> Literal["", "changed line", "another line"]:
    """Return where the card says that an edit makes the mistake right; "" where it names none."""
    found = next((line for suspect in suspects if (line := _REPAIR.search(suspect.evidence))), None)
    if found is None:
        return ""
    lines = one.base.splitlines(), one.source.splitlines()
    steps = SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
    changed_lines = {line + 1 for kind, _, _, first, end in steps if kind != "equal" for line in range(first, end)}
    return "changed line" if int(found[1]) in changed_lines else "another line"


@dataclass(frozen=True)
class Mistake:
    """A submission with one mistake: its part, the cause of its failure, and the check whose card counts.

    Without a check, the first that fails counts. base: the text without the mistake, where it is known.
    """

    name: str
    part: str
    causes: tuple[str, ...]
    source: str
    check: str = ""
    base: str = ""


def planted(entry: Entry) -> Iterator[Mistake]:
    """Yield the exercise's own mistakes."""
    for one in entry.wrong:
        claim = claim_of(one)
        part = claim.check.partition(".")[0]
        yield Mistake(one.name, part, claim.causes, one.text, claim.check)


def named_causes(entry: Entry, server: ForkServer, mistakes: Iterable[Mistake]) -> Iterator[Named]:
    """Yield what the cards of mistakes offer, one after another, where they fail.

    The plan is everybody's, without shrinking: that does not change the causes.
    """
    truth = Truth.of(entry, keep=_KNOWN_CASES)
    drawn: dict[str, Plan] = {}
    for one in mistakes:
        if one.part not in drawn:
            drawn[one.part] = draw(entry.exercise, default_seed(entry.id), WHOLE_CPU, parts=frozenset({one.part}))
        told = one.name, one.source, drawn[one.part], "", ""
        record = grade(Job(entry, *told, shrink=False, timed=False, compiled=False), server, truth=truth)
        failed = (check.id for check in record.checks if check.cause and check.status not in UNJUDGED)
        if named := _named_cause(one, one.check or next(failed, ""), record):
            yield named


@dataclass(frozen=True)
class Result:
    """The causes that one mistake's card offered.

    `source`: "planted"; "tried", if rules were mended because of it; else "held out".
    """

    exercise: str
    source: str
    named: Named


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade, print the table, and write the page if asked."""
    options = _parser().parse_args(arguments)
    entries = [resolve(ROOT, name)[0] for name in options.exercises] or list(discover(ROOT))
    results = []
    with closing(ForkServer("interpret")) as server:
        for result in measured(entries, server, own=not options.held_out, only=options.only):
            results.append(result)
            print(_line(result), file=sys.stderr, flush=True)
    for other in options.also:
        results.extend(map(_read, json.loads(other.read_text(encoding="utf-8"))))
    results.sort(key=lambda one: one.exercise)
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in results], indent=1), encoding="utf-8")
    print(table(results))
    if options.markdown:
        notes = json.loads(NOTES.read_text(encoding="utf-8"))
        left_out = unjudged(discover(ROOT), results)
        options.markdown.write_text(page(results, discover(ROOT), notes, left_out), encoding="utf-8")
    return 0


def measured(
    entries: Iterable[Entry], server: ForkServer, *, own: bool, only: Collection[str] = ()
) -> Iterator[Result]:
    """Yield the result of every planted mistake, then of the held-out ones. `only`: those of these names."""
    for entry in entries:
        for source, mistakes in _by_source(entry).items():
            if own or source != "planted":
                for named in named_causes(entry, server, _judgeable(mistakes, only)):
                    yield Result(entry.id, source, named)


def _by_source(entry: Entry) -> dict[str, Iterator[Mistake]]:
    return {"planted": planted(entry), "tried": tried(entry), "held out": blind(entry)}


def _judgeable(mistakes: Iterable[Mistake], names: Collection[str]) -> Iterator[Mistake]:
    """Yield the mistakes of these names, or all; tell of those that the installed triton lacks something for."""
    for one in mistakes:
        if names and one.name not in names:
            continue
        if why := lacking(one.source):
            print(f"left out {one.name}: {why}", file=sys.stderr, flush=True)
        else:
            yield one


def unjudged(entries: Iterable[Entry], results: Collection[Result]) -> dict[str, list[str]]:
    """Return the mistakes without a result that the installed triton lacks something for, by what it lacks."""
    judged = {(one.exercise, one.source, one.named.file) for one in results}
    found: dict[str, list[str]] = {}
    for entry in entries:
        for source, mistakes in _by_source(entry).items():
            for one in mistakes:
                if (entry.id, source, one.name) not in judged and (why := lacking(one.source)):
                    found.setdefault(why, []).append(f"{entry.id}/{one.name} ({source})")
    return found


def blind(entry: Entry) -> Iterator[Mistake]:
    """Yield files with one mistake that their author planted without a look at any rule."""
    for path in sorted(BLIND.glob(f"{entry.id}_*.py")):
        text = path.read_text(encoding="utf-8")
        found = _BLIND.match(text)
        if found is None:
            raise ValueError(f"{path}: the first line must name a part and its causes")
        yield Mistake(path.stem.removeprefix(f"{entry.id}_"), found[1], tuple(found[2].split(" or ")), text)


def tried(entry: Entry) -> Iterator[Mistake]:
    """Yield correct files with one mistake at a time: the model solution, or the honest file that `base` names."""
    for one in json.loads(TRIED.read_text(encoding="utf-8")):
        if one["exercise"] == entry.id:
            base = one.get("base", "solution.py")
            text = right = entry.source(base)
            for before, after in one["changes"]:
                if before not in text:
                    raise ValueError(f"{one['name']}: {base} must hold {before!r}")
                text = text.replace(before, after)
            yield Mistake(one["name"], one["part"], tuple(one["cause"].split(" or ")), text, base=right)


def table(results: Sequence[Result]) -> str:
    """Return a table by exercise: how many, how often the true cause comes first, and among three; then the misses."""
    rows = ["| mistakes | files | true cause first | among the first three | nothing offered | repaired |"]
    rows.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for what in ("planted", "tried", "held out"):
        of_kind = [one for one in results if one.source == what]
        names = sorted({one.exercise for one in of_kind})
        rows += [_row(f"{what}, {name}", [one for one in of_kind if one.exercise == name]) for name in names]
        if of_kind:
            rows.append(_row(f"**{what}, all**", of_kind))
    return "\n".join(rows) + "\n"


def page(
    results: Sequence[Result],
    entries: Sequence[Entry],
    notes: Mapping[str, str],
    left_out: Mapping[str, Sequence[str]],
) -> str:
    """Return the whole page.

    notes: the reason for a missed cause, by exercise and file. left_out: files that could not be graded, by the reason.
    """
    sections = [INTRODUCTION, "## How often that is right\n", table(results), HELD_OUT_NOTE]
    sections += [f"Left out, since {why}: {', '.join(files)}.\n" for why, files in left_out.items()]
    sections += [
        "## Misses\n",
        _misses(results, notes),
        "## The vocabulary\n",
        "Kinds of any exercise (`grader/diagnosis/general_kinds.py`):\n",
    ]
    sections += [_kinds(GENERAL.values()), "Of exercises that name them (`grader/exercise/attention_kinds.py`):\n"]
    sections.append(_kinds(SHARED.values()))
    for entry in entries:
        if own := [kind for kind in entry.exercise.kinds if kind.name not in SHARED]:
            sections += [f"Of {entry.id} (its `spec.py`):\n", _kinds(own)]
    return "\n".join(sections).rstrip("\n") + "\n"


HELD_OUT_NOTE = """\
*Repaired*: the card names an edit of one line that makes the failing calls right.

The rules were made with the planted files at hand, so those figures are too good. The other mistakes
were written and labelled before any of them was graded; the first failing check counts. The *tried* ones
(`benchmarks/tried.json`) are model solutions, or honest ones of another structure, with one typical mistake of a
learner. General rules, and the edits that repairs try, were improved because of them, in five rounds; before the fifth,
40 of the last 58 (69%) had their true cause first. The *held out* ones (`benchmarks/blind/`) are kernels of another
author, who saw no rule, no planted mistake and no test. Expect their figures for a mistake that no rule knows, or a
little less: two edits, a pointer that is moved on and a step that is one too long, were added after they had failed.
"""


def _misses(results: Sequence[Result], notes: Mapping[str, str]) -> str:
    rows = ["| file | true cause | offered | why |", "| --- | --- | --- | --- |"]
    for one in results:
        if not one.named.among(1):
            offered = ", ".join(one.named.offered) or "none"
            where = f"{one.exercise}/{one.named.file}" + ("" if one.source == "planted" else f" ({one.source})")
            why = notes.get(f"{one.exercise}/{one.named.file}", "")
            rows.append(f"| {where} | {' or '.join(one.named.causes)} | {offered} | {why} |")
    return "\n".join(rows) + "\n" if len(rows) > 2 else "None.\n"


def _kinds(kinds: Iterable[Kind]) -> str:
    rows = ["| kind | looks like | hint |", "| --- | --- | --- |"]
    rows += [f"| `{kind.name}` | {kind.is_a} | {kind.help} |" for kind in kinds]
    return "\n".join(rows) + "\n"


def _row(name: str, results: Sequence[Result]) -> str:
    first, three = (sum(one.named.among(most) for one in results) for most in (1, 3))
    silent = sum(not one.named.offered for one in results)
    repaired = [one for one in results if one.named.repaired]
    shares = f"{_share(first, len(results))} | {_share(three, len(results))} | {silent} | {_repairs(repaired)}"
    return f"| {name} | {len(results)} | {shares} |"


def _repairs(repaired: Sequence[Result]) -> str:
    """Return how many mistakes an edit made right and, where the changed lines are known, in how many of those."""
    own = sum(one.named.repaired == "changed line" for one in repaired)
    known = repaired and all(one.source == "tried" for one in repaired)
    return f"{len(repaired)} ({own} in the changed line)" if known else f"{len(repaired)}"


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.0%})"


def _line(one: Result) -> str:
    mark = "first" if one.named.among(1) else "three" if one.named.among(3) else "MISS "
    told = " or ".join(one.named.causes), ", ".join(one.named.offered)
    return f"{mark} {one.exercise} {one.named.file} ({one.source}): {told[0]}: {told[1]}"


def _read(fields: dict) -> Result:
    named = {name: tuple(value) if isinstance(value, list) else value for name, value in fields["named"].items()}
    return Result(fields["exercise"], fields["source"], Named(**named))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.causes", description="How often cards name the cause.")
    parser.add_argument("exercises", nargs="*", help="ex_15 …; all without one")
    parser.add_argument("--markdown", type=Path, help="where the page goes; none without it")
    parser.add_argument("--only", nargs="*", default=(), help="names of mistakes; all without one, - for none")
    parser.add_argument("--held-out", action="store_true", help="leave out the planted mistakes")
    parser.add_argument("--json", type=Path, help="where the results go; nowhere without it")
    parser.add_argument("--also", type=Path, nargs="*", default=(), help="results of other runs, from their --json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
