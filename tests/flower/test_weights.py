"""Under masks a client answers for the weight of its own rows: a server that says other weights gets noise."""

import gc

import numpy as np
import pytest
from flwr.app import ConfigRecord
from here import Here, assert_same_run, over

import fgmp

pytestmark = pytest.mark.filterwarnings("ignore:no update arrived")  # where everybody is lost

RNG = np.random.default_rng(0)
ROWS = [RNG.standard_normal((count, 12)) for count in (30, 45, 60, 20)]
FED = fgmp.Federation.from_arrays(ROWS, [A[:, 0] - A[:, 3] for A in ROWS])
TOTAL, VICTIM = sum(map(len, ROWS)), 2
METHOD = fgmp.FedAvg(learning_rate=0.05, local_iterations=2)
UNHEARD = fgmp.History(objective_on=0)


class Lying(Here):
    """The server says other things of weights to some clients: by place."""

    said = {}

    def reply(self, place, message):
        asked = message.content.config_records["fgmp"]
        if "trip" in asked and place in self.said:
            message.content["fgmp"] = ConfigRecord({**asked, **self.said[place]})
        return super().reply(place, message)


def played(said):
    transport = over(FED, kind=Lying, masked_only=True)
    transport.grid.said = said
    secure = fgmp.SecureSum(threshold=3)
    return fgmp.simulate(METHOD, transport, 1, rng=4, aggregator=secure, history=UNHEARD), transport


HALVES = {"weight": 0.5, "total": 2 * len(ROWS[VICTIM])}
LIES = [
    {"weight": 1.0},
    {"weight": 1.0, "total": len(ROWS[VICTIM])},
    {"weight": 1 / 3},
    {"weight": 0.0, "total": 10**30},
    *({"weight": weight} for weight in (-1.0, 2.0, float("nan"), float("inf"))),
    {"by": "equal"},
    {"by": "fame"},
    {"total": -TOTAL},
]


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_a_weight_that_is_not_of_its_own_rows_is_refused_by_the_client(lie, caplog):
    """It has no part in the sum, which is that of the others."""
    there, transport = played({VICTIM: lie})
    here = fgmp.simulate(
        METHOD,
        fgmp.Faulty(FED, fgmp.DropOut(clients=[VICTIM])),
        1,
        rng=4,
        aggregator=fgmp.SecureSum(threshold=3),
    )
    assert there.rejected == {"missing": 1}
    np.testing.assert_array_equal(there.x, here.x)
    assert transport.grid.said and "no reply to a question of the server" in caplog.text


def test_weights_of_zero_for_all_but_one_leave_nobody_to_sum():
    """The attack: a sum that is the answer of one client."""
    said = {place: {"weight": float(place == VICTIM)} for place in range(4)}
    transport = over(FED, kind=Lying, masked_only=True)
    transport.grid.said = said
    there = fgmp.simulate(METHOD, transport, 1, rng=4, aggregator=fgmp.SecureSum(), history=UNHEARD)
    assert not there.x.any() and there.rejected == {"missing": 4}


@pytest.mark.parametrize(
    "victim", [HALVES, {"by": "equal", "weight": 0.25, "total": 4}], ids=["total", "kind"]
)
def test_who_is_told_another_total_has_other_masks_and_the_sum_is_noise(victim):
    """Each believes its own weight; what they believe does not fit together."""
    there, _ = played({VICTIM: victim})
    assert not there.x.any() and there.rejected == {"malformed": 4}


def test_equal_weights_are_checked_alike():
    transport = over(FED, masked_only=True, weights="equal")
    there = fgmp.simulate(METHOD, transport, 2, rng=4, aggregator=fgmp.SecureSum())
    parts = fgmp.Federation.from_arrays(
        ROWS, [A[:, 0] - A[:, 3] for A in ROWS], weights=[1, 1, 1, 1]
    )
    assert_same_run(there, fgmp.simulate(METHOD, parts, 2, rng=4, aggregator=fgmp.SecureSum()))


def federations():
    """How many there are in memory: a client makes one of the rows that it reads."""
    gc.collect()
    return sum(isinstance(thing, fgmp.Federation) for thing in gc.get_objects())


@pytest.mark.parametrize("aggregator", [None, fgmp.SecureSum()])
def test_a_client_keeps_no_rows_after_its_answer(aggregator):
    """Neither after a run, however it ends, nor between two questions of one."""
    transport, between = over(FED), []
    before = federations()
    fgmp.simulate(
        METHOD,
        transport,
        2,
        rng=4,
        aggregator=aggregator,
        callbacks=lambda run: between.append(federations()),
    )
    assert between == [before] * 3
