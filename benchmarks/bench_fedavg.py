"""Target 3: FedAvg for softmax regression, a few rows and many pixels: client work of one round."""

import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import AT_LEAST, Finding, Row, Scale, interleaved
from images import (
    BATCH,
    CLASSES,
    COHORT,
    PIXELS,
    STEPS,
    clients_work,
    contestant,
    images_by_writer,
    made_up,
)
from peers import Peer, flower_python, peer
from textbook import softmax_steps

RATE = 0.2


def arrays(clients: Any) -> tuple[np.ndarray, np.ndarray]:
    """Features in row order and labels, stacked: how everybody else keeps them."""
    return np.array([np.ascontiguousarray(c.features) for c in clients]), np.array(
        [c.targets for c in clients]
    )


def textbook(clients: Any) -> Callable[[], None]:
    """The plain loop."""
    features, labels = arrays(clients)
    rng, w = np.random.default_rng(0), np.zeros((features.shape[2], CLASSES), np.float32)

    def run() -> None:
        for X, y in zip(features, labels, strict=True):
            softmax_steps(X, y, w, RATE, STEPS, BATCH, rng)

    return run


def loss(w: Any, batch: dict[str, Any], _: Any = None) -> Any:
    """The softmax loss, for JAX."""
    import jax

    return -jax.numpy.mean(
        jax.numpy.take_along_axis(jax.nn.log_softmax(batch["x"] @ w), batch["y"][:, None], axis=1)
    )


def vmap(clients: Any) -> Callable[[], None]:
    """`jax.vmap` over the clients of a cohort, `scan` over the steps, compiled; minibatches drawn at once by NumPy."""
    import jax

    def local_steps(w: Any, X: Any, y: Any, minibatches: Any) -> Any:
        def step(w: Any, rows: Any) -> Any:
            return w - RATE * jax.grad(loss)(w, {"x": X[rows], "y": y[rows]}), None

        return jax.lax.scan(step, w, minibatches)[0]

    compiled = jax.jit(jax.vmap(local_steps, (None, 0, 0, 0)))
    features, labels = (jax.numpy.asarray(a) for a in arrays(clients))
    rng, w = np.random.default_rng(0), jax.numpy.zeros((PIXELS, CLASSES))
    shape = (len(clients), STEPS, features.shape[1])

    def run() -> None:
        minibatches = rng.random(shape).argpartition(BATCH - 1, axis=2)[:, :, :BATCH]
        compiled(w, features, labels, minibatches).block_until_ready()

    return run


def fedjax(clients: Any) -> Callable[[], None]:
    """FedJAX's own federated averaging.

    Its last release calls `jax.tree_map`, which JAX has since renamed; the old name is put back for it.
    """
    import jax

    jax.tree_map = jax.tree.map
    from fedjax import ClientDataset, ShuffleRepeatBatchHParams, optimizers
    from fedjax.algorithms.fed_avg import federated_averaging

    batches = ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=None, num_steps=STEPS, seed=0)
    algorithm = federated_averaging(
        jax.grad(loss), optimizers.sgd(RATE), optimizers.sgd(1.0), batches
    )
    features, labels = arrays(clients)
    cohort = [
        (key, ClientDataset({"x": X, "y": y.astype(np.int32)}), jax.random.PRNGKey(key))
        for key, (X, y) in enumerate(zip(features, labels, strict=True))
    ]
    state = algorithm.init(jax.numpy.zeros((PIXELS, CLASSES)))
    return lambda: jax.block_until_ready(algorithm.apply(state, cohort)[0].params)


def flower(clients: Any, rounds: int) -> tuple[list[float], Peer]:
    """Seconds of rounds of Flower's simulation engine, without its start and first round; and its version."""
    features, labels = arrays(clients)
    script = Path(__file__).with_name("flower_round.py")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "clients.npz"
        np.savez(data, features=features, labels=labels)
        task = {
            "data": str(data),
            "rounds": rounds,
            "cohort": COHORT,
            "steps": STEPS,
            "batch": BATCH,
            "rate": RATE,
        }
        command = [str(flower_python()), str(script), json.dumps(task)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with subprocess.Popen(command, **pipes) as process:
            try:
                output, _ = process.communicate(timeout=150)
            except BaseException:
                process.terminate()  # its engine then stops its own helpers
                raise
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, "flower_round.py")
    found = json.loads(output.splitlines()[-1])
    return found["seconds"], peer("flwr", found["version"])


def in_process(clients: Any) -> tuple[dict[str, Callable[[], None]], dict[str, str]]:
    """The contestants that run here, and what hinders the others."""
    runs, trouble = {"textbook": textbook(clients)}, {}
    for name, needs, make in (("jax.vmap", "jax", vmap), ("FedJAX", "fedjax", fedjax)):
        if peer(needs).version is None:
            trouble[name] = str(peer(needs))
            continue
        try:
            run = make(clients)
            run()
        except Exception as error:  # a peer in a version that does not work here
            trouble[name] = (
                f"{peer(needs)} failed with {type(error).__name__}: {error}".splitlines()[0]
            )
        else:
            runs[name] = run
    return runs, trouble


def client_work(scale: Scale) -> Finding:
    """Ours against the plain loop, FedJAX, `jax.vmap` and Flower."""
    federation, _, data = images_by_writer()
    cohort = federation.clients[:COHORT]
    mine, _ = clients_work(contestant("FedAvg", RATE), federation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs, trouble = in_process(cohort)
        seconds = interleaved({"fgmp": mine, **runs}, scale.pick(2, 20, 80))
    versions = {"FedJAX": peer("fedjax"), "jax.vmap": peer("jax")}
    if flower_python() is None:
        trouble["Flower"] = "flwr is missing"
    else:
        try:
            rounds, versions["Flower"] = flower(federation.clients, scale.pick(3, 12, 30))
            seconds["Flower"] = np.array(rounds)
        except (subprocess.SubprocessError, ValueError, IndexError, KeyError) as error:
            trouble["Flower"] = f"Flower failed with {type(error).__name__}"
    milli = {name: 1e3 * float(np.median(values)) for name, values in seconds.items()}
    # Where FedJAX does not run, `jax.vmap` stands in for it; otherwise it is only reported.
    stand_in = "FedJAX" not in seconds
    rows = []
    for name, limit in (
        ("textbook", 5.0),
        ("FedJAX", 5.0),
        ("jax.vmap", 5.0 if stand_in else None),
        ("Flower", 25.0),
    ):
        bound = limit and (AT_LEAST, limit)
        what = f"FedAvg softmax, client work of a round: {name} over fgmp"
        if name not in seconds:
            rows.append(Row(what, [], bound, note=trouble[name]))
            continue
        # Flower's rounds do not take turns with ours, so its ratios are taken against our median.
        own = seconds["fgmp"] if name in runs else np.median(seconds["fgmp"])
        note = f"{milli['fgmp']:.3g} ms against {milli[name]:.3g} ms; {data}"
        if name in versions:
            note += f"; {versions[name]}"
        if name == "Flower":
            note += "; its round includes its own messages and its polling"
        rows.append(Row(what, (seconds[name] / own).tolist(), bound, note=note))
    return Finding([*rows, small_images(scale)])


def small_images(scale: Scale) -> Row:
    """The same over the plain loop on images of 8 x 8 pixels."""
    federation = made_up(2 * COHORT, 0, 64)
    mine, _ = clients_work(contestant("FedAvg", RATE), federation)
    seconds = interleaved(
        {"fgmp": mine, "textbook": textbook(federation.clients[:COHORT])}, scale.pick(2, 40, 80)
    )
    note = f"{1e3 * np.median(seconds['fgmp']):.3g} ms; random images"
    ratios = (seconds["textbook"] / seconds["fgmp"]).tolist()
    return Row("FedAvg softmax on 64 pixels: textbook over fgmp", ratios, (AT_LEAST, 5), note=note)
