"""Answers that nobody asked for: what is left out and counted, what is averaged as it comes, and who is struck.

Once for `simulate`, for every method and exchange; over Flower in flower/test_hostile.py.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from garbage import lie, not_finite, out_of_range, repeated_indices, too_many_entries, wrong_shape
from one_run import bits

import fgmp
from fgmp import DropOut
from fgmp.methods.answers import REASONS
from fgmp.running.faults import Changed, Faults

pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.RisingObjectiveWarning"),
    pytest.mark.filterwarnings("ignore::fgmp.FewRowsWarning"),
]

FED = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
RATE = {"learning_rate": 0.05, "local_iterations": 2}
METHODS = {
    "FedGradMP": fgmp.FedGradMP(3),
    "FedAvg": fgmp.FedAvg(**RATE),
    "FedIterHT": fgmp.FedIterHT(sparsity=3, **RATE),
    "FedDualAvg": fgmp.FedDualAvg(l1_weight=0.01, **RATE),
    "FastFedDualAvg": fgmp.FastFedDualAvg(l1_weight=0.01, **RATE),
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
    "missing": {"nothing": lambda message: None},
    "malformed": {
        "list": lambda message: list(message.values()),
        "missing": lambda message: dict(list(message.items())[1:]),
        "extra": lambda message: message | {"more": np.zeros(3)},
        "one value": changed("values", lambda values: values[:1] if len(values) > 1 else np.ones(2)),
        "matrix": changed("values", lambda values: np.stack([values, values])),
        "text": changed("values", lambda values: values.astype(str)),
        "objects": changed("values", lambda values: values.astype(object)),
        "precision": changed("values", lambda values: values.astype(np.float32)),
        "complex": changed("values", lambda values: values.astype(complex)),
        "plain numbers": changed("values", lambda values: values.tolist()),
    },
    "not_finite": {
        "nan": changed("values", lambda values: values * np.nan),
        "infinite": changed("values", lambda values: values + np.inf),
    },
}
SPARSE = {
    "indices": {
        "negative": changed("support", lambda support: support - 1000),
        "out of range": changed("support", lambda support: support + 1000),
        "repeated": changed("support", lambda support: np.full_like(support, support[0])),
        "unordered": changed("support", lambda support: support[::-1]),
    },
    "malformed": {"float indices": changed("support", lambda support: support.astype(float))},
    "too_many": {
        "too many": lambda message: {
            key: np.arange(40, dtype=np.int32) if key == "support" else np.ones(40) for key in message
        },
    },
}


@dataclass(frozen=True)
class Hostile:
    """A method in which client 2, or everybody, answers exchange `index` with something else, or not at all."""

    method: object
    index: int
    spoil: object
    everybody: bool = False

    def __getattr__(self, name):
        return getattr(self.method, name)

    def exchanges(self):
        exchanges = list(self.method.exchanges())
        honest = exchanges[self.index]

        def answer(client, message, rng):
            truth = honest.answer(client, message, rng)
            return self.spoil(truth) if self.everybody or client.key == 2 else truth

        exchanges[self.index] = honest._replace(answer=answer)
        return exchanges


def cases():
    for name, method in METHODS.items():
        for index in range(len(method.exchanges())):
            for kinds in (SPOILED, SPARSE) if index == 0 and name not in DENSE else (SPOILED,):
                for reason, ways in kinds.items():
                    for how, spoil in ways.items():
                        yield pytest.param(method, index, spoil, reason, id=f"{name}-{index}-{how}")


def counts(history):
    return {reason: history[f"left_out_{reason}"].tolist() for reason in REASONS}


@pytest.mark.parametrize(("method", "index", "spoil", "reason"), cases())
def test_a_spoiled_answer_never_reaches_the_average(method, index, spoil, reason):
    """The run is the one in which the client stayed silent, and the history says so, once a round by the reason."""
    spoiled = fgmp.simulate(Hostile(method, index, spoil), FED, 2, rng=0, faults=[])
    silent = fgmp.simulate(Hostile(method, index, lambda message: {"nothing": np.array([np.nan])}), FED, 2, rng=0)
    np.testing.assert_array_equal(spoiled.x, silent.x)
    np.testing.assert_array_equal(spoiled.history["clients"], [0, 5, 5])
    assert counts(spoiled.history) == dict.fromkeys(REASONS, [0, 0, 0]) | {reason: [0, 1, 2]}


@pytest.mark.parametrize("name", METHODS)
def test_who_stays_silent_is_not_there_and_honest_answers_of_every_method_are_taken(name):
    """The run is the one without these clients."""
    rest = [0, 2, 3, 5]
    others = fgmp.Federation(tuple(FED.clients[i] for i in rest), FED.weights[rest], FED.truth)
    result = fgmp.simulate(METHODS[name], FED, 3, rng=0, faults=DropOut(clients=[1, 4]))
    alone = fgmp.simulate(METHODS[name], others, 3, rng=0)
    np.testing.assert_allclose(result.x, alone.x, atol=1e-9)
    assert result.history["clients"].tolist() == alone.history["clients"].tolist() == [0, 4, 4, 4]


def test_a_client_that_diverges_is_left_out():
    method = fgmp.FedGradMP(2, local_iterations=1, solver=fgmp.SGD(400, learning_rate=1e3))
    result = fgmp.simulate(method, FED, 3, rng=0)
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0, 0])
    history = fgmp.simulate(method, FED, 2, rng=0, faults=()).history
    assert history["left_out_not_finite"].tolist() == [0, 6, 12]
    images = fgmp.digits_by_writer(n_train=4, n_test=1, rng=0).train
    method = fgmp.FedGradMP(2, local_iterations=1, solver=fgmp.SGD(400, learning_rate=1e39))
    np.testing.assert_array_equal(fgmp.simulate(method, images, 2, rng=0).history["clients"], [0, 0, 0])


KINDS = {
    "missing": DropOut,
    "not_finite": lambda **whom: Changed(not_finite, **whom),
    "malformed": lambda **whom: Changed(wrong_shape, **whom),
}


def test_what_travels_is_counted_among_the_bytes_and_what_does_not_is_not():
    up = {
        reason: fgmp.simulate(METHODS["FedAvg"], FED, 1, faults=KINDS[reason](clients=[0, 1])).history["bytes_up"][-1]
        for reason in KINDS
    }
    whole = 40 * 8
    assert up == {
        "missing": 4 * whole,
        "not_finite": 6 * whole,
        "malformed": 4 * whole + 2 * (whole + 8),
    }


def test_who_drops_out_does_not_compute():
    asked = []

    @dataclass(frozen=True)
    class Spy(fgmp.FedGradMP):
        def refine(self, client, message, rng):
            asked.append(client.key)
            return super().refine(client, message, rng)

    fgmp.simulate(Spy(3), FED, 2, faults=[DropOut(clients=[0, 3])])
    assert asked == [1, 2, 4, 5] * 2


@pytest.mark.parametrize("name", METHODS)
def test_all_faults_at_once_reach_no_average(name):
    """Whatever comes, the model stays finite, what is counted adds up, and it does not matter who computes."""
    changes = (not_finite, wrong_shape, repeated_indices, out_of_range, too_many_entries)
    faults = [DropOut(probability=0.3), *(Changed(change, probability=0.15) for change in changes)]
    result = fgmp.simulate(METHODS[name], FED, 12, cohort_size=5, rng=3, faults=faults)
    assert np.isfinite(result.x).all() and np.isfinite(result.history["objective"]).all()
    left_out = np.array(list(counts(result.history).values()))
    assert (np.diff(left_out) >= 0).all() and (left_out[[0, 2, 3], -1] > 0).all()
    lost = np.diff(left_out.sum(axis=0))
    answered = result.history["clients"][1:]
    assert (lost >= 5 - answered).all() and (lost > 0).any() and (answered > 0).any()
    again = fgmp.simulate(METHODS[name], FED, 12, cohort_size=5, rng=3, faults=tuple(faults))
    assert bits(again) == bits(result)


def test_faults_do_not_depend_on_the_order_nor_on_who_else_is_there():
    faults = [DropOut(probability=0.3), Changed(lie(3.0), probability=0.3)]
    alone = fgmp.simulate(METHODS["FedGradMP"], FED, 4, cohort_size=5, rng=1, faults=faults)
    turned = fgmp.Federation(FED.clients[::-1], FED.weights[::-1], FED.truth)
    assert bits(alone) == bits(fgmp.simulate(METHODS["FedGradMP"], turned, 4, 5, 1, faults=faults))
    many, few = Faults(faults, 1, range(100)), Faults(faults[:1], 1, range(50))
    assert [many.of(3, key).absent for key in range(50)] == [few.of(3, key).absent for key in range(50)]


def test_no_faults_change_nothing_and_count_none():
    plain = fgmp.simulate(METHODS["FedGradMP"], FED, 3, rng=0)
    watched = fgmp.simulate(METHODS["FedGradMP"], FED, 3, rng=0, faults=[])
    np.testing.assert_array_equal(watched.x, plain.x)
    assert not any(name.startswith("left_out") for name in plain.history)
    assert set(watched.history) - set(plain.history) == {f"left_out_{reason}" for reason in REASONS}
    assert all(watched.history[f"left_out_{reason}"].dtype == np.int64 for reason in REASONS)


def test_how_often_a_fault_strikes():
    """Shares of 5,000 draws against probabilities: four standard deviations are 0.026."""
    plan = Faults([DropOut(probability=0.3), Changed(not_finite, probability=0.5)], 0, range(10))
    struck = [plan.of(number, key) for number in range(500) for key in range(10)]
    assert abs(np.mean([one.absent for one in struck]) - 0.3) < 0.026
    assert abs(np.mean([len(one.changes) for one in struck]) - 0.5) < 0.026
    absent = np.array([one.absent for one in struck]).reshape(500, 10)
    others = np.corrcoef(absent.T)[np.triu_indices(10, 1)]
    assert np.abs(others).max() < 4 / np.sqrt(500) and abs(
        np.corrcoef(absent[1:, 0], absent[:-1, 0])[0, 1]
    ) < 4 / np.sqrt(500)


def test_a_share_of_the_clients_is_drawn_once():
    plan = Faults([DropOut(clients=0.3)], 7, range(50))
    struck = [[key for key in range(50) if plan.of(number, key).absent] for number in (1, 2, 99)]
    assert struck[0] == struck[1] == struck[2] and len(struck[0]) == 15
    assert struck[0] != sorted(Faults([DropOut(clients=0.3)], 8, range(50)).may_strike[0])


@pytest.mark.parametrize("factor", [-1.0, 7.0])
def test_a_lie_is_averaged_as_it_comes(factor):
    """One round of FedAvg by hand: the server adds up what the clients say, with their weights."""
    uneven = fgmp.Federation(FED.clients, np.arange(1.0, 7), FED.truth)
    method = fgmp.FedAvg(learning_rate=0.05)
    result = fgmp.simulate(method, uneven, 1, faults=Changed(lie(factor), clients=[5, 0]))
    ends = [-0.05 * client.gradient(np.zeros(40)) for client in uneven.clients]
    says = [factor if client.key in (0, 5) else 1.0 for client in uneven.clients]
    np.testing.assert_allclose(result.x, np.einsum("i,i,ij->j", uneven.weights, says, ends), atol=1e-14)
    assert result.history["clients"][-1] == 6


def test_a_run_with_faults_goes_on_from_its_checkpoint(tmp_path):
    path, faults = tmp_path / "run.fgmp", [DropOut(probability=0.3), Changed(lie(2.0), clients=0.3)]
    whole = fgmp.simulate(METHODS["SharedSupportGradMP"], FED, 6, 4, 0, faults=faults)
    fgmp.simulate(METHODS["SharedSupportGradMP"], FED, 3, 4, 0, faults=faults, checkpoint=path)
    resumed = fgmp.simulate(METHODS["SharedSupportGradMP"], FED, 6, 4, 0, faults=faults, checkpoint=path)
    assert bits(resumed) == bits(whole)
    with pytest.raises(ValueError, match="faults is .*DropOut.*, not .*DropOut"):
        other = [DropOut(probability=0.3), Changed(lie(3.0), clients=0.3)]
        fgmp.simulate(METHODS["SharedSupportGradMP"], FED, 6, 4, 0, faults=other, checkpoint=path)


SHARED = {"solver": fgmp.LocalSteps(fgmp.SGD(1))}


@pytest.mark.parametrize(
    "method, most",
    [
        (fgmp.FedGradMP(2), 2),
        (fgmp.FedGradMP(2, selection=fgmp.Overall()), 2),
        (fgmp.SharedSupportGradMP(2, fgmp.LargestEntries(), **SHARED), 8),
        (fgmp.SharedSupportGradMP(2, fgmp.LargestEntries(3), **SHARED), 3),
        (fgmp.SharedSupportGradMP(2, fgmp.LargestEntries(3), selection=fgmp.Overall(), **SHARED), 3),
    ],
)
def test_a_client_may_answer_with_so_many_entries_and_no_more(method, most):
    """Of each of the three outputs, or of all where the method says so."""
    rng = np.random.default_rng(0)
    As, ys = rng.standard_normal((2, 15, 12)), rng.integers(0, 3, (2, 15))
    classes = fgmp.Federation.from_arrays(As, ys, fgmp.SoftmaxLoss(3))
    exchange, state = method.exchanges()[0], method.start(classes)

    def message(count, per_output):
        support = np.arange(3 * count) if per_output else 3 * np.arange(count)
        return {"support": support.astype(np.int32), "values": np.ones(len(support))}

    exchange.check(state, message(most, per_output=not isinstance(method.selection, fgmp.Overall)))
    with pytest.raises(ValueError, match="entries that count; expected at most"):
        exchange.check(state, message(most + 1, per_output=False))
    if isinstance(method.selection, fgmp.Overall):
        with pytest.raises(ValueError, match="entries that count; expected at most"):
            exchange.check(state, message(most, per_output=True))


def test_a_round_that_ends_after_its_first_exchange_leaves_the_model():
    method = Hostile(fgmp.SharedSupportGradMP(3), 1, lambda message: None, everybody=True)
    result = fgmp.simulate(method, FED, 2, rng=0)
    np.testing.assert_array_equal(result.x, np.zeros(40))
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0])
    start = fgmp.simulate(method, FED, 0, rng=0).history["objective"]
    assert start == pytest.approx(FED.objective(np.zeros(40)), rel=1e-14)
    np.testing.assert_array_equal(result.history["objective"], np.full(3, start))
