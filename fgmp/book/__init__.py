"""What the notebooks share: claims with their verdicts, and the style of the figures.

May import: the ground floor.
"""
