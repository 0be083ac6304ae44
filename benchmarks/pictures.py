"""The figure of a run: all ratios against their bounds."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
from harness import AT_MOST, Row

sys.path.append(str(Path(__file__).parents[1] / "notebooks"))
from book.figures import panels, use_style


def draw(rows: list[Row], path: Path) -> None:
    """How far each measured number is from its bound: left of the line is better than asked for."""
    use_style()
    judged = [row for row in rows if row.values and row.bound and row.bound[1] and row.median > 0]
    figure, ax = panels(width=9, height=0.6 + 0.27 * max(len(judged), 1))
    for place, row in enumerate(reversed(judged)):
        sense, limit = row.bound
        used = row.median / limit if sense == AT_MOST else limit / row.median
        met = row.verdict == "met"
        ax.plot(used, place, "o" if met else "X", color="#0072B2" if met else "#D55E00")
    ax.set(
        yticks=range(len(judged)),
        xscale="log",
        xlabel="measured as a part of what the bound allows",
    )
    ax.set_yticklabels([row.what for row in reversed(judged)], fontsize=7)
    ax.axvline(1, color="0.35", linestyle=(0, (5, 3)), linewidth=1.2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
