"""Handwritten digits as a federation: a client for each writer, and other writers for the test."""

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._support.optional import needs
from .._support.validation import Seed, check_integer, check_number, check_option, check_seed
from ..data import Client, Federation
from ..losses import SoftmaxLoss
from ..sparse_model import Array, IndexArray
from .downloads import locate
from .synthetic import seeded

N_CLASSES = 10


class Hand(NamedTuple):
    """The digits of one writer: pixels in [0, 1], shape (n_digits, n_pixels), and labels."""

    pixels: Array
    labels: IndexArray


class DefaultSizes(NamedTuple):
    """Training clients, test clients and digits of each of them, if the caller names none."""

    n_train: int
    n_test: int
    n_samples: int


# With writers, the numbers of the paper.
SIZES = {
    "digits": DefaultSizes(30, 10, 40),
    "mnist-writers": DefaultSizes(300, 50, 100),
    "femnist": DefaultSizes(300, 50, 100),
}


@dataclass(frozen=True, eq=False)
class DigitsByWriter:
    """Digits of many writers, dealt into training and test.

    Attributes
    ----------
    train, test : Federation
        One client for each writer, equal weights, and the softmax loss over ten classes. Each row
        of a client's features is a flattened image in float32, and each target is its digit. No
        writer and no digit is in both.
    train_writers, test_writers : tuple of str
        The names of the clients, in their order.
    image_shape : tuple of int
        Height and width.
    """

    train: Federation
    test: Federation
    train_writers: tuple[str, ...]
    test_writers: tuple[str, ...]
    image_shape: tuple[int, int]

    def images(self, client: Client) -> Array:
        """Return the digits of a client as images, shape (n_samples, height, width)."""
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
    """Return handwritten digits by writer, for multinomial logistic regression.

    These are the data of the paper's Section V-B, Figures 6 and 7.

    Parameters
    ----------
    dataset : {"digits", "mnist-writers", "femnist"}, default "digits"
        ``"digits"`` comes with scikit-learn: 1,797 digits of 8 x 8 pixels whose writers are not
        named, dealt to clients with a skew of the labels. ``"mnist-writers"`` is MNIST's training
        set, 28 x 28, by the writer that QMNIST's labels name: 539 writers, 440 of them with at
        least 100 digits. ``"femnist"`` is Federated EMNIST, digits only, 28 x 28: the paper's data.
        The last two are downloaded by `fgmp data fetch`.
    n_train, n_test : int, default 30 and 10 for ``"digits"``, else 300 and 50
        Writers for training, and others for the test.
    n_samples : int, default 40 for ``"digits"``, else 100
        Digits of each writer. Writers are drawn from those who have as many, and their digits from
        all that they wrote.
    rng : int, Generator or None
        The seed. With writers, the test set is the same for every n_train, and so are the first
        training writers.
    concentration : float, default 1.0
        Skew of the labels in ``"digits"`` only: near 0, a client has one class; if it is large,
        all classes are alike.

    Raises
    ------
    ValueError
        If an argument is out of range, if there are fewer digits or writers than asked for, or if
        a file cannot be read.
    OSError
        If a file is missing or damaged; the message says how to get it.

    Examples
    --------
    >>> import fgmp
    >>> digits = fgmp.digits_by_writer(n_train=5, n_test=2, n_samples=40, rng=0)
    >>> digits.train.n_clients, digits.test.n_clients, digits.image_shape
    (5, 2, (8, 8))
    >>> digits.train.clients[0].features.shape
    (40, 64)
    """
    defaults = SIZES[check_option("dataset", dataset, tuple(SIZES))]
    n_train = check_integer("n_train", defaults.n_train if n_train is None else n_train)
    n_test = check_integer("n_test", defaults.n_test if n_test is None else n_test)
    n_samples = check_integer("n_samples", defaults.n_samples if n_samples is None else n_samples)
    seed = check_seed("rng", rng)
    concentration = check_number("concentration", concentration, above=0)

    if dataset == "digits":
        hands = _deal_digits(n_train, n_test, n_samples, concentration, seed)
        image_shape = (8, 8)
    else:
        paths = locate(dataset)
        writers = femnist_writers(paths) if dataset == "femnist" else mnist_writers(*paths)
        hands = _draw_writers(writers, n_train, n_test, n_samples, seed)
        image_shape = writers.image_shape

    # The test writers come first.
    names = tuple(hands)
    return DigitsByWriter(
        train=_federation_of([hands[name] for name in names[n_test:]]),
        test=_federation_of([hands[name] for name in names[:n_test]]),
        train_writers=names[n_test:],
        test_writers=names[:n_test],
        image_shape=image_shape,
    )


def _federation_of(hands: Sequence[Hand]) -> Federation:
    """Return the federation with one client for each writer."""
    pixels = [hand.pixels for hand in hands]
    labels = [hand.labels for hand in hands]
    return Federation.from_arrays(pixels, labels, loss=SoftmaxLoss(N_CLASSES))


def _deal_digits(
    n_train: int, n_test: int, n_samples: int, concentration: float, seed: int
) -> dict[str, Hand]:
    """Deal the embedded digits with a Dirichlet skew of the labels.

    The skew is the one of Hsu, Qi and Brown (2019, arXiv 1909.06335). The clients take turns, in a
    new order each time, and draw a digit of the class that their shares choose among those that
    are left.
    """
    pixels, labels = _embedded_digits()
    n_clients = n_train + n_test
    if n_clients * n_samples > len(labels):
        raise ValueError(
            f"{n_train=} and {n_test=} ask for {n_clients} clients of {n_samples=} digits; "
            f"expected at most {len(labels)} digits in all, enough for "
            f"{len(labels) // n_samples} such clients"
        )
    generator = seeded(seed)
    piles = [generator.permutation(np.flatnonzero(labels == c)) for c in range(N_CLASSES)]
    n_left = np.array([len(pile) for pile in piles])
    shares = generator.dirichlet(np.full(N_CLASSES, concentration), n_clients)
    dealt = np.empty((n_clients, n_samples), np.intp)
    for turn in range(n_samples):
        for client in generator.permutation(n_clients):
            digit_class = _draw_class(shares[client], n_left, generator)
            n_left[digit_class] -= 1
            dealt[client, turn] = piles[digit_class][n_left[digit_class]]
    return {f"client {i}": Hand(pixels[rows], labels[rows]) for i, rows in enumerate(dealt)}


@cache
def _embedded_digits() -> Hand:
    """Return the digits of scikit-learn, whose file is read once; nobody may write to them."""
    with needs("digits_by_writer", "scikit-learn"):
        from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    digits = Hand((images / 16).astype(np.float32), labels)
    for array in digits:
        array.flags.writeable = False
    return digits


def _draw_class(shares: Array, n_left: Array, generator: np.random.Generator) -> int:
    """Draw a class by the shares of a client, among those of which digits are left."""
    chances = shares * (n_left > 0)
    if chances.sum() < 1e-9:
        # The client's classes are used up: any other digit will do.
        chances = n_left / n_left.sum()
    return int(generator.choice(N_CLASSES, p=chances / chances.sum()))


class Writers(NamedTuple):
    """Digits by writer.

    Attributes
    ----------
    image_shape : tuple of int
        Height and width.
    counts : dict of str to int
        The number of digits of each writer.
    digits : callable
        Returns the `Hand` of a writer; pixels go from 0, paper, to 1, ink.
    """

    image_shape: tuple[int, int]
    counts: dict[str, int]
    digits: Callable[[str], Hand]


def _draw_writers(
    writers: Writers, n_train: int, n_test: int, n_samples: int, seed: int
) -> dict[str, Hand]:
    """Draw random digits of random writers.

    The test writers are drawn first, so that they are the same for every number of training
    writers.
    """
    eligible = sorted(writer for writer, count in writers.counts.items() if count >= n_samples)
    n_writers = n_train + n_test
    if n_writers > len(eligible):
        raise ValueError(
            f"{n_train=} and {n_test=} ask for {n_writers} writers of {n_samples=} digits; "
            f"expected at most {len(eligible)}, of the {len(writers.counts)} writers there are"
        )
    hands = {}
    for i in seeded(seed, 0).permutation(len(eligible))[:n_writers]:
        writer = eligible[i]
        pixels, labels = writers.digits(writer)
        rows = seeded(seed, 1, int(i)).permutation(len(labels))[:n_samples]
        hands[writer] = Hand(pixels[rows], labels[rows])
    return hands


def mnist_writers(images: Path, labels: Path) -> Writers:
    """Read MNIST's images by the NIST writers that QMNIST's labels name.

    Parameters
    ----------
    images : Path
        MNIST's images, an IDX file of bytes of which 255 is ink.
    labels : Path
        QMNIST's labels, an IDX file of integers: column 0 has the digit, and column 2 the writer.
    """
    inks = _read_idx(images, ">u1", 3)
    table = _read_idx(labels, ">i4", 2)
    if len(table) != len(inks):
        raise ValueError(
            f"{labels} holds {len(table)} rows; expected one for each of {len(inks)} images"
        )
    digit_labels = table[:, 0]
    writer_ids = table[:, 2]
    names, counts = np.unique(writer_ids, return_counts=True)

    def read_hand(writer: str) -> Hand:
        rows = np.flatnonzero(writer_ids == int(writer))
        pixels = inks[rows].reshape(len(rows), -1).astype(np.float32) / 255
        return Hand(pixels, digit_labels[rows].astype(np.intp))

    return Writers(
        image_shape=inks.shape[1:],
        counts=dict(zip(map(str, names), counts.tolist(), strict=True)),
        digits=read_hand,
    )


def femnist_writers(paths: Sequence[Path]) -> Writers:
    """Read Federated EMNIST by writer, from the HDF5 files of TensorFlow Federated.

    In these files 1 is paper. They have some of a writer's digits for training and some for the
    test. Here the digits of both are one, because whole writers are held out.
    """
    with needs("Federated EMNIST", "h5py"):
        from h5py import File

    counts: Counter[str] = Counter()
    for path in paths:
        with _naming_the_damage(path), File(path, "r") as file:
            for writer, digits in file["examples"].items():
                counts[writer] += len(digits["pixels"])

    def read_hand(writer: str) -> Hand:
        pixels = []
        labels = []
        for path in paths:
            with _naming_the_damage(path), File(path, "r") as file:
                if writer not in file["examples"]:
                    continue
                digits = file["examples"][writer]
                paper = digits["pixels"][()].reshape(-1, 28 * 28).astype(np.float32)
                pixels.append(1 - paper)
                labels.append(digits["label"][()].reshape(-1).astype(np.intp))
        return Hand(np.concatenate(pixels), np.concatenate(labels))

    return Writers((28, 28), counts, read_hand)


def _read_idx(path: Path, dtype: str, ndim: int) -> Array:
    """Read a compressed IDX file.

    It has two zero bytes, the type, the number of dimensions, each dimension in 32 bits, and the
    values, all big-endian.
    """
    type_code = {">u1": 0x08, ">i4": 0x0C}[dtype]
    with _naming_the_damage(path):
        content = gzip.decompress(path.read_bytes())
        if content[:4] != bytes((0, 0, type_code, ndim)):
            raise ValueError(
                f"it begins with {content[:4].hex(' ')!r}, and {dtype} of {ndim} dimensions was "
                "expected"
            )
        shape = np.frombuffer(content, ">u4", ndim, 4).astype(int)
        return np.frombuffer(content, dtype, offset=4 + 4 * ndim).reshape(shape)


@contextmanager
def _naming_the_damage(path: Path) -> Iterator[None]:
    """Raise a ValueError that says what to do if a file cannot be read as expected."""
    try:
        yield
    except (OSError, EOFError, KeyError, ValueError, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged or cut short ({error}); remove it and run `fgmp data fetch`"
        ) from error
