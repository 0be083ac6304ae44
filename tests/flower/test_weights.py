"""Under masks a client answers for the weight of its own rows, and no server can choose another."""

import gc

import numpy as np
import pytest
from flwr.app import ConfigRecord
from in_process_grid import InProcessGrid, assert_same_run, transport_to

import fgmp

# Where all updates are lost.
pytestmark = pytest.mark.filterwarnings("ignore:no update arrived")

RNG = np.random.default_rng(0)
ROWS = [RNG.standard_normal((n_rows, 12)) for n_rows in (30, 45, 60, 20)]
TARGETS = [rows[:, 0] - rows[:, 3] for rows in ROWS]
FEDERATION = fgmp.Federation.from_arrays(ROWS, TARGETS)
TOTAL = sum(map(len, ROWS))
VICTIM = 2
METHOD = fgmp.FedAvg(learning_rate=0.05, local_iterations=2)
NO_OBJECTIVE = fgmp.History(objective_on=0)


class AdversarialServerGrid(InProcessGrid):
    """The server tells some clients other weights, by their index."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.false_fields = {}

    def reply(self, index, message):
        question = message.content.config_records["fgmp"]
        if "trip" in question and index in self.false_fields:
            message.content["fgmp"] = ConfigRecord({**question, **self.false_fields[index]})
        return super().reply(index, message)


def run_with_false_fields(false_fields, threshold=3):
    """Return the run of a server that tells clients other weights."""
    transport = transport_to(FEDERATION, grid_class=AdversarialServerGrid, masked_only=True)
    transport.grid.false_fields = false_fields
    secure = fgmp.SecureSum(threshold=threshold)
    return fgmp.simulate(METHOD, transport, 1, rng=4, aggregator=secure, history=NO_OBJECTIVE)


FALSE_WEIGHTS = [
    {"weight": 1.0},
    {"weight": 1.0, "total": len(ROWS[VICTIM])},
    {"weight": 1 / 3},
    {"weight": 0.0, "total": 10**30},
    *({"weight": weight} for weight in (-1.0, 2.0, float("nan"), float("inf"))),
    {"by": "equal"},
    {"by": "fame"},
    {"total": -TOTAL},
]


@pytest.mark.parametrize("false_fields", FALSE_WEIGHTS, ids=str)
def test_weight_that_is_not_of_its_own_rows_is_refused_by_the_client(false_fields, caplog):
    """It has no part in the sum, which is that of the others."""
    over_flower = run_with_false_fields({VICTIM: false_fields})
    in_process = fgmp.simulate(
        METHOD,
        fgmp.Faulty(FEDERATION, fgmp.DropOut(clients=[VICTIM])),
        1,
        rng=4,
        aggregator=fgmp.SecureSum(threshold=3),
    )
    assert over_flower.rejected == {"missing": 1}
    np.testing.assert_array_equal(over_flower.x, in_process.x)
    assert "no reply to a question of the server" in caplog.text


def test_weights_of_zero_for_all_but_one_leave_nobody_to_sum():
    """The attack: a sum that is the update of one client."""
    false_fields = {index: {"weight": float(index == VICTIM)} for index in range(4)}
    result = run_with_false_fields(false_fields, threshold=None)
    assert not result.x.any()
    assert result.rejected == {"missing": 4}


@pytest.mark.parametrize(
    "false_fields",
    [
        {"weight": 0.5, "total": 2 * len(ROWS[VICTIM])},
        {"by": "equal", "weight": 0.25, "total": 4},
    ],
    ids=["total", "kind"],
)
def test_client_with_another_total_has_other_masks(false_fields):
    """Each client believes its own weight, and the sum is noise: what they believe does not fit."""
    result = run_with_false_fields({VICTIM: false_fields})
    assert not result.x.any()
    assert result.rejected == {"malformed": 4}


def test_equal_weights_under_masks_have_the_bits_of_one_process():
    """Each client is one of as many as there are."""
    transport = transport_to(FEDERATION, masked_only=True, weights="equal")
    over_flower = fgmp.simulate(METHOD, transport, 2, rng=4, aggregator=fgmp.SecureSum())
    equal = fgmp.Federation.from_arrays(ROWS, TARGETS, weights=[1, 1, 1, 1])
    in_process = fgmp.simulate(METHOD, equal, 2, rng=4, aggregator=fgmp.SecureSum())
    assert_same_run(over_flower, in_process)


def count_federations():
    """Return how many federations are in memory: a client makes one of the rows that it reads."""
    gc.collect()
    return sum(isinstance(thing, fgmp.Federation) for thing in gc.get_objects())


@pytest.mark.parametrize("aggregator", [None, fgmp.SecureSum()])
def test_client_keeps_no_rows_between_two_questions(aggregator):
    """They are released once a question is answered."""
    counts = []
    before = count_federations()
    fgmp.simulate(
        METHOD,
        transport_to(FEDERATION),
        2,
        rng=4,
        aggregator=aggregator,
        callbacks=lambda run: counts.append(count_federations()),
    )
    assert counts == [before] * 3
