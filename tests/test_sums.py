"""Additive exchanges: the sum of the answers does what the answers do."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgmp
from fgmp.methods.contract import Reply
from fgmp.methods.kernels import answer_of

RATE = {"learning_rate": 0.05, "local_iterations": 2}
ON_SUPPORT = [
    fgmp.NormalEquations(),
    fgmp.PooledConjugateGradient(2),
    fgmp.PooledNewton(2, ridge=0.01),
    fgmp.LocalSteps(fgmp.GradientDescent(2)),
]
METHODS = [
    *(fgmp.SharedSupportGradMP(2, solver=solver) for solver in ON_SUPPORT),
    fgmp.SharedSupportGradMP(2, fgmp.CountSketch(2, 4)),
    fgmp.FedGradMP(2),
    fgmp.FedAvg(server_learning_rate=0.7, **RATE),
    fgmp.FedHT(sparsity=2, **RATE),
    fgmp.FedIterHT(sparsity=2, **RATE),
    fgmp.FedMid(l1_weight=0.01, **RATE),
    fgmp.FedDualAvg(l1_weight=0.01, **RATE),
    fgmp.FastFedDualAvg(l1_weight=0.01, **RATE),
]


def laid_out_sum(exchange, state, replies):
    laid = [exchange.sum.laid_out(state, reply.message) for reply in replies]
    shapes = {tuple((name, array.shape, array.dtype) for name, array in one.items()) for one in laid}
    assert len(shapes) == 1, "answers are laid out alike"
    weights = [reply.weight for reply in replies]
    return {name: np.tensordot(weights, [one[name] for one in laid], 1) for name in laid[0]}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from(METHODS), st.sampled_from(["squared", "softmax"]), st.booleans())
def test_the_sum_does_what_the_answers_do(seed, method, loss, dictionary):
    """Handed over as one reply of weight one, in the shape of an answer or laid out, exchange after exchange."""
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((12, 9)) for _ in range(4)]
    ys = [rng.standard_normal(12) if loss == "squared" else rng.integers(0, 3, 12) for _ in As]
    federation = fgmp.Federation.from_arrays(
        As, ys, fgmp.SoftmaxLoss(3) if loss == "softmax" else loss, rng.random(4) + 0.1
    )
    if loss == "softmax" and isinstance(method, fgmp.SharedSupportGradMP) and method.solver in ON_SUPPORT[:2]:
        return
    clients, state = [method.prepare(client) for client in federation.clients], method.start(federation)
    for _ in range(2):
        for index, exchange in enumerate(method.exchanges()):
            message = exchange.broadcast(state)
            answers = [answer_of(exchange, c)(c, message, np.random.default_rng([seed, index, c.key])) for c in clients]
            replies = [Reply(float(p), answer) for p, answer in zip(federation.weights, answers, strict=True)]
            one_by_one = exchange.combine(state, replies)
            summed = exchange.combine(state, [Reply(1.0, exchange.sum.of(state, replies))])
            laid_out = exchange.combine(state, [Reply(1.0, laid_out_sum(exchange, state, replies))])
            np.testing.assert_array_equal(method.coefficients(summed), method.coefficients(one_by_one))
            np.testing.assert_allclose(method.coefficients(laid_out), method.coefficients(one_by_one), atol=1e-8)
            centre = exchange.sum.centre(state, exchange.sum.laid_out(state, answers[0]))
            assert {n: a.shape for n, a in centre.items()} == {
                n: a.shape for n, a in exchange.sum.laid_out(state, answers[0]).items()
            }
            state = summed


@dataclass(frozen=True)
class Counted:
    """A method that keeps how many replies its server was handed."""

    method: object
    seen: list

    def __getattr__(self, name):
        return getattr(self.method, name)

    def exchanges(self):
        def noted(exchange):
            def combine(state, replies):
                self.seen.append([reply.weight for reply in replies])
                return exchange.combine(state, replies)

            return exchange._replace(combine=combine)

        return [noted(exchange) for exchange in self.method.exchanges()]


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_server_is_handed_the_sum_and_nothing_else(method):
    federation, seen = fgmp.make_sparse_regression(5, 12, 20, 2, rng=0), []
    fgmp.simulate(Counted(method, seen), federation, 2, 3, rng=0)
    assert seen == [[1.0]] * (2 * len(method.exchanges()))


@pytest.mark.parametrize(
    "method", [fgmp.FedGradMP(2, combination=fgmp.Median()), fgmp.FedAvg(combination=fgmp.TrimmedMean(0.2), **RATE)]
)
def test_a_median_is_no_sum(method):
    federation, seen = fgmp.make_sparse_regression(5, 12, 20, 2, rng=0), []
    assert method.exchanges()[0].sum is None
    fgmp.simulate(Counted(method, seen), federation, 1, rng=0)
    assert [len(weights) for weights in seen] == [5]


@dataclass(frozen=True, kw_only=True)
class Own(fgmp.FedAvg):
    """A server's step of a user's own, which looks at single answers."""

    def combine(self, state, replies):
        return max((reply.message["dense"] for reply in replies), key=np.linalg.norm)


def test_a_step_of_ones_own_is_no_sum_unless_it_says_so():
    federation = fgmp.make_sparse_regression(5, 12, 20, 2, rng=0)
    ends = [fgmp.simulate(fgmp.FedAvg(**RATE), fgmp.Federation((c,), [1.0]), 1, rng=0).x for c in federation.clients]
    found = fgmp.simulate(Own(**RATE), federation, 1, rng=0).x
    np.testing.assert_allclose(found, max(ends, key=np.linalg.norm))
