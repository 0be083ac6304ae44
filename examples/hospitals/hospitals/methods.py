"""Three methods of this application's own, each of a few lines: sums over the hospitals, and nothing of a single one.

Common units, a whole path of sparsities in the messages of one, and losses on rows that were held out.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fgmp.models import SparseModel
from fgmp.rounds import Exchange, Form, Method


class Moments(NamedTuple):
    """Of all columns, and of the target."""

    means: np.ndarray
    squares: np.ndarray


@dataclass(frozen=True)
class Units(Method):
    """Means over everybody's rows, then the mean squares about them."""

    def start(self, shape):
        return Moments(*np.zeros((2, shape.n_features + 1)))

    def exchanges(self):
        form = lambda state: Form(state.means.shape)  # noqa: E731
        keep = {name: lambda state, mean, name=name: state._replace(**{name: mean}) for name in Moments._fields}
        return (
            Exchange(lambda state: 0, self.means, keep["means"], form),
            Exchange(lambda state: state.means, self.squares, keep["squares"], form),
        )

    def means(self, client, message, rng):
        return np.append(client.features.mean(axis=0), client.targets.mean())

    def squares(self, client, means, rng):
        return ((np.column_stack([client.features, client.targets]) - means) ** 2).mean(axis=0)

    def coefficients(self, state):
        return np.zeros(len(state.means) - 1)


@dataclass(frozen=True)
class Path(Method):
    """Several methods of one exchange and a sparse model each, side by side: their models one after another are one."""

    methods: tuple = ()

    def check(self, shape):
        for method in self.methods:
            method.check(shape)

    def start(self, shape):
        return tuple(method.start(shape) for method in self.methods)

    def exchanges(self):
        return (Exchange(self.ask, self.answer, self.update, self.form),)

    def each(self, *several):
        return zip([method.exchanges()[0] for method in self.methods], *several, strict=True)

    def ask(self, state):
        return tuple(exchange.ask(own) for exchange, own in self.each(state))

    def answer(self, client, message, rng):
        models = [exchange.answer(client, part, rng) for exchange, part in self.each(message)]
        places = [client.n_features * i + model.support for i, model in enumerate(models)]
        values = np.concatenate([model.values for model in models])
        return SparseModel(np.concatenate(places), values, (client.n_features * len(models),))

    def form(self, state):
        forms = [exchange.form(own) for exchange, own in self.each(state)]
        return replace(forms[0], shape=(sum(f.shape[0] for f in forms),), most=sum(f.most for f in forms), near=None)

    def update(self, state, mean):
        return tuple(exchange.update(*each) for exchange, *each in self.each(state, np.split(mean, len(state))))

    def coefficients(self, state):
        return state[-1]


@dataclass(frozen=True)
class Losses(Method):
    """The mean losses of several models, l, and of their products l l': here, on the rows that were held out."""

    models: tuple = ()

    def start(self, shape):
        return np.zeros((len(self.models) + 1, len(self.models)))

    def exchanges(self):
        return (Exchange(lambda state: 0, self.answer, lambda state, mean: mean, lambda state: Form(state.shape)),)

    def answer(self, client, message, rng):
        losses = np.array([client.objective(np.array(model)) for model in self.models])
        return np.vstack([losses, np.outer(losses, losses)])

    def coefficients(self, state):
        return np.array(self.models[-1])


KINDS = (Units, Path, Losses)
