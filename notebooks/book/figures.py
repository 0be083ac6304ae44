"""One style for all figures, and the few kinds of figure that the notebooks share.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart, where they have a contrast of 3 to white;
every curve also has a marker of its own. A method keeps its colour and marker in all notebooks, and FedGradMP is the
strongest.
"""

from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
from IPython import get_ipython
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from PIL import Image

__all__ = [
    "BLUE",
    "FOREST",
    "GREEN",
    "METHODS",
    "PURPLE",
    "VERMILLION",
    "WINE",
    "BoundBesideError",
    "Sight",
    "curve",
    "alt",
    "dots",
]
__all__ += [
    "draw_sphere",
    "floor",
    "gradation",
    "images",
    "ink",
    "name_lines",
    "panels",
    "see_through",
    "use_style",
]

BLUE, GREEN, VERMILLION, PURPLE = "#0072B2", "#009E73", "#D55E00", "#CC79A7"
# Of Okabe and Ito's, yellow, orange and sky blue are too pale for a line on white.
WINE, INDIGO, BROWN, FOREST = "#882255", "#332288", "#8C510A", "#117733"

METHODS = {
    "FedGradMP": {"color": VERMILLION, "marker": "o", "linewidth": 2.4, "zorder": 5},
    "SharedSupportGradMP": {
        "color": WINE,
        "marker": "*",
        "markersize": 8,
        "linewidth": 2.4,
        "zorder": 6,
    },
    "FedIterHT": {"color": BLUE, "marker": "s"},
    "FedHT": {"color": INDIGO, "marker": "D"},
    "FedAvg": {"color": "#000000", "marker": "^"},
    "FedMid": {"color": GREEN, "marker": "v"},
    "FedDualAvg": {"color": PURPLE, "marker": "P"},
    "FastFedDualAvg": {"color": BROWN, "marker": "X"},
}

# A page is 7.5 inches wide: a figure of at most this width keeps the sizes of its letters.
STYLE = {
    "figure.dpi": 90,
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 11,
}
STYLE |= {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
}
STYLE |= {"grid.color": "0.9", "grid.linewidth": 0.6, "lines.linewidth": 1.6, "lines.markersize": 5}
STYLE |= {"legend.frameon": False, "legend.fontsize": 9, "image.cmap": "gray"}


# Figures are stored with this many dots per inch, and shown in the size of STYLE's figure.dpi.
STORED_DPI = 144
WITHOUT_MARKUP = str.maketrans("", "", "$\\{}")  # what formulas in labels have and words have not


def use_style() -> None:
    """Give all figures one style, and those of a notebook enough dots and a description."""
    plt.rcParams.update(STYLE)
    shell = get_ipython()
    if shell is not None:
        import matplotlib_inline.backend_inline  # noqa: F401  (sets its own form of figures first)

        shell.display_formatter.formatters["image/png"].for_type(Figure, stored_figure)


def stored_figure(figure: Figure) -> tuple[str, dict]:
    """A figure as an encoded PNG, with the size in which it is shown and its description."""
    drawn, stored = BytesIO(), BytesIO()
    # A figure that finds its margins itself is laid out and drawn twice. Once is enough, if the layout is kept and the
    # margins are measured at the dots of the drawing, because text has other sizes at others.
    layout, dpi = figure.get_layout_engine(), figure.dpi
    if layout is not None:
        layout.execute(figure)
        # None at all: "none" leaves one that does nothing, for which the figure is drawn once more.
        with plt.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
            figure.set_layout_engine(None)
    figure.set_dpi(STORED_DPI)
    margins = figure.get_tightbbox(figure.canvas.get_renderer())
    figure.set_dpi(dpi)
    bounds = margins.padded(plt.rcParams["savefig.pad_inches"])
    figure.savefig(drawn, dpi=STORED_DPI, bbox_inches=bounds, pil_kwargs={"compress_level": 0})
    if layout is not None:
        figure.set_layout_engine(layout)

    with Image.open(drawn) as picture:
        picture.convert("RGB").save(stored, "PNG")  # a tenth smaller, as nothing is transparent
    shown = STYLE["figure.dpi"] / STORED_DPI
    size = {"width": round(picture.width * shown), "height": round(picture.height * shown)}
    encoded = b64encode(stored.getvalue()).decode()
    return encoded, size | {"alt": figure.get_label() or describe(figure)}


def describe(figure: Figure) -> str:
    """What a figure shows, in words: of each panel its title, what is on its axes, and its curves."""
    panels_in_words = [described for ax in figure.axes if (described := _describe_panel(ax))]
    return " | ".join(panels_in_words) or "A picture without words"


def _describe_panel(ax) -> str:
    title, across, up = ax.get_title(), ax.get_xlabel(), ax.get_ylabel()
    axes = f"{up} against {across}" if up and across else up or across
    named = dict.fromkeys(name for name in ax.get_legend_handles_labels()[1])
    words = "; ".join(part for part in (title, axes, ", ".join(named)) if part.strip())
    return " ".join(words.translate(WITHOUT_MARKUP).split())


def alt(figure, words: str) -> None:
    """Say in words what a figure shows, for a reader who cannot see it, in place of `describe`.

    The words are stored with the picture in the notebook, and are its alternative text on the site.
    Axes may stand for their figure.
    """
    figure.figure.set_label(" ".join(words.split()))


def panels(columns=1, rows=1, *, width=4.6, height=3.6, **options):
    """A figure of equal panels, and its axes: one, or an array as plt.subplots gives."""
    return plt.subplots(rows, columns, figsize=(width * columns, height * rows), **options)


def gradation(count: int) -> list[dict]:
    """Colours from light to dark with distinct markers, for the values of one ordered parameter."""
    shades, markers = plt.get_cmap("viridis_r")(np.linspace(0.4, 1.0, count)), "osD^vPX<>*"
    return [
        {"color": tuple(shade), "marker": markers[i % len(markers)]}
        for i, shade in enumerate(shades)
    ]


def curve(ax, x, runs, label: str, *, band=(0, 100), **style):
    """The median over runs, one row for each seed, with a band between two percentiles; returns the median."""
    median = np.median(np.atleast_2d(runs), axis=0)
    (line,) = ax.plot(x, median, label=label, **style)
    with np.errstate(invalid="ignore"):  # between two infinite values there is no band
        low, high = np.percentile(np.atleast_2d(runs), band, axis=0)
    ax.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=1)
    return median


def floor(ax, value: float, label: str, *, inside="", **style) -> None:
    """A horizontal line, as at the best value that any method could reach.

    Its label is for the legend, or stands at its end `inside`: "left" or "right" (above it, or "... below").
    """
    look = {"color": "0.35", "linestyle": (0, (5, 3)), "linewidth": 1.2, "zorder": 2} | style
    ax.axhline(value, label=f"_{label}" if inside else label, **look)
    if inside:
        end, _, side = inside.partition(" ")
        place, offset = (
            (float(end != "left"), value),
            (-2 if end == "right" else 2, -2 if side else 1),
        )
        words = dict(
            ha=end,
            va="top" if side else "bottom",
            fontsize=plt.rcParams["legend.fontsize"],
            color="0.25",
        )
        ax.annotate(
            label,
            place,
            offset,
            xycoords=ax.get_yaxis_transform(),
            textcoords="offset points",
            **words,
        )


def dots(ax, runs, styles=METHODS, *, digits=0) -> None:
    """For each name the median of its runs as a dot with their range, from the top down; `digits` writes it beside."""
    for row, (name, values) in enumerate(runs.items()):
        ends = np.ravel(values)
        style = {"color": BLUE, "marker": "o"} | dict(styles.get(name, {}))
        ax.hlines(row, ends.min(), ends.max(), color=style["color"], linewidth=2, alpha=0.8)
        ax.plot(np.median(ends), row, **style | {"linestyle": "none"})
        if digits:
            words = dict(va="center", fontsize=STYLE["legend.fontsize"], color=ink(style["color"]))
            ax.text(
                1.01,
                row,
                f"{np.median(ends):.{digits}g}",
                transform=ax.get_yaxis_transform(),
                **words,
            )
    ax.set_yticks(range(len(runs)), list(map(str, runs)))
    ax.set_ylim(len(runs) - 0.5, -0.5)


def ink(colour) -> tuple[float, float, float]:
    """A colour dark enough for words on white, for a line of that colour."""
    return tuple(0.65 * part for part in to_rgb(colour))


def name_lines(ax) -> None:
    """Write the label of each line beside its right end, in its colour: for four lines or so, in place of a legend.

    Call it last: it needs the scales and limits of the axes.
    """
    lines = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    ends = [_right_end(ax, line) for line in lines]
    size = STYLE["legend.fontsize"]
    tall = [
        1.3 * size * ax.figure.dpi / 72 * (1 + str(line.get_label()).count("\n")) for line in lines
    ]
    words = dict(xycoords="axes fraction", textcoords="offset points", fontsize=size, va="center")
    for line, (x, _), y in zip(lines, ends, _spread_out([y for _, y in ends], tall), strict=True):
        place, colour = ax.transAxes.inverted().transform((x, y)), ink(line.get_color())
        ax.annotate(
            line.get_label(), tuple(place), (6, 0), color=colour, annotation_clip=False, **words
        )


def _right_end(ax, line) -> tuple[float, float]:
    """Where a line ends on the right, or leaves the axes, in pixels."""
    ax.get_xlim(), ax.get_ylim()  # settles the limits
    with np.errstate(divide="ignore", invalid="ignore"):
        points = line.get_transform().transform(
            np.column_stack([np.asarray(v, float) for v in line.get_data()])
        )
    inside = [point for point in points if ax.bbox.padded(1e-3).contains(*point)]
    return tuple([*points, *inside][-1])


def _spread_out(heights, tall):
    """The middles of names, those that would overlap moved apart; `tall` is how much room each needs."""
    moved, order = np.array(heights, dtype=float), np.argsort(heights, kind="stable")
    for _ in range(200):
        for low, high in zip(order[:-1], order[1:], strict=True):
            lack = (tall[low] + tall[high]) / 2 - (moved[high] - moved[low])
            if lack > 0:
                moved[low], moved[high] = moved[low] - lack / 2, moved[high] + lack / 2
    return moved


def images(pictures, titles, *, columns=None, width=3.4, rows=(), **options):
    """Pictures side by side, without axes; returns the figure.

    `width` is that of one picture in inches, `rows` what stands to the left of each row; the options are imshow's.
    """
    columns = columns or len(pictures)
    high, wide = np.shape(pictures[0])
    height = width * high / wide + (0.05 if rows else 0.3)
    figure, axes = panels(
        columns, -(-len(pictures) // columns), width=width, height=height, squeeze=False
    )
    for ax in axes.flat[len(pictures) :]:
        ax.set_visible(False)
    shown = zip(axes.flat, pictures, titles, strict=False)
    for number, (ax, picture, title) in enumerate(shown):
        ax.imshow(picture, **options)
        ax.axis("off")
        ax.set_title("" if rows and number >= columns else title)
    for ax, name in zip(axes[:, 0], rows, strict=False):
        ax.text(-0.15, 0.5, name, transform=ax.transAxes, ha="right", va="center")
    return figure


@dataclass(frozen=True, eq=False)
class Sight:
    """What is missing, and what a gradient shows of it through A'A/m.

    Parameters
    ----------
    title : str
        Who looks, or what was done about it.
    gram : numpy.ndarray of shape (n_features, n_features)
        A'A/m of a client with m rows, or the mean of several.
    missing : numpy.ndarray of shape (n_features,)
        The signal minus the model.
    seen : numpy.ndarray of shape (n_features,), optional
        The negative gradient. By default gram @ missing, which it is if all clients miss the same.
    """

    title: str
    gram: np.ndarray
    missing: np.ndarray
    seen: np.ndarray | None = None

    @classmethod
    def of(cls, title, features, missing) -> "Sight":
        """Return the sight of one client with these rows, or of the mean of several clients."""
        several = features if isinstance(features, list) else [features]
        return cls(title, np.mean([A.T @ A / len(A) for A in several], axis=0), missing)


def see_through(sights, *, columns=1, taken=0, words="feature"):
    """Draw sights in a grid: left A'A/m as a picture, right what is missing, and the gradient.

    Parameters
    ----------
    sights : list of Sight
        In the order in which one reads.
    columns : int, default=1
        Sights in a row; one is legible on a telephone.
    taken : int, default=0
        How many of the largest entries of the gradient get a dot: those a client would take.
    words : str, default="feature"
        What an entry is called.

    Returns
    -------
    matplotlib.figure.Figure
        Entries and gradients are scaled to a largest magnitude of 1, and A'A/m to a mean diagonal
        of 1; in the picture of it red is positive, blue is negative, white is zero.
    """
    rows = -(-len(sights) // columns)
    figure, axes = plt.subplots(
        rows,
        2 * columns,
        figsize=(max(4.2, 3.75 * columns), 1.75 * rows + 0.35),  # at least as wide as the legend
        gridspec_kw={"width_ratios": [1, 1.35] * columns},
        squeeze=False,
    )
    for ax in axes.flat[2 * len(sights) :]:
        ax.set_visible(False)
    pairs = axes.reshape(rows * columns, 2)
    for (picture, bars), sight in zip(pairs, sights, strict=False):
        _draw_sight(picture, bars, sight, taken)
    for column in axes[:, 1::2].T:
        for bars in column[:-1]:
            bars.sharex(column[-1])
        column[-1].set_xlabel(words)
    figure.legend(*pairs[0, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_sight(picture, bars, sight, taken) -> None:
    seen = sight.gram @ sight.missing if sight.seen is None else sight.seen
    seen, missing = (values / np.abs(values).max() for values in (seen, sight.missing))
    picture.imshow(sight.gram / np.diag(sight.gram).mean(), cmap="RdBu_r", vmin=-1, vmax=1)
    picture.set(xticks=[], yticks=[])
    picture.set_title(sight.title, loc="left", fontsize=STYLE["font.size"])
    picture.set_xlabel(r"$A^\top\! A/m$", fontsize=STYLE["legend.fontsize"])
    places = np.arange(len(missing))
    there = np.flatnonzero(missing)
    bars.vlines(there, 0, missing[there], color="0.7", linewidth=6, label="what is missing")
    bars.vlines(places, 0, seen, color=VERMILLION, linewidth=1.4, label="minus the gradient")
    if taken:
        first = np.argsort(-np.abs(seen), kind="stable")[:taken]
        bars.plot(first, seen[first], "k.", label=f"its {taken} largest entries")
    bars.axhline(0, color="0.5", linewidth=0.6)
    bars.set(ylim=(-1.25, 1.25), yticks=[])  # all are scaled to 1
    bars.tick_params(labelsize=STYLE["legend.fontsize"])


def draw_sphere(ax, rows, title, *, eye=None, most=None):
    """Draw the curvature of a loss with three features along its sparse directions.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        With projection "3d".
    rows : array_like of shape (2, 3)
        The rows of the client: one direction is flat, and drawn as a white dot.
    title : str
        Of the axes.
    eye : array_like of shape (3,), optional
        Where one looks from; by default so that the flat direction faces the reader.
    most : float, optional
        The curvature of the brightest colour; by default the largest one.

    Returns
    -------
    matplotlib.cm.ScalarMappable
        The colours of the circles, for a colour bar.
    """
    ax.computed_zorder = False  # the circles lie in front of the sphere
    rows = np.asarray(rows, dtype=float)
    flat = np.linalg.svd(rows)[2][-1]
    eye = flat + [0.15, -0.3, 0.25] if eye is None else np.asarray(eye, dtype=float)
    eye = eye / np.linalg.norm(eye)
    flat = flat * np.sign(flat @ eye)
    turn = np.linspace(0, 2 * np.pi, 121)
    circles = [np.insert(np.array([np.cos(turn), np.sin(turn)]), k, 0, axis=0) for k in range(3)]
    bends = [np.sum((rows @ circle) ** 2, axis=0) / len(rows) for circle in circles]
    colours = plt.cm.ScalarMappable(Normalize(0, most or max(map(np.max, bends))), "viridis")
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 40), np.linspace(0, np.pi, 20))
    sphere = np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)
    ax.plot_surface(*sphere, color="0.92", shade=False, rstride=1, cstride=1, linewidth=0)
    for k, (circle, bend) in enumerate(zip(circles, bends, strict=True)):
        points = 1.02 * circle.T
        pieces = np.stack([points[:-1], points[1:]], axis=1)
        seen = (pieces.mean(axis=1) @ eye) > 0
        lines = Line3DCollection(pieces[seen], linewidth=4, zorder=10)
        lines.set_color(colours.to_rgba(bend[:-1][seen]))
        ax.add_collection3d(lines)
        ax.text(*(1.3 * np.eye(3)[k] * (1 if eye[k] >= 0 else -1)), f"$d_{k + 1}$", zorder=12)
    ax.plot(*(1.06 * flat[:, None]), "ko", markerfacecolor="white", markersize=9, zorder=11)
    ax.view_init(np.degrees(np.arcsin(eye[2])), np.degrees(np.arctan2(eye[1], eye[0])))
    ax.set_axis_off()
    ax.set_box_aspect((1, 1, 1), zoom=1.2)
    ax.set_title(title)
    return colours


@dataclass(frozen=True, eq=False)
class BoundBesideError:
    """Errors of runs, and the bound that a theorem gives for them: arrays of shape (n_seeds, rounds + 1).

    The first error is that of the model that is zero everywhere; errors below `exact` count as exact.
    """

    measured: np.ndarray
    promised: np.ndarray

    @classmethod
    def of(cls, runs, exact=0.0):
        """From one pair for each seed: the errors of the run, and the bound in the same rounds."""
        measured, promised = np.moveaxis(np.array(list(runs), dtype=float), 1, 0)
        return cls(np.maximum(measured, exact), promised)

    @property
    def holds(self):
        """For each seed: the bound is a number, and not below the error in any round. Infinity promises nothing."""
        is_above = self.measured <= self.promised * (1 + 1e-9)
        return (np.isfinite(self.promised) & is_above).all(axis=1)

    @property
    def useful(self):
        """For each seed: it holds, and says in the last round that the run is better than the zero model."""
        return self.holds & (self.promised[:, -1] < self.measured[:, 0])

    @property
    def factors(self):
        """In the last round: the bound over the error of the zero model, and over that of the run."""
        first, last = self.promised[:, -1] / self.measured[:, [0, -1]].T
        return {"bound over zero model": first, "over squared error": last}

    def draw(self, ax, title="") -> None:
        """Both against the rounds, medians and bands over all seeds, each line with its name."""
        steps = range(self.measured.shape[1])
        curve(ax, steps, self.promised, "bound", color="k", marker="s")
        curve(ax, steps, self.measured, "measured", **METHODS["FedGradMP"])
        floor(ax, float(np.median(self.measured[:, 0])), "zero model")
        ax.set(yscale="log", xlabel="round", title=title)
