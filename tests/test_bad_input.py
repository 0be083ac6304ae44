"""What does not fit is refused at three doors, in one line that names the argument, what came and what was expected."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import fgmp

rng = np.random.default_rng(0)
AS, YS = [rng.standard_normal((8, 5)) for _ in range(3)], [rng.standard_normal(8) for _ in range(3)]
FED = fgmp.Federation.from_arrays(AS, YS)
SIGNS = fgmp.Federation.from_arrays(AS, [np.sign(y) for y in YS], loss="logistic")
METHOD = fgmp.FedGradMP(2)
RATE = {"learning_rate": 0.1}


def arrays(As=AS, ys=YS, *others, **options):
    return fgmp.Federation.from_arrays(As, ys, *others, **options)


def changed(array, place, value):
    array = np.array(array)
    array[place] = value
    return array


def frame(**columns):
    table = {"site": ["a", "a", "b", "b"], "age": [1.0, 2, 3, 4], "y": [1.0, 0, 1, 0]} | columns
    return pd.DataFrame(table)


def run(method=METHOD, fed=FED, rounds=1, **options):
    return fgmp.simulate(method, fed, rounds, **({"rng": 0} | options))


FEDERATIONS = {
    r"As has 3 .*; expected 2|ys has 2": lambda: arrays(ys=YS[:2]),
    r"As is an empty|As has no|at least one client": lambda: arrays([], []),
    r"As\[1\] has shape \(8,\); expected 2 dimensions": lambda: arrays([AS[0], AS[1][:, 0], AS[2]]),
    r"As\[2\] .*4.*expected.*5": lambda: arrays([*AS[:2], AS[2][:, :4]]),
    r"ys\[0\] has 7 entries; expected 8, the number of rows of As\[0\]": lambda: arrays(ys=[YS[0][:7], *YS[1:]]),
    r"As\[0\] holds 1 values that are not finite, the first at \(2, 3\)": lambda: arrays(
        [changed(AS[0], (2, 3), np.nan), *AS[1:]]
    ),
    r"ys\[1\] holds 1 values that are not finite": lambda: arrays(ys=[YS[0], changed(YS[1], 0, np.inf), YS[2]]),
    r"As\[0\] has dtype complex128; expected real numbers": lambda: arrays([AS[0] * 1j, *AS[1:]]),
    r"As\[0\] has dtype <U1; expected real numbers": lambda: arrays([np.full((8, 5), "a"), *AS[1:]]),
    r"As\[0\] has shape \(0, 5\); expected at least one sample": lambda: arrays([AS[0][:0], *AS[1:]], [[], *YS[1:]]),
    r"loss is 'hinge'; expected one of": lambda: arrays(loss="hinge"),
    r"ys.*3.*two labels|ys.*expected.*two": lambda: arrays(ys=[np.arange(8.0), *YS[1:]], loss="logistic"),
    r"ys\[0\]\[0\] is no label; expected": lambda: arrays(
        ys=[changed(np.zeros(8), 0, -1)] * 3, loss=fgmp.SoftmaxLoss(3)
    ),
    r"weights has 2 entries; expected one for each of 3 clients": lambda: arrays(weights=[1, 2]),
    r"weights\[1\] is -1; expected no negative weight": lambda: arrays(weights=[1, -1, 1]),
    r"weights sum to 0; expected at least one positive": lambda: arrays(weights=[0, 0, 0]),
    r"truth has shape \(4,\); expected \(5,\)": lambda: arrays(truth=np.zeros(4)),
    r"As\[0\] is no valid sparse matrix|As\[0\] holds 1 values": lambda: arrays(
        [sparse.csr_array(changed(AS[0], (0, 0), np.nan)), *AS[1:]]
    ),
    r"site: 'hospital' is not a column; expected one of 'site', 'age', 'y'": lambda: fgmp.Federation.from_frame(
        frame(), site="hospital", target="y"
    ),
    r"target: 'outcome' is not a column; expected one of": lambda: fgmp.Federation.from_frame(
        frame(), site="site", target="outcome"
    ),
    r"column 'age'|age": lambda: fgmp.Federation.from_frame(frame(age=list("abcd")), site="site", target="y"),
    r"n_clients is 0; expected an integer of at least 1": lambda: fgmp.make_sparse_regression(n_clients=0, rng=0),
    r"sparsity is 11; expected an integer .*10": lambda: fgmp.make_sparse_regression(n_features=10, sparsity=11, rng=0),
    r"noise_variance is -1; expected a finite number at least 0": lambda: fgmp.make_sparse_regression(
        noise_variance=-1, rng=0
    ),
}

METHODS = {
    r"sparsity is 0; expected an integer of at least 1": lambda: fgmp.FedGradMP(0),
    r"sparsity is 2.0; expected an integer of at least 1": lambda: fgmp.FedGradMP(2.0),
    r"sparsity is True; expected an integer": lambda: fgmp.FedGradMP(True),
    r"local_iterations is 0; expected an integer of at least 1": lambda: fgmp.FedGradMP(2, local_iterations=0),
    r"batch_size is 0; expected an integer of at least 1": lambda: fgmp.FedGradMP(2, batch_size=0),
    r"radius is 0; expected a finite number above 0": lambda: fgmp.FedGradMP(2, radius=0),
    r"dictionary is .*; expected": lambda: fgmp.FedGradMP(2, dictionary=np.eye(5)),
    r"solver is 'exact'; expected": lambda: fgmp.FedGradMP(2, solver="exact"),
    r"selection is 'per output'; expected": lambda: fgmp.FedGradMP(2, selection="per output"),
    r"learning_rate is 0; expected a finite number above 0": lambda: fgmp.FedAvg(learning_rate=0),
    r"learning_rate is nan; expected a finite number above 0": lambda: fgmp.FedAvg(learning_rate=np.nan),
    r"l1_weight is -1; expected a finite number": lambda: fgmp.FedMid(l1_weight=-1, **RATE),
    r"server_learning_rate is 0; expected a finite number above 0": lambda: fgmp.FedAvg(server_learning_rate=0, **RATE),
    r"strong_convexity is -1; expected": lambda: fgmp.FastFedDualAvg(l1_weight=0.1, strong_convexity=-1, **RATE),
    r"sparsity is -3; expected": lambda: fgmp.SharedSupportGradMP(-3),
    r"steps is 0; expected an integer of at least 1": lambda: fgmp.GradientDescent(steps=0),
    r"rows is 0; expected an integer of at least 1": lambda: fgmp.CountSketch(rows=0),
    r"atoms has shape \(3,\); expected 2 dimensions": lambda: fgmp.Dictionary(np.ones(3)),
    r"atoms.*zero": lambda: fgmp.Dictionary(np.zeros((3, 2))),
    r"n_atoms is 0; expected": lambda: fgmp.gaussian_dictionary(5, 0, rng=0),
    r"sparsity is 9; expected an integer from 1 to 4": lambda: fgmp.ksvd(
        rng.standard_normal((6, 8)), n_atoms=4, sparsity=9, rng=0
    ),
    r"share is 0.5; expected": lambda: fgmp.TrimmedMean(0.5),
    r"epsilon is 0; expected a finite number above 0": lambda: fgmp.GaussianNoise(0, clip=1),
    r"bits is 7; expected 8, 16, 32 or 64": lambda: fgmp.SecureSum(bits=7),
    r"probability is 2; expected a finite number at least 0 and at most 1": lambda: fgmp.DropOut(probability=2),
    r"'sparsity' parameter of FedGradMPRegressor must be .* Got 'aic' instead": lambda: fgmp.FedGradMPRegressor(
        "aic"
    ).fit(AS[0], YS[0]),
    r"'C' parameter of FedGradMPClassifier must be a float in the range \(0.0": lambda: fgmp.FedGradMPClassifier(
        2, C=0
    ).fit(AS[0], np.sign(YS[0])),
    r"Input X contains NaN": lambda: fgmp.FedGradMPRegressor(2).fit(changed(AS[0], 0, np.nan), YS[0]),
    r"inconsistent numbers of samples: \[8, 7\]": lambda: fgmp.FedGradMPRegressor(2).fit(AS[0], YS[0], groups=[0] * 7),
    r"only one class": lambda: fgmp.FedGradMPClassifier(2).fit(AS[0], np.ones(8)),
}

RUNS = {
    r"method is .*; expected": lambda: run("FedGradMP"),
    r"federation is .*; expected": lambda: run(fed=(AS, YS)),
    r"rounds is -1; expected an integer of at least 0": lambda: run(rounds=-1),
    r"rounds is 2.5; expected an integer of at least 0": lambda: run(rounds=2.5),
    r"sparsity is 6; expected .*5": lambda: run(fgmp.FedGradMP(6)),
    r"batch_size is 9; expected .*8": lambda: run(fgmp.FedGradMP(2, batch_size=9)),
    r"cohort_size is 4; expected an integer from 1 to 3": lambda: run(cohort_size=4),
    r"rng is 'zero'; expected": lambda: run(rng="zero"),
    r"rng is -1; expected": lambda: run(rng=-1),
    r"dictionary has 7 .*5|7 features|expected 5": lambda: run(
        fgmp.FedGradMP(2, dictionary=fgmp.gaussian_dictionary(7, 9, rng=0))
    ),
    r"solver.*squared": lambda: run(fgmp.SharedSupportGradMP(2, solver=fgmp.NormalEquations()), SIGNS),
    r"callback is 3; expected a callable": lambda: run(callback=3),
    r"metrics has 1 for 'size'; expected a mapping of names to callables": lambda: run(metrics={"size": 1}),
    r"checkpoint is 3; expected the path of a file": lambda: run(checkpoint=3),
    r"grid is empty": lambda: fgmp.tune(fgmp.FedAvg, {}, FED, 1),
    r"column is 'loss'; expected one of": lambda: fgmp.tune(
        lambda learning_rate: fgmp.FedAvg(learning_rate=learning_rate), {"learning_rate": [0.1]}, FED, 1, column="loss"
    ),
    r"result is .*; expected": lambda: fgmp.polish(np.zeros(5), FED),
}

DOORS = {"a federation": FEDERATIONS, "a method or estimator": METHODS, "a run": RUNS}


@pytest.mark.parametrize(("door", "message"), [(door, message) for door, rows in DOORS.items() for message in rows])
def test_bad_input_is_refused_by_name(door, message):
    with pytest.raises(ValueError, match=message) as found:
        DOORS[door][message]()
    words = str(found.value)
    assert len(words.splitlines()[0]) < 300
    if "sklearn" not in str(found.traceback[-1].path) and "parameter of" not in words:
        assert "expected" in words or "only one class" in words
