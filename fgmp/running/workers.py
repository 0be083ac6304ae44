"""What the clients of a cohort answer: one after another, or shared among processes, with the same numbers.

The random numbers of a client depend on the seed, the round, the exchange and its key, and so on no order of work.
"""

from __future__ import annotations

import mmap
import pickle
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from typing import Any

import numpy as np

from ..federation import Client
from ..methods.contract import Method
from ..methods.kernels import answer_of, reads_rows
from ..models import Message, Support
from .generators import client_generators
from .processes import shared_folder, worker_pool

__all__ = ["Alone", "Workers", "client_generator"]


class Alone:
    """The clients answer in this process, one after another."""

    def __init__(self, method: Method, clients: Sequence[Client], readable: bool = False) -> None:
        self.method, self.clients, self.readable = method, clients, readable

    def __enter__(self) -> Alone:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def answers(self, cohort: Support, message: Message, seed: int, number: int, index: int) -> list[Message]:
        """The answers of a cohort in exchange `index` of round `number`, in the order of the cohort."""
        exchange, members = self.method.exchanges()[index], [self.clients[i] for i in cohort]
        randoms = client_generators(seed, number, index, [client.key for client in members])
        return [
            answer_of(exchange, client, self.readable)(client, message, rng)
            for client, rng in zip(members, randoms, strict=True)
        ]


class Workers:
    """The clients answer in processes (joblib). Each maps the clients' data from one temporary file.

    So it does with their `features_by_row`, where a kernel reads them: of either there is one in memory for all.

    Parameters
    ----------
    method : Method
    clients : sequence of Client
        Prepared.
    count : int
        The number of processes.
    readable : bool, default False
        As in `simulate`.
    """

    def __init__(self, method: Method, clients: Sequence[Client], count: int, readable: bool = False) -> None:
        self.method, self.clients, self.readable, self.count = method, clients, readable, count

    def __enter__(self) -> Workers:
        from joblib import wrap_non_picklable_objects

        with ExitStack() as stack:
            self.path = str(stack.enter_context(shared_folder()) / "clients")
            rows = {
                place: np.ascontiguousarray(client.features)
                for place, client in enumerate(self.clients)
                if reads_rows(self.method, client, self.readable)
            }
            _write(self.path, (wrap_non_picklable_objects(self.method), list(self.clients), self.readable, rows))
            del rows
            self.pool = stack.enter_context(worker_pool(self.count, batch_size=1, pre_dispatch="all"))
            self.open = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self.open.__exit__(*error)

    def answers(self, cohort: Support, message: Message, seed: int, number: int, index: int) -> list[Message]:
        """As `Alone.answers`."""
        from joblib import delayed

        shares = [share for share in np.array_split(cohort, self.count) if len(share)]
        parts = self.pool(delayed(_share)(self.path, share, message, seed, number, index) for share in shares)
        return [answer for part in parts for answer in part]


def client_generator(seed: int, number: int, exchange: int, client: Client) -> np.random.Generator:
    """The random numbers of one client in one exchange of one round."""
    return next(client_generators(seed, number, exchange, [client.key]))


def _share(path: str, cohort: Support, message: Message, seed: int, number: int, index: int) -> list[Message]:
    with np.errstate(over="ignore", invalid="ignore"):  # as in `simulate`
        return _load(path).answers(cohort, message, seed, number, index)


@lru_cache(maxsize=1)
def _load(path: str) -> Alone:
    """The method and the clients of a run, in a worker."""
    method, clients, readable, rows = _read(path)
    for place, by_row in rows.items():
        clients[place].with_rows(by_row)
    return Alone(method, clients, readable)


def _write(path: str, what: Any) -> None:
    """Write an object with the memory of its arrays to one file, and where each of them stands to another.

    One file for each array would be one map for each, of which a process can have some ten thousand.
    """
    buffers: list[pickle.PickleBuffer] = []
    structure = pickle.dumps(what, protocol=5, buffer_callback=buffers.append)
    places = []
    with open(path, "wb") as file:
        for buffer in buffers:
            file.write(bytes(-file.tell() % 64))  # aligned, as NumPy has its arrays
            places.append((file.tell(), file.write(buffer.raw())))
    with open(path + ".places", "wb") as file:
        pickle.dump((structure, places), file)


def _read(path: str) -> Any:
    """The inverse of `_write`: arrays over the mapped memory, not writeable."""
    with open(path + ".places", "rb") as file:
        structure, places = pickle.load(file)
    with open(path, "rb") as file:
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return pickle.loads(structure, buffers=[mapped[start : start + size] for start, size in places])
