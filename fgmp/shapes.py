"""Shape, until all import it from where it is now."""

from .federation import Shape, scaled

__all__ = ["Shape", "scaled"]
