"""Selections that count outputs together: `PerBlock` blocks of atoms, `Overall` all entries alike.

The selections of the paper, and of whole atoms, are in `fgmp.selection`.
"""

import math
from dataclasses import dataclass

import numpy as np

from .._support.linear_algebra import matching_pursuit
from .._support.validation import check_integer
from ..selection import Selection, top_mask_of_rows
from ..sparse_model import Array, IndexArray


@dataclass(frozen=True)
class PerBlock(Selection):
    """Select tau blocks of atoms, each with all its atoms and outputs, by the norms of the blocks.

    The levels of a category are one block, and a number with the column that says where it is
    missing is another. Backward elimination removes the block whose loss raises the objective
    least.

    Parameters
    ----------
    block_of : tuple of int
        The block of each atom, from 0 on.

    Examples
    --------
    >>> import fgmp
    >>> selection = fgmp.PerBlock(block_of=(0, 0, 1, 2))
    >>> selection.keep_mask([3.0, 3.0, 4.0, 1.0], 1).astype(int).tolist()
    [1, 1, 0, 0]
    """

    block_of: tuple[int, ...] = ()

    def check(self, sparsity: int | None, shape: tuple[int, ...]) -> None:
        """Raise a ValueError as `Selection`; there is a block for each atom."""
        super().check(None, shape)
        if len(self.block_of) != shape[0]:
            raise ValueError(
                f"block_of has {len(self.block_of)} entries; expected one for each of {shape[0]} "
                "atoms"
            )
        if sparsity is not None:
            n_blocks = len(set(self.block_of))
            check_integer("sparsity", sparsity, at_most=n_blocks, why="the number of blocks")

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """Return a mask of the `count` blocks of largest norm."""
        rows = magnitudes.reshape(len(magnitudes), -1)
        block_of = np.asarray(self.block_of, np.intp)
        squares = np.bincount(block_of, (np.maximum(rows, 0) ** 2).sum(axis=1))
        # A block of -1 stays one: it is selected last.
        is_last = np.bincount(block_of, rows.max(axis=1) >= 0) == 0
        norms = np.where(is_last, -1, np.sqrt(squares))
        mask = top_mask_of_rows(norms[None], count)[0][block_of]
        return np.repeat(mask[:, None], rows.shape[1], axis=1).reshape(magnitudes.shape)

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """Return the number of blocks that have an atom in a support."""
        return len(np.unique(self.blocks(support, shape)))

    def blocks(self, support: IndexArray, shape: tuple[int, ...]) -> IndexArray:
        """Return the block of each position of a support."""
        n_outputs = math.prod(shape[1:])
        return np.asarray(self.block_of, np.intp)[support // n_outputs]


@dataclass(frozen=True)
class Overall(Selection):
    """Select tau entries of the model, in whatever outputs they are.

    Examples
    --------
    >>> import fgmp
    >>> fgmp.Overall().keep_mask([[5, 1], [4, 3], [0, 2]], 2).astype(int).tolist()
    [[1, 0], [1, 0], [0, 0]]
    """

    def check(self, sparsity: int | None, shape: tuple[int, ...]) -> None:
        """Raise a ValueError as `Selection`; a sparsity is at most the number of coefficients."""
        super().check(None, shape)
        if sparsity is not None:
            n_coefficients = math.prod(shape)
            check_integer(
                "sparsity", sparsity, at_most=n_coefficients, why="the number of coefficients"
            )

    def top_mask(self, magnitudes: Array, count: int) -> Array:
        """Return a mask of the `count` largest entries."""
        return top_mask_of_rows(magnitudes.reshape(1, -1), count).reshape(magnitudes.shape)

    def n_selected(self, support: IndexArray, shape: tuple[int, ...]) -> int:
        """Return the number of entries."""
        return len(support)

    def pursue(self, gram: Array, correlations: Array, count: int) -> IndexArray:
        """Run one pursuit over all outputs, which takes an atom for one output at a time."""
        no_support = np.empty(0, np.intp)
        first = self.add_always_included(no_support, correlations.shape).tolist()
        n_outputs = correlations[0].size
        return matching_pursuit(gram, correlations.reshape(-1), count, first, n_outputs)
