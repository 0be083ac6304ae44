"""Folds of cross-validation: rows that each client holds out, or whole clients.

Folds of rows ask how a model predicts new rows of known clients: each client holds out rows of its
own, and tells nobody which. Folds of groups ask how it predicts a client that it has never seen:
the server leaves whole clients out.
"""

import numpy as np

from ..sparse_model import Array, IndexArray

# The purposes of these random numbers in a `SeedSequence`: those of a run have 0, 1 and 2.
_PURPOSE_ROWS = 3
_PURPOSE_CLIENTS = 4


def n_folds_of(n_rows: int, n_folds: int, min_rows: int) -> int:
    """Return the number of folds of a client with `n_rows` rows; 0 if it holds out nothing.

    Sums over all rows and sums over all rows but a fold have the sums over the fold as their
    difference. Therefore no fold has fewer than `min_rows` rows.
    """
    if min_rows == 1:
        return n_folds
    count = min(n_folds, n_rows // min_rows)
    return count if count > 1 else 0


def assign_folds(
    targets: Array, index: int, n_folds: int, seed: int, min_rows: int = 1
) -> IndexArray:
    """Return the fold of each row of a client, drawn at random and of equal size up to one row.

    Targets that repeat, such as classes, are dealt class by class, so that each fold has its share.

    Parameters
    ----------
    targets : ndarray, shape (n_rows,)
        Targets of the client.
    index : int
        Index of the client: each has its own random numbers.
    n_folds, seed, min_rows : int
        As in `Fold`.

    Returns
    -------
    ndarray of int, shape (n_rows,)
        The folds, or -1 in each row if the client has too few rows for two folds: then all of its
        rows train, whatever fold is held out.
    """
    n_folds = n_folds_of(len(targets), n_folds, min_rows)
    if not n_folds:
        return np.full(len(targets), -1, np.intp)

    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PURPOSE_ROWS, index)))
    order = rng.permutation(len(targets))
    targets_repeat = len(np.unique(targets)) <= len(targets) // 2
    if targets_repeat:
        order = order[np.argsort(targets[order], kind="stable")]

    folds = np.empty(len(targets), np.intp)
    folds[order] = (np.arange(len(order)) + rng.integers(n_folds)) % n_folds
    return folds


def n_group_folds(n_clients: int, n_folds: int, is_secure: bool) -> int:
    """Return the number of folds of whole clients; below 2 if there are too few clients.

    Under masks a fold has at least two clients: sums over all clients and sums over all but a fold
    have the sums over the fold as their difference.
    """
    return min(n_folds, n_clients // 2 if is_secure else n_clients)


def deal_clients(n_clients: int, n_folds: int, seed: int) -> IndexArray:
    """Return the fold of each client, drawn at random and of equal size up to one client."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PURPOSE_CLIENTS,)))
    return rng.permutation(n_clients) % n_folds
