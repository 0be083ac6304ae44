"""Methods over Flower's messages, without an engine: the bits of one process, and what is told, kept and counted."""

import numpy as np
import pytest
from cases import LOCAL_STEPS, METHODS
from here import assert_same_run, grid_of, over

import fgmp
from fgmp.flower import OverFlower, client_app
from fgmp.shared_support.newton import LocalSteps

SQUARED = fgmp.make_sparse_regression(6, 50, 80, 4, rng=0)
RNG = np.random.default_rng(0)
ROWS = [RNG.standard_normal((n, 12)) for n in (30, 45, 60)]
LOGISTIC = fgmp.Federation.from_arrays(ROWS, [np.sign(A[:, 0] + 0.1) for A in ROWS], "logistic")
SOFTMAX = fgmp.Federation.from_arrays(ROWS, [A[:, :3].argmax(axis=1) for A in ROWS], "softmax")
SINGLE = fgmp.Federation.from_arrays(
    [A.astype(np.float32) for A in ROWS], [A[:, 0].astype(np.float32) for A in ROWS]
)
NEWTON = fgmp.NewtonOnSupport(2, 1e-2)
ANY = [
    fgmp.FedGradMP(3, batch_size=10),
    fgmp.FedGradMP(3, solver=fgmp.SGD(0.1, steps=3, batch_size=5), radius=1.0),
    fgmp.SharedSupportGradMP(3, fgmp.LargestEntries(6), LocalSteps(fgmp.GradientDescent(5))),
    fgmp.SharedSupportGradMP(3, fgmp.CountSketch(1, 7), NEWTON),
    *(METHODS[name]() for name in ("FedAvg", "FedHT", "FedIterHT", "FedMid", "FedDualAvg")),
    fgmp.FastFedDualAvg(l1_weight=0.01, strong_convexity=0.1, **LOCAL_STEPS),
]
SHARED = fgmp.SharedSupportGradMP(3)
PROBLEMS = {"squared": SQUARED, "logistic": LOGISTIC, "softmax": SOFTMAX, "single": SINGLE}
CASES = [
    (p, m, size)
    for p in PROBLEMS
    for m in [*ANY, *[SHARED] * (p == "squared")]
    for size in (None, 2)
]
METHOD = ANY[0]
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    ("problem", "method", "cohort_size"), CASES, ids=lambda x: getattr(type(x), "__name__", x)
)
def test_the_same_bits_as_in_one_process(problem, method, cohort_size, fresh):
    """A process for each message (`fresh`) too: the method is in the state of the run."""
    federation = PROBLEMS[problem]
    transport = over(federation, fresh=fresh)
    there = fgmp.simulate(method, transport, 3, cohort_size, rng=5)
    assert_same_run(there, fgmp.simulate(method, federation, 3, cohort_size, rng=5))
    assert (
        max(
            [place for place, asked in transport.grid.asked if "method" in asked].count(i)
            for i in range(3)
        )
        == 1
    )


NOISE = fgmp.GaussianNoise(2.0, 0.05, insecure_seed=17)
AGGREGATORS = [fgmp.Median(), fgmp.TrimmedMean(0.2), NOISE]


@pytest.mark.parametrize(
    "aggregator", AGGREGATORS, ids=lambda aggregator: type(aggregator).__name__
)
def test_aggregators_at_the_server(aggregator):
    """With noise nobody is asked for an objective."""
    transport = over(SQUARED)
    there = fgmp.simulate(METHOD, transport, 2, 3, rng=5, aggregator=aggregator)
    assert_same_run(there, fgmp.simulate(METHOD, SQUARED, 2, 3, rng=5, aggregator=aggregator))
    asked = {said["ask"] for _, said in transport.grid.asked}
    assert (
        ("objective" in asked)
        == ("objective" in there.history)
        == (not isinstance(aggregator, fgmp.GaussianNoise))
    )


def test_no_client_is_told_the_secret_of_the_noise():
    transport, secrets, noise = over(SQUARED), [], fgmp.GaussianNoise(2.0, 0.05)
    fgmp.simulate(
        METHOD,
        transport,
        2,
        None,
        987_654_321,
        aggregator=noise,
        callbacks=lambda r: secrets.append(r.aggregator.secret),
    )
    whole = b"".join(raw for _, _, raw, _ in transport.grid.wire)
    assert len(secrets[0]) == 32 and b"987654321" in whole
    for form in (
        secrets[0],
        secrets[0].hex().encode(),
        str(int.from_bytes(secrets[0], "big")).encode(),
    ):
        assert form not in whole


def test_a_dictionary_travels_once_to_each_client_and_the_model_is_the_same():
    """But for rounding: in one process one product makes all A_i Psi."""
    atoms = np.asfortranarray(
        fgmp.gaussian_dictionary(80, 30, rng=1).atoms
    )  # whose order in memory travels, too
    method = fgmp.FedGradMP(3, dictionary=fgmp.Dictionary(atoms))
    transport = over(SQUARED)
    there, here = (
        fgmp.simulate(method, transport, 3, rng=5),
        fgmp.simulate(method, SQUARED, 3, rng=5),
    )
    np.testing.assert_allclose(there.x, here.x, rtol=1e-10)
    np.testing.assert_array_equal(there.support, here.support)
    assert sum("arrays" in content.array_records for *_, content in transport.grid.wire) == 6


def test_a_node_that_was_started_again_is_told_again():
    transport = over(SQUARED)
    restarts = lambda run: transport.grid.restarted.add(2)  # noqa: E731
    there = fgmp.simulate(METHOD, transport, 3, rng=5, callbacks=restarts)
    assert_same_run(there, fgmp.simulate(METHOD, SQUARED, 3, rng=5))
    assert [place for place, asked in transport.grid.asked if "method" in asked].count(2) >= 4


def test_weights_and_the_order_of_clients_are_those_of_the_rows_and_keys_they_say():
    np.testing.assert_allclose(over(LOGISTIC, weights="equal").weights, 1 / 3)
    np.testing.assert_array_equal(over(LOGISTIC).weights, LOGISTIC.weights)
    grid = grid_of(SQUARED)
    for place, config in enumerate(
        [{}, {"partition-id": 9}, {"partition-id": 3}, {"partition-id": 3}, {}, {}]
    ):
        grid.contexts[place].node_config = config
    grid.apps = [
        client_app(
            lambda context, settings: (SQUARED.clients[0].features, SQUARED.clients[0].targets)
        )
    ] * 6
    transport = OverFlower(grid, SQUARED.loss, 6)
    assert transport.nodes == [102, 103, 101, 100, 104, 105] and transport.info.client_ids == (
        0,
        1,
        2,
        3,
        4,
        5,
    )


def test_settings_reach_the_client_that_loads():
    def load(context, settings):
        client = SQUARED.clients[context.node_config["partition-id"]]
        return client.features[:, settings["columns"]], client.targets

    grid = grid_of(SQUARED)
    grid.apps = [client_app(load)] * 6
    first = OverFlower(grid, SQUARED.loss, 6, settings={"columns": [0, 3, 5]})
    for columns, transport in (
        ([0, 3, 5], first),
        ([2, 3, 5], first.with_settings({"columns": [2, 3, 5]})),
    ):
        As = [client.features[:, columns] for client in SQUARED.clients]
        part = fgmp.Federation.from_arrays(As, [client.targets for client in SQUARED.clients])
        there = fgmp.simulate(fgmp.FedGradMP(1), transport, 2, rng=0)
        assert_same_run(there, fgmp.simulate(fgmp.FedGradMP(1), part, 2, rng=0))


def test_what_does_not_fit_is_named():
    with pytest.raises(TimeoutError, match="6 clients came in 0 seconds; expected 7"):
        OverFlower(grid_of(SQUARED), SQUARED.loss, 7, wait_for=0.0)
    for name, value in (
        ("deadline", 0),
        ("weights", "mine"),
        ("most_rows", 0),
        ("settings", {"rows": {1, 2}}),
    ):
        with pytest.raises(ValueError, match=f"{name} is .*; expected"):
            OverFlower(grid_of(SQUARED), SQUARED.loss, 6, **{name: value})
    with pytest.raises(
        ValueError, match=r"aggregator is GaussianNoise\(then=SecureSum\(\)\) over machines"
    ):
        fgmp.simulate(
            METHOD,
            over(SQUARED),
            1,
            aggregator=fgmp.GaussianNoise(2.0, 0.05, then=fgmp.SecureSum()),
        )


def test_a_server_that_starts_again_goes_on_to_the_same_bits_with_clients_that_know_nothing_of_it(
    tmp_path,
):
    """SIGKILL itself is in `test_watching`."""
    path, transport = tmp_path / "run.fgmp", over(SQUARED)
    fgmp.simulate(SHARED, over(SQUARED), 3, 3, rng=4, callbacks=fgmp.Checkpoint(path))
    there = fgmp.simulate(SHARED, transport, 6, 3, rng=4, callbacks=fgmp.Checkpoint(path))
    assert_same_run(there, fgmp.simulate(SHARED, SQUARED, 6, 3, rng=4))
    assert {asked["round"] for _, asked in transport.grid.asked if asked["ask"] == "answer"} == {
        4,
        5,
        6,
    }


@pytest.mark.parametrize("given", [{"n_clients": 4}, {"settings": {"part": "training"}}])
def test_a_checkpoint_of_other_clients_or_settings_is_refused(tmp_path, given):
    path = tmp_path / "run.fgmp"
    fgmp.simulate(SHARED, over(SQUARED), 2, rng=4, callbacks=fgmp.Checkpoint(path))
    other = over(SQUARED.subset(range(given.get("n_clients", 6))), settings=given.get("settings"))
    with pytest.raises(
        ValueError, match="is of another run: .*(shape.rows is 4 of them|settings is )"
    ):
        fgmp.simulate(SHARED, other, 4, rng=4, callbacks=fgmp.Checkpoint(path))
