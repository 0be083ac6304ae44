"""A curious server: it keeps all that it receives, and solves it for clients and for few rows."""

import shutil
from unittest import mock

import numpy as np
import pytest
from cases import METHODS, noisy_regression
from curious_server import Away, record_released_sums, solvable_clients, solve_for_clients
from hypothesis import given, settings
from hypothesis import strategies as st

import fgmp
from fgmp.estimators import client_sums, federated_table
from fgmp.privacy.ledger import Ledger
from fgmp.privacy.secure_sums import SecureSum

pytest.importorskip("cryptography")
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::fgmp.AdviceWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
    ),
    pytest.mark.usefixtures("backend"),
]

N_FEATURES = 4
N_CLIENTS = 5
RNG = np.random.default_rng(0)
FED = fgmp.Federation.from_arrays(
    [RNG.standard_normal((30, N_FEATURES)) for _ in range(N_CLIENTS)],
    [RNG.standard_normal(30) for _ in range(N_CLIENTS)],
)
# Their updates are linear in the moments of a client's rows, on a support that is sent.
LINEAR = {
    "shared": fgmp.SharedSupportGradMP(1),
    "average": fgmp.FedAvg(learning_rate=0.1, local_iterations=1),
}


@pytest.mark.parametrize("missed", [None, *range(9)])
@pytest.mark.parametrize("name", LINEAR)
def test_no_client_is_solved_for_if_one_is_missing_once(name, missed):
    """H x - c, H and f_i: whichever sum of the run it misses."""
    with record_released_sums() as released:
        fgmp.simulate(LINEAR[name], Away(FED, 2, missed, []), 4, rng=0, aggregator=fgmp.SecureSum())
    assert len(released) >= 4
    assert solve_for_clients(released, FED) == ([], 0.0)


@pytest.mark.parametrize("cohort_size", [3, 4])
def test_no_client_is_solved_for_from_sums_over_cohorts(cohort_size):
    """Cohorts whose sums would tell of one client lose their round."""
    with record_released_sums() as released:
        fgmp.simulate(LINEAR["average"], FED, 20, cohort_size, rng=0, aggregator=fgmp.SecureSum())
    assert len(released) > 5
    assert solve_for_clients(released, FED) == ([], 0.0)


@pytest.mark.parametrize("cohort_size", [3, 4])
def test_secure_sums_of_second_derivatives_over_cohorts_are_refused(cohort_size):
    """They are the same in every round, and sums over cohorts could be subtracted."""
    words = f"cohort_size is {cohort_size} of 5 with secure sums of SharedSupportGradMP"
    with pytest.raises(ValueError, match=words):
        fgmp.simulate(LINEAR["shared"], FED, 2, cohort_size, rng=0, aggregator=fgmp.SecureSum())


@pytest.mark.parametrize("cohort_size", [3, 4])
def test_polish_with_secure_sums_over_cohorts_is_refused(cohort_size):
    """A refit sends second derivatives too."""
    start = fgmp.simulate(LINEAR["average"], FED, 2, rng=0)
    words = f"cohort_size is {cohort_size} of 5 with secure sums of NewtonOnSupport"
    with pytest.raises(ValueError, match=words):
        fgmp.polish(start, FED, cohort_size=cohort_size, aggregator=fgmp.SecureSum())


def test_attack_without_a_ledger_finds_a_client():
    """So that the tests above could fail: the same run, all sums released."""
    with (
        record_released_sums() as released,
        mock.patch.object(Ledger, "_add", lambda self, clients: True),
    ):
        fgmp.simulate(LINEAR["shared"], Away(FED, 2, 6, []), 4, rng=0, aggregator=fgmp.SecureSum())
    found, error = solve_for_clients(released, FED)
    assert found == [2]
    assert error < 1e-6


@pytest.mark.parametrize("fault", ["away 1", "away 4", "away 7", "dropping out", "cohorts"])
@pytest.mark.parametrize("name", METHODS)
def test_no_combination_of_updates_rests_on_one_client(name, fault):
    """By the sets of clients alone, for every method and fault."""
    federation = noisy_regression(n_features=40)
    transport = Away(federation, 2, int(fault[-1]), []) if "away" in fault else federation
    if fault == "dropping out":
        transport = fgmp.Faulty(federation, fgmp.DropOut(probability=0.3))
    cohort = 4 if fault == "cohorts" else None
    exchanges = METHODS[name]().exchanges()
    if cohort and any(exchange.may_ignore_message(federation.loss) for exchange in exchanges):
        return
    with (
        record_released_sums() as released,
        mock.patch.object(SecureSum, "objective", lambda *_: float("nan")),
    ):
        fgmp.simulate(
            METHODS[name](), transport, 8, cohort, rng=1, aggregator=fgmp.SecureSum(threshold=2)
        )
    assert released
    assert solvable_clients([one.client_ids for one in released]) == []


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sets(st.integers(0, 6), min_size=1), min_size=1, max_size=12))
def test_ledger_accepts_a_set_unless_a_client_could_be_solved_for(sets):
    """Against ranks; a smaller set of before is offered, and the ledger can be stored."""
    ledger = Ledger()
    taken = []
    for clients in map(frozenset, sets):
        chosen = frozenset(ledger.choose(clients))
        may = not solvable_clients([*taken, clients])
        assert (chosen == clients) == may
        if not may:
            before = [old for old in taken if old <= clients]
            assert len(chosen) == max(map(len, before), default=0)
            assert chosen in before or not chosen
        taken += [chosen] if chosen else []
    again = Ledger()
    if ledger.sets:
        again.include(ledger.to_bytes())
    assert again.sets == ledger.sets


def test_resumed_run_remembers_what_was_released(tmp_path):
    """Or a client that is missing after that could be solved for."""
    path = tmp_path / "run.fgmp"
    method = fgmp.FedAvg(learning_rate=0.1)
    given = dict(rng=0, callbacks=fgmp.Checkpoint(path), history=fgmp.History(objective_on=0))
    fgmp.simulate(method, FED, 2, aggregator=fgmp.SecureSum(), **given)
    away = fgmp.Faulty(FED, fgmp.DropOut(clients=[2]))
    with mock.patch.object(fgmp.Faulty, "identity", lambda self: self.transport.identity()):
        result = fgmp.simulate(method, away, 4, aggregator=fgmp.SecureSum(), **given)
    assert result.rejected["withheld"] == 2 * 4
    assert result.rejected["missing"] == 2


@pytest.mark.parametrize("end", ["interrupted", "killed"])
def test_run_that_ends_in_the_middle_of_a_round_remembers_what_it_was_about_to_release(
    tmp_path, end
):
    """The client that is gone when the run resumes has no part in the sums of before and after."""
    path = tmp_path / "run.fgmp"
    killed_at = tmp_path / "killed.fgmp"  # the file as it is before the sum is opened
    summed = SecureSum.sum_vectors

    def summed_when_killed(self, *given):
        shutil.copy(path, killed_at)
        return summed(self, *given)

    def collected_and_interrupted(self, *given):
        collect(self, *given)
        raise KeyboardInterrupt

    given = {"rng": 0, "history": fgmp.History(objective_on=0), "rounds": 3}
    with record_released_sums() as released:
        collect = SecureSum.run_and_collect
        with (
            mock.patch.object(SecureSum, "sum_vectors", summed_when_killed),
            mock.patch.object(SecureSum, "run_and_collect", collected_and_interrupted),
            pytest.raises(KeyboardInterrupt),
        ):
            keep = fgmp.Checkpoint(path)
            fgmp.simulate(
                LINEAR["average"], FED, aggregator=fgmp.SecureSum(), callbacks=keep, **given
            )
        away = fgmp.Faulty(FED, fgmp.DropOut(clients=[2]))
        keep = fgmp.Checkpoint(killed_at if end == "killed" else path)
        with mock.patch.object(fgmp.Faulty, "identity", lambda self: self.transport.identity()):
            resumed = fgmp.simulate(
                LINEAR["average"], away, aggregator=fgmp.SecureSum(), callbacks=keep, **given
            )
    assert [one.client_ids for one in released] == [frozenset(range(N_CLIENTS))]
    assert resumed.rejected == {"missing": 3, "withheld": 3 * (N_CLIENTS - 1)}
    assert solve_for_clients(released, FED) == ([], 0.0)


def test_run_that_resumes_has_the_ledger_of_several_runs_beside_that_of_its_checkpoint(tmp_path):
    """Without either of the two the sum without a client would be released."""
    path = tmp_path / "run.fgmp"
    ledger = Ledger()
    method = fgmp.FedAvg(learning_rate=0.1)
    given = {"rng": 0, "history": fgmp.History(objective_on=0)}
    pair = fgmp.Faulty(FED, fgmp.DropOut(clients=[0, 1]))
    without_client = fgmp.Faulty(FED, fgmp.DropOut(clients=[0, 1, 2]))
    with mock.patch.object(fgmp.Faulty, "identity", lambda self: self.transport.identity()):

        def run(transport, rounds, **more):
            secure = fgmp.SecureSum(threshold=2, ledger=ledger)
            return fgmp.simulate(method, transport, rounds, aggregator=secure, **given, **more)

        run(FED, 1, callbacks=fgmp.Checkpoint(path))
        run(pair, 1)
        resumed = run(without_client, 2, callbacks=fgmp.Checkpoint(path))
    assert resumed.rejected == {"missing": 3, "withheld": 2}
    run(FED, 1)
    assert set(ledger.sets) == {frozenset(range(5)), frozenset({2, 3, 4})}


def test_ledger_takes_nothing_from_a_checkpoint_that_tells_of_a_client_beside_it():
    """Sets, and the first objectives, which are of sets of their own until there are two."""
    for sets, first, theirs, their_first in (
        ([[0, 1, 2]], [], [[0, 1]], []),
        ([[0, 1]], [0, 1, 2], [], [0, 1]),
        ([[0, 1, 2]], [], [[0, 1, 2]], []),
        ([], [0, 1], [[0, 1, 2]], []),
        ([], [0, 1], [], [2, 3]),
    ):
        ledger, other = Ledger(sets), Ledger(theirs)
        ledger.first, other.first = frozenset(first), frozenset(their_first)
        both = [*map(frozenset, [*sets, *theirs])]
        if first and their_first:
            both += [ledger.first, other.first]
        if solvable_clients(both):
            with pytest.raises(ValueError, match="ledger has sums that tell of a single client"):
                ledger.include(other.to_bytes())
        else:
            ledger.include(other.to_bytes())
            assert set(ledger.sets) == set(both)


def test_ledger_of_several_runs_withholds_differences():
    """The second run without one client would tell of it."""
    ledger = Ledger()
    method = fgmp.FedAvg(learning_rate=0.1)
    without_objective = fgmp.History(objective_on=0)
    fgmp.simulate(
        method, FED, 1, rng=0, aggregator=fgmp.SecureSum(ledger=ledger), history=without_objective
    )
    away = fgmp.Faulty(FED, fgmp.DropOut(clients=[2]))
    second = fgmp.simulate(
        method, away, 1, rng=0, aggregator=fgmp.SecureSum(ledger=ledger), history=without_objective
    )
    assert second.rejected == {"missing": 1, "withheld": 4}


# Fits: which rows of a group are behind its sums, and which groups behind the sums of all.


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
def test_no_combination_of_sums_of_a_group_rests_on_fewer_than_min_rows(name, n_folds):
    """Rows that are in the same sums cannot be distinguished, and there are enough of them."""
    kind, more, classes = FITS[name]
    (X, y, groups) = table(classes=classes)
    views = {}
    honest = federated_table.client_view
    assigned = federated_table.assign_folds

    def keeping(table, part, *given):  # of each view the rows, by a number of their own
        views.setdefault(part.index, []).append(
            np.isin(X[groups == part.index][:, 1], part.of(table)[:, 1])
        )
        return honest(table, part, *given)

    def dealt(targets, index, *given):
        folds = assigned(targets, index, *given)
        if len(targets) == np.count_nonzero(groups == index):
            views.setdefault(index, []).extend(folds == fold for fold in np.unique(folds))
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


@pytest.mark.parametrize("sizes", [(60, 12, 12, 12), (60, 60, 12, 8, 8), (30, 12, 20, 25)])
def test_under_masks_no_combination_of_sums_over_folds_rests_on_one_group(sizes):
    """The rows behind all sums of a choice: to leave a group's out takes nothing off their rank."""
    X, y, groups = table(sizes=sizes)
    behind = []
    honest = federated_table.FederatedTable.transport

    def noting(self, standardization=None, fold=None):
        rows = [part.outside(fold).rows for part in self._parts]
        behind.append(np.isin(np.arange(len(y)), np.concatenate(rows)))
        return honest(self, standardization, fold)

    with mock.patch.object(federated_table.FederatedTable, "transport", noting):
        masked = fgmp.FedGradMPRegressor("cv", sparsities=[1, 2], folds="rows", secure=True)
        masked.set_params(random_state=0).fit(X, y, groups)
    sums = np.unique(behind, axis=0).astype(float)
    assert len(sums) > 2
    for group in range(len(sizes)):
        of_others = np.linalg.matrix_rank(sums[:, groups != group])
        assert np.linalg.matrix_rank(sums) == of_others


def test_under_masks_one_group_without_folds_is_refused():
    """Sums over the folds would have its rows once too often."""
    X, y, groups = table(sizes=(40, 40, 40, 8))
    masked = fgmp.FedGradMPRegressor("cv", sparsities=[1, 2], folds="rows", secure=True)
    with pytest.raises(ValueError, match="its own sums would follow"):
        masked.fit(X, y, groups)


def test_no_row_is_the_difference_of_two_means():
    """The attack itself, without masks: means over all rows, and over all but a fold."""
    (X, y, groups) = table()
    released = []
    honest = client_sums.Moments.log_sizes_and_means

    def listen(self, client, known):
        found = honest(self, client, known)
        if client.client_id == 0:
            released.append((client.n_samples, found[1]))
        return found

    with mock.patch.object(client_sums.Moments, "log_sizes_and_means", listen):
        fgmp.FedGradMPRegressor("cv", random_state=0).fit(X, y, groups)
    (rows, whole), *folds = released
    found = np.array(
        [rows * whole - count * mean for count, mean in folds if count < rows]
        or [np.full(7, np.inf)]
    )
    secret = np.column_stack([X, y])[groups == 0]
    assert min(np.abs(secret - row).max(axis=1).min() for row in found) > 1


@pytest.mark.parametrize(
    "how", [{"sparsity": 2}, {"sparsity": 2, "method": "shared"}, {"sparsity": "cv"}], ids=str
)
def test_fit_with_secure_sums_ends_if_a_group_leaves(how):
    """At each of its sums in turn, after a fit that it takes part in to the end."""
    X, y, groups = table(sizes=(30, 30, 30))
    honest = federated_table.FederatedTable.transport
    ended = []
    n_sums = 0
    missed = -1  # none, to begin with
    while missed < n_sums:
        calls = []

        def away(self, *given, at=missed, calls=calls, **more):
            return Away(honest(self, *given, **more), 2, at, calls)

        model = fgmp.FedGradMPRegressor(
            secure=True,
            random_state=0,
            sparsities=[1, 2] if how["sparsity"] == "cv" else None,
            **how,
        )
        with (
            record_released_sums() as released,
            mock.patch.object(federated_table.FederatedTable, "transport", away),
        ):
            try:
                model.fit(X, y, groups)
                ended.append("")
            except RuntimeError as error:
                ended.append(str(error))
        n_sums = max(n_sums, len(calls))
        assert solvable_clients([one.client_ids for one in released]) == []
        missed += 1 if how["sparsity"] != "cv" or missed < 0 else 4
    # Missing an objective, or a round that others follow, costs no more than these: nothing is
    # released.
    words = "left in the middle of a fit under masks"
    assert ended[0] == ""
    assert words in ended[1]
    assert all(words in end for end in ended if end)
    assert how["sparsity"] == "cv" or words in ended[2]


def test_fit_with_secure_sums_has_no_intercepts_of_groups():
    """The mean intercept is that without masks, and cohorts are refused."""
    X, y, groups = table(sizes=(30, 30, 30))
    plain, secure = (
        fgmp.FedGradMPRegressor(2, fit_intercept="per_group", secure=way, random_state=0).fit(
            X, y, groups
        )
        for way in (False, True)
    )
    assert not hasattr(secure, "intercepts_")
    assert len(plain.intercepts_) == 3
    np.testing.assert_allclose(secure.intercept_, plain.intercept_, rtol=1e-6)
    with pytest.raises(ValueError, match="cohort_size is 2 of 3 groups with secure=True"):
        fgmp.FedGradMPRegressor(2, secure=True, cohort_size=2).fit(X, y, groups)


def test_plain_sums_tell_of_a_class_with_one_row():
    """The row is solved for from the mean of all rows and one gradient."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    labels = np.append(rng.integers(0, 2, 29), 2)
    client = fgmp.Federation.from_arrays([X], [labels], fgmp.SoftmaxLoss(3)).clients[0]

    gradient = client.gradient(np.zeros((4, 3)))
    # Of class c it is sum_j (1/3 - [y_j = c]) x_j / 30.
    row = X.mean(axis=0) * 10 - 30 * gradient[:, 2]

    np.testing.assert_allclose(row, X[29], rtol=1e-10)
