"""Every public constructor and function with arguments that fit, for `test_boundary` to spoil one or two at a time."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import fgmp
from fgmp import datasets, estimators, sweeping, theory
from fgmp.book import bounds, claims, figures, parameters
from fgmp.datasets import GaussianRows
from fgmp.running.transports import InProcess

RNG = np.random.default_rng(0)
A, Y = RNG.standard_normal((5, 4)), RNG.standard_normal(5)
SIGNS = np.array([-1.0, 1, 1, -1, 1])
CLASSES = np.array([0, 1, 2, 1, 0])
FED = fgmp.make_sparse_regression(3, 6, 4, 1, rng=0)
DIGITS = fgmp.Federation.from_arrays([A, A[:3]], [CLASSES, CLASSES[:3]], "softmax")
LABELLED = fgmp.Federation.from_arrays([A, A[:3]], [SIGNS, SIGNS[:3]], "logistic")
CLIENT = FED.clients[0]
ATOMS = RNG.standard_normal((4, 6))
DICTIONARY = fgmp.Dictionary(ATOMS)
METHOD = fgmp.FedGradMP(1, local_iterations=1, solver=fgmp.GradientDescent(1))
RESULT = fgmp.simulate(METHOD, FED, 1, rng=0)
CONSTANTS = theory.ClientConstants.of([1.0, 1.0, 1.0], [1.0, 1.1, 1.2], upper_squared=2.0, gradient=1e-4)
BOUND = theory.theorem1(CONSTANTS, 2)
PARAMETERS = theory.TheoremParameters(theta=2.0)
POINT = sweeping.Point({"alpha": 1.0}, "0" * 12)
NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@dataclass(frozen=True)
class Entry:
    """One entry point.

    Attributes
    ----------
    call : callable
        Takes the arguments by their names.
    given : dict
        Arguments that fit.
    called : dict
        What messages call an argument, where it is not its own name: a pattern.
    never : tuple of str
        Arguments that are not spoiled.
    then : callable
        Looks at a result and raises an AssertionError where that is not right.
    at_most : dict
        Numbers that may be large, but that take long.
    raises : tuple
        Documented errors beside ValueError and TypeError.
    """

    call: Callable[..., Any]
    given: dict[str, Any]
    called: dict[str, str] = field(default_factory=dict)
    never: tuple[str, ...] = ()
    then: Callable[[Any], None] = lambda result: None
    at_most: dict[str, int] = field(default_factory=dict)
    raises: tuple[type[Exception], ...] = ()


def stop(history):
    return True


def finite(*names):
    """A check that attributes of a result are finite, or the result itself."""

    def look(result):
        for part in [getattr(result, name) for name in names] or [result]:
            assert np.isfinite(np.asarray(part, float)).all(), part

    return look


def fits(approximation):
    finite("error", "best_error", "eta")(approximation)
    assert approximation.eta >= 1


LOCAL = {"local_iterations": 50, "steps": 50}
RATE = {"learning_rate": 0.1, "local_iterations": 1, "batch_size": None}
COMMON = {"dictionary": fgmp.StandardBasis(), "selection": fgmp.PerOutput(), "combination": fgmp.Mean()}
LEAST = {"batch_size": None, "dictionary": fgmp.StandardBasis(), "radius": None, "selection": fgmp.PerOutput()}
WHOM = {"probability": 0.5, "clients": [0]}
STEPS = {"steps": 2, "accuracy": 0.1}
STANDARD = {"n_clients": 2, "n_samples": 3, "heterogeneity": 1.0, "variance_decay": 1.1, "noise_variance": 0.1}
LEARNT = {"frames": A, "n_atoms": 3, "sparsity": 2, "iterations": 2, "rng": 0}
LETTERS = {"lower": [1.0, 1.0], "upper": [1.1, 1.2], "upper_squared": 2.0, "theta": 1.0, "eta_1": 1.5}
THEOREM = {"constants": CONSTANTS, "local_iterations": 2, "parameters": PARAMETERS}
SUPPORTS = {"B": A, "sparsity": 2, "weights": [1.0, 2, 0, 1, 1]}
RUN = {
    "method": METHOD,
    "federation": FED,
    "rounds": 1,
    "cohort_size": 2,
    "rng": 0,
    "record_every": 1,
    "metrics": {"size": np.linalg.norm},
    "callback": stop,
    "objective_on": [0, 1],
    "best_by": "objective",
    "progress": False,
    "workers": 1,
    "readable": False,
    "checkpoint": None,
    "every": None,
    "faults": None,
}
LEARNER = {"sparsity": 2, "rounds": 2, "fit_intercept": True, "cohort_size": None, "batch_size": None, "tol": 1e-4}
TABLE = {"X": A, "y": Y, "groups": [0, 0, 1, 1, 1], "sample_weight": np.ones(5)}


def fitted(kind, X, y, groups, sample_weight, **options):
    return kind(**options).fit(X, y, groups, sample_weight=sample_weight)


def used(method):
    """A check that a method, a fault or a solver can be used."""
    with np.errstate(over="ignore", invalid="ignore"):
        fgmp.simulate(method, FED, 1, rng=0)


def solves(solver):
    used(fgmp.FedGradMP(1, 1, solver=solver))


def shares(solver):
    used(fgmp.SharedSupportGradMP(1, solver=solver))


def strikes(fault):
    with np.errstate(over="ignore", invalid="ignore"):
        fgmp.simulate(METHOD, FED, 1, rng=0, faults=fault)


def selects(selection):
    used(fgmp.FedGradMP(1, selection=selection))


def table():
    frame = {"site": list("aabb"), "y": [1.0, 2, 3, 4], "u": [0.0, 1, 2, 3], "v": [1.0, 0, 1, 0]}
    return __import__("pandas").DataFrame(frame)


def closed(function):
    """A function that makes figures, which nobody keeps."""

    def call(**arguments):
        try:
            return function(**{name: min(v, 9) if isinstance(v, int) else v for name, v in arguments.items()})
        finally:
            plt.close("all")

    return call


def axes():
    from matplotlib.figure import Figure

    return Figure().subplots()


ENTRIES = {
    # The data.
    "Client": Entry(fgmp.Client, {"features": A, "targets": Y, "loss": fgmp.SquaredLoss(), "key": 0}),
    "Federation": Entry(
        fgmp.Federation,
        {"clients": FED.clients, "weights": [1.0, 2, 3], "truth": np.ones(4), "labels": None}
        | {"feature_names": None, "site_names": None},
    ),
    "Federation.from_arrays": Entry(
        fgmp.Federation.from_arrays,
        {"As": [A, A[:3]], "ys": [Y, Y[:3]], "loss": "squared", "weights": [1.0, 2], "truth": np.ones(4)},
    ),
    "Federation.from_arrays, logistic": Entry(
        fgmp.Federation.from_arrays,
        {"As": [A, A[:3]], "ys": [SIGNS, SIGNS[:3]], "loss": "logistic", "labels": [-1, 1]},
    ),
    "Federation.from_arrays, softmax": Entry(
        fgmp.Federation.from_arrays, {"As": [A, A[:3]], "ys": [CLASSES, CLASSES[:3]], "loss": "softmax"}
    ),
    "Federation.objective": Entry(FED.objective, {"x": np.ones(4)}),
    "Federation.label": Entry(LABELLED.label, {"predictions": [1.0, -1.0]}),
    "Federation.from_frame": Entry(
        fgmp.Federation.from_frame,
        {"df": table, "site": "site", "target": "y", "features": ["u", "v"], "loss": "squared", "weights": [1.0, 2]},
        {"df": "df|column|ys|As"},
    ),
    "digits_by_writer": Entry(
        fgmp.digits_by_writer,
        {"dataset": "digits", "n_train": 2, "n_test": 1, "n_samples": 5, "rng": 0, "concentration": 1.0}
        | {"normalise": False, "folder": None},
    ),
    "make_sparse_regression": Entry(fgmp.make_sparse_regression, STANDARD | {"n_features": 4, "sparsity": 2, "rng": 0}),
    "make_sensing": Entry(fgmp.make_sensing, {"signal": np.ones(4), **STANDARD, "rng": 0}),
    "make_conditioned_regression": Entry(
        datasets.make_conditioned_regression,
        {"conditions": [1.0, 1.5], "n_samples": 5, "n_features": 4, "sparsity": 2, "noise_variance": 0.1, "rng": 0},
    ),
    "GaussianRows": Entry(GaussianRows, {"shape": (5, 4), "mean": 0.0, "scale": 1.0, "seed": (0, 2, 1)}),
    "load_video": Entry(
        datasets.load_video,
        {"path": "nothing.avi", "height": 20, "width": None, "n_frames": 2},
        raises=(FileNotFoundError,),
    ),
    "photo_clip": Entry(datasets.photo_clip, {"n_frames": 1, "height": 16, "width": 16}),
    "fetch": Entry(
        datasets.fetch,
        {"name": "nothing", "folder": "nowhere", "progress": False},
        {"folder": "folder|name", "progress": "progress|name"},
    ),
    # Losses, dictionaries, selections.
    "SquaredLoss": Entry(fgmp.SquaredLoss, {"averaged": True}),
    "LogisticLoss": Entry(fgmp.LogisticLoss, {"margin": 2.0}),
    "SoftmaxLoss": Entry(fgmp.SoftmaxLoss, {"n_classes": 3}),
    "Dictionary": Entry(fgmp.Dictionary, {"atoms": ATOMS, "approximation": "omp"}, then=finite("gram", "norms")),
    "gaussian_dictionary": Entry(
        fgmp.gaussian_dictionary, {"n_features": 4, "n_atoms": 5, "rng": 0, "approximation": "omp"}
    ),
    "ksvd": Entry(fgmp.ksvd, LEARNT, at_most={"iterations": 20}),
    "fit_ksvd": Entry(fgmp.fit_ksvd, LEARNT, then=finite("codes", "errors"), at_most={"iterations": 20}),
    "approx_tau": Entry(fgmp.approx_tau, {"dictionary": DICTIONARY, "signal": A[0], "sparsity": 2}, then=fits),
    "approx_tau, basis": Entry(
        fgmp.approx_tau, {"dictionary": fgmp.StandardBasis(), "signal": A[0], "sparsity": 2}, then=fits
    ),
    "PerOutput": Entry(fgmp.PerOutput, {"always": (0,)}, then=selects),
    "PerAtom": Entry(fgmp.PerAtom, {"always": (0,)}, then=selects),
    "Overall": Entry(fgmp.Overall, {"always": (0,)}, then=selects),
    # Methods and solvers.
    "FedGradMP": Entry(
        fgmp.FedGradMP,
        {"sparsity": 1, "local_iterations": 1, "solver": fgmp.Exact(), "combination": fgmp.Mean(), **LEAST},
        then=used,
        at_most={"local_iterations": 50},
    ),
    "SharedSupportGradMP": Entry(
        fgmp.SharedSupportGradMP,
        {"sparsity": 1, "identify": fgmp.CountSketch(), "solver": fgmp.NormalEquations(), "dictionary": DICTIONARY}
        | {"radius": 1.0, "selection": fgmp.PerOutput(), "pruning": "elimination", "seed": 1},
        then=used,
    ),
    "CountSketch": Entry(
        fgmp.CountSketch, {"rows": 2, "columns": 2}, then=lambda how: used(fgmp.SharedSupportGradMP(1, how))
    ),
    "LargestEntries": Entry(fgmp.LargestEntries, {"count": 2}, then=lambda how: used(fgmp.SharedSupportGradMP(1, how))),
    "FedAvg": Entry(fgmp.FedAvg, RATE | COMMON | {"server_learning_rate": 1.0}, then=used, at_most=LOCAL),
    "FedHT": Entry(fgmp.FedHT, RATE | COMMON | {"sparsity": 1}, then=used, at_most=LOCAL),
    "FedIterHT": Entry(fgmp.FedIterHT, RATE | COMMON | {"sparsity": 1}, then=used, at_most=LOCAL),
    "FedMid": Entry(fgmp.FedMid, RATE | COMMON | {"l1_weight": 0.1}, then=used, at_most=LOCAL),
    "FedDualAvg": Entry(fgmp.FedDualAvg, RATE | COMMON | {"l1_weight": 0.1}, then=used, at_most=LOCAL),
    "FastFedDualAvg": Entry(
        fgmp.FastFedDualAvg, RATE | COMMON | {"l1_weight": 0.1, "strong_convexity": 0.1}, then=used, at_most=LOCAL
    ),
    "GradientDescent": Entry(fgmp.GradientDescent, STEPS, then=solves, at_most=LOCAL),
    "ConjugateGradient": Entry(fgmp.ConjugateGradient, STEPS, then=solves, at_most=LOCAL),
    "Newton": Entry(fgmp.Newton, STEPS, then=solves, at_most=LOCAL),
    "SGD": Entry(fgmp.SGD, {"steps": 2, "batch_size": 3, "learning_rate": 0.1}, then=solves, at_most=LOCAL),
    "SVRG": Entry(fgmp.SVRG, STEPS | {"batch_size": 1}, then=solves, at_most=LOCAL),
    "LocalSteps": Entry(fgmp.LocalSteps, {"solver": fgmp.SGD()}),
    "PooledConjugateGradient": Entry(fgmp.PooledConjugateGradient, {"steps": 2}, then=shares),
    "PooledNewton": Entry(fgmp.PooledNewton, {"steps": 2, "ridge": 0.1}, then=shares),
    "TrimmedMean": Entry(fgmp.TrimmedMean, {"share": 0.1}, then=lambda how: used(fgmp.FedGradMP(1, combination=how))),
    # Runs.
    "DropOut": Entry(fgmp.DropOut, WHOM, then=strikes),
    "Late": Entry(fgmp.Late, WHOM | {"deadline": 1.0, "mean_delay": 1.0}, then=strikes),
    "NotFinite": Entry(fgmp.NotFinite, WHOM | {"value": float("inf")}, then=strikes),
    "WrongShape": Entry(fgmp.WrongShape, WHOM, then=strikes),
    "RepeatedIndices": Entry(fgmp.RepeatedIndices, WHOM, then=strikes),
    "OutOfRange": Entry(fgmp.OutOfRange, WHOM, then=strikes),
    "TooManyEntries": Entry(fgmp.TooManyEntries, WHOM, then=strikes),
    "Lie": Entry(fgmp.Lie, WHOM | {"factor": -1.0}, then=strikes),
    "SecureSum": Entry(fgmp.SecureSum, {"bits": 32, "resolution": 2.0**-16, "threshold": 2}),
    "GaussianNoise": Entry(fgmp.GaussianNoise, {"epsilon": 1.0, "clip": 1.0, "delta": 1e-5}),
    "model_of": Entry(estimators.model_of, {"coefficients": [0.0, 1.0], "intercept": 1.0, "feature_names": ["a", "b"]}),
    "federate": Entry(
        fgmp.federate,
        {name: value for name, value in RUN.items() if name not in ("federation", "workers", "readable", "faults")}
        | {"transport": InProcess(FED)},
        never=("progress", "transport"),
    ),
    "Shape": Entry(
        fgmp.Shape,
        {"n_features": 4, "loss": fgmp.SquaredLoss(), "rows": [3, 2], "keys": [0, 5], "weights": [1.0, 2.0]}
        | {"dtype": np.dtype(np.float64)},
        at_most={"n_features": 10**9},
        never=("dtype",),
    ),
    "to_json": Entry(fgmp.to_json, {"thing": METHOD, "kinds": []}),
    "from_json": Entry(fgmp.from_json, {"text": fgmp.to_json(METHOD).text, "arrays": {}, "kinds": []}),
    "simulate": Entry(fgmp.simulate, RUN, never=("progress",), at_most={"workers": 1}),
    "polish": Entry(
        fgmp.polish,
        {"result": RESULT, "federation": FED, "dictionary": fgmp.StandardBasis(), "solver": fgmp.NormalEquations()}
        | {"radius": 1.0, "cohort_size": 2, "rng": 0, "metrics": {}},
    ),
    "polish (a result that somebody made)": Entry(
        lambda **fields: fgmp.polish(replace(RESULT, **fields), FED),
        {name: getattr(RESULT, name) for name in ("coefficients", "history", "best", "objective_on")},
        called=dict.fromkeys(("coefficients", "history", "best"), "result"),
    ),
    "polish (a best model that somebody made)": Entry(
        lambda **fields: fgmp.polish(replace(RESULT, best=replace(RESULT.best, **fields)), FED),
        {"value": RESULT.best.value, "column": "objective"},
        called=dict.fromkeys(("value", "column"), "result"),
    ),
    "tune": Entry(
        fgmp.tune,
        {"make_method": lambda sparsity: fgmp.FedGradMP(sparsity), "grid": {"sparsity": [1]}, "federation": FED}
        | {"rounds": 1, "cohort_size": 2, "rng": 0, "column": "objective", "held_out": 1, "workers": 1},
        {"make_method": "make_method|sparsity", "grid": "grid|sparsity"},
        at_most={"workers": 1, "rounds": 5},
    ),
    "stop_at": Entry(fgmp.stop_at, {"below": 0.1, "column": "objective"}),
    "stop_when_stalled": Entry(fgmp.stop_when_stalled, {"patience": 2, "column": "objective", "improvement": 0.1}),
    "accuracy": Entry(fgmp.accuracy, {"federation": DIGITS, "x": np.ones((4, 3))}),
    "accuracy_on": Entry(fgmp.accuracy_on, {"federation": DIGITS}),
    # Theory.
    "ClientConstants": Entry(
        theory.ClientConstants,
        {name: np.full(2, 0.5) for name in ("lower", "upper", "upper_squared", "gradient", "whole_gradient")}
        | {"variance": np.zeros(2), "weights": np.full(2, 0.5)},
    ),
    "ClientConstants.of": Entry(
        theory.ClientConstants.of,
        {"lower": [1.0, 1], "upper": [1.0, 2], "upper_squared": 2.0, "gradient": 0.1, "whole_gradient": [1.0, 2]}
        | {"variance": 0.1, "weights": [1.0, 2]},
    ),
    "TheoremParameters": Entry(theory.TheoremParameters, {"theta": 2.0, "eta_1": 1.0, "eta_2": 1.5, "eta_3": 1.0}),
    "beta_1": Entry(theory.beta_1, {"lower": [1.0, 1.0], "upper": [1.1, 1.2]}),
    "beta_2": Entry(theory.beta_2, LETTERS),
    "beta_2_unbounded_variance": Entry(theory.beta_2_unbounded_variance, LETTERS),
    "theorem1": Entry(theory.theorem1, THEOREM, at_most={"local_iterations": 50}),
    "theorem_inexact": Entry(theory.theorem_inexact, THEOREM | {"accuracy": 0.1}, at_most={"local_iterations": 50}),
    "theorem_partial_participation": Entry(
        theory.theorem_partial_participation, THEOREM | {"cohort_size": 2}, at_most={"local_iterations": 50}
    ),
    "theorem_unbounded_variance": Entry(
        theory.theorem_unbounded_variance,
        THEOREM | {"minibatch_gradient": [0.1, 0.1, 0.1]},
        at_most={"local_iterations": 50},
    ),
    "ConvergenceBound.after": Entry(BOUND.after, {"rounds": [0, 1], "initial": 1.0}),
    "objective_bound": Entry(
        theory.objective_bound,
        {"bound": BOUND, "rounds": [0, 1], "initial": 1.0, "objective": 0.1, "gradient": 0.1, "smoothness": 1.0},
    ),
    "restricted_constants": Entry(
        theory.restricted_constants,
        SUPPORTS | {"dictionary": DICTIONARY, "max_supports": 100},
        then=finite("lower", "upper"),
    ),
    "inner_restricted_constants": Entry(
        theory.inner_restricted_constants,
        SUPPORTS | {"dictionary": None, "n_supports": 3, "rng": 0},
        then=finite("lower", "upper"),
        at_most={"n_supports": 50},
    ),
    "outer_restricted_constants": Entry(theory.outer_restricted_constants, SUPPORTS, then=finite("lower", "upper")),
    "rip_constant": Entry(theory.rip_constant, {"B": A, "sparsity": 2, "max_supports": 100}, then=finite()),
    "stable_rank": Entry(theory.stable_rank, {"B": A}, then=finite()),
    "sparse_minimiser": Entry(
        theory.sparse_minimiser, {"federation": FED, "sparsity": 1, "max_supports": 100}, then=finite()
    ),
    "measure_constants": Entry(
        theory.measure_constants,
        {"federation": FED, "x_star": np.ones(4), "sparsity": 1, "batch_size": 2, "n_minibatches": 2, "rng": 0}
        | {"max_supports": 100},
        at_most={"n_minibatches": 50},
    ),
    "minibatch_variance": Entry(
        theory.minibatch_variance, {"client": CLIENT, "x": np.ones(4), "batch_size": 2}, then=finite()
    ),
    "heterogeneity": Entry(theory.heterogeneity, {"federation": FED, "x_star": np.ones(4)}, then=finite()),
    "gaussian_width": Entry(
        theory.gaussian_width,
        {"n_features": 5, "sparsity": 2, "radius": 1.0, "n_samples": 10, "rng": 0},
        then=finite(),
    ),
    "gaussian_width_bound": Entry(
        theory.gaussian_width_bound, {"n_features": 5, "sparsity": 2, "radius": 1.0}, then=finite()
    ),
    # Estimators.
    "FedGradMPRegressor": Entry(
        fitted, {"kind": estimators.FedGradMPRegressor, **LEARNER, **TABLE}, never=("kind",), at_most={"rounds": 9}
    ),
    "FedGradMPClassifier": Entry(
        fitted,
        {"kind": estimators.FedGradMPClassifier, **LEARNER, **TABLE, "y": list("abaab"), "C": 1.0},
        never=("kind",),
        at_most={"rounds": 9},
    ),
    # Sweeps and the book.
    "find_source": Entry(
        sweeping.find_source,
        {"name": "09", "folder": NOTEBOOKS},
        {"name": "name|notebook", "folder": "folder|notebook"},
    ),
    "grid_of": Entry(sweeping.grid_of, {"options": ["alpha=1,2"]}, {"options": "-g|options"}),
    "parameters_given": Entry(sweeping.parameters_given, {"text": "{alpha: 1}"}, {"text": "-y|text"}),
    "points_of": Entry(sweeping.points_of, {"code": "1", "fixed": {"a": 1}, "grid": {"b": [1]}}),
    "table_of": Entry(sweeping.table_of, {"outcomes": [sweeping.Outcome(POINT, "not run")]}),
    "claim": Entry(
        claims.claim,
        {"id": "a", "statement": "b", "measured": [1.0, 2.0], "holds": [True, True], "source": "ours"}
        | {"expected": "0", "unit": "s", "digits": 3, "floor": 1e-3, "within": 0.1, "parameters": {"n": 1}},
    ),
    "read_claims": Entry(claims.read_claims, {"folder": "nowhere"}),
    "BoundBesideError.of": Entry(bounds.BoundBesideError.of, {"runs": [[[1.0, 0.5], [2.0, 1.0]]] * 2, "exact": 0.0}),
    "curve": Entry(
        figures.curve, {"ax": axes, "x": [0, 1, 2], "runs": [[1.0, 2, 3], [2.0, 3, 4]], "label": "a", "band": (25, 75)}
    ),
    "floor": Entry(figures.floor, {"ax": axes, "value": 1.0, "label": "a", "inside": "left"}),
    "dots": Entry(figures.dots, {"ax": axes, "runs": {"a": [1.0, 2.0]}, "digits": 3}),
    "gradation": Entry(figures.gradation, {"count": 3}, at_most={"count": 99}),
    "name_lines": Entry(figures.name_lines, {"ax": axes, "places": []}),
    "images": Entry(closed(figures.images), {"pictures": [A, A], "titles": ["a", "b"], "columns": 2, "width": 2.0}),
    "panels": Entry(closed(figures.panels), {"columns": 2, "rows": 1, "width": 2.0, "height": 2.0}),
    "printed_claims": Entry(claims.printed_claims, {"text": "[holds] a (ours): b", "notebook": "x"}),
    "read_parameters": Entry(
        parameters.read_parameters, {"source": "n = 1  # N (at least 1)"}, {"source": "source|parameter|comment|range"}
    ),
}

# What comes back from functions, what nobody makes; what takes no argument; and what has tests of its own.
RESULTS = {"Best", "KSVDFit", "Result", "Trial", "Tuning", "ConvergenceBound", "RestrictedConstants", "DigitsByWriter"}
RESULTS |= {"Bootstrap", "SparsityPath", "Outcome", "Point", "Source", "Written"}
NO_ARGUMENTS = {"Exact", "Mean", "Median", "NormalEquations", "StandardBasis", "data_folder"}
ELSEWHERE = {"run_sweep": "test_sweeping", "write_table": "test_sweeping"}
ELSEWHERE |= dict.fromkeys(("load_model", "predict_rows", "save_model"), "test_written_models")


def public_names():
    """All public names of the package and of its rooms that can be called, but for warnings."""
    for module in (fgmp, theory, datasets, estimators, sweeping):
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing) and not (inspect.isclass(thing) and issubclass(thing, Warning)):
                yield name, thing
