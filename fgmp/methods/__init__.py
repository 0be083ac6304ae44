"""What travels and what is made of it: FedGradMP, its rivals, SharedSupportGradMP, and a closing exchange.

`support_solvers` minimise on a support that all clients know, `sketches` find it, `elimination` keeps tau of its atoms.

May import: the ground floor, layers.
"""
