"""Define what a record tells of a failure: its cause, its suspects, wrong elements, and a small case that fails."""

from __future__ import annotations

from dataclasses import dataclass, field

from grader.record.json_numbers import Number


@dataclass(frozen=True)
class Difference:
    """One wrong element: its index, the oracle's value, the submission's value, and the allowed error."""

    index: tuple[int, ...]
    expected: Number
    got: Number
    allowed: Number


@dataclass(frozen=True)
class Neighbour:
    """An element beside the worst one, or the worst one itself.

    inputs: the values of input tensors at the same place, by the argument's name.
    """

    index: tuple[int, ...]
    expected: Number
    got: Number
    is_wrong: bool
    inputs: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """The wrong places of an output as a small grid: each cell 0 (all right) … 9 (all wrong).

    `rows_per_cell` and `columns_per_cell` say how many elements one cell covers; if an output has more than two axes,
    all but the last count as rows. `tile_rows` and `tile_columns` say how many elements one program's tile covers; 0
    if the launch does not tell.
    """

    cells: tuple[tuple[int, ...], ...]
    rows_per_cell: int
    columns_per_cell: int
    shape: tuple[int, ...]
    tile_rows: int = 0
    tile_columns: int = 0


@dataclass(frozen=True)
class Mismatch:
    """The difference between an output and the oracle.

    `pattern` names the wrong places: all, tail, head, rows, columns, scattered. `around`: the worst element and those
    beside it along the last axis.
    """

    output: str
    count: int
    total: int
    max_abs: Number
    max_rel: Number
    worst_index: tuple[int, ...]
    pattern: str
    first: tuple[Difference, ...]
    tile: str = ""
    picture: Picture | None = None
    around: tuple[Neighbour, ...] = ()


@dataclass(frozen=True)
class Suspect:
    """A possible cause of a failure: a kind for programs, a title, the evidence, and where to look.

    `confirmed`: values or a probe leave no doubt; otherwise it is a guess, and says so.
    """

    kind: str
    title: str
    evidence: str
    help: str
    confirmed: bool = False


@dataclass(frozen=True)
class Excerpt:
    """A line of the submission with its neighbours. line: its number. first: the number of the first of `lines`.

    words: what the line does, '' if the cause's sentence names it.
    """

    line: int
    first: int
    lines: tuple[str, ...]
    words: str = ""


@dataclass(frozen=True)
class Cause:
    """The reason why a check did not pass: a kind for programs, a title, one sentence, and what to do next.

    `case` names, in words, the case of the sentence and the numbers. `suspects` are the possible causes, the likeliest
    first; `title` and `help` are those of the first. `excerpt` shows the line that the sentence names. `inputs`: the
    arguments of the call, in words.
    """

    kind: str
    title: str
    rationale: str
    help: str = ""
    expected: str = ""
    actual: str = ""
    traceback: str = ""
    mismatch: Mismatch | None = None
    case: str = ""
    suspects: tuple[Suspect, ...] = ()
    excerpt: Excerpt | None = None
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counterexample:
    """The smallest failing case found, and what happens there.

    `passes` is a neighbouring case that passes, in words. `tried` counts the cases that were run to find it. `replay`
    is the token that runs it again.
    """

    case: dict[str, int | float | bool | str]
    words: str
    replay: str
    rationale: str = ""
    passes: str = ""
    tried: int = 0
