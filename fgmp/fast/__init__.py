"""Compiled kernels of clients' work, and the registry that says for which methods they stand."""
