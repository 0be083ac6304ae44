"""Handwritten digits as a federation: one client for each writer, and writers that are held out for the test."""

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._support.optional import needs
from .._support.validation import Seed, check_integer, check_number, check_option, check_seed
from ..federation import Client, Federation
from ..losses import SoftmaxLoss
from ..sparse_model import Array
from .downloads import locate
from .synthetic import seeded

Hand = tuple[Array, Array]  # pixels and labels

# Training clients, test clients, digits for each of them; the paper's numbers where there are writers.
SIZES = {"digits": (30, 10, 40), "mnist-writers": (300, 50, 100), "femnist": (300, 50, 100)}


@dataclass(frozen=True, eq=False)
class DigitsByWriter:
    """Digits of many writers, dealt into training and test.

    Attributes
    ----------
    train, test : Federation
        One client for each writer, equal weights, softmax loss over ten classes. Each row of a client's features is a
        flattened image in float32, each target its digit. No writer and no digit is in both.
    train_writers, test_writers : tuple of str
        Who the clients are, in their order.
    image_shape : tuple of int
        Height and width.
    """

    train: Federation
    test: Federation
    train_writers: tuple[str, ...]
    test_writers: tuple[str, ...]
    image_shape: tuple[int, int]

    def images(self, client: Client) -> Array:
        """The digits of a client as images, shape (n_samples, height, width)."""
        return np.asarray(client.features.reshape(-1, *self.image_shape))


def digits_by_writer(
    dataset: str = "digits",
    n_train: int | None = None,
    n_test: int | None = None,
    n_samples: int | None = None,
    rng: Seed = None,
    *,
    concentration: float = 1.0,
) -> DigitsByWriter:
    """Handwritten digits by writer, for multinomial logistic regression (paper, Section V-B, Figures 6 and 7).

    Parameters
    ----------
    dataset : {"digits", "mnist-writers", "femnist"}, default "digits"
        ``"digits"`` comes with scikit-learn: 1,797 digits of 8 x 8 pixels whose writers are not named, dealt to clients
        with a skew of the labels. ``"mnist-writers"`` is MNIST's training set, 28 x 28, by the writer that QMNIST's
        labels name: 539 writers, 440 of them with at least 100 digits. ``"femnist"`` is Federated EMNIST, digits only,
        28 x 28: the paper's data. The last two are downloaded by `fgmp data fetch`.
    n_train, n_test : int, default 30 and 10 for ``"digits"``, else 300 and 50
        Writers for training, and others for the test.
    n_samples : int, default 40 for ``"digits"``, else 100
        Digits of each writer. Writers are drawn from those who have as many, and their digits from all they wrote.
    rng : int, Generator or None
        The seed. With writers, the test set is the same for every n_train, and so are the first training writers.
    concentration : float, default 1.0
        Skew of the labels in ``"digits"`` only: near 0, a client has one class; large, all classes alike.
    """
    sizes = SIZES[check_option("dataset", dataset, tuple(SIZES))]
    given = zip(
        ("n_train", "n_test", "n_samples"), (n_train, n_test, n_samples), sizes, strict=True
    )
    n_train, n_test, n_samples = (
        check_integer(name, size if own is None else own) for name, own, size in given
    )
    seed, concentration = (
        check_seed("rng", rng),
        check_number("concentration", concentration, above=0),
    )
    if dataset == "digits":
        hands, image_shape = _dealt(n_train, n_test, n_samples, concentration, seed), (8, 8)
    else:
        writers = (
            mnist_writers(*locate(dataset))
            if dataset == "mnist-writers"
            else femnist_writers(locate(dataset))
        )
        hands, image_shape = _drawn(writers, n_train, n_test, n_samples, seed), writers.image_shape
    names, (images, labels) = tuple(hands), zip(*hands.values(), strict=True)
    train = Federation.from_arrays(images[n_test:], labels[n_test:], loss=SoftmaxLoss(10))
    test = Federation.from_arrays(images[:n_test], labels[:n_test], loss=SoftmaxLoss(10))
    return DigitsByWriter(train, test, names[n_test:], names[:n_test], image_shape)


def _dealt(
    n_train: int, n_test: int, n_samples: int, concentration: float, seed: int
) -> dict[str, Hand]:
    """The embedded digits, dealt with a Dirichlet skew of the labels (Hsu, Qi and Brown, 2019, arXiv 1909.06335).

    The clients take turns, in a new order each time, and draw a digit of the class that their shares choose among those
    that are left.
    """
    with needs('digits_by_writer("digits")', "scikit-learn"):
        from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    n_clients, generator = n_train + n_test, seeded(seed)
    if n_clients * n_samples > len(labels):
        asked = f"{n_train=} and {n_test=} ask for {n_clients} clients of {n_samples=} digits"
        enough = f"{len(labels)} digits in all, enough for {len(labels) // n_samples} such clients"
        raise ValueError(f"{asked}; expected at most {enough}")
    piles = [generator.permutation(np.flatnonzero(labels == c)) for c in range(10)]
    left = np.array([len(pile) for pile in piles])
    shares = generator.dirichlet(np.full(10, concentration), n_clients)
    dealt = np.empty((n_clients, n_samples), np.intp)
    for turn in range(n_samples):
        for client in generator.permutation(n_clients):
            chances = shares[client] * (left > 0)
            if chances.sum() < 1e-9:
                chances = left / left.sum()
            chosen = generator.choice(10, p=chances / chances.sum())
            left[chosen] -= 1
            dealt[client, turn] = piles[chosen][left[chosen]]
    pixels = (images / 16).astype(np.float32)
    return {f"client {i}": (pixels[rows], labels[rows]) for i, rows in enumerate(dealt)}


class Writers(NamedTuple):
    """Digits by writer: the shape of an image, how many each wrote, and pixels, from 0, paper, to 1, and labels."""

    image_shape: tuple[int, int]
    counts: dict[str, int]
    digits: Callable[[str], Hand]


def _drawn(
    writers: Writers, n_train: int, n_test: int, n_samples: int, seed: int
) -> dict[str, Hand]:
    """Random digits of random writers, the test writers first, so that they are the same for every n_train."""
    able = sorted(writer for writer, count in writers.counts.items() if count >= n_samples)
    if n_train + n_test > len(able):
        asked = (
            f"{n_train=} and {n_test=} ask for {n_train + n_test} writers of {n_samples=} digits"
        )
        raise ValueError(
            f"{asked}; expected at most {len(able)}, of the {len(writers.counts)} writers there are"
        )
    hands = {}
    for i in seeded(seed, 0).permutation(len(able))[: n_test + n_train]:
        pixels, labels = writers.digits(able[i])
        rows = seeded(seed, 1, int(i)).permutation(len(labels))[:n_samples]
        hands[able[i]] = pixels[rows], labels[rows]
    return hands


def mnist_writers(images: Path, labels: Path) -> Writers:
    """MNIST's images (IDX, bytes, 255 is ink) by NIST writer: QMNIST's labels (IDX) have digit 0th and writer 2nd."""
    inks, table = _read_idx(images, ">u1", 3), _read_idx(labels, ">i4", 2)
    if len(table) != len(inks):
        raise ValueError(
            f"{labels} holds {len(table)} rows; expected one for each of {len(inks)} images"
        )
    names, counts = np.unique(table[:, 2], return_counts=True)

    def of(writer: str) -> Hand:
        rows = np.flatnonzero(table[:, 2] == int(writer))
        return inks[rows].reshape(len(rows), -1).astype(np.float32) / 255, table[rows, 0].astype(
            np.intp
        )

    return Writers(inks.shape[1:], dict(zip(map(str, names), counts.tolist(), strict=True)), of)


def femnist_writers(paths: Sequence[Path]) -> Writers:
    """Federated EMNIST by writer, from the HDF5 files of TensorFlow Federated, whose 1 is paper.

    They have some of a writer's digits for training and some for the test; writers are held out here, so they are one.
    """
    with needs("Federated EMNIST", "h5py"):
        from h5py import File

    counts: Counter[str] = Counter()
    for path in paths:
        with _damage_named(path), File(path, "r") as file:
            counts.update(
                {writer: len(digits["pixels"]) for writer, digits in file["examples"].items()}
            )

    def of(writer: str) -> Hand:
        pixels, labels = [], []
        for path in paths:
            with _damage_named(path), File(path, "r") as file:
                if writer in (examples := file["examples"]):
                    pixels.append(
                        1 - examples[writer]["pixels"][()].reshape(-1, 28 * 28).astype(np.float32)
                    )
                    labels.append(examples[writer]["label"][()].reshape(-1).astype(np.intp))
        return np.concatenate(pixels), np.concatenate(labels)

    return Writers((28, 28), counts, of)


def _read_idx(path: Path, dtype: str, ndim: int) -> Array:
    """A compressed IDX file: two zeros, type, number of dimensions, each as 32 bits, the values, all big-endian."""
    with _damage_named(path):
        content = gzip.decompress(path.read_bytes())
        if content[:4] != bytes((0, 0, {">u1": 0x08, ">i4": 0x0C}[dtype], ndim)):
            raise ValueError(
                f"it begins with {content[:4].hex(' ')!r}, and {dtype} of {ndim} dimensions was expected"
            )
        shape = np.frombuffer(content, ">u4", ndim, 4).astype(int)
        return np.frombuffer(content, dtype, offset=4 + 4 * ndim).reshape(shape)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """What cannot be read as it should be is damaged, and what to do about it is said."""
    try:
        yield
    except (OSError, EOFError, KeyError, ValueError, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged or cut short ({error}); remove it and run `fgmp data fetch`"
        ) from error
