"""A run that tests start as a process of its own, to kill it, to fill its disk, or to take its folder away.

    one_run.py PATH ROUNDS EVERY [what happens after the fifth round]

It says "started" before the first round, "after 5" after the fifth, and prints warnings and
errors to the standard error.
"""

import os
import pickle
import resource
import sys
import warnings
from pathlib import Path

import joblib

import fgmp

METHOD = fgmp.FedGradMP(sparsity=4, batch_size=10)


def federation():
    return fgmp.make_sparse_regression(8, 30, 60, 4, 0.5, noise_variance=0.01, rng=0)


def disk_full():
    """Files may grow to 100 bytes from now on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))


def read_only():
    """Nobody may write to the folder; where the run is root's, it is nobody's from now on."""
    os.chmod(os.path.dirname(sys.argv[1]), 0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)


def bits(result):
    """All of a result that a resumed run has to have, to the last bit, as one checksum."""
    history = {name: column for name, column in result.history.items() if name != "seconds"}
    best = result.best
    parts = (
        result.x,
        result.support,
        result.coefficients,
        history,
        best.x,
        best.round,
        best.value,
        best.coefficients,
    )
    return joblib.hash((*parts, result.state))


def number_in(path):
    """The finished rounds in a checkpoint."""
    return pickle.loads(Path(path).read_bytes().partition(b"\n")[2])[-1][0].round


def main(path, rounds, every, event="nothing"):
    def after_five(run):
        if run.progress.round == 5:
            print("after 5", flush=True)
            if event != "nothing":
                globals()[event]()

    print("started", flush=True)
    warnings.simplefilter("always")
    callbacks = [fgmp.Checkpoint(path, None if every == "None" else int(every)), after_five]
    result = fgmp.simulate(METHOD, federation(), int(rounds), 5, 0, callbacks=callbacks)
    print("finished", result.history["round"][-1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
