"""Internal-external cross-validation: each group is predicted by a model of the other groups.

A model is chosen and fitted without a group, or a set of groups, and measured there, for each of
them in turn (Royston, Parmar, Sylvester, Statistics in Medicine 23, 2004; Steyerberg and Harrell,
Journal of Clinical Epidemiology 69, 2016). Random effects summarise the measures of the groups,
those of an AUC as log-odds (Snell, Ensor, Debray, Moons, Riley, Statistical Methods in Medical
Research 27, 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .._support.validation import check_integer
from .._support.warnings import collect_warnings, warn_user
from ..sparse_model import Array
from .fitted import LinearModel, n_features_of
from .folds import deal_clients
from .groups import encode_groups, group_of_each_row
from .inputs import weights_of_rows
from .meta_analysis import RandomEffects, has_measure, on_scale, random_effects
from .performance import (
    Performance,
    by_question,
    check_by,
    facts_of,
    performance_of_rows,
)
from .plots import CALIBRATION, draw_measures, main_measure
from .session import Sent

Refit = Callable[[LinearModel, Array], LinearModel]
Measure = Callable[[LinearModel, Array, str], Performance]


@dataclass(frozen=True, eq=False, repr=False)
class Validation(Performance):
    """How good models are at groups that had no part in their fit, and how groups differ.

    Attributes
    ----------
    columns : dict of str to ndarray
        As in `Performance`, with a line for each group that was left out and each model:
        ``sparsity``, that of the estimator, or ``"all"`` for the dense model; ``features``, their
        number in the model without this group, where a variable counts once; and ``in_sample``, the
        AUC, R2 or D2 of the same group as part of the other fits, on average: how much too kind
        `performance` is.
    overall : dict of str to ndarray
        For each ``measure`` and ``sparsity`` the random-effects summary over ``groups`` groups:
        ``mean`` with its 95 % interval from ``lower`` to ``upper``; ``tau``, the deviation between
        groups, and ``i2``, its share of the variance, with that of a typical error; and
        ``new_lower`` to ``new_upper``, the interval of 95 % for a new group, with quantiles of t
        for two degrees of freedom less than groups. Those of an AUC are of its log-odds, as tau is.
        R2 and D2 have no standard errors, so that theirs is the plain mean. All lines of a measure
        are of the groups where both models have it, with an error above zero. The last line is the
        plain mean of the difference between the two models at these.
    title, notes, exchanges, facts
        As in `Performance`; the exchanges are those of all fits.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> y = X[:, 1] + np.random.default_rng(1).logistic(size=300) > 0
    >>> model = fgmp.FedGradMPClassifier(1)
    >>> validation = model.validate(X, y, groups=np.arange(300) % 3)
    >>> validation.columns["group"].tolist()[::2], validation.columns["sparsity"].tolist()[:2]
    (['0', '1', '2'], ['1', 'all'])
    >>> bool(validation.overall["mean"][0] > 0.6)
    True
    """

    overall: dict[str, Array]

    def _tables(self) -> dict[str, dict[str, Array]]:
        """Return both tables."""
        return super()._tables() | {"Over the groups": self.overall}

    def plot(self, axes: Any = None) -> Any:
        """Draw AUC, R^2 or D^2, calibration intercept and slope at each group that was left out.

        Below the groups stands the summary: its interval, and a thin line for a new group.

        Parameters
        ----------
        axes : sequence of three axes of matplotlib, optional
            Where to draw; by default a new figure.

        Returns
        -------
        ndarray of axes
            A dashed line is where a model that is right would be.
        """
        return draw_measures(axes, self.columns, self.overall)


def validate_rows(
    model: LinearModel,
    X: Any,
    y: Any,
    groups: Any,
    sample_weight: Any,
    n_sets: int | None,
    dense: bool,
) -> Validation:
    """Return the validation on rows; parameters as in `FedGradMPRegressor.validate`."""
    values = group_of_each_row(_num_samples(X), groups)
    given = weights_of_rows(sample_weight, X)
    present, missing, codes, _ = encode_groups(len(values), values, given, model.min_rows)
    rows = np.flatnonzero(codes >= 0)

    def of_groups(is_taken: Array) -> dict[str, Any]:
        taken = rows[is_taken[codes[rows]]]
        return {
            "X": _safe_indexing(X, taken),
            "y": _safe_indexing(y, taken),
            "groups": values[taken],
            "sample_weight": None if sample_weight is None else given[taken],
        }

    def refit(estimator: LinearModel, is_inside: Array) -> LinearModel:
        return clone(estimator).fit(**of_groups(is_inside))

    def measure(fitted: LinearModel, is_measured: Array, by: str) -> Performance:
        return performance_of_rows(fitted, by=by, **of_groups(is_measured))

    n_small = len(missing)
    return validate_groups(model, present.tolist(), n_sets, dense, refit, measure, n_small)


def _sets_of_groups(model: LinearModel, n_groups: int, n_sets: int | None) -> list[Array]:
    """Return a mask of the groups of each set that is left out, or raise a ValueError.

    The sets are the same each time: under masks sums of several validations have to be, too.
    """
    if n_groups < 2:
        raise ValueError(
            f"groups has {n_groups} group with min_rows={model.min_rows} rows; expected at least "
            "two, of which one is left out"
        )
    set_of_each: Array = np.arange(n_groups)
    if n_sets is not None and check_integer("n_sets", n_sets, at_least=2, at_most=n_groups):
        set_of_each = deal_clients(n_groups, n_sets, seed=0)
    sets = [set_of_each == number for number in range(n_sets or n_groups)]
    _check_masks(model, n_groups, len(sets))
    return sets


def _check_masks(model: LinearModel, n_groups: int, n_sets: int) -> None:
    """Raise a ValueError if the sums of several fits could be solved for one group.

    Sums over all groups but a set have the sums over this set as their difference. Sets that do not
    overlap, of two groups or more, leave every single group hidden; folds within them would not.
    """
    if not model.secure:
        return
    if n_groups < 2 * n_sets:
        raise ValueError(
            f"n_sets is {n_sets} for {n_groups} groups, and secure is True: the sums with and "
            "without a group differ by its own; expected n_sets of at least two groups each"
        )
    if "cv" in (model.sparsity, model.C):
        raise ValueError(
            "sparsity or C is 'cv', and secure is True: sums over the folds of several fits can be "
            "solved for one group; expected numbers, or validation in the open"
        )


def validate_groups(
    model: LinearModel,
    names: Sequence[Hashable],
    n_sets: int | None,
    dense: bool,
    refit: Refit,
    measure: Measure,
    n_small: int = 0,
) -> Validation:
    """Return the validation of an estimator, whose groups are here or on other machines.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
        Need not be fitted, and is not changed.
    names : sequence
        The groups.
    n_sets : int or None
        How many sets of groups are left out; None leaves out each group.
    dense : bool
        Whether a model with ``sparsity="all"`` is validated, too.
    refit : callable (estimator, mask of groups) -> fitted estimator
    measure : callable (fitted estimator, mask of groups, by) -> Performance
    n_small : int, default 0
        How many other groups have too few rows to take part.
    """
    # Groups are measured one by one, or under masks those of a set together.
    by = "all" if model.secure else "groups"
    check_by(model, by)
    sets = _sets_of_groups(model, len(names), n_sets)
    estimators = {str(model.sparsity): model}
    if dense:
        estimators["all"] = clone(model).set_params(sparsity="all")
    exchanges: list[Sent] = []
    tables: list[dict[str, Array]] = []
    with collect_warnings() as messages:
        for name, estimator in reversed(estimators.items()):  # a dense one is refused at once
            fits = []
            for is_left_out in sets:
                with _named(name, names, is_left_out, dense and name == "all"):
                    fitted = refit(estimator, ~is_left_out)
                # Groups of the fit are measured too, unless masks hide what is of one group.
                performance = measure(fitted, is_left_out | (not model.secure), by)
                fits.append(_Fit(fitted, performance, is_left_out))
                exchanges += [*fitted.exchanges_, *performance.exchanges]
            tables.insert(0, _lines_of_model(name, fits, names))
    if messages:
        warn_user(
            f"{len(messages)} warnings in {len(sets) * len(estimators)} fits, the first one: "
            f"{messages[0]}",
            ConvergenceWarning,
        )
    columns, n_hidden = _shown({key: np.concatenate([t[key] for t in tables]) for key in tables[0]})
    overall = _overall(columns, list(estimators))
    sent = by_question(exchanges)
    facts = facts_of(fits[-1].fitted, names, by, sent)
    what = f"{len(names)} groups"
    if len(sets) < len(names):
        what = f"{len(sets)} sets of {what}"
    about = f"{type(model).__name__}: each of {what} predicted by a model of the others"
    return Validation(
        columns,
        about,
        tuple(_notes(fits[-1].performance, columns, overall, n_hidden + n_small, model.min_rows)),
        sent,
        (("validation of", about), *facts[1:]),
        overall,
    )


class _Fit(NamedTuple):
    """A fit without some groups, and what it was measured to be: at all groups, or at these."""

    fitted: LinearModel
    performance: Performance
    is_left_out: Array


def _lines_of_model(sparsity: str, fits: Sequence[_Fit], names: Sequence[Any]) -> dict[str, Array]:
    """Return the lines of the groups that were left out; ``place`` is the index of the group."""
    main = main_measure(fits[0].performance.columns)
    measured = []
    for fitted, performance, is_left_out in fits:
        columns = dict(performance.columns)
        groups = np.arange(len(names))
        if fitted.secure:  # a line, or one for each class, of all groups of the set
            groups = np.flatnonzero(is_left_out)[:1]
            of_set = ", ".join(str(names[index]) for index in np.flatnonzero(is_left_out).tolist())
            columns["group"] = np.full(len(columns["group"]), of_set, object)
        place = np.repeat(groups, len(columns["group"]) // len(groups))
        columns |= {
            "place": place,
            "sparsity": np.full(len(place), sparsity, object),
            "features": np.full(len(place), n_features_of(fitted)),
        }
        measured.append((columns, is_left_out[place]))
    if not fits[0].fitted.secure:
        inside = [np.where(is_line, np.nan, columns[main]) for columns, is_line in measured]
        in_sample = np.ma.masked_invalid(inside).mean(axis=0).filled(np.nan)
        for columns, _ in measured:
            columns["in_sample"] = in_sample

    first = ("group", "sparsity", "class", "features", "rows", "observed", "predicted")
    keys = dict.fromkeys((*first, main, f"{main}_se", "in_sample", *measured[0][0]))
    return {
        key: np.concatenate([columns[key][is_line] for columns, is_line in measured])
        for key in keys
        if key in measured[0][0]
    }


@contextmanager
def _named(
    sparsity: str, names: Sequence[Hashable], is_left_out: Array, is_added: bool
) -> Iterator[None]:
    """Add to an error which of the models it is about; `is_added` if `dense` has added it."""
    try:
        yield
    except ValueError as error:
        without = [str(group) for group, is_out in zip(names, is_left_out, strict=True) if is_out]
        remedy = "; dense=False does without it" if is_added else ""
        error.add_note(f"This is the model with sparsity={sparsity} without {without}{remedy}.")
        raise


def _shown(columns: dict[str, Array]) -> tuple[dict[str, Array], int]:
    """Return the lines by group, without those that have no measure, and how many groups these are.

    A group with few rows, or few of a class, sends zeros. One that did not answer for one of the
    models is left out for all.
    """
    order = np.argsort(columns.pop("place"), kind="stable")
    columns = {key: column[order] for key, column in columns.items()}
    groups = columns["group"].tolist()
    labels = columns.get("class", np.zeros(len(groups))).tolist()
    keys = list(zip(groups, labels, strict=True))
    is_missing = np.isnan(columns["observed"])
    hidden = {keys[line] for line in np.flatnonzero(is_missing).tolist()}
    is_shown = np.array([key not in hidden for key in keys], np.bool_)
    n_hidden = len({group for group, _ in hidden})
    return {key: column[is_shown] for key, column in columns.items()}, n_hidden


def _overall(columns: dict[str, Array], models: Sequence[str]) -> dict[str, Array]:
    """Return the random-effects summaries of a table, as in `Validation`."""
    main = main_measure(columns)
    classes = columns.get("class", np.zeros(len(columns["rows"])))
    lines = []
    for measure in (main, *CALIBRATION):
        values, errors = on_scale(measure, columns)
        exists = has_measure(values, errors)
        for label in dict.fromkeys(classes):
            is_of = [(columns["sparsity"] == model) & (classes == label) for model in models]
            lines_of = np.array([np.flatnonzero(is_of_model) for is_of_model in is_of])
            # All models at the same groups: a mean without the best group of one says nothing.
            lines_of = lines_of[:, exists[lines_of].all(axis=0)]
            for model, at in zip(models, lines_of, strict=True):
                effects = random_effects(values[at], None if errors is None else errors[at])
                lines.append((measure, model, label, *effects.from_scale(measure)))
            if measure == main and len(models) > 1:
                own, dense = columns[measure][lines_of]
                name = f"{models[1]} - {models[0]}"
                lines.append((measure, name, label, *random_effects(dense - own, None)))
    keys = ("measure", "sparsity", "class", *RandomEffects._fields)
    table = zip(keys, map(np.array, zip(*lines, strict=True)), strict=True)
    return {key: column for key, column in table if key != "class" or key in columns}


def _notes(
    performance: Performance,
    columns: dict[str, Array],
    overall: dict[str, Array],
    n_hidden: int,
    min_rows: int,
) -> Iterator[str]:
    """Yield how the two tables are to be read."""
    yield performance.notes[0]
    yield (
        "in sample: the same measure of the same group, averaged over the fits that it was part "
        "of. It is too kind."
    )
    has_errors = " R2 and D2 have no errors: theirs is the plain mean of the groups."
    if "auc" in overall["measure"]:
        has_errors = " Of an AUC they are of its log-odds, as tau is."
    yield (
        "mean, low and high: random effects over the groups (Paule-Mandel), with a 95 % interval "
        "(Hartung-Knapp, never shorter than by the errors alone); new: 95 % prediction interval "
        "for a new group, of t with k-2 degrees of freedom for k groups; tau: deviation between "
        "groups; I2: tau^2 over tau^2 and the variance of a typical error (Higgins and Thompson)."
        f"{has_errors}"
    )
    if len(set(overall["sparsity"])) > 1:
        yield (
            "The line with a minus is the plain mean of the differences at each group, in the "
            "units of the measure, with the interval of t with k-1 degrees of freedom."
        )
    if overall["n_groups"].min() < len(set(columns["group"])):
        yield (
            "Groups at which a measure of one of the models has no standard error, as an AUC of 0 "
            "or 1, are in no mean of this measure."
        )
    if n_hidden:
        yield (
            f"Not shown: {n_hidden} groups, with fewer than min_rows={min_rows} rows, or rows of a "
            "class, or without a reply."
        )
