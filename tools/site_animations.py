"""Three short animations for the site: a recovery round by round, a frame of video, and supports that settle.

Each is a small run of its own, drawn when the site is made, and shown under the opening of the notebook with its number
if there is one. It plays three times and rests on its last picture; who asks for less motion sees that one only.
"""

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import fgmp
from fgmp.book.figures import METHODS, use_style
from fgmp.datasets import photo_clip
from fgmp.models import SparseModel

RED, BLACK = METHODS["FedGradMP"]["color"], "#000000"


@dataclass(frozen=True)
class Watched(fgmp.FedGradMP):
    """FedGradMP that remembers what the clients answered in each round, and what the server made of it."""

    seen: list = field(default_factory=list, compare=False)

    def aggregate(self, state, replies):
        """The server's step, with a note of what went in and out."""
        after = super().aggregate(state, replies)
        self.seen.append(([SparseModel.from_message(reply.message, state.shape) for reply in replies], after))
        return after


@dataclass(frozen=True)
class WatchedTogether(fgmp.SharedSupportGradMP):
    """SharedSupportGradMP that remembers what the clients named in each round, and the support of each round."""

    named: list = field(default_factory=list, compare=False)
    kept: list = field(default_factory=list, compare=False)

    def merge(self, state, replies):
        """The choice of the merged support, with a note of what the clients named."""
        self.named.append([SparseModel.from_message(reply.message, state.model.shape).support for reply in replies])
        return super().merge(state, replies)

    def prune(self, state):
        """The last step of a round, with a note of the model."""
        after = super().prune(state)
        self.kept.append(after.model)
        return after


def picture(figure: Figure) -> Image.Image:
    """A figure as a picture."""
    with io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=100)
        return Image.open(file).convert("RGB")


def distance(model: np.ndarray, truth: np.ndarray) -> str:
    """The relative error in words."""
    error = np.linalg.norm(model - truth) / np.linalg.norm(truth)
    return f"relative error {error:.2g}" if error > 1e-12 else "exact, but for rounding"


def recovery() -> list[Image.Image]:
    """Two pictures a round: what thirty clients answer, and what the server keeps of their mean."""
    fed = fgmp.make_sparse_regression(30, 20, 200, 5, heterogeneity=1.0, variance_decay=1.1, rng=2)
    method = Watched(sparsity=5, local_iterations=1)
    fgmp.simulate(method, fed, rounds=4, rng=0)
    there = np.flatnonzero(fed.truth)

    def draw(model: np.ndarray, answers: list[SparseModel], words: str) -> Image.Image:
        figure = Figure(figsize=(7.2, 3.2))
        ax = figure.subplots()
        for answer in answers:
            ax.plot(answer.support, answer.values, ".", color="0.6", markersize=5)
        kept = np.flatnonzero(model)
        ax.vlines(kept, 0, model[kept], color=RED)
        ax.plot(kept, model[kept], "o", color=RED, label="the server's model")
        ax.plot([], [], ".", color="0.6", label="what the clients answer")
        ax.plot(there, fed.truth[there], "o", color=BLACK, fillstyle="none", markersize=11, label="the signal")
        ax.axhline(0, color=BLACK, linewidth=0.8)
        reach = 1.6 * np.abs(fed.truth).max()
        ax.set(xlim=(-4, 204), ylim=(-reach, reach), xlabel="feature", ylabel="value", title=words)
        ax.legend(loc="upper left", ncols=3)
        return picture(figure)

    model = np.zeros(200)
    frames = [draw(model, [], "the start: a model of zeros")]
    for number, (answers, after) in enumerate(method.seen, start=1):
        frames.append(draw(model, answers, f"round {number}: thirty answers, five entries each"))
        model = after.dense()
        words = f"round {number}: mean, and its five largest entries; {distance(model, fed.truth)}"
        frames.append(draw(model, [], words))
    return frames


def video_frame() -> list[Image.Image]:
    """The frame that fifty clients recover, round by round, beside the true one."""
    height, width = 120, 160
    clip = photo_clip(120, height, width)
    dictionary = fgmp.ksvd(clip[:80], 50, 5, rng=0)
    frame = clip[81]
    fed = fgmp.make_sensing(frame.ravel(), 50, 30, 0.5, 0.9, rng=0)
    method = Watched(sparsity=5, local_iterations=1, dictionary=dictionary)
    fgmp.simulate(method, fed, rounds=5, rng=0)
    models = [np.zeros(height * width)] + [dictionary.atoms @ after.dense() for _, after in method.seen]
    frames = []
    for number, model in enumerate(models):
        figure = Figure(figsize=(7.2, 3.1))
        for ax, shown, words in zip(
            figure.subplots(1, 2),
            (model.reshape(height, width), frame),
            (f"after round {number}: {distance(model, frame.ravel())}", "the frame"),
            strict=True,
        ):
            ax.imshow(shown, cmap="gray", vmin=0, vmax=1)
            ax.set_title(words)
            ax.set_axis_off()
        frames.append(picture(figure))
    return frames


def supports() -> list[Image.Image]:
    """Who takes which features in each round: every client for itself, and all together."""
    n_clients, n_features, sparsity, rounds = 40, 120, 5, 4
    fed = fgmp.make_sparse_regression(n_clients, 8, n_features, sparsity, variance_decay=0.2, rng=1)
    largest = fgmp.LargestEntries(2 * sparsity)
    apart, together = Watched(sparsity), WatchedTogether(sparsity, largest, pruning="largest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgmp.AdviceWarning)  # that they have few rows is the point
        fgmp.simulate(apart, fed, rounds=rounds, rng=0)
        fgmp.simulate(together, fed, rounds=rounds, rng=0)
    there = np.flatnonzero(fed.truth)
    settled, frames = False, []
    for number in range(rounds):
        figure = Figure(figsize=(7.2, 4.0))
        left, right = figure.subplots(1, 2, sharey=True)
        answers, after = apart.seen[number]
        for client, answer in enumerate(answers, start=1):
            left.plot(answer.support, np.full(len(answer.support), client), "s", color=RED, markersize=2.5)
        left.set_title(f"FedGradMP, round {number + 1}\n{distance(after.dense(), fed.truth)}")
        model = together.kept[number]
        if not settled:  # later gradients are rounding errors, and so is the order of their entries
            for client, named in enumerate(together.named[number], start=1):
                right.plot(named, np.full(len(named), client), "s", color="0.6", markersize=2.5)
        right.vlines(model.support, 0.5, n_clients + 0.5, color=METHODS["SharedSupportGradMP"]["color"], linewidth=1.6)
        words = distance(model.dense(), fed.truth)
        settled = settled or words.startswith("exact")
        right.set_title(f"SharedSupportGradMP, round {number + 1}\n{words}")
        for ax in (left, right):
            ax.plot(there, np.full(len(there), -1.5), "v", color=BLACK, markersize=6, clip_on=False)
            ax.set(xlim=(-2, n_features + 1), ylim=(n_clients + 1, -2.5), xlabel="feature")
            ax.grid(False)
        left.set_ylabel("client")
        frames.append(picture(figure))
    return frames


@dataclass(frozen=True)
class Animation:
    """How to draw one, and what to say of it."""

    draw: Callable[[], list[Image.Image]]
    caption: str
    milliseconds: int


# By the number of the notebook.
ANIMATIONS = {
    "00": Animation(
        recovery,
        "One recovery, with one local iteration in each round. Grey: what the thirty clients answer. Red: the"
        " server's model, the five largest entries of their mean. Circles: the signal.",
        900,
    ),
    "04": Animation(
        video_frame,
        "One recovery of a frame, with one local iteration in each round: fifty clients, thirty"
        " numbers each. The frame is half as high and wide as in the notebook.",
        1000,
    ),
    "11": Animation(
        supports,
        "Forty clients with eight samples each look for five features (triangles). Left: the features that each client"
        " takes by itself. Right: grey, the features that a client names; lines, the support that all share.",
        1200,
    ),
}


def address(stem: str) -> str:
    """Where the animation of a notebook lies in the site."""
    return f"_static/animations/{stem}.webp"


def page_text(place: str, target: Path) -> str:
    """The animation of a notebook in HTML, empty if there is none."""
    stem = Path(place).stem
    if not (target / address(stem)).exists():
        return ""
    file = f"../{address(stem)}"
    caption = ANIMATIONS[stem[:2]].caption
    return (
        '<figure class="animation"><picture>'
        f'<source srcset="{file.replace(".webp", "-last.webp")}" media="(prefers-reduced-motion: reduce)">'
        f'<img src="{file}" alt="{caption}"></picture><figcaption>{caption}</figcaption></figure>'
    )


def write(target: Path, books: list[str]) -> None:
    """Draw the animations of these notebooks into the sources of the site."""
    with matplotlib.rc_context():
        use_style()
        for stem in (Path(book).stem for book in books if "/results/" not in book):
            animation = ANIMATIONS.get(stem[:2])
            if animation is None:
                continue
            frames = animation.draw()
            file = target / address(stem)
            file.parent.mkdir(parents=True, exist_ok=True)
            times = [animation.milliseconds] * (len(frames) - 1) + [4 * animation.milliseconds]
            frames[0].save(file, save_all=True, append_images=frames[1:], duration=times, loop=3, quality=80)
            frames[-1].save(file.with_name(f"{stem}-last.webp"), quality=90)
