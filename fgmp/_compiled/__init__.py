"""Compiled kernels of what clients compute, and when they stand in for the reference implementation."""
