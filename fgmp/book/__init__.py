"""What the notebooks share: their opening, claims with their verdicts, and the style of the figures.

May import: the ground floor.
"""
