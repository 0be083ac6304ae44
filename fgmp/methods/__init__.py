"""What travels in a round, and what server and clients make of it.

`contract` is what a method promises; FedGradMP, its rivals and SharedSupportGradMP are methods, each in the order of
its pseudo-code. `answers` is what a server takes from a client, `written` a method as JSON, `kernels` the fast forms of
what clients compute.

May import: the ground floor, local.
"""
