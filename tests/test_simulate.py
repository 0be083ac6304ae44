"""The loop of rounds: seeds, cohorts, history, stopping, and what a run refuses."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from cases import METHODS, noisy_regression
from combinatorial.recorder import Recorder

import fgmp
from fgmp.method import Streams
from fgmp.run.callbacks import Bar
from fgmp.run.serialization import from_wire, to_wire
from fgmp.sparse_model import dense

pytestmark = [
    pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning"),
    pytest.mark.usefixtures("backend"),
]

FED = noisy_regression()
METHOD = METHODS["FedGradMP"]()


def test_history_has_documented_columns():
    """A history has the columns that `Result` documents, in their order."""
    result = fgmp.simulate(METHOD, FED, rounds=3, rng=0)
    assert list(result.history) == [
        "round",
        "relative_error",
        "objective",
        "seconds",
        "bytes_up",
        "bytes_down",
        "clients",
        "rejected",
    ]


def test_history_without_truth_has_no_relative_error():
    """Nothing is compared with a truth that nobody knows."""
    result = fgmp.simulate(METHOD, replace(FED, truth=None), rounds=1)
    assert "relative_error" not in result.history


def test_numpy_scalars_as_arguments_give_the_same_run():
    """NumPy integers and floats are taken as Python numbers."""
    method = fgmp.FedGradMP(np.int32(3), np.int64(3), batch_size=np.int64(20), radius=np.float32(2))
    result = fgmp.simulate(method, FED, np.int64(2), np.int8(4), np.int64(0))
    np.testing.assert_array_equal(
        result.x, fgmp.simulate(fgmp.FedGradMP(3, 3, 20, radius=2), FED, 2, 4, 0).x
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("sparsity", np.int8(100)), ("batch_size", np.uint16(20)), ("radius", np.float16(2))],
)
def test_field_of_a_small_numpy_type_is_refused(field, value):
    """A type that overflows in the arithmetic of the method is refused."""
    with pytest.raises(ValueError, match=f"{field} is .*, of type {value.dtype}, which overflows"):
        fgmp.FedGradMP(**{"sparsity": 3, field: value})


def model_of_seed(seed):
    """Return the model of a run with cohorts and minibatches."""
    return fgmp.simulate(METHOD, FED, 3, cohort_size=4, rng=seed).x


def test_run_with_same_seed_has_same_bits():
    """The seed decides cohorts and minibatches, and another seed draws others."""
    np.testing.assert_array_equal(model_of_seed(5), model_of_seed(5))
    assert not np.array_equal(model_of_seed(5), model_of_seed(6))


def test_run_with_same_generator_has_same_bits():
    """A generator is drawn from once, for the seed."""
    one = model_of_seed(np.random.default_rng(3))
    other = model_of_seed(np.random.default_rng(3))
    np.testing.assert_array_equal(one, other)


def test_run_without_seed_is_repeated_by_seed_of_its_result():
    """`result.seed` repeats the run."""
    unseeded = fgmp.simulate(METHOD, FED, 3, cohort_size=4)
    np.testing.assert_array_equal(model_of_seed(unseeded.seed), unseeded.x)


def test_state_of_a_result_resumes_its_run():
    """Two rounds, and two more from their state, are four rounds: the state counts rounds."""
    whole = fgmp.simulate(fgmp.SharedSupportGradMP(3), FED, 4, rng=0)
    half = fgmp.simulate(fgmp.SharedSupportGradMP(3), FED, 2, rng=0)
    resumed = fgmp.simulate(fgmp.SharedSupportGradMP(3), FED, 2, rng=0, state=half.state)
    # Its batches are full, so that no random number depends on the number of a round.
    np.testing.assert_array_equal(resumed.x, whole.x)


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


def test_streams_of_different_keys_share_no_number():
    """Each key has its own numbers in one stream of Philox, the same whenever it is drawn."""
    streams = Streams(3)
    keys = [(1, 1, 0, 0), (1, 1, 0, 1), (1, 1, 1, 0), (1, 2, 0, 0), (3, 1, 0, 0), (0, 1, 0, 0)]
    numbers = {key: streams.of(*key).random(1000) for key in keys}
    values = np.concatenate(list(numbers.values()))
    assert len(np.unique(values)) == len(values)
    np.testing.assert_array_equal(streams.of(1, 1, 0, 1).random(1000), numbers[1, 1, 0, 1])
    assert not np.isin(Streams(4).of(1, 1, 0, 0).random(9), values).any()


def test_cohorts_are_uniform_without_replacement():
    """Over 2,000 rounds each client takes part as often as any other."""
    counts = np.zeros(10)
    streams = Streams(0)
    for number in range(2000):
        cohort = streams.sample(Streams.COHORT, number, 10, 3)
        assert len(set(cohort)) == 3
        counts[cohort] += 1
    assert np.abs(counts / 2000 - 0.3).max() < 0.05


@pytest.mark.parametrize("name", METHODS)
def test_messages_and_updates_survive_the_wire(name):
    """What `to_wire` writes, `from_wire` reads, for every exchange of two rounds."""
    method = METHODS[name]()
    state = method.start(FED.info)
    for exchange in [*method.exchanges(), *method.exchanges()]:
        message = exchange.message(state)
        update_spec = exchange.update_spec(state)
        received = from_wire(to_wire(message), (50,))
        update = exchange.client_update(FED.clients[0], received, np.random.default_rng(0))
        arrived = from_wire(to_wire(update), update_spec.shape)

        assert update_spec.validate(update) is None
        assert update_spec.validate(arrived) is None
        np.testing.assert_array_equal(dense(arrived), dense(update))
        state = exchange.server_update(state, dense(update).reshape(update_spec.shape))


def test_history_records_every_few_rounds_and_the_last():
    """With `every=3` a run of seven rounds records rounds 0, 3, 6 and 7."""
    result = fgmp.simulate(METHOD, FED, 7, rng=0, history=fgmp.History(3))
    np.testing.assert_array_equal(result.history["round"], [0, 3, 6, 7])


def test_metric_that_writes_into_its_model_does_not_change_the_run():
    """A metric gets a copy, so that what it writes reaches neither the run nor another metric."""
    metrics = {"writes": lambda x: x.fill(7) or 1.0, "nonzeros": np.count_nonzero}
    result = fgmp.simulate(METHOD, FED, 7, rng=0, history=fgmp.History(3, metrics))
    np.testing.assert_array_equal(result.history["nonzeros"], [0, 3, 3, 3])
    np.testing.assert_array_equal(fgmp.simulate(METHOD, FED, 7, rng=0).x, result.x)


def test_bar_names_the_method_and_does_not_change_the_run(capsys):
    """The progress bar goes to the standard error."""
    result = fgmp.simulate(METHOD, FED, 7, rng=0, callbacks=Bar())
    assert "FedGradMP" in capsys.readouterr().err
    np.testing.assert_array_equal(fgmp.simulate(METHOD, FED, 7, rng=0).x, result.x)


WEIGHTED = fgmp.Federation.from_clients(FED.clients, [1, 2, 3, 4, 5, 6])


def test_objective_on_named_clients_is_their_weighted_mean():
    """The weights are those of the named clients, scaled to one."""
    history = fgmp.History(objective_on=[3, 1])
    result = fgmp.simulate(METHOD, WEIGHTED, 3, rng=0, history=history)
    np.testing.assert_array_equal(result.objective_on, [1, 3])

    first, second = [WEIGHTED.clients[i].objective(result.x) for i in (1, 3)]
    expected = (2 * first + 4 * second) / 6
    assert result.history["objective"][-1] == pytest.approx(expected)


def test_objective_on_a_number_of_clients_draws_the_same_for_a_seed():
    """The sample depends on the seed, not on the number of rounds, and leaves the run as it is."""
    history = fgmp.History(objective_on=2)
    short = fgmp.simulate(METHOD, WEIGHTED, 1, rng=0, history=history)
    long = fgmp.simulate(METHOD, WEIGHTED, 3, rng=0, history=history)
    np.testing.assert_array_equal(short.objective_on, long.objective_on)
    np.testing.assert_array_equal(fgmp.simulate(METHOD, WEIGHTED, 3, rng=0).x, long.x)


def test_objective_on_no_client_is_never_computed():
    """Without objectives the best model on record is the last one."""
    no_objective = mock.patch.object(
        fgmp.LocalClients, "objectives", lambda *_: pytest.fail("objectives were computed")
    )
    with no_objective:
        result = fgmp.simulate(METHOD, WEIGHTED, 3, rng=0, history=fgmp.History(objective_on=0))
    assert "objective" not in result.history
    np.testing.assert_array_equal(result.best.x, result.x)


def test_polish_of_run_without_objectives_is_refused():
    """A refit has nothing to compare its objective with."""
    result = fgmp.simulate(METHOD, WEIGHTED, 3, rng=0, history=fgmp.History(objective_on=0))
    expected = "with objective_on=0; expected one that recorded objectives"
    with pytest.raises(ValueError, match=expected):
        fgmp.polish(result, WEIGHTED)


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
def test_stop_when_stalled_compares_improvement_with_threshold(
    values, patience, improvement, stalled
):
    """A run is stalled if it improved by less than a share of its objective in some rounds."""

    class Seen:
        def column(self, name):
            return np.array(values)

    assert fgmp.stop_when_stalled(patience, improvement=improvement)(Seen()) is stalled


def test_stop_at_ends_run_when_column_is_below():
    """A noiseless run ends in the round in which its error is small enough."""
    exact = fgmp.make_sparse_regression(6, 60, 50, 3, rng=1)
    result = fgmp.simulate(fgmp.FedGradMP(3), exact, rounds=50, callbacks=fgmp.stop_at(1e-10))
    assert result.history["relative_error"][-1] <= 1e-10
    assert result.history["round"][-1] < 50


def test_stop_when_stalled_ends_run_on_noisy_data():
    """A run whose objective no longer falls ends before its last round."""
    callbacks = [fgmp.stop_when_stalled(3)]
    result = fgmp.simulate(fgmp.FedGradMP(3), FED, rounds=50, callbacks=callbacks)
    assert result.history["round"][-1] < 50


@pytest.mark.parametrize(
    "name", ["round", "objective", "relative_error", "seconds", "clients", "rejected", "epsilon"]
)
def test_metric_with_the_name_of_a_column_is_refused(name):
    """A metric would hide a column of the history."""
    with pytest.raises(
        ValueError, match=f"metrics has '{name}', a column that runs have; expected another name"
    ):
        fgmp.History(metrics={name: np.linalg.norm})


def test_metric_with_the_name_of_a_column_of_a_mechanism_is_refused():
    """A metric would hide a column that the privacy mechanism adds."""

    class Counting(fgmp.PrivacyMechanism):
        def extra_metrics(self, rounds_done):
            return {"asked": rounds_done}

    class CountingMean(fgmp.Mean):
        privacy = Counting()

    history = fgmp.History(metrics={"asked": np.linalg.norm})
    with pytest.raises(ValueError, match="metrics has 'asked', a column"):
        fgmp.simulate(METHOD, FED, 1, rng=0, aggregator=CountingMean(), history=history)


def test_changes_to_a_result_reach_no_other_result():
    """The counter of rejected updates is that of one result."""
    first = fgmp.simulate(METHOD, FED, 1, rng=0)
    first.rejected["missing"] += 7
    assert fgmp.simulate(METHOD, FED, 1, rng=0).rejected == {}
    assert fgmp.recording.Progress(0, None).rejected == {}


def test_run_with_noise_and_state_is_refused():
    """Its epsilon would begin anew; from a checkpoint it goes on."""
    noise = fgmp.GaussianNoise(epsilon=5.0, clip=1.0)
    result = fgmp.simulate(METHOD, FED, 2, rng=0, aggregator=noise)
    with pytest.raises(
        ValueError, match="state is given to a run with noise, whose epsilon would begin anew"
    ):
        fgmp.simulate(METHOD, FED, 2, rng=0, aggregator=noise, state=result.state)


def test_a_transport_without_an_answer_is_no_transport():
    """A subclass that has not all members cannot be made."""

    class Silent(fgmp.Transport):
        def for_method(self, method):
            return self

    with pytest.raises(TypeError, match="abstract method"):
        Silent()
