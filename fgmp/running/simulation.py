"""`simulate`: the round loop over a transport that stays in this process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from ..checks import Seed, check_truth
from ..federation import Federation, check_federation
from ..methods.contract import Method
from ..models import Support
from .books import Metric
from .faults import Fault, check_faults
from .loop import federate
from .privacy import GaussianNoise
from .results import Result
from .secure_sums import SecureSum
from .stopping import Callback
from .transports import InProcess

__all__ = ["simulate"]


def simulate(
    method: Method,
    federation: Federation,
    rounds: int,
    cohort_size: int | None = None,
    rng: Seed = None,
    *,
    record_every: int = 1,
    metrics: Mapping[str, Metric] | None = None,
    callback: Callback | Iterable[Callback] = (),
    objective_on: int | Sequence[int] | Support | None = None,
    best_by: str = "objective",
    progress: bool = False,
    readable: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    faults: Fault | Iterable[Fault] | None = None,
    secure: SecureSum | None = None,
    private: GaussianNoise | None = None,
) -> Result:
    """Run a federated method on a federation, on this machine.

    Parameters
    ----------
    method : Method
        For example `FedGradMP`.
    federation : Federation
    rounds : int
        T, the number of rounds; 0 returns the start.
    cohort_size : int or None
        L, the clients drawn without replacement in each round; None is all of them.
    rng : int, Generator or None
        The seed; a Generator is drawn from once. Every client has random numbers of its own, which depend on the
        seed, the round and the client's key: not on the order of the clients, nor on who else takes part.
    record_every : int, default 1
        Rounds between two entries of the history; the last round is always recorded.
    metrics : mapping of str to callable, optional
        More columns of the history: each is called with a copy of the estimate x and returns a number.
    callback : callable or several
        Called with the history after each recorded round; the run stops where one returns True. `stop_at` and
        `stop_when_stalled` make the usual ones.
    objective_on : int, sequence of int, or None
        Whose objective the history holds: None is everybody's, which costs a product with all data at every record;
        an int so many clients, drawn once; a sequence these clients, by their place in the federation. The result
        names them. The objective on a sample is another function than f: compare it only with itself.
    best_by : str, default "objective"
        The column of the history by which `Result.best` is chosen, the lowest being best and the first of equals: a
        metric whose highest value is best has to be negated. With noise there is no objective, and the last is best.
    progress : bool, default False
        Whether to show a bar.
    readable : bool, default False
        Whether clients run the loops as the pseudo-code has them, which a debugger can step through, instead of fast
        kernels; ``FGMP_READABLE=1`` in the environment does the same. The numbers are the same but for rounding.
    checkpoint : path-like, optional
        A file that keeps how far the run is. Where it exists the run goes on from there, to the same bits as if it had
        never ended, the seconds apart; with more `rounds` than before, too. ``rng=None`` then is the seed of the file.
        It is written at the start, after the first round, every `every` rounds, and however the run ends, and the one
        before stays beside it as ``.previous``.
    every : int or None
        The rounds between two checkpoints; None is one a minute.
    faults : Fault or several, optional
        What goes wrong with clients, for example ``fgmp.DropOut(probability=0.1)``: see `fgmp.running.faults`. With
        faults, even none in an empty list, the history counts the answers left out so far by reason:
        ``left_out_missing``, ``_late``, ``_not_finite``, ``_malformed``, ``_indices`` (out of range, repeated, not in
        order) and ``_too_many``, one for each client and exchange.

    secure : SecureSum, optional
        Run the arithmetic of secure aggregation: the server sees the answers to additive exchanges under masks, and
        their sum as whole multiples of a resolution. The bytes are those of the protocol. Answers are checked by the
        clients, before they are masked; whose answer does not pass, or does not arrive, drops out.
    private : GaussianNoise, optional
        Clip every client's answer, weigh all clients alike, and add Gaussian noise to the sums. The history has what
        was spent so far as ``epsilon``, and nothing that is computed of the data without noise: no ``objective``.
        Metrics are yours: they must not read data that need protection.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        Where the method does not fit the federation, or an argument is out of its range; where the checkpoint is of
        another method, federation, seed or options (the message says what differs), or damaged, and the previous too;
        where `secure` or `private` meet a method that is not additive, an answer is beyond the range of secure sums, or
        fewer clients than their threshold are left in a round; where `private` has a delta above 1/N, or meets
        `objective_on` or a callback that reads the objective.
    ImportError
        Where `secure` or `private` need a package that is not installed.
    OSError
        Where the first checkpoint cannot be written.
    TypeError
        Where a method's state holds what cannot be pickled.

    Warns
    -----
    AdviceWarning
        At most once each in a run: `FewRowsWarning` and `SmallSiteWarning` by the method before it starts,
        `RisingObjectiveWarning` where the last model is above the start or gave back a tenth of what had been gained,
        `SeparationWarning` where a model without a radius leaves no row on the wrong side, `CheckpointWarning` where a
        checkpoint is damaged and the previous one is used, or could not be written and the run goes on,
        `InterruptedWarning` after Ctrl-C, `RehearsalWarning` where noise comes from a seed.

    Notes
    -----
    An answer that is not finite, or not what was asked for (other names, shapes or types, indices out of range or
    repeated, more entries than allowed), is left out of that exchange, and the weights are scaled to the rest; an
    exchange that nobody answers ends the round and leaves the model as it was.

    Ctrl-C gives up the round under way and returns what there is, with ``result.interrupted`` true.

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> result = fgmp.simulate(fgmp.FedGradMP(sparsity=4), federation, rounds=5, rng=0)
    >>> bool(result.history["relative_error"][-1] < 1e-12)
    True
    >>> result.support.tolist() == federation.truth.nonzero()[0].tolist()
    True
    """
    federation = check_federation("federation", federation)
    given = check_faults(faults)
    transport = InProcess(federation, check_truth("readable", readable), given)
    return federate(
        method,
        transport,
        rounds,
        cohort_size,
        rng,
        record_every=record_every,
        metrics=metrics,
        callback=callback,
        objective_on=objective_on,
        best_by=best_by,
        progress=progress,
        checkpoint=checkpoint,
        every=every,
        secure=secure,
        private=private,
    )
