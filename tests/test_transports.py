"""The round loop over transports: the same bits whatever carries the messages, and nothing that it trusts."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

import fgmp
from fgmp.methods.answers import REASONS, Missed
from fgmp.methods.kernels import answer_of
from fgmp.running.randomness import client_generator
from fgmp.shapes import described

FED = fgmp.make_sparse_regression(6, 30, 40, 3, rng=0)
METHODS = [
    fgmp.FedGradMP(3, batch_size=10),
    fgmp.SharedSupportGradMP(3),
    fgmp.FedIterHT(sparsity=3, learning_rate=0.1, local_iterations=2, batch_size=10),
    fgmp.FedDualAvg(l1_weight=0.01, learning_rate=0.05, local_iterations=2),
]


class Post:
    """Clients that get bytes and JSON only, as on other machines; `lie` may change what they send."""

    truth, left_out, clients = None, (0,) * len(REASONS), ()

    def __init__(self, federation, lie=lambda place, answer: answer):
        self.federation, self.lie, self.shape = federation, lie, federation.shape

    def fingerprint(self):
        return described(self.shape)

    def prepare(self, method, seed):
        self.text = fgmp.to_json(method)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def answers(self, cohort, message, seed, number, index):
        return [self.lie(i, carried(self.answer(i, carried(message), seed, number, index))) for i in cohort]

    def answer(self, i, message, seed, number, index):
        method = fgmp.from_json(*self.text)
        exchange, client = method.exchanges()[index], method.prepare(self.federation.clients[i])
        return answer_of(exchange, client)(client, message, client_generator(seed, number, index, client))

    def objectives(self, places, model):
        method = fgmp.from_json(*self.text)
        return [method.prepare(self.federation.clients[i]).objective(model) for i in places]


def carried(message):
    """A message as bytes and back."""
    file = io.BytesIO()
    np.savez(file, **message)
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def without_seconds(history):
    return {name: column for name, column in history.items() if name not in ("seconds", "relative_error")}


@pytest.mark.parametrize("cohort_size", [None, 4])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_server_without_data_ends_in_the_same_bits(method, cohort_size):
    there = fgmp.federate(method, Post(FED), 4, cohort_size, rng=3)
    here = fgmp.simulate(method, FED, 4, cohort_size, rng=3, faults=[])
    np.testing.assert_array_equal(there.x, here.x)
    mine, theirs = without_seconds(there.history), without_seconds(here.history)
    assert mine.keys() == theirs.keys()
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    assert np.array_equal(there.best.x, here.best.x) and there.best.round == here.best.round


def test_a_checkpoint_of_a_server_without_data_goes_on(tmp_path):
    method, path = METHODS[1], tmp_path / "run"
    fgmp.federate(method, Post(FED), 2, 4, rng=3, checkpoint=path)
    assert path.exists()
    gone_on = fgmp.federate(method, Post(FED), 5, 4, checkpoint=path)
    whole = fgmp.simulate(method, FED, 5, 4, rng=3)
    np.testing.assert_array_equal(gone_on.x, whole.x)
    assert gone_on.history["round"].tolist() == list(range(6))
    other = fgmp.make_sparse_regression(6, 31, 40, 3, rng=0)
    with pytest.raises(ValueError, match="is of another run: .*n_clients is 5, not 6"):
        fgmp.federate(method, Post(fgmp.Federation(other.clients[:5], np.ones(5))), 6, 4, checkpoint=path)


HOSTILE = {"late": lambda answer: Missed("late", answer), "weight": lambda answer: Missed("weight", answer)}


@pytest.mark.parametrize("reason", HOSTILE)
def test_what_a_transport_says_of_an_answer_is_counted(reason):
    lie = HOSTILE[reason]
    result = fgmp.federate(METHODS[0], Post(FED, lambda i, answer: lie(answer) if i == 2 else answer), 3, rng=0)
    counts = {each: int(result.history[f"left_out_{each}"][-1]) for each in REASONS}
    assert counts == dict.fromkeys(REASONS, 0) | {reason: 3}
    # As if it had never answered: the weights are scaled to the rest.
    without = fgmp.simulate(METHODS[0], FED, 3, rng=0, faults=fgmp.DropOut(clients=[2]))
    np.testing.assert_array_equal(result.x, without.x)


class Silent(Post):
    """Client 1 does not say its objective."""

    def objectives(self, places, model):
        return [None if i == 1 else value for i, value in zip(places, super().objectives(places, model), strict=True)]


def test_the_objective_is_the_mean_over_those_who_say_theirs():
    result = fgmp.federate(METHODS[0], Silent(FED), 1, rng=0)
    rest = np.arange(6) != 1
    each = np.array([client.objective(result.x) for client in FED.clients])
    np.testing.assert_allclose(result.history["objective"][-1], each[rest].mean(), rtol=1e-12)


class Mute(Post):
    def objectives(self, places, model):
        return [None for _ in places]


def test_without_any_objective_the_history_says_nan():
    result = fgmp.federate(METHODS[0], Mute(FED), 2, rng=0)
    assert np.isnan(result.history["objective"]).all()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_loop_of_contributing_ends_in_the_bits_of_simulate(method):
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    (block,) = [part for part in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "draw_cohort" in part]
    clients = [method.prepare(client) for client in FED.clients]
    names = dict(method=method, shape=FED.shape, clients=clients, seed=3, rounds=4, cohort_size=4)
    exec(block, names)
    here = fgmp.simulate(method, FED, 4, 4, rng=3)
    np.testing.assert_array_equal(method.estimate(names["state"]), here.x)
