"""What a server does not take from a client, and what a run does not let others change."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import fgmp

FED = fgmp.make_sparse_regression(5, 30, 40, 3, 0.2, noise_variance=0.01, rng=0)
METHODS = {
    "FedGradMP": fgmp.FedGradMP(3),
    "FedAvg": fgmp.FedAvg(learning_rate=0.01),
    "FedIterHT": fgmp.FedIterHT(sparsity=3, learning_rate=0.01),
    "FedDualAvg": fgmp.FedDualAvg(learning_rate=0.01, l1_weight=0.01),
    "FastFedDualAvg": fgmp.FastFedDualAvg(learning_rate=0.01, l1_weight=0.01),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(3, fgmp.LargestEntries()),
    "Gradients": fgmp.SharedSupportGradMP(3),
    "Sketches": fgmp.SharedSupportGradMP(3, fgmp.CountSketch(3, 6)),
    "ConjugateGradients": fgmp.SharedSupportGradMP(3, fgmp.LargestEntries(), fgmp.PooledConjugateGradient(3)),
    "NewtonSteps": fgmp.SharedSupportGradMP(3, fgmp.LargestEntries(), fgmp.PooledNewton(2)),
    "LocalSteps": fgmp.SharedSupportGradMP(3, fgmp.LargestEntries(), fgmp.LocalSteps(fgmp.SGD(2))),
}
DENSE = ("FedAvg", "FedDualAvg", "FastFedDualAvg", "FedIterHT", "Gradients", "Sketches")


def changed(name, change):
    """A message with one of its arrays changed: the largest whose name ends in `name`, or of all."""

    def spoil(message):
        named = [key for key in message if key.endswith(name) and message[key].size] or list(message)
        key = max(named, key=lambda key: message[key].size)
        return message | {key: change(message[key])}

    return spoil


SPOILED = {
    "nothing": lambda message: None,
    "list": lambda message: list(message.values()),
    "missing": lambda message: dict(list(message.items())[1:]),
    "extra": lambda message: message | {"more": np.zeros(3)},
    "one value": changed("values", lambda values: values[:1] if len(values) > 1 else np.ones(2)),
    "matrix": changed("values", lambda values: np.stack([values, values])),
    "text": changed("values", lambda values: values.astype(str)),
    "objects": changed("values", lambda values: values.astype(object)),
    "precision": changed("values", lambda values: values.astype(np.float32)),
    "complex": changed("values", lambda values: values.astype(complex)),
    "nan": changed("values", lambda values: values * np.nan),
    "infinite": changed("values", lambda values: values + np.inf),
    "plain numbers": changed("values", lambda values: values.tolist()),
}
SPARSE = {
    "negative": changed("support", lambda support: support - 1000),
    "out of range": changed("support", lambda support: support + 1000),
    "repeated": changed("support", lambda support: np.full_like(support, support[0])),
    "unordered": changed("support", lambda support: support[::-1]),
    "float indices": changed("support", lambda support: support.astype(float)),
    "too many": lambda message: {
        key: np.arange(40, dtype=np.int32) if key == "support" else np.ones(40) for key in message
    },
}


@dataclass(frozen=True)
class Hostile:
    """A method in which client 2 answers exchange `index` with something else, or not at all."""

    method: object
    index: int
    spoil: object

    def __getattr__(self, name):
        return getattr(self.method, name)

    def exchanges(self):
        exchanges = list(self.method.exchanges())
        honest = exchanges[self.index]

        def answer(client, message, rng):
            truth = honest.answer(client, message, rng)
            return self.spoil(truth) if client.key == 2 else truth

        exchanges[self.index] = honest._replace(answer=answer)
        return exchanges


def cases():
    for name, method in METHODS.items():
        for index in range(len(method.exchanges())):
            for how in SPOILED:
                yield pytest.param(method, index, SPOILED[how], id=f"{name}-{index}-{how}")
            if index == 0 and name not in DENSE:
                for how in SPARSE:
                    yield pytest.param(method, index, SPARSE[how], id=f"{name}-{index}-{how}")


@pytest.mark.parametrize(("method", "index", "spoil"), cases())
def test_a_spoiled_answer_never_reaches_the_average(method, index, spoil):
    """The run is the one in which the client stayed silent, and the history says so."""
    spoiled = fgmp.simulate(Hostile(method, index, spoil), FED, 2, rng=0)
    silent = fgmp.simulate(Hostile(method, index, lambda message: {"nothing": np.array([np.nan])}), FED, 2, rng=0)
    np.testing.assert_array_equal(spoiled.x, silent.x)
    np.testing.assert_array_equal(spoiled.history["clients"], [0, 4, 4])


def test_the_server_takes_honest_answers_of_every_method():
    for method in METHODS.values():
        assert (fgmp.simulate(method, FED, 3, rng=0).history["clients"][1:] == 5).all()


def test_clients_that_answer_some_exchanges_only_are_not_counted():
    method = Hostile(METHODS["SharedSupportGradMP"], 0, SPOILED["nan"])
    np.testing.assert_array_equal(fgmp.simulate(method, FED, 1, rng=0).history["clients"], [0, 4])


def test_a_client_that_diverges_is_left_out():
    method = fgmp.FedGradMP(2, local_iterations=1, solver=fgmp.SGD(400, learning_rate=1e3))
    result = fgmp.simulate(method, FED, 3, rng=0)
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0, 0])
    images = fgmp.digits_by_writer(n_train=4, n_test=1, rng=0).train
    method = fgmp.FedGradMP(2, local_iterations=1, solver=fgmp.SGD(400, learning_rate=1e39))
    np.testing.assert_array_equal(fgmp.simulate(method, images, 2, rng=0).history["clients"], [0, 0, 0])


def test_a_metric_that_writes_changes_nothing():
    def greedy(x):
        x[:] = 7
        return 1.0

    for method in (METHODS["FedAvg"], METHODS["FedGradMP"]):
        result = fgmp.simulate(method, FED, 3, rng=0, metrics={"greedy": greedy})
        plain = fgmp.simulate(method, FED, 3, rng=0)
        np.testing.assert_array_equal(result.x, plain.x)
        np.testing.assert_array_equal(result.history["objective"], plain.history["objective"])


def test_the_parts_of_a_result_are_their_own():
    for method in (METHODS["FedAvg"], METHODS["FedGradMP"]):
        result = fgmp.simulate(method, FED, 2, rng=0)
        assert not np.shares_memory(result.x, result.coefficients)
        before = result.coefficients.copy()
        result.x[:] = 0
        result.history["objective"][:] = 0
        np.testing.assert_array_equal(result.coefficients, before)
        assert not np.shares_memory(result.coefficients, method.coefficients(result.state))


def test_a_callback_cannot_rewrite_the_history():
    def forge(history):
        history["objective"][-1] = 0
        return False

    with pytest.raises(ValueError, match="read-only"):
        fgmp.simulate(METHODS["FedGradMP"], FED, 2, rng=0, callback=forge)


def test_the_history_costs_a_callback_the_same_after_many_rounds():
    """It gets views of the same columns: nothing is built anew from all rows so far."""
    seen = []
    method, many = METHODS["FedAvg"], fgmp.Federation(FED.clients[:1], np.ones(1))
    result = fgmp.simulate(method, many, 300, rng=0, callback=lambda history: bool(seen.append(history)))
    assert [len(history["round"]) for history in seen] == list(range(2, 302))
    same = [np.shares_memory(a["objective"], b["objective"]) for a, b in zip(seen, seen[1:], strict=False)]
    assert same.count(False) <= 4  # columns grow by doubling
    for history in (seen[10], seen[200]):
        np.testing.assert_array_equal(history["objective"], result.history["objective"][: len(history["objective"])])


def test_the_objective_on_a_sample_of_clients():
    asked = []

    @dataclass(frozen=True)
    class Counted(fgmp.SquaredLoss):
        def values(self, predictions, targets):
            asked.append(len(targets))
            return super().values(predictions, targets)

    As = [client.features for client in FED.clients]
    ys = [client.targets for client in FED.clients]
    federation = fgmp.Federation.from_arrays(As, ys, Counted(), weights=[1, 2, 3, 4, 5])
    result = fgmp.simulate(METHODS["FedGradMP"], federation, 3, rng=0, objective_on=[1, 3])
    assert len(asked) == 2 * 4
    np.testing.assert_array_equal(result.objective_on, [1, 3])
    parts = [federation.clients[i].objective(result.x) for i in (1, 3)]
    assert result.history["objective"][-1] == pytest.approx((2 * parts[0] + 4 * parts[1]) / 6)
    drawn = fgmp.simulate(METHODS["FedGradMP"], federation, 1, rng=0, objective_on=2)
    again = fgmp.simulate(METHODS["FedGradMP"], federation, 2, rng=0, objective_on=2)
    np.testing.assert_array_equal(drawn.objective_on, again.objective_on)
    assert len(drawn.objective_on) == 2
    everybody = fgmp.simulate(METHODS["FedGradMP"], federation, 3, rng=0)
    assert everybody.objective_on is None
    np.testing.assert_array_equal(everybody.x, result.x)
    for wrong in (0, 6, [7], [-1]):
        with pytest.raises(ValueError, match="objective_on is"):
            fgmp.simulate(METHODS["FedGradMP"], federation, 1, objective_on=wrong)
    unweighted = replace(federation, weights=np.array([0, 1, 1, 1, 1.0]))
    with pytest.raises(ValueError, match="objective_on names 1 clients of weight 0"):
        fgmp.simulate(METHODS["FedGradMP"], unweighted, 1, objective_on=[0])
