"""The bootstrap over groups or rows: how stable the support is, and how sure the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..advice import quiet
from ..checks import check_integer, check_number, check_option
from ..models import Array, Support

__all__ = ["Bootstrap", "Given", "bootstrapped"]

_TRIES = 100


class Given(NamedTuple):
    """What `fit` was called with, and the weights that it used: zero in groups that took no part."""

    X: Any
    y: Any
    groups: Any
    weights: Array

    def codes(self) -> Support:
        """The number of the group of each row, of those that took part; -1 for other rows."""
        codes = np.where(self.weights > 0, 0, -1)
        if self.groups is not None:
            codes[codes == 0] = np.unique(np.asarray(self.groups)[codes == 0], return_inverse=True)[1]
        return codes


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """What the resamples found.

    Attributes
    ----------
    coef : ndarray, shape (n_resamples, n_outputs, n_features)
        In the units of the data.
    estimate : ndarray, shape (n_outputs, n_features)
        Of the fit itself.
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

    @property
    def table(self) -> dict[str, Array]:
        """Columns ``feature``, ``inclusion``, ``coef``, ``low`` and ``high`` (95 %), the most frequent first.

        With several classes one row for each feature and class, and a column ``output``.
        """
        low, high = self.interval()
        n_outputs, n_features = self.estimate.shape
        order = np.argsort(-self.inclusion, kind="stable")
        features = np.repeat(order, n_outputs)
        outputs = np.tile(np.arange(n_outputs), n_features)
        several = {"output": outputs} if n_outputs > 1 else {}
        return {
            "feature": np.array(self.names)[features],
            **several,
            "inclusion": self.inclusion[features],
            "coef": self.estimate[outputs, features],
            "low": low[outputs, features],
            "high": high[outputs, features],
        }

    def plot(self, ax: Any = None, most: int = 20) -> Any:
        """Inclusion frequencies of the `most` frequent features, those of the fit filled; returns matplotlib's axes."""
        import matplotlib.pyplot as plt

        ax = plt.subplots()[1] if ax is None else ax
        order = np.argsort(-self.inclusion, kind="stable")[: check_integer("most", most)][::-1]
        kept = np.any(self.estimate != 0, axis=0)[order]
        ax.barh(
            np.arange(len(order)), self.inclusion[order], color=np.where(kept, "#0072B2", "white"), edgecolor="#0072B2"
        )
        ax.set_yticks(np.arange(len(order)), [self.names[j] for j in order])
        ax.set_xlabel(f"share of {len(self.coef)} resamples (filled: in the fit)")
        ax.set_xlim(0, 1)
        return ax


def bootstrapped(estimator: Any, given: Given, n_resamples: int, over: str, random_state: Any) -> Bootstrap:
    """`SparseLinear.bootstrap` of an estimator fitted to `given`."""
    n_resamples = check_integer("n_resamples", n_resamples)
    over = check_option("over", over, ("groups", "rows"))
    codes = given.codes()
    if over == "groups" and codes.max() < 1:
        raise ValueError("groups has one group; expected at least two for over='groups' (or over='rows')")
    rng = check_random_state(random_state)
    draw = _groups_drawn if over == "groups" else _rows_drawn
    fits = [_refitted(estimator, given, lambda: given.weights * draw(codes, rng)) for _ in range(n_resamples)]
    estimate = np.atleast_2d(estimator.coef_)
    names: Sequence[Any] = getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(estimate.shape[1])])
    return Bootstrap(np.array(fits), estimate, tuple(str(name) for name in names))


def _refitted(estimator: Any, given: Given, draw: Any) -> Array:
    """The coefficients of one resample; a draw that misses a class is drawn again."""
    X, y, groups, _ = given
    labels = np.asarray(y)
    for _ in range(_TRIES):
        weights = draw()
        if hasattr(estimator, "classes_") and len(np.unique(labels[weights > 0])) < len(estimator.classes_):
            continue
        again = clone(estimator).set_params(sparsity=estimator.sparsity_, min_rows=1)
        if estimator.cohort_size is not None and groups is not None:
            left = len(np.unique(np.asarray(groups)[weights > 0]))
            again.set_params(cohort_size=min(estimator.cohort_size, left))
        with quiet():  # the fit has spoken
            return np.atleast_2d(again.fit(X, y, groups=groups, sample_weight=weights).coef_)
    raise ValueError(f"{_TRIES} draws in a row missed a class; expected classes in more groups (or over='rows')")


def _groups_drawn(codes: Array, rng: Any) -> Array:
    """How often the group of each row was drawn."""
    n_groups = int(codes.max()) + 1
    counts: Array = rng.multinomial(n_groups, np.full(n_groups, 1 / n_groups))[codes]
    return counts


def _rows_drawn(codes: Array, rng: Any) -> Array:
    """How often each row was drawn, within its group."""
    counts = np.zeros(len(codes))
    for code in range(int(codes.max()) + 1):
        members = np.flatnonzero(codes == code)
        counts[members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)))
    return counts
