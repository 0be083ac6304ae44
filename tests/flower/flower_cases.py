"""Small federations and methods that the tests of Flower share."""

import cases
import numpy as np

import fgmp
from fgmp.shared_support.newton import LocalSteps

_RNG = np.random.default_rng(0)
_ROWS = [_RNG.standard_normal((n_rows, 12)) for n_rows in (30, 45, 60)]

SQUARED = fgmp.make_sparse_regression(6, 50, 80, 4, rng=0)
LOGISTIC = fgmp.Federation.from_arrays(
    _ROWS, [np.sign(rows[:, 0] + 0.1) for rows in _ROWS], "logistic"
)
SOFTMAX = fgmp.Federation.from_arrays(
    _ROWS, [rows[:, :3].argmax(axis=1) for rows in _ROWS], "softmax"
)
SINGLE_PRECISION = fgmp.Federation.from_arrays(
    [rows.astype(np.float32) for rows in _ROWS], [rows[:, 0].astype(np.float32) for rows in _ROWS]
)
FEDERATIONS = {
    "squared": SQUARED,
    "logistic": LOGISTIC,
    "softmax": SOFTMAX,
    "single precision": SINGLE_PRECISION,
}

_BASELINES = ("FedAvg", "FedHT", "FedIterHT", "FedMid", "FedDualAvg")

# For every loss.
METHODS = {
    "FedGradMP": fgmp.FedGradMP(3, batch_size=10),
    "SGD in a ball": fgmp.FedGradMP(3, solver=fgmp.SGD(0.1, steps=3, batch_size=5), radius=1.0),
    "local steps on a support": fgmp.SharedSupportGradMP(
        3, fgmp.LargestEntries(6), LocalSteps(fgmp.GradientDescent(5))
    ),
    "Newton on a support": fgmp.SharedSupportGradMP(
        3, fgmp.CountSketch(1, 7), fgmp.NewtonOnSupport(2, 1e-2)
    ),
    **{name: cases.METHODS[name]() for name in _BASELINES},
    "FastFedDualAvg": fgmp.FastFedDualAvg(
        l1_weight=0.01, strong_convexity=0.1, **cases.LOCAL_STEPS
    ),
}
FEDGRADMP = METHODS["FedGradMP"]

# One step to the minimiser of the squared loss.
SHARED_SUPPORT = fgmp.SharedSupportGradMP(3)
