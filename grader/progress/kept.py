"""The results of a learner's own file that are kept, part by part: `grade/kept/v1`.

Results of gradings are merged, whatever was graded: all parts or some. A result stays as long as the text of its part
stays (grader.progress.part_text).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from grader.progress.part_text import part_hashes
from grader.protocol.decode import DecodeError, decode
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.text import as_json, sha256_of


@dataclass(frozen=True)
class KeptPart:
    """The results of one part's checks, and the SHA-256 of the text that they are about.

    The text is the part's (grader.progress.part_text), or the whole file's if the file did not load.
    """

    text_sha256: str
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True)
class Kept:
    """The kept results of one exercise.

    spec_sha256: the specification that they were judged by. parts: by the part's name. unloaded: results of the last
    file that did not load, by the part's name; they hold for that file only, and replace no result of a part.
    """

    spec_sha256: str
    parts: dict[str, KeptPart] = field(default_factory=dict)
    unloaded: dict[str, KeptPart] = field(default_factory=dict)
    schema: Literal["grade/kept/v1"] = "grade/kept/v1"

    def current(self, source: str, parts: Iterable[str]) -> dict[str, tuple[CheckResult, ...]]:
        """Return the results that hold for this text of the file, by part. A part without such results is missing."""
        whole, texts = sha256_of(source), part_hashes(source, tuple(parts))
        found = {}
        for name, text in texts.items():
            for one, sha256 in ((self.unloaded.get(name), whole), (self.parts.get(name), text)):
                if one is not None and one.text_sha256 == sha256:
                    found[name] = one.checks
                    break
        return found


def merged(kept: Kept | None, record: Record, source: str | None) -> Kept:
    """Return the kept results with those of a record of the learner's own file.

    source: the text that was graded; None if it is not known, and then the results hold for no text. A check that could
    not be judged takes no earlier result of the same text away.
    """
    spec = record.exercise.spec_sha256
    before = kept if kept is not None and kept.spec_sha256 == spec else Kept(spec)
    by_part: dict[str, list[CheckResult]] = {}
    for check in record.checks:
        by_part.setdefault(check.part, []).append(_slim(check))
    texts = dict.fromkeys(by_part, "") if source is None else part_hashes(source, tuple(by_part))
    whole = "" if source is None else sha256_of(source)
    parts, unloaded = dict(before.parts), {}
    for name, checks in by_part.items():
        if any(check.status == "invalid_submission" for check in checks):
            unloaded[name] = KeptPart(whole, tuple(checks))
        else:
            parts[name] = KeptPart(texts[name], _merged_checks(parts.get(name), texts[name], checks))
    return Kept(spec, parts, unloaded)


def _merged_checks(before: KeptPart | None, text: str, new: list[CheckResult]) -> tuple[CheckResult, ...]:
    same = before.checks if before is not None and before.text_sha256 == text else ()
    judged = {check.id: check for check in same if check.status not in UNJUDGED}
    return tuple(judged.get(check.id, check) if check.status in UNJUDGED else check for check in new)


def _slim(check: CheckResult) -> CheckResult:
    """Return the result without what only a scorecard shows."""
    return replace(
        check, notes=(), cause=None, evidence={}, metrics={}, speed=None, work=(), predictions=(), selection=None
    )


def kept_to_json(kept: Kept) -> str:
    """Return the kept results as a JSON document."""
    return as_json(dataclasses.asdict(kept))


def kept_from_json(text: str) -> Kept:
    """Return the kept results in a JSON document. Raises ValueError (DecodeError) that names the wrong field."""
    try:
        return decode(Kept, json.loads(text), "kept")
    except RecursionError:
        raise DecodeError("kept must not be nested without end") from None
