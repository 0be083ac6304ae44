"""The summary of a fitted estimator: coefficients, standard errors, intervals, and their limits."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit
from sklearn.base import is_classifier

from .._support.displays import frame_of, html_table_with_notes, rows_of, text_table
from .._support.ties import with_exact_ties
from .._support.validation import check_bool, check_number
from ..shared_support.newton import Separated
from ..sparse_model import Array
from .bootstrap import FEW_GROUPS_TO_DRAW, check_training_data, clients_of
from .covariance import MAX_COEFFICIENTS, Covariance
from .defaults import aggregator_of, settings_of
from .fitted import (
    SELECTED_BY,
    LinearModel,
    always_included,
    names_of_features,
    words_on_features,
)
from .fitting import refit_without_ridge
from .plots import draw_forest
from .session import Session, report_nothing
from .settings import n_choices

# With fewer clusters a cluster sandwich is on average too small by more than a little (Cameron and
# Miller, A Practitioner's Guide to Cluster-Robust Inference, 2015, section VI).
_FEW_GROUPS_FOR_ERRORS = 30
# With fewer rows of the rarer class for each column, coefficients are too large on average and
# intervals too narrow (Peduzzi et al., A simulation study of the number of events per variable,
# Journal of Clinical Epidemiology 49, 1996).
_EVENTS_PER_COLUMN = 10
# The coefficient of an indicator of fewer rows is marked, whatever `min_rows` is.
_FEW_ROWS = 5
# The rounding of weights of rows relative to their sum, under masks too.
_ROUNDING_OF_ROWS = 1e-10
# The rounding of the sum itself, of weights in single precision.
_ROUNDING_OF_SUM = 1e-5
_WIDTH = 100

_HEADINGS = {
    "feature": "feature",
    "class": "class",
    "step": "per",
    "coefficient": "coef",
    "per_deviation": "per sd",
    "odds_ratio": "odds ratio",
    "rate_ratio": "rate ratio",
    "standard_error": "se",
    "standard_error_by_group": "se",
    "rows": "rows",
}
_RATIOS = ("odds_ratio", "rate_ratio")
_ENDS = ("lower", "upper", "lower_by_group", "upper_by_group")
# What the names of the columns of the refit without a ridge end with.
UNSHRUNKEN = "_unshrunken"


@dataclass(frozen=True, eq=False)
class Summary:
    """A table with one row for the intercept and for each chosen feature, and notes on it.

    Attributes
    ----------
    columns : dict of str to ndarray
        ``feature``; ``class`` with several outputs; ``coefficient`` per unit of the feature, its
        standard ``deviation``, and ``per_deviation``, the product; for a logistic model
        ``odds_ratio`` and ``odds_ratio_per_deviation``, their exponentials, and for counts
        ``rate_ratio`` and ``rate_ratio_per_deviation``; ``standard_error``, ``lower`` and ``upper``
        of the coefficient, model-based; and the same ``_by_group``, of the cluster sandwich with
        the groups as clusters, nan if that was not summed. Where there are ratios, their intervals
        too: ``odds_ratio_lower``, ``odds_ratio_per_deviation_upper_by_group`` and so on. The table
        that is printed has one ratio, for a standard deviation of the feature or, for a column of
        zeros and ones, for a one against a zero. If there are columns of
        zeros and ones, ``rows``, how many rows have a one (by their weights), nan for other
        columns; and ``few_rows``, whether these, or those with a zero, are fewer than 5, or than
        `min_rows`. The table that is printed marks them. With ``summary(unshrunken=True)`` also
        ``coefficient_unshrunken`` and all that is made of it, by the refit without a ridge.
    title : str
        The model, and of how many rows and groups it is.
    notes : tuple of str
        What the errors and intervals hold, and what they leave out.
    level : float
        The coverage of the intervals.
    n_groups : int
        The number of groups, of which errors by group are made.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> y = 2 * X[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(60)
    >>> summary = fgmp.FedGradMPRegressor(1).fit(X, y, groups=np.arange(60) % 4).summary()
    >>> summary.columns["feature"].tolist(), bool(summary.columns["lower"][1] > 1.5)
    (['(intercept)', 'x1'], True)
    """

    columns: dict[str, Array]
    title: str
    notes: tuple[str, ...]
    level: float
    n_groups: int

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, with the features as its index."""
        return frame_of("a summary as a table", self.columns, ("feature", "class"))

    def __repr__(self) -> str:
        names, lines = self._texts()
        table = text_table(names, lines, n_words=1 + ("class" in self.columns))
        notes = [textwrap.fill(f"- {note}", _WIDTH, subsequent_indent="  ") for note in self.notes]
        return "\n".join([self.title, "", *table, "", *notes])

    def _repr_html_(self) -> str:
        names, lines = self._texts()
        return html_table_with_notes(self.title, names, lines, self.notes)

    def plot(self, ax: Any = None) -> Any:
        """Draw a forest plot: the ratios of the table, or coefficients per standard deviation.

        Each feature has both of its intervals.

        Parameters
        ----------
        ax : axes of matplotlib, optional
            Where to draw; by default a new figure.

        Returns
        -------
        axes
            The dashed line is no effect.
        """
        ratio, columns = self._per_step()
        return draw_forest(ax, columns, ratio, self.level, self._words_on_groups)

    @property
    def _words_on_groups(self) -> str:
        """What errors by group are made of: a few groups are counted where their errors stand."""
        return "groups" if self.n_groups >= FEW_GROUPS_TO_DRAW else f"{self.n_groups} groups"

    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the cells of the table that is printed.

        What is published comes first, because a narrow screen shows the first columns only: a
        ratio with its intervals, or, without one, the coefficient with its own.
        """
        ratio, columns = self._per_step()
        main = ratio or "coefficient"
        headings = {name: _HEADINGS[name] for name in ("feature", "class", "step", main)}
        for refit in ("", UNSHRUNKEN):
            headings[main + refit] = "C=inf" if refit else _HEADINGS[main]
            for end in _ENDS:
                name = f"{ratio}_{end}" if ratio else end
                headings[name + refit] = "low" if end.startswith("lower") else "high"
        headings |= _HEADINGS
        for name in headings:
            if "_by_group" in name:
                headings[name] += f" ({self._words_on_groups})"
        if ratio:
            del headings["per_deviation"]  # its exponential says the same
        shown = {
            name: columns[name]
            for name in headings
            if name in columns and not ("by_group" in name and np.isnan(columns[name]).all())
        }
        rows = rows_of(shown, 4, nothing="")
        if "rows" in shown:
            at = list(shown).index("rows")
            for row, is_few in zip(rows, columns["few_rows"], strict=True):
                row[at] += " *" if is_few else ""
        return [headings[name] for name in shown], rows

    def _per_step(self) -> tuple[str, dict[str, Array]]:
        """Return which ratio there is, or "", and columns in which it is that of a readable step.

        So are its intervals. The step stands beside it in words.
        """
        columns = self.columns
        ratio = next((name for name in _RATIOS if name in columns), "")
        if not ratio:
            return ratio, columns
        deviations = columns["deviation"]
        is_indicator = ~np.isnan(columns.get("rows", np.full(len(deviations), np.nan)))
        words = [f"sd {deviation:.4g}" for deviation in deviations.tolist()]
        steps = np.where(is_indicator, "1", words)
        steps[np.isnan(deviations)] = ""  # of the intercept

        found = columns | {"step": steps}
        for name in columns:
            if name.startswith(f"{ratio}_per_deviation"):
                of_unit = name.replace("_per_deviation", "")
                found[of_unit] = np.where(is_indicator, columns[of_unit], columns[name])
        return ratio, found


def summarize(model: LinearModel, level: float, unshrunken: bool) -> Summary:
    """Return the summary of a fitted estimator.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
        Fitted.
    level, unshrunken
        As in `FedGradMPRegressor.summary`.

    Raises
    ------
    ValueError
        If the model has no covariance, with the reason, or no rows for the refit.
    """
    level = check_number("level", level, above=0, at_most=1)
    check_bool("unshrunken", unshrunken)
    covariance = getattr(model, "covariance_", None)
    if covariance is None:
        raise ValueError(_why_no_covariance(model))

    columns: dict[str, Array] = {"feature": _feature_names(model, covariance)}
    if is_classifier(model) and len(model.classes_) > 2:
        columns["class"] = np.asarray(model.classes_)[covariance.outputs]
    columns |= _of_coefficients(model, covariance, level)
    notes = list(_notes(model, covariance, level))
    if unshrunken:
        refit, note = _refit_without_ridge(model, covariance)
        notes.append(note)
        if refit is not None:
            added = _of_coefficients(model, refit, level)
            columns |= {name + UNSHRUNKEN: column for name, column in added.items()}
    columns |= _rows_behind(covariance, _fewest_rows(model))
    notes += _notes_on_rows(model, columns)
    return Summary(columns, _title(model, covariance), tuple(notes), level, covariance.n_groups)


def _of_coefficients(model: LinearModel, covariance: Covariance, level: float) -> dict[str, Array]:
    """Return coefficients, errors, intervals, and ratios of a unit and of a standard deviation.

    The intercept, which has no deviation, has no ratio. Without a covariance matrix errors are nan.
    """
    values = covariance.values
    deviations = np.append(covariance.deviations, np.nan)[covariance.columns]  # the intercept is -1
    columns = {
        "coefficient": values,
        "deviation": deviations,
        "per_deviation": values * deviations,
    }
    # Without a variance to estimate, quantiles are normal.
    degrees_of_freedom = np.inf if is_classifier(model) else covariance.degrees_of_freedom
    for ending, matrix, degrees in (
        ("", covariance.model_based, degrees_of_freedom),
        ("_by_group", covariance.by_group, covariance.n_groups - 1),
    ):
        errors = np.full(len(values), np.nan)
        if matrix is not None:
            # The variance of a coefficient that all groups agree on is zero, or rounding of zero.
            errors = np.sqrt(np.maximum(matrix.diagonal(), 0))
        quantile = (1 + level) / 2
        # No degree of freedom has no quantile: nan.
        half = errors * float(ndtri(quantile) if degrees == np.inf else stdtrit(degrees, quantile))
        ends = {f"lower{ending}": values - half, f"upper{ending}": values + half}
        columns |= {f"standard_error{ending}": errors} | ends

    ratio = _name_of_ratio(model)
    if not ratio:
        return columns
    exponents = {"": "coefficient"} | {f"_{end}": end for end in _ENDS}
    steps = {"": np.where(np.isnan(deviations), np.nan, 1.0), "_per_deviation": deviations}
    with np.errstate(over="ignore"):
        return columns | {
            f"{ratio}{per}{end}": np.exp(columns[name] * step)
            for per, step in steps.items()
            for end, name in exponents.items()
        }


def _refit_without_ridge(
    model: LinearModel, covariance: Covariance
) -> tuple[Covariance | None, str]:
    """Return the refit of the features of a model without a ridge, if there is one, and a note."""
    if not covariance.is_ridge:
        return None, "C is np.inf: the coefficients are not shrunken."
    check_training_data(
        model,
        "Over a network fit the same features again: sparsity=0, always_include=[...], C=np.inf",
    )
    clients = clients_of(model, model._training_data)
    settings = settings_of(model, clients)
    session = Session(clients, settings, 0, aggregator_of(model), report_nothing)
    try:
        refit = refit_without_ridge(session, model.support_)
    except Separated:
        return None, (
            "C=inf: does not exist. The features separate classes, or rows without events, so that "
            "coefficients without a ridge have no bound."
        )
    return refit, (
        "C=inf: the same features without a ridge, with intervals about what is not shrunken."
    )


def _fewest_rows(model: LinearModel) -> int:
    """Return from how many rows on the coefficient of an indicator has no mark."""
    return max(int(model.min_rows), _FEW_ROWS)


def _rows_behind(covariance: Covariance, fewest: int) -> dict[str, Array]:
    """Return the rows behind the coefficients of indicators, and whether they are few."""
    shares = covariance.indicator_shares
    if shares is None or covariance.n_samples is None or np.isnan(shares).all():
        return {}
    rows = np.round(shares * covariance.n_samples, 6)
    return {"rows": rows, "few_rows": np.fmin(rows, covariance.n_samples - rows) < fewest}


def _notes_on_rows(model: LinearModel, columns: dict[str, Array]) -> Iterator[str]:
    """Yield which rows are left out, and of which coefficients few rows decide."""
    if columns.get("few_rows", np.zeros(1)).any():
        yield (
            f"Rows marked with *: fewer than {_fewest_rows(model)} have a one, or a zero, in this "
            "column. Its coefficient tells of their outcomes, and no interval holds for so few."
        )
    recoded = getattr(model, "n_rows_recoded_", {})
    if recoded:
        words = ", ".join(f"{n_rows} of {name}" for name, n_rows in recoded.items())
        yield (
            f"Recoded before the fit: rows with a level or a gap that fewer than "
            f"min_rows={model.min_rows} rows of their group have ({words}). predict takes rows as "
            "they are. Where rows may be pooled, min_rows=1 recodes none."
        )
    elif hasattr(model, "encoding_") and model.min_rows > 1:
        yield (
            f"A level or a gap that fewer than min_rows={model.min_rows} rows of a group have is "
            "in no column."
        )
    n_left_out = getattr(model, "n_rows_left_out_", 0)
    if n_left_out:
        n_groups = len(model.missing_)
        yield (
            f"Left out: {n_left_out} {'row' if n_left_out == 1 else 'rows'} of groups with fewer "
            f"than min_rows={model.min_rows} rows ({n_groups} of "
            f"{n_groups + len(model.groups_)} groups take no part)."
        )


def _name_of_ratio(model: LinearModel) -> str:
    """Return what the exponential of a coefficient is, or "" for the squared loss."""
    if is_classifier(model):
        return "odds_ratio"
    return "rate_ratio" if model.loss == "poisson" else ""


def _feature_names(model: LinearModel, covariance: Covariance) -> Array:
    """Return the name of the feature of each coefficient, and of the intercept one of its own."""
    names = list(names_of_features(model))
    intercept = "(intercept)"
    while intercept in names:
        intercept = f"({intercept})"
    return np.array([*names, intercept], object)[covariance.columns]  # the intercept is -1


def _why_no_covariance(model: LinearModel) -> str:
    """Return why a fitted model has no covariance."""
    if model.private is not None:
        return (
            "the model was fitted with private noise, and a covariance needs exact sums; expected "
            "a model without private"
        )
    if not model.polish:
        return (
            "polish is False, so that the coefficients are no minimiser and have no standard "
            "errors; expected a model that was fitted with polish=True"
        )
    n_coefficients = np.count_nonzero(model.coef_) + bool(model.fit_intercept)
    if n_coefficients > MAX_COEFFICIENTS:
        return (
            f"the model has {n_coefficients} coefficients; expected at most {MAX_COEFFICIENTS}, "
            "for which covariances are summed"
        )
    return "the model has no coefficient, or comes from a file without covariances"


def _title(model: LinearModel, covariance: Covariance) -> str:
    """Return what the summary is about."""
    how = "all that vary"
    if model.method_ != "all":
        how = f"chosen by {SELECTED_BY[model.method_].partition(':')[0]}"
        how += " and cross-validation" * (model.sparsity == "cv")
    groups = "1 group" if covariance.n_groups == 1 else f"{covariance.n_groups} groups"
    return (
        f"{type(model).__name__}: {words_on_features(model)}, {how}; "
        f"{covariance.n_rows:g} rows of {groups}"
    )


def _notes_on_classes(model: LinearModel, covariance: Covariance) -> Iterator[str]:
    """Yield which class the odds are of, and whether the rows of the rarest one are few."""
    classes = [str(label) for label in model.classes_.tolist()]
    if len(classes) == 2:
        yield f"Odds are of {classes[1]} against {classes[0]}: above 1 speaks for {classes[1]}."
    else:
        yield (
            "The coefficients of a feature sum to zero over the classes; an odds ratio is against "
            "the geometric mean of all classes."
        )
    rows = covariance.class_rows
    n_columns = len(model.support_)
    if rows is None or not n_columns:  # None comes from a file of an earlier version
        return

    rarest = int(with_exact_ties(rows, _ROUNDING_OF_ROWS * float(rows.sum())).argmin())
    events = rows[rarest] / n_columns
    if events < _EVENTS_PER_COLUMN:
        yield (
            f"Only {rows[rarest]:.4g} rows are of {classes[rarest]}, "
            f"{events:.2g} for each column in the model; with fewer than {_EVENTS_PER_COLUMN} "
            "coefficients come out too large, and intervals too narrow."
        )


def _notes(model: LinearModel, covariance: Covariance, level: float) -> Iterator[str]:
    """Yield what the errors and intervals hold, and what they leave out."""
    if is_classifier(model):
        yield from _notes_on_classes(model, covariance)
    if model.sparsity != "all":
        yield (
            "The choice of the features is not in the errors and intervals: they hold for these "
            "features as if they had been named before the data were seen, and are too narrow "
            "otherwise. bootstrap() shows how often a feature is chosen."
        )
    if model.sparsity == "cv" and hasattr(model, "cv_"):
        yield from _notes_on_sparsity(model)
    if model.method_ != "all":
        yield f"Selected by {SELECTED_BY[model.method_]}."
    if covariance.is_ridge:
        yield (
            f"The coefficients are ridge estimates (C={model.C_:g}), shrunken towards zero; the "
            "intervals are about the shrunken values. summary(unshrunken=True) has those of "
            "C=np.inf beside them, where the rows are."
        )
    ratio = _name_of_ratio(model).replace("_", " ")
    if ratio:
        yield (
            f"per: the step of the {ratio}, a standard deviation (sd) of the feature, or 1 for a "
            "column of zeros and ones. In columns it stands per unit, too."
        )
    yield from _notes_on_intervals(model, covariance, level, ratio)
    if ratio == "rate ratio" and covariance.dispersion == 1:
        yield (
            "Model-based errors hold for counts whose variance is their mean: a file of an earlier "
            "version has no dispersion."
        )
    yield from _notes_on_weights(model, covariance)


def _notes_on_sparsity(model: LinearModel) -> Iterator[str]:
    """Yield what the choice costs where rows, or groups, were held out, if "cv" tried all."""
    path = model.cv_
    block_of = model.encoding_.block_of() if hasattr(model, "encoding_") else None
    most = n_choices(np.shape(model.coef_)[-1], always_included(model), block_of)
    score = "D2" if _name_of_ratio(model) else "R2"
    of_sparsity = path.explained
    ending = ""
    if path.auc:
        score = "AUC"
        of_sparsity = path.auc
        ending = ", of pairs of rows within a group"
    elif is_classifier(model) and len(model.classes_) == 2:
        ending = (
            "; there is no AUC: no group has min_rows rows of each class, or the file of the "
            "model is of an earlier version"
        )
    if most in of_sparsity and path.chosen != most:
        yield (
            f"{score} on {path.folds} that were held out: {of_sparsity[path.chosen]:.3f} with "
            f"{path.chosen} features, {of_sparsity[most]:.3f} with all {most}{ending}."
        )


def _notes_on_intervals(
    model: LinearModel, covariance: Covariance, level: float, ratio: str
) -> Iterator[str]:
    """Yield which errors there are and what they rest on, or why there are none."""
    n_left = covariance.degrees_of_freedom
    n_rows = covariance.n_rows
    none_left = f"{n_rows - n_left:g} coefficients of {n_rows:g} rows leave no degree of freedom"
    if n_left <= 0 and not is_classifier(model):
        yield f"No errors: {none_left}."
        return

    quantile = "normal" if is_classifier(model) else f"t({n_left:g})"
    what = "the inverse information"
    if ratio == "rate ratio":
        what = (
            f"quasi-Poisson: dispersion {covariance.dispersion:.4g} (Pearson's chi-squared over "
            "n-k; 1 if the variance of a count is its mean) times the inverse information"
        )
    elif not ratio:
        what = f"residual variance {covariance.dispersion:.4g} times the inverse second moments"
    yield (
        f"low and high bound the {100 * level:g} % interval of the {ratio or 'coefficient'}. They "
        f"and se are model-based, {what}; {quantile} quantiles."
    )
    n_groups = covariance.n_groups
    if covariance.by_group is None:
        yield f"No errors by group: {covariance.why_not_by_group}."
    elif n_left <= 0:
        yield f"No errors by group: {none_left}."
    else:
        yield (
            "(groups): cluster sandwich with the groups as clusters, times G/(G-1) "
            "(n-1)/(n-k), as statsmodels has it by default, for "
            f"G={n_groups}; t({n_groups - 1}) quantiles."
        )
        if n_groups < _FEW_GROUPS_FOR_ERRORS:
            yield (
                f"With {n_groups} groups the sandwich is a rough estimate, and too "
                f"small on average; from about {_FEW_GROUPS_FOR_ERRORS} on it is reliable. An "
                "interval by groups that is narrower than that of the model is no surer."
            )
    if np.isnan(covariance.model_based.diagonal()).any():
        yield "Without an error: collinear columns."


def _notes_on_weights(model: LinearModel, covariance: Covariance) -> Iterator[str]:
    """Yield what errors make of weights, if these are not numbers that sum to that of the rows."""
    n_rows = covariance.n_rows
    n_samples = covariance.n_samples
    total = covariance.total_weight
    if total is not None and n_rows != n_samples:
        yield (
            f"The weights of {n_samples} rows are whole numbers, so they are taken as numbers of "
            f"rows: {n_rows:g} in all. Weights that are not all whole are relative."
        )
    what_depends = []
    if is_classifier(model):
        what_depends.append(
            "Model-based errors, as in statsmodels, take this sum for the number of rows: they "
            "depend on the scale of the weights, and the sandwich does not."
        )
    if covariance.is_ridge:
        what_depends.append("C is relative to this sum, as in scikit-learn.")
    is_on_scale = total is None or math.isclose(total, n_rows, rel_tol=_ROUNDING_OF_SUM)
    if what_depends and not is_on_scale:
        yield " ".join([f"The weights of {n_rows:g} rows sum to {total:g}.", *what_depends])
    if getattr(model, "class_weight", None) is not None:
        yield "Model-based errors take class weights for numbers of rows."
