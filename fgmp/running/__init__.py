"""What runs a method on this machine: rounds, workers, books, tuning, and the polishing of a result.

May import: the ground floor, methods.
"""
