"""What the theorems leave open: how good the three approximate projections are, and the free theta of the proofs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import settle_number, shown
from .lemmas import check_theta

__all__ = ["TheoremParameters", "check_parameters"]


@dataclass(frozen=True, kw_only=True)
class TheoremParameters:
    """The letters of the theorems that are no constants of the clients (paper, Algorithm 1 and Theorem 1).

    Parameters
    ----------
    theta : float, default infinity
        The trade-off between rate and residual: above 0, free to choose; infinite is right for the full batch.
    eta_1 : float, default 1
        The projection with which a client finds the largest part of its gradient.
    eta_2 : float, default 1
        The projection with which a client prunes its local solution to tau atoms.
    eta_3 : float, default 1
        The projection with which the server prunes the average.

    Raises
    ------
    ValueError
        Where a number is out of its range.

    Notes
    -----
    A projection of w onto the atoms of Gamma has quality eta where ||w - P_Gamma w|| <= eta ||w - H_tau(w)||, with
    H_tau(w) the best approximation of that sparsity; so eta is at least 1, and 1 is exact, as in the standard basis.

    Examples
    --------
    >>> from fgmp import theory
    >>> theory.TheoremParameters(eta_2=1.5)
    TheoremParameters(theta=inf, eta_1=1.0, eta_2=1.5, eta_3=1.0)
    >>> theory.TheoremParameters(eta_2=1.5).pruning
    6.25
    """

    theta: float = np.inf
    eta_1: float = 1.0
    eta_2: float = 1.0
    eta_3: float = 1.0

    def __post_init__(self) -> None:
        theta = check_theta(self.theta)
        if theta.ndim:
            raise ValueError(f"theta has shape {theta.shape}; expected a number above 0, or infinity")
        object.__setattr__(self, "theta", float(theta))
        for name in ("eta_1", "eta_2", "eta_3"):
            settle_number(self, name, at_least=1)

    @property
    def pruning(self) -> float:
        """(1 + eta_2)^2: what the pruning of a client costs at most (Lemma 1)."""
        return (1 + self.eta_2) ** 2

    @property
    def server(self) -> float:
        """2 eta_3^2 + 2: what averaging and pruning at the server cost at most."""
        return 2 * self.eta_3**2 + 2


def check_parameters(parameters: Any) -> TheoremParameters:
    """Return `parameters`, or raise a ValueError where they are something else."""
    if not isinstance(parameters, TheoremParameters):
        raise ValueError(
            f"parameters is {shown(parameters)}; expected TheoremParameters, with theta and eta_1 to eta_3"
        )
    return parameters
