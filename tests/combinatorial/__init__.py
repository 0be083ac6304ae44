"""Combinatorial tests: every kind of run, compared with an oracle that shares no code with it."""
