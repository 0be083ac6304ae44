"""Sums under masks on this machine, with clients that are lost, and with what the server held."""

from types import SimpleNamespace

from fgmp.privacy.masking import Sessions, sum_under_masks
from fgmp.privacy.secagg_client import TRIPS


def masked_sum(vectors, threshold, lost, sessions=None):
    """Return what `MaskedSum` has, the last uploads as `masked`, and the number of replies as `n_messages`.

    Parameters
    ----------
    vectors : sequence of ndarray of unsigned integers
    threshold : int
    lost : mapping of int to str
        Before which trip the client at a position is lost.
    sessions : Sessions, optional
    """
    sessions = Sessions() if sessions is None else sessions
    everybody = range(len(vectors))
    carry = sessions.trip_here(dict(enumerate(vectors)), everybody)
    order = list(TRIPS)
    seen = SimpleNamespace(masked={}, n_messages=0)

    def trip(request):
        gone = order[: order.index(request.trip) + 1]
        present = {
            position: arguments
            for position, arguments in request.arguments.items()
            if lost.get(position) not in gone
        }
        replies = carry(request._replace(arguments=present))
        seen.n_messages += len(replies)
        if request.trip == "masked_input":
            seen.masked = {position: vector for position, (vector, _) in replies.items()}
        return replies

    unmasked = sum_under_masks(
        trip, len(vectors), threshold, sessions=sessions, cohort=tuple(everybody)
    )
    return SimpleNamespace(**unmasked._asdict(), **vars(seen))
