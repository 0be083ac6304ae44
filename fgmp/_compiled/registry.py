"""The registry of compiled kernels, and the choice between them and the reference implementation.

A method is written once, to be read: its `client_update` is the reference implementation. A kernel
computes the same for a whole cohort in one compiled call, and registers for the functions that it
stands for. A class that overrides one of them has another function, and so finds no kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from .._support.validation import check_option

if TYPE_CHECKING:
    from ..federation import Federation
    from ..rounds import Call, Exchange, Message
    from ..sparse_model import Array, IndexArray

# Importing Numba takes half a second, so that is left to the first run that needs it.
_HAS_NUMBA = find_spec("numba") is not None

_chosen_backend: ContextVar[str] = ContextVar("fgmp_backend", default="compiled")


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Choose what computes the updates of clients, within a block.

    The choice holds in the thread, or the task, that makes it, for clients in this process. Blocks
    may be nested. `tune` hands the choice to its workers; other threads and processes that you
    start make their own, and so do the clients of a run over Flower.

    Parameters
    ----------
    name : {"compiled", "reference"}
        "compiled", which is the default: the compiled kernel if there is one for the method, the
        loss and the data, else the reference implementation, as for clients whose system of
        equations is nearly singular. "reference": the reference implementation, a method's
        `client_update`, which can be read and which a debugger can step through. The numbers are
        the same but for rounding. `Result.backend` says what was used, and `Result.fallbacks` why.

    Raises
    ------
    ValueError
        If the name is another one.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> with fgmp.backend("reference"):
    ...     result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=5, rng=0)
    >>> result.backend
    'reference'
    """
    token = _chosen_backend.set(check_option("name", name, ("compiled", "reference")))
    try:
        yield
    finally:
        _chosen_backend.reset(token)


def current_backend() -> str:
    """Return the name of the backend that is chosen in this thread, to hand it to another."""
    return _chosen_backend.get()


@dataclass(eq=False)
class BackendRecord:
    """What computed the client updates of one run, and what its kernels keep until it ends.

    Attributes
    ----------
    compiled : int
        The updates that a kernel computed.
    fallbacks : Counter
        The updates that the reference implementation computed, by the reason why.
    derived : dict
        Arrays that kernels derived from the rows, by name. The next run may find other numbers in
        the same rows, so none of them outlives a run.
    """

    compiled: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    derived: dict[str, Array] = field(default_factory=dict)

    @property
    def backend(self) -> str | None:
        """What computed them: "compiled", "reference", or "mixed"; None if there was no update."""
        if self.fallbacks.total() == 0:
            return "compiled" if self.compiled else None
        return "mixed" if self.compiled else "reference"


class KernelUpdates(NamedTuple):
    """The updates of a cohort, in its order, and the positions of those that are not solved."""

    updates: Sequence[Any]
    unsolved: Sequence[int] = ()


class Kernel(NamedTuple):
    """A compiled kernel, and what it stands for.

    Attributes
    ----------
    compute : (method, federation, call, message, cohort) -> KernelUpdates, or None
        None if Numba cannot compile it. Nothing has been computed then.
    steps : mapping of str to function
        What the class of a method must have under these names: the functions that `client_update`
        calls, as the kernel was written for them.
    losses : tuple of types
        The exact types of the losses. A subclass may compute something else.
    when : (method, federation) -> bool
        Whether the kernel stands for a method of these functions, with its options, on these data.
    """

    compute: Callable[[Any, Federation, Call, Message, IndexArray], KernelUpdates | None]
    steps: Mapping[str, Any]
    losses: tuple[type, ...]
    when: Callable[[Any, Federation], bool]


# By the function `client_update` of an exchange. Filled while `fgmp` is imported, then constant.
_KERNELS: dict[Any, list[Kernel]] = {}


def kernel(
    client_update: Any,
    *,
    steps: Mapping[str, Any],
    losses: tuple[type, ...],
    when: Callable[[Any, Any], bool],
) -> Callable[[Any], Any]:
    """Register the decorated function as the `compute` of a `Kernel` for `client_update`."""

    def register(compute: Any) -> Any:
        entries = _KERNELS.setdefault(client_update, [])
        entries.append(Kernel(compute, steps, losses, when))
        return compute

    return register


def find_kernel(exchange: Exchange, federation: Federation) -> Kernel | str:
    """Return the kernel for an exchange on some data, or the reason why there is none."""
    if _chosen_backend.get() == "reference":
        return "reference backend chosen"

    # A function of a module, or a lambda, is no method's.
    method = getattr(exchange.client_update, "__self__", None)
    function = getattr(exchange.client_update, "__func__", None)
    entries = _KERNELS.get(function, [])
    if not entries:
        return "no kernel for this method"

    entries = [entry for entry in entries if _has_steps(type(method), entry.steps)]
    if not entries:
        return "overridden step"

    entries = [entry for entry in entries if type(federation.loss) in entry.losses]
    if not entries:
        return "no kernel for this loss"

    for entry in entries:
        if entry.when(method, federation):
            return entry if _HAS_NUMBA else "numba is missing"
    return "no kernel for these options or data"


def _has_steps(method_class: type, steps: Mapping[str, Any]) -> bool:
    return all(getattr(method_class, name, None) is step for name, step in steps.items())


def compute_updates(
    federation: Federation, call: Call, message: Message, cohort: IndexArray
) -> Sequence[Any]:
    """Return the update of each client of a cohort, in its order, and record what computed it.

    Clients without a kernel, and those that a kernel has not solved, run the reference
    implementation.
    """
    record = federation.backend_record
    found = find_kernel(call.exchange, federation)
    if isinstance(found, Kernel):
        method = call.exchange.client_update.__self__  # type: ignore[attr-defined]
        computed = found.compute(method, federation, call, message, cohort)
        if computed is not None:
            return _completed(computed, federation, call, message, cohort)
        found = "numba does not work"

    record.fallbacks[found] += len(cohort)
    return [call.update_of(federation.clients[i], message) for i in cohort]


def _completed(
    computed: KernelUpdates,
    federation: Federation,
    call: Call,
    message: Message,
    cohort: IndexArray,
) -> Sequence[Any]:
    """Return the updates of a kernel, with those that it has not solved from the reference."""
    record = federation.backend_record
    record.compiled += len(cohort) - len(computed.unsolved)
    if not len(computed.unsolved):
        return computed.updates

    record.fallbacks["nearly singular or not finite"] += len(computed.unsolved)
    updates = list(computed.updates)
    for position in computed.unsolved:
        client = federation.clients[cohort[position]]
        updates[position] = call.update_of(client, message)
    return updates
