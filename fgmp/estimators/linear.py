"""The two estimators: sparse linear regression, and sparse logistic or softmax regression, over groups."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..methods.pooled_newton import Separated
from ..models import Array
from .base import SparseLinear
from .fitting import log_odds_per_unit
from .given import refuse
from .problem import Problem

__all__ = ["FedGradMPClassifier", "FedGradMPRegressor"]


class FedGradMPRegressor(RegressorMixin, SparseLinear):  # type: ignore[misc]
    """Linear regression on a few features, fitted over groups that keep their rows to themselves.

    Each group is one client. The groups send sums once, for common units; then FedGradMP, or its relative with a shared
    support, finds the features, and a closing exchange solves least squares on them with the sums of all groups.

    Parameters
    ----------
    sparsity : int, {"cv", "ebic"} or None
        tau, the number of features: from 1 to all. ``"cv"`` chooses it on rows that each group holds out, ``"ebic"``
        by the extended Bayesian information criterion. None is 10, or all features where there are fewer.
    method : {"auto", "fedgradmp", "shared"}
        ``"auto"`` is `fgmp.FedGradMP`, but `fgmp.SharedSupportGradMP` where the smallest group has no more than twice
        as many rows as a client solves for coefficients: 3 tau, or all features, and an intercept. On a path this is
        settled once, for its largest tau and, with ``"cv"``, the smallest rows that a group trains on.
    fit_intercept : True, "per_group" or False
        ``"per_group"`` gives each group an intercept of its own: each centres its own rows, as the within estimator
        for panel data does. `intercepts_` holds them, and `predict` uses their mean.
    standardize : bool, default True
        Whether features compete for the support in units of their standard deviation (about zero, where there is no
        intercept). The coefficients are in the units of the data in any case.
    polish : bool, default True
        Whether a closing exchange solves on the support that was found.
    rounds : int, default 20
        The most rounds; a run ends earlier where the objective has stalled.
    tol : float, default 1e-2
        Improvement of the objective, as a fraction, below which three rounds in a row are a stall.
    cohort_size, local_iterations, batch_size
        As in `fgmp.simulate` and `fgmp.FedGradMP`.
    sparsities : sequence of int, optional
        The path for ``"cv"`` and ``"ebic"``; 1 to 20 and then in steps of a fifth up to about 100 by default, no
        further than the features and half the rows. It ends where five in a row brought nothing.
    n_folds : int, default 5
        Into how many folds each group deals its rows for ``"cv"``. Units, levels and models of a fold come from the
        rows that train.
    min_rows : int, default 5
        Groups with fewer rows send nothing and take no part, which a warning says: the mean of few rows is nearly a
        row. Without groups it has no meaning.
    random_state : int, RandomState or None
        Of cohorts, minibatches and folds.

    Attributes
    ----------
    coef_ : ndarray, shape (n_features,)
        In the units of the data.
    intercept_ : float
    intercepts_ : dict
        With ``fit_intercept="per_group"``, the intercept of each group.
    support_ : ndarray of int
        The features with a coefficient that is not zero.
    sparsity_ : int
        tau, as given or chosen.
    method_ : str
        ``"fedgradmp"`` or ``"shared"``.
    n_iter_ : int
        Rounds of the method.
    history_ : dict of ndarray
        As the history of `fgmp.Result`; the bytes include the sums for the units, the last entry the closing exchange.
    cv_ : SparsityPath
        Where the sparsity was chosen: `table`, `chosen`, `plot`.
    groups_ : ndarray
        Those that take part.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had names.

    Notes
    -----
    Sparse X stays sparse: nothing is made dense but the columns of the support. Its columns are centred in the
    products with them, and the model is that of the same dense X, but for rounding.
    """

    _intercepts = (True, "per_group", False)
    _how_y = {"y_numeric": True}

    def __init__(
        self,
        sparsity: int | str | None = None,
        *,
        method: str = "auto",
        fit_intercept: bool | str = True,
        standardize: bool = True,
        polish: bool = True,
        rounds: int = 20,
        tol: float = 1e-2,
        cohort_size: int | None = None,
        local_iterations: int = 3,
        batch_size: int | None = None,
        sparsities: Sequence[int] | None = None,
        n_folds: int = 5,
        min_rows: int = 5,
        random_state: Any = None,
    ) -> None:
        self.sparsity = sparsity
        self.method = method
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.polish = polish
        self.rounds = rounds
        self.tol = tol
        self.cohort_size = cohort_size
        self.local_iterations = local_iterations
        self.batch_size = batch_size
        self.sparsities = sparsities
        self.n_folds = n_folds
        self.min_rows = min_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> FedGradMPRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
        y : array_like, shape (n_samples,)
        groups : array_like, shape (n_samples,), optional
            Whose row it is; all rows are one group's by default.
        sample_weight : array_like, shape (n_samples,), optional
            A row of weight 2 counts as two rows; one of weight 0 is as if it were not there.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where the data or a parameter do not fit; the message names which.
        """
        fitted: FedGradMPRegressor = self._fit(X, y, groups, sample_weight)
        return fitted

    def predict(self, X: Any) -> Array:
        """Predictions, shape (n_samples,)."""
        return self._linear(X)

    def _targets(self, y: Array, positive: Array) -> tuple[Array, Loss]:
        return y.astype(np.float64, copy=False), SquaredLoss()

    def _keep_coefficients(self, coef: Array, start: Array, problem: Problem) -> None:
        self.coef_ = coef[0]
        own = problem.levels + start[0] - problem.scaling.centres @ self.coef_
        self.intercept_ = float(np.average(own, weights=[site.weight for site in problem.sites]))
        if self.fit_intercept == "per_group":
            self.intercepts_ = dict(zip(self.groups_.tolist(), own.tolist(), strict=True))


class FedGradMPClassifier(ClassifierMixin, SparseLinear):  # type: ignore[misc]
    """Logistic regression on a few features (softmax for several classes), over groups that keep their rows.

    Parameters and attributes are those of `FedGradMPRegressor`, but for the ones below. A feature counts once, whatever
    the number of classes.

    Parameters
    ----------
    fit_intercept : bool, default True
        An intercept for all groups, which is not one of the tau.
    C : float, default 1.0
        As in `sklearn.linear_model.LogisticRegression`: the closing exchange adds half the squared norm of the
        coefficients (in standardised units, without the intercept) to C times the summed log loss. ``np.inf`` adds
        nothing; classes that a few features separate then have no finite model.

    Attributes
    ----------
    coef_ : ndarray, shape (1, n_features) or (n_classes, n_features)
        In log-odds per unit of the feature: of ``classes_[1]`` where there are two classes.
    intercept_ : ndarray, shape (1,) or (n_classes,)
    classes_ : ndarray
    """

    def __init__(
        self,
        sparsity: int | str | None = None,
        *,
        method: str = "auto",
        fit_intercept: bool = True,
        standardize: bool = True,
        polish: bool = True,
        C: float = 1.0,
        rounds: int = 20,
        tol: float = 1e-2,
        cohort_size: int | None = None,
        local_iterations: int = 3,
        batch_size: int | None = None,
        sparsities: Sequence[int] | None = None,
        n_folds: int = 5,
        min_rows: int = 5,
        random_state: Any = None,
    ) -> None:
        self.sparsity = sparsity
        self.method = method
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.polish = polish
        self.C = C
        self.rounds = rounds
        self.tol = tol
        self.cohort_size = cohort_size
        self.local_iterations = local_iterations
        self.batch_size = batch_size
        self.sparsities = sparsities
        self.n_folds = n_folds
        self.min_rows = min_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> FedGradMPClassifier:
        """Fit the model; as `FedGradMPRegressor.fit`, with labels of any kind for y."""
        if not isinstance(self.C, Real) or isinstance(self.C, bool) or not self.C > 0:
            refuse(self, "C", "a float in the range (0.0, inf]", self.C)
        try:
            fitted: FedGradMPClassifier = self._fit(X, y, groups, sample_weight)
        except Separated:
            raise ValueError(
                f"The classes are separated without error on the features taken, so that their coefficients have no "
                f"bound with C={self.C!r}; a finite C gives them one."
            ) from None
        return fitted

    def decision_function(self, X: Any) -> Array:
        """Log-odds of ``classes_[1]``, shape (n_samples,), or a score for each class, shape (n_samples, n_classes)."""
        linear = self._linear(X)
        return linear.ravel() if len(self.classes_) == 2 else linear

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, shape (n_samples, n_classes)."""
        linear = self.decision_function(X)
        if linear.ndim == 1:
            return np.column_stack([expit(-linear), expit(linear)])
        probabilities: Array = softmax(linear, axis=1)
        return probabilities

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        linear = self.decision_function(X)
        if linear.ndim == 1:
            return np.column_stack([-np.logaddexp(0, linear), -np.logaddexp(0, -linear)])
        return linear - np.logaddexp.reduce(linear, axis=1, keepdims=True)

    def predict(self, X: Any) -> Array:
        """The most likely class of each row."""
        linear = self.decision_function(X)
        places = (linear > 0).astype(np.intp) if linear.ndim == 1 else linear.argmax(axis=1)
        labels: Array = self.classes_[places]
        return labels

    def _targets(self, y: Array, positive: Array) -> tuple[Array, Loss]:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        present = np.unique(codes[positive])
        if len(present) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data contains only one class: "
                f"{self.classes_[present[0]]!r}"
            )
        if len(present) < len(self.classes_):  # a class of which every row has weight zero is not there
            self.classes_ = self.classes_[present]
            codes = np.searchsorted(present, codes)
        if len(self.classes_) == 2:
            return np.where(codes == 1, 1.0, -1.0), LogisticLoss()
        return codes.astype(np.intp), SoftmaxLoss(len(self.classes_))

    def _ridge(self, problem: Problem) -> float:
        return log_odds_per_unit(problem.loss) ** 2 / (float(self.C) * problem.weight)

    def _keep_coefficients(self, coef: Array, start: Array, problem: Problem) -> None:
        self.coef_ = coef
        self.intercept_ = start - coef @ problem.scaling.centres[0]
