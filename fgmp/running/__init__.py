"""What runs a method on this machine: rounds, workers, books, checkpoints; and what is done before and after a run.

`simulation` is the loop over `rounds`; `summing` is what the server is handed: each answer, a sum, a secure sum, or one
with noise; `faults` go wrong with clients; `tuning` comes before a run and `polishing` after it.

May import: the ground floor, methods.
"""
