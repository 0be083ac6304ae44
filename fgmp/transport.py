"""The transport: what a run asks of the clients, wherever they are.

In a simulation it is the federation (`fgmp.federation`). Others stand around a transport, such as
`fgmp.Faulty`, or reach clients over a network (`fgmp.flower`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .aggregation import Message, Update
from .client import ProblemInfo
from .rounds import Call, Method
from .sparse_model import Array, IndexArray


class Transport(Protocol):
    """Transport to the clients: in memory, a wrapper around another transport, or a network.

    Examples
    --------
    Log the rounds of another transport:

    >>> import fgmp
    >>> class Logged:
    ...     def __init__(self, transport):
    ...         self.transport = transport
    ...     def __getattr__(self, name):
    ...         return getattr(self.transport, name)
    ...     def prepare(self, method):
    ...         return Logged(self.transport.prepare(method))
    ...     def run_clients(self, call, message, cohort):
    ...         print("round", call.round, "asks", len(cohort), "clients")
    ...         return self.transport.run_clients(call, message, cohort)
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=50, sparsity=3, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(3), Logged(federation), 2, cohort_size=4, rng=0)
    round 1 asks 4 clients
    round 2 asks 4 clients
    """

    @property
    def info(self) -> ProblemInfo:
        """What a server knows of the clients, in the coordinates of the method."""

    @property
    def weights(self) -> Array:
        """The weights p_i, shape (n_clients,), which sum to one."""

    @property
    def truth(self) -> Array | None:
        """The model x# that made the data, if it is known."""

    def prepare(self, method: Method) -> Transport:
        """Return the transport for a run of a method, in the coordinates of its dictionary."""

    def run_clients(self, call: Call, message: Message, cohort: IndexArray) -> Sequence[Any]:
        """Return the updates of a cohort, in its order; None or `Rejected` for one that is missing.

        A client's update is `call.update_of(client, message)`. A federation computes it for one
        client after the other, or in one compiled kernel for all of them.
        They need not be checked: `UpdateSpec.stack` rejects whatever is no such update.
        """

    def objectives(self, x: Update, indices: IndexArray | None = None) -> tuple[IndexArray, Array]:
        """Return the indices of the clients that report their objective, and f_i(x) of each.

        Asked are the clients of `indices`, or all of them.
        """

    def identity(self) -> dict[str, Any]:
        """Return what tells these data from others, by name, for checkpoints."""
