"""No repr or warning of a federation shows its rows: all values of these data are marked, and looked for.

Errors are in test_bad_input.
"""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fgmp
from fgmp.datasets.digits import DigitsByWriter
from fgmp.estimators.sites import SiteRows
from fgmp.restricted import RestrictedProblem

MARK = 4321.0
MARKED = re.compile(r"4\.?32|Smith")  # 4321.5, 4.32e+03, and names
rng = np.random.default_rng(0)
X = MARK + 0.5 * rng.random((40, 6))
y = MARK + rng.random(40)
SITES = np.repeat(["Smith", "Smithson"], 20)
PARTS = [X[:20], X[20:]], [y[:20], y[20:]]
FED = fgmp.Federation.from_arrays(*PARTS, truth=np.full(6, MARK))
TABLE = pd.DataFrame(X, columns=list("abcdef")).assign(y=y, site=SITES)
THIN = fgmp.Federation.from_arrays([sparse.csr_array(part) for part in PARTS[0]], PARTS[1])
LABELLED = fgmp.Federation.from_arrays(PARTS[0], [SITES[::2], SITES[1::2]], loss="logistic")
SHOWN = {
    "federation": FED,
    "federation of a table": fgmp.Federation.from_frame(TABLE, site="site", target="y"),
    "sparse": THIN,
    "labelled": LABELLED,
    "pooled": FED.pooled(),
    "clients": FED.clients,
    "shape": FED.shape,
    "sparse features": THIN.clients[0].features,
    "restricted problem": RestrictedProblem(X, y, fgmp.SquaredLoss()),
    "rows of sites": SiteRows(X, y, y),
    "digits": DigitsByWriter(FED, FED, ("0",), ("1",), (2, 3)),
    "a dict of it all": {"federation": FED, "client": FED.clients[0]},
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_repr_is_short_and_shows_no_data(name):
    text = repr(SHOWN[name])
    assert not MARKED.search(text) and len(text) < 600


def test_warnings_show_no_data():
    few = fgmp.Federation.from_arrays(X[:16].reshape(4, 4, 6), y[:16].reshape(4, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fgmp.simulate(fgmp.FedGradMP(4), few, 2, rng=0)
        fgmp.simulate(fgmp.FedGradMP(2), LABELLED, 2, rng=0)
    assert caught and not any(MARKED.search(str(warning.message)) for warning in caught)
