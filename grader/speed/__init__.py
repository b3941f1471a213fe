"""Measure speed relative to vendor kernels: the baseline process, interleaved rounds, and the verdict.

Takes recorded calls and a suite of sizes; gives ratios with intervals. Runs no Python of the submission.
"""
