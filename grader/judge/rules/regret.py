"""Judge how much the submission's choices cost, compared with the best choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp, isnan, log, prod

from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Regret, RegretGroup
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure
from grader.judge.ruling import Ruling
from grader.judge.truth import Offer
from grader.judge.unanswered import why_not_finished
from grader.phrases import counted
from grader.protocol.requests import Slot
from grader.record.causes import Cause
from grader.record.checks import DEAREST_GROUP, Selection
from grader.record.json_numbers import Number
from grader.sandbox.outcome import Finished
from grader.text import clean

RULE = Regret

# When choices are compared, one that costs so many times the least cost counts as dear.
_DEAR = 1.15
# Number of worst choices to show: the learner learns from them.
_SHOWN = 3
# The costs of one in so many cases are shown.
_TOLD_EVERY = 2
_NOTHING_MEASURED = "choices cannot be judged without measurements: measured.json is missing"


@dataclass(frozen=True)
class ChoiceCost:
    """One choice and its cost.

    ratio: its cost over the least cost. chosen: the chosen thing in words. better: how the best thing differs. ratios:
    of each thing. place: the chosen thing's index among the things offered.
    """

    one: PlannedCase
    ratio: float
    chosen: str
    better: str
    ratios: dict[str, float]
    place: int = 0
    things: tuple[object, ...] = ()

    @property
    def best(self) -> object:
        """Return the thing of the least cost."""
        return next(thing for thing in self.things if self.ratios[str(thing)] == 1)


@dataclass(frozen=True)
class _GroupCost:
    """The regret of a group's choices. told: those that may be shown, the dearest first."""

    group: RegretGroup
    regret: float
    cases: int
    told: tuple[ChoiceCost, ...]

    @property
    def share(self) -> float:
        return self.group.share(self.regret)

    @property
    def words(self) -> str:
        """Return the group with its regret and its dearest choices."""
        shown = "; ".join(f"{one.ratio:.2f} times for {one.one.case.words()}" for one in self.told[:_SHOWN])
        first = f"{self.group.name}: {self.regret:.0%} more than the best over {counted(self.cases, 'case')}"
        return f"{first} ({shown})" if shown else first


def decide(bench: Bench, cases: Sequence[PlannedCase], rule: Regret) -> Ruling:
    """Ask for a choice in every case; the geometric mean of costs over the least costs decides, and that of each group.

    The costs of every second case are shown; the others stay hidden.

    Without measurements nothing is judged. Each case asks for a choice twice, the second time among things drawn with
    another seed. Both answers must be among the things. Only the first counts in the mean.
    """
    if not bench.truth.has_measurements:
        return Ruling(None, unfit=_NOTHING_MEASURED)
    choices: list[ChoiceCost] = []
    for one in cases:
        found = _judge_choice(bench, one)
        again = _judge_choice(bench, replace(one, seed=one.seed ^ 1)) if not isinstance(found, Failure) else None
        if failure := next((each for each in (found, again) if isinstance(each, Failure)), None):
            return Ruling(failure, one)
        if isinstance(found, ChoiceCost):
            choices.append(found)
    if not choices:
        return Ruling(None)
    mean = mean_regret([choice.ratio for choice in choices])
    # A table of answers that is copied from results covers only half of the cases.
    told = choices[::_TOLD_EVERY]
    worst = sorted(told, key=lambda choice: choice.ratio, reverse=True)[:_SHOWN]
    groups = sorted(_group_costs(choices, told, rule.groups), key=lambda group: (group.share, -group.regret))
    share = min(rule.share(mean), *(group.share for group in groups), 1.0)
    evidence = {f"choice for {choice.one.case.words()}": _choice_words(choice) for choice in worst}
    if groups:
        evidence = {DEAREST_GROUP: groups[0].words, **evidence}
    metrics: dict[str, Number] = {
        "cases": len(choices),
        "regret": round(mean, 4),
        "best": sum(one.ratio == 1 for one in choices),
    }
    selection = _selection(told, bench.truth.measured_in)
    failure = None
    if share == 0:
        too_dear = _group_too_dear(groups[0]) if rule.share(mean) else _too_dear(mean, rule, worst)
        failure = replace(too_dear, clues=tuple(clues_of(choices)))
    return Ruling(failure, worst[0].one, evidence=evidence, metrics=metrics, share=share, selection=selection)


def clues_of(choices: Sequence[ChoiceCost]) -> Iterator[Clue]:
    """Yield what the choices have in common: a place, a thing, or an extreme property."""
    free = [choice for choice in choices if len(choice.things) > 1]
    if not free:
        return
    for place, where in ((0, "first"), (-1, "last")):
        if all(choice.place == place % len(choice.things) for choice in free):
            yield sure("order_followed", f"The function takes the {where} one offered in all {len(free)} cases.")
            return
    offered = [choice for choice in free if choice.chosen in map(str, free[0].things)]
    if len(offered) > 1 and len({choice.chosen for choice in offered}) == 1:
        yield Clue("fixed_choice", 0.9, f"The function takes {free[0].chosen} in every case that offers it.")
    for name, largest in _extremes(free):
        which = "largest" if largest else "smallest"
        yield Clue("one_criterion", 0.8, f"The choice always has the {which} {name} of all offered ones.")
        return
    yield Clue("cost_misjudged", 0.5, f"The choices differ from case to case. {_where_dear(free)}")
    yield Clue("one_criterion", 0.3)


def _where_dear(choices: Sequence[ChoiceCost]) -> str:
    """Return a sentence that compares the chosen and the best things of the cases in which a choice costs much."""
    dear = [choice for choice in choices if choice.ratio > _DEAR] or [*choices]
    number = counted(len(dear), "case")
    seen: tuple[int, str] = (0, f"They cost {_DEAR - 1:.0%} too much and more in {number} of {len(choices)}.")
    for names in _whole_numbers(choices):
        pairs = [(_product(choice.things[choice.place], names), _product(choice.best, names)) for choice in dear]
        for count, word in ((sum(a > b for a, b in pairs), "larger"), (sum(a < b for a, b in pairs), "smaller")):
            if count > seen[0]:
                words = (
                    f"{' · '.join(names)} of the chosen one is {word} than the best one's in {count} of the {number}"
                )
                seen = count, f"{words} that cost {_DEAR - 1:.0%} too much and more."
    return seen[1]


def _whole_numbers(choices: Sequence[ChoiceCost]) -> list[tuple[str, ...]]:
    """Return the fields that are whole numbers, alone and in twos."""
    fields = getattr(choices[0].things[0], "_fields", ())
    numbers = [name for name in fields if isinstance(getattr(choices[0].things[0], name), int)]
    return [*((name,) for name in numbers), *combinations(numbers, 2)]


def _product(thing: object, names: Sequence[str]) -> int:
    return prod(getattr(thing, name) for name in names)


def _extremes(choices: Sequence[ChoiceCost]) -> Iterator[tuple[str, bool]]:
    """Yield the fields, or products of two, in which the choice always has the largest or smallest value."""
    for names in _whole_numbers(choices):
        values = [[_product(thing, names) for thing in choice.things] for choice in choices]
        chosen = [of_case[choice.place] for of_case, choice in zip(values, choices, strict=True)]
        if all(len(set(of_case)) == 1 for of_case in values):
            continue
        for largest, best in ((True, max), (False, min)):
            if all(one == best(of_case) for one, of_case in zip(chosen, values, strict=True)):
                yield " · ".join(names), largest


def mean_regret(ratios: Sequence[float]) -> float:
    """Return the geometric mean of costs over the least costs, less 1."""
    return exp(sum(map(log, ratios)) / len(ratios)) - 1


def counted_ratios(offers: Sequence[Offer]) -> list[float]:
    """Return the ratio that counts for each choice; for an unmeasured choice, the largest known ratio."""
    dearest = max(offer.ratio for offer in offers if not isnan(offer.ratio))
    return [dearest if isnan(offer.ratio) else offer.ratio for offer in offers]


def _group_costs(
    choices: Sequence[ChoiceCost], told: Sequence[ChoiceCost], groups: Sequence[RegretGroup]
) -> Iterator[_GroupCost]:
    for group in groups:
        if members := [one for one in choices if group.where(one.one.case)]:
            shown = sorted((one for one in told if one in members), key=lambda one: one.ratio, reverse=True)
            yield _GroupCost(group, mean_regret([one.ratio for one in members]), len(members), tuple(shown))


def _judge_choice(bench: Bench, one: PlannedCase) -> ChoiceCost | Failure | None:
    """Return the choice in one case, or its failure; None where no cost of the case was measured."""
    part = bench.part
    recipe = one.recipe(part)
    outcome = bench.ask(recipe, (Slot("int64", (), 0, 8),))
    if not isinstance(outcome, Finished):
        return why_not_finished(outcome, bench.path)
    offers = bench.truth.offers(part, recipe)
    raw = outcome.outputs[0] if outcome.outputs else None
    place = int.from_bytes(raw, "little", signed=True) if raw else -1
    if outcome.answer.changed or not 0 <= place < len(offers):
        kind = clean(outcome.answer.outputs[0].kind, 60) if outcome.answer.outputs else "nothing"
        return _no_choice(one, part.chooses, kind)
    if all(isnan(offer.ratio) for offer in offers):
        return None
    chosen, best = offers[place].thing, next(offer.thing for offer in offers if offer.ratio == 1)
    ratios = {str(offer.thing): -1.0 if isnan(offer.ratio) else offer.ratio for offer in offers}
    things = tuple(offer.thing for offer in offers)
    return ChoiceCost(
        one, counted_ratios(offers)[place], str(chosen), _differing_fields(chosen, best), ratios, place, things
    )


def _selection(choices: Sequence[ChoiceCost], source: str) -> Selection:
    """Return all choices side by side, with the things in one order for all cases."""
    things = tuple(sorted({thing for choice in choices for thing in choice.ratios}))
    return Selection(
        cases=tuple(choice.one.case.words() for choice in choices),
        things=things,
        ratios=tuple(tuple(round(choice.ratios.get(thing, -1.0), 4) for thing in things) for choice in choices),
        chosen=tuple(things.index(choice.chosen) for choice in choices),
        source=clean(source, 400),
    )


def _choice_words(choice: ChoiceCost) -> str:
    if choice.ratio == 1:
        return f"{choice.chosen}: the best"
    return f"{choice.chosen}: {choice.ratio:.2f} times the cost of the best: {choice.better}"


def _differing_fields(chosen: object, best: object) -> str:
    """Return the fields of the best thing that differ from the chosen one: "tile_n=64, schedule='pingpong'"."""
    fields = getattr(best, "_fields", ())
    telling = [name for name in fields if getattr(best, name) != getattr(chosen, name)]
    return ", ".join(f"{name}={getattr(best, name)!r}" for name in telling) or str(best)


def _no_choice(one: PlannedCase, chooses: str, kind: str) -> Failure:
    return Failure(
        "fail",
        Cause(
            "no_choice",
            "The answer is none of the choices",
            f"For {one.case.words()} the function must return one of {chooses}, got {kind}.",
            f"Return an element of `{chooses}` itself: not its index, and not a copy with other numbers.",
            expected=f"one of {chooses}",
            actual=kind,
        ),
    )


def _too_dear(mean: float, rule: Regret, worst: Sequence[ChoiceCost]) -> Failure:
    worst_in_words = "; ".join(f"for {choice.one.case.words()}, {_choice_words(choice)}" for choice in worst[:1])
    return Failure(
        "fail",
        Cause(
            "regret",
            "The choices cost too much",
            f"On average they cost {mean:.0%} more than the best; points begin below {rule.none:.0%}, and full points "
            f"need {rule.full:.0%} or less. The worst: {worst_in_words}.",
            "Which property of the case shown here does your rule ignore?",
            f"below {rule.none:.0%}",
            f"{mean:.0%}",
        ),
    )


def _group_too_dear(cost: _GroupCost) -> Failure:
    group = cost.group
    return Failure(
        "fail",
        Cause(
            "regret",
            f"The choices cost too much where {group.name}",
            f"{cost.words}. Over all cases the choices cost little more than the best, but these cost more than "
            f"{group.none:.0%}; full points need {group.full:.0%} or less here too.",
            "What do these cases have in common that your rule does not take into account?",
            f"below {group.none:.0%}",
            f"{cost.regret:.0%}",
        ),
    )
