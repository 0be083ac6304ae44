"""What runs at the server: it knows the columns and a seed, asks for sums and models, and writes what was found.

Units over all hospitals; a path of sparsities on four fifths of each one's rows, judged on the last fifth; the model of
the sparsity that was chosen, on all rows; and its coefficients in the units of the tables.
"""

import json
from pathlib import Path as File

import joblib
import numpy as np
from flwr.serverapp import ServerApp
from sklearn.linear_model import LinearRegression

import fgmp
from fgmp.flower import OverFlower
from hospitals.methods import KINDS, Losses, Path, Units

app = ServerApp()


@app.main()
def main(grid, context):
    given = context.run_config
    names, taus = given["columns"].split(","), [int(tau) for tau in given["sparsities"].split(",")]
    settings = {"columns": names, "target": given["target"]}
    first = OverFlower(
        grid,
        fgmp.SquaredLoss(),
        given["hospitals"],
        settings=settings,
        deadline=given["deadline"],
        kinds=KINDS,
        ask_objectives=False,
    )
    units = units_of(fgmp.federate(Units(), first, 1, rng=given["seed"]))
    settings["units"] = units

    methods = tuple(fgmp.FedGradMP(tau) for tau in taus)
    training = first.again(settings=settings | {"part": "training"})
    path = fgmp.federate(Path(methods), training, given["rounds"], rng=given["seed"])
    models = tuple(tuple(part.dense().tolist()) for part in path.state)
    judges = first.again(settings=settings | {"part": "held out"})
    losses = fgmp.federate(Losses(models), judges, 1, rng=given["seed"]).state
    tau = taus[chosen(losses[:, 0], losses[:, 1:])]

    everyone = first.again(settings=settings, ask_objectives=True)
    method, rounds, kept = fgmp.FedGradMP(tau), given["rounds"], given["checkpoint"] or None
    # The objective is a question of its own: here it is asked at the start and at the end.
    result = fgmp.federate(method, everyone, rounds, rng=given["seed"], record_every=rounds, checkpoint=kept)
    coefficients = result.best.x / units["scales"]
    intercept = units["target"] - float(coefficients @ np.array(units["means"]))
    model = LinearRegression()
    model.coef_, model.intercept_ = coefficients, intercept
    model.feature_names_in_, model.n_features_in_ = np.array(names, object), len(names)
    joblib.dump(model, given["model"])
    write_history(File(given["model"]).with_suffix(".history.json"), {"path": path, "model": result}, tau, everyone)


def units_of(result):
    """Means and standard deviations of the columns, and the mean of the target; a constant column keeps its units."""
    means, scales = result.state["means"], np.sqrt(result.state["squares"][:-1])
    constant = scales <= 1e-12 * np.maximum(1, np.abs(means[:-1]))
    return {
        "means": means[:-1].tolist(),
        "scales": np.where(constant, 1.0, scales).tolist(),
        "target": float(means[-1]),
    }


def chosen(weights, losses):
    """The first sparsity within one standard error, over the hospitals, of the best."""
    shares = weights / weights.sum()
    mean = shares @ losses
    away = losses - losses[:, [mean.argmin()]]
    spread = (away - shares @ away) ** 2
    error = np.sqrt(shares**2 @ spread * len(shares) / max(len(shares) - 1, 1))
    return int(np.flatnonzero(mean - mean.min() <= error)[0])


def write_history(file, results, tau, transport):
    """What happened: rounds, bytes, who did not answer and why."""
    columns = {
        name: {column: values.tolist() for column, values in result.history.items()} for name, result in results.items()
    }
    for history in columns.values():  # nobody was asked; JSON has no nan
        history["objective"] = [value if value == value else None for value in history["objective"]]
    whole = {
        "sparsity": tau,
        "sent": transport.traffic._asdict(),
        "refused": list(transport.refused.values()),
        **columns,
    }
    file.write_text(json.dumps(whole, indent=2) + "\n")
