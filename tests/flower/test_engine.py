"""One session of Flower's simulation engine: methods, losses and masks, in the bits of one process."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from flower_cases import LOGISTIC, METHODS, SOFTMAX, SQUARED
from flwr.supercore import telemetry
from in_process_grid import assert_same_run, load_from

import fgmp
from fgmp.flower import OverFlower, client_app, fit_over, on_engine, table_app

FEDERATIONS = {"squared": SQUARED.subset([0, 1, 2]), "logistic": LOGISTIC, "softmax": SOFTMAX}
RUNS = {
    **{
        name: {"method": METHODS[name]}
        for name in ("FedGradMP", "Newton on a support", "FedHT", "FedMid")
    },
    "secure sums": {"method": METHODS["FedGradMP"], "aggregator": fgmp.SecureSum()},
}
PLAN = {"rounds": 2, "cohort_size": 2, "rng": 7}

# Ray starts its processes while the first question is open: a machine may be busy.
PATIENCE = 600.0


def load(context, settings):
    """Return the rows of a client in the federation that the settings name."""
    return load_from(FEDERATIONS[settings["federation"]])(context, settings)


def serve(grid):
    """Run every method on every federation, and return the results by their names."""
    results = {}
    for name, federation in FEDERATIONS.items():
        transport = OverFlower(
            grid,
            federation.loss,
            3,
            settings={"federation": name},
            wait_for=PATIENCE,
            deadline=PATIENCE,
        )
        for run, options in RUNS.items():
            results[name, run] = fgmp.simulate(clients=transport, **options, **PLAN)
    return results


@pytest.fixture(scope="module")
def session():
    """The results of one session on the engine, and what is left of the telemetry."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        # As if Flower had been imported before, with its telemetry on.
        patch.setattr(telemetry, "FLWR_TELEMETRY_ENABLED", "1")
        patch.setattr(telemetry, "TELEMETRY_EVENTS_URL", "http://127.0.0.1:9")
        results = on_engine(serve, client_app(load), 3)
        return results, telemetry.FLWR_TELEMETRY_ENABLED


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("federation", FEDERATIONS)
def test_run_on_the_engine_has_the_bits_of_one_process(federation, run, session):
    """The clients are in processes of Ray, which the method and the rows travel to."""
    results, _ = session
    in_process = fgmp.simulate(clients=FEDERATIONS[federation], **RUNS[run], **PLAN)
    assert_same_run(results[federation, run], in_process)


def read(context, columns):
    """Return the table of a client: 60 rows of five columns, two of which count."""
    rng = np.random.default_rng(context.node_config["partition-id"])
    X = rng.standard_normal((60, 5))
    return X, 3 * X[:, 1] - X[:, 4] + rng.standard_normal(60)


def test_choice_under_masks_takes_at_most_20_messages_on_the_engine():
    """A process may know of a client what the state of the run holds, and nothing else."""
    model = fgmp.FedGradMPRegressor("cv", n_folds=3, secure=True, random_state=0)
    n_messages = []

    def serve_fit(grid):
        push = grid.push_messages

        def counted(messages):
            n_messages.append(len(messages))
            return push(messages)

        grid.push_messages = counted
        options = {"report": lambda line: None, "wait_for": PATIENCE, "deadline": PATIENCE}
        return fit_over(model, grid, 3, ["a", "b", "c", "d", "e"], **options)

    over_flower = on_engine(serve_fit, table_app(read, masked_only=True), 3)
    assert set(n_messages) == {3}
    assert len(n_messages) <= 20

    tables = [read(SimpleNamespace(node_config={"partition-id": i}), ()) for i in range(3)]
    X, y = map(np.concatenate, zip(*tables, strict=True))
    in_process = model.fit(X, y, groups=np.repeat(range(3), 60))
    np.testing.assert_array_equal(over_flower.coef_, in_process.coef_)
    assert over_flower.support_.tolist() == [1, 4]


def test_session_on_the_engine_switches_telemetry_off(session):
    """Also if Flower has read the variable of the environment before."""
    _, is_enabled = session
    assert is_enabled == "0"
