"""What runs at the server: it knows columns, diagnoses and a number of columns, fits, and writes the model."""

from pathlib import Path

from flwr.serverapp import ServerApp

import fgmp
from fgmp.flower import fit_over

app = ServerApp()


@app.main()
def main(grid, context):
    given = context.run_config
    columns, diagnoses = given["columns"].split(","), given["diagnoses"].split(",")
    model = fgmp.FedGradMPClassifier(
        given["sparsity"], rounds=given["rounds"], secure=True, random_state=0
    )
    model = fit_over(
        model, grid, given["hospitals"], columns, classes=diagnoses, deadline=given["deadline"]
    )
    Path(given["model"]).write_text(model.to_json())
    used = zip(model.feature_names_in_, model.coef_[0], strict=True)
    print("\n".join(f"{name}: {value:.3g}" for name, value in used if value), flush=True)
    print(f"written: {given['model']}", flush=True)
