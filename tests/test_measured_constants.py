"""Constants measured on data against enumeration: of supports, minibatches and directions."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import fgmp
from fgmp import theory
from fgmp.theory import ClientConstants, TheoremParameters


def squared(m=5, n=6, n_clients=2, seed=0, averaged=True):
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((m, n)) for _ in range(n_clients)]
    loss = fgmp.losses.SquaredLoss(averaged=averaged)
    return fgmp.Federation.from_arrays(As, [rng.standard_normal(m) for _ in As], loss, weights=[1, 3][:n_clients])


def labelled(loss, m=5, n=4):
    rng = np.random.default_rng(1)
    y = {"logistic": [1, -1, 1, 1, -1], "softmax": [0, 2, 1, 0, 2]}[loss]
    return fgmp.Federation.from_arrays([rng.standard_normal((m, n))], [y], loss)


def supports(n, size):
    return map(list, combinations(range(n), size))


def gradients_of_minibatches(client, x, batch_size):
    """A sum over the rows of the minibatch, or their mean, from the gradients of single rows."""
    batches = list(combinations(range(client.n_samples), batch_size))
    one = [client.gradient(x, np.array([k])) for k in range(client.n_samples)]
    scale = 1 if getattr(client.loss, "averaged", True) is False else 1 / batch_size
    return [scale * sum(one[k] for k in batch) for batch in batches]


@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_every_constant_is_that_of_enumeration(batch_size):
    """n = 6 and tau = 1: 4 of 6 columns for curvatures, 2 of 6 for the whole gradient; ten minibatches at most."""
    fed, x = squared(), np.array([0, 1.0, 0, 0, 0, 0])
    found = theory.measure_constants(fed, x, 1, batch_size=batch_size, n_minibatches=comb(5, batch_size or 5))
    for i, client in enumerate(fed.clients):
        batches = [np.arange(5)] if batch_size is None else [np.array(b) for b in combinations(range(5), batch_size)]
        hessians = [client.features[rows].T @ client.features[rows] / len(rows) for rows in batches]
        whole = client.features.T @ client.features / 5
        lowest = min(np.linalg.eigvalsh(whole[np.ix_(S, S)])[0] for S in supports(6, 4))
        curvatures = [max(np.linalg.norm(H[np.ix_(S, S)], 2) for S in supports(6, 4)) for H in hessians]
        lipschitz = [max(np.linalg.norm(H[:, S], 2) for S in supports(6, 2)) for H in hessians]
        gradient = client.features.T @ (client.features @ x - client.targets) / 5
        deviations = [np.sum((g - gradient) ** 2) for g in gradients_of_minibatches(client, x, batch_size or 5)]
        assert found.lower[i] == pytest.approx(lowest)
        assert found.upper[i] == pytest.approx(np.mean(curvatures))
        assert found.upper_squared[i] == pytest.approx(np.mean(np.square(lipschitz)))
        assert found.gradient[i] == pytest.approx(max(np.sum(gradient[S] ** 2) for S in supports(6, 4)))
        assert found.whole_gradient[i] == pytest.approx(gradient @ gradient)
        assert found.variance[i] == pytest.approx(np.mean(deviations), abs=1e-12)
    np.testing.assert_allclose(found.weights, [0.25, 0.75])


@pytest.mark.parametrize("seed", range(3))
def test_the_whole_gradient_can_move_more_than_the_curvature_at_four_tau_allows(seed):
    """What Lemma 3 needs for eta_1 > 1: the length of grad f(x) - grad f(x') for x - x' with 2 tau nonzeros."""
    fed = squared(m=20, n=40, n_clients=1, seed=seed)
    (client,), found = fed.clients, theory.measure_constants(fed, np.zeros(40), 1)
    H, at_zero, moved = client.features.T @ client.features / 20, client.gradient(np.zeros(40)), []
    for S in supports(40, 2):
        step = np.zeros(40)
        step[S] = np.linalg.svd(H[:, S])[2][0]
        moved.append(np.linalg.norm(client.gradient(step) - at_zero) / np.linalg.norm(step))
    assert found.upper_squared[0] == pytest.approx(max(moved) ** 2)
    assert max(moved) > found.upper[0]


def test_a_mean_over_minibatches_is_never_below_the_whole():
    """By Jensen; a few draws could miss the one row that matters, and beta_2 would be negative."""
    fed = fgmp.Federation.from_arrays([np.diag([*np.zeros(29), 30.0])[:, -1:]], [np.zeros(30)])
    for seed in range(5):
        found = theory.measure_constants(fed, [0.0], 1, batch_size=1, n_minibatches=3, rng=seed)
        assert found.lower[0] == pytest.approx(30) and found.upper[0] >= 30


def test_draws_are_repeatable_and_near_the_mean_of_all():
    fed = squared(m=12, n=4, n_clients=1)
    assert comb(12, 6) == 924
    exact = theory.measure_constants(fed, np.zeros(4), 1, batch_size=6, n_minibatches=924)
    draws = [theory.measure_constants(fed, np.zeros(4), 1, batch_size=6, n_minibatches=200, rng=s) for s in (1, 1, 2)]
    assert draws[0].upper == draws[1].upper != draws[2].upper
    assert draws[0].upper_squared == draws[1].upper_squared != draws[2].upper_squared
    unsaid = theory.measure_constants(fed, np.zeros(4), 1, batch_size=6)
    said = theory.measure_constants(fed, np.zeros(4), 1, batch_size=6, n_minibatches=20, rng=0)
    assert unsaid.upper == said.upper and unsaid.upper_squared == said.upper_squared
    for draw in draws:
        assert draw.upper == pytest.approx(exact.upper, rel=0.1)
        assert draw.upper_squared == pytest.approx(exact.upper_squared, rel=0.1)


def test_a_summed_loss_is_measured_in_its_own_unit():
    mean, total = squared(), squared(averaged=False)
    one, other = (theory.measure_constants(fed, np.ones(6), 1) for fed in (mean, total))
    np.testing.assert_allclose(other.lower, 5 * one.lower)
    np.testing.assert_allclose(other.upper, 5 * one.upper)
    for name in ("upper_squared", "gradient", "whole_gradient"):
        np.testing.assert_allclose(getattr(other, name), 25 * getattr(one, name))
    np.testing.assert_allclose(theory.theorem1(other, 2).mu, theory.theorem1(one, 2).mu)
    np.testing.assert_allclose(theory.theorem1(other, 2).nu, theory.theorem1(one, 2).nu)


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2, 4, 5])
def test_the_variance_of_means_and_sums_is_that_of_enumeration(batch_size, averaged):
    (client,) = squared(n_clients=1, averaged=averaged).clients
    x = np.random.default_rng(5).standard_normal(6)
    found = theory.minibatch_variance(client, x, batch_size)
    gradients = gradients_of_minibatches(client, x, batch_size)
    deviations = [np.sum((g - client.gradient(x)) ** 2) for g in gradients]
    assert found == pytest.approx(np.mean(deviations), rel=1e-12)
    np.testing.assert_allclose(gradients[0], client.gradient(x, np.arange(batch_size)))


def test_what_cannot_be_enumerated_is_not_known():
    fed = squared(m=20, n=21, n_clients=1)  # 4 tau is above n: one support; 2 tau: 293,930
    found = theory.measure_constants(fed, np.zeros(21), 6)
    assert np.isnan(found.upper_squared).all()
    theory.theorem1(found, 1)
    with pytest.raises(ValueError, match="upper_squared is not known; expected the mean square over minibatches"):
        theory.theorem1(found, 1, TheoremParameters(eta_1=1.1))


def test_clients_without_enough_rows_have_no_guarantee():
    fed = squared(m=3, n=6)
    bound = theory.theorem1(theory.measure_constants(fed, np.zeros(6), 1), 2)
    assert not bound.guarantees and bound.residual == np.inf


def prepared(features):
    return fgmp.Federation.from_arrays([features], [np.ones(5)]).clients[0]


FED, CLIENT = squared(), squared().clients[0]
STREAMED = fgmp.Federation.from_arrays([aslinearoperator(np.ones((5, 6)))], [np.ones(5)])


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: theory.minibatch_variance(CLIENT, np.zeros(6), 7),
            r"batch_size is 7; .* 1 to 5 \(the rows of the client\)",
        ),
        (lambda: theory.minibatch_variance(STREAMED.clients[0], np.zeros(6), 2), "client has streamed features"),
        (lambda: theory.heterogeneity(FED, np.zeros(5)), r"x_star has shape \(5,\); expected \(6,\)"),
        (lambda: theory.measure_constants(FED, np.zeros(5), 1), r"x_star has shape \(5,\); expected \(6,\)"),
        (lambda: theory.measure_constants(STREAMED, np.zeros(6), 1), "client 0 has streamed features"),
        (lambda: theory.measure_constants(labelled("logistic"), np.zeros(4), 1), r"has the loss LogisticLoss\("),
        (
            lambda: theory.measure_constants(squared(averaged=False), np.zeros(6), 1, batch_size=2),
            "minibatches do not have the mean f_i",
        ),
    ],
)
def test_what_cannot_be_measured_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_full_batch_has_no_variance_whatever_it_is_called():
    assert theory.minibatch_variance(CLIENT, np.zeros(6), None) == 0
    assert theory.minibatch_variance(CLIENT, np.zeros(6), np.int64(5)) == 0
    one_row = prepared(np.ones((5, 2)))
    assert theory.minibatch_variance(one_row, np.ones(2), 3) == pytest.approx(0)
    total = squared(averaged=False)
    theory.measure_constants(total, np.zeros(6), 1, batch_size=5)


OF = ClientConstants.of


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: OF([1.0, np.nan], 1.0), "lower holds 1 values that are not finite"),
        (lambda: OF([1.0, 1.0], [1.0, 1.0, 1.0]), r"lower has shape \(2,\); expected \(3,\), a number for each client"),
        (lambda: OF([1.0, 1.0], 1.0, gradient=[0.1]), r"gradient has shape \(1,\); expected \(2,\), a number for each"),
        (lambda: OF([1.0, 1.0], 1.0, weights=[1.0, -1.0]), "weights is -1 at least once; expected no negative number"),
        (lambda: OF([1.0, 1.0], 1.0, weights=[0, 0]), "weights are all 0; expected a positive one"),
        (lambda: OF([1.0, 1.0], 1.0, variance=[0.1, -0.2]), "variance is -0.2 at least once; expected no negative"),
        (lambda: OF([], [], gradient=[], variance=[]), r"lower has shape \(0,\)"),
    ],
)
def test_constants_that_are_none_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numbers_stand_for_all_clients():
    constants = OF(1, [1.0, 2.0], weights=np.array([1, 3], np.int8), gradient=np.float32(0.5), whole_gradient=1)
    np.testing.assert_array_equal(constants.lower, [1, 1])
    np.testing.assert_array_equal(constants.gradient, [0.5, 0.5])
    np.testing.assert_array_equal(constants.weights, [0.25, 0.75])
    assert constants.lower.dtype == float
    np.testing.assert_array_equal(OF(1.0, 1.0).whole_gradient, [0.0])
    assert np.isnan(OF(1.0, 1.0, gradient=0.1).whole_gradient).all()
    assert np.isnan(OF(1.0, 1.0).upper_squared).all()
    np.testing.assert_array_equal(OF(1.0, 2.0, upper_squared=3.0).upper_squared, [3.0])
    single = OF(np.float32(1), 1, upper_squared=np.float32(1), weights=np.ones(1, np.float32))
    assert all(getattr(single, name).dtype == float for name in ("lower", "upper_squared", "weights"))
