"""Invalid arguments of the theory, fields and parameters are refused by name."""

import inspect
import re
from dataclasses import fields, replace
from operator import attrgetter

import numpy as np
import pytest
from cases import SERIALIZABLE
from sklearn.base import clone

import fgmp
from fgmp import theory
from fgmp.datasets import make_sensing

FED = fgmp.make_sparse_regression(2, 6, 4, 1, rng=0)
ROWS = FED.clients[0].features
ONES = dict.fromkeys(
    ("lower", "upper", "upper_squared", "gradient", "whole_gradient", "variance"), np.ones(2)
)
CONSTANTS = theory.ClientConstants(**ONES, weights=np.array([0.5, 0.5]))
BOUND = theory.theorem1(CONSTANTS, 2)
BOUNDED = theory.TheoremParameters(theta=2.0)
VALID = {
    "approx_tau": {"dictionary": fgmp.Dictionary(ROWS.T), "signal": np.ones(4), "sparsity": 2},
    "beta_1": {"lower": 1.0, "upper": 1.5},
    "beta_2": {"lower": 1.0, "upper": 1.5, "theta": 2.0, "eta_1": 1.5, "upper_squared": 2.0},
    "beta_2_unbounded_variance": {"lower": 1.0, "upper": 1.5, "upper_squared": 2.0, "theta": 2.0, "eta_1": 1.5},
    "gaussian_width": {"n_features": 4, "sparsity": 2},
    "heterogeneity": {"federation": FED, "x_star": np.ones(4)},
    "inner_restricted_constants": {"B": ROWS, "sparsity": 2, "weights": np.ones(6), "n_supports": 3},
    "measure_constants": {
        "federation": FED, "x_star": np.ones(4), "sparsity": 1, "batch_size": 2, "n_minibatches": 2
    },
    "minibatch_variance": {"client": FED.clients[0], "x": np.ones(4), "batch_size": 2},
    "objective_bound": {
        "bound": BOUND, "rounds": 2, "initial": 0.5, "objective": 1.0, "gradient": 0.5, "smoothness": 1.0
    },
    "outer_restricted_constants": {"B": ROWS, "sparsity": 2},
    "restricted_constants": {"B": ROWS, "sparsity": 2, "weights": np.ones(6)},
    "sparse_minimiser": {"federation": FED, "sparsity": 2},
    "stable_rank": {"B": ROWS},
    "theorem1": {"constants": CONSTANTS, "local_iterations": 2, "parameters": BOUNDED},
    "theorem_inexact": {"constants": CONSTANTS, "local_iterations": 2, "accuracy": 0.1, "parameters": BOUNDED},
    "theorem_partial_participation": {
        "constants": CONSTANTS, "local_iterations": 2, "cohort_size": 1, "parameters": BOUNDED
    },
    "ClientConstants.of": {**ONES, "weights": np.ones(2)},
    "TheoremParameters": {"theta": 2.0, "eta_1": 1.5, "eta_2": 1.5, "eta_3": 1.5},
    "ConvergenceBound.after": {"rounds": 2, "initial": 0.5},
}  # fmt: skip


ANY_SIGN = {"lower", "upper", "upper_squared", "objective"}


def called(name, given):
    return BOUND.after(**given) if name.endswith("after") else attrgetter(name)(theory)(**given)


@pytest.mark.parametrize("name", VALID)
def test_invalid_argument_of_theory_is_refused_by_name(name):
    """nan, text and negative numbers are refused, and the message begins with the argument."""
    called(name, VALID[name])
    for argument in VALID[name]:
        for wrong in (np.nan, "x", -1.0)[: 2 if argument in ANY_SIGN else 3]:
            with pytest.raises((ValueError, TypeError), match=rf"^{argument}\b"):
                called(name, VALID[name] | {argument: wrong})


WHOLE = {
    "sparsity is 5; expected an integer from 1 to 4 (the number of features)": [
        ("gaussian_width", {"sparsity": 5}),
        ("measure_constants", {"sparsity": 5}),
        ("sparse_minimiser", {"sparsity": 5}),
    ],
    "sparsity is 5; expected an integer from 1 to 4 (the number of columns)": [
        ("restricted_constants", {"sparsity": 5}),
        ("outer_restricted_constants", {"sparsity": 5}),
    ],
    "batch_size is 7; expected an integer from 1 to 6 (the rows of the smallest client)": [
        ("measure_constants", {"batch_size": 7})
    ],
    "batch_size is 7; expected an integer from 1 to 6 (the rows of the client)": [
        ("minibatch_variance", {"batch_size": 7})
    ],
    "cohort_size is 3; expected an integer from 1 to 2 (the number of clients)": [
        ("theorem_partial_participation", {"cohort_size": 3})
    ],
    "B is zero; expected a matrix with a nonzero entry": [("stable_rank", {"B": np.zeros((2, 2))})],
    "dictionary is 'x'; expected a Dictionary, a StandardBasis or None": [
        ("restricted_constants", {"dictionary": "x"})
    ],
    "constants is 1; expected ClientConstants": [("theorem1", {"constants": 1})],
    "parameters is 1; expected TheoremParameters, with theta and eta_1 to eta_3": [
        ("theorem1", {"parameters": 1})
    ],
    "bound is 1; expected a ConvergenceBound, as theorem1 returns it": [
        ("objective_bound", {"bound": 1})
    ],
    "client is 1; expected a Client, such as one of federation.clients": [
        ("minibatch_variance", {"client": 1})
    ],
    "client has streamed features; expected stored ones": [
        ("minibatch_variance", {"client": make_sensing(np.ones(4), 1, 6, rng=0).clients[0]})
    ],
    "weights are all 0; expected a positive one": [
        ("ClientConstants.of", {"weights": np.zeros(2)})
    ],
    "lower and upper cross, or lower is 0; expected 0 < lower <= upper for each client": [
        ("ClientConstants.of", {"lower": 0.0}),
        ("ClientConstants.of", {"lower": 1.1}),
    ],
    "eta_1 is 1.5 and upper_squared is None; expected it for eta_1 above 1": [
        ("beta_2", {"upper_squared": None})
    ],
}


@pytest.mark.parametrize("words", WHOLE)
def test_message_of_invalid_argument_says_what_was_expected(words):
    """The whole message, word for word."""
    for name, changed in WHOLE[words]:
        with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
            called(name, VALID[name] | changed)


# The fields of dictionaries are arrays, which test_bad_input has.
WITH_FIELDS = [(name, make) for name, make in SERIALIZABLE if not isinstance(make(), fgmp.Atoms)]
WITH_FIELDS += [
    ("History", lambda: fgmp.History(every=2)),
    ("GaussianNoise", lambda: fgmp.GaussianNoise(1.0, 1.0)),
    ("DropOut", lambda: fgmp.DropOut(probability=0.1)),
]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in WITH_FIELDS])
def test_invalid_field_is_refused_by_name(make):
    """Every field of every public dataclass, whatever the other fields are."""
    thing = make()
    for field in fields(thing):
        whole = type(getattr(thing, field.name)) is int
        for wrong in (
            () if field.name == "objective_on" else (np.nan, "x", -1, *[1.5] * whole)
        ):  # which a run knows
            with pytest.raises(ValueError, match=rf"^{field.name}\b"):
                replace(thing, **{field.name: wrong})


@pytest.mark.parametrize(
    "estimator", [fgmp.FedGradMPRegressor("cv"), fgmp.FedGradMPClassifier("cv")]
)
def test_invalid_parameter_of_an_estimator_is_refused_by_name(estimator):
    """Every parameter but those that scikit-learn checks."""
    X = np.random.default_rng(0).standard_normal((20, 4))
    for name in set(estimator.get_params()) - {
        "random_state",
        "class_weight",
    }:  # which scikit-learn knows
        for wrong in (np.nan, "x", -1):
            with pytest.raises(ValueError, match=rf"^{name}\b"):
                clone(estimator).set_params(**{name: wrong}).fit(X, np.sign(X[:, 0]))


def test_every_function_of_theory_is_among_the_cases():
    """A function that is added later is tried too."""
    functions = {name for name in theory.__all__ if inspect.isfunction(getattr(theory, name))}
    assert functions <= set(VALID)
