"""What runs a method: the round loop over a transport, the one within this process, books, tuning and polishing.

May import: the ground floor, methods.
"""
