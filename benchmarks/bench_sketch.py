"""Target 10: what a client's sketch costs, over the gradient that it sketches."""

import numpy as np
from harness import AT_MOST, Finding, Row, Scale, interleaved

import fgmp
from fgmp.models import SparseModel


def sketches(scale: Scale) -> Finding:
    """Both in turns, as a client computes them; the matrix of signs is made once a round and shared by all."""
    rows, repetitions = [], scale.pick(10, 200, 500)
    for n_samples, n_features, tau in ((5, 1000, 10), (50, 1000, 10), (100, 10_000, 20)):
        client = fgmp.make_sparse_regression(1, n_samples, n_features, tau, rng=0).clients[0]
        model, method = SparseModel.zero(client.model_shape), fgmp.SharedSupportGradMP(tau, seed=0)
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
        what = f"sketch of {5 * 8 * tau} numbers over its gradient, {n_samples} rows, n={n_features:,}"
        rows.append(Row(10, what, ratios, (AT_MOST, 1.2)))
    return Finding(rows)
