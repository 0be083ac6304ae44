"""What every method whose models are coefficients in a dictionary repeats.

Clients work with B_i = A_i Psi once and for all, and the estimate is x = Psi alpha.
"""

from __future__ import annotations

from ..dictionaries import StandardBasis
from ..federation import Client
from ..models import Array
from ..shapes import Shaped
from .contract import State

__all__ = ["InDictionary"]


class InDictionary:
    """A method with a field `dictionary`, and with `coefficients` of its own."""

    dictionary: StandardBasis

    def prepare(self, client: Client) -> Client:
        """The client in coefficient space: B_i = A_i Psi."""
        return self.dictionary.prepare(client)

    def shape(self, federation: Shaped) -> tuple[int, ...]:
        """Shape of the coefficients alpha; a ValueError where the atoms have another dimension than the data."""
        return federation.loss.model_shape(self.dictionary.n_atoms(federation.n_features))

    def coefficients(self, state: State) -> Array:
        """alpha, dense."""
        raise NotImplementedError(f"{type(self).__name__} has no coefficients")

    def estimate(self, state: State) -> Array:
        """The signal x = Psi alpha."""
        return self.dictionary.synthesise(self.coefficients(state))
