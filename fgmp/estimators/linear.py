"""The two estimators: sparse linear regression, and sparse logistic or softmax regression.

They have the interface of scikit-learn: `fit`, `predict`, `score`, parameters that are set by name,
and fitted attributes that end with an underscore. This module checks what a user passes, starts
the fit (`fgmp.estimators.fitting`), sets its result as attributes, and gives advice.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from importlib.metadata import version
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np
from joblib import delayed
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from .._support.displays import HistoryTable
from .._support.optional import needs
from .._support.progress import ProgressLine
from .._support.tables import check_features
from .._support.validation import (
    as_array,
    as_labels,
    as_numbers,
    check_bool,
    check_integer,
    check_kind,
    check_number,
    check_option,
    check_sequence,
    refuse_missing,
    short_repr,
)
from .._support.warnings import (
    advise_once,
    is_called_by_model_selection,
    suppress_advice,
    warn_of_small_batches,
    warn_user,
)
from ..aggregation import Aggregator
from ..losses import LogisticLoss, Loss, SoftmaxLoss
from ..privacy.ledger import Ledger
from ..privacy.masking import Sessions
from ..privacy.noise import GaussianNoise
from ..privacy.secure_sums import SecureSum, TooLarge
from ..recording import Run
from ..shared_support.newton import Separated
from ..simulation import check_cohort
from ..sparse_model import Array, IndexArray
from .bootstrap import Bootstrap, draw_counts, draw_multiplicities, run_with_bar
from .client_sums import BeyondRange
from .clients import FitClients
from .encoding import (
    MISSING_RULES,
    Encoding,
    EncodingPlan,
    RawTable,
    category_keys,
    columns_of_names,
    plan_of,
)
from .federated_table import LOSSES_OF_NUMBERS, FederatedTable
from .fitting import FittedModel, fit_model
from .groups import encode_groups, group_of_each_row, preview
from .inputs import (
    N_NAMED,
    as_random_state,
    columns_not_finite,
    refuse_overflow,
    warn_of_other_indices,
    weights_of_rows,
)
from .own_intercepts import intercept_of_group, intercepts_by_group
from .performance import Performance, measure_performance
from .raw_clients import RawClients, RawTableClients, agree_on_encoding
from .report import FitReport, report_of, sent_of
from .resampling import ResampledClients
from .selection_path import SparsityPath, most_identifiable
from .session import (
    Announce,
    FitSettings,
    Report,
    Session,
    announce_nothing,
    round_in_words,
)
from .small_cells import (
    WHAT_SMALL_CELLS_BECOME,
    fill_small_cells_of_groups,
    is_small,
    rare_classes_of_groups,
)
from .summary import Summary, names_of_features, summarize
from .unit_check import UnusualColumn
from .weighted_loss import rows_counted

__all__ = [
    "Bootstrap",
    "Encoding",
    "FedGradMPClassifier",
    "FedGradMPRegressor",
    "FitReport",
    "Performance",
    "SparsityPath",
    "Summary",
]

# The sparsities that "cv" chooses from.
_SPARSITIES = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
_DEFAULT_SPARSITY = 10
# Each C that C="cv" chooses from.
_STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
# C of the dense model, and of labels, by default: the ridge weighs as much as one row.
_DEFAULT_STRENGTH = 1.0
# Of the mean weight of a row, in single precision.
_ROUNDING_OF_WEIGHTS = 1e-5
# `sparsity="all"` takes at most this number of features: their Hessian has 12 million numbers.
_MAX_DENSE_FEATURES = 5000
# folds="auto" holds out whole groups from this number of groups on. In simulations with 3 and 5
# groups that costs 4 to 5 % of the loss, at new groups too, and folds of rows cost 1 to 2 %: each
# fold takes a third of the rows away. With 12 and 40 groups the two are level at new groups.
_LEAST_GROUPS = 10
# The most constant columns that a warning names.
_N_CONSTANT_NAMED = 20

_IN_SKLEARN = "inside scikit-learn that is set_{}_request(groups=True), with its metadata routing"


class TrainingData(NamedTuple):
    """What `fit` was called with, for the bootstrap.

    Attributes
    ----------
    X, y, groups
        As they were passed, but for an X that was encoded: its rows, without small cells.
    weights : ndarray, shape (n_rows,)
        Weights of the rows, zero in groups that take no part.
    codes : ndarray of int, shape (n_rows,)
        The group of each row, and -1 if its weight is zero.
    """

    X: Any
    y: Any
    groups: Any
    weights: Array
    codes: IndexArray


def _words_on_choices(settings: FitSettings) -> str:
    """Return what the largest sparsity is, in words."""
    if settings.always_include or settings.block_of is not None:
        return "the number of features to choose from"
    return "the number of features"


def _report_nothing(words: str, run: Run, unit: float) -> None:
    """Report no progress."""


def _is_of_fit(name: str) -> bool:
    """Return whether an attribute is set by a fit; its name ends with an underscore then."""
    return name == "_training_data" or (name.endswith("_") and not name.endswith("__"))


@dataclass(eq=False, repr=False)
class SparseLinear(BaseEstimator):  # type: ignore[misc]
    """Base of both estimators: fitting and the bootstrap; parameters as in `FedGradMPRegressor`."""

    sparsity: int | str | None = None
    _: KW_ONLY
    method: str = "auto"
    fit_intercept: bool | str = True
    standardize: bool | str = "auto"
    polish: bool = True
    C: float | str = "auto"
    rounds: int = 20
    tol: float = 1e-2
    cohort_size: int | None = None
    local_iterations: int = 3
    batch_size: int | None = None
    sparsities: Sequence[int] | None = None
    folds: str = "auto"
    n_folds: int = 5
    min_rows: int = 5
    secure: bool = False
    private: GaussianNoise | None = None
    random_state: Any = None
    verbose: bool | str = "auto"
    always_include: Any = None
    missing: str = "error"
    categories: Any = None

    # Fitting.

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            The features. Of a sparse matrix only the columns of the support become dense.
        y : array_like, shape (n_samples,)
            Numbers, or for a classifier labels: numbers or text.
        groups : array_like, shape (n_samples,), optional
            The group of each row; by default all rows are of one group.
        sample_weight : array_like, shape (n_samples,), or float, optional
            A row of weight 2 counts as two rows; one of weight 0 is left out. Weights that are not
            all whole numbers, as those of a survey, are relative: rows are counted as rows, and the
            scale of weights plays a part in two places only. A number for `C` is relative to it, as
            in scikit-learn, and so are model-based errors of labels and counts (`summary`). A
            number is the weight of all rows.

        Notes
        -----
        A fit that fails or is interrupted changes nothing: the model is the one of before, if there
        was any.
        """
        fitted = self._unfitted()
        fitted._fit(X, y, groups, sample_weight)
        return self._take_fit_of(fitted)

    def _unfitted(self) -> Self:
        """Return an estimator with the same parameters, and with nothing that a fit has set."""
        other = object.__new__(type(self))
        other.__dict__.update(
            (name, value) for name, value in vars(self).items() if not _is_of_fit(name)
        )
        return other

    def _take_fit_of(self, fitted: Self) -> Self:
        """Set all fitted attributes at once, and return this estimator.

        A fit sets them on an estimator of its own, one after another. It is interrupted before or
        after this assignment, and never within it.
        """
        self.__dict__ = fitted.__dict__
        return self

    def _fit(
        self, X: Any, y: Any, groups: Any, sample_weight: Any, counted: Array | None = None
    ) -> None:
        """Fit an estimator that has no fitted attributes; parameters as in `fit`.

        The number of rows that each row stands for is given for a resample, whose weights alone do
        not tell it.
        """
        self._check_parameters()
        warn_of_other_indices(X, y=y, groups=groups, sample_weight=sample_weight)
        passed = X, y, groups
        plan = None
        if self._is_encoded:
            plan, table, y = self._read_table(X, y)
            X = table.numbers
        else:
            X, y = self._validated(X, self._validated_targets(y), ensure_min_samples=2)
            refuse_overflow(X, None if is_classifier(self) else y, self._names_of)
        weights = weights_of_rows(sample_weight, X, X.dtype)
        self._advise_on_missing_groups(groups)
        n_rows_passed = int(np.count_nonzero(weights))

        # With noise numbers of rows are data: nothing may depend on them.
        min_rows = self.min_rows if self.private is None else 1
        labels, codes, weights = encode_groups(len(y), groups, weights, min_rows)
        if self.secure and len(labels) < 2:
            raise ValueError(
                "secure is True, and all rows are one group; expected at least two, whose masks "
                f"hide what each sends. fit takes groups=...; {_IN_SKLEARN.format('fit')}"
            )
        targets, loss, class_weights = self._targets(y, weights)
        takes_part = np.isin(np.arange(len(labels)), codes[weights > 0])
        self.groups_ = labels[takes_part]
        self.missing_ = labels[~takes_part]
        self.n_rows_left_out_ = n_rows_passed - int(np.count_nonzero(weights))

        codes_of_rows = np.where(weights > 0, codes, -1)
        if plan is not None:
            table = self._without_small_cells(table, plan, codes_of_rows, min_rows)
            passed = table, *passed[1:]
        if groups is None:
            min_rows = 1
        if min_rows > 1:
            self._advise_on_rare_classes(loss, targets, codes_of_rows)
        verbose = self.verbose
        if verbose == "auto" and is_called_by_model_selection():
            verbose = False  # the lines of several fits would be one heap
        progress = ProgressLine(verbose, "fit")

        def report_round(words: str, run: Run, unit: float) -> None:
            progress.show(round_in_words(words, run, unit))

        if counted is None:
            counted = rows_counted(weights)
        try:
            if plan is None:
                clients = FederatedTable(X, targets, class_weights, codes, loss, min_rows, counted)
                self._fit_clients(clients, report_round, progress.show)
            else:
                raw = RawTableClients(table, targets, class_weights, codes, loss, min_rows, counted)
                self._fit_raw_clients(raw, plan, report_round, progress.show)
        finally:
            progress.close()
        self._training_data = TrainingData(*passed, weights, codes_of_rows)

    def fit_sites(
        self, clients: Any, groups: Any, names: Any, classes: Any, report: Report
    ) -> Self:
        """Fit to clients on other machines; `fgmp.flower.fit_over` calls this method.

        Parameters
        ----------
        clients : FitClients
            The clients; `RawClients`, too, with categories or ``missing="indicator"``.
        groups : sequence
            Their names.
        names : sequence of str
            Names of the features.
        classes : sequence or None
            The labels of a classifier, increasing.
        report : callable (words, run, unit)
            As in `Session`.
        """
        fitted = self._unfitted()
        fitted._fit_sites(clients, groups, names, classes, report)
        return self._take_fit_of(fitted)

    def _fit_sites(
        self, clients: Any, groups: Any, names: Any, classes: Any, report: Report
    ) -> None:
        """Fit an estimator that has no fitted attributes; parameters as in `fit_sites`."""
        self._check_parameters()
        class_weight = getattr(self, "class_weight", None)
        if class_weight is not None:
            raise ValueError(
                f"class_weight is {class_weight!r}; expected None where rows are elsewhere"
            )
        self.groups_ = np.asarray(groups)
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.asarray(names, object)
        if classes is not None:
            self.classes_ = np.asarray(classes)
        plan = plan_of(self._input_names(), self.categories, self.missing)
        if plan is None:
            self._fit_clients(clients, report)
        else:
            self._fit_raw_clients(clients, plan, report)
        absent = clients.absent
        self.groups_ = np.asarray([name for name in groups if name not in absent])
        self.missing_ = np.asarray(absent, str)
        rows = getattr(getattr(self, "covariance_", None), "class_rows", None)
        if rows is not None:  # sums of rows, which have no weights
            is_rare = is_small(np.round(rows, 6), self.min_rows)
            self._warn_of_rare_classes_of_all(np.flatnonzero(is_rare).tolist())

    def _fit_raw_clients(
        self,
        raw: RawClients,
        plan: EncodingPlan,
        report: Report,
        announce: Announce = announce_nothing,
    ) -> None:
        """Have clients agree on an encoding, and fit the model to their columns of numbers."""
        session = None
        if self._fixed_encoding is None:
            if self.secure and plan.open_categories:
                names = [plan.names[index] for index in plan.open_categories]
                raise ValueError(
                    f"categories names {names} without levels, and secure is True; expected "
                    "categories={name: levels}, or every group would say in the open which levels "
                    "it has"
                )
            levels = plan.union(raw.levels())
            statistics = raw.statistics(levels)
            session = self._session(statistics, self._settings(statistics), report, announce)
            self.encoding_ = agree_on_encoding(session, plan, levels)
        else:
            self.encoding_ = self._fixed_encoding
        self._fit_clients(raw.encoded(self.encoding_), report, announce, session)

    def _session(
        self,
        clients: FitClients,
        settings: FitSettings,
        report: Report,
        announce: Announce,
    ) -> Session:
        """Return a session with clients."""
        self._check_cohort(len(clients.info.rows))
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))
        return Session(clients, settings, seed, self._aggregator(), report, announce)

    def _fit_clients(
        self,
        clients: FitClients,
        report: Report,
        announce: Announce = announce_nothing,
        session: Session | None = None,
    ) -> None:
        """Fit the model, set the fitted attributes, and give advice.

        A session that has begun with another view of the clients goes on.
        """
        n_rows = list(clients.info.rows)
        settings = self._settings(clients)
        grid = self._grid(settings, sum(n_rows))
        if session is None:
            session = self._session(clients, settings, report, announce)
        else:
            session = session.with_clients(clients, settings)
        try:
            fitted = fit_model(session, grid)
        except Separated as error:
            self._refuse_separated(error)
        except BeyondRange as error:
            self._refuse_units(error, settings.n_features)
        except TooLarge as error:
            self._refuse_beyond_masks(error, settings)
        self._set_fitted(fitted)
        self.exchanges_ = tuple(sent_of(run) for run in session.log if run.history["round"][-1])
        self._advise(fitted, settings, n_rows)

    def _set_fitted(self, fitted: FittedModel) -> None:
        """Set what the stages of a fit have found."""
        table = fitted.table.reshape(len(fitted.table), -1)
        self.coef_ = table[1:].T.copy()
        self.intercept_ = table[0].copy()
        self.support_ = np.flatnonzero(np.any(self.coef_ != 0, axis=0))
        if not is_classifier(self):
            self.coef_ = self.coef_[0]
            self.intercept_ = float(self.intercept_[0])

        self.method_ = fitted.method
        self.sparsity_ = fitted.sparsity
        self.C_ = fitted.C
        self.n_iter_ = fitted.n_rounds
        self.history_ = HistoryTable(fitted.history)
        self.fgmp_version_ = version("fgmp")
        if fitted.cross_validation is not None:
            self.cv_ = fitted.cross_validation
        if fitted.covariance is not None:
            self.covariance_ = fitted.covariance
        if fitted.intercepts is not None:
            self.intercepts_ = intercepts_by_group(self.groups_.tolist(), fitted.intercepts)

    def _settings(self, clients: FitClients) -> FitSettings:
        """Return the parameters with their defaults resolved."""
        is_per_client = isinstance(self.fit_intercept, str)
        standardize = self.standardize
        if isinstance(standardize, str):
            standardize = not clients.is_sparse
        strengths = _STRENGTHS if self.C == "cv" else (self._strength(),)
        unit = self._unit_of_strengths(clients)
        return FitSettings(
            info=clients.info,
            is_sparse=clients.is_sparse,
            total_weight=clients.total_weight,
            counted=clients.counted,
            n_intercepts=int(bool(self.fit_intercept) and not is_per_client),
            intercept_per_client=is_per_client,
            C=self._strength() / unit,
            strengths=tuple(C / unit for C in strengths),
            sparsity=self.sparsity,
            method=self.method,
            standardize=standardize,
            polish=self.polish,
            rounds=self.rounds,
            tol=self.tol,
            cohort_size=self.cohort_size,
            local_iterations=self.local_iterations,
            batch_size=self.batch_size,
            folds=self._folds(len(clients.info.rows)),
            n_folds=self.n_folds,
            is_secure=self.secure,
            is_private=self.private is not None,
            always_include=self._always_included(),
            block_of=self.encoding_.block_of() if hasattr(self, "encoding_") else None,
            indicators=self.encoding_.indicators() if hasattr(self, "encoding_") else (),
        )

    def _strength(self) -> float:
        """Return C as a number; the default one for "auto", and for "cv" until it is chosen."""
        if not isinstance(self.C, str):
            return self.C
        if is_classifier(self) or self.sparsity == "all":
            return _DEFAULT_STRENGTH
        return float("inf")

    def _unit_of_strengths(self, clients: FitClients) -> float:
        """Return what each C is divided by: the mean weight of a row, if no number is given.

        C is relative to the sum of the weights, and "auto" and "cv" stand for numbers of rows.
        """
        mean_weight = float(clients.total_weight / clients.counted.sum())
        is_one = math.isclose(mean_weight, 1, rel_tol=_ROUNDING_OF_WEIGHTS)
        return mean_weight if isinstance(self.C, str) and not is_one else 1.0

    def _folds(self, n_clients: int) -> str:
        """Return "rows" or "groups": with "auto" folds of groups if there are enough groups."""
        if self.folds != "auto":
            return self.folds
        return "groups" if n_clients >= _LEAST_GROUPS else "rows"

    def _aggregator(self) -> Aggregator | None:
        """Return the aggregator: the mean, a secure sum, or noise, which allows no exact sums."""
        if self.private is None:
            if not self.secure:
                return None
            return SecureSum(ledger=Ledger(), sessions=Sessions())
        asks_exact_sums = {
            "standardize": bool(self.standardize),
            "fit_intercept": bool(self.fit_intercept),
            "polish": self.polish,
            "secure": self.secure,
            "sparsity": isinstance(self.sparsity, str),
            "C": self.C == "cv",
            "method": self.method == "shared",
            "missing": self.missing != "error",
            "categories": bool(category_keys(self.categories)),
        }
        wrong = [
            f"{name}={getattr(self, name)!r}" for name, asks in asks_exact_sums.items() if asks
        ]
        if wrong:
            raise ValueError(
                f"private is given with {', '.join(wrong)}: units, paths, masks and closing "
                "exchanges have no noise; expected an integer sparsity, no method 'shared', no "
                "missing or categories, and standardize, fit_intercept, polish and secure False"
            )
        return self.private

    # Checks.

    def _check_parameters(self) -> None:
        """Check each parameter by itself; the sparsities are checked against the features later."""
        check_option("method", self.method, ("auto", "fedgradmp", "shared"))
        check_bool("standardize", self.standardize, "auto")
        check_bool("fit_intercept", self.fit_intercept, "per_group")
        check_option("missing", self.missing, MISSING_RULES)
        check_bool("polish", self.polish)
        check_bool("secure", self.secure)
        check_option("folds", self.folds, ("auto", "rows", "groups"))
        check_bool("verbose", self.verbose, "auto")
        check_integer("n_folds", self.n_folds, at_least=2)
        for name in ("rounds", "local_iterations", "min_rows"):
            check_integer(name, getattr(self, name))
        for name in ("cohort_size", "batch_size"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name))
        check_number("tol", self.tol, at_least=0)
        self._check_strength()
        check_kind("private", self.private, (GaussianNoise, type(None)), "a GaussianNoise or None")

    def _check_strength(self) -> None:
        """Check C: "auto", "cv", infinity, or a number above 0."""
        if isinstance(self.C, str):
            check_option("C", self.C, ("auto", "cv"))
        elif not (isinstance(self.C, float) and self.C == np.inf):
            check_number("C", self.C, above=0)

    def _check_cohort(self, n_clients: int) -> None:
        """Check that the cohort size fits the clients, and that secure sums are over all."""
        check_cohort(self.cohort_size, n_clients)
        if self.secure and (self.cohort_size or n_clients) < n_clients:
            raise ValueError(
                f"cohort_size is {self.cohort_size} of {n_clients} groups with secure=True; "
                "expected None: sums of other cohorts subtract to single groups"
            )

    def _grid(self, settings: FitSettings, n_rows: int) -> list[int]:
        """Return the sparsities to choose from, increasing; a single one if it is given."""
        n_features = settings.n_choices
        if self.sparsity is None:
            return [min(_DEFAULT_SPARSITY, n_features)]
        is_word = isinstance(self.sparsity, str)
        if is_word and self.sparsity == "all":
            if settings.n_features > _MAX_DENSE_FEATURES:
                raise ValueError(
                    f"X has {settings.n_features} features; expected at most "
                    f'{_MAX_DENSE_FEATURES} with sparsity="all"'
                )
            return [n_features]
        if is_word and self.sparsity == "cv":
            return self._grid_of_cross_validation(settings, n_rows)
        why = f"{_words_on_choices(settings)}; or 'all', 'cv', None"
        return [check_integer("sparsity", self.sparsity, at_least=0, at_most=n_features, why=why)]

    def _grid_of_cross_validation(self, settings: FitSettings, n_rows: int) -> list[int]:
        """Return the sparsities that "cv" chooses from."""
        n_features = settings.n_choices
        if self.sparsities is None:
            largest = max(n_rows // 2, 1)
            if n_features > n_rows:
                largest = most_identifiable(n_rows, self.n_folds, self.sparsity)
            return [sparsity for sparsity in _SPARSITIES if sparsity <= min(n_features, largest)]

        expected = "a sequence of integers, or None"
        sparsities = check_sequence("sparsities", self.sparsities, expected)
        check_integer("the number of sparsities", len(sparsities))
        why = _words_on_choices(settings)
        return sorted(
            {
                check_integer("sparsities", sparsity, at_least=0, at_most=n_features, why=why)
                for sparsity in sparsities
            }
        )

    # Columns of a table, and of numbers.

    # Set by the bootstrap before `fit`, so that all resamples have the same columns.
    _fixed_encoding: ClassVar[Encoding | None] = None

    @property
    def _is_encoded(self) -> bool:
        """Whether columns of a table become other columns of numbers."""
        return bool(category_keys(self.categories)) or self.missing != "error"

    def _input_names(self) -> list[str]:
        """Return the names of the columns of X; x0, x1, ... if it has none."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        return [str(name) for name in names]

    def _always_included(self) -> tuple[int, ...]:
        """Return the columns of numbers of what is always included."""
        if self.always_include is None:
            return ()
        indices = columns_of_names("always_include", self.always_include, self._input_names())
        if hasattr(self, "encoding_"):
            return self.encoding_.columns_of(sorted(indices))
        return tuple(sorted(indices))

    def _read_table(self, X: Any, y: Any) -> tuple[EncodingPlan, RawTable, Array]:
        """Return the plan of the encoding, the rows of X, and y.

        The rows of a resample were read before.
        """
        if isinstance(X, RawTable):
            plan = EncodingPlan.of(self._input_names(), self.categories, self.missing)
            return plan, X, column_or_1d(self._validated_targets(y))
        validate_data(self, X, skip_check_array=True)
        plan = EncodingPlan.of(self._input_names(), self.categories, self.missing)
        table = plan.read(X)
        plan.check_levels(table)
        names = np.asarray(plan.names)
        if hasattr(self, "feature_names_in_") and self._fixed_encoding is None:
            self._advise_on_codes(names[table.may_be_codes()].tolist())
        refuse_overflow(
            np.nan_to_num(table.numbers, nan=0.0),
            None,
            lambda mask, n_shown: f"[{preview(names[mask].tolist(), n_shown)}]",
        )
        return plan, table, self._vector_of_targets(X, y)

    def _without_small_cells(
        self, table: RawTable, plan: EncodingPlan, groups: IndexArray, min_rows: int
    ) -> RawTable:
        """Return the rows without the small cells of each group, of which a warning tells."""
        filled = fill_small_cells_of_groups(table, plan.names, groups, min_rows)
        if filled.cells:
            advise_once(
                "small cells",
                f"fewer than min_rows={min_rows} rows of a group have "
                f"{preview(filled.cells, N_NAMED)}: {WHAT_SMALL_CELLS_BECOME}. A smaller "
                "min_rows gives them columns, which tell of these rows",
            )
        return filled.table

    def _encoded(self, X: Any) -> Array:
        """Return the columns of numbers of a table that is to be predicted for."""
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.encoding_.transform(X, self.missing)

    def _validated(self, X: Any, y: Any = "no_validation", **options: Any) -> Any:
        """Return X, or X and y, as scikit-learn checks them; name columns that are not finite."""
        if hasattr(self, "encoding_") and isinstance(y, str):
            return self._encoded(X)
        X = check_features(X)
        if not isinstance(y, str):
            options["y_numeric"] = not is_classifier(self)
        try:
            return validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **options
            )
        except ValueError as error:
            message = str(error)
            if "X contains NaN" not in message and "X contains infinity" not in message:
                raise
            names = self._names_of(columns_not_finite(X), N_NAMED)
            raise ValueError(
                f"{error}\nIt is in the columns {names}; expected numbers there, or "
                "missing='indicator'."
            ) from None

    def _validated_targets(self, y: Any) -> Any:
        """Return numbers, or labels of one kind, none of them missing."""
        if y is None:  # which scikit-learn refuses
            return None
        if is_classifier(self):
            return as_labels("y", y, "a label")
        array = as_array("y", y)
        if array.dtype.kind == "O":
            refuse_missing("y", array, "a number")
        return as_numbers("y", array)

    def _targets(self, y: Array, weights: Array) -> tuple[Array, Loss, Array]:
        """Return targets as the loss takes them, the loss, and the weights of the rows with it."""
        raise NotImplementedError(f"{type(self).__name__} has no _targets")

    def _targets_of_fit(self, y: Array) -> tuple[Array, Loss]:
        """Return targets as the loss of the fit takes them, and the loss."""
        raise NotImplementedError(f"{type(self).__name__} has no _targets_of_fit")

    def _vector_of_targets(self, X: Any, y: Any) -> Array:
        """Return one number or label for each row; a column becomes a vector with a warning."""
        y = column_or_1d(self._validated_targets(y), warn=True)
        if not is_classifier(self):
            assert_all_finite(y, input_name="y")
        check_consistent_length(X, y)
        return np.asarray(y)

    def _targets_of_rows(self, X: Any, y: Any) -> Array:
        """Return the targets of rows for a fitted model; a classifier knows its labels."""
        targets = self._vector_of_targets(X, y)
        if is_classifier(self):
            # Not by `numpy.isin`, for which the number 1 is the text "1".
            known = set(self.classes_.tolist())
            unknown = [label for label in targets.tolist() if label not in known]
            if unknown:
                raise ValueError(
                    f"y holds {short_repr(unknown[0])}; expected the labels of the fit, "
                    f"{self.classes_.tolist()}"
                )
        return targets

    def _names_of(self, is_named: Array, n_shown: int) -> str:
        """Return the names of the columns of a mask as text."""
        names = getattr(self, "feature_names_in_", np.arange(len(is_named)))
        if hasattr(self, "encoding_"):
            names = np.asarray(self.encoding_.column_names())
        return f"[{preview(names[is_named].tolist(), n_shown)}]"

    # Errors of a fit, in the words of a user.

    def _refuse_separated(self, error: Separated) -> NoReturn:
        """Raise a ValueError for classes that leave the coefficients without a bound."""
        problem = "The classes are separated without error on the features taken"
        if error.in_part:
            problem = (
                "The classes are separated in part on the features taken, and no row is against it "
                "that would count"
            )
        raise ValueError(
            f"{problem}, so that their coefficients have no bound with C={self._strength()!r}; "
            "a finite C gives them one."
        ) from None

    def _refuse_units(self, error: BeyondRange, n_features: int) -> NoReturn:
        """Raise a ValueError for columns that one client counts in very different units."""
        is_beyond = np.isin(np.arange(n_features), error.columns)
        subject = "y has numbers"
        if is_beyond.any():
            subject = f"X has columns {self._names_of(is_beyond, N_NAMED)}"
        raise ValueError(
            f"{subject} that one site counts in units too far from those of the others for sums "
            "under masks; expected the same units at all sites"
        ) from None

    def _refuse_beyond_masks(self, error: TooLarge, settings: FitSettings) -> NoReturn:
        """Raise a ValueError for sums beyond the range of masks.

        If the sum has one number for each coefficient, the message names the columns.
        """
        n_columns = settings.n_intercepts + settings.n_features
        subject = "X or y has"
        if error.size == n_columns * settings.n_outputs:
            columns = np.unique(error.indices // settings.n_outputs) - settings.n_intercepts
            is_beyond = np.isin(np.arange(settings.n_features), columns)
            if is_beyond.any():
                subject = f"X has in the columns {self._names_of(is_beyond, N_NAMED)}"
        raise ValueError(
            f"{subject} units in which {error}; standardize=True and the same units at all sites "
            "bring them there"
        ) from None

    # Advice.

    def _advise_on_missing_groups(self, groups: Any) -> None:
        """Warn if no groups are passed inside scikit-learn, or where each has an intercept."""
        if groups is None and self.fit_intercept != "per_group" and is_called_by_model_selection():
            advise_once(
                "fit without groups",
                "a fit inside scikit-learn got no groups: all rows are one group. Its folds know "
                f"no groups either. {_IN_SKLEARN.format('fit')}",
            )
        if groups is None and self.fit_intercept == "per_group":
            advise_once(
                "fit without groups",
                "fit_intercept is 'per_group', and no groups are given: all rows are one group, "
                f"with one intercept. fit takes groups=...; {_IN_SKLEARN.format('fit')}",
            )

    def _advise_on_rare_classes(self, loss: Loss, targets: Array, groups: IndexArray) -> None:
        """Warn of classes of which a group has few rows, or with masks all groups together."""
        if self.secure:
            found = rare_classes_of_groups(loss, targets, np.minimum(groups, 0), self.min_rows)
            self._warn_of_rare_classes_of_all([label for _, label in found])
            return
        names = self.groups_.tolist()
        codes = np.unique(groups[groups >= 0]).tolist()
        words = [
            f"{self.classes_.tolist()[label]!r} at the group {names[codes.index(group)]!r}"
            for group, label in rare_classes_of_groups(loss, targets, groups, self.min_rows)
        ]
        if words:
            more = f" and {len(words) - N_NAMED} more" if len(words) > N_NAMED else ""
            advise_once(
                "rare classes",
                f"fewer than min_rows={self.min_rows} rows are of the class "
                f"{', '.join(words[:N_NAMED])}{more}: they take part, and the sums of a group tell "
                "of them in the open; secure=True adds up the rows of all groups first",
            )

    def _warn_of_rare_classes_of_all(self, labels: list[int]) -> None:
        """Warn of classes, by their indices, of which all groups together have few rows."""
        if labels:
            names = preview([self.classes_.tolist()[label] for label in labels], N_NAMED)
            advise_once(
                "rare classes of all",
                f"fewer than min_rows={self.min_rows} rows of all groups are of the class {names}: "
                "the model tells of them",
            )

    def _advise_on_codes(self, names: list[str]) -> None:
        """Warn of columns, given by name, of numbers that may be codes of kinds."""
        if names:
            advise_once(
                "codes",
                f"the columns [{preview(names, N_NAMED)}] hold a few whole numbers, and enter the "
                "model as amounts: where they are codes of kinds, name them in categories=[...]",
            )

    def _advise(self, fitted: FittedModel, settings: FitSettings, n_rows: list[int]) -> None:
        """Warn of constant columns, of rounds that ran out, of an empty model, of small batches."""
        if fitted.is_constant.any():
            names = self._names_of(fitted.is_constant, _N_CONSTANT_NAMED)
            warn_user(
                f"Features {names} are constant, or so small that their squares are zero: "
                "their coefficients are zero."
            )
        if fitted.intercepts is not None and len(self.intercepts_) < len(self.groups_):
            without = [name for name in self.groups_.tolist() if name not in self.intercepts_]
            warn_user(
                f"the rows of the groups [{preview(without, 5)}] determine no intercept of their "
                "own: a class is missing there, or every count is zero. predict gives them the "
                "common one"
            )
        if fitted.unusual:
            advise_once("units", self._words_on_units(fitted.unusual))
        if self._rounds_ran_out(fitted):
            warn_user(
                f"the rounds ran out: the last of {self.rounds} did more than tol={self.tol:g} of "
                "what all did to the objective; with more rounds the features may be better",
                ConvergenceWarning,
            )
        if not len(self.support_):
            warn_user(self._reason_of_empty_model(fitted))
        self._advise_on_edges(fitted, settings)
        # With noise numbers of rows are data, and nothing is revealed of them.
        if fitted.method == "fedgradmp" and self.private is None:
            warn_of_small_batches(self.batch_size, n_rows)

    def _advise_on_edges(self, fitted: FittedModel, settings: FitSettings) -> None:
        """Warn if cross-validation has chosen the end of what it tried, and could go further.

        The largest C is no such end: a ridge of a hundredth of a row is none. Nor is a number of
        features of which there are no more, or no more than the rows can tell apart.
        """
        if fitted.cross_validation is None or not len(self.support_):
            return
        tried = fitted.cross_validation.table
        most = int(tried["sparsity"].max())
        is_choice = self.sparsity == "cv" and most > tried["sparsity"].min()
        may_go_on = self.sparsities is not None or most == _SPARSITIES[-1]
        if is_choice and may_go_on and fitted.sparsity == most < settings.n_choices:
            advise_once(
                "largest sparsity",
                f"sparsity='cv' has chosen {most}, the largest number that it tried: more "
                "features may predict better. sparsities=[...] goes further, and 'all' takes all",
            )
        if self.C == "cv" and fitted.C == tried["C"].min():
            advise_once(
                "smallest C",
                f"C='cv' has chosen {fitted.C:g}, the smallest that it tried: a smaller C, given "
                "as a number, may predict better, or the features say little",
            )

    def _words_on_units(self, unusual: Sequence[UnusualColumn]) -> str:
        """Return which columns some groups seem to count in other units, and which group it is."""
        names = [*names_of_features(self), "y"]
        n_groups = len(self.groups_)
        parts = []
        for found in unusual[:N_NAMED]:
            where = f"{found.n_clients} of {n_groups} groups"
            if found.client_index is not None:
                where = f"the group {self.groups_.tolist()[found.client_index]!r}"
            parts.append(f"{names[found.column]!r} at {where}")
        if len(unusual) > N_NAMED:
            parts.append(f"{len(unusual) - N_NAMED} more")
        return (
            "columns whose spread or mean is far off that of the other groups: "
            f"{', '.join(parts)}. "
            "They enter the model as they are; expected the same units in all groups"
        )

    def _rounds_ran_out(self, fitted: FittedModel) -> bool:
        """Return whether the last of all rounds still lowered the objective by much."""
        if fitted.n_rounds != self.rounds or self.rounds == 1:
            return False
        objective = fitted.history.get("objective", np.zeros(1))[: fitted.n_rounds + 1]
        total_gain = objective[0] - objective[-1]
        last_gain = -np.diff(objective)[-1:]
        return bool((last_gain > self.tol * total_gain).any())

    def _reason_of_empty_model(self, fitted: FittedModel) -> str:
        """Return why no feature is in the model."""
        if self.sparsity == "cv" and fitted.sparsity == 0:
            return (
                "no feature is in the model: rows that were held out are predicted as well "
                "without, see cv_.table"
            )
        return "no feature is in the model: none that was tried lowers the loss on all rows"

    # Predictions.

    def _linear_predictions(self, X: Any, groups: Any) -> Array:
        """Return coefficients times features, and the intercept of the group of each row."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        predictions = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        names = None
        if groups is not None and self._has_own_intercepts:
            names = group_of_each_row(len(predictions), groups).tolist()
        self._advise_on_intercepts(names)
        if names is None or not hasattr(self, "intercepts_"):
            return np.asarray(predictions)

        # A number as the others are, unless there are several classes.
        common = np.squeeze(self.intercept_)
        intercepts = [self.intercepts_.get(name, common) for name in names]
        return np.asarray(predictions - self.intercept_ + np.reshape(intercepts, predictions.shape))

    @property
    def _has_own_intercepts(self) -> bool:
        """Whether each group has an intercept of its own, known here or kept by masks."""
        return hasattr(self, "intercepts_") or self.fit_intercept == "per_group"

    def _advise_on_intercepts(self, names: Sequence[Any] | None) -> None:
        """Warn of groups that have no intercept of their own, or if no groups are given (None)."""
        if not self._has_own_intercepts:
            return
        own = getattr(self, "intercepts_", {})
        if names is None:
            if len(own) > 1:
                advise_once(
                    "predict without groups",
                    "each group has an intercept of its own, and no groups are given: all rows get "
                    "the common intercept. predict, score and performance take groups=...; "
                    f"{_IN_SKLEARN.format('score')}",
                )
            return

        unknown = {name for name in names if name not in own}
        if unknown:
            ordered = sorted(unknown, key=lambda name: (type(name).__name__, str(name)))
            reason = "they took no part in the fit, or their rows determine none"
            if self.secure:
                reason = "under masks it stays with the group, which intercept_of gives it"
            warn_user(
                f"groups [{preview(ordered, 5)}] have no intercept of their own: {reason}. Their "
                "rows get the common intercept"
            )

    def intercept_of(self, X: Any, y: Any, sample_weight: Any = None) -> float | Array:
        """Return the intercept that fits the rows of one group best, given the coefficients.

        With ``fit_intercept="per_group"`` a group works out its own where its rows are: under
        masks, where the fit returns none, and for a group that took no part. `predict` uses what is
        in ``model.intercepts_[group]``, a dict, which a fit under masks does not make.

        Parameters
        ----------
        X, y, sample_weight
            The rows of the group, as in `fit`. A classifier takes the labels of its fit.

        Returns
        -------
        float or ndarray, shape (n_classes,)
            As the values of `intercepts_`: an array with several classes.

        Raises
        ------
        ValueError
            If the rows determine none: all are of one class, or no count is above zero. If y has
            not one value for each row, or labels in y are none of the fit.

        Examples
        --------
        >>> import numpy as np
        >>> import fgmp
        >>> X = np.random.default_rng(0).standard_normal((60, 3))
        >>> groups = np.repeat(["A", "B", "C"], 20)
        >>> y = 2 * X[:, 1] + np.repeat([0.0, 5.0, 10.0], 20)
        >>> model = fgmp.FedGradMPRegressor(1, fit_intercept="per_group").fit(X, y, groups)
        >>> round(model.intercept_of(X[:5], 2 * X[:5, 1] + 7), 6)
        7.0
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        y = self._targets_of_rows(X, y)
        weights = weights_of_rows(sample_weight, X)
        predictions = safe_sparse_dot(X, self.coef_.T, dense_output=True)
        if predictions.ndim > 1 and predictions.shape[1] == 1:
            predictions = predictions[:, 0]
        targets, loss = self._targets_of_fit(y)
        return intercept_of_group(loss, predictions, targets, weights)

    # How sure: standard errors, and the bootstrap.

    def summary(self, level: float = 0.95) -> Summary:
        """Return coefficients with standard errors and intervals, given the chosen features.

        The errors are model-based, and site-robust: a cluster sandwich with the groups as clusters.
        Both come from sums that the fit has made, over a network and under masks, too. The choice
        of the features is in neither, and `bootstrap` shows how often a feature is chosen again.

        Parameters
        ----------
        level : float, default 0.95
            The coverage of the intervals, above 0 and at most 1.

        Returns
        -------
        Summary
            A table with notes. ``to_frame()`` returns it for pandas, and `columns` has the arrays.

        Raises
        ------
        ValueError
            If the fit had no minimiser (``polish=False``), was private, or has more than 1,000
            coefficients.

        Notes
        -----
        Model-based errors are those of least squares, with the residual variance over n - k, or of
        maximum likelihood. With a finite C, A is the Hessian H of the mean loss and the ridge, and
        the covariance A^-1 H A^-1 / n is that of a ridge estimate about its own mean. The sandwich
        is A^-1 M A^-1, with M the sum of the outer products of the gradients of the groups, times
        G/(G-1) (n-1)/(n-k), the finite-sample correction of statsmodels and Stata. Under masks
        there is none with fewer than four groups, because the sum would tell one of them the
        gradients of the others. With an intercept for each group k counts these, as a column for
        each group would.

        Weights that are whole numbers are numbers of rows, as `freq_weights` of statsmodels: a row
        of weight 2 counts as two rows, in n too. Any others are relative, as the weights of its
        `WLS` and `var_weights`, and n is the number of rows: no error of the squared loss, and no
        sandwich, depends on their scale. Model-based errors of labels and counts, whose variance is
        not estimated, do, in statsmodels as here: weights that sum to n are on the scale of rows,
        and a note tells of others.

        Examples
        --------
        >>> import numpy as np
        >>> import fgmp
        >>> X = np.random.default_rng(0).standard_normal((400, 6))
        >>> y = 3 * X[:, 2] - X[:, 4] + np.random.default_rng(1).standard_normal(400)
        >>> model = fgmp.FedGradMPRegressor(2).fit(X, y, groups=np.arange(400) % 8)
        >>> table = model.summary().columns
        >>> table["feature"].tolist()
        ['(intercept)', 'x2', 'x4']
        >>> bool(np.all(np.abs(table["coefficient"] - [0, 3, -1]) < 4 * table["standard_error"]))
        True
        """
        check_is_fitted(self)
        return summarize(self, level)

    def bootstrap(
        self,
        n_resamples: int = 200,
        over: str = "groups",
        *,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> Bootstrap:
        """Fit the model to resamples of its rows, to see which features are selected again.

        The sparsity is the one of the fit, and every resample starts afresh from the model without
        features. A group that is drawn twice counts twice as much, and stays one client. The data
        are those that `fit` was called with, to which the estimator keeps a reference: a pickle, or
        a copy, holds nothing of them. After a fit over a network `fgmp.flower.bootstrap_over` draws
        whole clients, and needs no rows. On a
        terminal a bar shows the progress from two seconds on.

        Parameters
        ----------
        n_resamples : int, default 200
            Number of resamples.
        over : {"groups", "rows"}
            What is drawn with replacement: whole groups, of which there are at least two, or rows
            within each group.
        random_state : int, RandomState or None
            Seed of the draws.
        n_jobs : int, optional
            Number of processes, as in joblib; -1 is one for each processor. By default there is one
            process. The result does not depend on it.

        Returns
        -------
        Bootstrap
            The coefficients of all resamples.

        Raises
        ------
        ValueError
            If the model has no rows, or `private` noise: every resample would spend its epsilon
            again.
        """
        check_is_fitted(self)
        self._check_bootstrap(over)
        data = self._training_data
        y = np.asarray(data.y)
        classes = getattr(self, "classes_", None)
        rng = as_random_state(random_state)
        check_integer("n_resamples", n_resamples)
        draws = [draw_counts(y, data.codes, over, classes, rng) for _ in range(n_resamples)]
        if over == "groups":
            clients = self._clients_of(data)
            first_rows = np.unique(data.codes[data.codes >= 0], return_index=True)[1]
            rows = np.flatnonzero(data.codes >= 0)[first_rows]
            tasks = [
                delayed(self._coefficients_of_drawn_clients)(
                    clients, counts[rows].astype(np.intp), _report_nothing
                )
                for counts in draws
            ]
        else:
            tasks = [delayed(self._coefficients_of_resample)(data, counts) for counts in draws]
        coefficients = run_with_bar(tasks, n_jobs, self.verbose)
        return self._bootstrap_of(coefficients, len(self.groups_) if over == "groups" else None)

    def bootstrap_sites(
        self, clients: FitClients, n_resamples: int, random_state: Any, report: Report
    ) -> Bootstrap:
        """Draw clients on other machines; `fgmp.flower.bootstrap_over` calls this method.

        Parameters
        ----------
        clients : FitClients
            The clients.
        n_resamples, random_state
            As in `bootstrap`.
        report : callable (words, run, unit)
            As in `Session`.
        """
        check_is_fitted(self)
        self._check_resampling()
        n_clients = len(clients.info.rows)
        check_integer("n_clients", n_clients, at_least=2, why="of a bootstrap over clients")
        rng = as_random_state(random_state)
        coefficients = []
        for _ in range(check_integer("n_resamples", n_resamples)):
            counts = draw_multiplicities(n_clients, rng)
            coefficients.append(self._coefficients_of_drawn_clients(clients, counts, report))
        return self._bootstrap_of(coefficients, n_clients)

    def _bootstrap_of(self, coefficients: list[Array], n_drawn: int | None) -> Bootstrap:
        """Return the coefficients of resamples as a `Bootstrap`."""
        names = tuple(names_of_features(self))
        return Bootstrap(np.array(coefficients), np.atleast_2d(self.coef_), names, n_drawn)

    def _check_bootstrap(self, over: str) -> None:
        """Raise a ValueError if the model cannot be fitted to resamples of its rows."""
        if not hasattr(self, "_training_data"):
            raise ValueError(
                "the model has no rows: it was fitted over a network, or is a copy, with which "
                "data do not travel; expected a model that `fit` was called on in this process. "
                "fgmp.flower.bootstrap_over draws clients over a network"
            )
        check_option("over", over, ("groups", "rows"))
        if over == "groups" and len(self.groups_) < 2:
            raise ValueError(
                "groups has one group; expected at least two for over='groups' (or over='rows')"
            )
        self._check_resampling()

    def _check_resampling(self) -> None:
        """Raise a ValueError for a model with noise."""
        if self.private is not None:
            raise ValueError(
                "private is given, and every resample would spend its epsilon again; expected "
                "private=None. Resample within a budget of your own: fit to other rows, and add up "
                "what each fit spends"
            )

    def _clients_of(self, data: TrainingData) -> FederatedTable:
        """Return the clients of the fit anew, with the class weights that it had."""
        model = clone(self)
        counted = rows_counted(data.weights)
        if self._is_encoded:
            y = column_or_1d(model._validated_targets(data.y))
            targets, loss, weights = model._targets(y, data.weights)
            raw = RawTableClients(data.X, targets, weights, data.codes, loss, 1, counted)
            return raw.encoded(self.encoding_)
        X, y = model._validated(data.X, model._validated_targets(data.y))
        targets, loss, weights = model._targets(y, data.weights)
        return FederatedTable(X, targets, weights, data.codes, loss, counted=counted)

    def _resampling_model(self) -> Self:
        """Return an estimator for resamples, with the columns and the sparsity of this fit."""
        model: Self = clone(self).set_params(sparsity=self.sparsity_, C=self.C_)
        model.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        if hasattr(self, "encoding_"):
            model.encoding_ = self.encoding_
            model.__dict__["_fixed_encoding"] = self.encoding_
        return model

    def _coefficients_of_drawn_clients(
        self, clients: FitClients, counts: IndexArray, report: Report
    ) -> Array:
        """Return the coefficients for clients that were drawn, shape (n_outputs, n_features)."""
        drawn = ResampledClients(clients, counts)
        model = self._resampling_model()
        if self.cohort_size is not None:
            model.cohort_size = min(self.cohort_size, len(drawn.drawn))
        if self.sparsity == "all":
            model.sparsity = "all"
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))
        settings = replace(model._settings(drawn), coefficients_only=True, is_secure=False)
        try:
            fitted = fit_model(Session(drawn, settings, seed, None, report), [self.sparsity_])
        except Separated as error:
            self._refuse_separated(error)
        return fitted.table.reshape(len(fitted.table), -1)[1:].T.copy()

    def _coefficients_of_resample(self, data: TrainingData, counts: Array) -> Array:
        """Return the coefficients for rows that were drawn, shape (n_outputs, n_features)."""
        model = self._resampling_model().set_params(min_rows=1, verbose=False)
        with suppress_advice():  # the fit has given it
            # Its columns are those of this fit, which `fit` would forget.
            counted = rows_counted(data.weights) * counts
            model._fit(data.X, data.y, data.groups, data.weights * counts, counted)
        return np.atleast_2d(model.coef_)

    def report(self) -> FitReport:
        """Return what left each group: in which form, when, how many bytes, how protected.

        It is about the fit. What was sent to measure the model is in the report of what
        `performance` returns.

        Returns
        -------
        FitReport
            It prints as text, and ``to_markdown()`` returns Markdown.

        Examples
        --------
        >>> import numpy as np
        >>> import fgmp
        >>> X = np.random.default_rng(0).standard_normal((60, 4))
        >>> model = fgmp.FedGradMPRegressor(1).fit(X, X[:, 2], groups=np.arange(60) % 3)
        >>> report = model.report()
        >>> report.stages[0].what, report.stages[0].n_clients
        ('means and mean squares of all columns and the outcome', 3)
        """
        check_is_fitted(self)
        return report_of(self)

    def performance(self, X: Any, y: Any, groups: Any = None, *, by: str = "groups") -> Performance:
        """Return how good the model is for each group: AUC, R^2 or D^2, and calibration.

        The rows may be those of the fit, or of a hospital that had no part in it. Each group
        measures the model on its own rows, and its measures are numbers of its own: `report` of the
        result says so. `fgmp.flower.performance_over` asks clients on other machines, and has the
        same bits.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            The features.
        y : array_like, shape (n_samples,)
            Numbers, or the labels of the fit.
        groups : array_like, shape (n_samples,), optional
            The group of each row; by default all rows are of one group.
        by : {"groups", "all"}
            ``"groups"`` measures each group. ``"all"`` measures all rows together from sums over
            the groups, which is what can be had under masks; its AUC is that of pairs within a
            group. A group with fewer than `min_rows` rows, or of a class that it has, sends zeros,
            and its rows are not measured.

        Returns
        -------
        Performance
            A table, with ``plot()``, ``to_frame()`` and ``report()``.

        Warns
        -----
        AdviceWarning
            As `predict` does, of groups without an intercept of their own.

        Raises
        ------
        ValueError
            If `secure` is True with ``by="groups"``; if the model is private; or if labels in y are
            none of the fit.

        Examples
        --------
        >>> import fgmp
        >>> from fgmp.datasets import heart_disease
        >>> heart = heart_disease()
        >>> age_and_sex = heart.X[:, :2]
        >>> is_here = heart.hospital != "Switzerland"
        >>> model = fgmp.FedGradMPClassifier("all")
        >>> model = model.fit(age_and_sex[is_here], heart.y[is_here], heart.hospital[is_here])
        >>> performance = model.performance(age_and_sex, heart.y, heart.hospital)
        >>> performance.columns["group"].tolist()
        ['Budapest', 'Cleveland', 'Long Beach', 'Switzerland']
        >>> performance.columns["auc"].round(2).tolist()
        [0.68, 0.71, 0.61, 0.5]
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        y = self._targets_of_rows(X, y)
        labels, codes, weights = encode_groups(len(y), groups, np.ones(len(y)), self.min_rows)
        takes_part = np.isin(np.arange(len(labels)), codes[weights > 0])
        names = labels[takes_part].tolist() if groups is not None else ["all rows"]
        targets, loss = self._targets_of_fit(y)
        clients = FederatedTable(X, targets, weights, codes, loss, self.min_rows)
        self._check_performance(by)
        self._advise_on_intercepts(None if groups is None else names)
        return measure_performance(self, clients, names, by)

    def performance_sites(self, clients: FitClients, names: Sequence[Any], by: str) -> Performance:
        """Measure the model at clients; `fgmp.flower.performance_over` calls this method.

        Parameters
        ----------
        clients : FitClients
            The clients.
        names : sequence
            Their names.
        by : {"groups", "all"}
            As in `performance`.
        """
        check_is_fitted(self)
        self._check_performance(by)
        self._advise_on_intercepts(names)
        return measure_performance(self, clients, names, by)

    def _check_performance(self, by: str) -> None:
        """Raise a ValueError if the model cannot be measured by groups, or by all rows."""
        check_option("by", by, ("groups", "all"))
        if self.private is not None:
            raise ValueError(
                "private is given, and measures of performance have no noise; expected private=None"
            )
        if self.secure and by == "groups":
            raise ValueError(
                "secure is True, and masks hide what is of one group, as its AUC and calibration "
                "are; expected by='all', which measures all rows together from sums over the groups"
            )

    def to_json(self) -> str:
        """Return the fitted model as JSON, which `from_json` reads.

        It holds numbers and names, and no pickle: the coefficients, intercepts, names of columns,
        labels, groups that took part and those that did not, how the model was fitted and its
        sparsity chosen, and the covariance with the deviations of the chosen columns. It holds no
        rows, and no `history_`.

        Raises
        ------
        ValueError
            If `from_json` would refuse it: labels or groups are neither text nor numbers, or
            attributes or parameters were changed after the fit and do not fit together.
        """
        check_is_fitted(self)
        with needs("a model as JSON", "pydantic"):
            from .model_files import model_to_json
        return model_to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the fitted model that `to_json` wrote: `predict` and `summary` have the same bits.

        Raises
        ------
        ValueError
            If the text is no such JSON, if its parts do not fit together (the message names the
            field), or if it is of another class.

        Examples
        --------
        >>> import numpy as np
        >>> import fgmp
        >>> X = np.random.default_rng(0).standard_normal((60, 4))
        >>> model = fgmp.FedGradMPClassifier(1).fit(X, X[:, 2] > 0, groups=np.arange(60) % 3)
        >>> again = fgmp.FedGradMPClassifier.from_json(model.to_json())
        >>> again.support_.tolist(), repr(again.summary()) == repr(model.summary())
        ([2], True)
        """
        with needs("a model as JSON", "pydantic"):
            from .model_files import model_from_json
        model = model_from_json(text)
        if not isinstance(model, cls):
            raise ValueError(
                f"text is the model of a {type(model).__name__}; expected a {cls.__name__}"
            )
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training_data"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class FedGradMPRegressor(RegressorMixin, SparseLinear):  # type: ignore[misc]
    """Linear or Poisson regression on a few features, over groups that keep their rows.

    Choosing the features asks one of two questions: how well a model predicts in a hospital that it
    has never seen (``folds="groups"``), or new patients of the hospitals that it knows
    (``folds="rows"``). By default it is the first one from ten groups on.

    Each group is one client. The groups send sums, for common units. FedGradMP, or its relative
    with a shared support, selects more features than are asked for. Features are then removed one
    at a time by backward elimination on the pooled Hessian, and a closing exchange solves on those
    that are left, with the sums of all groups.

    Parameters
    ----------
    sparsity : int, {"cv", "all"} or None
        tau, the number of features: from 0 to all. ``"cv"`` chooses it by cross-validation
        (`folds`): the smallest one whose loss is within half a standard error of the best, where
        the error is that of the difference of the two. ``"all"`` is the dense model, by the same
        sums, for up to 5,000 features. None is 10, or all if there are fewer.
    method : {"auto", "fedgradmp", "shared"}
        The method that selects the features. ``"auto"`` is `fgmp.FedGradMP`, in which each client
        selects and the server averages. Its clients solve least squares exactly if the smallest
        group has more than twice as many rows as coefficients (3 T and an intercept), and else,
        and for labels, they take five gradient steps. If the smallest group has no more rows than
        that, and there are more than 50 T features, it is `fgmp.SharedSupportGradMP`, which adds up
        the whole gradients of all groups before anything is selected: among so many features a
        client with few rows sees noise. The path begins at T features: 20, or 2.5 tau, but no more
        than all features or a third of the rows, and if features outnumber the rows a sixth of
        those that train. `method_` says which one it was.
    fit_intercept : True, "per_group" or False
        ``"per_group"`` is an intercept for each group, as a column of ones for each would be. A
        group works it out itself: it subtracts its own means, as the within estimator for panel
        data does, or for counts and classes shifts its predictions by what fits its rows best.
    standardize : {"auto"} or bool
        Whether features compete for the support in units of their standard deviation (about zero,
        if there is no intercept). ``"auto"`` does so if X is dense: in units of deviations a word
        that hardly occurs weighs as much as any other.
    polish : bool, default True
        Whether a closing exchange solves on the support that was selected.
    C : float, {"auto", "cv"}
        The closing exchange adds half the squared norm of the coefficients (in standardised units,
        without the intercept) to C times half the sum of squares: the ridge 1/C. ``np.inf`` adds
        nothing. ``"auto"`` is ``np.inf`` for few features, and 1 with ``sparsity="all"``, because
        least squares on more columns than sense fits noise. ``"cv"`` chooses from 0.001, 0.01, 0.1,
        1, 10 and 100 by the same folds, together with the sparsity if that is ``"cv"`` as well: a
        sparsity counts by its best C. With relative weights of rows a number is relative to their
        sum, as in scikit-learn, and what ``"auto"`` and ``"cv"`` take is divided by their mean.
    rounds : int, default 20
        The most rounds.
    tol : float, default 1e-2
        Rounds end earlier if three in a row improve the objective by less than this fraction. A
        ConvergenceWarning says so if the last round still did more than this fraction of all.
    cohort_size, local_iterations, batch_size
        As in `fgmp.simulate` and `fgmp.FedGradMP`, in the rounds.
    sparsities : sequence of int, optional
        The sizes that ``"cv"`` chooses from, by default 0 to 6, 8, 10, 12, 15 and 20, no further
        than the features and half the rows, or a sixth of those that train if features outnumber
        the rows.
    folds : {"auto", "rows", "groups"}
        What ``"cv"`` holds out. ``"groups"`` leaves whole groups out, and so asks how well a group
        is predicted that the model has never seen. ``"rows"`` has each group hold out rows of its
        own, by random numbers of its own, and asks about new rows of known groups. ``"auto"`` is
        ``"groups"`` from ten groups on, and ``"rows"`` with fewer: a fold of one of four hospitals
        takes many of the rows away, and a standard error over four numbers is coarse. With `secure`
        a fold has at least two groups.
    n_folds : int, default 5
        The number of folds: of the groups, but no more than there are (half of it with `secure`),
        or of the rows of each group.
    min_rows : int, default 5
        Groups with fewer rows send nothing, and a warning says so: the mean of few rows is nearly a
        row. With ``folds="rows"`` no group deals folds of fewer: one with less than
        ``n_folds * min_rows`` rows deals fewer folds, or none, and trains with all its rows then.
        Levels and gaps of fewer rows of a group, or of all rows without groups, are in no column
        (`categories`, `missing`), and `performance` has no measure of fewer rows of a class. A fit
        takes classes of few rows, and columns of your own with few ones: sums in the open tell of
        these rows. A warning names the classes, over Flower in the log of the client, `summary`
        marks the columns, and `secure` adds the rows of all groups first. Not applied with
        `private`, because numbers of rows are data then.
    secure : bool, default False
        Whether every sum is one under masks, as by `fgmp.SecureSum`: over Flower the server sees
        sums over groups, and no combination of them rests on one group (docs/promises.md says who
        sees what, and under which conditions, and what it costs). A fit ends if a group leaves, and
        `cohort_size` has to be None.
    private : GaussianNoise, optional
        FedGradMP's rounds alone, with this noise. All else that a fit asks for are exact sums, so
        that `standardize`, `fit_intercept`, `polish` and `secure` have to be False, and `sparsity`
        a number. Every fit spends epsilon, so what repeats fits to the same rows
        (`cross_val_score`, `GridSearchCV`) spends it each time, and `bootstrap` refuses.
    random_state : int, RandomState or None
        Seed of cohorts, minibatches and folds.
    verbose : {"auto"} or bool
        What `fit` and `bootstrap` say of their progress on the standard error. ``"auto"`` shows the
        stage and the round, or a bar, on a terminal if the work takes more than two seconds, and
        takes the line away at the end. True prints a line for each stage and each round, wherever
        the output goes. Over Flower ``fit_over(report=)`` has these lines.
    always_include : str, int, or sequence of these, optional
        Columns, by name or index, that are in every model, such as age and sex. They are none of
        the tau: ``sparsity=3`` chooses three others, and ``sparsity=0`` none.
    missing : {"error", "indicator"}
        What to do where a value is missing. ``"error"`` refuses it, and names the column.
        ``"indicator"`` puts the mean of the values that are there in its place, over all groups,
        and adds a column that says so, ``cholesterol is missing``, if a value is missing in any
        group. The two are selected together and count as one. A column may be missing at a whole
        group. Fewer than `min_rows` gaps of a group are its own mean, and make no column; where
        fewer rows of it have a value, all are gaps. Columns become float64. Not with a sparse X.
    categories : str, int, sequence of these, or mapping, optional
        Columns, by name or index, that are categories: text, or numbers that stand for kinds. A
        value is one level whatever its type at a group: 1, 1.0, True, "1" and "True"; 0.1 as a
        float32, a float64, a Decimal and "0.1". A category becomes a column of zeros and ones,
        ``ward=B``, for each of its levels but the most frequent one, the reference (of equally
        frequent ones the first, in the order of their texts). All levels are selected together and
        count as one. The levels are the union of those that occur in any group. Over Flower the set
        of its levels leaves a client for that, in the open; a mapping from columns to levels names
        them beforehand, so that nothing does, and `secure` asks for one. With
        ``missing="indicator"`` a category that is missing is a level more. Levels that fewer than
        `min_rows` rows of a group have count as
        the level ``other`` there, if there are several and these are no fewer together, and else as
        its most frequent one: neither their names nor their numbers leave it.
    loss : {"squared", "poisson"}
        ``"poisson"`` is for counts: a coefficient is the logarithm of a rate ratio, `predict`
        returns expected counts, and `score` the share of the deviance that is explained. With C the
        penalty is that of `sklearn.linear_model.PoissonRegressor` with alpha = 1 / (C n), in
        standardised units.

    Attributes
    ----------
    coef_ : ndarray, shape (n_columns,)
        The coefficients, in the units of the data. The columns are those of X; with `missing` or
        `categories` they are ``encoding_.column_names()``.
    intercept_ : float
        The intercept, in the units of the data. With ``fit_intercept="per_group"`` it is the best
        one of all rows, given the coefficients: for the squared loss, the mean of those of the
        groups.
    intercepts_ : dict
        With ``fit_intercept="per_group"`` the intercept of each group whose rows determine one. It
        is sent once, at the end, and averaged with no other; under masks it stays with the group,
        which works it out by `intercept_of`.
    encoding_ : Encoding
        With `missing` or `categories` what the columns of X become, for all groups alike.
    support_ : ndarray of int
        The features with a coefficient that is not zero.
    groups_ : ndarray
        The groups that take part. Over Flower these are the clients that replied to the end.
    missing_ : ndarray
        The other groups: those with fewer than `min_rows` rows, or without a positive weight. Over
        Flower they are the clients that did not reply to the end.
    n_rows_left_out_ : int
        How many rows of a positive weight the other groups have, after `fit`. Over Flower these say
        nothing of themselves.
    sparsity_, C_, method_, n_iter_ : int, float, str, int
        tau, C and the method, as given or chosen, and the number of rounds.
    history_ : dict of ndarray
        As in `fgmp.Result`. The first entry includes the sums for the units. The last one is of the
        closing exchange, and its rounds and bytes are those of everything that was sent, a choice
        of tau included.
    cv_ : SparsityPath
        How the sparsity, or C, was chosen, if one of them is ``"cv"``.
    exchanges_ : tuple of Sent
        What the groups sent, stage by stage, which `report` shows.
    fgmp_version_ : str
        The version of the package that the model was fitted with.
    covariance_ : Covariance
        The covariance of the coefficients, which `summary` shows. A private model, or one with
        ``polish=False``, has none.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((200, 6))
    >>> y = 3 * X[:, 1] - 2 * X[:, 4] + 7
    >>> model = fgmp.FedGradMPRegressor(sparsity=2).fit(X, y, groups=np.arange(200) % 5)
    >>> model.support_.tolist(), model.coef_[model.support_].round(6).tolist()
    ([1, 4], [3.0, -2.0])
    """

    _: KW_ONLY
    loss: str = "squared"

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Return predictions, shape (n_samples,); with ``loss="poisson"`` expected counts.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            The features.
        groups : array_like, shape (n_samples,), optional
            With ``fit_intercept="per_group"`` the group of each row. A row has the intercept of its
            group, or the common one if the group has none, of which a warning tells. Without groups
            all rows have the common one, and an AdviceWarning says so.
        """
        return np.asarray(self._loss().mean_of(self._linear_predictions(X, groups)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Return the coefficient of determination R^2 of ``predict(X, groups)``.

        With ``loss="poisson"`` it is D^2, the share of the deviance that is explained, as in
        `sklearn.linear_model.PoissonRegressor`.

        In cross-validation ``set_score_request(groups=True)`` and scikit-learn's metadata routing
        pass the groups on.
        """
        y = self._validated_targets(y)
        predictions = self.predict(X, groups)
        weights = None if sample_weight is None else weights_of_rows(sample_weight, predictions)
        if self.loss == "poisson":
            return float(d2_tweedie_score(y, predictions, sample_weight=weights, power=1))
        return float(r2_score(y, predictions, sample_weight=weights))

    def _check_parameters(self) -> None:
        """Check each parameter by itself."""
        super()._check_parameters()
        check_option("loss", self.loss, tuple(LOSSES_OF_NUMBERS))

    def _loss(self) -> Loss:
        """Return the loss of the name."""
        return LOSSES_OF_NUMBERS[self.loss]()

    def _targets_of_fit(self, y: Array) -> tuple[Array, Loss]:
        """Return targets as the loss takes them, and the loss."""
        loss = self._loss()
        return loss.check_targets("y", y.astype(np.float64, copy=False)), loss

    def _targets(self, y: Array, weights: Array) -> tuple[Array, Loss, Array]:
        """Return the targets in float64, the loss, and the weights as they are."""
        targets, loss = self._targets_of_fit(y)
        if self.loss == "poisson" and not targets[weights > 0].any():
            raise ValueError("y is zero in every row; expected a count above zero")
        return targets, loss, weights


@dataclass(eq=False, repr=False)
class FedGradMPClassifier(LinearClassifierMixin, SparseLinear):  # type: ignore[misc]
    """Logistic regression on a few features (softmax for several classes), over groups of rows.

    With ``sparsity="cv"`` it asks how well a hospital is predicted that the model has never seen
    (``folds="groups"``, the default from ten groups on), or new patients of known hospitals
    (``folds="rows"``).

    The groups keep their rows to themselves. Parameters and attributes are those of
    `FedGradMPRegressor`, except for the ones below. A feature counts once, whatever the number of
    classes.

    Parameters
    ----------
    fit_intercept : True, "per_group" or False
        An intercept for all groups, or one for each, which are not among the tau.
    C : float or "cv", default 1.0
        As in `sklearn.linear_model.LogisticRegression`: the closing exchange adds half the squared
        norm of the coefficients (in standardised units, without the intercept) to C times the
        summed log loss. ``np.inf`` adds nothing. Classes that a few features separate, or some rows
        of them as by a flag that one class has, then have no finite model, and the fit is an error.
    class_weight : dict, "balanced" or None
        As in scikit-learn: the weight of a row by its class, beside `sample_weight`; above 0.
        ``"balanced"`` makes the sums of the sample weights of all classes alike.

    Attributes
    ----------
    coef_ : ndarray, shape (1, n_features) or (n_classes, n_features)
        In log-odds per unit of the feature: of ``classes_[1]`` if there are two classes.
    intercept_ : ndarray, shape (1,) or (n_classes,)
        In log-odds.
    classes_ : ndarray, shape (n_classes,)
        The labels, increasing.

    Examples
    --------
    >>> import fgmp
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sites = [row % 3 for row in range(len(y))]
    >>> model = fgmp.FedGradMPClassifier(sparsity=3).fit(X, y, groups=sites)
    >>> len(model.support_), len(model.groups_), model.score(X, y) > 0.9
    (3, 3, True)
    """

    C: float | str = 1.0
    class_weight: Any = None

    # Without `set_score_request(groups=True)` scikit-learn passes no groups to what predicts.
    __metadata_request__predict = {"groups": False}
    __metadata_request__predict_proba = {"groups": False}
    __metadata_request__predict_log_proba = {"groups": False}
    __metadata_request__decision_function = {"groups": False}
    __metadata_request__score = {"groups": False}

    def decision_function(self, X: Any, groups: Any = None) -> Array:
        """Return the scores of the classes, shape (n_samples, n_classes).

        For two classes they are log-odds of ``classes_[1]``, shape (n_samples,).

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            The features.
        groups : array_like, shape (n_samples,), optional
            As in `FedGradMPRegressor.predict`, and the same for all methods that predict.
        """
        scores = self._linear_predictions(X, groups)
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Return the class of the largest score for each row, shape (n_samples,)."""
        scores = self.decision_function(X, groups)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Return the share of rows whose class ``predict(X, groups)`` finds."""
        y = self._validated_targets(y)
        predictions = self.predict(X, groups)
        weights = None if sample_weight is None else weights_of_rows(sample_weight, predictions)
        return float(accuracy_score(y, predictions, sample_weight=weights))

    def predict_proba(self, X: Any, groups: Any = None) -> Array:
        """Return probabilities, shape (n_samples, n_classes)."""
        return np.exp(self.predict_log_proba(X, groups))

    def predict_log_proba(self, X: Any, groups: Any = None) -> Array:
        """Return the logarithms of `predict_proba`."""
        scores = self.decision_function(X, groups)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return np.asarray(log_softmax(scores, axis=1))

    def _targets(self, y: Array, weights: Array) -> tuple[Array, Loss, Array]:
        """Return signs, or codes from 0 for several classes; the loss; and weights with classes.

        A class whose rows all have the weight zero is left out.
        """
        check_classification_targets(y)
        self.classes_ = np.unique(y[weights > 0])
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data "
                f"contains only one class: {self.classes_[0]!r}"
            )
        if self.class_weight is not None:
            codes = np.searchsorted(self.classes_, y).clip(max=n_classes - 1)
            weights = self._times_class_weights(weights, codes)
        return *self._targets_of_fit(y), weights

    def _targets_of_fit(self, y: Array) -> tuple[Array, Loss]:
        """Return signs, or codes from 0 for several classes, and the loss."""
        n_classes = len(self.classes_)
        codes = np.searchsorted(self.classes_, y).clip(max=n_classes - 1)
        if n_classes > 2:
            return codes, SoftmaxLoss(n_classes)
        return 2.0 * codes - 1, LogisticLoss()

    def _times_class_weights(self, weights: Array, codes: IndexArray) -> Array:
        """Return the weights of rows times those of their classes, or raise a ValueError.

        Products for rows that take part have to be above zero and finite.
        """
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(codes, weights)
            by_class = weights.sum(dtype=np.float64) / (len(totals) * totals)
        else:
            by_class = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_
            )
        for label, weight in zip(self.classes_.tolist(), by_class.tolist(), strict=True):
            if not 0 < weight < np.inf:
                raise ValueError(
                    f"class_weight is {weight!r} for the class {label!r}; expected a finite number "
                    "above 0 (rows with a sample_weight of 0 are left out)"
                )

        with np.errstate(over="ignore", under="ignore"):
            products = weights * by_class[codes]
        if not np.isfinite(products).all() or (products[weights > 0] == 0).any():
            raise ValueError(
                "class_weight times sample_weight is zero or not finite for some rows; expected "
                "products above 0 that a float holds"
            )
        return np.asarray(products)
