"""What the convergence theorems take: the constants of the clients, and the letters that the theorems leave open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_array, settle_number
from ..models import Array
from .lemmas import check_theta

_UNKNOWN = {
    "upper_squared": "the mean square over minibatches of the smoothness of the whole gradient at 2 tau",
    "whole_gradient": "||grad f_i(x*)||^2",
}


@dataclass(frozen=True, eq=False)
class ClientConstants:
    """What the theorems need to know of the clients, one entry each: by `of` from numbers, or `measure_constants`.

    Attributes
    ----------
    lower : ndarray, shape (N,)
        rho^-_{4 tau}(i), restricted strong convexity of f_i.
    upper : ndarray, shape (N,)
        The mean over minibatches j of rho^+_{4 tau}(i, j), restricted curvature of g_ij.
    upper_squared : ndarray, shape (N,)
        The mean over j of L_{2 tau}(i, j)^2, with L the smoothness of the whole gradient (Assumption 2 as printed):
        ||grad g_ij(x) - grad g_ij(x')|| <= L ||x - x'|| for x - x' with 2 tau nonzeros. It can be larger than the
        curvature at 4 tau. The theorems need it for eta_1 > 1, where the proof of Lemma 3 bounds a gradient that is
        not projected, and where the variance has no bound. nan where it is not known.
    gradient : ndarray, shape (N,)
        max over |Omega| = 4 tau of ||P_Omega grad f_i(x*)||^2.
    whole_gradient : ndarray, shape (N,)
        ||grad f_i(x*)||^2, at least `gradient`; its weighted mean is zeta*^2. nan where it is not known.
    variance : ndarray, shape (N,)
        sigma_i^2, the variance of the minibatch gradients.
    weights : ndarray, shape (N,)
        p_i, with sum one.
    """

    lower: Array
    upper: Array
    upper_squared: Array
    gradient: Array
    whole_gradient: Array
    variance: Array
    weights: Array

    @classmethod
    def of(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        upper_squared: ArrayLike | None = None,
        gradient: ArrayLike = 0.0,
        whole_gradient: ArrayLike | None = None,
        variance: ArrayLike = 0.0,
        weights: ArrayLike | None = None,
    ) -> ClientConstants:
        """Constants from numbers, the same for all clients, or sequences; 0 < lower <= upper.

        None is not known, but for a `whole_gradient` where `gradient` is zero: it is zero then. Weights are scaled to
        sum one; None is equal weights.
        """
        given = {"lower": lower, "upper": upper, "gradient": gradient, "variance": variance}
        optional = {"upper_squared": upper_squared, "whole_gradient": whole_gradient, "weights": weights}
        given |= {name: value for name, value in optional.items() if value is not None}
        arrays = {name: check_array(name, value).astype(float) for name, value in given.items()}
        count = max(1, *(array.size for array in arrays.values()))
        for name, array in arrays.items():
            if array.shape not in ((), (count,)):
                raise ValueError(
                    f"{name} has shape {array.shape}; expected {(count,)}, a number for each client, or one"
                )
            if array.min() < 0:
                raise ValueError(f"{name} is {array.min():g} at least once; expected no negative number")
        parts = {name: np.zeros(count) + array for name, array in arrays.items()}
        if (parts["lower"] <= 0).any() or (parts["upper"] < parts["lower"] * (1 - 1e-12)).any():
            raise ValueError("lower and upper cross, or lower is 0; expected 0 < lower <= upper for each client")
        p = parts.setdefault("weights", np.ones(count))
        if not p.any():
            raise ValueError("weights are all 0; expected a positive one")
        parts["weights"] = p / p.sum()
        parts.setdefault("upper_squared", np.full(count, np.nan))
        parts.setdefault("whole_gradient", np.where(parts["gradient"] == 0, 0.0, np.nan))
        return cls(**parts)

    def known(self, name: str, purpose: str) -> Array:
        """`upper_squared` or `whole_gradient`, or a ValueError where some client lacks it."""
        values: Array = getattr(self, name)
        if np.isnan(values).any():
            raise ValueError(f"{name} is not known; expected {_UNKNOWN[name]}, for {purpose}")
        return values


@dataclass(frozen=True, kw_only=True)
class TheoremParameters:
    """The letters of the theorems that are no constants of the clients (paper, Algorithm 1 and Theorem 1).

    Parameters
    ----------
    theta : float, default infinity
        The trade-off between rate and residual: above 0, free to choose; infinite is right for the full batch.
    eta_1, eta_2, eta_3 : float, default 1
        The projections with which a client finds the largest part of its gradient, with which it prunes its local
        solution to tau atoms, and with which the server prunes the average.

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
        object.__setattr__(self, "theta", float(check_theta(self.theta)))
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
