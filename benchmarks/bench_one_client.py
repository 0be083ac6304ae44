"""Target 2: one client, the full batch: recover a k-sparse signal of p entries from m exact observations."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import floors
import numpy as np
from harness import AT_LEAST, AT_MOST, Finding, Row, Scale, interleaved
from peers import peer

import fgmp
from fgmp.recording import Result

SIZES = [(500, 2000, 20), (1000, 10_000, 50), (2000, 20_000, 100)]
FRACTIONS = (0.3, 0.2, 0.1, 0.05)


@dataclass(frozen=True, eq=False)
class Problem:
    """y = A x with Gaussian A (columns of length 1, about) and k entries of x with sizes from 1 to 2."""

    A: np.ndarray
    y: np.ndarray
    x: np.ndarray

    @property
    def support(self) -> np.ndarray:
        """What has to be found."""
        return np.flatnonzero(self.x)

    @property
    def k(self) -> int:
        """Given to everybody."""
        return len(self.support)

    def solved_by(self, coefficients: np.ndarray) -> bool:
        """Whether the support is exact."""
        return np.array_equal(np.flatnonzero(coefficients), self.support)


def problem(m: int, p: int, k: int) -> Problem:
    """One problem; A in Fortran order, which all contestants like best."""
    rng = np.random.default_rng(0)
    A = np.asfortranarray(rng.standard_normal((p, m)).T / np.sqrt(m))
    x = np.zeros(p)
    x[rng.choice(p, k, replace=False)] = rng.choice([-1, 1], k) * rng.uniform(1, 2, k)
    return Problem(A, A @ x, x)


def ours(task: Problem) -> Callable[[], Result]:
    """GradMP: rounds of one full-batch iteration until the objective says that the data are met."""
    federation = fgmp.Federation.from_arrays([task.A], [task.y])
    method = fgmp.FedGradMP(sparsity=task.k, local_iterations=1)
    stop = fgmp.stop_at(1e-20 * float(task.y @ task.y), "objective")
    return lambda: fgmp.simulate(method, federation, rounds=50, rng=0, callbacks=stop)


def contestants(task: Problem) -> dict[str, Callable[[], np.ndarray]]:
    """The peers that are installed, each given k in the way that is cheapest for it.

    OMP stops after k columns; its Gram variant is timed with the Gram matrix it needs, at the smallest size only (the
    matrix has p x p entries). abess takes k. The lassos of celer and skglm know no k: they are given a penalty at which
    their support is exact, and the search for it is not counted.
    """
    from sklearn.linear_model import orthogonal_mp, orthogonal_mp_gram

    A, y, k = task.A, task.y, task.k
    runs: dict[str, Callable[[], Any]] = {
        "scikit-learn OMP": lambda: orthogonal_mp(A, y, n_nonzero_coefs=k)
    }
    if A.shape[1] <= 2000:
        runs["scikit-learn OMP, Gram"] = lambda: orthogonal_mp_gram(
            A.T @ A, A.T @ y, n_nonzero_coefs=k
        )
    if peer("abess").version is not None:
        import abess

        runs["abess"] = lambda: (
            abess.LinearRegression(support_size=k, fit_intercept=False, thread=1).fit(A, y).coef_
        )
    for name in ("celer", "skglm"):
        if peer(name).version is not None:
            runs |= lassos(name, task)
    return runs


def lassos(name: str, task: Problem) -> dict[str, Callable[[], np.ndarray]]:
    """A lasso at several penalties; whoever is exact and fastest counts."""
    if name == "celer":
        from celer import Lasso
    else:
        from skglm import Lasso
    largest = np.abs(task.A.T @ task.y).max() / len(task.y)

    def at(fraction: float) -> Callable[[], np.ndarray]:
        return lambda: (
            Lasso(alpha=fraction * largest, fit_intercept=False).fit(task.A, task.y).coef_
        )

    return {f"{name}, penalty {fraction:g} of the largest": at(fraction) for fraction in FRACTIONS}


def exact_ones(
    task: Problem, runs: dict[str, Callable[[], np.ndarray]]
) -> tuple[dict[str, Any], list[str]]:
    """Those that find the exact support, of each library the fastest; and what is to be said of the others."""
    found, remarks = {}, []
    for name, run in runs.items():
        try:
            exact = task.solved_by(run())
        except Exception as error:  # a peer in a version that does not work here
            remarks.append(f"{name} failed with {type(error).__name__}")
            continue
        if exact:
            found[name] = run
        else:
            remarks.append(f"{name}: not the exact support")
    once = {name: seconds[0] for name, seconds in interleaved(found, 1).items()}
    libraries = {name.partition(",")[0] for name in found}
    fastest = {
        min((n for n in found if n.partition(",")[0] == library), key=once.get)
        for library in libraries
    }
    return {name: run for name, run in found.items() if name in fastest}, remarks


def recovery(scale: Scale) -> Finding:
    """Ours against every peer, and against three passes over A."""
    names = ("scikit-learn", "celer", "skglm", "abess")
    odd = [str(p) for p in map(peer, names) if str(p) != f"{p.name} {p.version}"]
    rows = []
    for m, p, k in scale.pick(SIZES[:1], SIZES, SIZES):
        task, size = problem(m, p, k), f"k={k} of p={p:,} from m={m:,}"
        mine = ours(task)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # peers talk about convergence and about each other's versions
            found, remarks = exact_ones(task, contestants(task))
            residuals = [np.random.default_rng(i).standard_normal(m) for i in range(3)]
            runs = {
                "fgmp": mine,
                "floor": lambda task=task, r=residuals: floors.scans(task.A, r),
                **found,
            }
            seconds = interleaved(
                runs, scale.pick(2, 20 if p < 5000 else 5, 40 if p < 5000 else 15)
            )
        result = mine()
        if not task.solved_by(result.coefficients):
            rows.append(Row(size, [], (AT_LEAST, 4), note="fgmp did not find the exact support"))
            continue
        fastest = min(found, key=lambda name: np.median(seconds[name]))
        milli = {name: 1e3 * float(np.median(values)) for name, values in seconds.items()}
        note = "; ".join(
            [f"{milli['fgmp']:.3g} ms against {milli[fastest]:.3g} ms of {fastest}", *odd, *remarks]
        )
        faster = (seconds[fastest] / seconds["fgmp"]).tolist()
        rows.append(
            Row(
                f"fastest exact peer over FedGradMP, {size}",
                faster,
                (AT_LEAST, 3 if p < 5000 else 4),
                note=note,
            )
        )
        ratios = (seconds["fgmp"] / seconds["floor"]).tolist()
        bound, note = (
            (AT_MOST, 1.6) if p > 2000 else None,
            f"it took {len(result.history['round']) - 1} iterations",
        )
        rows.append(Row(f"FedGradMP over three passes over A, {size}", ratios, bound, note=note))
    return Finding(rows)
