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
    rounds, loss = given["rounds"], fgmp.SquaredLoss()
    run = {"rng": given["seed"], "reduce": fgmp.SecureSum() if given["secure"] else None}
    settings = {"columns": names, "target": given["target"]}
    hospitals = OverFlower(grid, loss, given["hospitals"], settings=settings, deadline=given["deadline"], kinds=KINDS)

    def those(part, **more):
        return hospitals.again(settings | {"part": part} | more, ask_objectives=False)

    units = units_of(fgmp.simulate(Units(), those("all"), 1, **run).state)
    path = fgmp.simulate(Path(tuple(map(fgmp.FedGradMP, taus))), those("training", units=units), rounds, **run)
    models = tuple(tuple(part.dense().tolist()) for part in path.state)
    losses = fgmp.simulate(Losses(models), those("held out", units=units), 1, **run).state
    tau = taus[chosen(hospitals.weights, losses[0], losses[1:])]

    # The objective is a question of its own: here it is asked at the start and at the end.
    watch = [fgmp.Checkpoint(given["checkpoint"])] if given["checkpoint"] else []
    everybody, rarely = hospitals.again(settings | {"units": units}), fgmp.History(every=rounds)
    result = fgmp.simulate(fgmp.FedGradMP(tau), everybody, rounds, **run, history=rarely, watch=watch)
    coefficients = result.best.x / units["scales"]
    model = LinearRegression()
    model.coef_, model.intercept_ = coefficients, units["target"] - float(coefficients @ np.array(units["means"]))
    model.feature_names_in_, model.n_features_in_ = np.array(names, object), len(names)
    joblib.dump(model, given["model"])
    file = File(given["model"]).with_suffix(".history.json")
    write_history(file, {"path": path, "model": result}, sparsity=tau, refused=list(hospitals.refused.values()))


def units_of(moments):
    """Means and standard deviations of the columns, and the mean of the target; a constant column keeps its units."""
    means, scales = moments.means[:-1], np.sqrt(moments.squares[:-1])
    constant = scales <= 1e-12 * np.maximum(1, np.abs(means))
    return {
        "means": means.tolist(),
        "scales": np.where(constant, 1.0, scales).tolist(),
        "target": float(moments.means[-1]),
    }


def chosen(weights, mean, products):
    """The first sparsity within one standard error, over the hospitals, of the best, from mean losses and products."""
    best, squares = mean.argmin(), products.diagonal()
    spread = squares - 2 * products[best] + squares[best] - (mean - mean[best]) ** 2  # the variance of l - l_best
    error = np.sqrt(np.maximum(spread, 0) * (weights @ weights) * len(weights) / max(len(weights) - 1, 1))
    return int(np.flatnonzero(mean - mean.min() <= error)[0])


def write_history(file, results, **more):
    """What happened: rounds, bytes, who did not answer and why."""
    for name, result in results.items():
        columns = {column: values.tolist() for column, values in result.history.items()}
        columns["objective"] = [value if value == value else None for value in columns["objective"]]  # JSON has no nan
        more[name] = columns | {"why left out": result.left_out}
    file.write_text(json.dumps(more, indent=2) + "\n")
