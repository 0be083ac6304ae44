"""What does not fit is refused at three doors, in one line that names the argument, what came and what was expected."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fgmp
import fgmp.datasets.digits
import fgmp.metrics
from fgmp.selection import Overall

rng = np.random.default_rng(0)
AS, YS = [rng.standard_normal((8, 5)) for _ in range(3)], [rng.standard_normal(8) for _ in range(3)]
FED = fgmp.Federation.from_arrays(AS, YS)
BEYOND = sparse.csr_array(np.eye(8, 5))
BEYOND.indices[1] = 7
SIGNS = fgmp.Federation.from_arrays(AS, [np.sign(y) for y in YS], loss="logistic")
METHOD = fgmp.FedGradMP(2)
RATE = {"learning_rate": 0.1}


def arrays(As=AS, ys=YS, *others, **options):
    return fgmp.Federation.from_arrays(As, ys, *others, **options)


def labelled(y, loss="logistic", **options):
    return fgmp.Federation.from_arrays(AS[:1], [y], loss, **options)


def changed(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


def frame(**columns):
    table = {"site": ["a", "a", "b", "b"], "age": [1.0, 2, 3, 4], "y": [1.0, 0, 1, 0]} | columns
    return pd.DataFrame(table)


def fit(make=fgmp.FedGradMPRegressor, y=YS[0], groups=None, weights=None, X=AS[0], sparsity=2, **options):
    """Eight rows of five features in one group, or two classes of them."""
    if make is fgmp.FedGradMPClassifier and y is YS[0]:
        y = np.sign(YS[0])
    return make(sparsity, **options).fit(X, y, groups, sample_weight=weights)


CLASSIFIER, TWO_SITES = fgmp.FedGradMPClassifier, [0, 1] * 4


def run(method=METHOD, fed=FED, rounds=1, **options):
    return fgmp.simulate(method, fed, rounds, **({"rng": 0} | options))


def tune(grid=None, **options):
    return fgmp.tune(lambda **rate: fgmp.FedAvg(**rate), grid or {"learning_rate": [0.1]}, FED, 1, **options)


FEDERATIONS = {
    r"As has 3 .*; expected 2|ys has 2": lambda: arrays(ys=YS[:2]),
    r"As\[1\] has shape \(8,\); expected 2 dimensions": lambda: arrays([AS[0], AS[1][:, 0], AS[2]]),
    r"As\[2\] .*4.*expected.*5": lambda: arrays([*AS[:2], AS[2][:, :4]]),
    r"ys\[0\] has 7 entries; expected 8, the number of rows of As\[0\]": lambda: arrays(ys=[YS[0][:7], *YS[1:]]),
    r"As\[0\] holds 1 values that are not finite, the first at \(2, 3\)": lambda: arrays(
        [changed(AS[0], (2, 3), np.nan), *AS[1:]]
    ),
    r"ys\[1\] holds 1 values that are not finite": lambda: arrays(ys=[YS[0], changed(YS[1], 0, np.inf), YS[2]]),
    r"As\[0\] has dtype <U1; expected real numbers": lambda: arrays([np.full((8, 5), "a"), *AS[1:]]),
    r"As\[0\] has 40 masked values": lambda: arrays([np.ma.masked_array(AS[0], mask=True), *AS[1:]]),
    r"As is one sparse matrix; expected a sequence of matrices": lambda: arrays(sparse.csr_array(AS[0])),
    r"As\[0\] is no valid sparse matrix: .*; expected indices within": lambda: arrays([BEYOND, *AS[1:]]),
    r"weights are not in proportion to the rows": lambda: arrays(
        ys=[np.sign(y) for y in YS], loss="logistic", weights=[1, 2, 3]
    ).pooled(),
    r"loss is 'hinge'; expected one of": lambda: arrays(loss="hinge"),
    r"ys.*3.*two labels|ys.*expected.*two": lambda: arrays(ys=[np.arange(8.0), *YS[1:]], loss="logistic"),
    r"ys\[0\]\[0\] is no label; expected": lambda: arrays(
        ys=[changed(np.zeros(8), 0, -1)] * 3, loss=fgmp.SoftmaxLoss(3)
    ),
    r"weights has 2 entries; expected one for each of 3 clients": lambda: arrays(weights=[1, 2]),
    r"weights\[1\] is -1; expected no negative weight": lambda: arrays(weights=[1, -1, 1]),
    r"weights sum to 0; expected at least one positive": lambda: arrays(weights=[0, 0, 0]),
    r"truth has shape \(4,\); expected \(5,\)": lambda: arrays(truth=np.zeros(4)),
    r"site: 'hospital' is not a column; expected one of 'site', 'age', 'y'": lambda: fgmp.Federation.from_frame(
        frame(), site="hospital", target="y"
    ),
    r"target: 'outcome' is not a column; expected one of": lambda: fgmp.Federation.from_frame(
        frame(), site="site", target="outcome"
    ),
    r"column 'age'|age": lambda: fgmp.Federation.from_frame(frame(age=list("abcd")), site="site", target="y"),
    r"sparsity is 11; expected an integer .*10": lambda: fgmp.make_sparse_regression(n_features=10, sparsity=11, rng=0),
    r"noise_variance is -1; expected a finite number at least 0": lambda: fgmp.make_sparse_regression(
        noise_variance=-1, rng=0
    ),
    r"dataset is 'mnist'; expected one of 'digits', 'mnist-wr": lambda: fgmp.datasets.digits.digits_by_writer("mnist"),
    r"federation has the loss SquaredLoss.*; expected SoftmaxLoss": lambda: fgmp.metrics.accuracy_on(FED),
    r"ys hold 1 different labels; expected two": lambda: labelled(["a"] * 8),
    r"ys hold labels of several kinds, .*; expected one kind": lambda: labelled(np.array(["a", 1] * 4, object)),
    r"ys\[0\]\[1\] is a NoneType; expected a label in every row": lambda: labelled(np.array(["a", None] * 4, object)),
    r"ys\[0\]\[1\] is nan; expected a label in every row": lambda: labelled(np.array(["a", np.nan] * 4, object)),
    r"ys\[0\]\[1\] is no label; expected one of 'a' and 'c'": lambda: labelled(list("abababab"), labels=("a", "c")),
    r"labels is .*; expected None, because the loss is": lambda: labelled(np.arange(8), "squared", labels=(0, 1)),
    r"labels is None": lambda: FED.label([1.0]),
    r"margin is 0.0; expected": lambda: fgmp.LogisticLoss(margin=0.0),
}

METHODS = {
    r"sparsity is 0; expected an integer of at least 1": lambda: fgmp.FedGradMP(0),
    r"sparsity is 2.0; expected an integer of at least 1": lambda: fgmp.FedGradMP(2.0),
    r"local_iterations is 0; expected an integer of at least 1": lambda: fgmp.FedGradMP(2, local_iterations=0),
    r"batch_size is 0; expected an integer of at least 1": lambda: fgmp.FedGradMP(2, batch_size=0),
    r"radius is 0; expected a finite number above 0": lambda: fgmp.FedGradMP(2, radius=0),
    r"dictionary is .*; expected": lambda: fgmp.FedGradMP(2, dictionary=np.eye(5)),
    r"solver is 'exact'; expected": lambda: fgmp.FedGradMP(2, solver="exact"),
    r"always is -1; expected an integer of at least 0": lambda: fgmp.PerAtom(always=(-1,)),
    r"selection is 'per output'; expected": lambda: fgmp.FedGradMP(2, selection="per output"),
    r"learning_rate is 0; expected a finite number above 0": lambda: fgmp.FedAvg(learning_rate=0),
    r"l1_weight is -1; expected a finite number": lambda: fgmp.FedMid(l1_weight=-1, **RATE),
    r"server_learning_rate is 0; expected a finite number above 0": lambda: fgmp.FedAvg(server_learning_rate=0, **RATE),
    r"strong_convexity is -1; expected": lambda: fgmp.FastFedDualAvg(l1_weight=0.1, strong_convexity=-1, **RATE),
    r"steps is 0; expected an integer of at least 1": lambda: fgmp.GradientDescent(steps=0),
    r"atoms.*zero": lambda: fgmp.Dictionary(np.zeros((3, 2))),
    r"atoms\[:, 0\] and atoms\[:, 1\] are the same": lambda: fgmp.Dictionary([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0]]),
    r"approximation is 'best'; expected one of 'omp', 'thresholding'": lambda: fgmp.Dictionary(np.eye(3), "best"),
    r"steps and accuracy are both None; expected": lambda: fgmp.GradientDescent(),
    r"identify is 6; expected CountSketch": lambda: fgmp.SharedSupportGradMP(3, 6),
    r"pruning is 'best'; expected one of 'elimination'": lambda: fgmp.SharedSupportGradMP(3, pruning="best"),
    r"frames holds 2 different frames of 10, .*; expected at least n_atoms = 4": lambda: fgmp.ksvd(
        np.repeat(AS[0][:2], 5, axis=0), n_atoms=4, sparsity=2, rng=0
    ),
    r"sparsity is 9; expected an integer from 1 to 4": lambda: fgmp.ksvd(
        rng.standard_normal((6, 8)), n_atoms=4, sparsity=9, rng=0
    ),
    r"share is 0.5; expected": lambda: fgmp.TrimmedMean(0.5),
    r"epsilon is 0; expected a finite number above 0": lambda: fgmp.GaussianNoise(0, clip=1),
    r"resolution is 0; expected a finite number above 0": lambda: fgmp.SecureSum(0),
    r"probability is 2; expected a finite number at least 0 and at most 1": lambda: fgmp.DropOut(probability=2),
    r"C is 0; expected a finite number above 0": lambda: fgmp.FedGradMPClassifier(2, C=0).fit(AS[0], np.sign(YS[0])),
    r"Input X contains NaN": lambda: fgmp.FedGradMPRegressor(2).fit(changed(AS[0], 0, np.nan), YS[0]),
    r"inconsistent numbers of samples: \[8, 7\]": lambda: fgmp.FedGradMPRegressor(2).fit(AS[0], YS[0], groups=[0] * 7),
    r"only one class": lambda: fgmp.FedGradMPClassifier(2).fit(AS[0], np.ones(8)),
}

ESTIMATORS = {
    r"sparsity is 6; expected an integer from 0 to 5 \(the number of features; or 'all', 'cv', 'ebic', None": lambda: (
        fit(sparsity=6)
    ),
    r"sparsity is 2.0; expected an integer from 0 to 5": lambda: fit(sparsity=2.0),
    r"sparsity is True; expected an integer from 0 to 5": lambda: fit(sparsity=True),
    r"sparsity is 'aic'; expected .*'cv', 'ebic', None": lambda: fit(CLASSIFIER, sparsity="aic"),
    r"method is 'fedavg'; expected one of 'auto', 'fedgradmp', 'shared'": lambda: fit(method="fedavg"),
    r"fit_intercept is 'per_group'; expected True or False$": lambda: fit(CLASSIFIER, fit_intercept="per_group"),
    r"rounds is 0; expected an integer of at least 1": lambda: fit(rounds=0),
    r"tol is -1.0; expected a finite number at least 0": lambda: fit(tol=-1.0),
    r"standardize is 'no'; expected True or False or 'auto'": lambda: fit(standardize="no"),
    r"tol is nan; expected a finite number": lambda: fit(tol=float("nan")),
    r"n_folds is 1; expected an integer of at least 2": lambda: fit(n_folds=1),
    r"min_rows is 0; expected an integer of at least 1": lambda: fit(min_rows=0),
    r"2 of 2 groups have fewer than min_rows=5 rows \(0, 1\), and none is left": lambda: fit(groups=TWO_SITES),
    r"cohort_size is 0; expected an integer of at least 1": lambda: fit(cohort_size=0),
    r"cohort_size is 5; expected an integer from 1 to 1 \(the number of cl": lambda: fit(cohort_size=5),
    r"batch_size is 9; expected an integer from 1 to 8": lambda: fit(batch_size=9, method="fedgradmp"),
    r"sparsities is 9; expected an integer from 0 to 5": lambda: fit(sparsity="cv", sparsities=[1, 9]),
    r"sparsities is 5; expected a sequence of integers, or None": lambda: fit(sparsity="cv", sparsities=5),
    r"C is '1'; expected a finite number above 0": lambda: fit(CLASSIFIER, C="1"),
    r"one class: .*1": lambda: fit(CLASSIFIER, weights=(YS[0] > 0).astype(float)),
    r"Unknown label type: continuous": lambda: fit(CLASSIFIER, YS[1]),
    r"Input groups contains NaN": lambda: fit(groups=changed(np.zeros(8), 1, np.nan)),
    r"Input groups contains <NA>: every row needs a group": lambda: fit(
        groups=pd.Series(["a"] * 7 + [pd.NA], dtype="string")
    ),
    r"groups should be a 1d array, got .* of shape \(8, 2\) instead": lambda: fit(groups=np.zeros((8, 2))),
    r"X contains NaN.\nFedGradMPClassifier does not accept missing": lambda: fit(
        CLASSIFIER, X=changed(AS[0], 0, np.nan)
    ),
    r"Input y contains NaN": lambda: fit(y=changed(YS[0], 0, np.nan)),
    r"non-zero|zero for every row": lambda: fit(weights=np.zeros(8)),
    r"[Nn]egative values": lambda: fit(weights=-np.ones(8)),
    r"could not convert column 'a' of X to float: it is Datetime": lambda: fit(
        X=pd.DataFrame(AS[0], columns=list("xyzuv")).assign(a=pd.date_range("2026-01-01", periods=8))
    ),
    r"could not convert column 'a' of X to float: it is [a-zA-Z]+. Drop": lambda: fit(
        X=pd.DataFrame(AS[0], columns=list("xyzuv")).assign(a=["red", "blue"] * 4)
    ),
    r"no bound with C=inf; a finite C gives them one": lambda: fit(
        CLASSIFIER, np.sign(AS[0][:, 0]), sparsity=1, C=np.inf, method="shared"
    ),
    r"X contains NaN(.|\n)*It is in the columns \['u'\]; expected numbers": lambda: fit(
        X=pd.DataFrame(changed(AS[0], (2, 3), np.nan), columns=list("xyzuv"))
    ),
    r"X has 5001 features; expected at most 5000": lambda: fit(sparsity="all", X=np.eye(8, 5001)),
    r"over is 'sites'; expected one of 'groups', 'rows'": lambda: fit().bootstrap(over="sites"),
    r"groups has one group; expected at least two": lambda: fit().bootstrap(2),
}

RUNS = {
    r"method is .*; expected": lambda: run("FedGradMP"),
    r"over is .*; expected a Federation, or another channel": lambda: run(fed=(AS, YS)),
    r"rounds is -1; expected an integer of at least 0": lambda: run(rounds=-1),
    r"sparsity is 6; expected .*5": lambda: run(fgmp.FedGradMP(6)),
    r"batch_size is 9; expected .*8": lambda: run(fgmp.FedGradMP(2, batch_size=9)),
    r"cohort_size is 4; expected an integer from 1 to 3": lambda: run(cohort_size=4),
    r"rng is 'zero'; expected": lambda: run(rng="zero"),
    r"dictionary has 7 .*5|7 features|expected 5": lambda: run(
        fgmp.FedGradMP(2, dictionary=fgmp.gaussian_dictionary(7, 9, rng=0))
    ),
    r"solver.*squared": lambda: run(fgmp.SharedSupportGradMP(2, solver=fgmp.NewtonOnSupport()), SIGNS),
    r"every is 0; expected": lambda: run(history=fgmp.History(every=0)),
    r"every is 0; expected an integer of at least 1": lambda: fgmp.Checkpoint("run.fgmp", every=0),
    r"path is '.'; expected the path of a file": lambda: fgmp.Checkpoint("."),
    r"faults has 'nan'; expected faults such as": lambda: fgmp.Faulty(FED, "nan"),
    r"clients names 6; expected keys": lambda: run(fed=fgmp.Faulty(FED, fgmp.DropOut(clients=[6]))),
    r"reduce is 'median'; expected a reducer": lambda: run(reduce="median"),
    r"history is 5; expected a History": lambda: run(history=5),
    r"columns is 3; expected at least 4, 2 tau atoms to be told apart": lambda: run(
        fgmp.SharedSupportGradMP(2, fgmp.CountSketch(1, 3))
    ),
    r"objective_on is 9; expected": lambda: run(history=fgmp.History(objective_on=9)),
    r"always is 5; expected an integer from 0 to 4 \(the last atom\)": lambda: run(
        fgmp.FedMid(selection=fgmp.PerOutput((0, 5)), l1_weight=0.1, **RATE)
    ),
    r"workers is 0; expected": lambda: tune(workers=0),
    r"watch has 3; expected watchers such as": lambda: run(watch=3),
    r"metrics has 1 for 'size'; expected a mapping of names to callables": lambda: fgmp.History(metrics={"size": 1}),
    r"grid is empty": lambda: fgmp.tune(fgmp.FedAvg, {}, FED, 1),
    r"column is 'loss'; expected one of": lambda: tune(column="loss"),
    r"result is .*; expected": lambda: fgmp.polish(np.zeros(5), FED),
    r"result has an empty support": lambda: fgmp.polish(run(rounds=0), FED),
    r"result has coefficients of shape \(5,\)": lambda: fgmp.polish(run(), arrays([A[:, 1:] for A in AS])),
    r"column is 'loss'; expected one of 'round'": lambda: run(watch=fgmp.stop_at(1, column="loss")),
    r"sparsity is 16; expected an integer from 1 to 15 \(the number of coefficients": lambda: run(
        fgmp.FedHT(sparsity=16, selection=Overall(), **RATE), arrays(ys=[np.arange(8) % 3] * 3, loss="softmax")
    ),
    r"grid\['learning_rate'\] is '0.1'; expected a sequence": lambda: tune(grid={"learning_rate": "0.1"}),
    r"held_out is 0; expected an integer from 1 to 2 .all clients but one.": lambda: tune(held_out=0),
    r"held_out is 1.0; expected a share above 0 and below 1, or an int": lambda: tune(held_out=1.0),
    r"held_out is True; expected a number of clients, a share of them, or their keys": lambda: tune(held_out=True),
    r"held_out names 7; expected keys of the clients, such as 0": lambda: tune(held_out=[1, 7]),
    r"held_out holds out 0 of 3 clients; expected some of positive weight": lambda: tune(held_out=[]),
    r"held_out is 'Ulm'": lambda: tune(held_out=["Ulm"]),
    r"metrics has 'held_out'": lambda: tune(held_out=1, history=fgmp.History(metrics={"held_out": np.sum})),
}

DOORS = {"a federation": FEDERATIONS, "a method or estimator": METHODS, "a fit": ESTIMATORS, "a run": RUNS}


@pytest.mark.parametrize(("door", "message"), [(door, message) for door, rows in DOORS.items() for message in rows])
def test_bad_input_is_refused_by_name(door, message):
    with pytest.raises(ValueError, match=message) as found:
        DOORS[door][message]()
    words = str(found.value)
    assert len(words.splitlines()[0]) < 300
    if door == "a fit":  # what is said of groups and tables is in scikit-learn's own style
        return
    if "sklearn" not in str(found.traceback[-1].path):
        assert "expected" in words or "only one class" in words
