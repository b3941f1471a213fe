"""Write one planned case as a replay token, and read it again: `ex_15:vector_add.tail:N=65,dtype=float16:0x5f`.

Takes text that a learner copied from a scorecard; gives the plan that runs that one case, or raises UsageError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from grader.errors import MissingEnvironment, SpecError, UsageError
from grader.exercise.abilities import Abilities
from grader.exercise.cases import Case, Choice, Space, Value
from grader.exercise.model import Exercise, check_id
from grader.exercise.plan import Plan, PlannedCase, PlannedCheck


@dataclass(frozen=True)
class ReplayToken:
    """One recorded case: exercise, check, case, and the seed of its inputs."""

    exercise_id: str
    check: str
    case: Case
    seed: int

    def __str__(self) -> str:
        axes = ",".join(f"{name}={_spell(value)}" for name, value in self.case.items())
        return f"{self.exercise_id}:{self.check}:{axes}:{self.seed:#x}"


_TOKEN = re.compile(r"(?P<exercise>\w+):(?P<check>\w+\.\w+):(?P<axes>[^:]*):(?P<seed>0x[0-9a-fA-F]{1,16})")


def parse_token(text: str) -> ReplayToken:
    """Return the token in `text`. Raises UsageError."""
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"a replay token must look like ex_15:vector_add.tail:N=65,dtype=float16:0x5f, got {text[:200]!r}"
        )
    case = Case(dict(_parse_axis(axis) for axis in match["axes"].split(",") if axis))
    return ReplayToken(match["exercise"], match["check"], case, int(match["seed"], 16))


def parse_case(space: Space, text: str) -> dict[str, Value]:
    """Return the axes that a text such as "N=65,dtype=float16" names. Raises UsageError."""
    named = dict(_parse_axis(axis) for axis in text.split(",") if axis)
    for name in named:
        if name not in space.axes:
            raise UsageError(f"an axis must be one of {', '.join(space.axes)}, got {name!r}")
    return {name: _resolve(space, name, value) for name, value in named.items()}


def replay_plan(exercise: Exercise, token: ReplayToken, abilities: Abilities) -> Plan:
    """Return the plan that runs the token's one case.

    Raises UsageError when the exercise has no such check or case, MissingEnvironment when the case needs a GPU, or a
    GPU that supports its dtype.
    """
    for part, check in exercise.checks():
        if check_id(part, check) == token.check:
            if check.cases is None:
                raise UsageError(f"a replayed check must run cases, got {token.check}")
            space, large = check.cases.space, check.cases.large_cases
            values = {name: _resolve(space, name, value) for name, value in token.case.items()}
            try:
                case = check.cases.case(values)
            except SpecError as outside:
                raise UsageError(f"{token.check}: {outside}") from outside
            if not abilities.gpu and (case in large or space.needs_gpu(case)):
                raise MissingEnvironment(f"this case must run on a GPU, got the interpreter for {case.words()}")
            if set(case.values()) & set(abilities.lacks):
                where = f"a {'GPU' if abilities.gpu else 'machine'} with {' and '.join(abilities.lacks)}"
                raise MissingEnvironment(f"this case must run on {where}, got {case.words()}")
            planned = PlannedCheck(part, check, (PlannedCase(case, token.seed),), None)
            return Plan(token.seed, (planned,))
    known = ", ".join(check_id(part, check) for part, check in exercise.checks())
    raise UsageError(f"the check must be one of {known}, got {token.check!r}")


def _resolve(space: Space, name: str, value: Value) -> Value:
    """Return the domain's own value that a token's text stands for: "1" may be a word of the exercise."""
    domain = space.axes.get(name)
    if not isinstance(domain, Choice) or value in domain:
        return value
    return next((own for own in domain.values if repr(_parse_value(_spell(own))) == repr(value)), value)


def _spell(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_axis(text: str) -> tuple[str, Value]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"an axis of a replay token must look like N=65, got {text[:80]!r}")
    return name, _parse_value(value)


def _parse_value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
