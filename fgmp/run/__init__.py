"""Beside the loop: callbacks, faults, a grid search, metrics, selections, methods as JSON."""
