"""Images by writer at the paper's sizes: real ones where they are at hand, else random ones of the same shape."""

from functools import cache, partial

import numpy as np

import fgmp
from fgmp.method import Call, Method, State, Streams

WRITERS, TEST_WRITERS, IMAGES, PIXELS, CLASSES = 300, 50, 100, 784, 10
COHORT, BATCH, TAU, STEPS = 10, 50, 50, 40


@cache
def images_by_writer(writers: int = WRITERS) -> tuple[fgmp.Federation, fgmp.Federation, str]:
    """Training clients, test clients, and a word on what they are."""
    try:
        data = fgmp.digits_by_writer("mnist-writers", n_train=writers, rng=0)
        return data.train, data.test, "MNIST by writer"
    except (FileNotFoundError, ValueError):
        return (
            made_up(writers, 0),
            made_up(TEST_WRITERS, 1),
            "random images of MNIST's shape and share of ink",
        )


def made_up(writers: int, seed: int, pixels: int = PIXELS) -> fgmp.Federation:
    """Images of which a fifth is ink, with labels that a linear rule gives."""
    rng = np.random.default_rng(seed)
    rule = np.random.default_rng(7).standard_normal((pixels, CLASSES)).astype(np.float32)
    features, labels = [], []
    for _ in range(writers):
        image = rng.random((IMAGES, pixels), dtype=np.float32)
        image *= rng.random((IMAGES, pixels)) < 0.2
        features.append(image)
        labels.append((image @ rule).argmax(axis=1))
    return fgmp.Federation.from_arrays(features, labels, fgmp.SoftmaxLoss(CLASSES))


def contestant(name: str, rate: float = 0.2) -> fgmp.FedAvg | fgmp.FedGradMP:
    """A method of the paper's digits experiment: 40 local gradient steps each, FedGradMP's as 20 times 2."""
    if name == "FedGradMP":
        solver = fgmp.SGD(steps=2, batch_size=BATCH, learning_rate=rate)
        local = dict(local_iterations=STEPS // 2, batch_size=BATCH, solver=solver)
        return fgmp.FedGradMP(sparsity=TAU, radius=1e5, **local)
    own = {"FedAvg": {}, "FedIterHT": {"sparsity": TAU}}.get(name, {"l1_weight": 1e-4})
    return getattr(fgmp, name)(learning_rate=rate, local_iterations=STEPS, batch_size=BATCH, **own)


def clients_work(
    method: fgmp.FedAvg | fgmp.FedGradMP, federation: fgmp.Federation, rounds: int = 5
):
    """A callable that does the client work of one round, from a model a few rounds into a run; and its message."""
    members, history = min(COHORT, federation.n_clients), fgmp.History(every=rounds)
    state = fgmp.simulate(method, federation, rounds, members, rng=0, history=history).state
    return answers(method, federation, state, members), method.exchanges()[0].message(state)


def answers(method: Method, federation: fgmp.Federation, state: State, count: int | None = None):
    """A callable that has the first so many clients answer what the first exchange asks."""
    exchange, transport = method.exchanges()[0], fgmp.LocalClients(federation).for_method(method)
    cohort = np.arange(federation.n_clients if count is None else count)
    call = Call(exchange, exchange.update_spec(state), 0, 1, Streams(2))
    return partial(transport.run_clients, call, exchange.message(state), cohort)
