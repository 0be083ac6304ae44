"""Which fast loop serves a client in place of what its method prints, if any: the one place that decides.

A method that overrides what a kernel stands for runs as printed; ``FGMP_READABLE=1`` makes all of them do so. Kernels
that Numba compiles serve where it is installed and the data are large (`fgmp.local.compiled.compiling_pays`), unless
the environment has ``FGMP_NUMBA=0``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..federation import Client
from ..local.compiled import (
    compiled_descent,
    compiled_pursuit,
    compiled_span,
    compiling_pays,
    has_compiled_derivative,
    span_pays,
)
from ..local.solvers import Exact
from ..losses import SquaredLoss
from ..models import Message, SparseModel, decode, encode
from ..selection import Overall, PerAtom, PerOutput
from .baselines import FedIterHT, FedMid, FirstOrderMethod
from .contract import Exchange
from .dual_averaging import FedDualAvg
from .fedgradmp import FedGradMP

__all__ = ["Kernel", "answer_of", "is_readable", "kernel_for"]


@dataclass(frozen=True)
class Kernel:
    """A fast form of what a client answers in an exchange of a method.

    Attributes
    ----------
    name : str
        Of the loop, for tests and readers.
    answer : callable (client, message, generator) -> message
        Ends where the printed form ends, but for rounding.
    """

    name: str
    answer: Callable[[Client, Message, np.random.Generator], Message]


def answer_of(exchange: Exchange, client: Client, readable: bool = False) -> Callable[..., Message]:
    """What a runner calls for a client: a kernel where there is one, or else the method's own printed form.

    Parameters
    ----------
    exchange : Exchange
    client : Client
        Prepared.
    readable : bool, default False
        Whether the printed form serves in any case; so does the environment variable ``FGMP_READABLE=1``. The numbers
        are the same but for rounding, and a debugger can step through the pseudo-code.
    """
    kernel = None if is_readable(readable) else kernel_for(exchange, client)
    return exchange.answer if kernel is None else kernel.answer


def is_readable(readable: bool) -> bool:
    """Whether the printed forms serve: asked for in the call, or with ``FGMP_READABLE=1`` in the environment."""
    return readable or os.environ.get("FGMP_READABLE") == "1"


def kernel_for(exchange: Exchange, client: Client) -> Kernel | None:
    """The kernel that serves a client in an exchange; None where the printed form does.

    A kernel stands for the functions that it was written for and no others: where a method overrides one of them, the
    printed form serves, as on sparse features. benchmarks/README.md has what each earns.
    """
    method, function = getattr(exchange.answer, "__self__", None), getattr(exchange.answer, "__func__", None)
    if not isinstance(client.features, np.ndarray):
        return None
    if isinstance(method, FedGradMP) and function is FedGradMP.refine:
        return _refinement(method, client)
    if isinstance(method, FirstOrderMethod) and function is FirstOrderMethod.train:
        return _plain_steps(method, client) or _compiled_steps(method, client)
    if isinstance(method, FedDualAvg) and function is FedDualAvg.train:
        return _compiled_steps(method, client)
    return None


def _refinement(method: FedGradMP, client: Client) -> Kernel | None:
    selection, several = method.selection, client.n_outputs > 1
    if not method.dictionary.orthonormal or not _same(method, FedGradMP, "into_ball") or selection.always:
        return None
    if type(selection) not in ((PerOutput,) if several else (PerOutput, PerAtom, Overall)):  # one output: all the same
        return None
    if not isinstance(client.loss, SquaredLoss) or method.solver_for(client) != Exact() or method.radius:
        return None
    return Kernel("compiled least squares", partial(_pursued, method)) if compiling_pays(client) else None


def _pursued(method: FedGradMP, client: Client, message: Message, rng: np.random.Generator) -> Message:
    x = SparseModel.from_message(message, client.model_shape)
    minibatches = client.minibatches(rng, method.batch_size, method.local_iterations)
    return compiled_pursuit(client, x, minibatches, method.sparsity).message()


def _plain_steps(method: FirstOrderMethod, client: Client) -> Kernel | None:
    if not _same(method, FirstOrderMethod, "step", "minibatches"):
        return None
    if not span_pays(client, method.local_iterations, method.batch_size):
        return None
    return Kernel("compiled row span", partial(_in_the_row_span, method))


def _in_the_row_span(method: FirstOrderMethod, client: Client, message: Message, rng: np.random.Generator) -> Message:
    w, minibatches = decode(message, client.model_shape), method.minibatches(client, rng)
    return encode(compiled_span(client, w, method.learning_rate, minibatches))


# What thresholds do between the gradient steps, by the functions of a method that say so.
_BETWEEN_STEPS: dict[tuple[Any, Any], Callable[[Any, Message], dict[str, Any]]] = {
    (FirstOrderMethod.train, FirstOrderMethod.step): lambda method, message: {},
    (FirstOrderMethod.train, FedIterHT.step): lambda method, message: {"keep": method.sparsity},
    (FirstOrderMethod.train, FedMid.step): lambda method, message: {"after": method.learning_rate * method.l1_weight},
    (FedDualAvg.train, FedDualAvg.step): lambda method, message: {"before": method.thresholds(message)},
}


def _compiled_steps(method: FirstOrderMethod, client: Client) -> Kernel | None:
    between = _BETWEEN_STEPS.get((type(method).train, type(method).step))
    if between is None or not _same(method, FirstOrderMethod, "minibatches"):
        return None
    if type(method.selection) not in (PerOutput, PerAtom, Overall) or method.selection.always:  # one output: all alike
        return None
    if not compiling_pays(client) or not has_compiled_derivative(client):
        return None
    return Kernel("compiled steps", partial(_by_compiled_steps, method, between))


def _by_compiled_steps(
    method: FirstOrderMethod,
    between: Callable[[Any, Message], dict[str, Any]],
    client: Client,
    message: Message,
    rng: np.random.Generator,
) -> Message:
    start = decode({name: part for name, part in message.items() if name != "round"}, client.model_shape)
    minibatches, thresholds = method.minibatches(client, rng), between(method, message)
    return encode(compiled_descent(client, start, minibatches, method.learning_rate, **thresholds))


def _same(method: Any, owner: type, *names: str) -> bool:
    """Whether a method has these functions as their owner wrote them."""
    return all(getattr(type(method), name) is getattr(owner, name) for name in names)
