"""Beside the loop: callbacks, faults, a grid search, metrics, messages and methods as JSON."""
