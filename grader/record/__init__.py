"""The record of one grading, `grade/result/v1`: everything that any renderer or exporter shows.

Documented field by field in docs/result.md. Records are frozen, hold only JSON values, and survive a round trip
through JSON (grader.record.record). Text that came from a submission is cleaned when it is put in (grader.text).
"""
