"""Target 1: where the microseconds of a local iteration of FedGradMP go, in NumPy and compiled."""

import time
from collections.abc import Callable

import numpy as np
from bench_fedgradmp import BATCH, ROWS, TAU, ours, some_model, without_numba
from harness import Curve, Finding, Scale, interleaved

import fgmp
from fgmp.linear_systems import least_squares
from fgmp.local.compiled import compiling_pays
from fgmp.local.loops import candidates, normal_equations
from fgmp.selection import largest, mark_largest

PRECISION = 2.0**-52


def parts(clients: tuple[fgmp.Client, ...]) -> dict[str, Callable[[fgmp.Client], object]]:
    """What an iteration is made of, each for one client."""
    n, rng = clients[0].n_features, np.random.default_rng(0)
    merged, support = (np.sort(rng.choice(n, size, replace=False)) for size in (3 * TAU, TAU))
    rows, weights, vector = rng.permutation(ROWS)[:BATCH], rng.standard_normal(BATCH), rng.standard_normal((1, n))
    masked, solution = np.zeros(ROWS), rng.standard_normal(3 * TAU)
    masked[rows] = weights
    columns = {client.key: client.columns(merged) for client in clients}
    return {
        "NumPy: product with all rows": lambda client: np.dot(client.features.T, masked),
        "NumPy: selection of 2 tau": lambda client: mark_largest(np.abs(vector), 2 * TAU),
        "NumPy: gather of columns": lambda client: client.columns(merged),
        "NumPy: least squares": lambda client: least_squares(columns[client.key], client.targets),
        "NumPy: selection of tau": lambda client: largest(np.abs(solution), TAU),
        "compiled: rows and selection": lambda client: candidates(
            client.features_by_row, rows, weights, 2 * TAU, support
        ),
        "compiled: least squares": lambda client: normal_equations(
            columns[client.key].T, client.targets, PRECISION, PRECISION**0.75
        ),
    }


def microseconds(scale: Scale) -> Finding:
    """A bar for each part; the rest is what the whole takes beyond its parts."""
    curves: list[Curve] = []
    for n in (1000, 10_000):
        clients = fgmp.make_sparse_regression(scale.pick(5, 50, 50), ROWS, n, TAU, rng=0).clients
        if not compiling_pays(clients[0]):
            return Finding([])  # without Numba there is one kind only
        whole = ours(clients, some_model(n).message())
        runs: dict[str, Callable[[], object]] = {"compiled": whole, "NumPy": without_numba(whole)}
        for name, part in parts(clients).items():
            runs[name] = lambda part=part, clients=clients: [part(client) for client in clients]
        seconds = interleaved(runs, scale.pick(2, 25, 80), time.process_time)
        for kind in ("NumPy", "compiled"):
            micro = {
                name.partition(": ")[2]: 1e6 * float(np.median(values)) / len(clients)
                for name, values in seconds.items()
                if name.startswith(f"{kind}: ")
            }
            total = 1e6 * float(np.median(seconds[kind])) / (len(clients) * 3)
            micro |= {"the rest": max(total - sum(micro.values()), 0.0)}
            words = f"{kind}, n={n:,}: {total:.0f} us"
            curves.append(Curve("microseconds", words, list(micro), list(micro.values()), "", "us"))
    return Finding([], curves)
