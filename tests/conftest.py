"""Settings of all tests: one BLAS thread, and property tests without deadlines."""

import os
import signal
import threading
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

import fgmp
from fgmp import backends
from fgmp._support.warnings import suppress_advice

os.environ.setdefault("MPLBACKEND", "agg")
# The last digits of a sum depend on the number of threads.
threadpool_limits(1)

# The fixture `backend` is one context for all examples of a test, as intended.
settings.register_profile(
    "fgmp",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("fgmp")


def pytest_configure(config) -> None:
    """Restore Ctrl-C, which a shell ignores for processes in the background, and compile kernels.

    Several processes would otherwise compile the same kernels at the same time.
    """
    if (
        getattr(config.option, "numprocesses", None)
        and not hasattr(config, "workerinput")
        and find_spec("numba")
    ):
        with fgmp.backend("compiled"):
            compile_kernels()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def no_run_is_short():
    """Let the small problems of tests run compiled, in this process, where nothing is chosen."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(backends, "_FEW_ITERATIONS", -1)
        yield


@pytest.fixture(params=["compiled", "reference"])
def backend(request):
    """Run the test once with compiled kernels, if there are any for it, and once without them."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    with fgmp.backend(request.param):
        yield request.param


def compile_kernels() -> None:
    """Call the compiled kernels once for the types that most tests have; they stay on disk."""
    rng = np.random.default_rng(0)
    steps = {"learning_rate": 0.1, "local_iterations": 20}
    for dtype in (np.float32, np.float64):
        A = rng.standard_normal((100, 700)).astype(dtype)
        numbers = fgmp.Federation.from_arrays([A], [A[:, 0]])
        labels = fgmp.Federation.from_arrays([A], [rng.integers(0, 3, 100)], fgmp.SoftmaxLoss(3))
        for method in (fgmp.FedGradMP(3), fgmp.FedIterHT(sparsity=3, **steps)):
            fgmp.simulate(method, numbers, 1, rng=0)
        inexact = (fgmp.SGD(learning_rate=0.1), fgmp.GradientDescent(steps=1))
        with suppress_advice():  # labels are random, and more features than rows separate them
            fgmp.simulate(fgmp.FedAvg(**steps), labels, 1, rng=0)
            for solver in inexact:
                fgmp.simulate(fgmp.FedGradMP(3, solver=solver), labels, 1, rng=0)
