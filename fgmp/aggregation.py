"""Aggregators, which make one of many answers; the form of an answer, and a cohort's answers as one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .selection import PER_OUTPUT, Selection
from .sparse_model import Array, IndexArray, SparseModel, dense


@dataclass(frozen=True, eq=False)
class SparseModels(Sequence[SparseModel]):
    """The models of several clients, as a sequence of `SparseModel` whose numbers lie in two arrays.

    Parameters
    ----------
    supports : ndarray of int, shape (n_models, k)
    values : ndarray of float, shape (n_models, k)
    counts : ndarray of int, shape (n_models,)
        How many entries of its row each model has.
    shape : tuple of int
        Of the dense coefficients of each.
    """

    supports: IndexArray
    values: Array
    counts: IndexArray
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, index: Any) -> Any:
        size = self.counts[index]
        return SparseModel(self.supports[index, :size], self.values[index, :size], self.shape)


class Rejected(NamedTuple):
    """What stands in place of an answer that the server does without: one of `REJECT_REASONS`."""

    reason: str = "missing"


REJECT_REASONS = ("missing", "late", "not_finite", "malformed", "indices", "too_many", "withheld")


@dataclass(frozen=True, eq=False)
class UpdateSpec:
    """What an answer looks like, said once: its check, its dense layout, its bytes and the wire follow.

    Parameters
    ----------
    shape, dtype : tuple of int, and dtype, default float64
    most : int or None
        A sparse model with at most so many entries, as `selection` counts; None is a dense array.
    near : ndarray, SparseModel or None
        What everybody knows an answer to be near: the model that was sent. None is nothing but zero.
    selection : Selection
    """

    shape: tuple[int, ...]
    dtype: Any = np.dtype(np.float64)
    most: int | None = None
    near: Array | SparseModel | None = None
    selection: Selection = PER_OUTPUT

    def validate(self, x: Any) -> str:
        """Why the server does without an answer, one of `REJECT_REASONS`; "" where it is of this form."""
        if x is None or isinstance(x, Rejected):
            return "missing" if x is None else x.reason
        sparse = self.most is not None
        values = x.values if isinstance(x, SparseModel) else x
        if (
            isinstance(x, SparseModel) != sparse
            or not isinstance(values, np.ndarray)
            or values.dtype != self.dtype
        ):
            return "malformed"
        if x.shape != self.shape or (sparse and not _is_a_support(x.support, values.shape)):
            return "malformed"
        if not np.isfinite(values).all():
            return "not_finite"
        if self.most is not None and len(at := x.support):
            if at[0] < 0 or at[-1] >= prod(self.shape) or (at[1:] <= at[:-1]).any():
                return "indices"
            if not self.selection.holds(at, self.shape, self.most):
                return "too_many"
        return ""

    def stack(self, answers: Sequence[Any], weights: Array) -> Updates:
        """The answers of this form as one table, a row each; `weights` are the p_i of the whole cohort."""
        if isinstance(answers, SparseModels):
            return self._of_arrays(answers, weights)
        reasons = [self.validate(x) for x in answers]
        here = np.flatnonzero([not reason for reason in reasons])
        rows, rejected = [answers[int(i)] for i in here], Counter(filter(None, reasons))
        if self.most is None:
            values = (
                np.reshape(rows, (len(rows), prod(self.shape)))
                if rows
                else np.empty((0, prod(self.shape)))
            )
            return Updates(self, weights, here, None, values, rejected)
        owner = np.repeat(np.arange(len(rows)), [len(x.support) for x in rows])
        support = np.concatenate([np.empty(0, np.intp), *(x.support for x in rows)])
        values = np.concatenate([np.empty(0, self.dtype), *(x.values for x in rows)])
        return Updates(self, weights, here, (owner, support), values, rejected)

    def _of_arrays(self, models: SparseModels, weights: Array) -> Updates:
        """The same of models that lie in two arrays, which a compiled twin has made."""
        inside = np.arange(models.supports.shape[1]) < models.counts[:, None]
        fine = np.isfinite(np.where(inside, models.values, 0)).all(axis=1)
        here, inside = np.flatnonzero(fine), inside[fine]
        owner = np.repeat(np.arange(len(here)), models.counts[fine])
        at = owner, models.supports[fine][inside]
        return Updates(
            self,
            weights,
            here,
            at,
            models.values[fine][inside],
            Counter(not_finite=int((~fine).sum())),
        )

    @property
    def centre(self) -> Array:
        """What answers are near, as a row."""
        row: Array = (
            np.zeros(prod(self.shape)) if self.near is None else dense(self.near).reshape(-1)
        )
        return row


def _is_a_support(support: Any, shape: tuple[int, ...]) -> bool:
    return (
        isinstance(support, np.ndarray)
        and support.dtype.kind == "i"
        and support.shape == shape == (support.size,)
    )


class Updates(NamedTuple):
    """What a cohort answered: a row for each client whose answer is taken, and why others are not here.

    `weights` are the p_i of all who were asked, `here` whose rows these are. Of sparse answers, `at` has row and
    position of each entry in `values`; of dense ones these are the rows.
    """

    update_spec: UpdateSpec
    weights: Array
    here: IndexArray
    at: tuple[IndexArray, IndexArray] | None
    values: Array
    rejected: Counter[str]

    @property
    def shares(self) -> Array:
        """The weights of those who answered, which sum to one."""
        weights = self.weights[self.here]
        scaled: Array = weights / weights.sum()
        return scaled

    def rows(self) -> Array:
        """The answers as dense rows."""
        if self.at is None:
            return self.values
        rows: Array = np.zeros((len(self.here), prod(self.update_spec.shape)), self.values.dtype)
        rows[self.at] = self.values
        return rows

    def mean(self) -> Array:
        """sum_i p_i x_i over those who answered, in the order of the cohort."""
        if self.at is None:
            total: Array = np.add.reduce(self.shares[:, None] * self.values, axis=0)
            return total
        owner, support = self.at
        return np.bincount(
            support, self.shares[owner] * self.values, minlength=prod(self.update_spec.shape)
        )

    def bytes_up(self) -> int:
        """What travelled: indices and values, or a dense row where that is shorter."""
        each = 4 + self.values.itemsize
        if self.at is not None:
            return each * len(self.values)
        whole = self.values.itemsize * self.values.shape[1]
        return int(np.minimum(each * np.count_nonzero(self.values, axis=1), whole).sum())


class Aggregated(NamedTuple):
    """One row, or None where nobody answered; who is in it; bytes (down beyond the question); reasons of others."""

    mean: Array | None
    here: IndexArray
    bytes_up: int
    bytes_down: int
    rejected: Counter[str]


class Aggregator:
    """How the answers of a cohort become one: a subclass overrides `__call__`, or more of it."""

    secret = b""
    withholds = False  # whether an objective may be nan because its sum would tell too much

    def prepare(self, shape: Any, cohort_size: int, exchanges: int, rounds: int) -> Aggregator:
        """The aggregator for a run of this size; a ValueError where it does not fit."""
        return self

    def visible_info(self, shape: Any) -> Any:
        """What a method may know of the clients."""
        return shape

    def check_method(self, method: Any, shape: Any, cohort_size: int) -> None:
        """Raise a ValueError where answers of a method are not to be reduced so, of cohorts of this size."""

    def cohort(self, streams: Any, number: int, n_clients: int, size: int) -> IndexArray:
        """Who takes part in round `number`, increasing: uniformly without replacement."""
        drawn: IndexArray = streams.sample(streams.COHORT, number, n_clients, size)
        return drawn

    def aggregate(self, transport: Any, call: Any, message: Any, cohort: IndexArray) -> Aggregated:
        """Ask a cohort, and make one answer of what comes."""
        answers = call.update_spec.stack(
            transport.run_clients(call, message, cohort), transport.weights[cohort]
        )
        somebody = answers.weights[answers.here].sum() > 0
        return Aggregated(
            self(answers) if somebody else None,
            answers.here,
            answers.bytes_up(),
            0,
            answers.rejected,
        )

    def __call__(self, answers: Updates) -> Array:
        """One row of the table."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it reduces")

    def objective(
        self, transport: Any, x: Array | SparseModel, indices: IndexArray
    ) -> float | None:
        """The mean objective of some clients; None where there is to be none."""
        told, values = transport.objectives(x, indices)
        weights = transport.weights[told]
        total = weights.sum()
        return float(weights @ values / total) if total > 0 else float("nan")

    def extra_metrics(self, number: int) -> dict[str, float]:
        """More columns of the history, after `number` rounds."""
        return {}


@dataclass(frozen=True)
class Mean(Aggregator):
    """sum_i p_i x_i, as in the paper and by default: one client that lies by a large factor decides the model."""

    def __call__(self, answers: Updates) -> Array:
        """The weighted mean."""
        return answers.mean()
