"""The bootstrap over groups or rows: how stable the support is, and how sure the coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..advice import quiet
from ..checks import check_integer, check_number, check_option
from ..models import Array, Support

__all__ = ["Bootstrap", "bootstrapped"]

_TRIES = 100


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """What the resamples found.

    Attributes
    ----------
    coef, estimate : ndarray, shape (n_resamples, n_outputs, n_features), and (n_outputs, n_features)
        The coefficients of the resamples, and of the fit itself, in the units of the data.
    names : tuple of str
        Of the features.
    """

    coef: Array
    estimate: Array
    names: tuple[str, ...]

    @property
    def inclusion(self) -> Array:
        """The share of resamples that hold each feature, shape (n_features,)."""
        held: Array = np.any(self.coef != 0, axis=1).mean(axis=0)
        return held

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Percentiles of the coefficients, where a feature that was not taken counts as zero; shape as `estimate`."""
        level = check_number("level", level, above=0, at_most=1)
        low, high = np.quantile(self.coef, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def plot(self, ax: Any = None, most: int = 20) -> Any:
        """Inclusion frequencies of the `most` frequent features, those of the fit filled; returns matplotlib's axes.

        Features that no resample holds are not drawn.
        """
        import matplotlib.pyplot as plt

        most = min(check_integer("most", most), max(int(np.count_nonzero(self.inclusion)), 1))
        ax = plt.subplots(figsize=(6.4, 1.2 + 0.22 * most), layout="constrained")[1] if ax is None else ax
        order = np.argsort(-self.inclusion, kind="stable")[:most][::-1]
        colors = np.where(np.any(self.estimate != 0, axis=0)[order], "#0072B2", "white")
        ax.barh(np.arange(len(order)), self.inclusion[order], color=colors, edgecolor="#0072B2")
        ax.set_yticks(np.arange(len(order)), [self.names[j] for j in order])
        ax.set(xlabel=f"share of {len(self.coef)} resamples (filled: in the fit)", xlim=(0, 1))
        return ax


def bootstrapped(
    estimator: Any, X: Any, y: Any, groups: Any, weights: Array, codes: Support, n_resamples: int, over: str, seed: Any
) -> Bootstrap:
    """`bootstrap` of an estimator fitted to X, y and groups.

    `weights` are those that the fit used, and `codes` tell the group of each row, -1 where it took no part.
    """
    n_resamples = check_integer("n_resamples", n_resamples)
    check_option("over", over, ("groups", "rows"))
    if over == "groups" and len(estimator.groups_) < 2:
        raise ValueError("groups has one group; expected at least two for over='groups' (or over='rows')")
    rng, fits = check_random_state(seed), []
    for _ in range(n_resamples):
        drawn = weights * _drawn(estimator, np.asarray(y), codes, over, rng)
        again = clone(estimator).set_params(sparsity=estimator.sparsity_, min_rows=1)
        if estimator.cohort_size is not None:
            again.set_params(cohort_size=min(estimator.cohort_size, len(np.unique(codes[drawn > 0]))))
        with quiet():  # the fit has spoken
            fits.append(np.atleast_2d(again.fit(X, y, groups=groups, sample_weight=drawn).coef_))
    estimate = np.atleast_2d(estimator.coef_)
    names = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(estimate.shape[1])])
    return Bootstrap(np.array(fits), estimate, tuple(map(str, names)))


def _drawn(estimator: Any, y: Array, codes: Support, over: str, rng: Any) -> Array:
    """How often each row was drawn, alone or with its group; a draw that misses a class is drawn again."""
    groups, counts = [np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0])], np.zeros(len(codes))
    for _ in range(_TRIES):
        sizes = [len(groups)] if over == "groups" else map(len, groups)
        draws = [rng.multinomial(size, np.full(size, 1 / size)) for size in sizes]
        for rows, times in zip(groups, draws[0] if over == "groups" else draws, strict=True):
            counts[rows] = times
        if np.isin(getattr(estimator, "classes_", []), y[counts > 0]).all():
            return counts
    raise ValueError(f"{_TRIES} draws in a row missed a class; expected classes in more groups (or over='rows')")
