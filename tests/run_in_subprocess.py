"""A run that tests start in a subprocess, to kill it, to fill its disk, or to lock its folder.

    run_in_subprocess.py PATH ROUNDS EVERY [what happens after the fifth round]

It prints "started" before the first round, "after 5" after the fifth and "finished" at the end, and
prints warnings and errors to the standard error.
"""

import os
import resource
import sys
import warnings

import fgmp

METHOD = fgmp.FedGradMP(sparsity=4, batch_size=10)


def federation():
    """Return the federation of the run."""
    return fgmp.make_sparse_regression(8, 30, 60, 4, 0.5, noise_variance=0.01, rng=0)


def disk_full():
    """Let files grow to 100 bytes at most from now on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))


def read_only():
    """Let nobody write to the folder from now on; a process of root becomes one of nobody."""
    os.chmod(os.path.dirname(sys.argv[1]), 0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)


EVENTS = {"nothing": lambda: None, "disk_full": disk_full, "read_only": read_only}


def main(path, rounds, every, event="nothing"):
    """Run with a checkpoint."""

    def after_five(run):
        if run.progress.round == 5:
            print("after 5", flush=True)
            EVENTS[event]()

    print("started", flush=True)
    warnings.simplefilter("always")
    callbacks = [fgmp.Checkpoint(path, None if every == "None" else int(every)), after_five]
    result = fgmp.simulate(METHOD, federation(), int(rounds), 5, 0, callbacks=callbacks)
    print("finished", result.history["round"][-1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
