"""Who has masks in common with whom, and who holds shares of whose secrets.

In a small cohort these are all others. In a large one each client has `degree` neighbours, as in
J. Bell, K. Bonawitz, A. Gascon, T. Lepoint, M. Raykova, Secure single-server aggregation with
(poly)logarithmic overhead, CCS 2020: the clients stand in a random order on a ring, and the
neighbours are the nearest on both sides, half of them on each (a Harary graph). Nobody picks the
order. It is derived from a hash of the public keys of all, and stays as long as these: for a run in
which the same clients take part.

Let a share gamma = 1/5 of the clients collude with the server, and let as many be lost as the
threshold of the sum allows. The order is independent of who these are. The degree is the smallest
even number, 128 at least, for which the events below, which are those of the paper, have a
probability of at most 2^-40 each.

1. **The sum falls into parts.** The server learns sums over the parts of the graph in which honest
   clients are connected that stay; these have to be one part. A ring in which everybody knows the
   nearest d/2 on both sides falls apart only if d/2 clients in a row are colluding or lost, at two
   disjoint places. There are at most n (n - d - 1) / 2 pairs of places, and that given d of n
   clients are among b is prod_{r < d} (b - r)/(n - r).
2. **Colluding clients hold a threshold of somebody's shares.** The number of colluding neighbours
   of a client is hypergeometric: n P[H(n - 1, floor(gamma n), d) >= t].

The threshold of shares, t, is the smallest above half of the d + 1 holders, of which a client is
one itself. So the shares of both secrets of a client are never open: each holder opens one of them.
That a client has too few holders left, so that the round is lost, has the probability of at most
n P[H(n - 1, lost, d) >= d + 2 - t].
"""

import hashlib
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from ..sparse_model import IndexArray

SECURITY = 40  # an event that must not happen has a probability of at most 2^-40
COLLUDING = 0.2  # the share of the clients that may collude with the server
SMALLEST_DEGREE = 128  # with at most one client more, everybody is everybody's neighbour


class Sharing(NamedTuple):
    """How many neighbours each client has, and how many shares open a secret.

    Attributes
    ----------
    degree : int
        The number of neighbours; the client itself holds a share beside them.
    threshold : int
    """

    degree: int
    threshold: int


@lru_cache(maxsize=256)
def sharing_of(n_clients: int, threshold: int) -> Sharing:
    """Return the number of neighbours in a cohort, and the threshold of their shares.

    Parameters
    ----------
    n_clients : int
    threshold : int
        How many clients have to stay in a sum.
    """
    n_colluding = math.floor(COLLUDING * n_clients)
    n_bad = n_colluding + n_clients - threshold
    for degree in range(SMALLEST_DEGREE, n_clients - 1, 2):
        share_threshold = (degree + 1) // 2 + 1
        log_parts = log2_of_parts(n_clients, n_bad, degree)
        log_opened = log2_of_many_neighbours(n_clients, n_colluding, degree, share_threshold)
        if max(log_parts, log_opened) <= -SECURITY:
            return Sharing(degree, share_threshold)
    return Sharing(n_clients - 1, threshold)


def log2_of_parts(n_clients: int, n_bad: int, degree: int) -> float:
    """Return the base 2 logarithm of the bound on event 1; -inf if it cannot happen."""
    if degree > n_bad:
        return -math.inf
    log = math.log(n_clients * max(1, n_clients - degree - 1) / 2)
    log += _log_choose(n_clients - degree, n_bad - degree) - _log_choose(n_clients, n_bad)
    return float(log / math.log(2))


def log2_of_many_neighbours(n_clients: int, n_marked: int, degree: int, count: int) -> float:
    """Return the base 2 logarithm of n P[H(n - 1, n_marked, degree) >= count].

    That bounds the probability that any client has `count` neighbours or more that are marked.
    """
    n_others = n_clients - 1 - n_marked
    marked = np.arange(max(count, degree - n_others), min(degree, n_marked) + 1)
    if not marked.size:
        return -math.inf
    logs = _log_choose(n_marked, marked) + _log_choose(n_others, degree - marked)
    log = math.log(n_clients) + logsumexp(logs) - _log_choose(n_clients - 1, degree)
    return float(log / math.log(2))


def _log_choose(n: int, k: Any) -> Any:
    """Return the natural logarithm of a binomial coefficient, or of several."""
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


class Neighbourhoods:
    """The neighbours of each client in a session, which server and clients compute alike.

    Parameters
    ----------
    public_keys : sequence of bytes
        Of the clients of the session, in their order.
    threshold : int
        How many clients have to stay in a sum.
    """

    def __init__(self, public_keys: Sequence[bytes], threshold: int) -> None:
        self.n_clients = len(public_keys)
        self.degree, self.threshold = sharing_of(self.n_clients, threshold)
        self.is_complete = self.degree >= self.n_clients - 1
        if not self.is_complete:
            digest = hashlib.sha256(b"fgmp ring" + b"".join(public_keys)).digest()
            self._ring, self._index_on_ring = _ring_of(digest, self.n_clients)

    def holders_of(self, index: int) -> list[int]:
        """Return the indices of a client's neighbours and its own, increasing."""
        if self.is_complete:
            return list(range(self.n_clients))
        half = self.degree // 2
        offsets = np.arange(-half, half + 1) + self._index_on_ring[index]
        return np.sort(self._ring[offsets % self.n_clients]).tolist()


@lru_cache(maxsize=4)
def _ring_of(digest: bytes, n_clients: int) -> tuple[IndexArray, IndexArray]:
    """Return who stands where on the ring, and where each client stands."""
    stream = hashlib.shake_256(digest).digest(16 * n_clients)
    # Sorting by 128 random bits is a uniform order.
    tickets = [stream[16 * index : 16 * index + 16] for index in range(n_clients)]
    ring = np.array(sorted(range(n_clients), key=tickets.__getitem__))
    return ring, np.argsort(ring)
