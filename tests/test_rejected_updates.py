"""Updates that are rejected: malformed, not finite, missing or late; and faults that cause them.

Every method and every exchange is tried in memory; tests/flower tries them over Flower.
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
from fgmp.aggregation import Mean
from fgmp.method import Call, Streams
from fgmp.run.faults import Corrupted
from fgmp.sparse_model import SparseModel, dense
from fgmp.updates import Rejected

pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.usefixtures("backend"),
]

FED = noisy_regression()

# By the reason of the rejection: what a client sends instead of an array or a sparse model.
MALFORMED = {
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
# More of them for sparse models.
MALFORMED_SPARSE = {
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
    """A transport on which some clients send something else in one exchange of every round."""

    def __init__(self, transport, exchange_index, change, client_indices=(2,)):
        super().__init__(transport)
        self.exchange_index = exchange_index
        self.change = change
        self.client_indices = client_indices

    def for_method(self, method):
        """Return the same around the prepared transport."""
        inner = self.transport.for_method(method)
        return Hostile(inner, self.exchange_index, self.change, self.client_indices)

    def run_clients(self, call, message, cohort):
        """Return the updates, some of them changed."""
        updates = list(super().run_clients(call, message, cohort))
        if call.exchange_index == self.exchange_index:
            for position, client_index in enumerate(cohort):
                if client_index in self.client_indices:
                    updates[position] = self.change(updates[position])
        return updates


def malformed_cases():
    """Yield every exchange of every method with each way to send a malformed update."""
    for name, make in METHODS.items():
        method = make()
        state = method.start(FED.info)
        for index, exchange in enumerate(method.exchanges()):
            update_spec = exchange.update_spec(state)
            tables = (MALFORMED, MALFORMED_SPARSE) if update_spec.max_nonzeros else (MALFORMED,)
            for reason, changes in (item for table in tables for item in table.items()):
                for how, change in changes.items():
                    case = (method, index, change, reason)
                    yield pytest.param(*case, id=f"{name}-{index}-{how}")
            message = exchange.message(state)
            update = exchange.client_update(FED.clients[0], message, np.random.default_rng(0))
            state = exchange.server_update(state, dense(update).reshape(update_spec.shape))


COMPILED = {"FedGradMP", "FedAvg", "FedHT", "FedIterHT", "FedMid", "FedDualAvg"}


@pytest.mark.parametrize("name", METHODS)
def test_run_over_hostile_transport_uses_the_chosen_backend(name, backend, monkeypatch):
    """Or the tests that follow would see one backend twice."""
    reference_updates = []
    update_of = Call.update_of
    monkeypatch.setattr(
        Call,
        "update_of",
        lambda call, *given: reference_updates.append(1) or update_of(call, *given),
    )
    result = fgmp.simulate(METHODS[name](), Hostile(FED, 0, lambda x: x), 1, rng=0)
    is_compiled = backend == "compiled" and name in COMPILED
    assert result.backend == ("compiled" if is_compiled else "reference")
    assert (not reference_updates) == is_compiled


@pytest.mark.parametrize(("method", "index", "change", "reason"), malformed_cases())
def test_malformed_update_is_rejected_and_counted_by_its_reason(method, index, change, reason):
    """The run is the one in which the client sent nothing."""
    malformed = fgmp.simulate(method, Hostile(FED, index, change), 2, rng=0)
    missing = fgmp.simulate(method, Hostile(FED, index, lambda x: None), 2, rng=0)
    np.testing.assert_array_equal(malformed.x, missing.x)
    np.testing.assert_array_equal(malformed.history["clients"], [0, 5, 5])
    np.testing.assert_array_equal(malformed.history["rejected"], [0, 1, 2])
    assert dict(malformed.rejected) == {reason: 2}


@pytest.mark.parametrize("name", METHODS)
def test_run_with_dropped_clients_is_the_run_without_them(name):
    """The model and the history are those of the other clients."""
    result = fgmp.simulate(METHODS[name](), Faulty(FED, DropOut(clients=[1, 4])), 3, rng=0)
    alone = fgmp.simulate(METHODS[name](), FED.subset([0, 2, 3, 5]), 3, rng=0)
    np.testing.assert_allclose(result.x, alone.x, atol=1e-9)
    assert result.history["clients"].tolist() == alone.history["clients"].tolist() == [0, 4, 4, 4]
    assert result.rejected["missing"] == 2 * 3 * len(METHODS[name]().exchanges())


def test_client_that_diverges_is_rejected():
    """It is noticed at the client, before a selection could hide it."""
    method = fgmp.FedGradMP(2, local_iterations=1, solver=fgmp.SGD(1e3, 400))
    result = fgmp.simulate(method, FED, 3, rng=0)
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0, 0])
    assert dict(result.rejected) == {"not_finite": 18}


def test_bytes_are_those_of_the_updates_that_arrive():
    """A rejected update is counted, and a missing one is not."""
    faulty = Faulty(FED, DropOut(clients=[0, 1]), Corrupted(not_finite, clients=[2]))
    up = fgmp.simulate(METHODS["FedAvg"](), faulty, 1).history["bytes_up"][-1]
    assert up == 3 * 50 * 8


@pytest.mark.parametrize("name", METHODS)
def test_run_with_all_faults_at_once_stays_finite(name):
    """Whatever arrives, the counts add up, and the run is the same twice."""
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


def affected_clients(faulty, number, client_ids, seed=0):
    """Return, for each fault, which of some clients it affects in a round."""
    call = Call(None, None, 0, number, Streams(seed))
    client_ids = np.array(client_ids)
    return [faulty._is_affected(index, call, client_ids) for index in range(len(faulty.faults))]


FAULTS = [DropOut(probability=0.3), Corrupted(scaled_by(3.0), probability=0.3)]


def test_fault_affects_a_client_whoever_else_takes_part():
    """Neither other clients nor faults that follow change whom the first fault affects."""
    many = affected_clients(Faulty(FED, *FAULTS), 3, range(6))
    few = affected_clients(Faulty(FED, *FAULTS[:1]), 3, range(1, 6))
    np.testing.assert_array_equal(many[0][1:], few[0])


def test_run_with_faults_does_not_depend_on_order_of_clients():
    """The same clients in reverse order give the same bits."""
    reverse = fgmp.Federation.from_clients(FED.clients[::-1], FED.weights[::-1], truth=FED.truth)
    method = METHODS["FedGradMP"]()
    one = fgmp.simulate(method, Faulty(FED, *FAULTS), 4, 5, 1)
    other = fgmp.simulate(method, Faulty(reverse, *FAULTS), 4, 5, 1)
    assert checksum(one) == checksum(other)


@pytest.fixture(scope="module")
def affected():
    """Which of 50 clients three faults affect in 100 rounds, (rounds, faults, clients)."""
    faulty = many_clients_with_faults()
    return np.array([affected_clients(faulty, number, range(50)) for number in range(1, 101)])


def many_clients_with_faults():
    """Return fifty clients with two random faults, and one that affects the same 15 for ever."""
    federation = fgmp.Federation.from_arrays(np.ones((50, 1, 1)), np.ones((50, 1)))
    faults = [DropOut(probability=0.3), Corrupted(not_finite, probability=0.5)]
    return Faulty(federation, *faults, DropOut(clients=0.3))


def test_faults_affect_clients_with_their_probabilities(affected):
    """Shares of 5,000 draws are near them: 0.026 is four standard deviations of a share of 0.3."""
    assert np.abs(affected.mean(axis=(0, 2)) - [0.3, 0.5, 0.3]).max() < 0.026


def test_faults_affect_clients_independently(affected):
    """No two of 50 clients drop out together more often than by chance."""
    correlations = np.corrcoef(affected[:, 0].T)[np.triu_indices(50, 1)]
    assert np.abs(correlations).max() < 0.5
    assert abs(correlations.mean()) < 0.02


def test_share_of_clients_is_drawn_once_for_a_run(affected):
    """The same clients are eligible in every round, and others with another seed."""
    eligible = affected[:, 2]
    assert (eligible == eligible[0]).all()
    assert eligible[0].sum() == 15
    others = affected_clients(many_clients_with_faults(), 1, range(50), seed=8)[2]
    assert not (eligible[0] == others).all()


def test_exchange_without_updates_leaves_the_model():
    """A round counts as a whole: the first exchange alone changes nothing."""
    nobody = Hostile(FED, 1, lambda x: None, range(6))
    result = fgmp.simulate(fgmp.SharedSupportGradMP(3), nobody, 2, rng=0)
    np.testing.assert_array_equal(result.x, np.zeros(50))
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0])
    objective = result.history["objective"]
    np.testing.assert_array_equal(objective, np.full(3, objective[0]))


def test_round_with_weightless_clients_alone_leaves_the_model():
    """If the only client with a weight drops out, there is no mean."""
    weightless = fgmp.Federation.from_clients(FED.clients, [0, 0, 0, 0, 0, 1.0])
    silent = Faulty(weightless, DropOut(clients=[5]))
    result = fgmp.simulate(METHODS["FedAvg"](), silent, 2, aggregator=Mean())
    assert not result.x.any()


AGGREGATORS = {
    "mean": (fgmp.Mean(), 1),
    "median": (fgmp.Median(), 1),
    "trimmed": (fgmp.TrimmedMean(0.2), 1),
    "secure": (fgmp.SecureSum(), 2),
    "noise": (fgmp.GaussianNoise(epsilon=1e4, clip=1.0, insecure_seed=0), 1),
}


def cohort_size_for(method, aggregator):
    """Return a small cohort size that an aggregator accepts with a method, or skip the test."""
    _, cohort_size = AGGREGATORS[aggregator]
    if isinstance(method, fgmp.SharedSupportGradMP):
        if aggregator in ("median", "trimmed"):
            pytest.skip("refused: its updates are sums")
        if aggregator == "secure":
            return None  # sums of second derivatives are refused to cohorts
    return cohort_size


@pytest.mark.parametrize("aggregator", AGGREGATORS)
@pytest.mark.parametrize("name", METHODS)
def test_run_without_any_client_leaves_the_start(name, aggregator):
    """If every cohort drops out, each round is lost, with any method and any aggregator."""
    method = METHODS[name]()
    chosen = AGGREGATORS[aggregator][0]
    cohort_size = cohort_size_for(method, aggregator)
    nobody = Faulty(FED, DropOut())
    result = fgmp.simulate(method, nobody, 3, cohort_size, 0, aggregator=chosen)
    start = fgmp.simulate(method, FED, 0, cohort_size, 0, aggregator=chosen)
    np.testing.assert_array_equal(result.x, start.x)
    np.testing.assert_array_equal(result.history["clients"], [0, 0, 0, 0])


@pytest.mark.parametrize("aggregator", ["mean", "median", "trimmed"])
@pytest.mark.parametrize("name", METHODS)
def test_run_with_some_empty_cohorts_goes_on(name, aggregator):
    """A round whose cohort of one drops out is lost, and the others count."""
    method = METHODS[name]()
    chosen = AGGREGATORS[aggregator][0]
    cohort_size = cohort_size_for(method, aggregator)
    some = Faulty(FED, DropOut(probability=0.6))
    result = fgmp.simulate(method, some, 10, cohort_size, 5, aggregator=chosen)
    assert set(result.history["clients"][1:]) == {0, 1}
    assert np.isfinite(result.x).all()


def raise_user_error(*given):
    """Raise an error that this package raises too, of updates that are not finite."""
    raise FloatingPointError("mine")


class UserLoss(fgmp.SquaredLoss):
    """A loss of a user, which fails."""

    def derivative(self, predictions, targets):
        """Fail."""
        raise_user_error()


class UserSolver(fgmp.GradientDescent):
    """A solver of a user, which fails."""

    def minimise(self, problem, start, rng):
        """Fail."""
        raise_user_error()


def failing_update(method):
    """Return a method whose client update fails."""
    return with_exchanges(
        method, lambda index, exchange: exchange._replace(client_update=raise_user_error)
    )


def run_with_user_loss(method):
    """Run a method with a loss that fails."""
    As = [client.features for client in FED.clients]
    ys = [client.targets for client in FED.clients]
    return fgmp.simulate(method, fgmp.Federation.from_arrays(As, ys, UserLoss()), 2, rng=0)


def run_with_user_metric(method):
    """Run a method with a metric that fails."""
    history = fgmp.History(metrics={"own": raise_user_error})
    return fgmp.simulate(method, FED, 2, rng=0, history=history)


USER_CODE = {
    "method": lambda method: fgmp.simulate(failing_update(method), FED, 2, rng=0),
    "loss": run_with_user_loss,
    "metric": run_with_user_metric,
    "callback": lambda method: fgmp.simulate(method, FED, 2, rng=0, callbacks=raise_user_error),
    "fault": lambda method: fgmp.simulate(
        method, Faulty(FED, Corrupted(raise_user_error)), 2, rng=0
    ),
    "tune": lambda method: fgmp.tune(lambda once: failing_update(method), {"once": [1]}, FED, 2),
}


@pytest.mark.parametrize("code", USER_CODE)
@pytest.mark.parametrize("name", ["FedGradMP", "FedAvg", "SharedSupportGradMP"])
def test_exception_of_user_code_reaches_the_user(name, code):
    """Only a FloatingPointError of this package is counted as "not_finite"."""
    with pytest.raises(FloatingPointError, match="mine"):
        USER_CODE[code](METHODS[name]())


def test_exception_of_user_solver_reaches_the_user():
    """A solver of a user is code of the user."""
    method = fgmp.FedGradMP(3, solver=UserSolver(steps=1))
    with pytest.raises(FloatingPointError, match="mine"):
        fgmp.simulate(method, FED, 2, rng=0)


@pytest.mark.parametrize(
    ("clients", "kept"),
    [
        ([1, 3], (1, 3)),
        (np.array([1, 3]), (1, 3)),
        ([np.int64(1), 3], (1, 3)),
        (np.float64(0.5), 0.5),
        (1, 1.0),
        (None, None),
    ],
)
def test_whom_a_fault_may_affect_is_kept_in_plain_types(clients, kept):
    """Ids that can be read only once serve a whole run, and copies of the fault."""
    assert fgmp.DropOut(clients=iter([1, 3])).client_ids == (1, 3)
    fault = fgmp.DropOut(clients=clients)
    assert fault.clients == kept and type(fault.clients) is type(kept)
    assert replace(fault, probability=0.5).clients == kept
    assert (fault.share, fault.client_ids) == (
        kept if isinstance(kept, float) else None,
        kept if isinstance(kept, tuple) else None,
    )
