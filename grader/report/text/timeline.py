"""Print where the time of a grading went, for `grade ex_18 --timeline`."""

from __future__ import annotations

from grader.record.record import Record


def render(record: Record, age_s: float) -> str:
    """Return a table of stages: start, total time, count; `+` marks stages of parallel processes.

    age_s: the age of the printing process, in seconds. Stages nest, so their times do not add up.
    """
    before_s = max(0.0, age_s - record.duration_s)
    rows = [f"  {'began':>8} {'took':>8} {'times':>5}  (seconds; + beside the rest)"]
    for one in record.timeline:
        mark = "+" if one.beside else " "
        rows.append(f"  {one.first_s:8.2f} {one.seconds:8.2f} {one.count:5d} {mark} {one.what}")
    rows.append(f"  graded in {record.duration_s:.2f} s; {before_s:.2f} s before and after; {age_s:.2f} s in all")
    return "\n".join(rows)
