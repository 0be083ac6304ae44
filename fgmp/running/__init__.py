"""What runs a method: the round loop over a transport, books, checkpoints; and what is done before and after a run.

`loop` plays `rounds` over one of the `transports`, and `simulation` does so within this process; `summing` is what the
server is handed: each answer, a sum, a secure sum, or one with noise; `faults` go wrong with clients; `tuning` comes
before a run and `polishing` after it.

May import: the ground floor, methods.
"""
