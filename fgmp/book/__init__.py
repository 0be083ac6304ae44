"""What the notebooks share: opening, parameters, claims with their verdicts, and the style of figures.

May import: the ground floor.
"""
