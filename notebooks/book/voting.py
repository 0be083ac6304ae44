"""The votes of clients for features in the first rounds: drawn, as an animation, and with sliders."""

import io
import itertools
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import publish_display_data
from PIL import Image

import fgmp

from .figures import STYLE, VERMILLION, alt, panels
from .sliding import page
from .variants import KeptAnswers

__all__ = ["count_votes", "draw_votes", "play", "sliders"]

SOLVERS = {"exact": fgmp.Exact(), "five steps": fgmp.GradientDescent(steps=5)}
N_FEATURES, SPARSITY = 200, 5
SHOWN = 3  # rounds whose votes are drawn
KNOBS = {
    "rows": (8, 12, 15, 16, 20, 30, 40),
    "alpha": (0, 1, 10),
    "clients": (1, 5, 30),
    "solver": tuple(SOLVERS),
}


def count_votes(method, fed, rounds=SHOWN):
    """Count, in each of the first rounds, the features in the models that clients send.

    Parameters
    ----------
    method : fgmp.FedGradMP
        With all rows in each step, so that nothing is random.
    fed : fgmp.Federation
        The clients.
    rounds : int, default=3
        The number of rounds.

    Returns
    -------
    votes : numpy.ndarray of shape (rounds, n_clients, n_features)
        Whether a client has a feature in its model.
    models : numpy.ndarray of shape (rounds + 1, n_features)
        The server's model before the first round, and after each.
    """
    models = [np.zeros(fed.n_features)]
    for t in range(1, rounds + 1):
        kept = KeptAnswers()
        models.append(fgmp.simulate(method, fed, rounds=t, rng=0, aggregator=kept).x)
    return kept.votes(), np.array(models)


def draw_votes(axes, votes, true) -> None:
    """Draw in each axes how many clients choose each feature in a round; `true` are the signal's."""
    n_clients, n_features = votes.shape[1:]
    for number, (ax, counts) in enumerate(zip(axes, votes.sum(axis=1), strict=True), start=1):
        ax.vlines(range(n_features), 0, counts, color="0.6")
        ax.vlines(true, 0, counts[true], color=VERMILLION, linewidth=3)
        ax.set(title=f"round {number}", xlabel="feature", ylim=(0, n_clients + 0.5))
    axes[0].set(ylabel="clients that choose it")


def problem(rows, alpha, clients, solver, seed=2):
    """Return the clients and the method of the first notebook, with other numbers."""
    spread = dict(heterogeneity=alpha, variance_decay=1.1)
    fed = fgmp.make_sparse_regression(clients, rows, N_FEATURES, SPARSITY, **spread, rng=seed)
    return fed, fgmp.FedGradMP(SPARSITY, local_iterations=3, solver=SOLVERS[solver])


def play(rows=20, alpha=1.0, clients=30, solver="exact", rounds=10):
    """Draw the votes of three rounds, and the error of all.

    Parameters
    ----------
    rows : int, default=20
        Rows of each client.
    alpha : float, default=1.0
        Heterogeneity, the variance of the means of the clients.
    clients : int, default=30
        The number of clients.
    solver : {"exact", "five steps"}, default="exact"
        How a client fits its features: by least squares, or by five gradient steps.
    rounds : int, default=10
        Rounds of the run.
    """
    fed, method = problem(rows, alpha, clients, solver)
    errors = fgmp.simulate(method, fed, rounds=rounds, rng=0).history["relative_error"]
    votes, _ = count_votes(method, fed)
    rounds_above = [f"round {number}" for number in range(1, SHOWN + 1)]
    figure, axes = plt.subplot_mosaic([rounds_above, ["below"] * SHOWN], figsize=(7.5, 4))
    draw_votes([axes[name] for name in rounds_above], votes, np.flatnonzero(fed.truth))
    below = axes["below"]
    below.plot(np.maximum(errors, 1e-16), "o-", color=VERMILLION)
    below.set(yscale="log", ylim=(1e-17, 10), xlabel="round", ylabel="relative error")
    alt(figure, f"Votes in three rounds, and an error that ends at {errors[-1]:.2g}")
    plt.show()


def sliders() -> None:
    """Show `play` with a slider for each of its arguments.

    In JupyterLab every move runs it. On a page without Python the same numbers come from a grid
    that was computed when the notebook ran.
    """
    from ipywidgets import SelectionSlider, interactive

    first = {name: values.index(DEFAULTS[name]) for name, values in KNOBS.items()}
    options = {
        name: SelectionSlider(options=values, value=DEFAULTS[name], continuous_update=False)
        for name, values in KNOBS.items()
    }
    widget = interactive(play, **options)
    points = {
        " ".join(map(str, values)): point(**dict(zip(KNOBS, values, strict=True)))
        for values in itertools.product(*KNOBS.values())
    }
    data = {"knobs": KNOBS, "first": first, "points": points}
    html = page("votes.html", id="fgmp-votes", data=data)
    live = widget._repr_mimebundle_()
    publish_display_data(
        {**live, "text/html": html, "text/plain": "Four sliders: " + ", ".join(KNOBS)}
    )


DEFAULTS = {"rows": 20, "alpha": 1, "clients": 30, "solver": "exact"}


def point(rows, alpha, clients, solver) -> dict:
    """Compute what a page shows of one run."""
    fed, method = problem(rows, alpha, clients, solver)
    errors = fgmp.simulate(method, fed, rounds=10, rng=0).history["relative_error"]
    counts = count_votes(method, fed)[0].sum(axis=1)
    return {
        "true": np.flatnonzero(fed.truth).tolist(),
        "votes": ["".join(np.base_repr(count, 36) for count in row) for row in counts],
        "errors": [round(float(error), 2) for error in np.log10(np.maximum(errors, 1e-16))],
    }


def animate(path: Path, *, step: int = 3) -> None:
    """Write the animation of the first notebook: votes come in, and the server's model follows.

    Parameters
    ----------
    path : pathlib.Path
        A GIF.
    step : int, default=3
        Clients that vote from one picture to the next.
    """
    fed, method = problem(**DEFAULTS)
    votes, models = count_votes(method, fed)
    pictures, times = [], []
    for t in range(SHOWN):
        for voted in range(0, len(fed.clients) + 1, step):
            pictures.append(frame(fed, votes[t, :voted], models[t], t + 1, "clients vote"))
            times.append(700 if voted == 0 else 150)
        words = "the server keeps five"
        pictures.append(frame(fed, votes[t], models[t + 1], t + 1, words))
        times.append(1800 if t < SHOWN - 1 else 4000)
    palette = pictures[-1].quantize(24, dither=Image.Dither.NONE)
    drawn = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    drawn[0].save(
        path, save_all=True, append_images=drawn[1:], duration=times, loop=0, optimize=True
    )


def frame(fed, votes, model, number: int, words: str) -> Image.Image:
    """Draw one picture of the animation."""
    true, features = np.flatnonzero(fed.truth), range(fed.n_features)
    counts = votes.sum(axis=0) if len(votes) else np.zeros(fed.n_features)
    with plt.rc_context(STYLE):
        figure, (top, bottom) = panels(1, 2, width=5.2, height=1.75, sharex=True)
        top.vlines(features, 0, counts, color="0.6", linewidth=1.5)
        top.vlines(true, 0, counts[true], color=VERMILLION, linewidth=4)
        top.set(ylim=(0, len(fed.clients) + 0.5), ylabel="votes", title=f"round {number}: {words}")
        bottom.vlines(true, 0, fed.truth[true], color="0.8", linewidth=9, label="signal")
        bottom.vlines(features, 0, model, color=VERMILLION, linewidth=3, label="server's model")
        bottom.set(ylim=(-0.95, 0.95), xlabel="feature", ylabel="value")
        bottom.legend(loc="upper right", ncols=2)
        raw = io.BytesIO()
        figure.savefig(raw, dpi=150)
        plt.close(figure)
    with Image.open(raw) as image:
        return image.convert("RGB")
