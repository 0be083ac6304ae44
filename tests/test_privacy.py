"""Noise: against formulas of the Gaussian mechanism, clipping by hand, and a curious client."""

import math
import os
import pickle
import warnings
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from cases import with_exchanges
from denoising_attack import removes_noise, seeds_in
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed_updates import not_finite, wrong_shape
from scipy.stats import kstest, norm

import fgmp
from fgmp import backends
from fgmp.data import Client, ProblemInfo
from fgmp.method import Call, Streams
from fgmp.privacy.noise import CalibratedNoise, spent
from fgmp.run.faults import Corrupted
from fgmp.run.serialization import to_wire

pytest.importorskip("dp_accounting")
on_both_backends = pytest.mark.usefixtures("backend")
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

FED = fgmp.make_sparse_regression(40, 12, 20, 2, noise_variance=0.01, rng=0)
METHOD = fgmp.SharedSupportGradMP(2)
NOISE = fgmp.GaussianNoise(epsilon=5.0, clip=2.0)
SECRET = bytes(range(32))


def insecure_noise(epsilon, clip, seed=0, **more):
    return fgmp.GaussianNoise(epsilon, clip, insecure_seed=seed, **more)


def prepared_noise(noise, n_clients, cohort_size, exchanges, rounds):
    return noise.for_run(
        ProblemInfo(
            2, fgmp.SquaredLoss(), [1] * n_clients, range(n_clients), np.ones(n_clients) / n_clients
        ),
        cohort_size,
        exchanges,
        rounds,
    )


def calibrated_noise(noise, multiplier, n_clients, key=SECRET):
    return CalibratedNoise(noise, multiplier, n_clients, n_clients, 1, key)


def simulate_with_noise(
    method, federation, rounds, private, cohort_size=None, faults=(), **options
):
    return fgmp.simulate(
        method, fgmp.Faulty(federation, *faults), rounds, cohort_size, aggregator=private, **options
    )


@pytest.fixture
def instant_accounting(monkeypatch):
    """For tests that ask for something else: with cohorts it takes seconds."""
    monkeypatch.setattr(
        "fgmp.privacy.noise.spent",
        lambda multiplier, n, size, exchanges, rounds, delta: rounds / multiplier,
    )


def exact_delta(multiplier, epsilon):
    """Of one Gaussian mechanism (Balle and Wang, 2018, Theorem 8)."""
    half = 1 / (2 * multiplier)
    return norm.cdf(half - epsilon * multiplier) - math.exp(epsilon) * norm.cdf(
        -half - epsilon * multiplier
    )


@pytest.mark.parametrize("multiplier, exchanges, rounds", [(2.0, 1, 1), (8.0, 2, 5), (20.0, 4, 3)])
def test_epsilon_spent_is_at_least_the_exact_value(multiplier, exchanges, rounds):
    """All exchanges of all rounds are one Gaussian mechanism with less noise."""
    epsilon = spent(multiplier, 10, 10, exchanges, rounds, 1e-5)
    composed = multiplier / math.sqrt(exchanges * rounds)
    assert exact_delta(composed, epsilon) <= 1e-5 <= exact_delta(composed, 0.75 * epsilon)


def test_epsilon_of_cohorts_is_smaller_than_that_of_all_clients():
    """A cohort of a twentieth of the clients spends less than a quarter."""
    everybody = spent(3.0, 1000, 1000, 2, 4, 1e-5)
    some = spent(3.0, 1000, 50, 2, 4, 1e-5)
    assert 0 < some < everybody / 4


def test_epsilon_grows_with_rounds_from_zero():
    """No rounds spend nothing, and more rounds spend more."""
    assert spent(3.0, 1000, 50, 2, 0, 1e-5) == 0
    assert spent(3.0, 1000, 50, 2, 8, 1e-5) > spent(3.0, 1000, 50, 2, 4, 1e-5)


def test_noise_is_the_least_that_keeps_to_the_budget():
    """With a multiplier that is 0.2 % smaller the budget would be exceeded."""
    multiplier = prepared_noise(NOISE, 40, 40, 2, 3).multiplier
    assert spent(multiplier, 40, 40, 2, 3, 1e-5) <= 5
    assert spent(0.998 * multiplier, 40, 40, 2, 3, 1e-5) > 5


@pytest.mark.parametrize(("exchange", "clip"), [(0, 3.0), (1, 5.0)])
def test_noise_of_an_exchange_has_the_deviation_of_its_clip(exchange, clip):
    """Updates are clipped to it, and 20,000 entries are normal with z 2 C / L."""
    mechanism = calibrated_noise(fgmp.GaussianNoise(1.0, (3.0, 5.0)), 7.0, 40).privacy
    clipped = mechanism.clipped(np.array([30.0, -40.0]), exchange)
    np.testing.assert_allclose(clipped, clip * np.array([0.6, -0.8]))
    noise = mechanism.noise_on_sum(20_000, 10, 1, exchange)
    assert kstest(noise / (7.0 * 2 * clip / 10), "norm").pvalue > 1e-4


def test_noise_depends_on_secret_round_exchange_and_context():
    """The same again is the same noise; anything else shares no number with it."""
    noise = fgmp.GaussianNoise(1.0, (3.0, 5.0))
    mechanism = calibrated_noise(noise, 7.0, 40).privacy
    first = mechanism.noise_on_sum(5, 10, 1, 0)
    np.testing.assert_array_equal(first, mechanism.noise_on_sum(5, 10, 1, 0))

    others = [
        mechanism.noise_on_sum(5, 10, 2, 0),
        mechanism.noise_on_sum(5, 10, 1, 1),
        mechanism.noise_on_sum(5, 10, 1, 0, b"another message, or other clients"),
        calibrated_noise(noise, 7.0, 40, bytes(32)).privacy.noise_on_sum(5, 10, 1, 0),
    ]
    for other in others:
        assert not np.isin(first, other).any()


class Curious(fgmp.FedAvg):
    """Writes down what each client gets."""

    def client_update(self, client, w, rng):
        SEEN.append((self, w.copy(), rng, client.client_id))
        return super().client_update(client, w, rng)


SEEN = []


@pytest.mark.parametrize("seed_of_noise", [None, 17])
def test_client_cannot_remove_the_noise(seed_of_noise):
    """Nor who has the result; a client can if `insecure_seed` was given."""
    method = Curious(learning_rate=0.1)
    seed = 987_654_321_987
    noise = fgmp.GaussianNoise(2.0, 0.05, insecure_seed=seed_of_noise)
    private = replace(prepared_noise(noise, FED.n_clients, FED.n_clients, 1, 2), key=SECRET)
    SEEN.clear()
    result = simulate_with_noise(method, FED, 2, noise, rng=seed)
    steps = [-0.1 * client.gradient(np.zeros(20)) for client in FED.clients]
    clean = np.mean([step * min(1, 0.05 / np.linalg.norm(step)) for step in steps], axis=0)
    first = SEEN[0][1]
    second = SEEN[-1][1]
    candidates = seeds_in(SEEN, result, repr(result), repr(private))
    assert seed in candidates
    found = removes_noise(second - clean, private, FED.n_clients, first, candidates)
    assert found == (seed_of_noise is not None)


def test_cohorts_with_noise_are_uniform():
    """Clients and pairs of clients take part equally often."""
    sampler = calibrated_noise(NOISE, 7.0, 10).sampler
    cohorts = np.array([sampler.draw(None, number, 10, 3) for number in range(3000)])
    assert (np.diff(cohorts, axis=1) > 0).all()
    pairs = np.zeros((10, 10))
    for cohort in cohorts:
        pairs[np.ix_(cohort, cohort)] += 1
    assert abs(np.diag(pairs) - 900).max() < 5 * math.sqrt(900 * 0.7)
    assert abs(pairs[np.triu_indices(10, 1)] - 200).max() < 5 * math.sqrt(200)


@on_both_backends
@pytest.mark.parametrize(
    "fault, gone", [("", []), ("dropped", [1]), ("not finite", [1]), ("not finite", range(4))]
)
@pytest.mark.parametrize("then", [fgmp.Mean(), fgmp.SecureSum(threshold=2)])
def test_private_round_is_that_by_hand(then, fault, gone):
    """The model plus the mean of clipped steps plus noise, with any client dropped."""
    method = fgmp.FedAvg(learning_rate=0.1)
    noise = fgmp.GaussianNoise(2.0, 0.05, aggregator=then)
    small = fgmp.Federation.from_clients(FED.clients[:4], [1.0, 2.0, 3.0, 2.0], truth=FED.truth)
    contexts = []
    honest = CalibratedNoise.noise_on_sum

    def keeping(own, *given):
        contexts.append(given[-1])
        return honest(own, *given)

    with (
        mock.patch("secrets.token_bytes", bytes),  # the same secret for both
        mock.patch.object(CalibratedNoise, "noise_on_sum", keeping),
    ):
        found = simulate_with_noise(
            method, small, 1, noise, faults=[FAULTS[fault](list(gone))] if fault else (), rng=3
        ).x
        given = prepared_noise(noise, 4, 4, 1, 1).privacy
    steps = [-0.1 * client.gradient(np.zeros(20)) for client in small.clients]
    clipped = [
        (i not in gone) * step * min(1, 0.05 / np.linalg.norm(step)) for i, step in enumerate(steps)
    ]
    # The noise depends on who was dropped, and not on whose update was finite.
    answered = bytes(fault != "dropped" or i not in gone for i in range(4))
    what = b"".join(part.tobytes() for part in to_wire(np.zeros(20)).values()) + answered
    assert contexts[0][: len(what)] == what
    added = np.frombuffer(contexts[0][len(what) :])  # the last bits of the sum are those of the run
    np.testing.assert_allclose(added, np.sum(clipped, axis=0) / 4, atol=1e-10)
    what += added.tobytes()
    np.testing.assert_allclose(
        found, np.sum(clipped, axis=0) / 4 + given.noise_on_sum(20, 4, 1, 0, what), atol=1e-10
    )


@on_both_backends
@pytest.mark.usefixtures("instant_accounting")
def test_secret_is_in_the_checkpoint_alone(tmp_path, monkeypatch):
    """Neither the result, nor the messages, nor a repr has it."""
    monkeypatch.setattr("secrets.token_bytes", lambda size: SECRET[:size])
    sent = []
    run_clients = fgmp.LocalClients.run_clients

    def listening(self, *given):
        sent.append(given[1:])
        return run_clients(self, *given)

    monkeypatch.setattr(fgmp.LocalClients, "run_clients", listening)
    path = tmp_path / "run.fgmp"
    result = simulate_with_noise(METHOD, FED, 2, NOISE, 10, rng=0, callbacks=fgmp.Checkpoint(path))
    assert SECRET in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    for held in (
        pickle.dumps(result),
        pickle.dumps(sent),
        repr(calibrated_noise(NOISE, 1.0, 2)).encode(),
    ):
        assert len(held) > 50
        assert SECRET not in held
        assert repr(SECRET)[2:-1].encode() not in held
    monkeypatch.setattr("secrets.token_bytes", os.urandom)
    again = simulate_with_noise(METHOD, FED, 2, NOISE, 10, rng=0)
    assert not np.array_equal(again.x, result.x)


@on_both_backends
def test_repeated_round_with_other_data_has_other_noise():
    """After a checkpoint was put back, two releases subtract to noise."""
    other = [client.targets.copy() for client in FED.clients]
    other[2][0] += 0.01
    changed = fgmp.Federation.from_arrays([client.features for client in FED.clients], other)
    private = replace(prepared_noise(fgmp.GaussianNoise(2.0, 0.5), 40, 40, 1, 1), key=SECRET)
    method = fgmp.FedAvg(learning_rate=0.1)
    sums = []
    for federation in (FED, FED, changed):
        transport = fgmp.LocalClients(federation).for_method(method)
        (exchange,) = method.exchanges()
        call = Call(exchange, exchange.update_spec(np.zeros(20)), 0, 1, Streams(3))
        seen = private.privacy.run_and_collect(transport, call, np.zeros(20), np.arange(40))
        sums.append(seen.as_matrix()[0])
    np.testing.assert_array_equal(sums[0], sums[1])
    deviation = private.multiplier * 2 * 0.5 / 40
    assert 0.1 * deviation < np.std(sums[2] - sums[0]) / 2**0.5 < 10 * deviation
    assert np.abs(sums[2] - sums[0]).min() > 1e-9


@on_both_backends
@pytest.mark.usefixtures("instant_accounting")
def test_run_with_noise_stops_if_its_checkpoint_cannot_be_written(tmp_path, monkeypatch):
    """What it releases after that would not be counted."""
    path = tmp_path / "run.fgmp"
    replaced = os.replace

    def failing(*given):
        if run_is_at[-1] >= 3:
            raise OSError(28, "No space left on device")
        replaced(*given)

    run_is_at = [0]
    monkeypatch.setattr(os, "replace", failing)
    callbacks = [lambda run: run_is_at.append(run.progress.round), fgmp.Checkpoint(path)]
    with pytest.raises(OSError, match="checkpoint cannot be written"):
        simulate_with_noise(ADDITIVE["FedAvg"], FED, 8, NOISE, rng=0, callbacks=callbacks)
    assert run_is_at[-1] == 3


@on_both_backends
def test_private_fit_does_not_depend_on_numbers_of_rows():
    """Groups, warnings and advice are the same for a group of five rows or of four."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((405, 6))
    y = X[:, 0] + 0.1 * rng.standard_normal(405)
    groups = np.append(np.arange(400) % 20, np.full(5, 20))
    exact = dict(standardize=False, fit_intercept=False, polish=False, rounds=2, batch_size=10)
    seen = []
    for rows in (405, 404):
        model = fgmp.FedGradMPRegressor(2, private=insecure_noise(8.0, 1.0), **exact)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X[:rows], y[:rows], groups[:rows])
        seen.append((model.groups_.tolist(), [str(each.message) for each in caught]))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) == 21


def test_backend_of_a_private_run_does_not_depend_on_numbers_of_rows(monkeypatch):
    """A run without noise is short, or not, by the rows of one client; a run with noise never is."""
    pytest.importorskip("numba")
    monkeypatch.setattr(backends, "_FEW_ITERATIONS", 500)  # as for users; other tests have -1
    monkeypatch.setattr(backends, "_FEW_NUMBERS", 1e4)
    method = fgmp.FedAvg(learning_rate=0.01)
    seen = {None: [], "noise": []}
    for n_rows in (20, 2000):
        As = [np.eye(20)] * 4 + [np.ones((n_rows, 20))]
        federation = fgmp.Federation.from_arrays(As, [A[:, 0] for A in As])
        for name, options in zip(seen, ({}, {"aggregator": insecure_noise(2.0, 1.0)}), strict=True):
            result = fgmp.simulate(method, federation, 3, rng=0, **options)
            seen[name].append((result.backend, dict(result.fallbacks)))
    assert seen[None] == [("reference", {"short run": 15}), ("compiled", {})]
    assert seen["noise"] == [("compiled", {}), ("compiled", {})]


ADDITIVE = {
    "FedAvg": fgmp.FedAvg(learning_rate=0.1, local_iterations=2, batch_size=3),
    "FedGradMP": fgmp.FedGradMP(2, local_iterations=2),
    "FastFedDualAvg": fgmp.FastFedDualAvg(learning_rate=0.1, l1_weight=0.01),
    "SharedSupportGradMP": METHOD,
}
FAULTS = {
    "dropped": lambda client_ids: fgmp.DropOut(clients=client_ids),
    "not finite": lambda client_ids: Corrupted(not_finite, clients=client_ids),
    "malformed": lambda client_ids: Corrupted(wrong_shape, clients=client_ids),
}


def first_sum(method, clients, faults, noise, cohort_size):
    sums = []

    def noted(_, exchange):
        return exchange._replace(
            server_update=lambda state, mean: (
                sums.append(mean) or exchange.server_update(state, mean)
            )
        )

    simulate_with_noise(
        with_exchanges(method, noted),
        fgmp.Federation.from_clients(clients),
        1,
        noise,
        cohort_size,
        faults,
        rng=0,
    )
    return sums[0].ravel()


@on_both_backends
@settings(max_examples=25)
@given(
    st.sampled_from(sorted(ADDITIVE)),
    st.integers(0, 2**32),
    st.integers(1, 2000),
    st.sampled_from([0.0, 1e-3, 1.0, 1e8, 1e150]),
    st.sampled_from([None, *FAULTS]),
    st.sampled_from([3, 6]),
    st.booleans(),
    st.floats(-2, 2).map(lambda exponent: 10**exponent),
)
def test_replacing_a_client_moves_a_sum_by_at_most_its_sensitivity(
    name, seed, rows, scale, fault, cohort_size, masked, clip
):
    """Its rows, and whether its update arrives and is finite: at most 2 C / L."""
    rng = np.random.default_rng(seed)
    before = [
        Client(c.features[:n], c.targets[:n], c.loss, c.client_id)
        for c, n in zip(FED.clients, range(4, 10), strict=False)
    ]
    features = scale * rng.standard_normal((rows, 20))
    after = [
        *before[:-1],
        Client(features, scale * rng.standard_normal(rows), FED.loss, before[-1].client_id),
    ]
    noise = insecure_noise(
        1.0, clip, aggregator=fgmp.SecureSum(resolution=clip * 2.0**-40) if masked else fgmp.Mean()
    )
    faults = () if fault is None else [FAULTS[fault]([before[-1].client_id])]
    # Accounting takes seconds, and is not tested here.
    at_once = mock.patch("fgmp.privacy.noise.spent", lambda multiplier, *_: 1 / multiplier)
    silent = mock.patch.object(
        CalibratedNoise, "noise_on_sum", lambda self, length, *_: np.zeros(length)
    )
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"), at_once, silent:
        plain = first_sum(ADDITIVE[name], before, (), noise, cohort_size)
        other = first_sum(ADDITIVE[name], after, faults, noise, cohort_size)
    assert np.linalg.norm(other - plain) <= 2 * clip / cohort_size * (1 + 1e-9)


@on_both_backends
@pytest.mark.parametrize("fault", FAULTS)
def test_history_with_noise_does_not_count_rejected_updates(fault):
    """Or the history would say exactly whether an update was finite."""
    noise = insecure_noise(2.0, 0.5)
    with_fault, without = (
        simulate_with_noise(fgmp.FedGradMP(2), FED, 2, noise, faults=faults, rng=0).history
        for faults in ([FAULTS[fault]([3])], ())
    )
    about_models = {"relative_error", "seconds", "bytes_down"}
    assert set(with_fault) == about_models | {"round", "bytes_up", "clients", "rejected", "epsilon"}
    for name in set(with_fault) - about_models:
        np.testing.assert_array_equal(with_fault[name], without[name])


@on_both_backends
def test_insecure_seed_gives_the_same_noise_on_any_processor():
    """The last bit of a model does not change it, and a warning says that it protects nobody."""
    As = [c.features * (1 + 1e-14) for c in FED.clients]
    ys = [c.targets for c in FED.clients]
    nudged = fgmp.Federation.from_arrays(As, ys)
    method = fgmp.FedAvg(learning_rate=0.1)
    with pytest.warns(fgmp.AdviceWarning, match="insecure_seed is .: .* this run protects nobody"):
        pairs = (FED, 0), (nudged, 0), (FED, 1)
        one, other, another = (
            simulate_with_noise(method, fed, 4, insecure_noise(2.0, 0.5, seed), rng=0).x
            for fed, seed in pairs
        )
    np.testing.assert_allclose(one, other, atol=1e-10)
    assert not np.allclose(one, another, atol=1e-3)


@on_both_backends
def test_run_with_noise_records_epsilon_and_no_objective(monkeypatch):
    """Neither objectives nor numbers of rows are looked at, and there are no warnings of them."""
    monkeypatch.setattr(
        fgmp.LocalClients, "objectives", lambda *_: pytest.fail("objectives were asked for")
    )
    small = fgmp.Federation.from_arrays(
        [c.features[:3] for c in FED.clients], [c.targets[:3] for c in FED.clients]
    )
    method = fgmp.FedGradMP(2, batch_size=5)
    noise = fgmp.GaussianNoise(0.05, 50.0)
    with warnings.catch_warnings(action="error"):  # of small sites, few rows and rises as well
        result = simulate_with_noise(method, small, 3, noise, rng=0, history=fgmp.History(every=2))
    assert "objective" not in result.history
    assert result.best.round == 3
    np.testing.assert_array_equal(result.best.x, result.x)
    epsilon = result.history["epsilon"]
    assert epsilon[0] == 0
    assert (np.diff(epsilon) > 0).all()
    assert 0.049 < epsilon[-1] <= 0.05


@on_both_backends
@pytest.mark.usefixtures("instant_accounting")
def test_run_with_noise_is_resumed_with_its_secret(tmp_path):
    """It keeps a checkpoint after every round; noise and cohorts are those of the whole run."""
    method = ADDITIVE["FedAvg"]  # whose models are never zero
    path = tmp_path / "run.fgmp"
    first = tmp_path / "first.fgmp"

    def run(rounds, path, *more):
        return simulate_with_noise(
            method,
            FED,
            rounds,
            NOISE,
            10,
            rng=0,
            callbacks=[fgmp.Checkpoint(path, every=100), *more],
        )

    def keep_the_first(run):
        if run.progress.round == 2:  # which `every` would not write
            first.write_bytes(path.read_bytes())

    played = []
    whole = run(3, path, keep_the_first)
    resumed = run(3, first, lambda run: played.append(run.progress.round))
    assert played == [2, 3]
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.history["epsilon"], whole.history["epsilon"])
    with pytest.raises(ValueError, match="is of another run: .*aggregator.multiplier is"):
        run(4, path)
