"""The figures of a run: all ratios against their bounds, and one figure for each group of curves."""

from pathlib import Path

import matplotlib.pyplot as plt
from harness import AT_MOST, Curve, Row, number

from fgmp.book.figures import gradation, panels, use_style

TITLES = {
    "iteration": "FedGradMP, squared loss",
    "microseconds": "Local iteration",
    "flat": "FedGradMP as clients are added",
    "many_clients": "Clients of 20 x 200, of which a round visits 100",
    "one_client": "One client, full batch",
    "fedavg": "FedAvg, softmax",
    "steps": "Steps on images",
    "restricted": "Restricted steps as n grows",
    "growth_time": "Growth of time",
    "growth_memory": "Growth of memory",
}


def draw(rows: list[Row], curves: list[Curve], folder: Path) -> list[Path]:
    """Write the figures as PNG files, and return them."""
    use_style()
    folder.mkdir(parents=True, exist_ok=True)
    written = [bounds(rows, folder / "targets.png")]
    for group in dict.fromkeys(curve.group for curve in curves):
        members = [curve for curve in curves if curve.group == group]
        make = bars if isinstance(members[0].x[0], str) else lines
        written.append(make(group, members, folder / f"{group}.png"))
    return written


def bounds(rows: list[Row], path: Path) -> Path:
    """How far each measured number is from its bound: left of the line is better than asked for."""
    judged = [row for row in rows if row.values and row.bound and row.bound[1] and row.median > 0]
    figure, ax = panels(width=9, height=0.6 + 0.27 * max(len(judged), 1))
    for place, row in enumerate(reversed(judged)):
        sense, limit = row.bound
        used = row.median / limit if sense == AT_MOST else limit / row.median
        met = row.verdict == "met"
        ax.plot(used, place, "o" if met else "X", color="#0072B2" if met else "#D55E00")
    ax.set(yticks=range(len(judged)), xscale="log", xlabel="measured as a part of what the bound allows")
    ax.set_yticklabels([f"{row.target}: {row.what}" for row in reversed(judged)], fontsize=7)
    ax.axvline(1, color="0.35", linestyle=(0, (5, 3)), linewidth=1.2)
    return save(figure, path)


def bars(group: str, curves: list[Curve], path: Path) -> Path:
    """One panel for each curve, one bar for each contestant."""
    longest = max(len(curve.x) for curve in curves)
    figure, axes = panels(1, len(curves), width=7.5, height=0.9 + 0.25 * longest, squeeze=False)
    for ax, curve in zip(axes.flat, curves, strict=True):
        order = sorted(range(len(curve.x)), key=lambda i: -curve.y[i])
        colours = [{"fgmp": "#D55E00", "floor": "0.6"}.get(curve.x[i], "#56B4E9") for i in order]
        drawn = ax.barh([curve.x[i] for i in order], [curve.y[i] for i in order], color=colours)
        ax.bar_label(drawn, [number(curve.y[i]) for i in order], padding=3, fontsize=8)
        ax.margins(x=0.1)
        ax.set(xlabel=curve.ylabel, title=f"{TITLES.get(group, group)}: {curve.label}")
        ax.tick_params(axis="y", labelsize=8)
    return save(figure, path)


def lines(group: str, curves: list[Curve], path: Path) -> Path:
    """Log-log lines; one panel for all that share their axes; a floor beside others is dashed."""
    places = list(dict.fromkeys((curve.xlabel, curve.ylabel) for curve in curves))
    alike = len({ylabel for _, ylabel in places}) == 1
    width = 5 if len(places) == 1 else 3.2 if alike else 4.2
    figure, axes = panels(len(places), width=width, height=3, squeeze=False, sharey=alike)
    styles = iter(gradation(sum(not curve.label.startswith("floor:") for curve in curves)))
    for curve in curves:
        ax = axes.flat[places.index((curve.xlabel, curve.ylabel))]
        floor = {"color": "0.35", "linestyle": (0, (5, 3))}
        style = floor if curve.label.startswith("floor:") else next(styles)
        ax.plot(curve.x, curve.y, label=curve.label, **style)
        if not alike:
            ax.set(ylabel=curve.ylabel)
        ax.set(xscale="log", yscale="log", xlabel=curve.xlabel)
        ax.set_xticks(curve.x, [f"{value:,}" for value in curve.x], fontsize=8)
        ax.minorticks_off()
        ax.legend(fontsize=8)
    axes.flat[0].set(ylabel=curves[0].ylabel)
    figure.suptitle(TITLES.get(group, group), fontsize=11)
    return save(figure, path)


def save(figure: plt.Figure, path: Path) -> Path:
    """Write and close."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path
