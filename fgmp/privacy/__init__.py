"""Secure sums and differential privacy: aggregators that show the server less than each update.

What is promised to whom, and under which conditions, is in docs/promises.md.
"""
