"""Standard errors over Flower: the bits of one process, from sums at clients on other machines."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from test_fitting import sites_of

import fgmp
from fgmp.flower import fit_over

pytestmark = pytest.mark.filterwarnings("ignore:the rounds ran out", "ignore::fgmp.AdviceWarning")
CANCER = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)
CASES = {
    "logistic": (fgmp.FedGradMPClassifier(4), *CANCER),
    "softmax": (fgmp.FedGradMPClassifier(2), *IRIS),
    "linear": (fgmp.FedGradMPRegressor(4), CANCER[0], CANCER[0][:, 3] + CANCER[1]),
    "masks": (fgmp.FedGradMPClassifier(4, secure=True, rounds=2), *CANCER),
}


def fitted(estimator, X, y, n_groups):
    """The same estimator, over Flower and in one process."""
    groups = np.random.default_rng(0).permutation(len(y)) % n_groups
    is_classifier = isinstance(estimator, fgmp.FedGradMPClassifier)
    there = fit_over(
        estimator,
        sites_of(X, y, groups, masked_only=estimator.secure),
        n_groups,
        [f"x{j}" for j in range(X.shape[1])],
        classes=np.unique(y).tolist() if is_classifier else None,
        report=lambda line: None,
    )
    return there, estimator.fit(X, y, groups)


@pytest.mark.parametrize("case", CASES)
def test_a_summary_over_flower_has_the_bits_of_one_process(case):
    there, here = fitted(*CASES[case], n_groups=4)
    np.testing.assert_array_equal(there.covariance_.model_based, here.covariance_.model_based)
    np.testing.assert_array_equal(there.covariance_.by_group, here.covariance_.by_group)
    assert not np.isnan(there.summary().columns["standard_error_by_group"]).any()
    assert there.summary().notes == here.summary().notes
    for name in ("bytes_up", "bytes_down"):
        assert there.history_[name][-1] == here.history_[name][-1]
