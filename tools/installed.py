"""Run README's first example where only the wheel is installed, with what it asks for and nothing else.

`make dist` runs this in an empty environment. What core imports must be there, what an extra is for
must not, and whatever needs an extra must name the packages to install.
"""

import sys
from importlib.metadata import version
from importlib.util import find_spec

import fgmp

OPTIONAL = ("sklearn", "narwhals", "numba", "matplotlib", "PIL", "pooch", "tqdm", "click", "flwr")


def main() -> None:
    """Raise an AssertionError if something is not as the text above says."""
    assert version("fgmp") == fgmp.__version__, (version("fgmp"), fgmp.__version__)
    present = [name for name in OPTIONAL if find_spec(name) is not None]
    assert not present, f"core asked for {present}"

    federation = fgmp.make_sparse_regression(
        n_clients=30, n_samples=100, n_features=1000, sparsity=10, heterogeneity=1.0, rng=0
    )
    method = fgmp.FedGradMP(sparsity=10, local_iterations=3, batch_size=40)
    result = fgmp.simulate(method, federation, rounds=8, rng=0)
    error = float(result.history["relative_error"][-1])
    assert error < 1e-12, error

    try:
        getattr(fgmp, "FedGradMPClassifier")  # noqa: B009
    except ImportError as missing:
        assert "pip install scikit-learn narwhals" in str(missing), missing
    else:
        raise AssertionError("an estimator without scikit-learn")

    print(f"fgmp {fgmp.__version__} on Python {sys.version.split()[0]}: {result!r}")
    print(f"relative error {error:.1e} after 8 rounds, on the {result.backend} backend")


main()
