"""The round loop: books, seeds, cohorts, stopping, and answers that are not finite."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import fgmp
from fgmp.methods.contract import Exchange
from fgmp.running.randomness import draw_cohort


@pytest.fixture(scope="module")
def fed():
    return fgmp.make_sparse_regression(6, 30, 50, 3, noise_variance=0.01, rng=0)


METHOD = fgmp.FedGradMP(sparsity=3, batch_size=20)
AVERAGE = fgmp.FedAvg(learning_rate=0.01)


def test_history_has_the_promised_columns(fed):
    result = fgmp.simulate(METHOD, fed, rounds=3, rng=0)
    names = ["round", "relative_error", "objective", "seconds", "bytes_up", "bytes_down", "clients"]
    assert list(result.history) == names
    assert {len(column) for column in result.history.values()} == {4}
    assert result.history["relative_error"][0] == 1
    assert result.history["objective"][0] == pytest.approx(fed.objective(np.zeros(50)))
    assert result.history["objective"][-1] == pytest.approx(fed.objective(result.x))
    assert result.history["relative_error"][-1] == pytest.approx(
        np.linalg.norm(result.x - fed.truth) / np.linalg.norm(fed.truth)
    )
    assert np.all(np.diff(result.history["seconds"]) > 0)
    np.testing.assert_array_equal(result.support, np.flatnonzero(result.x))


def test_no_truth_no_relative_error(fed):
    unknown = fgmp.Federation(fed.clients, fed.weights)
    assert "relative_error" not in fgmp.simulate(METHOD, unknown, rounds=1).history


def test_the_seed_alone_decides(fed):
    first, second = (fgmp.simulate(METHOD, fed, 3, cohort_size=4, rng=5) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    assert first.seed == 5
    assert not np.array_equal(first.x, fgmp.simulate(METHOD, fed, 3, cohort_size=4, rng=6).x)
    reversed_order = fgmp.Federation(fed.clients[::-1], fed.weights[::-1])
    np.testing.assert_array_equal(fgmp.simulate(METHOD, reversed_order, 3, cohort_size=4, rng=5).x, first.x)
    unseeded = fgmp.simulate(METHOD, fed, 2)
    np.testing.assert_array_equal(fgmp.simulate(METHOD, fed, 2, rng=unseeded.seed).x, unseeded.x)
    from_generator = fgmp.simulate(METHOD, fed, 2, rng=np.random.default_rng(3))
    np.testing.assert_array_equal(fgmp.simulate(METHOD, fed, 2, rng=np.random.default_rng(3)).x, from_generator.x)


@dataclass(frozen=True)
class Spy:
    """Records what every client draws; sends one number."""

    drawn: dict

    def check(self, federation):
        pass

    def prepare(self, client):
        return client

    def start(self, federation):
        return np.zeros(federation.n_features)

    def exchanges(self):
        def answer(client, message, rng):
            self.drawn.setdefault(client.key, []).append(rng.random())
            return {"one": np.ones(1)}

        return (Exchange(lambda state: {}, answer, lambda state, replies: state),)

    def coefficients(self, state):
        return state

    estimate = coefficients


def test_a_client_draws_the_same_whoever_else_takes_part(fed):
    everyone, some = Spy({}), Spy({})
    fgmp.simulate(everyone, fed, rounds=1, rng=1)
    fgmp.simulate(some, fed, rounds=1, cohort_size=2, rng=1)
    assert len(some.drawn) == 2
    assert all(everyone.drawn[key] == values for key, values in some.drawn.items())
    assert len({values[0] for values in everyone.drawn.values()}) == fed.n_clients


def test_cohorts_are_drawn_uniformly_without_replacement():
    counts = np.zeros(10)
    for number in range(2000):
        cohort = draw_cohort(0, number, 10, 3)
        assert len(set(cohort)) == 3
        counts[cohort] += 1
    assert np.abs(counts / 2000 - 0.3).max() < 0.05


def test_cohort_weights_are_scaled_to_one(fed):
    """Weights p_i over the cohort, not over all clients: exact data stay exact with a small cohort."""
    exact = fgmp.make_sparse_regression(6, 60, 50, 3, rng=1)
    uneven = fgmp.Federation(exact.clients, np.arange(1.0, 7), exact.truth)
    result = fgmp.simulate(fgmp.FedGradMP(3), uneven, rounds=6, cohort_size=2, rng=0)
    assert result.history["relative_error"][-1] <= 1e-13
    assert set(result.history["clients"][1:]) == {2}


@dataclass(frozen=True)
class Faulty(fgmp.FedGradMP):
    """FedGradMP in which some clients answer with NaN."""

    silent: tuple = ()

    def refine(self, client, message, rng):
        answer = super().refine(client, message, rng)
        return answer | {"values": answer["values"] * np.nan} if client.key in self.silent else answer


def test_a_round_without_answers_leaves_the_model(fed):
    result = fgmp.simulate(Faulty(3, silent=tuple(range(6))), fed, rounds=2)
    assert not result.x.any()
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0])


def test_runs_stop_when_told(fed):
    exact = fgmp.make_sparse_regression(6, 60, 50, 3, rng=1)
    early = fgmp.simulate(fgmp.FedGradMP(3), exact, rounds=50, callback=fgmp.stop_at(1e-10))
    assert early.history["relative_error"][-1] <= 1e-10 and early.history["round"][-1] < 50
    stalled = fgmp.simulate(fgmp.FedGradMP(3), fed, rounds=50, callback=[fgmp.stop_when_stalled(3)])
    assert stalled.history["round"][-1] < 50
    with pytest.raises(ValueError, match="column is 'loss'; expected one of 'round'"):
        fgmp.simulate(METHOD, fed, rounds=1, callback=fgmp.stop_at(1, column="loss"))


def test_records_and_metrics(fed, capsys):
    result = fgmp.simulate(METHOD, fed, 7, rng=0, record_every=3, metrics={"nonzeros": np.count_nonzero}, progress=True)
    np.testing.assert_array_equal(result.history["round"], [0, 3, 6, 7])
    np.testing.assert_array_equal(result.history["nonzeros"], [0, 3, 3, 3])
    assert "FedGradMP" in capsys.readouterr().err
    every = fgmp.simulate(METHOD, fed, 7, rng=0)
    np.testing.assert_array_equal(every.x, result.x)


def test_no_rounds_is_the_start(fed):
    assert not fgmp.simulate(METHOD, fed, rounds=0).x.any()


@pytest.mark.parametrize("level", [-5.0, 0.0, 3.0])
def test_a_constant_column_has_stalled_whatever_its_sign(level):
    stalled = fgmp.stop_when_stalled(patience=3, column="score")
    assert not stalled({"score": np.full(3, level)}) and stalled({"score": np.full(4, level)})
    falling = {"score": level - np.arange(6.0)}
    assert not stalled(falling)


def test_stalling_asks_for_the_improvement_that_was_named():
    stalled = fgmp.stop_when_stalled(patience=2, column="score", improvement=0.1)
    assert stalled({"score": np.array([10.0, 9.5, 9.2])}) and not stalled({"score": np.array([10.0, 9.5, 8.9])})
    assert stalled({"score": np.array([-10.0, -10.5, -10.9])}) and not stalled(
        {"score": np.array([-10.0, -10.5, -11.1])}
    )
    assert not stalled({"score": np.array([np.nan, np.nan, 1.0])}) and stalled({"score": np.full(3, np.nan)})


@pytest.mark.parametrize(
    "values, patience, improvement, stalled",
    [
        ([1.0, 0.9995], 1, 1e-3, True),
        ([1.0, 0.9995], 1, 1e-4, False),
        ([1.0, 0.995], 1, 1e-3, False),
        ([1.0, 0.75], 1, 0.5, True),
        ([1.0, 0.75], 1, 0.2, False),
        ([1.0, 1.0], 1, 0.0, True),
        ([1.0, 0.5, 0.4999, 0.4998], 2, 1e-3, True),
        ([1.0, 0.5, 0.4999, 0.4998], 2, 1e-5, False),
        ([1.0, 0.5, 0.4999, 0.4998], 3, 1e-3, False),
        ([1.0], 1, 1e-3, False),
    ],
)
def test_a_run_is_stalled_where_the_improvement_is_less_than_asked_for(values, patience, improvement, stalled):
    stop = fgmp.stop_when_stalled(patience, improvement=improvement)
    assert stop({"objective": np.array(values)}) is stalled
    default = fgmp.stop_when_stalled(patience)
    if improvement == 1e-3:
        assert default({"objective": np.array(values)}) is stalled


def test_a_metric_that_writes_changes_nothing(fed):
    def greedy(x):
        x[:] = 7
        return 1.0

    for method in (AVERAGE, METHOD):
        result = fgmp.simulate(method, fed, 3, rng=0, metrics={"greedy": greedy})
        plain = fgmp.simulate(method, fed, 3, rng=0)
        np.testing.assert_array_equal(result.x, plain.x)
        np.testing.assert_array_equal(result.history["objective"], plain.history["objective"])


def test_the_parts_of_a_result_are_their_own(fed):
    for method in (AVERAGE, METHOD):
        result = fgmp.simulate(method, fed, 2, rng=0)
        assert not np.shares_memory(result.x, result.coefficients)
        before = result.coefficients.copy()
        result.x[:] = 0
        result.history["objective"][:] = 0
        np.testing.assert_array_equal(result.coefficients, before)
        assert not np.shares_memory(result.coefficients, method.coefficients(result.state))


def test_a_callback_cannot_rewrite_the_history(fed):
    def forge(history):
        history["objective"][-1] = 0
        return False

    with pytest.raises(ValueError, match="read-only"):
        fgmp.simulate(METHOD, fed, 2, rng=0, callback=forge)


def test_the_history_costs_a_callback_the_same_after_many_rounds(fed):
    """It gets views of the same columns: nothing is built anew from all rows so far."""
    seen = []
    method, many = AVERAGE, fgmp.Federation(fed.clients[:1], np.ones(1))
    result = fgmp.simulate(method, many, 300, rng=0, callback=lambda history: bool(seen.append(history)))
    assert [len(history["round"]) for history in seen] == list(range(2, 302))
    same = [np.shares_memory(a["objective"], b["objective"]) for a, b in zip(seen, seen[1:], strict=False)]
    assert same.count(False) <= 4  # columns grow by doubling
    for history in (seen[10], seen[200]):
        np.testing.assert_array_equal(history["objective"], result.history["objective"][: len(history["objective"])])


def test_the_objective_on_a_sample_of_clients(fed):
    asked = []

    @dataclass(frozen=True)
    class Counted(fgmp.SquaredLoss):
        def values(self, predictions, targets):
            asked.append(len(targets))
            return super().values(predictions, targets)

    As = [client.features for client in fed.clients]
    ys = [client.targets for client in fed.clients]
    federation = fgmp.Federation.from_arrays(As, ys, Counted(), weights=[1, 2, 3, 4, 5, 6])
    result = fgmp.simulate(METHOD, federation, 3, rng=0, objective_on=[1, 3])
    assert len(asked) == 2 * 4
    np.testing.assert_array_equal(result.objective_on, [1, 3])
    parts = [federation.clients[i].objective(result.x) for i in (1, 3)]
    assert result.history["objective"][-1] == pytest.approx((2 * parts[0] + 4 * parts[1]) / 6)
    drawn = fgmp.simulate(METHOD, federation, 1, rng=0, objective_on=2)
    again = fgmp.simulate(METHOD, federation, 2, rng=0, objective_on=2)
    np.testing.assert_array_equal(drawn.objective_on, again.objective_on)
    assert len(drawn.objective_on) == 2
    everybody = fgmp.simulate(METHOD, federation, 3, rng=0)
    assert everybody.objective_on is None
    np.testing.assert_array_equal(everybody.x, result.x)
    for wrong in (0, 7, [8], [-1]):
        with pytest.raises(ValueError, match="objective_on is"):
            fgmp.simulate(METHOD, federation, 1, objective_on=wrong)
    unweighted = replace(federation, weights=np.array([0, 1, 1, 1, 1, 1.0]))
    with pytest.raises(ValueError, match="objective_on names 1 clients of weight 0"):
        fgmp.simulate(METHOD, unweighted, 1, objective_on=[0])
