"""The choice between a method's own code, which is the reference, and compiled kernels.

A method is written once, to be read: the `client_update` of its exchange is the reference. A kernel
computes the same for a whole cohort in one compiled call, and is registered for the functions that
it replaces. A class that overrides one of them has another function, and therefore finds no kernel.
The files at the top do not import the kernels: the first run that looks for one imports their
module by its name. A run that would end before a kernel is compiled goes without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Any, NamedTuple

from ._support.validation import check_option
from .data import Federation, ProblemInfo
from .sparse_model import Array

# Importing Numba takes half a second, so that is left to the first run that needs it.
_HAS_NUMBA = find_spec("numba") is not None

_chosen_backend: ContextVar[str] = ContextVar("fgmp_backend", default="auto")

# A short run has at most so many local iterations, at all clients together, which read at most so
# many numbers. The reference takes some tenths of a second for it, and compilation some seconds.
_FEW_ITERATIONS = 500
_FEW_NUMBERS = 1e7


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Choose what computes the updates of clients, within a block.

    The choice holds in the thread, or the task, that makes it, for clients in this process. Blocks
    may be nested. `tune` passes the choice on to its workers; other threads and processes that you
    start choose for themselves, and so do the clients of a run over Flower.

    Parameters
    ----------
    name : {"auto", "compiled", "reference"}
        "compiled": the compiled kernel if there is one for the method, the loss and the data, else
        the reference implementation, as for clients whose system of equations is nearly singular.
        "reference": the reference implementation, a method's `client_update`, which can be read and
        which a debugger can step through. "auto", the default: "reference" for a short run, because
        to compile a kernel the first time would take longer, else "compiled". A run is short if its
        clients take at most 500 local iterations in all its rounds together, and read at most ten
        million numbers of their rows for these. With noise no run is short, because numbers of rows
        are data. Results are the same up to rounding. `Result.backend` says what was used, and
        `Result.fallbacks` why.

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
    token = _chosen_backend.set(check_option("name", name, ("auto", "compiled", "reference")))
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


Compute = Callable[..., KernelUpdates | None]


class Kernel(NamedTuple):
    """A compiled kernel, and what it stands for.

    Attributes
    ----------
    compute : (method, clients, call, message, cohort) -> KernelUpdates, or None
        `clients` are the `fgmp.LocalClients` of the cohort. It returns None if Numba cannot compile
        it, and has computed nothing then.
    steps : mapping of str to function
        What the class of a method must have under these names: the functions that `client_update`
        calls, as the kernel was written for them.
    losses : tuple of types
        The exact types of the losses. A subclass may compute something else.
    when : (method, federation) -> bool
        Whether the kernel stands for a method of these functions, with its options, on these data.
    """

    compute: Compute
    steps: Mapping[str, object]
    losses: tuple[type, ...]
    when: Callable[[Any, Federation], bool]


# By the function `client_update` of an exchange. Kernels enter themselves (`kernel`) while their
# module is imported; then it is constant.
_KERNELS: dict[object, list[Kernel]] = {}

# The module with the kernels of this package. It imports methods, and no method imports it.
_MODULE_OF_KERNELS = "fgmp.fast.dispatch"


def kernel(
    client_update: object,
    *,
    steps: Mapping[str, object],
    losses: tuple[type, ...],
    when: Callable[[Any, Federation], bool],
) -> Callable[[Compute], Compute]:
    """Register the decorated function as the `compute` of a `Kernel` for `client_update`."""

    def register(compute: Compute) -> Compute:
        kernels = _KERNELS.setdefault(client_update, [])
        kernels.append(Kernel(compute, steps, losses, when))
        return compute

    return register


def is_short_run(method: object, info: ProblemInfo, rounds: int, cohort_size: int) -> bool:
    """Return whether a run ends before a kernel is compiled, judging by the size of the problem."""
    # Methods that have kernels count local iterations; all others run the reference anyway.
    iterations = rounds * cohort_size * getattr(method, "local_iterations", 1)
    numbers_of_client = sum(info.n_rows) / len(info.n_rows) * prod(info.model_shape)
    return iterations <= _FEW_ITERATIONS and iterations * numbers_of_client <= _FEW_NUMBERS


def find_kernel(client_update: object, federation: Federation, is_short: bool) -> Kernel | str:
    """Return the kernel for the client's part of an exchange, or the reason why there is none.

    `is_short` is what `is_short_run` says of the run.
    """
    chosen = _chosen_backend.get()
    if chosen == "reference":
        return "reference backend chosen"

    import_module(_MODULE_OF_KERNELS)
    # A function of a module, or a lambda, belongs to no method.
    method = getattr(client_update, "__self__", None)
    function = getattr(client_update, "__func__", None)
    kernels = _KERNELS.get(function, [])
    if not kernels:
        return "no kernel for this method"

    kernels = [one for one in kernels if _has_steps(type(method), one.steps)]
    if not kernels:
        return "overridden step"

    kernels = [one for one in kernels if type(federation.loss) in one.losses]
    if not kernels:
        return "no kernel for this loss"

    kernels = [one for one in kernels if one.when(method, federation)]
    if not kernels:
        return "no kernel for these options or data"
    if chosen == "auto" and is_short:
        return "short run"
    return kernels[0] if _HAS_NUMBA else "numba is missing"


def _has_steps(method_class: type, steps: Mapping[str, object]) -> bool:
    return all(getattr(method_class, name, None) is step for name, step in steps.items())
