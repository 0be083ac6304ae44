"""What one client computes: the restricted problem, its solvers, and the fast loops behind `kernel_for`.

May import: the ground floor.
"""
