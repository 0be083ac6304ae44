"""What both estimators share: from a table and groups to a fitted model in the units of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..advice import AdviceWarning, advise, check_rows, quiet
from ..federation import Federation
from ..losses import Loss, SquaredLoss
from ..models import Array, SparseModel
from .fitting import Fit, Recipe, log_odds_per_unit
from .given import (
    check_columns,
    check_integer_parameter,
    check_number_parameter,
    group_codes,
    refuse,
    warn_constant,
    without_small,
)
from .problem import Problem
from .resampling import Bootstrap, Given, bootstrapped
from .sites import sites_of
from .sparsity_path import SparsityPath, by_cross_validation, by_ebic

__all__ = ["SparseLinear"]

_MODES = ("cv", "ebic")
# Least squares of m noisy rows on k columns have an excess error of k / (m - k - 1) times the noise, if features are
# Gaussian: without bound at m = k, where they interpolate, and no more than the noise itself where m > 2 k.
_ENOUGH = 2


class SparseLinear(BaseEstimator):  # type: ignore[misc]
    """Fitting, predictions on a linear scale, and the bootstrap."""

    _intercepts: tuple[Any, ...] = (True, False)

    def _fit(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> Any:
        self._check_parameters()
        check_columns(X)
        given = X, y, groups
        X, y = self._validated(X, y)
        weights = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        if not np.any(weights > 0):
            raise ValueError("sample_weight is zero for every row; expected at least one positive weight.")
        labels, codes = group_codes(X, groups)
        if groups is not None:
            weights = without_small(weights, labels, codes, int(self.min_rows))
        positive = weights > 0
        targets, loss = self._targets(y, positive)
        sites = sites_of(X, targets, weights, codes)
        self.groups_ = labels[np.unique(codes[positive])]
        plain = bool(np.all(weights[positive] == weights[positive][0]))
        problem = Problem.of(sites, loss, self.fit_intercept, self.standardize, plain)
        warn_constant(problem.scaling.constant, getattr(self, "feature_names_in_", None))
        grid = self._grid(sum(len(site.targets) for site in sites))
        recipe = self._recipe(problem, grid)
        federation = problem.federation()
        federation.check_cohort(self.cohort_size)
        self.sparsity_, before = self._settled_sparsity(problem, recipe, grid, federation)
        self._keep(recipe.along(federation, self.sparsity_, problem.base, before), problem, recipe)
        if recipe.method == "fedgradmp" and isinstance(loss, SquaredLoss):
            columns = problem.columns(self.sparsity_)
            check_rows(columns, federation.rows, _ENOUGH * columns)
        self._given = Given(*given, weights)
        return self

    def _check_parameters(self) -> None:
        for name in ("rounds", "local_iterations", "min_rows"):
            check_integer_parameter(self, name)
        for name in ("cohort_size", "batch_size"):
            if getattr(self, name) is not None:
                check_integer_parameter(self, name)
        check_number_parameter(self, "tol")
        if not isinstance(self.method, str) or self.method not in ("fedgradmp", "shared", "auto"):
            refuse(self, "method", "a str among {'auto', 'fedgradmp', 'shared'}", self.method)
        given = self.fit_intercept
        named = isinstance(given, str) and given in self._intercepts
        if not named and not any(given is mode for mode in self._intercepts):
            expected = " or ".join(map(repr, self._intercepts))
            refuse(self, "fit_intercept", expected, self.fit_intercept)
        if isinstance(self.sparsity, str) and self.sparsity not in _MODES:
            refuse(self, "sparsity", "an int, None, 'cv' or 'ebic'", self.sparsity)
        if isinstance(self.n_folds, bool) or not isinstance(self.n_folds, (int, np.integer)) or self.n_folds < 2:
            refuse(self, "n_folds", "an int in the range [2, inf)", self.n_folds)
        for name in ("standardize", "polish"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                refuse(self, name, "True or False", getattr(self, name))

    def _validated(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2, **self._how_y
        )
        if self.sparsity is not None and not isinstance(self.sparsity, str):
            check_integer_parameter(self, "sparsity", at_most=X.shape[1], why=" (n_features)")
        return X, y

    _how_y: dict[str, Any] = {}

    def _targets(self, y: Array, positive: Array) -> tuple[Array, Loss]:
        """The targets as the loss takes them, and the loss."""
        raise NotImplementedError

    def _ridge(self, problem: Problem) -> float:
        return 0.0

    def _recipe(self, problem: Problem, grid: list[int]) -> Recipe:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Recipe(
            self._settled_method(problem, max(grid)),
            problem.intercept,
            int(self.rounds),
            self.cohort_size,
            int(self.local_iterations),
            self.batch_size,
            float(self.tol),
            bool(self.polish),
            self._ridge(problem),
            seed,
        )

    def _settled_method(self, problem: Problem, sparsity: int) -> str:
        """One method for the whole path, its folds and the fit: the rows of the smallest site that trains decide."""
        if self.method != "auto":
            return str(self.method)
        rows = min(len(site.targets) for site in problem.sites)
        if self.sparsity == "cv":
            rows -= -(-rows // int(self.n_folds))
        return "fedgradmp" if rows > _ENOUGH * problem.columns(sparsity) else "shared"

    def _settled_sparsity(
        self, problem: Problem, recipe: Recipe, grid: list[int], federation: Federation
    ) -> tuple[int, SparseModel | None]:
        """tau, and the model of the step before it where it was chosen on a path."""
        if not isinstance(self.sparsity, str):
            return grid[0], None
        choose = by_cross_validation if self.sparsity == "cv" else by_ebic
        with quiet():  # a path tries what is too much for some site; the fit speaks for the choice
            self.cv_: SparsityPath
            self.cv_, before = choose(problem, recipe, grid, federation, int(self.n_folds))
        return self.cv_.chosen, before

    def _grid(self, n_rows: int) -> list[int]:
        """The sparsities to try, increasing; one, where it is given."""
        if self.sparsity is None:
            return [min(10, self.n_features_in_)]
        if not isinstance(self.sparsity, str):
            return [int(self.sparsity)]
        if self.sparsities is None:
            steps = [*range(1, 21), *np.unique((20 * 1.2 ** np.arange(1, 10)).astype(int)).tolist()]
            most = min(self.n_features_in_, max(n_rows // 2, 1))
            return [tau for tau in steps if tau <= most] or [1]
        if isinstance(self.sparsities, str) or not np.iterable(self.sparsities):
            refuse(self, "sparsities", "a sequence of ints", self.sparsities)
        given = list(self.sparsities)
        whole = all(isinstance(tau, (int, np.integer)) and 1 <= tau <= self.n_features_in_ for tau in given)
        if not given or not whole:
            refuse(
                self, "sparsities", f"a sequence of ints in the range [1, {self.n_features_in_}] (n_features)", given
            )
        return sorted({int(tau) for tau in given})

    def _keep(self, fit: Fit, problem: Problem, recipe: Recipe) -> None:
        """The fitted attributes, in the units of the table."""
        scaling, first = problem.scaling, int(problem.intercept)
        standard = fit.coefficients.astype(np.float64).reshape(len(fit.coefficients), -1).T
        standard = standard * log_odds_per_unit(problem.loss)
        coef = standard[:, first:] * scaling.factors
        start = standard[:, 0] if problem.intercept else np.zeros(len(standard))
        self._keep_coefficients(coef, start, problem)
        self.support_ = np.flatnonzero(np.any(coef != 0, axis=0))
        if not len(self.support_):
            advise("no feature is in the model: none that was tried lowers the loss on all rows", AdviceWarning)
        self.n_iter_ = fit.n_rounds
        self.method_ = recipe.method
        self.history_ = fit.history
        self.history_["bytes_up"] = self.history_["bytes_up"] + scaling.n_bytes_up
        self.history_["bytes_down"] = self.history_["bytes_down"] + scaling.n_bytes_down

    def _keep_coefficients(self, coef: Array, start: Array, problem: Problem) -> None:
        raise NotImplementedError

    def _linear(self, X: Any) -> Array:
        """X coef' + intercept."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        linear: Array = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return linear

    def bootstrap(self, n_resamples: int = 200, over: str = "groups", *, random_state: Any = None) -> Bootstrap:
        """How often each feature is found again, and between which bounds its coefficient lies.

        Parameters
        ----------
        n_resamples : int, default 200
        over : {"groups", "rows"}
            What is drawn with replacement: whole groups, or rows within each group.
        random_state : int, RandomState or None

        Returns
        -------
        Bootstrap

        Raises
        ------
        ValueError
            Where `over` is ``"groups"`` and there are fewer than two; where the model comes from a file or another
            process, because the data do not travel with it.

        Notes
        -----
        The sparsity is the one that the fit has settled on, and every resample starts afresh from the model without
        features. A group drawn twice counts twice as much, and is one client still. The data are those that `fit` was
        called with, to which the estimator keeps a reference: no copy, and nothing of them in a pickle.
        """
        check_is_fitted(self)
        if not hasattr(self, "_given"):
            raise ValueError(
                "the model is a copy, or from elsewhere, and the data did not travel with it; expected a fit of its own"
            )
        return bootstrapped(self, self._given, n_resamples, over, random_state)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_given", None)
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
