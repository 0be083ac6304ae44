"""The bootstrap of an estimator: which features other samples select, with which coefficients."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np
from joblib import delayed
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from tqdm import tqdm

from .._support.displays import facts_in_words, html_facts
from .._support.progress import PATIENCE
from .._support.validation import check_bool, check_integer, check_number, check_option
from .._support.warnings import collect_warnings, warn_user
from ..recording import Run
from ..shared_support.newton import Separated
from ..sparse_model import Array, IndexArray
from .advice import errors_in_words
from .clients import FitClients
from .defaults import grid_of, settings_of
from .federated_table import FederatedTable, RawTableClients, Rows
from .fitted import LinearModel, is_encoded, names_of_features
from .fitting import fit_model
from .inputs import as_random_state, seed_of, validated
from .plots import new_axes
from .resampling import ResampledClients
from .session import Report, Session, report_nothing

# With fewer groups resamples of them say little: as of a cluster sandwich, intervals are too narrow
# (Cameron and Miller, A Practitioner's Guide to Cluster-Robust Inference, 2015, section VI).
FEW_GROUPS_TO_DRAW = 10
# Draws that miss a class are repeated; after this number of them in a row there is an error.
_MAX_DRAWS = 100


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap:
    """The coefficients of the resamples.

    Attributes
    ----------
    coef : ndarray, shape (n_resamples, n_outputs, n_features)
        The coefficients of the resamples, in the units of the data.
    estimate : ndarray, shape (n_outputs, n_features)
        The coefficients of the fit itself.
    names : tuple of str
        Names of the features.
    n_drawn : int or None
        How many groups were drawn from; None if rows were drawn.
    has_chosen_again : bool or None
        Whether each resample has chosen its sparsity, or C, again; None if the fit chose neither.
    n_separated : int
        How many more resamples have no finite model, because classes are separated in them and C is
        infinite. They are left out.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> model = fgmp.FedGradMPRegressor(1).fit(X, 2 * X[:, 1], groups=np.arange(60) % 12)
    >>> model.bootstrap(20, over="groups")
    Bootstrap(20 resamples, x1 1)
    """

    coef: Array
    estimate: Array
    names: tuple[str, ...]
    n_drawn: int | None = None
    has_chosen_again: bool | None = None
    n_separated: int = 0

    def __repr__(self) -> str:
        drawn = f" of only {self.n_drawn} groups" if self._has_few_groups else ""
        shares = facts_in_words(self._shares(5)) or "no feature in any"
        return f"Bootstrap({len(self.coef)} resamples{drawn}{self._choice}, {shares})"

    @property
    def _choice(self) -> str:
        """Whose choice the resamples have, in words."""
        words = {None: "", True: ", choosing again", False: ", all as the fit chose"}
        return words[self.has_chosen_again]

    def _repr_html_(self) -> str:
        """Return a table for notebooks: the features that most resamples select."""
        title = (
            f"Bootstrap of {len(self.coef)} resamples{self._choice}: share that selects a feature"
        )
        return html_facts(title, self._shares(20)) + (f"<p>{self.note}</p>" if self.note else "")

    def _shares(self, most: int) -> dict[str, str]:
        """Return the shares of the most frequent features, by name, and how many others follow."""
        shares = self.inclusion
        selected = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
        words = {self.names[j]: f"{shares[j]:.3g}" for j in selected[:most]}
        if len(selected) > most:
            n_more = len(selected) - most
            words["1 other" if n_more == 1 else f"{n_more} others"] = "less often"
        return words

    @property
    def _has_few_groups(self) -> bool:
        return self.n_drawn is not None and self.n_drawn < FEW_GROUPS_TO_DRAW

    @property
    def note(self) -> str:
        """What few groups, or resamples without a model, make of shares and intervals, or ""."""
        notes = []
        if self.n_drawn is not None and self._has_few_groups:
            n_samples = math.comb(2 * self.n_drawn - 1, self.n_drawn)
            notes.append(
                f"Drawn from {self.n_drawn} groups, of which there are {n_samples:,} different "
                "samples: shares and intervals are rough, and intervals too narrow on average."
            )
        if self.n_separated:
            notes.append(
                f"{self.n_separated} more resamples have no finite model, because classes are "
                "separated in them: shares and intervals are without these."
            )
        return " ".join(notes)

    @property
    def inclusion(self) -> Array:
        """The share of resamples that select each feature, shape (n_features,)."""
        return np.asarray(np.any(self.coef != 0, axis=1).mean(axis=0))

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Return percentiles of the coefficients, as two arrays of the shape of `estimate`.

        A feature that was not selected counts as zero.

        Where each resample chooses again after ``sparsity="cv"``, intervals of 95 % contained 97 %
        of the coefficients that are not zero (standard error 1 %), and all that are zero, in 72
        simulated data sets of eight groups in which the model holds; with resamples of groups 96 %
        (2 %). Those of `summary` after the same choice contained 77 % (2 %), because a column that
        was not chosen has none; of the columns that were chosen and do not matter, 31 % (10 %).
        """
        level = check_number("level", level, above=0, at_most=1)
        low, high = np.quantile(self.coef, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def plot(self, ax: Any = None, most: int = 20) -> Any:
        """Draw the share of resamples of the most frequent columns; return matplotlib's axes.

        Bars of columns in the fit are filled. If there are more than `most` columns, the most
        frequent ones are drawn, and none that no resample selects; the title says so.
        """
        n_bars = len(self.names)
        if n_bars > check_integer("most", most):
            n_bars = min(most, max(int(np.count_nonzero(self.inclusion)), 1))
        if ax is None:
            ax = new_axes(1, n_bars, (6.4, 1.2 + 0.22 * n_bars))[0]

        order = np.argsort(-self.inclusion, kind="stable")[:n_bars][::-1]
        is_in_fit = np.any(self.estimate != 0, axis=0)
        colors = np.where(is_in_fit[order], "#0072B2", "white")
        bars = np.arange(len(order))
        ax.barh(bars, self.inclusion[order], color=colors, edgecolor="#0072B2")
        names = [self.names[j] for j in order]
        ax.set_yticks(bars, names, parse_math=False)  # a price in $ is no formula
        legend = "" if is_in_fit[order].all() else " (filled: in the fit)"
        resamples = f"{len(self.coef)} resamples{self._choice}"
        ax.set(xlabel=f"share of {resamples}{legend}", xlim=(0, 1))
        is_all = n_bars == len(self.names)
        words = "all" if is_all else f"the {n_bars} most frequent of"
        ax.set_title(f"{words} {len(self.names)} columns")
        return ax


# Fits to resamples.


class Refit(NamedTuple):
    """What the fit to a resample leaves: coefficients, and the messages of its warnings.

    There are no coefficients if the classes are separated, and C is infinite.
    """

    coef: Array | None
    messages: list[str]


def bootstrap_rows(
    model: LinearModel,
    n_resamples: int,
    over: str,
    choose_again: bool | None,
    random_state: Any,
    n_jobs: int | None,
) -> Bootstrap:
    """Fit a model to resamples of its rows; parameters as in `FedGradMPRegressor.bootstrap`."""
    check_training_data(model, "fgmp.flower.bootstrap_over draws clients over a network")
    check_option("over", over, ("groups", "rows"))
    n_groups = len(model.groups_)
    if over == "groups" and n_groups < 2:
        raise ValueError(
            "groups has one group; expected at least two for over='groups' (or over='rows')"
        )
    resample = _model_of_resamples(model, choose_again)
    data = model._training_data
    least = 1
    drawn: Callable[[IndexArray], FitClients] = partial(_rows_drawn, resample, data)
    if over == "groups":
        least = _fewest_clients(resample, n_groups)
        drawn = partial(ResampledClients, clients_of(model, data))

    classes = getattr(model, "classes_", ())
    draw = partial(draw_counts, data.y, data.codes, over, classes, least=least)
    draws = _draws(model, n_resamples, random_state, draw, over == "groups")
    tasks = [delayed(_refit)(resample, drawn, *one) for one in draws]
    refits = run_with_bar(tasks, n_jobs, model.verbose)
    return _bootstrap_of(model, resample, refits, n_groups if over == "groups" else None)


def bootstrap_clients(
    model: LinearModel,
    clients: FitClients,
    n_resamples: int,
    choose_again: bool | None,
    random_state: Any,
    report: Report,
) -> Bootstrap:
    """Fit a model to clients that are drawn, on this machine or on others.

    Parameters
    ----------
    model : FedGradMPRegressor or FedGradMPClassifier
        Fitted.
    clients : FitClients
        The clients.
    n_resamples, choose_again, random_state
        As in `FedGradMPRegressor.bootstrap`.
    report : callable (words, run, unit)
        As in `Session`.
    """
    check_is_fitted(model)
    n_clients = len(clients.info.n_rows)
    check_integer("n_clients", n_clients, at_least=2, why="of a bootstrap over clients")
    resample = _model_of_resamples(model, choose_again)
    least = _fewest_clients(resample, n_clients)
    draw = partial(draw_multiplicities, n_clients, least=least)
    draws = _draws(model, n_resamples, random_state, draw, is_of_clients=True)
    drawn = partial(ResampledClients, clients)
    refits = []
    for number, (counts, seed) in enumerate(draws, 1):

        def report_round(words: str, run: Run, unit: float, number: int = number) -> None:
            where = "" if words == "all rows" else f", {words}"
            report(f"resample {number} of {n_resamples}{where}", run, unit)

        refits.append(_refit(resample, drawn, counts, seed, report_round))
    return _bootstrap_of(model, resample, refits, n_clients)


def _draws(
    model: LinearModel,
    n_resamples: int,
    random_state: Any,
    draw: Callable[[np.random.RandomState], IndexArray],
    is_of_clients: bool,
) -> list[tuple[IndexArray, int]]:
    """Return how often each row, or client, is drawn, and the seed of the fit, of each resample.

    All resamples of clients have one seed: folds of rows that differ would be sums over other rows
    of a client each time, and could be solved for single rows.
    """
    rng = as_random_state(model.random_state if random_state is None else random_state)
    counts = [draw(rng) for _ in range(check_integer("n_resamples", n_resamples))]
    seeds = rng.randint(2**31 - 1, size=n_resamples).tolist()
    if not is_of_clients:
        seeds = [seed_of(seed) for seed in seeds]
    elif model.random_state is None:
        seeds = n_resamples * seeds[:1]
    else:
        seeds = n_resamples * [seed_of(model.random_state)]  # as in `fit`
    return list(zip(counts, seeds, strict=True))


def _bootstrap_of(
    model: LinearModel, resample: LinearModel, refits: list[Refit], n_drawn: int | None
) -> Bootstrap:
    """Return the coefficients of resamples as a `Bootstrap`, and say once what they warn of."""
    messages = [refit.messages[0] for refit in refits if refit.messages]
    if messages:
        warn_user(
            f"{len(messages)} of {len(refits)} resamples have a warning, the first one: "
            f"{messages[0]}",
            ConvergenceWarning,
        )
    names = tuple(names_of_features(model))
    coef = np.array([refit.coef for refit in refits if refit.coef is not None])
    n_separated = len(refits) - len(coef)
    if n_separated:
        words = f"{n_separated} of {len(refits)} resamples have no finite model, because classes "
        remedy = f"are separated in them and C is {resample.C!r}; a finite C gives them one"
        if not len(coef):
            raise ValueError(words + remedy)
        warn_user(f"{words}{remedy}. They are left out", ConvergenceWarning)
    has_chosen_again = _is_choice(resample) if _tried(model) else None
    estimate = np.atleast_2d(model.coef_)
    return Bootstrap(coef, estimate, names, n_drawn, has_chosen_again, n_separated)


def check_training_data(model: LinearModel, remedy: str) -> None:
    """Raise a ValueError if a model has not the rows that it was fitted to, with a remedy."""
    if not hasattr(model, "_training_data"):
        raise ValueError(
            "the model has no rows: it was fitted over a network, or is a copy, with which "
            "data do not travel; expected a model that `fit` was called on in this process. "
            f"{remedy}"
        )


def clients_of(model: LinearModel, data: Rows) -> FederatedTable:
    """Return the clients of a fit anew, with the class weights that it had."""
    again = clone(model)
    rows = data.X
    y = data.y
    if not is_encoded(model):
        rows, y = validated(again, rows, y)
    targets, loss, weights = again._targets(y, data.weights)
    taken = data._replace(X=rows, y=targets, weights=weights)
    if is_encoded(model):
        return RawTableClients(taken, loss).encoded(model.encoding_)
    return FederatedTable(taken, loss)


def _model_of_resamples(model: LinearModel, choose_again: bool | None) -> LinearModel:
    """Return an estimator for resamples, with the columns of a fit, and its choice or its question.

    A choice is among what the fit chose from, whatever the parameters are now.
    """
    if model.private is not None:
        raise ValueError(
            "private is given, and every resample would spend its epsilon again; expected "
            "private=None. Resample within a budget of your own: fit to other rows, and add up "
            "what each fit spends"
        )
    sparsity = "all" if model.method_ == "all" else model.sparsity_
    resample: LinearModel = copy(model).set_params(
        sparsity=sparsity, C=model.C_, secure=False, verbose=False
    )
    if choose_again is not None:
        check_bool("choose_again", choose_again)
    tried = _tried(model)
    if choose_again and not tried:
        raise ValueError(
            "choose_again is True, and the fit chose nothing; expected a model with sparsity='cv' "
            "or C='cv', or None"
        )
    if tried and choose_again is not False:
        resample.set_params(**dict.fromkeys(tried, "cv"), folds=model.cv_.folds)
        resample.sparsities = tried.get("sparsity")
    return resample


def _tried(model: LinearModel) -> dict[str, list[Any]]:
    """Return what a fit has chosen from, for each parameter of which it tried several values."""
    table = model.cv_.table if hasattr(model, "cv_") else {}
    tried = {name: np.unique(table[name]).tolist() for name in ("sparsity", "C") if name in table}
    return {name: values for name, values in tried.items() if len(values) > 1}


def _is_choice(model: LinearModel) -> bool:
    """Return whether a fit of the model chooses its sparsity, or C."""
    return "cv" in (model.sparsity, model.C)


def _fewest_clients(model: LinearModel, n_clients: int) -> int:
    """Return how many different clients a resample has at least: folds of groups need two."""
    if not _is_choice(model) or model.folds != "groups":
        return 1
    if n_clients < 3:
        raise ValueError(
            f"the fit chose by folds of groups, and there are {n_clients}; expected three or more, "
            "of which resamples differ, choose_again=False, or over='rows'"
        )
    return 2


def _rows_drawn(model: LinearModel, data: Rows, counts: IndexArray) -> FitClients:
    """Return the clients of a fit with the rows that were drawn."""
    drawn = data._replace(
        weights=(data.weights * counts).astype(data.weights.dtype),
        counted=data.counted * counts,
        min_rows=1,
    )
    with collect_warnings():  # what is to be said of the rows `fit` has said
        return clients_of(model, drawn)


def _refit(
    model: LinearModel,
    drawn: Callable[[IndexArray], FitClients],
    counts: IndexArray,
    seed: int,
    report: Report = report_nothing,
) -> Refit:
    """Fit to the clients of a resample; coefficients have the shape (n_outputs, n_features)."""
    clients = drawn(counts)
    settings = replace(settings_of(model, clients), coefficients_only=True)
    with errors_in_words(model, settings), collect_warnings() as messages:
        session = Session(clients, settings, seed, None, report)
        try:
            fitted = fit_model(session, grid_of(model, settings))
        except Separated:
            return Refit(None, messages)
    coef = fitted.table.reshape(len(fitted.table), -1)[1:].T.copy()
    return Refit(coef, messages)


# Draws.


def draw_counts(
    y: Array,
    codes: IndexArray,
    over: str,
    classes: Sequence[Any],
    rng: np.random.RandomState,
    least: int,
) -> IndexArray:
    """Return how often each group, or each row, is drawn.

    Parameters
    ----------
    y : ndarray, shape (n_rows,)
        Targets. A draw without a row of one of the classes is repeated.
    codes : ndarray of int, shape (n_rows,)
        The group of each row, and -1 for rows that take no part.
    over : {"groups", "rows"}
        Whether groups are drawn, or rows within each group.
    classes : sequence
        The labels of a classifier.
    rng : numpy.random.RandomState
        The generator of the draws.
    least : int
        How many different groups are drawn at least.

    Raises
    ------
    ValueError
        If 100 draws in a row missed a class.
    """
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes[codes >= 0]).tolist()
    rows_by_group = order[len(codes) - sum(sizes) :]  # rows without a group come first
    for _ in range(_MAX_DRAWS):
        if over == "groups":
            counts = draw_multiplicities(len(sizes), rng, least)
            is_drawn = np.isin(codes, np.flatnonzero(counts))
        else:
            counts = np.zeros(len(codes), np.intp)
            counts[rows_by_group] = np.concatenate([draw_multiplicities(n, rng) for n in sizes])
            is_drawn = counts > 0
        if np.isin(classes, y[is_drawn]).all():
            return counts
    raise ValueError(
        f"{_MAX_DRAWS} draws in a row missed a class; expected classes in more groups (or "
        "over='rows')"
    )


def draw_multiplicities(size: int, rng: np.random.RandomState, least: int = 1) -> IndexArray:
    """Return how often each of `size` things is drawn, at least `least` of them, in `size` draws.

    They are drawn with replacement, and all again if fewer are different.
    """
    counts = np.zeros(size, np.intp)
    while np.count_nonzero(counts) < least:
        counts = rng.multinomial(size, np.full(size, 1 / size))
    return np.asarray(counts)


def run_with_bar(tasks: list[Any], n_jobs: int | None, verbose: bool | str) -> list[Any]:
    """Return the results of delayed tasks, with a bar.

    Parameters
    ----------
    tasks : list
        What `joblib.delayed` returned.
    n_jobs : int or None
        Number of processes.
    verbose : {"auto", True, False}
        Whether there is a bar: on a terminal from two seconds on, anywhere at once, or not at all.
    """
    results = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    # On a terminal only: elsewhere each step of a bar is a line of output that stays.
    is_off = None if verbose == "auto" else not verbose
    delay = 0 if verbose is True else PATIENCE
    return list(tqdm(results, total=len(tasks), desc="resamples", delay=delay, disable=is_off))
