"""What one client computes: the restricted problem, its solvers, and fast loops over gradient steps.

May import: the ground floor.
"""
