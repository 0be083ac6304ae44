"""What travels and what is made of it: FedGradMP, its rivals, and SharedSupportGradMP.

`sketches` find a support that all clients know, `support_solvers` minimise on it and keep tau of its atoms;
`method_json` writes a method down for clients elsewhere.

May import: the ground floor, layers.
"""
