"""The two estimators: sparse linear regression, and sparse logistic or softmax regression, over groups."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..advice import advise, check_batches, check_rows
from ..frames import check_columns
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..methods.support_solvers import Separated
from ..models import Array, SparseModel
from .fitting import Recipe, by_cross_validation, by_ebic
from .problem import Problem, Rows, groups_of, some_of
from .resampling import Bootstrap, bootstrapped

__all__ = ["FedGradMPClassifier", "FedGradMPRegressor"]

_COUNT = Interval(Integral, 1, None, closed="left")
# Least squares of m noisy rows on k columns have an excess error of k / (m - k - 1) times the noise, if features are
# Gaussian: without bound at m = k, where they interpolate, and no more than the noise itself where m > 2 k.
_ENOUGH = 2


class SparseLinear(BaseEstimator):  # type: ignore[misc]
    """Fitting, predictions on a linear scale, and the bootstrap."""

    _parameter_constraints: dict[str, Any] = {
        "method": [StrOptions({"auto", "fedgradmp", "shared"})],
        **dict.fromkeys(("fit_intercept", "standardize", "polish"), ["boolean"]),
        **dict.fromkeys(("rounds", "local_iterations", "min_rows"), [_COUNT]),
        **dict.fromkeys(("cohort_size", "batch_size"), [_COUNT, None]),
        "tol": [Interval(Real, 0, None, closed="left")],
        "sparsities": ["array-like", None],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self, sparsity: int | str | None = None, *, method: str = "auto", fit_intercept: bool | str = True,
        standardize: bool = True, polish: bool = True, rounds: int = 20, tol: float = 1e-2,
        cohort_size: int | None = None, local_iterations: int = 3, batch_size: int | None = None,
        sparsities: Sequence[int] | None = None, n_folds: int = 5, min_rows: int = 5, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.sparsity, self.method, self.fit_intercept, self.standardize = sparsity, method, fit_intercept, standardize
        self.polish, self.rounds, self.tol, self.cohort_size, self.min_rows = polish, rounds, tol, cohort_size, min_rows
        self.local_iterations, self.batch_size, self.random_state = local_iterations, batch_size, random_state
        self.sparsities, self.n_folds = sparsities, n_folds

    def _fit(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> None:
        """Fit, with `coef_` of shape (n_outputs, n_features) and `intercept_` of shape (n_outputs,)."""
        self._validate_params()
        check_columns(X)
        given, how = (X, y, groups), {"y_numeric": not is_classifier(self), "ensure_min_samples": 2}
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **how)
        weights = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        labels, codes, weights = groups_of(X, groups, weights, self.min_rows)
        grid = self._grid(X.shape[1], int(np.count_nonzero(weights)))
        targets, loss = self._targets(y, weights > 0)
        problem = Problem(Rows.of(X, targets, weights, codes), loss, self.fit_intercept, self.standardize)
        if constant := getattr(self, "feature_names_in_", np.arange(X.shape[1]))[problem.constant].tolist():
            named = some_of(constant, 20)
            warnings.warn(f"Features [{named}] are constant: their coefficients are zero.", stacklevel=3)
        problem.federation.check_cohort(self.cohort_size)
        self.groups_, rows = labels[np.unique(codes[weights > 0])], problem.rows.counts.tolist()
        self.method_, self.sparsity_, before = self._settled_method(problem, grid[-1]), grid[0], None
        ridge = 1 / (getattr(self, "C", np.inf) * problem.weight)
        recipe = Recipe(self, self.method_, ridge, int(check_random_state(self.random_state).randint(2**31 - 1)))
        if isinstance(self.sparsity, str):
            choose = by_cross_validation if self.sparsity == "cv" else by_ebic
            self.cv_, before = choose(problem, recipe, grid)
            self.sparsity_ = self.cv_.chosen
        model, self.n_iter_, history = recipe.along(problem, self.sparsity_, before)
        self.history_ = history | {name: history[name] + size for name, size in problem.bytes.items()}
        self._keep(problem, model)
        if self.method_ == "fedgradmp":
            check_batches(self.batch_size, rows)
            if isinstance(loss, SquaredLoss):
                columns = problem.columns(self.sparsity_)
                check_rows(columns, rows, _ENOUGH * columns)
        self._given = *given, weights, np.where(weights > 0, codes, -1)

    def _grid(self, n_features: int, n_rows: int) -> list[int]:
        """The sparsities to try, increasing; one, where it is given."""
        fits, name = Interval(Integral, 0, n_features, closed="right"), type(self).__name__
        allowed = {"sparsity": [fits, StrOptions({"cv", "ebic"}), None], "sparsities": [fits]}
        validate_parameter_constraints(allowed, {"sparsity": self.sparsity}, name)
        if not isinstance(self.sparsity, str):
            return [min(10, n_features) if self.sparsity is None else self.sparsity]
        if self.sparsities is None:
            steps = [*range(1, 21), *np.unique((20 * 1.2 ** np.arange(1, 10)).astype(int)).tolist()]
            return [tau for tau in steps if tau <= min(n_features, max(n_rows // 2, 1))]
        for tau in [*self.sparsities] or [0]:
            validate_parameter_constraints(allowed, {"sparsities": tau}, name)
        return sorted(set(map(int, self.sparsities)))

    def _settled_method(self, problem: Problem, sparsity: int) -> str:
        """One method for the whole path, its folds and the fit: the rows of the smallest site that trains decide."""
        if self.method != "auto":
            return self.method
        rows = int(problem.rows.counts.min())
        if self.sparsity == "cv":
            rows -= -(-rows // self.n_folds)
        return "fedgradmp" if rows > _ENOUGH * problem.columns(sparsity) else "shared"

    def _keep(self, problem: Problem, model: SparseModel) -> None:
        """The fitted model in the units of the table."""
        first = int(problem.intercept)  # the column of ones leads
        standard = model.dense().astype(np.float64).reshape(model.shape[0], -1).T
        self.coef_ = standard[:, first:] * problem.factors
        intercepts = problem.levels[:, None] + standard[:, :first].sum(axis=1) - problem.centres @ self.coef_.T
        self.intercept_: Any = np.average(intercepts, axis=0, weights=problem.rows.shares)
        if problem.own:
            self.intercepts_ = dict(zip(self.groups_.tolist(), intercepts[:, 0].tolist(), strict=True))
        self.support_ = np.flatnonzero(np.any(self.coef_ != 0, axis=0))
        if not len(self.support_):
            advise("no feature is in the model: none that was tried lowers the loss on all rows")

    def _linear(self, X: Any) -> Array:
        """X coef' + intercept."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_)

    def bootstrap(self, n_resamples: int = 200, over: str = "groups", *, random_state: Any = None) -> Bootstrap:
        """How often each feature is found again, and between which bounds its coefficient lies.

        The sparsity is the one that the fit has settled on, and every resample starts afresh from the model without
        features. A group drawn twice counts twice as much, and is one client still. The data are those that `fit` was
        called with, to which the estimator keeps a reference: a pickle, or a copy, holds nothing of them.

        Parameters
        ----------
        n_resamples : int, default 200
        over : {"groups", "rows"}
            What is drawn with replacement: whole groups, of which there are at least two, or rows within each group.
        random_state : int, RandomState or None
        """
        check_is_fitted(self)
        if not hasattr(self, "_given"):
            found = "the model is a copy, or from elsewhere, and the data did not travel with it"
            raise ValueError(f"{found}; expected a fit of its own")
        return bootstrapped(self, *self._given, n_resamples, over, random_state)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_given"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


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
    rounds, tol : int, default 20, and float, default 1e-2
        The most rounds; a run ends earlier where three in a row improve the objective by less than this fraction.
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
    coef_, intercept_ : ndarray, shape (n_features,), and float
        In the units of the data; with ``fit_intercept="per_group"`` also `intercepts_`, a dict of those of the groups.
    support_ : ndarray of int
        The features with a coefficient that is not zero.
    sparsity_, method_, n_iter_ : int, str, int
        tau and the method, as given or chosen; and its rounds.
    history_ : dict of ndarray
        As that of `fgmp.simulation.Result`; bytes include the sums for the units, the last entry the closing exchange.
    cv_ : SparsityPath
        Where the sparsity was chosen: `table`, `chosen`, `plot`.
    groups_ : ndarray
        Those that take part.
    """

    _parameter_constraints = SparseLinear._parameter_constraints | {
        "fit_intercept": ["boolean", StrOptions({"per_group"})]
    }

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> FedGradMPRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            Of a sparse one nothing is made dense but the columns of the support.
        y : array_like, shape (n_samples,)
        groups : array_like, shape (n_samples,), optional
            Whose row it is; all rows are one group's by default.
        sample_weight : array_like, shape (n_samples,), optional
            A row of weight 2 counts as two rows; one of weight 0 is as if it were not there.
        """
        self._fit(X, y, groups, sample_weight)
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def predict(self, X: Any) -> Array:
        """Predictions, shape (n_samples,)."""
        return self._linear(X)

    def _targets(self, y: Array, positive: Array) -> tuple[Array, Loss]:
        return y.astype(np.float64, copy=False), SquaredLoss()


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
    intercept_, classes_ : ndarray, shape (1,) or (n_classes,); and (n_classes,)
    """

    _parameter_constraints = SparseLinear._parameter_constraints | {"C": [Interval(Real, 0, None, closed="right")]}

    def __init__(
        self, sparsity: int | str | None = None, *, method: str = "auto", fit_intercept: bool = True,
        standardize: bool = True, polish: bool = True, C: float = 1.0, rounds: int = 20, tol: float = 1e-2,
        cohort_size: int | None = None, local_iterations: int = 3, batch_size: int | None = None,
        sparsities: Sequence[int] | None = None, n_folds: int = 5, min_rows: int = 5, random_state: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            sparsity, method=method, fit_intercept=fit_intercept, standardize=standardize, polish=polish, rounds=rounds,
            tol=tol, cohort_size=cohort_size, local_iterations=local_iterations, batch_size=batch_size,
            sparsities=sparsities, n_folds=n_folds, min_rows=min_rows, random_state=random_state,
        )  # fmt: skip
        self.C = C

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> FedGradMPClassifier:
        """Fit the model; as `FedGradMPRegressor.fit`, with labels of any kind for y."""
        try:
            self._fit(X, y, groups, sample_weight)
        except Separated:
            found = "The classes are separated without error on the features taken, so that their coefficients have no"
            raise ValueError(f"{found} bound with C={self.C!r}; a finite C gives them one.") from None
        return self

    def decision_function(self, X: Any) -> Array:
        """Log-odds of ``classes_[1]``, shape (n_samples,), or a score for each class, shape (n_samples, n_classes)."""
        linear = self._linear(X)
        return linear.ravel() if len(self.classes_) == 2 else linear

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, shape (n_samples, n_classes)."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        return np.asarray(log_softmax(self._scores(X), axis=1))

    def predict(self, X: Any) -> Array:
        """The most likely class of each row."""
        places = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[places])

    def _scores(self, X: Any) -> Array:
        """A score for each class, also of two."""
        linear = self._linear(X)
        return linear if linear.shape[1] > 1 else np.column_stack([np.zeros_like(linear), linear])

    def _targets(self, y: Array, positive: Array) -> tuple[Array, Loss]:
        check_classification_targets(y)
        self.classes_ = np.unique(y[positive])  # a class of which every row has weight zero is not there
        if len(self.classes_) < 2:
            found = f"the data contains only one class: {self.classes_[0]!r}"
            raise ValueError(f"This solver needs samples of at least 2 classes in the data, but {found}")
        codes = np.searchsorted(self.classes_, y)
        if len(self.classes_) == 2:
            return np.where(codes == 1, 1.0, -1.0), LogisticLoss()
        return codes, SoftmaxLoss(len(self.classes_))
