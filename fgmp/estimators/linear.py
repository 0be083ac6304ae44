"""The two estimators: sparse linear regression, and sparse logistic or softmax regression, over groups."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..advice import advise, check_batches, check_rows
from ..checks import check_integer, check_kind, check_number, check_option, check_sequence, check_truth
from ..federation import check_cohort
from ..layers.privacy import GaussianNoise
from ..layers.secure_sums import SecureSum
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..methods.support_solvers import Separated
from ..models import Array
from ..rounds import Reducer
from ..shapes import Shape
from ..tables import check_columns
from .fitting import ENOUGH, Fit, Recipe, Sites
from .resampling import Bootstrap, bootstrapped
from .sites import Table, groups_of, some_of

__all__ = ["FedGradMPClassifier", "FedGradMPRegressor"]

_SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)


class SparseLinear(BaseEstimator):  # type: ignore[misc]
    """Fitting, predictions on a linear scale, and the bootstrap."""

    def __init__(
        self, sparsity: int | str | None = None, *, method: str = "auto", fit_intercept: bool | str = True,
        standardize: bool | str = "auto", polish: bool = True, C: float = np.inf, rounds: int = 20, tol: float = 1e-2,
        cohort_size: int | None = None, local_iterations: int = 3, batch_size: int | None = None,
        sparsities: Sequence[int] | None = None, n_folds: int = 5, min_rows: int = 5, secure: bool = False,
        private: GaussianNoise | None = None, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.sparsity, self.method, self.fit_intercept, self.standardize = sparsity, method, fit_intercept, standardize
        self.polish, self.C, self.rounds, self.tol, self.cohort_size = polish, C, rounds, tol, cohort_size
        self.local_iterations, self.batch_size, self.random_state = local_iterations, batch_size, random_state
        self.sparsities, self.n_folds, self.min_rows = sparsities, n_folds, min_rows
        self.secure, self.private = secure, private

    def _check(self) -> None:
        """Every parameter by itself; the sparsities wait for the features."""
        check_option("method", self.method, ("auto", "fedgradmp", "shared"))
        check_truth("standardize", self.standardize, "auto")
        check_truth("fit_intercept", self.fit_intercept, *["per_group"] * (not is_classifier(self)))
        for name in ("polish", "secure"):
            check_truth(name, getattr(self, name))
        for name in ("rounds", "local_iterations", "min_rows", "n_folds"):
            check_integer(name, getattr(self, name), at_least=1 + (name == "n_folds"))
        for name in ("cohort_size", "batch_size"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name))
        check_number("tol", self.tol, at_least=0)
        if not (isinstance(self.C, float) and self.C == np.inf):
            check_number("C", self.C, above=0)
        check_kind("private", self.private, (GaussianNoise, type(None)), "a GaussianNoise or None")

    def _fit(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> None:
        """Fit, with `coef_` of shape (n_outputs, n_features) and `intercept_` of shape (n_outputs,)."""
        self._check()
        check_columns(X)
        given, how = (X, y, groups), {"y_numeric": not is_classifier(self), "ensure_min_samples": 2}
        try:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **how)
        except ValueError as error:
            raise _naming(error, X) from None
        weights = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        labels, codes, weights = groups_of(X, groups, weights, self.min_rows)
        targets, loss = self._targets(y, weights > 0)
        sites = Table(X, targets, weights * self._class_weights(y, weights > 0), codes, loss)
        self.groups_ = labels[np.unique(codes[weights > 0])]
        self._fit_over(sites)
        self._given = *given, weights, np.where(weights > 0, codes, -1)

    def _fit_over(self, sites: Sites, say: Any = None) -> None:
        """The same of sites, whoever they are, whose groups are known."""
        shape, rows = sites.shape, list(sites.shape.rows)
        check_cohort(self.cohort_size, len(rows))
        grid = self._grid(shape.n_features, sum(rows))
        recipe = Recipe(self, sites, int(check_random_state(self.random_state).randint(2**31 - 1)), self._reducer())
        recipe = recipe if say is None else replace(recipe, say=say)
        try:
            fit = recipe.fit(self.sparsity if isinstance(self.sparsity, str) else grid[0], grid)
        except Separated:
            found = "The classes are separated without error on the features taken, so that their coefficients have no"
            raise ValueError(f"{found} bound with C={self.C!r}; a finite C gives them one.") from None
        self._say_of(fit, shape)
        self.method_, self.sparsity_, self.n_iter_, self.history_ = fit.method, fit.sparsity, fit.n_rounds, fit.history
        if fit.path is not None:
            self.cv_ = fit.path
        model = fit.model.reshape(len(fit.model), -1)
        self.coef_, self.intercept_ = model[1:].T.copy(), model[0].copy()
        if fit.intercepts is not None:
            self.intercepts_ = dict(zip(self.groups_.tolist(), fit.intercepts.tolist(), strict=True))
        self.support_ = np.flatnonzero(np.any(self.coef_ != 0, axis=0))
        if not len(self.support_):
            advise("no feature is in the model: none that was tried lowers the loss on all rows")
        if isinstance(shape.loss, SquaredLoss):
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        if self.method_ == "fedgradmp":
            check_batches(self.batch_size, rows)
            if isinstance(shape.loss, SquaredLoss):
                columns = recipe.columns(self.sparsity_)
                check_rows(columns, rows, ENOUGH * columns)

    def fit_sites(self, sites: Sites, groups: Any, names: Any = None, classes: Any = None, say: Any = None) -> Any:
        """Fit to sites whose rows are elsewhere; `fgmp.flower.fit_over` calls it."""
        self._check()
        if getattr(self, "class_weight", None) is not None:
            raise ValueError(f"class_weight is {self.class_weight!r}; expected None where rows are elsewhere")
        self.groups_, self.n_features_in_ = np.asarray(groups), sites.shape.n_features
        if names is not None:
            self.feature_names_in_ = np.asarray(names, object)
        if classes is not None:
            self.classes_ = np.asarray(classes)
        self._fit_over(sites, say)
        return self

    def _reducer(self) -> Reducer | None:
        """Who adds up: plainly, under masks, or with noise, of which nothing may be exact beside it."""
        if self.private is None:
            return SecureSum() if self.secure else None
        exact = {"sparsity": isinstance(self.sparsity, str), "polish": self.polish, "secure": self.secure}
        exact |= {"method": self.method == "shared"}
        exact |= {"standardize": self.standardize is not False, "fit_intercept": self.fit_intercept is not False}
        if wrong := [name for name, given in exact.items() if given]:
            found = ", ".join(f"{name}={getattr(self, name)!r}" for name in wrong)
            raise ValueError(
                f"private is given with {found}: units, paths, masks and closing exchanges are exact sums, outside of "
                "epsilon; expected an integer sparsity, another method than 'shared', and standardize, fit_intercept, "
                "polish and secure False"
            )
        return self.private

    def _say_of(self, fit: Fit, shape: Shape) -> None:
        """Columns that have no part, and rounds that ran out."""
        names = np.asarray(getattr(self, "feature_names_in_", np.arange(shape.n_features))).tolist()
        if constant := [names[j] for j in np.flatnonzero(fit.units.constant)]:
            advise(f"Features [{some_of(constant, 20)}] are constant: their coefficients are zero.")
        objective = fit.history.get("objective", np.zeros(1))[: fit.n_rounds + 1]
        last, all_of_them = -np.diff(objective)[-1:], objective[0] - objective[-1]
        if fit.n_rounds == self.rounds > 1 and (last > self.tol * all_of_them).any():
            warnings.warn(
                f"the rounds ran out: the last of {self.rounds} did more than tol={self.tol:g} of what all did to the "
                "objective; with more rounds the features may be better",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _class_weights(self, y: Array, positive: Array) -> Any:
        return 1.0

    def _grid(self, n_features: int, n_rows: int) -> list[int]:
        """The sparsities to try, increasing; one, where it is given."""
        about, word = "the number of features", self.sparsity if isinstance(self.sparsity, str) else None
        if self.sparsity is None or word == "all":
            return [min(10, n_features) if word is None else n_features]
        if word != "cv":
            about += "; or 'all', 'cv', None"
            return [check_integer("sparsity", self.sparsity, at_least=0, at_most=n_features, why=about)]
        if self.sparsities is None:
            return [tau for tau in _SIZES if tau <= min(n_features, max(n_rows // 2, 1))]
        given = check_sequence("sparsities", self.sparsities, "a sequence of integers, or None")
        check_integer("the number of sparsities", len(given))
        return sorted({check_integer("sparsities", tau, at_least=0, at_most=n_features, why=about) for tau in given})

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

    Each group is one client. The groups send sums, for common units; FedGradMP, or its relative with a shared support,
    finds more features than are asked for; from the pooled Hessian on these one after another is dropped whose loss
    raises the objective least; and a closing exchange solves on those that are left, with the sums of all groups.

    Parameters
    ----------
    sparsity : int, {"cv", "all"} or None
        tau, the number of features: from 0 to all. ``"cv"`` chooses it on rows that each group holds out. ``"all"`` is
        the dense model beside it, least squares or ridge by the same sums, for up to 5,000 features. None is 10, or all
        features where there are fewer.
    method : {"auto", "fedgradmp", "shared"}
        Who finds the features: ``"auto"`` is `fgmp.FedGradMP`, but `fgmp.SharedSupportGradMP` where the smallest group
        has no more than twice as many rows as a client solves for coefficients: 3 T, or all features, and an
        intercept. The path begins at T: 20, or 2.5 tau, but no more than all features or a third of the rows. This is
        settled once, for the path, its folds and the fit.
    fit_intercept : True, "per_group" or False
        ``"per_group"`` gives each group an intercept of its own: each centres its own rows, as the within estimator
        for panel data does. `intercepts_` holds them.
    standardize : {"auto"} or bool
        Whether features compete for the support in units of their standard deviation (about zero, where there is no
        intercept). ``"auto"`` does so where X is dense: in units of deviations words that hardly occur would win. The
        coefficients are in the units of the data in any case.
    polish : bool, default True
        Whether a closing exchange solves on the support that was found.
    C : float, default inf
        The closing exchange adds half the squared norm of the coefficients (in standardised units, without the
        intercept) to C times half the sum of squares: the ridge 1/C. ``np.inf`` adds nothing.
    rounds, tol : int, default 20, and float, default 1e-2
        The most rounds; a run ends earlier where three in a row improve the objective by less than this fraction, and a
        ConvergenceWarning says where the last of them still did more than this fraction of all.
    cohort_size, local_iterations, batch_size
        As in `fgmp.simulate` and `fgmp.FedGradMP`, in the rounds.
    sparsities : sequence of int, optional
        The sizes that ``"cv"`` chooses from; by default 1 to 6, 8, 10, 12, 15 and 20, no further than the features and
        half the rows.
    n_folds : int, default 5
        Into how many folds each group deals its rows for ``"cv"``. Units, features and models of a fold come from the
        rows that train.
    min_rows : int, default 5
        Groups with fewer rows send nothing and take no part, which a warning says: the mean of few rows is nearly a
        row. Without groups it has no meaning.
    secure : bool, default False
        Whether every sum is one under masks, as by `fgmp.SecureSum`: of the groups nobody sees more than sums.
    private : GaussianNoise, optional
        FedGradMP's rounds alone, with this noise. Everything else that a fit asks for are exact sums, so that
        `standardize`, `fit_intercept`, `polish` and `secure` have to be False, and `sparsity` a number.
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
        As that of `fgmp.simulation.Result`. The first entry includes the sums for the units; the last one is of the
        closing exchange, and its rounds and bytes are those of everything that was sent, a choice of tau included.
    cv_ : SparsityPath
        Where the sparsity was chosen: `table`, `chosen`, `plot`.
    groups_ : ndarray
        Those that take part.
    """

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
        return self

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Predictions, shape (n_samples,).

        Parameters
        ----------
        X : as in `fit`
        groups : array_like, shape (n_samples,), optional
            Whose row it is: with ``fit_intercept="per_group"`` the intercept is that of the group. Rows of groups that
            took no part, and all rows where it is not given, get the mean intercept.
        """
        linear = self._linear(X)
        if groups is None or not hasattr(self, "intercepts_"):
            return linear
        groups = np.asarray(groups).reshape(-1)
        check_consistent_length(linear, groups)
        known = [group in self.intercepts_ for group in groups.tolist()]
        if not all(known):
            strange = np.unique(groups[~np.array(known)]).tolist()
            advise(f"groups [{some_of(strange, 5)}] took no part in the fit: their rows get the mean intercept")
        own = [self.intercepts_.get(group, self.intercept_) for group in groups.tolist()]
        return np.asarray(linear - self.intercept_ + np.array(own))

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
    class_weight : dict, "balanced" or None
        As in scikit-learn: what a row weighs by its class, beside `sample_weight`.

    Attributes
    ----------
    coef_ : ndarray, shape (1, n_features) or (n_classes, n_features)
        In log-odds per unit of the feature: of ``classes_[1]`` where there are two classes.
    intercept_, classes_ : ndarray, shape (1,) or (n_classes,); and (n_classes,)
    """

    def __init__(
        self, sparsity: int | str | None = None, *, method: str = "auto", fit_intercept: bool = True,
        standardize: bool | str = "auto", polish: bool = True, C: float = 1.0, rounds: int = 20, tol: float = 1e-2,
        cohort_size: int | None = None, local_iterations: int = 3, batch_size: int | None = None,
        sparsities: Sequence[int] | None = None, n_folds: int = 5, min_rows: int = 5, secure: bool = False,
        private: GaussianNoise | None = None, class_weight: Any = None, random_state: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            sparsity, method=method, fit_intercept=fit_intercept, standardize=standardize, polish=polish, C=C,
            rounds=rounds, tol=tol, cohort_size=cohort_size, local_iterations=local_iterations, batch_size=batch_size,
            sparsities=sparsities, n_folds=n_folds, min_rows=min_rows, secure=secure, private=private,
            random_state=random_state,
        )  # fmt: skip
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> FedGradMPClassifier:
        """Fit the model; as `FedGradMPRegressor.fit`, with labels of any kind for y."""
        self._fit(X, y, groups, sample_weight)
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

    def _class_weights(self, y: Array, positive: Array) -> Any:
        if self.class_weight is None:
            return 1.0
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=y[positive])
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        return weights[places]

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


def _naming(error: ValueError, X: Any) -> ValueError:
    """An error about values that are no numbers, with the columns that hold them."""
    if "contains NaN" not in str(error) or "X contains" not in str(error):
        return error
    columns = getattr(X, "columns", None)
    bad = [j for j in range(np.shape(X)[1]) if _holds_nan(X[columns[j]] if columns is not None else X[:, j])]
    names = [columns[j] if columns is not None else j for j in bad]
    where = f"It is in the columns [{some_of(names, 10)}]; expected numbers there."
    return ValueError(f"{error}\n{where}") if bad else error


def _holds_nan(column: Any) -> bool:
    try:
        return bool(np.isnan(np.asarray(column.todense() if hasattr(column, "todense") else column, float)).any())
    except (TypeError, ValueError):
        return False
