"""Define exercises as frozen data: their parts, checks, cases and limits.

Only `tensors` imports torch, and only `plan` imports Hypothesis; nothing here runs a submission.
"""
