"""The experiment of Figures 6 and 7: digits by writer, one classifier, and methods that learn it."""

import json
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

import fgmp
from fgmp.datasets.digits import DigitsByWriter

from .claims import each
from .store import NOTEBOOKS, stored

__all__ = ["CODINGS", "Accuracies", "Learning", "cell_of", "coded_digits", "kept_table", "learn"]
__all__ += ["learn_all", "table_of"]

# How a row of pixels is written. Images are read with 1 for ink; Federated EMNIST is published
# with 1 for paper; the paper's theorem on dictionaries has rows of length one (line 1089).
CODINGS = {
    "ink = 1": lambda pixels: pixels,
    "paper = 1": lambda pixels: 1 - pixels,
    "length 1": lambda pixels: pixels / np.linalg.norm(pixels, axis=1, keepdims=True),
}


@dataclass(frozen=True, kw_only=True)
class Learning:
    """All that one run of the experiment depends on.

    Attributes
    ----------
    method : str
        A class of fgmp.
    learning_rate : float
        Of each local step; those of FedGradMP are the steps of its inner SGD.
    sparsity : int or None
        tau of FedGradMP and FedIterHT.
    n_atoms : int or None
        Atoms of a random Gaussian dictionary, drawn from the seed; None is the standard basis.
    coding : str
        One of `CODINGS`.
    seed : int
        Of the writers, the cohorts, the minibatches and the dictionary.
    rounds, cohort_size, batch_size, local_iterations, sgd_steps : int
        FedGradMP takes `sgd_steps` steps in each of its local iterations, and the other methods as
        many steps in all.
    l1_weight, radius : float
        lambda of FedMid and FedDualAvg, and the radius of the ball that holds FedGradMP's models.
    every : int
        Rounds between two records.
    dataset, n_train, n_test, n_samples, concentration
        As in `fgmp.digits_by_writer`.
    """

    method: str
    learning_rate: float
    sparsity: int | None = None
    n_atoms: int | None = None
    coding: str = "ink = 1"
    seed: int = 0
    rounds: int
    cohort_size: int
    batch_size: int
    local_iterations: int
    sgd_steps: int
    l1_weight: float = 1e-4
    radius: float = 1e5
    every: int
    dataset: str
    n_train: int | None = None
    n_test: int | None = None
    n_samples: int | None = None
    concentration: float = 1.0

    @property
    def cell(self) -> str:
        """The name of its cell in a table."""
        return cell_of(self.method, self.learning_rate, self.sparsity, self.coding, self.n_atoms)

    def digits(self) -> DigitsByWriter:
        """Return the writers of this run, in its coding."""
        sizes = (self.n_train, self.n_test, self.n_samples)
        return coded_digits(self.coding, self.dataset, *sizes, self.seed, self.concentration)

    def method_of_fgmp(self) -> fgmp.Method:
        """Return the method with its parameters."""
        steps = self.local_iterations * self.sgd_steps
        own: dict = {"learning_rate": self.learning_rate, "local_iterations": steps}
        if self.method == "FedGradMP":
            solver = fgmp.SGD(self.learning_rate, self.sgd_steps, self.batch_size)
            own = {"solver": solver, "local_iterations": self.local_iterations}
            own["radius"] = self.radius
        if self.method in ("FedMid", "FedDualAvg"):
            own["l1_weight"] = self.l1_weight
        if self.sparsity is not None:
            own["sparsity"] = self.sparsity
        if self.n_atoms is not None:
            n_pixels = self.digits().train.model_shape[0]
            own["dictionary"] = fgmp.gaussian_dictionary(
                n_pixels, self.n_atoms, rng=self.seed, approximation="thresholding"
            )
        return getattr(fgmp, self.method)(batch_size=self.batch_size, **own)


@lru_cache(maxsize=6)
def coded_digits(coding, dataset, n_train, n_test, n_samples, seed, concentration):
    """Return `fgmp.digits_by_writer` with its pixels coded anew."""
    sizes = {"n_train": n_train, "n_test": n_test, "n_samples": n_samples}
    digits = fgmp.digits_by_writer(dataset, **sizes, rng=seed, concentration=concentration)
    parts = []
    for part in (digits.train, digits.test):
        rows = [CODINGS[coding](client.features) for client in part.clients]
        labels = [client.targets for client in part.clients]
        parts.append(fgmp.Federation.from_arrays(rows, labels, loss=part.loss))
    names = (digits.train_writers, digits.test_writers)
    return DigitsByWriter(*parts, *names, digits.image_shape)


def learn(job: Learning) -> dict:
    """Run once: accuracies every few rounds, bytes, nonzeros, and the seconds of processors.

    "training" is the accuracy on as many of the training clients as there are unseen ones.
    """
    digits = job.digits()
    seen = digits.train.subset(slice(digits.test.n_clients))
    metrics = {"training": fgmp.accuracy_on(seen), "unseen": fgmp.accuracy_on(digits.test)}
    history = fgmp.History(job.every, metrics, objective_on=0)
    options = {"cohort_size": job.cohort_size, "rng": job.seed, "history": history}
    begin = time.process_time()
    result = fgmp.simulate(job.method_of_fgmp(), digits.train, job.rounds, **options)
    table = result.history
    return {
        "round": table["round"].astype(int).tolist(),
        "training": table["training"].tolist(),
        "unseen": table["unseen"].tolist(),
        "bytes": (table["bytes_up"] + table["bytes_down"]).tolist(),
        "nonzeros": int(np.count_nonzero(result.x)),
        "seconds": time.process_time() - begin,
    }


def learn_all(jobs) -> list[dict]:
    """Run the jobs in several processes, each once: see `stored`."""
    return each(stored, [(learn, job) for job in jobs])


def cell_of(method, learning_rate, sparsity=None, coding="ink = 1", n_atoms=None) -> str:
    """Return the name of a cell of a table: runs that differ in nothing but their seed."""
    basis = f", {n_atoms} atoms" if n_atoms else ""
    return f"{coding}, {method}, tau {sparsity}{basis}, rate {learning_rate:g}"


def table_of(jobs, records, stops, curves=()) -> dict:
    """Return what runs reached: for each cell and each round of `stops` a value for each seed.

    An accuracy is the mean of three records, the last one at that round, because single rounds
    jump. Jobs are in the order of their seeds; a run that ended earlier has no value. Values are
    rounded, so that a table that was written and read is the same. For each column of `curves`
    ("training", "unseen") a cell has its accuracies in at most forty rounds, denser at the begin.
    """
    table: dict = {}
    for job, record in zip(jobs, records, strict=True):
        cell = table.setdefault(job.cell, defaultdict(list))
        for stop in stops:
            if record["round"][-1] < stop:
                continue
            place = record["round"].index(stop)
            for column in ("unseen", "training"):
                last = record[column][max(0, place - 2) : place + 1]
                cell[f"{column} {stop}"].append(round(float(np.mean(last)), 5))
        cell["nonzeros"].append(record["nonzeros"])
        cell["bytes a round"].append(round(record["bytes"][-1] / record["round"][-1]))
        cell["processor seconds"].append(round(record["seconds"], 1))
        places = np.unique(np.geomspace(1, len(record["round"]) - 1, 40).round().astype(int))
        for column in curves:
            cell["rounds"] = [record["round"][place] for place in places]
            cell[f"{column} curve"].append([round(record[column][place], 5) for place in places])
    return table


def kept_table(run: str, claim: str) -> dict:
    """Return the table that a claim of a kept run holds, from the folder of results."""
    path = NOTEBOOKS / "results" / f"{run}.json"
    records = json.loads(path.read_text(encoding="utf-8"))["claims"]
    return next(one["parameters"] for one in records if one["id"] == claim)


@dataclass(frozen=True)
class Accuracies:
    """The accuracies in a table, and by how much a cell is ahead of another on the same seeds."""

    table: dict

    def at(self, cell: str, stop: int, column: str = "unseen"):
        """Return the accuracies of a cell, a value for each seed; empty if nobody ran it."""
        return np.array(self.table.get(cell, {}).get(f"{column} {stop}", []))

    def lead(self, cell: str, other: str, stop: int, column: str = "unseen"):
        """Return the differences on the seeds that both have."""
        ours, theirs = self.at(cell, stop, column), self.at(other, stop, column)
        both = min(len(ours), len(theirs))
        return ours[:both] - theirs[:both]
