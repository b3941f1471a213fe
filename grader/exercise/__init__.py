"""Define exercises as frozen data: their parts, checks, cases and limits.

Takes the folders of a course; gives exercises that have checked themselves, and plans of cases drawn from a seed. Only
`tensors` imports torch, and only `strategies` imports Hypothesis. Nothing here runs a submission or compares a value.
"""
