"""The methods, losses, federations and tables that tests share: (id, factory), as mappings.

A test takes its cases from here, so that what is added here is tried by all of them:
``@pytest.mark.parametrize("name", METHODS)`` and, in the test, ``METHODS[name]()``.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.method import Exchange, Method

# Public names: those that `dir(fgmp)` lists, and all others of 0.2, which keep working.

NAMES_OF_0_2 = """
    AdviceWarning Aggregator Atoms Bar Callback Checkpoint Client ClientSampler Corrupted CountSketch
    Dictionary DropOut Exact Exchange FastFedDualAvg Faulty FedAvg FedDualAvg FedGradMP
    FedGradMPClassifier FedGradMPRegressor FedHT FedIterHT FedMid Federation GaussianNoise
    GradientDescent History LargestEntries Ledger LocalSteps LogisticLoss Loss Mean Median Method
    Newton NewtonOnSupport Overall PerAtom PerOutput PrivacyMechanism ProblemInfo RecordedModel
    RejectReason RestrictedProblem Result Run SGD SecureSum Selection SharedSupportGradMP SoftmaxLoss
    Solver SparseModel SquaredLoss StandardBasis SupportSolver Transport TrimmedMean UpdateSpec
    accuracy_on backend digits_by_writer gaussian_dictionary ksvd make_sparse_regression polish
    simulate stop_at stop_when_stalled tune
""".split()
PUBLIC_NAMES = sorted({*NAMES_OF_0_2, "LocalClients", *fgmp.__all__})

# Methods. The options of a call replace the defaults.

LOCAL_STEPS = {"learning_rate": 0.05, "local_iterations": 2, "batch_size": 10}


def _method(method_class: type[Method], *arguments: Any, **defaults: Any) -> Callable[..., Method]:
    return lambda **options: method_class(*arguments, **defaults | options)


METHODS: dict[str, Callable[..., Method]] = {
    "FedGradMP": _method(fgmp.FedGradMP, sparsity=3, batch_size=20),
    "FedAvg": _method(fgmp.FedAvg, **LOCAL_STEPS),
    "FedHT": _method(fgmp.FedHT, sparsity=3, **LOCAL_STEPS),
    "FedIterHT": _method(fgmp.FedIterHT, sparsity=3, **LOCAL_STEPS),
    "FedMid": _method(fgmp.FedMid, l1_weight=0.01, **LOCAL_STEPS),
    "FedDualAvg": _method(fgmp.FedDualAvg, l1_weight=0.01, **LOCAL_STEPS),
    "FastFedDualAvg": _method(fgmp.FastFedDualAvg, l1_weight=0.01, **LOCAL_STEPS),
    "SharedSupportGradMP": _method(fgmp.SharedSupportGradMP, 3, fgmp.CountSketch(2, 6)),
    "LargestEntries": _method(
        fgmp.SharedSupportGradMP, 3, fgmp.LargestEntries(6), fgmp.NewtonOnSupport(2)
    ),
    "LocalSteps": _method(fgmp.SharedSupportGradMP, 3, solver=fgmp.LocalSteps(fgmp.SGD(0.1))),
}


def with_exchanges(method: Method, change: Callable[[int, Exchange], Exchange]) -> Method:
    """Return a method whose exchanges are `change(index, exchange)` of those of another.

    Its class is a subclass, as a user may write one.
    """

    class WithExchanges(type(method)):
        def exchanges(self) -> Sequence[Exchange]:
            return [change(index, exchange) for index, exchange in enumerate(super().exchanges())]

    return WithExchanges(**{field.name: getattr(method, field.name) for field in fields(method)})


# Losses, and small federations of them.

N_CLASSES = 3
LOSSES: dict[str, Callable[[], fgmp.Loss]] = {
    "squared": fgmp.SquaredLoss,
    "summed": lambda: fgmp.SquaredLoss(averaged=False),
    "logistic": fgmp.LogisticLoss,
    "logistic with a margin": lambda: fgmp.LogisticLoss(margin=2.0),
    "softmax": lambda: fgmp.SoftmaxLoss(N_CLASSES),
    "poisson": fgmp.PoissonLoss,
}


def noisy_regression(n_features: int = 50, heterogeneity: float = 0.5) -> fgmp.Federation:
    """Six clients of 30 rows with a little noise, whose truth has three nonzero entries."""
    return fgmp.make_sparse_regression(
        6, 30, n_features, 3, heterogeneity, noise_variance=0.01, rng=0
    )


def weighted_regression() -> fgmp.Federation:
    """Four clients of 20 rows of 12 features, with weights that differ."""
    federation = fgmp.make_sparse_regression(
        4, 20, 12, 3, heterogeneity=0.2, noise_variance=0.01, rng=0
    )
    return fgmp.Federation.from_clients(federation.clients, [0.1, 0.2, 0.3, 0.4])


def unequal_regression(
    seed: int, sizes: Sequence[int] = (6, 9, 4), n_features: int = 20
) -> fgmp.Federation:
    """Clients with few rows and weights at random; the truth has three nonzero entries."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(n_features)
    truth[rng.choice(n_features, 3, replace=False)] = rng.standard_normal(3)
    As = [rng.standard_normal((size, n_features)) for size in sizes]
    ys = [A @ truth + 0.3 * rng.standard_normal(len(A)) for A in As]
    return fgmp.Federation.from_arrays(As, ys, weights=rng.random(len(sizes)) + 0.1, truth=truth)


def one_feature_regression(sizes: Sequence[int], n_features: int = 12) -> fgmp.Federation:
    """Clients of given sizes, whose targets are the first feature and noise of variance one."""
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((size, n_features)) for size in sizes]
    return fgmp.Federation.from_arrays(As, [A[:, 0] + rng.standard_normal(len(A)) for A in As])


def two_classes(
    seed: int, sizes: Sequence[int] = (30, 40, 20), loss: str = "logistic"
) -> fgmp.Federation:
    """Clients with eight features and labels that no direction separates."""
    rng = np.random.default_rng(seed)
    As = [rng.standard_normal((size, 8)) for size in sizes]
    x = rng.standard_normal(8)
    ys = [(A @ x + 2 * rng.standard_normal(len(A)) > 0).astype(int) for A in As]
    return fgmp.Federation.from_arrays(As, ys, loss)


def signs_of_a_difference(noise: float) -> fgmp.Federation:
    """Three clients of 40 rows, labelled by the sign of a difference; separable without noise."""
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((40, 6)) for _ in range(3)]
    ys = [np.where(A[:, 0] - A[:, 1] + noise * rng.standard_normal(len(A)) > 0, 1, -1) for A in As]
    return fgmp.Federation.from_arrays(As, ys, "logistic")


# What goes to JSON and comes back: methods, losses, dictionaries, aggregators.

WIDE_DICTIONARY = fgmp.Dictionary(
    np.asfortranarray(np.random.default_rng(0).standard_normal((6, 9))), "thresholding"
)
SERIALIZABLE: list[tuple[str, Callable[[], Any]]] = [
    (
        "FedGradMP with all options",
        lambda: fgmp.FedGradMP(
            2, 2, 10, WIDE_DICTIONARY, fgmp.SGD(0.5, 3, 2), 4.5, fgmp.PerAtom((0, 3))
        ),
    ),
    ("GradientDescent", lambda: fgmp.FedGradMP(2, solver=fgmp.GradientDescent(steps=5))),
    ("Exact", lambda: fgmp.FedGradMP(2, solver=fgmp.Exact())),
    ("Newton", lambda: fgmp.FedGradMP(2, solver=fgmp.Newton(2))),
    (
        "NewtonOnSupport",
        lambda: fgmp.SharedSupportGradMP(
            2, solver=fgmp.NewtonOnSupport(2, 1e-3), selection=fgmp.Overall((1,)), seed=3
        ),
    ),
    *METHODS.items(),
    ("SquaredLoss", LOSSES["summed"]),
    ("LogisticLoss", LOSSES["logistic with a margin"]),
    ("SoftmaxLoss", LOSSES["softmax"]),
    ("PoissonLoss", LOSSES["poisson"]),
    ("PerBlock", lambda: fgmp.SharedSupportGradMP(2, selection=fgmp.PerBlock((0,), (0, 1, 1)))),
    ("StandardBasis", StandardBasis),
    ("Dictionary", lambda: WIDE_DICTIONARY),
    ("Mean", fgmp.Mean),
    ("Median", fgmp.Median),
    ("TrimmedMean", lambda: fgmp.TrimmedMean(0.1)),
    ("SecureSum", fgmp.SecureSum),
]


# Tables for the estimators: features, targets and groups.


def linear_score_table(
    seed: int = 0, n_rows: int = 400, n_features: int = 12, n_groups: int = 6
) -> tuple:
    """Features of unequal scale and mean, a score of three of them, unequal groups, a generator."""
    rng = np.random.default_rng(seed)
    sizes = np.arange(1, n_groups + 1)
    groups = rng.choice(n_groups, n_rows, p=sizes / sizes.sum())
    X = rng.standard_normal((n_rows, n_features))
    X += 0.3 * rng.standard_normal((n_groups, n_features))[groups]
    scales = 10 ** rng.uniform(-1, 1, n_features)
    z = 2 * X[:, 0] - 1.5 * X[:, 3] + X[:, 7] + 0.5
    return X * scales + 3 * scales, z, groups, rng


def regression_table(seed: int = 0, **sizes: int) -> tuple:
    """Targets that are linear in the features 0, 3 and 7, and noise."""
    X, z, groups, rng = linear_score_table(seed, **sizes)
    return X, z + 0.3 * rng.standard_normal(len(z)), groups


def classification_table(n_classes: int = 2, seed: int = 0, **sizes: int) -> tuple:
    """Two or three classes of equal size, in the order of a linear score of features 0, 3 and 7."""
    X, z, groups, rng = linear_score_table(seed, **sizes)
    scores = z + rng.logistic(size=len(z))
    edges = np.quantile(scores, np.arange(1, n_classes) / n_classes)
    labels = np.array(["low", "mid", "top"])
    return X, labels[np.digitize(scores, edges) + (n_classes == 2)], groups


ESTIMATORS = (fgmp.FedGradMPRegressor, fgmp.FedGradMPClassifier)
TABLES = {
    fgmp.FedGradMPRegressor: regression_table,
    fgmp.FedGradMPClassifier: classification_table,
}


def independent_table(n_rows: int, tau: int = 5, n_groups: int = 10, n_features: int = 50) -> tuple:
    """Independent features, tau of them with a coefficient of one, and noise of variance one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_groups * n_rows, n_features))
    y = X[:, :tau].sum(axis=1) + rng.standard_normal(len(X))
    return X, y, np.repeat(np.arange(n_groups), n_rows)


def wide_sparse_table(n_rows: int = 600, n_features: int = 20_000, per_row: int = 6) -> tuple:
    """Six groups of CSR rows; most of the nonzeros fall among 3,000 of the features."""
    rng = np.random.default_rng(0)
    n_entries = n_rows * per_row
    columns = rng.integers(3000, size=n_entries) * rng.choice([1, 1, 1, 6], n_entries)
    ends = np.arange(0, n_entries + 1, per_row)
    X = sparse.csr_array(
        (rng.uniform(1, 2, n_entries), np.minimum(columns, n_features - 1), ends),
        shape=(n_rows, n_features),
    )
    y = X @ np.append(np.ones(5), np.zeros(n_features - 5)) + rng.standard_normal(n_rows)
    return X, y, np.arange(n_rows) % 6


def linear_predictions(model: Any, X: np.ndarray) -> np.ndarray:
    """Return what a model predicts, before a classifier turns scores into labels."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    return model.predict(X)


def table_in_several_units(n_classes: int = 0, seed: int = 0, n_rows: int = 450) -> tuple:
    """Return the rows of nine groups that differ, in columns of other units; 4 of 7 matter."""
    n_groups = 9
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, n_rows)
    shifts = 0.5 * rng.standard_normal((n_groups, 7))
    X = (rng.standard_normal((n_rows, 7)) + shifts[groups]) * 10.0 ** np.arange(-2, 5) + 5
    scores = (X - 5) / 10.0 ** np.arange(-2, 5) @ [1.0, 0, -0.7, 0, 0.5, 0, -0.4]
    noise = rng.standard_normal(n_rows) + 0.4 * rng.standard_normal(n_groups)[groups]
    y = scores + noise
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    return pd.DataFrame(X, columns=[f"f{j}" for j in range(7)]), y, groups
