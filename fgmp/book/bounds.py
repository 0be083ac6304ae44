"""A promise beside what was measured: the figure, the verdict of each seed and the two factors that notebooks print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ..checks import check_number, check_real, check_sequence
from .figures import METHODS, curve, floor

__all__ = ["BoundBesideError"]


@dataclass(frozen=True, eq=False)
class BoundBesideError:
    """Errors of runs and the bound that a theorem gives for them.

    Attributes
    ----------
    measured, promised : ndarray, shape (n_seeds, rounds + 1)
        One row for each seed; the first error is that of the model that is zero everywhere.
    exact : float, default 0
        Errors below count as exact: they are drawn there, and divided by it.
    """

    measured: NDArray[np.float64]
    promised: NDArray[np.float64]
    exact: float = 0.0

    @classmethod
    def of(cls, runs: Sequence[tuple[Sequence[float], Sequence[float]]], exact: float = 0.0) -> BoundBesideError:
        """From one pair for each seed: the errors of the run, the bound in the same rounds."""
        expected = "for each seed the errors of a run and the bound, of one length"
        pairs = [check_real("runs", run) for run in check_sequence("runs", runs, expected)]
        if not pairs or not pairs[0].size or {pair.shape for pair in pairs} != {(2, pairs[0].size // 2)}:
            raise ValueError(f"runs has shapes {[pair.shape for pair in pairs]}; expected {expected}")
        exact = check_number("exact", exact, at_least=0)
        measured, promised = np.moveaxis(np.array(pairs, dtype=float), 1, 0)
        return cls(measured, promised, exact)

    @property
    def holds(self) -> NDArray[np.bool_]:
        """For each seed: the bound is not below the error in any round."""
        return np.asarray((self.measured <= self.promised * (1 + 1e-9)).all(axis=1))

    @property
    def useful(self) -> NDArray[np.bool_]:
        """For each seed: it holds, and says in the last round that the run is better than the zero model."""
        return self.holds & (self.promised[:, -1] < self.measured[:, 0])

    @property
    def factors(self) -> dict[str, NDArray[np.float64]]:
        """In the last round: the bound over the error of the zero model, and over that of the run."""
        last, exact = self.promised[:, -1], np.maximum(self.measured[:, -1], self.exact)
        return {"bound over zero model": last / self.measured[:, 0], "over squared error": last / exact}

    def draw(self, ax: Axes, title: str = "") -> None:
        """Both against the rounds, medians and bands over all seeds, each line with its name."""
        steps = range(self.measured.shape[1])
        curve(ax, steps, self.promised, "bound", color="k", marker="s")
        curve(ax, steps, np.maximum(self.measured, self.exact), "measured", **METHODS["FedGradMP"])
        floor(ax, float(np.median(self.measured[:, 0])), "zero model")
        ax.set(yscale="log", xlabel="round", title=title)
