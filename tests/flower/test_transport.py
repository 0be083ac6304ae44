"""Methods over Flower's messages, without an engine: the bits of one process."""

import numpy as np
import pytest
from flower_cases import FEDERATIONS, FEDGRADMP, LOGISTIC, METHODS, SHARED_SUPPORT, SQUARED
from in_process_grid import assert_same_run, grid_of, transport_to

import fgmp
from fgmp.flower import OverFlower, client_app

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

NOISE = fgmp.GaussianNoise(2.0, 0.05, insecure_seed=17)


def covering_cases():
    """Return each federation with each method, with all clients and with a cohort.

    Of the two one keeps the state of the run in the process, and the other hands it to a new
    process for each message. They alternate, so that any two of federation, method, cohort and
    process meet.
    """
    cases = []
    for row, federation in enumerate(FEDERATIONS):
        for column, method in enumerate(METHODS):
            is_fresh = (row + column) % 2 == 0
            cases.append((federation, METHODS[method], None, is_fresh))
            cases.append((federation, METHODS[method], 2, not is_fresh))
    cases.append(("squared", SHARED_SUPPORT, None, True))
    cases.append(("squared", SHARED_SUPPORT, 2, False))
    return cases


def count_method_sent(transport, client_index):
    """Return how many questions have brought a client the method."""
    return sum(
        index == client_index and "method" in question
        for index, question in transport.grid.questions
    )


@pytest.mark.parametrize(
    ("federation", "method", "cohort_size", "fresh"),
    covering_cases(),
    ids=lambda value: type(value).__name__ if isinstance(value, fgmp.Method) else str(value),
)
def test_run_over_messages_has_the_bits_of_one_process(federation, method, cohort_size, fresh):
    """The method, the loss and the state of a run arrive as they were sent."""
    transport = transport_to(FEDERATIONS[federation], fresh=fresh)
    over_flower = fgmp.simulate(method, transport, 3, cohort_size, rng=5)
    in_process = fgmp.simulate(method, FEDERATIONS[federation], 3, cohort_size, rng=5)
    assert_same_run(over_flower, in_process)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("cohort_size", [None, 2])
def test_method_is_sent_to_each_client_once(cohort_size, fresh):
    """It stays in the state of the run, also if each message has a process of its own."""
    transport = transport_to(SQUARED, fresh=fresh)
    fgmp.simulate(FEDGRADMP, transport, 3, cohort_size, rng=5)
    assert [count_method_sent(transport, index) for index in range(6)] == [1] * 6


@pytest.mark.parametrize(
    "aggregator",
    [fgmp.Median(), fgmp.TrimmedMean(0.2), NOISE],
    ids=lambda aggregator: type(aggregator).__name__,
)
def test_aggregator_at_the_server_has_the_bits_of_one_process(aggregator):
    """It sees the same updates as in one process."""
    over_flower = fgmp.simulate(
        FEDGRADMP, transport_to(SQUARED), 2, 3, rng=5, aggregator=aggregator
    )
    in_process = fgmp.simulate(FEDGRADMP, SQUARED, 2, 3, rng=5, aggregator=aggregator)
    assert_same_run(over_flower, in_process)


@pytest.mark.parametrize(("aggregator", "is_polled"), [(fgmp.Median(), True), (NOISE, False)])
def test_objective_is_polled_unless_there_is_noise(aggregator, is_polled):
    """An objective without noise would give away what the noise of the updates hides."""
    transport = transport_to(SQUARED)
    result = fgmp.simulate(FEDGRADMP, transport, 2, 3, rng=5, aggregator=aggregator)
    assert (
        "objective" in {question["ask"] for _, question in transport.grid.questions}
    ) == is_polled
    assert ("objective" in result.history) == is_polled


def test_secret_of_the_noise_is_in_no_message():
    """Neither as bytes nor as text; the seed of the run, which is public, is found."""
    transport = transport_to(SQUARED)
    secrets = []
    fgmp.simulate(
        FEDGRADMP,
        transport,
        2,
        rng=987_654_321,
        aggregator=fgmp.GaussianNoise(2.0, 0.05),
        callbacks=lambda run: secrets.append(run.aggregator.secret),
    )
    sent = b"".join(message.raw for message in transport.grid.sent)
    secret = secrets[0]
    assert len(secret) == 32 and b"987654321" in sent
    for form in (secret, secret.hex().encode(), str(int.from_bytes(secret, "big")).encode()):
        assert form not in sent


def test_dictionary_travels_once_to_each_client():
    """The model is that of one process, but for rounding: there one product makes all A_i Psi."""
    # In the order of Fortran, which has to travel, too.
    atoms = np.asfortranarray(fgmp.gaussian_dictionary(80, 30, rng=1).atoms)
    method = fgmp.FedGradMP(3, dictionary=fgmp.Dictionary(atoms))
    transport = transport_to(SQUARED)
    over_flower = fgmp.simulate(method, transport, 3, rng=5)
    in_process = fgmp.simulate(method, SQUARED, 3, rng=5)
    np.testing.assert_allclose(over_flower.x, in_process.x, rtol=1e-10)
    np.testing.assert_array_equal(over_flower.support, in_process.support)
    assert sum("arrays" in sent.content.array_records for sent in transport.grid.sent) == 6


def test_node_that_was_restarted_is_sent_the_run_again():
    """It has lost the state, and says so."""
    transport = transport_to(SQUARED)
    over_flower = fgmp.simulate(
        FEDGRADMP, transport, 3, rng=5, callbacks=lambda run: transport.grid.restarted.add(2)
    )
    assert_same_run(over_flower, fgmp.simulate(FEDGRADMP, SQUARED, 3, rng=5))
    assert count_method_sent(transport, 2) >= 4


def test_weights_are_those_of_the_rows_unless_equal():
    """A client reports its rows, and what they weigh is the choice of the server."""
    np.testing.assert_array_equal(transport_to(LOGISTIC).weights, LOGISTIC.weights)
    np.testing.assert_allclose(transport_to(LOGISTIC, weights="equal").weights, 1 / 3)


def test_clients_are_in_the_order_of_their_keys_and_then_of_their_nodes():
    """Those without a key come last."""
    grid = grid_of(SQUARED)
    for context, key in zip(grid.contexts, (None, 9, 3, 3, None, None), strict=True):
        context.node_config = {} if key is None else {"partition-id": key}
    first = SQUARED.clients[0]
    grid.apps = [client_app(lambda context, settings: (first.features, first.targets))] * 6
    transport = OverFlower(grid, SQUARED.loss, 6)
    assert transport.nodes == [102, 103, 101, 100, 104, 105]
    assert transport.info.client_ids == (0, 1, 2, 3, 4, 5)


def test_settings_reach_the_client_that_loads():
    """Those of a transport, and other ones for the same clients."""

    def load(context, settings):
        client = SQUARED.clients[context.node_config["partition-id"]]
        return client.features[:, settings["columns"]], client.targets

    grid = grid_of(SQUARED)
    grid.apps = [client_app(load)] * 6
    first = OverFlower(grid, SQUARED.loss, 6, settings={"columns": [0, 3, 5]})
    second = first.with_settings({"columns": [2, 3, 5]})
    for columns, transport in (([0, 3, 5], first), ([2, 3, 5], second)):
        part = fgmp.Federation.from_arrays(
            [client.features[:, columns] for client in SQUARED.clients],
            [client.targets for client in SQUARED.clients],
        )
        over_flower = fgmp.simulate(fgmp.FedGradMP(1), transport, 2, rng=0)
        assert_same_run(over_flower, fgmp.simulate(fgmp.FedGradMP(1), part, 2, rng=0))


def test_too_few_clients_are_an_error_with_their_number():
    """After the seconds to wait for them."""
    with pytest.raises(TimeoutError, match="6 clients came in 0 seconds; expected 7"):
        OverFlower(grid_of(SQUARED), SQUARED.loss, 7, wait_for=0.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("deadline", 0), ("weights", "mine"), ("most_rows", 0), ("settings", {"rows": {1, 2}})],
)
def test_argument_that_does_not_fit_is_named(name, value):
    """With what came and what was expected."""
    with pytest.raises(ValueError, match=f"{name} is .*; expected"):
        OverFlower(grid_of(SQUARED), SQUARED.loss, 6, **{name: value})


def test_noise_over_secure_sums_is_refused():
    """The server would add the noise, and sees the sum without it."""
    aggregator = fgmp.GaussianNoise(2.0, 0.05, aggregator=fgmp.SecureSum())
    words = r"aggregator is GaussianNoise\(aggregator=SecureSum\(\)\) over machines"
    with pytest.raises(ValueError, match=words):
        fgmp.simulate(FEDGRADMP, transport_to(SQUARED), 1, aggregator=aggregator)


def test_server_that_starts_again_goes_on_to_the_same_bits(tmp_path):
    """With clients that know nothing of the run; `test_watching` kills the process itself."""
    path = tmp_path / "run.fgmp"
    keep = fgmp.Checkpoint(path)
    fgmp.simulate(SHARED_SUPPORT, transport_to(SQUARED), 3, 3, rng=4, callbacks=keep)

    transport = transport_to(SQUARED)
    resumed = fgmp.simulate(SHARED_SUPPORT, transport, 6, 3, rng=4, callbacks=fgmp.Checkpoint(path))
    assert_same_run(resumed, fgmp.simulate(SHARED_SUPPORT, SQUARED, 6, 3, rng=4))
    questions = [
        question for _, question in transport.grid.questions if question["ask"] == "answer"
    ]
    assert {question["round"] for question in questions} == {4, 5, 6}


@pytest.mark.parametrize(
    ("n_clients", "settings", "words"),
    [(4, None, "info.n_rows.4 is absent, not 50"), (6, {"part": "training"}, "settings is ")],
)
def test_checkpoint_of_other_clients_or_settings_is_refused(tmp_path, n_clients, settings, words):
    """It is of another run."""
    path = tmp_path / "run.fgmp"
    keep = fgmp.Checkpoint(path)
    fgmp.simulate(SHARED_SUPPORT, transport_to(SQUARED), 2, rng=4, callbacks=keep)
    other = transport_to(SQUARED.subset(range(n_clients)), settings=settings)
    with pytest.raises(ValueError, match=f"is of another run: .*{words}"):
        fgmp.simulate(SHARED_SUPPORT, other, 4, rng=4, callbacks=fgmp.Checkpoint(path))
