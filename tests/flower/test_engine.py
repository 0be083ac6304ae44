"""One session of the simulation engine: every method and loss, to the same bits as `simulate`."""

import warnings

import numpy as np
from garbage import not_finite
from here import assert_same_run

import fgmp
from fgmp.flower import OverFlower, client_app, on_engine
from fgmp.flower.engine import load_stored, stored
from fgmp.flower.wire import array_record, message_of
from fgmp.running.faults import Changed

N_CLIENTS = 4
FIRST_ORDER = {"learning_rate": 0.05, "local_iterations": 2, "batch_size": 10}
METHODS = {
    "squared": [
        fgmp.FedGradMP(3, batch_size=10),
        fgmp.SharedSupportGradMP(3, fgmp.CountSketch()),
        fgmp.FedIterHT(sparsity=3, **FIRST_ORDER),
        fgmp.FedDualAvg(l1_weight=0.01, **FIRST_ORDER),
    ]
}
NEWTON = fgmp.SharedSupportGradMP(3, fgmp.CountSketch(), fgmp.PooledNewton(1, 1e-2))
METHODS["logistic"] = METHODS["softmax"] = [METHODS["squared"][0], NEWTON, *METHODS["squared"][2:]]
LIAR = 2


def problems():
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((n, 12)) for n in (30, 45, 60, 25)]
    labels = {
        "squared": [A[:, 0] - 2 * A[:, 5] for A in rows],
        "logistic": [np.sign(A[:, 0] + 0.1) for A in rows],
        "softmax": [A[:, :3].argmax(axis=1) for A in rows],
    }
    return {loss: fgmp.Federation.from_arrays(rows, ys, loss) for loss, ys in labels.items()}


def lying(message, context, call_next):
    """Client 2 sends nan where it is asked in exchanges of a run of seed 99."""
    reply = call_next(message, context)
    asked = message.content.config_records["fgmp"]
    if asked["ask"] == "answer" and asked["seed"] == "99" and context.node_config["partition-id"] == LIAR:
        answer = message_of(reply.content.array_records["message"])
        reply.content["message"] = array_record({**answer, "values": np.full_like(answer["values"], np.nan)})
    return reply


def test_the_same_bits_as_simulate_and_a_liar_left_out(tmp_path):
    federations, runs = problems(), {}

    def serve(grid):
        for loss, federation in federations.items():
            (tmp_path / loss).mkdir()
            settings = stored(federation, tmp_path / loss)
            transport = OverFlower(grid, federation.loss, N_CLIENTS, settings=settings)
            for place, method in enumerate(METHODS[loss]):
                for size in (None, 2):
                    runs[loss, place, size] = fgmp.federate(method, transport, 2, size, rng=7, record_every=2)
            if loss == "squared":
                runs["liar"] = fgmp.federate(METHODS[loss][0], transport, 2, rng=99)
        return transport.traffic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traffic = on_engine(serve, client_app(load_stored, mods=[lying]), N_CLIENTS)
        for loss, federation in federations.items():
            for place, method in enumerate(METHODS[loss]):
                for size in (None, 2):
                    here = fgmp.simulate(method, federation, 2, size, rng=7, faults=[], record_every=2)
                    assert_same_run(runs[loss, place, size], here)
        liar = Changed(not_finite, clients=[LIAR])
        assert_same_run(
            runs["liar"], fgmp.simulate(METHODS["squared"][0], federations["squared"], 2, rng=99, faults=liar)
        )
    assert runs["liar"].history["left_out_not_finite"].tolist() == [0, 1, 2]
    last = [run.history["bytes_up"][-1] for key, run in runs.items() if key[0] == "softmax"]
    assert traffic.arrays_up == sum(last)
