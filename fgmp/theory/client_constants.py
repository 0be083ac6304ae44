"""The constants of the clients that the convergence theorems take.

`ClientConstants.of` makes them from numbers, `measured.measure_constants` from a federation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_array
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
        count = np.size(self.lower)
        for name in ("lower", "upper", "upper_squared", "gradient", "whole_gradient", "variance", "weights"):
            given = getattr(self, name)
            known = np.where(np.isnan(given), 0.0, given) if name in _UNKNOWN else given
            array = check_array(name, known, ndim=1)
            if len(array) != count or count == 0:
                raise ValueError(f"{name} has {len(array)} entries; expected one for each of {max(count, 1)} clients")
            if name != "lower" and array.min() < 0:
                raise ValueError(f"{name}[{array.argmin()}] is {array.min():g}; expected no negative number")
            object.__setattr__(self, name, np.asarray(given, dtype=float))
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
        count = max(1, *(array.size for array in arrays.values()))
        for name, array in arrays.items():
            if array.shape not in ((), (count,)):
                raise ValueError(f"{name} has shape {array.shape}; expected {count} entries, or one number")
        parts = {name: np.zeros(count) + array for name, array in arrays.items()}
        low, high = parts["lower"], parts["upper"]
        if (low <= 0).any() or (high < low * (1 - 1e-12)).any():
            raise ValueError(
                f"lower and upper range over {low.min():g}..{low.max():g} and {high.min():g}..{high.max():g}; "
                "expected 0 < lower <= upper for each client"
            )
        p = parts.setdefault("weights", np.ones(count))
        if p.min() < 0 or p.sum() == 0:
            raise ValueError(
                f"weights have minimum {p.min():g} and sum {p.sum():g}; expected none negative and a sum > 0"
            )
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

    @property
    def zeta_squared(self) -> float:
        """zeta*^2 = sum p_i ||grad f_i(x*)||^2 (Assumption 3)."""
        return float(self.weights @ self.known("whole_gradient", "zeta*"))
