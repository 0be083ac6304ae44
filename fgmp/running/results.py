"""What a run leaves behind: `Result`, with its last `Estimate` and the `Best` model that it recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..methods.contract import State
from ..models import Array, Support
from .books import History

__all__ = ["Best", "Estimate", "Result", "whole"]


class Estimate(NamedTuple):
    """A model as a signal, the positions of its nonzero coefficients, and these: as in `Result`."""

    x: Array
    support: Array
    coefficients: Array


@dataclass(frozen=True, eq=False)
class Best:
    """The best model that a run recorded, by one column of its history.

    Attributes
    ----------
    x, support, coefficients : ndarray
        As in `Result`.
    round : int
        When it was recorded; 0 is the start.
    value : float
        The lowest of the column.
    column : str
    """

    x: Array = field(repr=False)
    support: Array = field(repr=False)
    coefficients: Array = field(repr=False)
    round: int
    value: float
    column: str


@dataclass(frozen=True, eq=False)
class Result:
    """What a run leaves behind.

    Attributes
    ----------
    x : ndarray
        Where the run ended, as a signal, shape (n_features,), or (n_features, n_outputs): the last estimate, or that of
        `best` where the last one's objective is above the start's, or not finite. With noise the last in any case.
    support : ndarray of int
        Increasing positions of the nonzero coefficients (flattened, where the coefficients are a matrix): features in
        the standard basis, atoms in a dictionary.
    coefficients : ndarray
        The coefficients alpha of x = Psi alpha; x itself in the standard basis.
    history : dict of ndarray
        One entry per recorded round, row 0 the start. ``round``; ``relative_error``, ||x - x#|| / ||x#||, where the
        federation knows the truth; ``objective``, f(x), or its mean over `objective_on`; ``seconds`` of the method's
        own work so far (clients one after another, the server, and at row 0 the preparation of the clients), without
        the books; ``bytes_up`` and ``bytes_down`` so far; ``clients``, how many answered every exchange of that round
        with what was asked for. With noise ``epsilon``, spent so far, and no ``objective``; ``clients`` are then those
        that were asked, and ``bytes_up`` those of what is added up: see `GaussianNoise`.
    seed : int
        The seed of the run: ``rng=seed`` repeats it, but for noise and its cohorts, which come from a secret.
    state : object
        The server's last state, as the method defines it.
    best : Best
        The best model that was recorded, the start included: by the objective, it is never worse than the start. With
        noise the last one, of column ``"last"``, unless it is chosen by a metric.
    last : Estimate
        The last estimate in any case, as the method has it: x, support and coefficients.
    objective_on : ndarray of int or None
        The clients, by their place in the federation, over which the objective of the history is the weighted mean;
        None where these are all.
    interrupted : bool
        Whether Ctrl-C ended the run: then all this is of its last finished round.
    """

    x: Array = field(repr=False)
    support: Array
    coefficients: Array = field(repr=False)
    history: History = field(repr=False)
    seed: int
    state: State = field(repr=False)
    best: Best
    last: Estimate = field(repr=False)
    objective_on: Support | None = field(default=None, repr=False)
    interrupted: bool = False


def whole(result: Result) -> Result:
    """The result, where nothing interrupted the run; or else the interruption goes on, through whoever wanted it whole.

    Raises
    ------
    KeyboardInterrupt
        Where the run was interrupted.
    """
    if result.interrupted:
        raise KeyboardInterrupt
    return result
