"""The plain loop: seeds, cohorts, what is recorded, what a server is handed, and a method of one's own."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from cases import METHODS, noisy_regression
from combinatorial.recorder import Recorder

import fgmp
from fgmp.callbacks import Bar
from fgmp.rounds import Streams
from fgmp.serialization import from_wire, to_wire
from fgmp.sparse_model import SparseModel

pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.usefixtures("backend"),
]

FED = noisy_regression()
METHOD = METHODS["FedGradMP"]()


def test_history_has_the_promised_columns():
    result = fgmp.simulate(METHOD, FED, rounds=3, rng=0)
    names = [
        "round",
        "relative_error",
        "objective",
        "seconds",
        "bytes_up",
        "bytes_down",
        "clients",
        "rejected",
    ]
    assert list(result.history) == names
    assert "relative_error" not in fgmp.simulate(METHOD, replace(FED, truth=None), rounds=1).history


def test_numbers_of_numpy_are_numbers():
    method = fgmp.FedGradMP(np.int32(3), np.int64(3), batch_size=np.int64(20), radius=np.float32(2))
    result = fgmp.simulate(method, FED, np.int64(2), np.int8(4), np.int64(0))
    np.testing.assert_array_equal(
        result.x, fgmp.simulate(fgmp.FedGradMP(3, 3, 20, radius=2), FED, 2, 4, 0).x
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("sparsity", np.int8(100)), ("batch_size", np.uint16(20)), ("radius", np.float16(2))],
)
def test_a_field_of_a_type_that_overflows_is_refused(field, value):
    with pytest.raises(ValueError, match=f"{field} is .*, of type {value.dtype}, which overflows"):
        fgmp.FedGradMP(**{"sparsity": 3, field: value})


def test_the_seed_alone_decides():
    def ends(seed):
        return fgmp.simulate(METHOD, FED, 3, cohort_size=4, rng=seed).x

    np.testing.assert_array_equal(ends(5), ends(5))
    assert not np.array_equal(ends(5), ends(6))
    np.testing.assert_array_equal(ends(np.random.default_rng(3)), ends(np.random.default_rng(3)))
    unseeded = fgmp.simulate(METHOD, FED, 3, cohort_size=4)
    np.testing.assert_array_equal(ends(unseeded.seed), unseeded.x)


def test_a_state_is_a_start():
    whole = fgmp.simulate(fgmp.SharedSupportGradMP(3), FED, 4, rng=0)
    half = fgmp.simulate(fgmp.SharedSupportGradMP(3), FED, 2, rng=0)
    gone_on = fgmp.simulate(fgmp.SharedSupportGradMP(3), FED, 2, rng=0, state=half.state)
    np.testing.assert_array_equal(
        gone_on.x, whole.x
    )  # full batches, and rounds that the state counts


def test_client_draws_same_numbers_whoever_takes_part():
    """The update of a client does not depend on the other clients of its cohort."""
    method = METHODS["FedAvg"]()
    everyone = Recorder()
    some = Recorder()
    fgmp.simulate(method, FED, 1, rng=1, aggregator=everyone.aggregator)
    fgmp.simulate(method, FED, 1, 2, rng=1, aggregator=some.aggregator)

    updates = some.exchanges[0].updates
    assert len(updates) == 2
    for client_id, update in updates.items():
        np.testing.assert_array_equal(update, everyone.exchanges[0].updates[client_id])


def test_streams_are_places_in_one_stream_of_philox():
    streams = Streams(3)
    keys = [(1, 1, 0, 0), (1, 1, 0, 1), (1, 1, 1, 0), (1, 2, 0, 0), (3, 1, 0, 0), (0, 1, 0, 0)]
    numbers = {key: streams.of(*key).random(1000) for key in keys}
    values = np.concatenate(list(numbers.values()))
    assert len(np.unique(values)) == len(values)
    np.testing.assert_array_equal(streams.of(1, 1, 0, 1).random(1000), numbers[1, 1, 0, 1])
    assert not np.isin(Streams(4).of(1, 1, 0, 0).random(9), values).any()


def test_cohorts_are_drawn_uniformly_without_replacement():
    counts = np.zeros(10)
    streams = Streams(0)
    for number in range(2000):
        cohort = streams.sample(Streams.COHORT, number, 10, 3)
        assert len(set(cohort)) == 3
        counts[cohort] += 1
    assert np.abs(counts / 2000 - 0.3).max() < 0.05


@pytest.mark.parametrize("name", METHODS)
def test_what_is_asked_and_answered_survives_the_wire(name):
    method = METHODS[name]()
    state = method.start(FED.shape)
    for exchange in [*method.exchanges(), *method.exchanges()]:
        message = exchange.message(state)
        form = exchange.update_spec(state)
        answer = exchange.client_update(
            FED.clients[0], from_wire(to_wire(message), (50,)), np.random.default_rng(0)
        )
        again = from_wire(to_wire(answer), form.shape)
        assert form.validate(again) is form.validate(answer) is None
        dense = [one.dense() if isinstance(one, SparseModel) else one for one in (answer, again)]
        np.testing.assert_array_equal(*dense)
        state = exchange.server_update(state, dense[0].reshape(form.shape))


def test_records_metrics_and_a_bar(capsys):
    history = fgmp.History(3, {"nonzeros": np.count_nonzero, "greedy": lambda x: x.fill(7) or 1.0})
    result = fgmp.simulate(METHOD, FED, 7, rng=0, history=history, callbacks=Bar())
    np.testing.assert_array_equal(result.history["round"], [0, 3, 6, 7])
    np.testing.assert_array_equal(result.history["nonzeros"], [0, 3, 3, 3])
    assert "FedGradMP" in capsys.readouterr().err
    np.testing.assert_array_equal(fgmp.simulate(METHOD, FED, 7, rng=0).x, result.x)


def test_the_objective_on_a_sample_of_clients():
    federation = fgmp.Federation.from_clients(FED.clients, [1, 2, 3, 4, 5, 6])
    result = fgmp.simulate(METHOD, federation, 3, rng=0, history=fgmp.History(objective_on=[3, 1]))
    np.testing.assert_array_equal(result.objective_on, [1, 3])
    parts = [federation.clients[i].objective(result.x) for i in (1, 3)]
    assert result.history["objective"][-1] == pytest.approx((2 * parts[0] + 4 * parts[1]) / 6)
    drawn = [
        fgmp.simulate(METHOD, federation, k, rng=0, history=fgmp.History(objective_on=2))
        for k in (1, 2)
    ]
    np.testing.assert_array_equal(*[run.objective_on for run in drawn])
    np.testing.assert_array_equal(fgmp.simulate(METHOD, federation, 3, rng=0).x, result.x)
    with mock.patch.object(
        fgmp.Federation, "objectives", lambda *_: pytest.fail("objectives were asked for")
    ):
        silent = fgmp.simulate(METHOD, federation, 3, rng=0, history=fgmp.History(objective_on=0))
        np.testing.assert_array_equal(silent.best.x, result.x)
    assert "objective" not in silent.history
    with pytest.raises(
        ValueError, match="with objective_on=0; expected one that recorded objectives"
    ):
        fgmp.polish(silent, federation)


@pytest.mark.parametrize(
    "values, patience, improvement, stalled",
    [
        ([1.0, 0.5, 0.4999, 0.4998], 2, 1e-3, True),
        ([1.0, 0.5, 0.4999, 0.4998], 3, 1e-3, False),
        ([1.0], 1, 1e-3, False),
        ([-10.0, -10.5, -11.1], 2, 0.1, False),
        ([-10.0, -10.5, -10.9], 2, 0.1, True),
        ([np.nan] * 3, 2, 0.1, True),
    ],
)
def test_a_run_is_stalled_where_the_improvement_is_less_than_asked_for(
    values, patience, improvement, stalled
):
    class Seen:
        def column(self, name):
            return np.array(values)

    assert fgmp.stop_when_stalled(patience, improvement=improvement)(Seen()) is stalled


def test_runs_stop_when_told():
    exact = fgmp.make_sparse_regression(6, 60, 50, 3, rng=1)
    early = fgmp.simulate(fgmp.FedGradMP(3), exact, rounds=50, callbacks=fgmp.stop_at(1e-10))
    assert early.history["relative_error"][-1] <= 1e-10
    assert early.history["round"][-1] < 50
    assert (
        fgmp.simulate(
            fgmp.FedGradMP(3), FED, rounds=50, callbacks=[fgmp.stop_when_stalled(3)]
        ).history["round"][-1]
        < 50
    )


@pytest.mark.parametrize(
    "name", ["round", "objective", "relative_error", "seconds", "clients", "rejected", "epsilon"]
)
def test_a_metric_that_is_called_as_a_column_is_refused(name):
    with pytest.raises(
        ValueError, match=f"metrics has '{name}', a column that runs have; expected another name"
    ):
        fgmp.History(metrics={name: np.linalg.norm})


def test_a_metric_that_is_called_as_a_column_of_the_mechanism_is_refused():
    class Counting(fgmp.PrivacyMechanism):
        def extra_metrics(self, rounds_done):
            return {"asked": rounds_done}

    class CountingMean(fgmp.Mean):
        privacy = Counting()

    history = fgmp.History(metrics={"asked": np.linalg.norm})
    with pytest.raises(ValueError, match="metrics has 'asked', a column"):
        fgmp.simulate(METHOD, FED, 1, rng=0, aggregator=CountingMean(), history=history)


def test_what_a_caller_does_with_a_result_is_in_no_other():
    first = fgmp.simulate(METHOD, FED, 1, rng=0)
    first.rejected["missing"] += 7
    assert fgmp.simulate(METHOD, FED, 1, rng=0).rejected == {}
    assert fgmp.rounds.Step(0, None).rejected == {}


def test_a_run_with_noise_takes_no_state():
    """Its epsilon would begin anew; from a checkpoint it goes on."""
    noise = fgmp.GaussianNoise(epsilon=5.0, clip=1.0)
    result = fgmp.simulate(METHOD, FED, 2, rng=0, aggregator=noise)
    with pytest.raises(
        ValueError, match="state is given to a run with noise, whose epsilon would begin anew"
    ):
        fgmp.simulate(METHOD, FED, 2, rng=0, aggregator=noise, state=result.state)
