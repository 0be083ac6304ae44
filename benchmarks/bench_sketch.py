"""Target 10: what a client's sketch costs, over the gradient that it sketches."""

from itertools import product

import numpy as np
from harness import AT_MOST, Finding, Row, Scale, interleaved

import fgmp
from fgmp.models import SparseModel


def sketches(scale: Scale) -> Finding:
    """Both in turns, as a client computes them; the matrix of signs is made once a round and shared by all."""
    rows, repetitions = [], scale.pick(10, 200, 500)
    sizes = ((5, 1000, 10), (50, 1000, 10), (100, 10_000, 20))
    for (n_samples, n_features, tau), first in product(sizes, (True, False)):
        federation = fgmp.make_sparse_regression(1, n_samples, n_features, tau, rng=0)
        client, model = federation.clients[0], SparseModel.of((0 if first else 0.5) * federation.truth)
        method = fgmp.SharedSupportGradMP(tau, seed=0)
        gradient, question = client.gradient(model), method.question(0)

        def many(function) -> None:
            for _ in range(repetitions):
                function()

        contest = {
            "gradient": lambda client=client, model=model: many(lambda: client.gradient(model)),
            "sketch": lambda method=method, gradient=gradient, question=question: many(
                lambda: method.identify.answer(gradient, question)
            ),
        }
        seconds = interleaved(contest, scale.pick(2, 15, 40))
        ratios = (np.array(seconds["sketch"]) / seconds["gradient"]).tolist()
        where = "first round" if first else "later rounds"
        what = f"sketch of {3 * 14 * tau} numbers over its gradient, {n_samples} rows, n={n_features:,}, {where}"
        rows.append(Row(10, what, ratios, (AT_MOST, 1.2)))
    return Finding(rows)
