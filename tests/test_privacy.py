"""Noise: against formulas of the Gaussian mechanism, contributions clipped by hand, and frequencies."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

import fgmp
from fgmp.running.privacy import Accounted, accounted, spent

pytest.importorskip("dp_accounting")

FED = fgmp.make_sparse_regression(40, 12, 20, 2, noise_variance=0.01, rng=0)
METHOD = fgmp.SharedSupportGradMP(2)
NOISE = fgmp.GaussianNoise(epsilon=5.0, clip=2.0)


def exact_delta(multiplier, epsilon):
    """Of one Gaussian mechanism (Balle and Wang, 2018, Theorem 8)."""
    half = 1 / (2 * multiplier)
    return norm.cdf(half - epsilon * multiplier) - math.exp(epsilon) * norm.cdf(-half - epsilon * multiplier)


@pytest.mark.parametrize("multiplier, exchanges, rounds", [(2.0, 1, 1), (8.0, 2, 5), (20.0, 4, 3)])
def test_what_is_spent_is_never_less_than_the_exact_value_and_not_much_more(multiplier, exchanges, rounds):
    """All exchanges of all rounds together are one Gaussian mechanism with less noise."""
    epsilon = spent(multiplier, 10, 10, exchanges, rounds, 1e-5)
    together = multiplier / math.sqrt(exchanges * rounds)
    assert exact_delta(together, epsilon) <= 1e-5 <= exact_delta(together, 0.75 * epsilon)


def test_a_cohort_spends_less_and_more_rounds_spend_more():
    everybody, some = (spent(3.0, 1000, size, 2, 4, 1e-5) for size in (1000, 50))
    assert 0 < some < everybody / 4
    assert spent(3.0, 1000, 50, 2, 8, 1e-5) > some and spent(3.0, 1000, 50, 2, 0, 1e-5) == 0


def test_the_noise_is_the_least_that_keeps_to_the_budget():
    multiplier = accounted(NOISE, 40, 40, 2, 3).multiplier
    assert spent(multiplier, 40, 40, 2, 3, 1e-5) <= 5 < spent(0.998 * multiplier, 40, 40, 2, 3, 1e-5)


def test_contributions_are_scaled_by_their_weight_and_clipped():
    given = Accounted(fgmp.GaussianNoise(1.0, (3.0, 5.0)), 7.0, n_clients=4)
    answer = np.array([3.0, -4.0])
    np.testing.assert_allclose(given.clipped(0.25, answer, 1), answer)
    np.testing.assert_allclose(given.clipped(0.25, answer, 0), 3 / 5 * answer)
    np.testing.assert_allclose(given.clipped(0.1, answer, 0), 0.4 * answer)
    np.testing.assert_array_equal(given.clipped(0.25, np.zeros(2), 0), np.zeros(2))


def test_the_noise_has_the_deviation_that_is_accounted_for():
    given = Accounted(fgmp.GaussianNoise(1.0, (3.0, 5.0)), 7.0, n_clients=40)
    for exchange, clip in ((0, 3.0), (1, 5.0)):
        noise = given.noise_on_sum(20_000, 10, (0, 1, exchange))
        assert kstest(noise / (7.0 * 2 * clip / 10), "norm").pvalue > 1e-4
    first = given.noise_on_sum(5, 10, (0, 1, 0))
    assert not np.isin(first, given.noise_on_sum(5, 10, (0, 2, 0))).any()
    np.testing.assert_array_equal(first, given.noise_on_sum(5, 10, (0, 1, 0)))


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("secure", [None, fgmp.SecureSum(threshold=2)])
def test_one_round_of_averages_by_hand(secure):
    """The model that was broadcast, plus the mean of clipped steps, plus noise of the seed."""
    method, noise = fgmp.FedAvg(learning_rate=0.1), fgmp.GaussianNoise(epsilon=2.0, clip=0.05)
    small = fgmp.Federation(FED.clients[:4], [1.0, 2.0, 3.0, 2.0], FED.truth)
    found = fgmp.simulate(method, small, 1, rng=3, private=noise, secure=secure).x
    steps = [
        -0.1 * client.gradient(np.zeros(20)) * 4 * p for p, client in zip(small.weights, small.clients, strict=True)
    ]
    clipped = [step * min(1, 0.05 / np.linalg.norm(step)) for step in steps]
    given = accounted(noise, 4, 4, 1, 1)
    expected = np.mean(clipped, axis=0) + given.noise_on_sum(20, 4, (3, 1, 0))
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_the_history_says_what_was_spent():
    history = fgmp.simulate(METHOD, FED, 3, 10, 0, private=NOISE, record_every=2).history
    assert history["epsilon"][0] == 0 and (np.diff(history["epsilon"]) > 0).all()
    assert 4.9 < history["epsilon"][-1] <= 5
    assert "epsilon" not in fgmp.simulate(METHOD, FED, 1, rng=0).history


def test_no_model_is_chosen_by_an_objective_that_nobody_paid_for():
    with pytest.warns(fgmp.RisingObjectiveWarning) as said:
        result = fgmp.simulate(METHOD, FED, 3, rng=0, private=fgmp.GaussianNoise(epsilon=0.05, clip=(50.0, 50.0)))
    assert not any("result.x" in str(word.message) for word in said)
    assert result.history["objective"][-1] > result.history["objective"][0]
    np.testing.assert_array_equal(result.x, result.last.x)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_with_much_budget_and_many_clients_the_support_is_found():
    many = fgmp.make_sparse_regression(
        400, 12, 20, 2, noise_variance=0.01, variance_decay=0.0, heterogeneity=0.0, rng=0
    )
    noise = fgmp.GaussianNoise(epsilon=8.0, clip=(2.0, 3.0))
    result = fgmp.simulate(METHOD, many, 2, rng=0, private=noise)
    np.testing.assert_array_equal(result.support, np.flatnonzero(many.truth))


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
def test_a_run_with_noise_goes_on_from_its_checkpoint(tmp_path):
    path, run = (
        tmp_path / "run.fgmp",
        lambda rounds, **more: fgmp.simulate(METHOD, FED, rounds, rng=0, private=NOISE, **more),
    )
    stopped = []
    run(3, checkpoint=path, callback=lambda history: stopped.append(1) or len(stopped) == 1)
    resumed, whole = run(3, checkpoint=path), run(3)
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.history["epsilon"], whole.history["epsilon"])
    with pytest.raises(ValueError, match="is of another run: multiplier is"):
        run(4, checkpoint=path)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: fgmp.GaussianNoise(0, 1.0), "epsilon is 0; expected a finite number above 0"),
        (lambda: fgmp.GaussianNoise(1.0, 1.0, delta=0), "delta is 0; expected a finite number above 0"),
        (lambda: fgmp.GaussianNoise(1.0, 1.0, delta=1.0), "delta is 1.0; expected a number above 0 and below 1"),
        (lambda: fgmp.GaussianNoise(1.0, (1.0, -1.0)), "clip is -1.0; expected a finite number above 0"),
        (
            lambda: fgmp.simulate(METHOD, FED, 1, private=1.0),
            r"private is 1.0; expected GaussianNoise\(epsilon, clip, delta\)",
        ),
        (
            lambda: fgmp.simulate(METHOD, FED, 1, private=fgmp.GaussianNoise(1.0, (1.0, 1.0, 1.0))),
            "clip has 3 values; expected one, or one for each of the 2 exchanges",
        ),
        (
            lambda: fgmp.simulate(fgmp.SharedSupportGradMP(2, fgmp.LargestEntries()), FED, 1, private=NOISE),
            "private is given, and exchange 1 of SharedSupportGradMP is no sum; expected an additive method",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
