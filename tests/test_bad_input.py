"""Bad input is refused at the entry points, in one line: argument, what came, what was expected.

No error, warning or repr shows rows: all values and names of these data are marked, and looked for.
"""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import fgmp
import fgmp.run.metrics
from fgmp import Overall
from fgmp.datasets.digits import DigitsByWriter
from fgmp.dictionaries import StandardBasis
from fgmp.estimators.federated_table import TablePart
from fgmp.solvers import RestrictedProblem
from fgmp.theory import approx_tau

pytestmark = pytest.mark.usefixtures("backend")

MARKED = re.compile(r"4\.?32|Smith")  # 4321.5, 4.32e+03, and names
rng = np.random.default_rng(0)
AS = [4321 + rng.random((8, 5)) for _ in range(3)]
YS = [4321 + rng.random(8) for _ in range(3)]
X = AS[0]
Y = YS[0]
SIGNS = np.tile([-1.0, 1], 4)
NAMES = ["Smith", "Smithson"] * 4
BEYOND = sparse.csr_array(np.eye(8, 5))
BEYOND.indices[1] = 7
FED = fgmp.Federation.from_arrays(AS, YS)
LABELLED = fgmp.Federation.from_arrays(AS, [NAMES] * 3, loss="logistic")
TABLE = pd.DataFrame(X, columns=list("abcde")).assign(y=Y, site=NAMES)
TIMES = np.datetime64("4321-01-01T00:00:00") + np.arange(8) * np.timedelta64(1, "D")
NULLABLE = pd.array([None, *[True, False] * 3, True], dtype="boolean")
METHOD = fgmp.FedGradMP(2)
CLASSIFIER = fgmp.FedGradMPClassifier
NOISE = fgmp.GaussianNoise(1.0, 1.0, 0.1)
WIDE = fgmp.gaussian_dictionary(5, 99, rng=0)


def changed(array, index, value):
    array = np.array(array, dtype=object if isinstance(value, str) else None)
    array[index] = value
    return array


def arrays(As=AS, ys=YS, loss="squared", **options):
    return fgmp.Federation.from_arrays(As, ys, loss, **options)


def framed(features=None, **columns):
    return fgmp.Federation.from_frame(
        TABLE.assign(**columns), site="site", target="y", features=features
    )


def frame_of(table, site="site", target="y"):
    return fgmp.Federation.from_frame(table, site=site, target=target)


def labelled(y, loss="logistic", **options):
    return arrays([X], [y], loss, **options)


def fit(make=fgmp.FedGradMPRegressor, y=Y, groups=None, weights=None, X=X, sparsity=2, **options):
    """Eight rows of five features in one group, or two classes of them."""
    y = SIGNS if make is CLASSIFIER and y is Y else y
    return make(sparsity, **options).fit(X, y, groups, sample_weight=weights)


def run(method=METHOD, fed=FED, rounds=1, **options):
    return fgmp.simulate(method, fed, rounds, **({"rng": 0} | options))


FEDERATIONS = {
    r"ys has 2 entries; expected one for each of the 3": lambda: arrays(ys=YS[:2]),
    r"As\[1\] has shape \(8,\); expected 2 dimensions": lambda: arrays([X, Y, X]),
    r"As\[2\] .*4.*expected.*5": lambda: arrays([X, X, X[:, :4]]),
    r"ys\[0\] has 7 entries; expected 8, the number of rows of As\[0\]": lambda: arrays(
        ys=[Y[:7], Y, Y]
    ),
    r"As\[0\] holds 1 .* not finite, the first at \(2, 3\)": lambda: arrays(
        [changed(X, (2, 3), np.nan)], [Y]
    ),
    r"As\[0\] .*not finite": lambda: arrays([sparse.csr_array(changed(X, (2, 3), np.inf))], [Y]),
    r"As\[0\] has dtype object; expected real numbers": lambda: arrays(
        [changed(X, (0, 0), "Smith")], [Y]
    ),
    r"As\[0\] has 40 masked values": lambda: arrays([np.ma.masked_array(X, mask=True)], [Y]),
    r"As\[0\] is a list; expected an array": lambda: arrays([[*X.tolist(), [4321.0]]], [Y]),
    r"^As is one matrix; expected a sequence of matrices, one for": lambda: arrays(
        sparse.csr_array(X)
    ),
    r"^As is one matrix; expected a sequence of matrices, one for each client": lambda: arrays(
        X, Y
    ),
    r"^As is one matrix; expected a sequence of matrices": lambda: arrays(TABLE[list("abcde")], Y),
    r"^As is one matrix; expected a sequence": lambda: arrays(X.tolist(), Y.tolist()),
    r"As\[0\] has dtype object; expected real": lambda: arrays([[[4321, "Smith"]]], [[1.0]]),
    r"As\[0\] has 1 missing values, the first in row 1; expected a number": lambda: arrays(
        [[[4321.0], [None]]], [[1, 2]]
    ),
    r"ys\[0\] has 2 missing values, the first in row 0; expected a number": lambda: arrays(
        [X], [[None, np.nan, *Y[2:]]]
    ),
    r"ys\[0\] has 1 missing values, the first in row 2; expected a label in": lambda: labelled(
        [*NAMES[:2], np.nan, *NAMES[:5]]
    ),
    r"ys\[0\] has 1 missing values, the first in row 2; expected a label": lambda: labelled(
        [*NAMES[:2], None, *NAMES[:5]]
    ),
    r"ys\[0\] holds several kinds, numbers and text; expected a label": lambda: labelled(
        [4321, *NAMES[:7]]
    ),
    r"ys\[0\] has dtype object; expected real numbers": lambda: labelled(
        [4321, *NAMES[:7]], "squared"
    ),
    r"labels is \('a', nan\); expected two different values": lambda: labelled(
        ["a"] * 8, labels=("a", np.nan)
    ),
    r"As\[0\] is no valid sparse matrix: .*; expected indices within": lambda: arrays(
        [BEYOND], [Y]
    ),
    r"weights are not in proportion": lambda: fgmp.Federation.from_clients(
        LABELLED.clients, [1.0, 2.0, 3.0]
    ).pooled(),
    r"loss is 'hinge'; expected one of": lambda: arrays(loss="hinge"),
    r"loss is None; expected a loss object": lambda: arrays(loss=None),
    r"weights has 8 entries; expected one for each of 3 clients": lambda: arrays(weights=Y),
    r"weights\[1\] is -1; expected no negative weight": lambda: arrays(weights=[1, -1, 1]),
    r"truth has shape \(4,\); expected \(5,\)": lambda: arrays(truth=np.zeros(4)),
    r"x has shape \(8,\); expected": lambda: FED.objective(Y),
    r"ys hold 8 different labels; expected two": lambda: labelled(Y),
    r"ys\[0\] holds several kinds, numbers and text; expected a label, all of a": lambda: labelled(
        changed(Y, 3, "Smith")
    ),
    r"ys\[0\] has 4 missing values, the first in row 1; expected a label": lambda: labelled(
        np.array(["a", np.nan] * 4, object)
    ),
    r"ys\[0\]\[1\] is no label; expected one of 'a' and 'c'": lambda: labelled(
        list("abababab"), labels=("a", "c")
    ),
    r"ys\[0\]\[0\] is no label; expected": lambda: labelled(
        changed(np.zeros(8), 0, -4321), "softmax"
    ),
    r"ys hold a larger number; expected integers from 0": lambda: labelled(1e4 * Y, "softmax"),
    r"column 'a' is .*; expected numbers": lambda: framed(a=NAMES),
    r"column 'a' holds 1 values that are not finite": lambda: framed(a=changed(Y, 0, np.inf)),
    r"column 'a' is Datetime.*; expected numbers": lambda: framed(
        a=np.datetime64("2026-01-01") + np.arange(8)
    ),
    r"column 'a' has 2 missing values; expected a number": lambda: framed(
        a=[None, np.nan, *np.ones(6)]
    ),
    r"column 'site' has 1 missing values; expected a site": lambda: framed(
        site=[None] + ["Smith"] * 7
    ),
    r"column 'site' has 2 missing values; expected a site": lambda: framed(
        site=[np.nan, None] + ["Smith"] * 6
    ),
    r"column 'a' is complex128; expected numbers": lambda: framed(a=Y * 1j),
    r"column 'a' has 1 missing values; expected a number": lambda: framed(a=NULLABLE),
    r"^df has no rows; expected at least one$": lambda: frame_of(TABLE[:0]),
    r"^df is a LazyFrame; expected its rows, as .collect\(\)": lambda: frame_of(
        pl.DataFrame(TABLE.to_dict("list")).lazy()
    ),
    r"^df has more than one column 'a'; expected every name once": lambda: frame_of(
        TABLE.set_axis(list("abcdaxy"), axis=1)
    ),
    r"^target: 'y' is not a column; expected one of 'a', 0, \('t', 1\)": lambda: frame_of(
        pd.DataFrame(X[:, :3]).set_axis(["a", 0, ("t", 1)], axis=1), site=0
    ),
    r"^site: a list of 1 is not a column; expected": lambda: frame_of(TABLE, site=[["site"]]),
    r"features: 'clinic' is not a column": lambda: framed(["a", "clinic"]),
    r"overlap; expected each column once": lambda: framed(["a", "y"]),
    r"site.*kind": lambda: framed(site=np.array([*NAMES[1:], 1], object)),
    r"ys\[0\] holds several kinds, text and tuple": lambda: labelled(
        np.array([("Smith", 4321.0), *["a"] * 7], object)
    ),
    r"federation has the loss SquaredLoss.*; expected one with n_classes, such as SoftmaxLoss": lambda: (
        fgmp.run.metrics.accuracy_on(FED)
    ),
}

METHODS = {
    r"atoms.*zero": lambda: fgmp.Dictionary(np.zeros((3, 2))),
    r"atoms\[:, 0\] and atoms\[:, 1\] are the same": lambda: fgmp.Dictionary(
        [[1.0, 2.0, 0.0], [1.0, 2.0, 1.0]]
    ),
    r"steps and accuracy are both None; expected": lambda: fgmp.GradientDescent(),
    r"approximation is 'best'; expected one of 'omp', 'thresholding'": lambda: fgmp.Dictionary(
        np.eye(3), "best"
    ),
    r"sparsity is 9, which has about 10.12.2 supports; expected at most 5000000": lambda: (
        approx_tau(WIDE, X[0], 9)
    ),
    r"share is 0.5; expected": lambda: fgmp.TrimmedMean(0.5),
    r"^always_include is 'x'; expected an atom or several, each an integer of at least 0$": lambda: (
        fgmp.PerAtom("x")
    ),
    r"^always_include is -1; expected an integer of at least 0$": lambda: fgmp.PerAtom([-1]),
    r"^always_include is 4; expected an integer from 0 to 3 \(the last atom\)$": lambda: (
        fgmp.PerAtom(4).check(1, (4, 2))
    ),
    r"^sparsity is 5; .* from 1 to 4 \(the number of atoms\)$": lambda: fgmp.PerAtom().check(
        5, (4, 2)
    ),
    r"^sparsity is 9; .* from 1 to 8 \(the number of coefficients\)$": lambda: Overall().check(
        9, (4, 2)
    ),
    r"^screening is 1; .* CountSketch\(rows, columns\) or Larg.*count\)$": lambda: (
        fgmp.SharedSupportGradMP(1, 1)
    ),
    r"^solver is 1; expected a solver on a shared support: NewtonOnSupport\(\) or LocalSteps\(a client's solver\)$": (
        lambda: fgmp.SharedSupportGradMP(1, solver=1)
    ),
    r"^steps is 200000; expected an integer from 1 to 100000$": lambda: fgmp.NewtonOnSupport(
        200_000
    ),
    r"^ridge is -1; expected a finite number at least 0$": lambda: fgmp.NewtonOnSupport(2, -1),
    r"^columns is 1; expected an integer of at least 2$": lambda: fgmp.CountSketch(1, 1),
    r"probability is 2; expected a finite number at least 0 and at most 1": lambda: fgmp.DropOut(
        probability=2
    ),
}

COLUMNS = pd.DataFrame(X, columns=list("xyzuv"))
GENERATOR = np.random.default_rng(0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", fgmp.AdviceWarning)
    FITTED = fit()
    LABELLED_FIT = fit(CLASSIFIER, X=COLUMNS)
    PER_GROUP = fit(fit_intercept="per_group", groups=[0, 1] * 4, min_rows=1)
    PRIVATE = fit(private=NOISE, standardize=False, fit_intercept=False, polish=False)
ESTIMATORS = {
    r"sparsity is 6; expected an integer from 0 to 5 \(the number of features; or 'all', 'cv'": lambda: (
        fit(sparsity=6)
    ),
    r"sparsity is 'aic'; expected .*'all', 'cv', None": lambda: fit(CLASSIFIER, sparsity="aic"),
    r"fit_intercept is 'per_site'; expected 'per_group', True or False|fit_intercept is": lambda: (
        fit(CLASSIFIER, fit_intercept="per_site")
    ),
    r"2 of 2 groups have fewer than min_rows=5 rows \(0, 1\), and none is left": lambda: fit(
        groups=[0, 1] * 4
    ),
    r"one class: .*1": lambda: fit(CLASSIFIER, weights=(SIGNS > 0).astype(float)),
    r"groups has 1 missing values; expected a group in every row": lambda: fit(
        groups=changed(np.zeros(8), 1, np.nan)
    ),
    r"groups has 1 missing values, the first in row 7; expected a group": lambda: fit(
        groups=pd.Series(["Smith"] * 7 + [pd.NA], dtype="string")
    ),
    r"groups has 2 missing values, the first in row 1": lambda: fit(
        groups=["Smith", np.nan, None, *["Smith"] * 5]
    ),
    r"^groups has 1 missing values; expected": lambda: fit(
        groups=changed(TIMES, 3, np.datetime64("NaT"))
    ),
    r"groups holds several kinds, numbers and text; expected a group": lambda: fit(
        groups=[1, *["Smith"] * 7]
    ),
    r"groups is 'site'; expected one group for each of 8 rows, no name": lambda: fit(groups="site"),
    r"groups holds numbers that are not integers; .*sample_weight=": lambda: fit(groups=Y),
    r"^groups holds numbers that are not integers": lambda: fit(groups=Y.astype(object)),
    r"^y has 1 missing values, the first in row 2; expected a label": lambda: fit(
        CLASSIFIER, ["a", "b", None, *"ababa"]
    ),
    r"^y has 1 missing values, the first in row 3; expected a label": lambda: fit(
        CLASSIFIER, ["b", *"ab", np.nan, *"abab"]
    ),
    r"^y has 2 missing values, the first in row 6": lambda: fit(
        CLASSIFIER, pd.Series(["Smith", "b"] * 3 + [pd.NA] * 2, dtype="string")
    ),
    r"^y has 1 missing values, the first in row 0; expected a number": lambda: fit(
        y=[None, *Y[1:]]
    ),
    r"^y holds several kinds, numbers and text; expected a label": lambda: fit(
        CLASSIFIER, [4321, *NAMES[1:]]
    ),
    r"^y holds values of the type tuple; expected numbers or text": lambda: fit(
        CLASSIFIER, pd.Series([("Smith", 1), ("b", 2)] * 4).to_numpy()
    ),
    r"^y holds text that is no number; expected numbers$": lambda: fit(y=NAMES),
    r"^y has 3 masked values": lambda: fit(y=np.ma.masked_array(Y, np.arange(8) < 3)),
    r"^y has 3 masked values; expected": lambda: fit(
        CLASSIFIER, np.ma.masked_array(SIGNS, np.arange(8) < 3)
    ),
    r"^y holds dates or durations, dtype datetime64.*; expected numbers": lambda: fit(y=TIMES),
    r"^y holds dates or durations, dtype timedelta64": lambda: fit(y=TIMES - TIMES[0]),
    r"^y holds dates or durations, dtype object": lambda: fit(y=TIMES.tolist()),
    r"^y holds dates or durations, .*; expected numbers or text": lambda: fit(
        CLASSIFIER, TIMES[[0, 1] * 4]
    ),
    r"^Complex data not supported: y has dtype complex128; expected": lambda: fit(y=Y * 1j),
    r"^Complex data not supported: y has dtype": lambda: fit(CLASSIFIER, y=SIGNS * 4321j),
    r"^y holds numbers as large as 1e\+308: no float holds": lambda: fit(y=changed(Y, 2, 1e308)),
    r"^X holds in the columns \[3\] numbers so large that no float": lambda: fit(
        X=changed(X, (2, 3), 1e308)
    ),
    r"^X holds in the columns \['y', 'u'\] numbers so large": lambda: fit(
        X=COLUMNS.assign(y=1.7e308, u=-1e200)
    ),
    r"^X holds in the columns \[1, 3\] numbers so large": lambda: fit(
        X=sparse.csr_array(X * [1, 1e300, 1, 1e200, 1])
    ),
    r"^X contains infinity in the columns \['v'\]; expected finite numbers$": lambda: fit(
        X=COLUMNS.assign(v=changed(Y, 2, np.inf))
    ),
    r"^X contains infinity in the columns \['y'\]; expected finite": lambda: fit(
        X=COLUMNS.assign(y=np.inf, u=-1e200)
    ),
    r"^X contains infinity in the columns \[4\]; expected finite": lambda: fit(
        X=sparse.csr_array(changed(X, (2, 4), np.inf))
    ),
    r"^X contains NaN: values are missing in the columns \['b'\]": lambda: fit(
        X=COLUMNS.assign(b=NULLABLE)
    ),
    r"^X contains NaN: values are missing in the columns \[3\];": lambda: fit(
        X=changed(changed(X, (2, 3), np.nan), (1, 4), np.inf)
    ),
    r"^X has 0 columns; expected at least one$": lambda: fit(X=COLUMNS[[]], missing="indicator"),
    r"^Complex data not supported: X has dtype complex128; expected real": lambda: fit(X=X * 1j),
    r"^Complex data not supported: X has dtype complex128; expected": lambda: fit(
        X=sparse.csr_array(X * 1j)
    ),
    r"column 'c' of X to float: it is complex128": lambda: fit(X=COLUMNS.assign(c=Y * 1j)),
    r"^X has 5 masked values": lambda: fit(
        X=np.ma.masked_array(X, np.arange(40).reshape(8, 5) < 5)
    ),
    r"^X holds dates or durations, dtype datetime64.*; expected numbers": lambda: fit(
        X=TIMES.reshape(-1, 1)
    ),
    r"^X holds dates or durations, dtype timedelta64": lambda: fit(
        X=(TIMES - TIMES[0]).reshape(-1, 1)
    ),
    r"^X holds dates or durations, dtype object": lambda: fit(
        X=[[day, 4321] for day in TIMES.tolist()]
    ),
    r"^X holds text that is no number; expected numbers, or categories=\[...\]": lambda: fit(
        X=[[name, 4321] for name in NAMES]
    ),
    r"^X has shape \(8,\); expected 2 dimensions. Reshape": lambda: fit(X=Y),
    r"^X is None; expected a matrix or a table$": lambda: fit(X=None),
    r"^X is a LazyFrame; expected its rows, as .collect\(\)": lambda: fit(X=pl.DataFrame(X).lazy()),
    r"^X has more than one column 'a'; expected every name once": lambda: fit(
        X=pd.DataFrame(X, columns=list("abade"))
    ),
    r"^sample_weight has 8 masked values": lambda: fit(weights=np.ma.masked_array(Y, True)),
    r"^sample_weight holds dates or durations": lambda: fit(weights=TIMES),
    r"^sample_weight holds text that is no number": lambda: fit(weights=NAMES),
    r"^random_state is Generator.*; expected an integer from 0": lambda: fit(
        random_state=np.random.default_rng(0)
    ),
    r"^random_state is Generator.*; expected an integer": lambda: FITTED.bootstrap(
        1, "rows", random_state=GENERATOR
    ),
    r"^secure is True, and all rows are one group; expected .*groups=": lambda: fit(secure=True),
    r"^private is given, and every resample would spend its epsilon": lambda: PRIVATE.bootstrap(
        1, "rows"
    ),
    r"^X holds dates or durations": lambda: FITTED.predict(np.tile(TIMES[:, None], 5)),
    r"^X has 2 masked values": lambda: FITTED.predict(
        np.ma.masked_greater(X, np.sort(X.ravel())[-3])
    ),
    r"column 'u' of X to float: it is Datetime": lambda: LABELLED_FIT.decision_function(
        COLUMNS.assign(u=TIMES)
    ),
    r"column 'u' of X to float: it is Duration": lambda: LABELLED_FIT.predict(
        COLUMNS.assign(u=TIMES - TIMES[0])
    ),
    r"column 'u' of X to float: it is [a-zA-Z]+. Name it in categories=\[...\]": lambda: (
        LABELLED_FIT.predict_proba(COLUMNS.assign(u=NAMES))
    ),
    r"^X contains NaN: values are missing in the columns \['x'\]": lambda: LABELLED_FIT.predict(
        COLUMNS.assign(x=changed(Y, 2, np.nan))
    ),
    r"^y has 1 missing values, the first in row 5; expected a label": lambda: LABELLED_FIT.score(
        COLUMNS, [*"ababa", None, *"ba"]
    ),
    r"^y has 1 masked values": lambda: FITTED.score(X, np.ma.masked_array(Y, np.arange(8) == 2)),
    r"^y holds dates or durations": lambda: FITTED.score(X, TIMES),
    r"^groups has shape \(2,\); expected one group for each of 8": lambda: PER_GROUP.predict(
        X, groups=["Smith", "b"]
    ),
    r"groups has shape \(8, 5\); expected one group for each of 8": lambda: fit(groups=X),
    r"could not convert column 'y' of X to float: it is [a-zA-Z]+. Name it in categor": lambda: fit(
        X=COLUMNS.assign(y=NAMES)
    ),
    r"^X contains NaN: values .* \['u'\]; expected none, or a fit with missing='indicator'$": lambda: (
        fit(X=COLUMNS.assign(u=changed(Y, 2, np.nan)))
    ),
    r"no bound with C=inf; a finite C gives them one": lambda: fit(
        CLASSIFIER, np.sign(X[:, 0] - np.median(X[:, 0])), sparsity=1, C=np.inf, method="shared"
    ),
    r"X has 5001 features; expected at most 5000": lambda: fit(sparsity="all", X=np.eye(8, 5001)),
}

RUNS = {
    r"method is .*; expected": lambda: run(FED),
    r"clients is .*; expected a Federation, or another transport": lambda: run(
        fed=(X.tolist(), Y.tolist())
    ),
    r"sparsity is 6; expected .*5": lambda: run(fgmp.FedGradMP(6)),
    r"batch_size is 9; expected .*8": lambda: run(fgmp.FedGradMP(2, batch_size=9)),
    r"cohort_size is 4; expected an integer from 1 to 3": lambda: run(cohort_size=4),
    r"rng is 'zero'; expected": lambda: run(rng="zero"),
    r"atoms of 7 features; expected 5": lambda: run(
        fgmp.FedGradMP(2, dictionary=fgmp.Dictionary(np.eye(7)))
    ),
    r"path is '.'; expected the path of a file": lambda: fgmp.Checkpoint("."),
    r"faults has 'nan'; expected faults such as": lambda: fgmp.Faulty(FED, "nan"),
    r"clients names 6; expected ids": lambda: run(fed=fgmp.Faulty(FED, fgmp.DropOut(clients=[6]))),
    r"aggregator is .*; expected an aggregator": lambda: run(aggregator=FED),
    r"columns is 3; expected at least 4": lambda: run(
        fgmp.SharedSupportGradMP(2, fgmp.CountSketch(1, 3))
    ),
    r"callbacks .*; expected": lambda: run(callbacks=X),
    r"metrics\['m'\] returned .*; expected a number": lambda: run(
        history=fgmp.History(metrics={"m": lambda x: X})
    ),
    r"result is .*; expected": lambda: fgmp.polish(FED, FED),
    r"result has an empty support": lambda: fgmp.polish(run(rounds=0), FED),
    r"result is of a run with noise": lambda: fgmp.polish(run(aggregator=NOISE), FED),
    r"objective_on is 1; expected None in a run with noise": lambda: run(
        aggregator=NOISE, history=fgmp.History(objective_on=1)
    ),
    r"clip has 3 values; expected one": lambda: run(
        aggregator=fgmp.GaussianNoise(1.0, (1.0, 1.0, 1.0))
    ),
    r"delta is 0.5; expected at most 0.3333": lambda: run(
        aggregator=fgmp.GaussianNoise(1.0, 1.0, 0.5)
    ),
    r"threshold is 7; expected an integer from 2 to 3": lambda: run(
        aggregator=fgmp.SecureSum(threshold=7)
    ),
    r"cohort_size is 1; expected an integer of at least 2": lambda: run(
        cohort_size=1, aggregator=fgmp.SecureSum()
    ),
    r"holds larger numbers; expected magnitudes of": lambda: run(
        aggregator=fgmp.SecureSum(resolution=1e-24)
    ),
    r"aggregator is Median.*, and the updates of an exchange may only be averaged": lambda: run(
        fgmp.SharedSupportGradMP(2), aggregator=fgmp.Median()
    ),
}

ENTRY_POINTS = {
    "a federation": FEDERATIONS,
    "a method or estimator": METHODS,
    "a fit": ESTIMATORS,
    "a run": RUNS,
}


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize(
    ("entry_point", "message"),
    [(entry_point, message) for entry_point, rows in ENTRY_POINTS.items() for message in rows],
)
def test_bad_input_is_refused_by_name_without_showing_data(entry_point, message):
    """One line names the argument, what came and what was expected."""
    with pytest.raises(ValueError, match=message) as found:
        ENTRY_POINTS[entry_point][message]()
    words = str(found.value)
    assert not MARKED.search(words)
    assert len(words.splitlines()[0]) < 300
    if entry_point != "a fit":  # messages about tables are in the style of scikit-learn
        assert "expected" in words


THIN = arrays([sparse.csr_array(A) for A in AS])
SHOWN = {
    "federation of a table": framed(),
    "sparse": (THIN, THIN.clients[0].features),
    "shape": FED.info,
    "restricted problem": RestrictedProblem.of(FED.clients[0], np.arange(5), StandardBasis()),
    "rows of clients": TablePart(np.arange(len(Y)), Y, Y),
    "digits": DigitsByWriter(FED, FED, ("0",), ("1",), (2, 3)),
    "a dict of it all": {
        "truth": arrays(truth=X[0]),
        "labels": LABELLED,
        "pool": FED.pooled(),
        "all": FED.clients,
    },
}


@pytest.mark.parametrize("name", SHOWN)
def test_repr_is_short_and_shows_no_data(name):
    """Representations have shapes and counts, and no rows."""
    text = re.sub(r" at 0x\w+", "", repr(SHOWN[name]))  # an address may hold any digits
    assert not MARKED.search(text)
    assert len(text) < 600


def test_warnings_show_no_data():
    """Advice has counts, and no rows."""
    few = arrays([A[:4] for A in AS], [y[:4] for y in YS])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(fgmp.FedGradMP(4), few, 2)
        run(METHOD, LABELLED, 2)
    assert caught
    assert not any(MARKED.search(str(warning.message)) for warning in caught)
