"""The curious server: it keeps all that it receives in a run or a fit, and solves it for clients and few rows."""

from contextlib import contextmanager
from itertools import combinations
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_simulate import ALL

import fgmp
from fgmp.aggregation import Rejected
from fgmp.estimators import client_sums, federated_table
from fgmp.federation import Client
from fgmp.privacy.ledger import Ledger
from fgmp.privacy.secure_sums import SumsOnly
from fgmp.sparse_model import SparseModel

pytest.importorskip("cryptography")
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::fgmp.AdviceWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
    ),
    pytest.mark.usefixtures("backend"),
]

N_FEATURES, N_CLIENTS = 4, 5
RNG = np.random.default_rng(0)
FED = fgmp.Federation.from_arrays(
    [RNG.standard_normal((30, N_FEATURES)) for _ in range(N_CLIENTS)],
    [RNG.standard_normal(30) for _ in range(N_CLIENTS)],
)
LINEAR = {  # whose answers are linear in the moments of a client's rows, on a support that is sent
    "shared": fgmp.SharedSupportGradMP(1),
    "average": fgmp.FedAvg(learning_rate=0.1, local_iterations=1),
}


class Away:
    """A transport in which a client is away for one sum: of answers, or of objectives. `calls` counts them all."""

    def __init__(self, transport, client, at, calls):
        self.transport, self.client, self.at, self.calls = transport, client, at, calls

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.transport, name)

    def prepare(self, method):
        return Away(self.transport.prepare(method), self.client, self.at, self.calls)

    def is_away(self):
        self.calls.append(len(self.calls))
        return self.calls[-1] == self.at

    def run_clients(self, call, message, cohort):
        answers = list(self.transport.run_clients(call, message, cohort))
        if self.is_away():
            keys = np.asarray(self.transport.shape.client_ids)[cohort]
            answers = [
                Rejected() if key == self.client else x
                for key, x in zip(keys, answers, strict=True)
            ]
        return answers

    def objectives(self, x, places=None):
        told, values = self.transport.objectives(x, places)
        stay = (
            np.asarray(self.transport.shape.client_ids)[told] != self.client
            if self.is_away()
            else np.ones(len(told), bool)
        )
        return told[stay], values[stay]


class Sum:
    """A sum that the server learnt: of whom, and of what: an exchange, or None for the objective, and its message."""

    def __init__(self, keys, exchange, message, mean):
        self.client_ids, self.exchange, self.message, self.mean = (
            frozenset(map(int, keys)),
            exchange,
            message,
            mean,
        )


@contextmanager
def listening():
    """All sums that are opened under masks, whatever the code says of them: who is in an objective is recounted."""
    heard, collect, objective = [], SumsOnly.collect, SumsOnly.objective

    def hears_answers(self, transport, call, message, cohort):
        seen = collect(self, transport, call, message, cohort)
        if not seen.is_empty:
            (mean,) = seen.rows()  # the server sees one row, and no more
            keys = np.asarray(transport.shape.client_ids)[cohort][seen.accepted]
            heard.append(Sum(keys, call.exchange, message, mean))
        return seen

    def hears_objective(self, transport, x, places):
        found = objective(self, transport, x, places)
        if not np.isnan(found):
            federation = transport
            while not isinstance(federation, fgmp.Federation):
                federation = federation.transport
            told, values = federation.objectives(x, places)
            heard.append(
                Sum(
                    whose(found, values, federation.weights[told], federation.client_ids[told]),
                    None,
                    x,
                    found,
                )
            )
        return found

    with (
        mock.patch.object(SumsOnly, "collect", hears_answers),
        mock.patch.object(SumsOnly, "objective", hears_objective),
    ):
        yield heard


def whose(mean, values, weights, keys):
    """The largest set of clients whose mean this is."""
    every = [
        list(some)
        for size in range(len(keys), 0, -1)
        for some in combinations(range(len(keys)), size)
    ]
    return next(
        keys[some]
        for some in every
        if abs(weights[some] @ values[some] / weights[some].sum() - mean) < 1e-9
    )


def singles(sets):
    """The clients whose unit vector is a combination of the indicators of some sets, by ranks."""
    clients = sorted(set().union(*sets))
    table = np.array([[float(client in some) for client in clients] for some in sets])
    rank = np.linalg.matrix_rank(table)
    return [
        c for c, unit in zip(clients, np.eye(len(clients)), strict=True) if stays(table, unit, rank)
    ]


def stays(table, row, rank):
    return np.linalg.matrix_rank(np.vstack([table, row])) == rank


def moments_of(features, targets):
    """What all sums for the squared loss are linear in: second moments of columns and targets."""
    table = np.column_stack([features, targets])
    return (table.T @ table / len(table))[np.triu_indices(table.shape[1])]


def coefficients_of(one, federation):
    """The matrix that makes what was asked of the moments of a client: measured on clients of the attacker's own."""
    rng, rows, said = np.random.default_rng(1), [], []
    size = len(moments_of(np.zeros((1, federation.n_features)), np.zeros(1)))
    for _ in range(size):
        X, y = rng.standard_normal((7, federation.n_features)), rng.standard_normal(7)
        client = Client(X, y, federation.loss)
        if one.exchange is None:
            found = np.array([client.objective(one.message)])
        else:
            found = one.exchange.client_update(client, one.message, np.random.default_rng(0))
            found = found.dense() if isinstance(found, SparseModel) else found
        rows.append(moments_of(X, y))
        said.append(np.ravel(found))
    # A model that was sent is there whatever the rows are: what is linear comes behind it.
    if one.exchange is not None and np.shape(one.message) == (federation.n_features,):
        said = np.array(said) - one.message
    return np.linalg.solve(np.array(rows), np.array(said)).T


def solved_for(heard, federation):
    """Clients of which some number of its own follows linearly, and the worst relative error of what is solved."""
    weights = dict(zip(federation.client_ids.tolist(), federation.weights.tolist(), strict=True))
    keys, rows, right = sorted(weights), [], []
    for one in heard:
        matrix, total = (
            coefficients_of(one, federation),
            sum(weights[key] for key in one.client_ids),
        )
        rows.append(
            np.hstack([(key in one.client_ids) * weights[key] / total * matrix for key in keys])
        )
        known = (
            one.message
            if np.shape(one.message) == (federation.n_features,) and one.exchange is not None
            else 0
        )
        right.append(np.ravel(one.mean) - known)
    table, values = np.vstack(rows), np.concatenate(right)
    size, found, errors = table.shape[1] // len(keys), [], []
    for place, key in enumerate(keys):
        own = slice(place * size, (place + 1) * size)
        others = np.delete(table, np.r_[own], axis=1)
        u, s, _ = np.linalg.svd(others, full_matrices=True)
        free = u[:, np.count_nonzero(s > 1e-9 * s[0]) :]  # combinations in which nobody else is
        alone = free.T @ table[:, own]
        if np.linalg.norm(alone, 2) > 1e-6:
            found.append(key)
            client = federation.clients[place]
            truth = alone @ moments_of(client.features, client.targets)
            errors.append(np.linalg.norm(free.T @ values - truth) / np.linalg.norm(truth))
    return found, max(errors, default=0.0)


@pytest.mark.parametrize("away_at", [None, *range(9)])
@pytest.mark.parametrize("name", LINEAR)
def test_no_client_is_solved_for_where_one_is_away_once(name, away_at):
    """H x - c, H and f_i: every number in every place of the run."""
    with listening() as heard:
        fgmp.simulate(
            LINEAR[name], Away(FED, 2, away_at, []), 4, rng=0, aggregator=fgmp.SecureSum()
        )
    assert len(heard) >= 4
    assert solved_for(heard, FED) == ([], 0.0)


@pytest.mark.parametrize("cohort_size", [3, 4])
def test_no_client_is_solved_for_of_cohorts(cohort_size):
    with listening() as heard:
        fgmp.simulate(LINEAR["average"], FED, 20, cohort_size, rng=0, aggregator=fgmp.SecureSum())
    assert len(heard) > 5
    assert solved_for(heard, FED) == ([], 0.0)
    with pytest.raises(
        ValueError,
        match=f"cohort_size is {cohort_size} of 5 with secure sums of SharedSupportGradMP",
    ):
        fgmp.simulate(LINEAR["shared"], FED, 2, cohort_size, rng=0, aggregator=fgmp.SecureSum())
    start = fgmp.simulate(LINEAR["average"], FED, 2, rng=0)
    with pytest.raises(
        ValueError, match=f"cohort_size is {cohort_size} of 5 with secure sums of NewtonOnSupport"
    ):
        fgmp.polish(start, FED, cohort_size=cohort_size, aggregator=fgmp.SecureSum())


def test_the_attack_finds_a_client_where_sums_are_opened_without_a_ledger():
    """So that the tests above could fail: the same run, all sums opened."""
    with listening() as heard, mock.patch.object(Ledger, "_add", lambda self, clients: True):
        fgmp.simulate(LINEAR["shared"], Away(FED, 2, 6, []), 4, rng=0, aggregator=fgmp.SecureSum())
    found, error = solved_for(heard, FED)
    assert found == [2] and error < 1e-6


@pytest.mark.parametrize("fault", ["away 1", "away 4", "away 7", "dropping out", "cohorts"])
@pytest.mark.parametrize("name", ALL)
def test_of_no_method_a_combination_of_answers_rests_on_one_client(name, fault):
    """By the sets alone, whatever was asked: what a client sends may hardly depend on the question."""
    federation = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
    transport = Away(federation, 2, int(fault[-1]), []) if "away" in fault else federation
    if fault == "dropping out":
        transport = fgmp.Faulty(federation, fgmp.DropOut(probability=0.3))
    cohort = 4 if fault == "cohorts" else None
    if cohort and ALL[name].repeats_itself(federation.loss):
        return
    with listening() as heard, mock.patch.object(SumsOnly, "objective", lambda *_: float("nan")):
        fgmp.simulate(
            ALL[name], transport, 8, cohort, rng=1, aggregator=fgmp.SecureSum(threshold=2)
        )
    assert heard and singles([one.client_ids for one in heard]) == []


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sets(st.integers(0, 6), min_size=1), min_size=1, max_size=12))
def test_a_ledger_takes_a_set_exactly_where_no_client_can_be_solved_for(sets):
    ledger, taken = Ledger(), []
    for clients in map(frozenset, sets):
        chosen = frozenset(ledger.choose(clients))
        may = not singles([*taken, clients])
        assert (chosen == clients) == may
        if not may:
            before = [old for old in taken if old <= clients]
            assert len(chosen) == max(map(len, before), default=0) and (
                chosen in before or not chosen
            )
        taken += [chosen] if chosen else []
    again = Ledger.from_bytes(ledger.to_bytes())
    assert again.sets == ledger.sets


def test_a_run_goes_on_from_its_checkpoint_with_what_was_released(tmp_path):
    """Or whoever is away after that could be solved for."""
    path, method = tmp_path / "run.fgmp", fgmp.FedAvg(learning_rate=0.1)
    given = dict(rng=0, callbacks=fgmp.Checkpoint(path), history=fgmp.History(objective_on=0))
    fgmp.simulate(method, FED, 2, aggregator=fgmp.SecureSum(), **given)
    away = fgmp.Faulty(FED, fgmp.DropOut(clients=[2]))
    with mock.patch.object(fgmp.Faulty, "identity", lambda self: self.transport.identity()):
        result = fgmp.simulate(method, away, 4, aggregator=fgmp.SecureSum(), **given)
    assert result.rejected["withheld"] == 2 * 4 and result.rejected["missing"] == 2


def test_one_ledger_for_several_runs():
    ledger, method = Ledger(), fgmp.FedAvg(learning_rate=0.1)
    unheard = fgmp.History(objective_on=0)
    fgmp.simulate(method, FED, 1, rng=0, aggregator=fgmp.SecureSum(ledger=ledger), history=unheard)
    away = fgmp.Faulty(FED, fgmp.DropOut(clients=[2]))
    second = fgmp.simulate(
        method, away, 1, rng=0, aggregator=fgmp.SecureSum(ledger=ledger), history=unheard
    )
    assert second.rejected == {"missing": 1, "withheld": 4}


# The fits: which rows of a site are behind what it sends, and which sites behind what all send.


def table(seed=0, sizes=(5, 14, 27, 80), classes=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.standard_normal((len(groups), 6))
    X[groups == 0] = 50 + 10 * X[groups == 0]
    y = X[:, 0] - X[:, 2] + rng.standard_normal(len(groups))
    return X, (np.digitize(y, [-1, 1][: classes - 1]) if classes else y), groups


FITS = {
    "regression": (fgmp.FedGradMPRegressor, {}, 0),
    "own intercepts": (fgmp.FedGradMPRegressor, {"fit_intercept": "per_group"}, 0),
    "all": (fgmp.FedGradMPRegressor, {"method": "shared", "standardize": False}, 0),
    "two classes": (fgmp.FedGradMPClassifier, {}, 2),
    "three classes": (fgmp.FedGradMPClassifier, {"method": "shared"}, 3),
}


@pytest.mark.parametrize("n_folds", [2, 5, 10])
@pytest.mark.parametrize("name", FITS)
def test_no_combination_of_what_a_site_sends_rests_on_fewer_than_min_rows_rows(name, n_folds):
    """Rows that are together in all that is sent cannot be told apart: each of these classes is large enough."""
    kind, more, classes = FITS[name]
    (X, y, groups), views = table(classes=classes), {}
    honest, judged = federated_table.client_view, federated_table.assign_folds

    def keeping(rows, units, loss):  # of each view the rows, by a number of their own
        views.setdefault(rows.index, []).append(
            np.isin(X[groups == rows.index][:, 1], rows.features[:, 1])
        )
        return honest(rows, units, loss)

    def dealt(targets, place, *given):
        folds = judged(targets, place, *given)
        if len(targets) == np.count_nonzero(groups == place):
            views.setdefault(place, []).extend(folds == fold for fold in np.unique(folds))
        return folds

    with (
        mock.patch.object(federated_table, "client_view", keeping),
        mock.patch.object(federated_table, "assign_folds", dealt),
        mock.patch.object(client_sums, "assign_folds", dealt),
    ):
        kind("cv", sparsities=[1, 2], n_folds=n_folds, random_state=0, **more).fit(X, y, groups)
    assert set(views) == set(range(4))
    for view in views.values():
        _, sizes = np.unique(np.array(view), axis=1, return_counts=True)
        assert sizes.min() >= 5


def test_no_row_of_a_small_site_is_the_difference_of_two_means():
    """The attack itself, in the open: means over all rows, and over all but a fold."""
    (X, y, groups), heard, honest = table(), [], client_sums.Moments.means

    def listen(self, client, known, rng):
        found = honest(self, client, known, rng)
        if client.client_id == 0:
            heard.append((client.n_samples, found * known[0]))
        return found

    with mock.patch.object(client_sums.Moments, "means", listen):
        fgmp.FedGradMPRegressor("cv", random_state=0).fit(X, y, groups)
    (rows, whole), *folds = heard
    found = np.array(
        [rows * whole - count * mean for count, mean in folds if count < rows]
        or [np.full(7, np.inf)]
    )
    secret = np.column_stack([X, y])[groups == 0]
    assert min(np.abs(secret - row).max(axis=1).min() for row in found) > 1


@pytest.mark.parametrize(
    "how", [{"sparsity": 2}, {"sparsity": 2, "method": "shared"}, {"sparsity": "cv"}], ids=str
)
def test_a_fit_under_masks_ends_where_a_site_leaves_and_goes_on_without_one_that_never_came(how):
    """At each of its sums in turn: no set of sites tells of one of them, and who left is an error."""
    X, y, groups = table(sizes=(30, 30, 30))
    honest, ended, n_sums = federated_table.FederatedTable.transport, [], 1
    away_at = 0
    while away_at < n_sums:
        calls = []

        def away(self, *given, at=away_at, calls=calls, **more):
            return Away(honest(self, *given, **more), 2, at, calls)

        model = fgmp.FedGradMPRegressor(
            secure=True,
            random_state=0,
            sparsities=[1, 2] if how["sparsity"] == "cv" else None,
            **how,
        )
        with (
            listening() as heard,
            mock.patch.object(federated_table.FederatedTable, "transport", away),
        ):
            try:
                model.fit(X, y, groups)
                ended.append("")
            except RuntimeError as error:
                ended.append(str(error))
        n_sums = max(n_sums, len(calls))
        assert singles([one.client_ids for one in heard]) == []
        away_at += 1 if how["sparsity"] != "cv" else 4
    # One that misses an objective, or a round that others follow, costs no more than these: nothing was opened.
    words = "left in the middle of a fit under masks"
    assert (
        ended[0] == ""
        and any(words in end for end in ended)
        and all(words in end for end in ended if end)
    )
    assert how["sparsity"] == "cv" or words in ended[1]


def test_under_masks_nobody_learns_the_intercept_of_a_group():
    X, y, groups = table(sizes=(30, 30, 30))
    plain, secure = (
        fgmp.FedGradMPRegressor(2, fit_intercept="per_group", secure=way, random_state=0).fit(
            X, y, groups
        )
        for way in (False, True)
    )
    assert not hasattr(secure, "intercepts_") and len(plain.intercepts_) == 3
    np.testing.assert_allclose(secure.intercept_, plain.intercept_, rtol=1e-6)
    with pytest.raises(ValueError, match="cohort_size is 2 of 3 groups with secure=True"):
        fgmp.FedGradMPRegressor(2, secure=True, cohort_size=2).fit(X, y, groups)


def test_sums_in_the_open_tell_of_a_class_with_one_row():
    """The only row of a class is solved for from the sum of all rows and one gradient."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    labels = np.append(rng.integers(0, 2, 29), 2)
    client = fgmp.Federation.from_arrays([X], [labels], fgmp.SoftmaxLoss(3)).clients[0]

    gradient = client.gradient(np.zeros((4, 3)))
    # Of class c it is sum_j (1/3 - [y_j = c]) x_j / 30.
    row = X.mean(axis=0) * 10 - 30 * gradient[:, 2]

    np.testing.assert_allclose(row, X[29], rtol=1e-10)
