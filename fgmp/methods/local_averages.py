"""The pooled solver that pools least: every client minimises its own objective on the support, the server averages.

Unlike the other pooled solvers it does not approach the minimiser of f where the clients differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..dictionaries import StandardBasis
from ..federation import Client
from ..local.solvers import Solver, check_solver, minimise_on
from ..models import Message, SparseModel
from ..shapes import Shaped
from .contract import Exchange, Reply, Sum, weighted_sum
from .pooled import VECTOR, Point, ask_at_point, expects

__all__ = ["LocalSteps"]


@dataclass(frozen=True)
class LocalSteps:
    """Any loss, one exchange: every client minimises f_i on the support with a local solver, the server averages.

    Parameters
    ----------
    solver : Solver
        `SGD`, `GradientDescent` or another: the K restricted local steps, from the model that the server has.
    """

    solver: Solver

    def __post_init__(self) -> None:
        check_solver(self.solver)

    def check(self, federation: Shaped) -> None:
        """Every loss fits."""

    def exchanges(self, dictionary: StandardBasis, radius: float | None) -> Sequence[Exchange]:
        """One exchange."""

        def answer(client: Client, message: Message, rng: np.random.Generator) -> Message:
            start = SparseModel.from_message(message, client.model_shape)
            end = minimise_on(start.support, client, dictionary, self.solver, start, rng)
            return {"values": dictionary.into_ball(end, radius).values}

        def combine(point: Point, replies: list[Reply]) -> Point:
            return Point(replace(point.model, values=weighted_sum(replies)["values"]))

        return (Exchange(ask_at_point, answer, combine, expects(values=VECTOR), Sum()),)
