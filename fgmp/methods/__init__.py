"""What travels and what is made of it: FedGradMP, its rivals, and SharedSupportGradMP.

`support_solvers` minimise on a support that all clients know, and keep tau of its atoms.

May import: the ground floor, layers.
"""
