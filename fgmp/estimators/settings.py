"""The settings of a fit: parameters with their defaults resolved, and what follows from them."""

from collections import Counter
from dataclasses import dataclass
from typing import cast

import numpy as np

from ..data import ProblemInfo
from ..losses import GLMLoss
from ..run.joint_selection import PerBlock
from ..selection import PerAtom, PerOutput, Selection
from ..sparse_model import Array, SparseModel
from .folds import n_group_folds
from .parameters import FitParameters

# While features are selected the ridge is larger, and never zero for a loss of labels: merged
# supports separate the classes more often than the features that are left in the end.
_SELECTION_RIDGE_FACTOR = 4
_LEAST_SELECTION_RIDGE = 1e-4
# Well above the resolution of masks, by which columns that depend on each other would seem not to.
_RIDGE_UNDER_MASKS = 1e-9
# folds="auto" holds out whole groups from this number of groups on. With fewer, rows choose what
# predicts new groups better: a fold of groups takes too much away. With more, the two are level,
# but for tables whose groups are unlike each other: there only groups show what fails at new ones.
_LEAST_GROUPS = 10
# Which groups share a fold matters more than which rows do. With 5 or 10 folds of 50 groups the
# choice hangs on the seed; up to 20 groups are left out one by one, whatever the seed.
_N_FOLDS = {"groups": 20, "rows": 10}

# The most rounds of a fit, and the few of a fold. Where something is chosen, the fit has as many
# as the folds, so that the models whose losses are compared come about as the one that is fitted.
_MOST_ROUNDS = 20
_FEW_ROUNDS = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class FitSettings:
    """The parameters of an estimator with its defaults resolved, and what a server knows.

    Attributes
    ----------
    parameters : FitParameters
        The estimator, whose other parameters hold as they are.
    info : ProblemInfo
        The clients, in the units of the data.
    is_sparse : bool
        Whether the features are sparse.
    total_weight : float
        Weight of all rows, which C is relative to.
    counted : ndarray, shape (n_clients,)
        For each client the number of rows that its weights stand for.
    C : float
        The C of the rounds that select features: as given, or the default one with ``"cv"``.
    strengths : tuple of float
        Each C to choose from; only the given one without a choice.
    coefficients_only : bool
        Whether the fit is a resample, which sums neither a covariance nor intercepts of clients.
    always_include : tuple of int
        The columns that are in every model, and are none of the tau.
    block_of : tuple of int, or None
        The block of each column, from 0 on: columns of a block are selected together, and count
        once. None if each column stands alone.
    indicators : tuple of int
        The columns that are known to be zeros and ones.
    """

    parameters: FitParameters
    info: ProblemInfo
    is_sparse: bool
    total_weight: float
    counted: Array
    C: float
    strengths: tuple[float, ...]
    coefficients_only: bool = False
    always_include: tuple[int, ...] = ()
    block_of: tuple[int, ...] | None = None
    indicators: tuple[int, ...] = ()

    @property
    def intercept_per_client(self) -> bool:
        """Whether each client has its own intercept, and centres its rows."""
        return isinstance(self.parameters.fit_intercept, str)

    @property
    def asks_common_intercept(self) -> bool:
        """Whether steps find an intercept for those who have none, beside that of each client."""
        return self.intercept_per_client and not (self.loss.is_quadratic or self.coefficients_only)

    @property
    def n_intercepts(self) -> int:
        """1 if a constant column stands for the intercept, else 0."""
        return int(bool(self.parameters.fit_intercept) and not self.intercept_per_client)

    @property
    def standardize(self) -> bool:
        """Whether features compete in units of their deviations: with "auto" dense ones do."""
        if isinstance(self.parameters.standardize, str):
            return not self.is_sparse
        return self.parameters.standardize

    @property
    def folds(self) -> str:
        """What is held out, "rows" or "groups": with "auto" groups if there are enough of them."""
        if self.parameters.folds != "auto":
            return self.parameters.folds
        return "groups" if len(self.info.n_rows) >= _LEAST_GROUPS else "rows"

    @property
    def n_folds(self) -> int:
        """The most folds; of groups below 2 if there are too few of them."""
        n_folds = self.parameters.n_folds or _N_FOLDS[self.folds]
        if self.folds == "rows":
            return n_folds
        return n_group_folds(len(self.info.n_rows), n_folds, self.parameters.secure)

    @property
    def is_private(self) -> bool:
        """Whether updates have noise."""
        return self.parameters.private is not None

    @property
    def loss(self) -> GLMLoss:
        """The loss of the clients."""
        return cast(GLMLoss, self.info.loss)

    @property
    def n_features(self) -> int:
        """Number of columns of the data."""
        return int(self.info.n_features)

    @property
    def n_targets(self) -> int:
        """Number of columns of targets: one, or an indicator for each class."""
        labels = self.loss.class_labels
        return 1 if labels is None else len(labels)

    @property
    def n_rows(self) -> int:
        """Number of rows of all clients."""
        return sum(self.info.n_rows)

    @property
    def n_counted(self) -> float:
        """Number of rows that all weights stand for, which errors and choices rest on."""
        return float(self.counted.sum())

    @property
    def centring(self) -> str:
        """The centre of squares: "client" (the means of each), "mean" (of all rows) or "zero"."""
        if self.intercept_per_client:
            return "client"
        return "mean" if self.n_intercepts else "zero"

    @property
    def shares_beside_rows(self) -> tuple[float, ...] | None:
        """The weights of the clients; None if they are their parts of all rows, which they know."""
        rows = np.asarray(self.info.n_rows, np.float64)
        if np.array_equal(self.info.weights, rows / rows.sum()):
            return None
        return tuple(np.asarray(self.info.weights).tolist())

    @property
    def is_cross_validated(self) -> bool:
        """Whether the sparsity or C is chosen by cross-validation."""
        return self.parameters.sparsity == "cv" or len(self.strengths) > 1

    @property
    def rounds(self) -> int:
        """The most rounds on all rows: as given, or 20, and 5 where a sparsity or C is chosen."""
        if self.parameters.rounds is not None:
            return self.parameters.rounds
        return _FEW_ROUNDS if self.is_cross_validated else _MOST_ROUNDS

    @property
    def few_rounds(self) -> int:
        """The most rounds in a fold, and where rounds select all features anyway."""
        return min(self.rounds, _FEW_ROUNDS)

    def ridge(self, C: float) -> float:
        """Return the weight of half the squared norm of the slopes beside the mean loss."""
        return float(1 / (C * self.total_weight))

    def selection_ridge(self, C: float) -> float:
        """Return the ridge while features are selected."""
        return max(_SELECTION_RIDGE_FACTOR * self.ridge(C), self._least_ridge)

    def path_ridge(self, C: float) -> float:
        """Return the ridge of the models of a path: that of the fit, or the least one."""
        return max(self.ridge(C), self._least_ridge)

    @property
    def _least_ridge(self) -> float:
        """The smallest ridge of a path."""
        if not self.loss.is_quadratic:
            return _LEAST_SELECTION_RIDGE
        return _RIDGE_UNDER_MASKS if self.parameters.secure else 0.0

    @property
    def unpenalised(self) -> tuple[int, ...]:
        """The atoms without a ridge: the intercept."""
        return (0,) * self.n_intercepts

    def is_penalised(self, model: SparseModel) -> Array:
        """Return which coefficients of a model have a ridge."""
        return np.asarray(model.support >= self.n_intercepts * self.loss.n_outputs)

    @property
    def selection(self) -> Selection:
        """A feature counts once, with all its outputs; what is always included does not count."""
        always_include = self.unpenalised
        always_include += tuple(self.n_intercepts + column for column in self.always_include)
        if self.block_of is not None:
            of_columns = tuple(self.n_intercepts + block for block in self.block_of)
            return PerBlock(always_include, (0,) * self.n_intercepts + of_columns)
        if self.loss.n_outputs > 1:
            return PerAtom(always_include)
        return PerOutput(always_include)

    def n_coefficients_per_client(self, n_features: int) -> int:
        """Return the most coefficients that a client of FedGradMP solves for.

        These are 2 tau and tau features, or all of them, those that are always included, and the
        intercept.
        """
        largest_block = 1 if self.block_of is None else max(Counter(self.block_of).values())
        n_coefficients = 3 * n_features * largest_block + len(self.always_include)
        return min(n_coefficients, self.n_features) + bool(self.parameters.fit_intercept)

    def n_chosen(self, model: SparseModel) -> int:
        """Return how many of the features to choose from are in a model."""
        columns = model.used_atoms - self.n_intercepts
        chosen = np.setdiff1d(columns[columns >= 0], self.always_include)
        if self.block_of is None:
            return len(chosen)
        return len({self.block_of[column] for column in chosen.tolist()})

    @property
    def n_choices(self) -> int:
        """Number of features to choose from: columns or blocks that are not always included."""
        return n_choices(self.n_features, self.always_include, self.block_of)


def n_choices(
    n_features: int, always_include: tuple[int, ...], block_of: tuple[int, ...] | None
) -> int:
    """Return the number of columns, or of blocks of columns, that are not always included."""
    block_of = tuple(range(n_features)) if block_of is None else block_of
    return len(set(block_of) - {block_of[column] for column in always_include})
