"""Where a round's time goes: draws, client work, mean and loop, recording; beside an earlier commit, in before.json."""

import json
import time
from functools import cache, partial
from pathlib import Path

from harness import Finding, Row, Scale, interleaved
from images import answers
from machine import loop_threads

import fgmp
from fgmp.fast import kernels
from fgmp.method import Streams

HERE = Path(__file__).resolve().parent
PARTS = {
    "draws": "#0072B2",
    "client work": "#D55E00",
    "mean and loop": "#009E73",
    "recording": "#999999",
}
WHAT = "a round of 50 clients, n=200, one thread: "


@cache
def drawing():
    """The minibatches of a round and nothing else, as the compiled loop draws them."""
    import numba

    draw_minibatch = kernels.draw_minibatch

    @numba.njit
    def draws(begins, ends, batch_size, client_ids, steps, stream):
        for i in range(len(begins)):
            n_rows = ends[i] - begins[i]
            for step in range(steps):
                draw_minibatch(stream, client_ids[i], step * n_rows, n_rows, batch_size)

    return draws


def parts(scale: Scale) -> Finding:
    """In processor time, each part the difference of two runs that take turns."""
    federation, rounds = fgmp.make_sparse_regression(50, 40, 200, 5, noise_variance=1e-4, rng=0), 40
    method, streams = fgmp.FedGradMP(5, 3, 20), Streams(0)
    state = fgmp.simulate(method, federation, 3, rng=0).state
    cohort = federation.offsets[:-1], federation.offsets[1:], 20, federation.client_ids
    stream = kernels.RandomStream(streams.key, streams.CLIENT, 0, 1)

    def run(every: int) -> None:
        fgmp.simulate(method, federation, rounds, rng=0, history=fgmp.History(every))

    runs = {"recorded": partial(run, 1), "unrecorded": partial(run, rounds)}
    runs |= {"answers": answers(method, federation, state)}
    runs |= {"draws": partial(drawing(), *cohort, 3, stream)}
    with loop_threads(1):
        seconds = interleaved(runs, scale.pick(2, 30, 60), time.process_time)
    micro = {
        name: 1e6 * values / (rounds if "recorded" in name else 1)
        for name, values in seconds.items()
    }
    split = {"draws": micro["draws"], "client work": micro["answers"] - micro["draws"]}
    split |= {"mean and loop": micro["unrecorded"] - micro["answers"]}
    split |= {"recording": micro["recorded"] - micro["unrecorded"]}
    return Finding([Row(WHAT + name, split[name].tolist(), None, "us") for name in PARTS])


def draw(rows: list[Row], path: Path) -> None:
    """Two bars: the earlier commit, and now."""
    import matplotlib.pyplot as plt

    before = json.loads((HERE / "before.json").read_text())
    now = {row.what.removeprefix(WHAT): row.median for row in rows if row.what.startswith(WHAT)}
    if not now:
        return
    fig, axes = plt.subplots(2, 1, figsize=(6.8, 3.2), layout="constrained")
    for ax, label, split in zip(
        axes, (f"before ({before['commit']})", "now"), (before["parts"], now), strict=True
    ):
        left = 0.0
        for name, colour in PARTS.items():
            ax.barh([label], [split[name]], left=left, color=colour, edgecolor="white", label=name)
            ax.annotate(f"{split[name]:,.0f}", (left + split[name] / 2, 0), (0, -26), textcoords="offset points",
                        ha="center", fontsize=8)  # fmt: skip
            left += split[name]
        ax.set(xlim=(0, None), xlabel="microseconds of a round")
        ax.margins(y=0.5)
    axes[0].legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    fig.savefig(path, dpi=120)
    plt.close(fig)
