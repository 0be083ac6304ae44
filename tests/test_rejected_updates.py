"""Answers that nobody asked for: what is left out and counted, what is averaged as it comes, and who is struck.

Once for `simulate`, for every method and exchange; over Flower in flower/test_hostile.py.
"""

from dataclasses import replace

import malformed_updates
import numpy as np
import pytest
from cases import METHODS, noisy_regression, with_exchanges
from checkpoints import checksum
from malformed_updates import not_finite, of_entries, of_values, scaled_by

import fgmp
from fgmp import DropOut, Faulty
from fgmp.aggregation import Mean, Rejected
from fgmp.faults import Corrupted
from fgmp.rounds import Call, Streams
from fgmp.sparse_model import SparseModel

pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.usefixtures("backend"),
]

FED = noisy_regression()

SPOILED = {
    "missing": {"nothing": lambda x: None},
    "late": {"late": lambda x: Rejected("late")},
    "malformed": {
        "text": lambda x: "x",
        "other kind": lambda x: x.dense() if isinstance(x, SparseModel) else SparseModel.of(x),
        "objects": of_values(lambda v: v.astype(object)),
        "precision": of_values(lambda v: v.astype(np.float32)),
        "complex": of_values(lambda v: v.astype(complex)),
        "plain numbers": of_values(lambda v: v.tolist()),
        "one more": malformed_updates.wrong_shape,
        "matrix": of_values(lambda v: np.stack([v, v])),
    },
    "not_finite": {"nan": not_finite, "infinite": of_values(lambda v: v + np.inf)},
}
SPARSE = {
    "indices": {
        "negative": of_entries(lambda s, v, size: (s - 1000, v)),
        "out of range": malformed_updates.out_of_range,
        "repeated": malformed_updates.repeated_indices,
        "unordered": of_entries(lambda s, v, size: (s[::-1], v)),
    },
    "malformed": {
        "float indices": of_entries(lambda s, v, size: (s.astype(float), v)),
        "list of indices": of_entries(lambda s, v, size: (s.tolist(), v)),
        "short": of_entries(lambda s, v, size: (s[1:], v)),
        "another shape": lambda x: replace(x, shape=(60,)),
    },
    "too_many": {"too many": malformed_updates.too_many_entries},
}


class Hostile(Faulty):
    """A transport over which some clients answer exchange `index` of a round with something else."""

    def __init__(self, transport, index, spoil, whom=(2,)):
        super().__init__(transport)
        self.index = index
        self.spoil = spoil
        self.whom = whom

    def prepare(self, method):
        return Hostile(self.transport.prepare(method), self.index, self.spoil, self.whom)

    def run_clients(self, call, message, cohort):
        updates = list(super().run_clients(call, message, cohort))
        if call.exchange_index == self.index:
            for position, client in enumerate(cohort):
                if client in self.whom:
                    updates[position] = self.spoil(updates[position])
        return updates


def cases():
    """Every exchange of every method with each way to spoil an answer; of sparse models there are more."""
    for name, make in METHODS.items():
        method = make()
        state = method.start(FED.shape)
        for index, exchange in enumerate(method.exchanges()):
            form = exchange.update_spec(state)
            answer = exchange.client_update(
                FED.clients[0], exchange.message(state), np.random.default_rng(0)
            )
            for kinds in (SPOILED, SPARSE) if form.most else (SPOILED,):
                for reason, ways in kinds.items():
                    for how, spoil in ways.items():
                        yield pytest.param(method, index, spoil, reason, id=f"{name}-{index}-{how}")
            state = exchange.server_update(
                state, (answer.dense() if form.most else answer).reshape(form.shape)
            )


COMPILED = {"FedGradMP", "FedAvg", "FedHT", "FedIterHT", "FedMid", "FedDualAvg"}


@pytest.mark.parametrize("name", METHODS)
def test_the_backend_is_the_one_that_is_asked_for(name, backend, monkeypatch):
    """Also over a hostile transport: or what follows would see one backend twice."""
    by_reference = []
    update_of = Call.update_of
    monkeypatch.setattr(
        Call, "update_of", lambda call, *given: by_reference.append(1) or update_of(call, *given)
    )
    result = fgmp.simulate(METHODS[name](), Hostile(FED, 0, lambda x: x), 1, rng=0)
    is_compiled = backend == "compiled" and name in COMPILED
    assert result.backend == ("compiled" if is_compiled else "reference")
    assert (not by_reference) == is_compiled


@pytest.mark.parametrize(("method", "index", "spoil", "reason"), cases())
def test_a_spoiled_answer_never_reaches_the_average(method, index, spoil, reason):
    """The run is the one in which the client did not answer, and the result says so, by the reason."""
    spoiled = fgmp.simulate(method, Hostile(FED, index, spoil), 2, rng=0)
    silent = fgmp.simulate(method, Hostile(FED, index, lambda x: None), 2, rng=0)
    np.testing.assert_array_equal(spoiled.x, silent.x)
    np.testing.assert_array_equal(spoiled.history["clients"], [0, 5, 5])
    assert dict(spoiled.rejected) == {reason: 2}
    assert spoiled.history["rejected"].tolist() == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize("name", METHODS)
def test_who_stays_silent_is_not_there(name):
    """The run is the one without these clients."""
    result = fgmp.simulate(METHODS[name](), Faulty(FED, DropOut(clients=[1, 4])), 3, rng=0)
    alone = fgmp.simulate(METHODS[name](), FED.subset([0, 2, 3, 5]), 3, rng=0)
    np.testing.assert_allclose(result.x, alone.x, atol=1e-9)
    assert result.history["clients"].tolist() == alone.history["clients"].tolist() == [0, 4, 4, 4]
    assert result.rejected["missing"] == 2 * 3 * len(METHODS[name]().exchanges())


def test_a_client_that_diverges_is_left_out():
    """At the client, before a selection could hide it."""
    method = fgmp.FedGradMP(2, local_iterations=1, solver=fgmp.SGD(1e3, 400))
    result = fgmp.simulate(method, FED, 3, rng=0)
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0, 0])
    assert dict(result.rejected) == {"not_finite": 18}


def test_what_arrives_is_counted_among_the_bytes_and_what_does_not_is_not():
    faulty = Faulty(FED, DropOut(clients=[0, 1]), Corrupted(not_finite, clients=[2]))
    up = fgmp.simulate(METHODS["FedAvg"](), faulty, 1).history["bytes_up"][-1]
    assert up == 3 * 50 * 8


@pytest.mark.parametrize("name", METHODS)
def test_all_faults_at_once_reach_no_average(name):
    """Whatever comes, the model stays finite, what is counted adds up, and it happens twice alike."""
    names = "not_finite", "wrong_shape", "repeated_indices", "out_of_range", "too_many_entries"
    changes = [Corrupted(getattr(malformed_updates, name), probability=0.15) for name in names]
    faulty = Faulty(FED, DropOut(probability=0.3), *changes)
    result = fgmp.simulate(METHODS[name](), faulty, 12, cohort_size=5, rng=3)
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.history["objective"]).all()
    lost = np.diff(result.history["rejected"])
    answered = result.history["clients"][1:]
    assert (lost >= 5 - answered).all()
    assert (lost > 0).any()
    assert (answered > 0).any()
    assert all(result.rejected[reason] for reason in ("missing", "not_finite", "malformed"))
    assert checksum(fgmp.simulate(METHODS[name](), faulty, 12, cohort_size=5, rng=3)) == checksum(
        result
    )


def struck(faulty, number, keys, seed=0):
    call = Call(None, None, 0, number, Streams(seed))
    return [faulty._is_affected(place, call, np.array(keys)) for place in range(len(faulty.faults))]


def test_whom_a_fault_strikes_does_not_depend_on_who_else_is_there():
    faults = [DropOut(probability=0.3), Corrupted(scaled_by(3.0), probability=0.3)]
    many = Faulty(FED, *faults)
    few = Faulty(FED, *faults[:1])
    np.testing.assert_array_equal(struck(many, 3, range(6))[0][1:], struck(few, 3, range(1, 6))[0])
    turned = fgmp.Federation.from_clients(FED.clients[::-1], FED.weights[::-1], truth=FED.truth)
    runs = [
        fgmp.simulate(METHODS["FedGradMP"](), Faulty(fed, *faults), 4, 5, 1)
        for fed in (FED, turned)
    ]
    assert checksum(runs[0]) == checksum(runs[1])


def test_how_often_a_fault_strikes():
    """Shares of 5,000 draws against probabilities: four standard deviations are 0.026; and a share drawn once."""
    fed = fgmp.Federation.from_arrays(np.ones((50, 1, 1)), np.ones((50, 1)))
    faulty = Faulty(
        fed, DropOut(probability=0.3), Corrupted(not_finite, probability=0.5), DropOut(clients=0.3)
    )
    hits = np.array([struck(faulty, number, range(50)) for number in range(1, 101)])
    assert np.abs(hits.mean(axis=(0, 2)) - [0.3, 0.5, 0.3]).max() < 0.026
    others = np.corrcoef(hits[:, 0].T)[np.triu_indices(50, 1)]
    assert np.abs(others).max() < 0.5
    assert abs(others.mean()) < 0.02
    assert (hits[:, 2] == hits[0, 2]).all()
    assert hits[0, 2].sum() == 15
    assert not (hits[0, 2] == struck(faulty, 1, range(50), seed=8)[2]).all()


def test_an_exchange_that_nobody_answers_leaves_the_model():
    result = fgmp.simulate(
        fgmp.SharedSupportGradMP(3), Hostile(FED, 1, lambda x: None, range(6)), 2, rng=0
    )
    np.testing.assert_array_equal(result.x, np.zeros(50))
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0])
    np.testing.assert_array_equal(
        result.history["objective"], np.full(3, result.history["objective"][0])
    )
    weightless = fgmp.Federation.from_clients(FED.clients, [0, 0, 0, 0, 0, 1.0])
    silent = fgmp.simulate(
        METHODS["FedAvg"](), Faulty(weightless, DropOut(clients=[5])), 2, aggregator=Mean()
    )
    assert not silent.x.any()


AGGREGATORS = {
    "mean": (fgmp.Mean(), 1),
    "median": (fgmp.Median(), 1),
    "trimmed": (fgmp.TrimmedMean(0.2), 1),
    "secure": (fgmp.SecureSum(), 2),
    "noise": (fgmp.GaussianNoise(epsilon=1e4, clip=1.0, insecure_seed=0), 1),
}


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("name", METHODS)
def test_a_cohort_that_is_not_there_loses_its_round_and_no_more(name, aggregator):
    """All of it dropped out: any method, any aggregator; and rounds of which somebody is there still count."""
    chosen, cohort_size = AGGREGATORS[aggregator]
    if aggregator in ("median", "trimmed") and isinstance(
        METHODS[name](), fgmp.SharedSupportGradMP
    ):
        pytest.skip("refused: its answers are no models near one another")
    if aggregator == "secure" and isinstance(METHODS[name](), fgmp.SharedSupportGradMP):
        cohort_size = None  # sums of second derivatives are refused to cohorts
    nobody = Faulty(FED, DropOut())
    result = fgmp.simulate(METHODS[name](), nobody, 3, cohort_size, 0, aggregator=chosen)
    start = fgmp.simulate(METHODS[name](), FED, 0, cohort_size, 0, aggregator=chosen)
    np.testing.assert_array_equal(result.x, start.x)
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0, 0])
    if aggregator in ("mean", "median", "trimmed"):
        some = Faulty(FED, DropOut(probability=0.6))
        result = fgmp.simulate(METHODS[name](), some, 10, cohort_size, 5, aggregator=chosen)
        assert set(result.history["clients"][1:]) == {0, 1}
        assert np.isfinite(result.x).all()


@pytest.mark.parametrize("name", ["FedGradMP", "FedAvg", "SharedSupportGradMP"])
def test_what_code_of_the_user_raises_reaches_the_user(name):
    """A FloatingPointError too: only what this package raises of an answer becomes "not_finite"."""

    def raising(*given):
        raise FloatingPointError("mine")

    def metric(x):
        raise FloatingPointError("mine")

    method = with_exchanges(
        METHODS[name](), lambda index, exchange: exchange._replace(client_update=raising)
    )

    class Own(fgmp.SquaredLoss):
        def derivative(self, predictions, targets):
            raising()

    own = fgmp.Federation.from_arrays(
        [c.features for c in FED.clients], [c.targets for c in FED.clients], Own()
    )
    runs = [
        lambda: fgmp.simulate(method, FED, 2, rng=0),
        lambda: fgmp.simulate(METHODS[name](), own, 2, rng=0),
        lambda: fgmp.simulate(
            METHODS[name](), FED, 2, rng=0, history=fgmp.History(metrics={"own": metric})
        ),
        lambda: fgmp.simulate(METHODS[name](), FED, 2, rng=0, callbacks=raising),
        lambda: fgmp.simulate(METHODS[name](), Faulty(FED, Corrupted(raising)), 2, rng=0),
    ]
    for run in runs:
        with pytest.raises(FloatingPointError, match="mine"):
            run()
    with pytest.raises(FloatingPointError, match="mine"):
        fgmp.tune(lambda once: method, {"once": [1]}, FED, 2)


def test_a_solver_of_the_users_is_the_users():
    class Own(fgmp.GradientDescent):
        def minimise(self, problem, start, rng):
            raise FloatingPointError("mine")

    with pytest.raises(FloatingPointError, match="mine"):
        fgmp.simulate(fgmp.FedGradMP(3, solver=Own(steps=1)), FED, 2, rng=0)
