"""No repr, error or warning of a federation shows its rows: all values of these data are marked, and looked for."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
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
METHOD = fgmp.FedGradMP(2)
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


def test_reprs_say_how_much_there_is():
    assert repr(FED) == "Federation(2 clients, 40 rows of 6 features, SquaredLoss(averaged=True))"
    assert repr(FED.clients[1]) == "Client(key 1, 20 rows of 6 features, SquaredLoss(averaged=True))"
    result = fgmp.simulate(METHOD, fgmp.make_sparse_regression(5, 40, 30, 2, rng=0), 30, rng=0)
    assert "history" not in repr(result) and len(repr(result)) < 200


def spoiled(array, value):
    other = np.array(array, dtype=object if isinstance(value, str) else None)
    other.flat[-1] = value
    return other


def made(As, ys, **options):
    return lambda: fgmp.Federation.from_arrays(As, ys, **options)


def framed(column, values, kind=TABLE, **options):
    given = {"site": "site", "target": "y"} | options
    return lambda: fgmp.Federation.from_frame(kind.assign(**{column: values}), **given)


FAULTS = {
    "too few targets": made([X], [y[:-1]]),
    "nan": made([X], [spoiled(y, np.nan)]),
    "infinite and sparse": made([sparse.csr_array(spoiled(X, np.inf))], [y]),
    "text": made([spoiled(X, "Smith")], [y]),
    "ragged": made([[*X.tolist(), [MARK]]], [y]),
    "a mapping": made({"a": X}, [y]),
    "weights": made([X], [y], weights=y),
    "not two labels": made([X], [y], loss="logistic"),
    "a third label": made([X], [spoiled(np.tile([0.0, 1.0], 20), MARK)], loss="logistic", labels=[0, 1]),
    "labels of two kinds": made([X], [spoiled(np.full(40, MARK), "Smith")], loss="logistic"),
    "a label that is none": made([X], [np.array([("Smith", MARK), *["a"] * 39], object)], loss="logistic"),
    "ragged labels": made([X], [[*y.tolist(), [MARK]]], loss="logistic"),
    "labels of a loss": made([X], [y], loss=fgmp.LogisticLoss()),
    "no class": made([X], [spoiled(np.tile([0.0, 1.0], 20), -MARK)], loss="softmax"),
    "many classes": made([X], [1e4 * y], loss="softmax"),
    "a column of text": framed("a", SITES),
    "infinite in a table": framed("a", spoiled(y, np.inf)),
    "sites of two kinds": framed("site", np.array([*["Smith"] * 39, 1], object)),
    "labels of a table": framed("y", y, loss="logistic"),
    "polars": lambda: fgmp.Federation.from_frame(
        pl.DataFrame({"a": ["Smith"] * 40, "y": y, "site": SITES}), site="site", target="y"
    ),
    "no client": lambda: fgmp.Federation.of([], y),
    "pooled": lambda: fgmp.Federation.of(LABELLED.clients, [1.0, 2.0]).pooled(),
    "a model of another shape": lambda: FED.objective(y),
    "no federation": lambda: fgmp.simulate(METHOD, X, 3),
    "a table": lambda: fgmp.simulate(METHOD, TABLE, 3),
    "a pair": lambda: fgmp.simulate(METHOD, (X.tolist(), y.tolist()), 3),
    "no method": lambda: fgmp.simulate(FED, METHOD, 3),
    "a metric": lambda: fgmp.simulate(METHOD, FED, 1, history=fgmp.History(metrics={"rows": lambda x: X})),
    "a callback": lambda: fgmp.simulate(METHOD, FED, 1, watch=X),
    "secure": lambda: fgmp.simulate(METHOD, FED, 1, reduce=FED),
    "out of range": lambda: fgmp.SecureSum(resolution=1e-24).encoded(y),
    "polish": lambda: fgmp.polish(FED, FED),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_error_shows_no_data(name):
    with warnings.catch_warnings(), pytest.raises((ValueError, TypeError)) as caught:
        warnings.simplefilter("error")
        FAULTS[name]()
    error = caught.value
    assert not MARKED.search(str(error)) and "expected" in str(error)


def test_warnings_show_no_data():
    few = fgmp.Federation.from_arrays(X[:16].reshape(4, 4, 6), y[:16].reshape(4, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fgmp.simulate(fgmp.FedGradMP(4), few, 2, rng=0)
        fgmp.simulate(fgmp.FedGradMP(2), LABELLED, 2, rng=0)
    assert caught and not any(MARKED.search(str(warning.message)) for warning in caught)
