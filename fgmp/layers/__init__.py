"""What lies around the loop: faults, robust reducers, secure sums, noise, compiled twins.

May import: the ground floor.
"""
