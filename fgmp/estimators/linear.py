"""The two estimators, sparse linear regression and sparse logistic or softmax regression, and their bootstrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..advice import advise, check_batches, check_rows, quiet
from ..checks import check_integer, check_kind, check_number, check_option, check_sequence, check_truth
from ..federation import check_cohort
from ..frames import check_columns
from ..layers.privacy import GaussianNoise
from ..layers.secure_sums import SecureSum
from ..losses import LogisticLoss, Loss, SoftmaxLoss, SquaredLoss
from ..methods.support_solvers import Separated
from ..models import Array
from ..rounds import Reducer
from .fitting import ENOUGH, Fit, SparsityPath
from .sites import Table, groups_of, some_of

__all__ = ["Bootstrap", "FedGradMPClassifier", "FedGradMPRegressor", "SparseLinear", "SparsityPath"]

_SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
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


@dataclass(eq=False, repr=False)
class SparseLinear(BaseEstimator):  # type: ignore[misc]
    """Fitting, and the bootstrap; parameters as `FedGradMPRegressor` has them."""

    sparsity: int | str | None = None
    _: KW_ONLY
    method: str = "auto"
    fit_intercept: bool | str = True
    standardize: bool | str = "auto"
    polish: bool = True
    C: float = np.inf
    rounds: int = 20
    tol: float = 1e-2
    cohort_size: int | None = None
    local_iterations: int = 3
    batch_size: int | None = None
    sparsities: Sequence[int] | None = None
    n_folds: int = 5
    min_rows: int = 5
    secure: bool = False
    private: GaussianNoise | None = None
    random_state: Any = None

    def _check(self) -> None:
        """Every parameter by itself; the sparsities wait for the features."""
        check_option("method", self.method, ("auto", "fedgradmp", "shared"))
        check_truth("standardize", self.standardize, "auto")
        check_truth("fit_intercept", self.fit_intercept, *["per_group"] * (not is_classifier(self)))
        check_truth("polish", self.polish)
        check_truth("secure", self.secure)
        check_integer("n_folds", self.n_folds, at_least=2)
        for name in ("rounds", "local_iterations", "min_rows", "cohort_size", "batch_size"):
            if getattr(self, name) is not None or name not in ("cohort_size", "batch_size"):
                check_integer(name, getattr(self, name))
        check_number("tol", self.tol, at_least=0)
        if not (isinstance(self.C, float) and self.C == np.inf):
            check_number("C", self.C, above=0)
        check_kind("private", self.private, (GaussianNoise, type(None)), "a GaussianNoise or None")

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            Of a sparse one nothing is made dense but the columns of the support.
        y : array_like, shape (n_samples,)
            Numbers; of a classifier labels of any kind.
        groups : array_like, shape (n_samples,), optional
            Whose row it is; all rows are one group's by default.
        sample_weight : array_like, shape (n_samples,), optional
            A row of weight 2 counts as two rows; one of weight 0 is as if it were not there.
        """
        self._check()
        check_columns(X)
        given, how = (X, y, groups), {"y_numeric": not is_classifier(self), "ensure_min_samples": 2}
        try:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **how)
        except ValueError as error:
            if "X contains NaN" not in str(error):
                raise
            X = check_array(X, accept_sparse="csc", ensure_all_finite=False)
            where = self._named(np.asarray((X != X).sum(axis=0)) > 0, 10)
            raise ValueError(f"{error}\nIt is in the columns {where}; expected numbers there.") from None
        weights = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("sample_weight is zero for every row; expected at least one positive weight.")
        labels, codes, weights = groups_of(len(y), groups, weights, self.min_rows)
        targets, loss, weighed = self._targets(y, weights)
        self.groups_ = labels[np.unique(codes[weights > 0])]
        self._fit_over(Table(X, targets, weighed, codes, loss))
        self._given = *given, weights, np.where(weights > 0, codes, -1)
        return self

    def fit_sites(self, sites: Any, groups: Any, names: Any, classes: Any, say: Callable[..., Any]) -> Self:
        """Fit to sites whose rows are elsewhere; `fgmp.flower.fit_over` calls it."""
        self._check()
        if getattr(self, "class_weight", None) is not None:
            raise ValueError(f"class_weight is {self.class_weight!r}; expected None where rows are elsewhere")
        self.groups_, self.n_features_in_ = np.asarray(groups), len(names)
        self.feature_names_in_ = np.asarray(names, object)
        if classes is not None:
            self.classes_ = np.asarray(classes)
        self._fit_over(sites, say)
        return self

    def _fit_over(self, sites: Any, say: Callable[..., Any] = lambda *told: None) -> None:
        """Fit to sites, whoever they are, whose groups and classes are known."""
        shape, rows = sites.shape, list(sites.shape.rows)
        check_cohort(self.cohort_size, len(rows))
        grid = self._grid(shape.n_features, sum(rows))
        for of_the_last_fit in ("cv_", "intercepts_"):
            self.__dict__.pop(of_the_last_fit, None)
        fit = Fit(self, sites, int(check_random_state(self.random_state).randint(2**31 - 1)), self._reducer(), say)
        try:
            table, constant = fit.fit(grid)
        except Separated:
            found = "The classes are separated without error on the features taken, so that their coefficients have no"
            raise ValueError(f"{found} bound with C={self.C!r}; a finite C gives them one.") from None
        model = table.reshape(len(table), -1)
        self.coef_, self.intercept_ = model[1:].T.copy(), model[0].copy()
        self.support_ = np.flatnonzero(np.any(self.coef_ != 0, axis=0))
        if not is_classifier(self):
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        self._advise(constant, rows, fit.columns(self.sparsity_))

    def _advise(self, constant: Array, rows: list[int], columns: int) -> None:
        """Say which columns have no part, whether rounds ran out or no feature was taken, and which sites are small."""
        if constant.any():
            advise(f"Features {self._named(constant, 20)} are constant: their coefficients are zero.")
        objective = self.history_.get("objective", np.zeros(1))[: self.n_iter_ + 1]
        last, all_of_them = -np.diff(objective)[-1:], objective[0] - objective[-1]
        if self.n_iter_ == self.rounds > 1 and (last > self.tol * all_of_them).any():
            did = f"the last of {self.rounds} did more than tol={self.tol:g} of what all did to the objective"
            advise(f"the rounds ran out: {did}; with more rounds the features may be better", ConvergenceWarning)
        if not len(self.support_):
            advise("no feature is in the model: none that was tried lowers the loss on all rows")
        if self.method_ == "fedgradmp":
            check_batches(self.batch_size, rows)
            if not is_classifier(self):
                check_rows(columns, rows, ENOUGH * columns)

    def _named(self, columns: Array, most: int) -> str:
        """Some columns by name, or place."""
        names = getattr(self, "feature_names_in_", np.arange(len(columns)))
        return f"[{some_of(names[columns].tolist(), most)}]"

    def _reducer(self) -> Reducer | None:
        """Who adds up: plainly, under masks, or with noise, of which nothing may be exact beside it."""
        if self.private is None:
            return SecureSum() if self.secure else None
        exact = {name: getattr(self, name) for name in ("standardize", "fit_intercept", "polish", "secure")}
        exact |= {"sparsity": isinstance(self.sparsity, str), "method": self.method == "shared"}
        if wrong := ", ".join(f"{name}={getattr(self, name)!r}" for name, given in exact.items() if given):
            raise ValueError(
                f"private is given with {wrong}: units, paths, masks and closing exchanges are exact sums; expected an "
                "integer sparsity, no method 'shared', and standardize, fit_intercept, polish and secure False"
            )
        return self.private

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
        n_resamples = check_integer("n_resamples", n_resamples)
        check_option("over", over, ("groups", "rows"))
        if over == "groups" and len(self.groups_) < 2:
            raise ValueError("groups has one group; expected at least two for over='groups' (or over='rows')")
        (X, y, groups, weights, codes), rng, fits = self._given, check_random_state(random_state), []
        for _ in range(n_resamples):
            drawn = weights * self._drawn(np.asarray(y), codes, over, rng)
            again = clone(self).set_params(sparsity=self.sparsity_, min_rows=1)
            if self.cohort_size is not None:
                again.cohort_size = min(self.cohort_size, len(np.unique(codes[drawn > 0])))
            with quiet():  # the fit has spoken
                fits.append(np.atleast_2d(again.fit(X, y, groups=groups, sample_weight=drawn).coef_))
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return Bootstrap(np.array(fits), np.atleast_2d(self.coef_), tuple(map(str, names)))

    def _drawn(self, y: Array, codes: Array, over: str, rng: Any) -> Array:
        """How often each row was drawn, alone or with its group; a draw that misses a class is drawn again."""
        groups, counts = [np.flatnonzero(codes == code) for code in np.unique(codes[codes >= 0])], np.zeros(len(codes))
        for _ in range(_TRIES):
            sizes = [len(groups)] if over == "groups" else map(len, groups)
            draws = [rng.multinomial(size, np.full(size, 1 / size)) for size in sizes]
            for rows, times in zip(groups, draws[0] if over == "groups" else draws, strict=True):
                counts[rows] = times
            if np.isin(getattr(self, "classes_", []), y[counts > 0]).all():
                return counts
        raise ValueError(f"{_TRIES} draws in a row missed a class; expected classes in more groups (or over='rows')")

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
        the dense model, by the same sums, for up to 5,000 features. None is 10, or all where there are fewer.
    method : {"auto", "fedgradmp", "shared"}
        Who finds the features: ``"auto"`` is `fgmp.FedGradMP`, but `fgmp.SharedSupportGradMP` where the smallest group
        has no more than twice as many rows as a client solves for coefficients: 3 T, or all features, and an
        intercept. The path begins at T: 20, or 2.5 tau, but no more than all features or a third of the rows.
    fit_intercept : True, "per_group" or False
        ``"per_group"`` gives each group one of its own: each centres its own rows, as the within estimator for panel
        data does.
    standardize : {"auto"} or bool
        Whether features compete for the support in units of their standard deviation (about zero, where there is no
        intercept). ``"auto"`` does so where X is dense: in units of deviations words that hardly occur would win.
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
        Into how many folds each group deals its rows for ``"cv"``: all that is fitted comes from the rows that train.
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
    support_, groups_ : ndarray
        The features with a coefficient that is not zero, and the groups that take part.
    sparsity_, method_, n_iter_ : int, str, int
        tau and the method, as given or chosen; and its rounds.
    history_ : dict of ndarray
        As that of `fgmp.simulation.Result`. The first entry includes the sums for the units; the last one is of the
        closing exchange, and its rounds and bytes are those of everything that was sent, a choice of tau included.
    cv_ : SparsityPath
        Where the sparsity was chosen: `table`, `chosen`, `plot`.
    """

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Predictions, shape (n_samples,).

        With ``fit_intercept="per_group"`` the intercept is that of the group that `groups`, shape (n_samples,), names
        for each row; rows of groups that took no part, and all rows where it is not given, get the mean intercept.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        linear = safe_sparse_dot(X, self.coef_, dense_output=True) + self.intercept_
        if groups is None or not hasattr(self, "intercepts_"):
            return np.asarray(linear)
        groups = np.asarray(groups).reshape(-1)
        check_consistent_length(linear, groups)
        if strange := sorted(set(groups.tolist()) - set(self.intercepts_)):
            advise(f"groups [{some_of(strange, 5)}] took no part in the fit: their rows get the mean intercept")
        own = [self.intercepts_.get(group, self.intercept_) for group in groups.tolist()]
        return np.asarray(linear - self.intercept_ + own)

    def _targets(self, y: Array, weights: Array) -> tuple[Array, Loss, Array]:
        """As they are; the loss; and what rows weigh."""
        return y.astype(np.float64, copy=False), SquaredLoss(), weights


@dataclass(eq=False, repr=False)
class FedGradMPClassifier(LinearClassifierMixin, SparseLinear):  # type: ignore[misc]
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

    C: float = 1.0
    class_weight: Any = None

    def predict_proba(self, X: Any) -> Array:
        """Probabilities, shape (n_samples, n_classes)."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        scores = self.decision_function(X)
        scores = scores if scores.ndim > 1 else np.column_stack([np.zeros_like(scores), scores])
        return np.asarray(log_softmax(scores, axis=1))

    def _targets(self, y: Array, weights: Array) -> tuple[Array, Loss, Array]:
        """Signs, or codes from 0 for several classes; the loss; and what rows weigh with their classes."""
        check_classification_targets(y)
        positive = weights > 0
        self.classes_ = np.unique(y[positive])  # a class of which every row has weight zero is not there
        n_classes = len(self.classes_)
        if n_classes < 2:
            found = f"the data contains only one class: {self.classes_[0]!r}"
            raise ValueError(f"This solver needs samples of at least 2 classes in the data, but {found}")
        codes = np.searchsorted(self.classes_, y).clip(max=n_classes - 1)
        if self.class_weight is not None:
            weights = weights * compute_class_weight(self.class_weight, classes=self.classes_, y=y[positive])[codes]
        return (codes, SoftmaxLoss(n_classes), weights) if n_classes > 2 else (2.0 * codes - 1, LogisticLoss(), weights)
