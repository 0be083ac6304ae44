"""Noise over Flower's messages: what travels gives none of it away, and one client moves a sum by 2 C / L at most."""

import numpy as np
import pytest
from here import Here, assert_same_run, grid_of, over, spoiling
from noise_attack import old_way, seen_in, takes_off

import fgmp
from fgmp.flower import OverFlower
from fgmp.flower.wire import array_record, message_of
from fgmp.models import decode
from fgmp.running.privacy import Accounted, accounted

pytest.importorskip("dp_accounting")

FED = fgmp.make_sparse_regression(5, 40, 30, 3, rng=0)
UNEVEN = fgmp.Federation.from_arrays(
    [c.features[: 5 + 8 * i] for i, c in enumerate(FED.clients)],
    [c.targets[: 5 + 8 * i] for i, c in enumerate(FED.clients)],
)
METHOD = fgmp.FedAvg(learning_rate=0.1)
pytestmark = pytest.mark.filterwarnings("ignore::fgmp.RehearsalWarning")


def rehearsed(clip=0.05, **more):
    return fgmp.GaussianNoise(2.0, clip, rehearsal_seed=17, **more)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("method", [METHOD, fgmp.SharedSupportGradMP(3)], ids=lambda method: type(method).__name__)
def test_the_bits_of_the_simulation_and_no_objective_is_asked_for(method, public, monkeypatch):
    for place in ("fgmp.running.privacy.spent", "fgmp.running.summing.spent"):  # which takes long, and is not asked
        monkeypatch.setattr(place, lambda multiplier, *_: 1 / multiplier)
    transport = over(UNEVEN)
    there = fgmp.federate(method, transport, 2, 3, rng=4, private=rehearsed(0.5, public_weights=public))
    assert_same_run(there, fgmp.simulate(method, UNEVEN, 2, 3, rng=4, private=rehearsed(0.5, public_weights=public)))
    assert {asked["ask"] for _, asked in transport.grid.asked} == {"who", "answer"}
    assert "objective" not in there.history


class Listening(Here):
    """Keeps all that is sent to the first client."""

    def push_messages(self, messages):
        for message in messages:
            if message.metadata.dst_node_id == 100:
                self.heard.append(message.content)
        return super().push_messages(messages)


@pytest.mark.parametrize("drawn_from", ["a secret", "a rehearsal seed", "the seed of the run, as it was"])
def test_no_client_takes_the_noise_off(drawn_from, monkeypatch):
    grid, seed = grid_of(FED), 987_654_321_987
    grid.__class__, grid.heard = Listening, []
    noise = rehearsed() if drawn_from == "a rehearsal seed" else fgmp.GaussianNoise(2.0, 0.05)
    private = accounted(noise, bytes(32), 5, 5, 1, 2)
    scale = private.multiplier * 2 * 0.05 / 5
    if "as it was" in drawn_from:
        monkeypatch.setattr(Accounted, "noise_on_sum", lambda self, d, L, *place: scale * old_way(seed, d, *place[:2]))
    result = fgmp.federate(METHOD, OverFlower(grid, FED.loss, 5), 2, rng=seed, private=noise)
    first, second = (message_of(content.array_records["message"]) for content in grid.heard[1:])
    steps = [-0.1 * client.gradient(np.zeros(30)) for client in FED.clients]
    clean = np.mean([step * min(1, 0.05 / np.linalg.norm(step)) for step in steps], axis=0)
    heard = [
        [dict(record) for record in content.config_records.values()]
        + [message_of(record) for record in content.array_records.values()]
        for content in grid.heard
    ]
    candidates = seen_in(heard, result, repr(result), grid.contexts[0].state.config_records["fgmp"])
    assert seed in candidates
    found = takes_off(decode(second, (30,)) - clean, private, 5, first, candidates)
    assert found == (drawn_from != "a secret")


def without_numbers(reply):
    message = message_of(reply.content.array_records["message"])
    reply.content["message"] = array_record({name: np.full_like(array, np.nan) for name, array in message.items()})


@pytest.mark.parametrize("spoils", [False, True])
def test_replacing_a_client_and_its_rows_moves_the_sum_by_no_more_than_accounted(spoils):
    """The noise is the same on both sides, and drops out."""
    rng = np.random.default_rng(0)
    rows = [100 * rng.standard_normal((400, 30)), *(c.features for c in UNEVEN.clients[1:])]
    other = fgmp.Federation.from_arrays(
        rows, [A.sum(axis=1) for A in rows[:1]] + [c.targets for c in UNEVEN.clients[1:]]
    )
    mods = {0: [spoiling(without_numbers)]} if spoils else {}
    before = fgmp.federate(METHOD, over(UNEVEN), 1, rng=4, private=rehearsed()).x
    after = fgmp.federate(METHOD, over(other, mods), 1, rng=4, private=rehearsed()).x
    assert 0 < np.linalg.norm(after - before) <= 2 * 0.05 / 5 * (1 + 1e-9)


def test_clients_do_not_add_up_under_masks_what_the_server_would_have_to_clip():
    with pytest.raises(ValueError, match="private is given, and the answers are summed by the clients"):
        fgmp.federate(METHOD, over(FED), 1, rng=4, private=rehearsed(), secure=fgmp.SecureSum())
