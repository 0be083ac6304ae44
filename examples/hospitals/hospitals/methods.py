"""Three methods of this application's own, each of a few lines: what any runtime of fgmp can run, Flower or not.

Common units, a whole path of sparsities in the messages of one, and losses on rows that were held out.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fgmp.methods.answers import check_arrays
from fgmp.methods.contract import Exchange


@dataclass(frozen=True)
class Plain:
    """What the three share: clients work on their rows as they are, and no model is an estimate."""

    def check(self, shape):
        """Any shape fits."""

    def prepare(self, client):
        return client

    def coefficients(self, state):
        return np.zeros(1)

    estimate = coefficients


@dataclass(frozen=True)
class Units(Plain):
    """Means over everybody's rows, then the mean squares about them: of all columns, and of the target."""

    def start(self, shape):
        return {"n": np.zeros(shape.n_features + 1)}

    def exchanges(self):
        return (
            Exchange(lambda state: {}, self.means, self.keep("means"), self.check_numbers),
            Exchange(lambda state: {"means": state["means"]}, self.squares, self.keep("squares"), self.check_numbers),
        )

    def means(self, client, message, rng):
        return {"sums": np.append(client.features.mean(axis=0), client.targets.mean())}

    def squares(self, client, message, rng):
        about = np.column_stack([client.features, client.targets]) - message["means"]
        return {"sums": (about**2).mean(axis=0)}

    def keep(self, name):
        return lambda state, replies: state | {name: sum(reply.weight * reply.message["sums"] for reply in replies)}

    def check_numbers(self, state, message):
        check_arrays(message, {"sums": (state["n"].shape, np.dtype(float))})


@dataclass(frozen=True)
class Path(Plain):
    """Several methods of one exchange side by side: a round of all of them takes the messages of one."""

    methods: tuple[Any, ...] = ()

    def check(self, shape):
        for method in self.methods:
            method.check(shape)

    def start(self, shape):
        return tuple(method.start(shape) for method in self.methods)

    def exchanges(self):
        return (Exchange(self.broadcast, self.answer, self.combine, self.check_answer),)

    def each(self):
        return [method.exchanges()[0] for method in self.methods]

    def broadcast(self, state):
        return named(exchange.broadcast(part) for exchange, part in zip(self.each(), state, strict=True))

    def answer(self, client, message, rng):
        parts = split(message, len(self.methods))
        return named(exchange.answer(client, part, rng) for exchange, part in zip(self.each(), parts, strict=True))

    def combine(self, state, replies):
        parts = [split(reply.message, len(self.methods)) for reply in replies]
        return tuple(
            exchange.combine(own, [reply._replace(message=part[i]) for reply, part in zip(replies, parts, strict=True)])
            for i, (exchange, own) in enumerate(zip(self.each(), state, strict=True))
        )

    def check_answer(self, state, message):
        if any(not name.split(".")[0].isdigit() or int(name.split(".")[0]) >= len(state) for name in message):
            raise ValueError(f"message holds {sorted(message)}; expected parts 0 to {len(state) - 1}")
        for exchange, own, part in zip(self.each(), state, split(message, len(state)), strict=True):
            exchange.check(own, part)


@dataclass(frozen=True)
class Losses(Plain):
    """The mean loss of several models at each client: here, on the rows that it held out."""

    models: tuple[tuple[float, ...], ...] = ()

    def start(self, shape):
        return ()

    def exchanges(self):
        return (Exchange(lambda state: {}, self.answer, self.combine, self.check_losses),)

    def answer(self, client, message, rng):
        return {"losses": np.array([client.objective(np.array(model)) for model in self.models])}

    def combine(self, state, replies):
        """All of them, with the weight of the client before each."""
        return np.array([[reply.weight, *reply.message["losses"]] for reply in replies])

    def check_losses(self, state, message):
        check_arrays(message, {"losses": ((len(self.models),), np.dtype(float))})
        if (message["losses"] < 0).any():
            raise ValueError("a loss is negative")


KINDS = (Units, Path, Losses)


def named(parts):
    """Messages as one, their number before each name."""
    return {f"{i}.{name}": array for i, part in enumerate(parts) for name, array in part.items()}


def split(message, count):
    """The inverse of `named`."""
    parts = [{} for _ in range(count)]
    for name, array in message.items():
        number, rest = name.split(".", 1)
        parts[int(number)][rest] = array
    return parts
