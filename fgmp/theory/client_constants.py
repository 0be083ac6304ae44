"""The constants of the clients that the convergence theorems take.

`ClientConstants.of` makes them from numbers, `measured.measure_constants` from a federation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_array, check_real
from ..models import Array

__all__ = ["ClientConstants"]

_UNKNOWN = {
    "upper_squared": "the mean square over minibatches of the smoothness of the whole gradient at 2 tau",
    "whole_gradient": "||grad f_i(x*)||^2",
}


@dataclass(frozen=True, eq=False)
class ClientConstants:
    """What the theorems need to know of the clients: one entry each.

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
        ||grad f_i(x*)||^2; its weighted mean is zeta*^2. At least `gradient`; nan where it is not known.
    variance : ndarray, shape (N,)
        sigma_i^2, the variance of the minibatch gradients.
    weights : ndarray, shape (N,)
        p_i, with sum one.

    Raises
    ------
    ValueError
        Where lengths differ, numbers are negative or not finite, or the weights do not sum to one.
    """

    lower: Array
    upper: Array
    upper_squared: Array
    gradient: Array
    whole_gradient: Array
    variance: Array
    weights: Array

    def __post_init__(self) -> None:
        names = ("lower", "upper", "upper_squared", "gradient", "whole_gradient", "variance", "weights")
        arrays = {name: _entries(name, getattr(self, name)) for name in names}
        counts = {name: len(array) for name, array in arrays.items()}
        if len(set(counts.values())) > 1 or not counts["lower"]:
            words = ", ".join(f"{name} has {count} entries" for name, count in counts.items())
            raise ValueError(f"{words}; expected one for each client in all of them")
        for name, array in arrays.items():
            if name != "lower" and np.nanmin(array, initial=0) < 0:
                raise ValueError(f"{name}[{np.nanargmin(array)}] is {np.nanmin(array):g}; expected no negative number")
            object.__setattr__(self, name, array)
        short = self.whole_gradient < self.gradient * (1 - 1e-6)
        if short.any():
            i = int(short.argmax())
            raise ValueError(
                f"whole_gradient[{i}] is {self.whole_gradient[i]:g}; expected at least gradient[{i}], "
                f"{self.gradient[i]:g}"
            )
        if abs(self.weights.sum() - 1) > 1e-6:
            raise ValueError(f"weights sum to {self.weights.sum():g}; expected 1")

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
        """Constants from numbers or sequences: by default no residual and equal weights.

        Parameters
        ----------
        lower, upper, gradient, variance : float or array_like, shape (N,)
            A number is the same for all clients. 0 < lower <= upper.
        upper_squared, whole_gradient : float or array_like, shape (N,), optional
            None is not known, but for a `whole_gradient` where `gradient` is zero: it is zero then.
        weights : array_like, shape (N,), optional
            Not negative; they are scaled to sum one. None is equal weights.

        Raises
        ------
        ValueError
            Where lengths do not fit, or a number is out of its range.
        """
        given = {"lower": lower, "upper": upper, "gradient": gradient, "variance": variance}
        optional = {"upper_squared": upper_squared, "whole_gradient": whole_gradient, "weights": weights}
        given |= {name: value for name, value in optional.items() if value is not None}
        arrays = {name: check_array(name, value).astype(float) for name, value in given.items()}
        shapes = {name: array.shape for name, array in arrays.items() if array.shape}
        count = max(1, *(array.size for array in arrays.values()))
        if not set(shapes.values()) <= {(count,)}:
            words = ", ".join(f"{name} has shape {shape}" for name, shape in shapes.items())
            raise ValueError(f"{words}; expected one entry for each client in each, or one number")
        parts = {name: np.zeros(count) + array for name, array in arrays.items()}
        low, high = parts["lower"], parts["upper"]
        if (low <= 0).any() or (high < low * (1 - 1e-12)).any():
            raise ValueError(
                f"lower and upper range over {low.min():g}..{low.max():g} and {high.min():g}..{high.max():g}; "
                "expected 0 < lower <= upper for each client"
            )
        p = parts.setdefault("weights", np.ones(count))
        with np.errstate(over="ignore"):
            total = float(p.sum())
        if p.min() < 0 or not 0 < total < np.inf:
            raise ValueError(
                f"weights have minimum {p.min():g} and sum {total:g}; expected none negative and a finite sum > 0"
            )
        parts["weights"] = p / total
        parts.setdefault("upper_squared", np.full(count, np.nan))
        parts.setdefault("whole_gradient", np.where(parts["gradient"] == 0, 0.0, np.nan))
        return cls(**parts)

    def known(self, name: str, purpose: str) -> Array:
        """`upper_squared` or `whole_gradient`, or a ValueError where some client lacks it."""
        values: Array = getattr(self, name)
        if np.isnan(values).any():
            raise ValueError(f"{name} is not known; expected {_UNKNOWN[name]}, for {purpose}")
        return values

    @property
    def zeta_squared(self) -> float:
        """zeta*^2 = sum p_i ||grad f_i(x*)||^2 (Assumption 3)."""
        return float(self.weights @ self.known("whole_gradient", "zeta*"))


def _entries(name: str, given: ArrayLike) -> Array:
    """A vector of floats; nan is allowed where it says that a number is not known."""
    if name not in _UNKNOWN:
        return check_array(name, given, ndim=1).astype(float)
    array = check_real(name, given)
    check_array(name, np.where(np.isnan(array), 0.0, array), ndim=1)
    return array
