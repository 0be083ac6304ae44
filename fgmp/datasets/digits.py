"""Handwritten digits as a federation: one client for each writer, and writers that are held out for the test.

`digits_by_writer` deals the digits of a downloaded set (`writers` reads them) or, without one, scikit-learn's embedded
digits, whose writers are made by skewing the labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import Seed, check_integer, check_number, check_option, check_seed
from ..federation import Client, Federation
from ..losses import SoftmaxLoss
from ..models import Array
from .downloads import DOWNLOADS, locate
from .synthetic import seeded
from .writers import femnist_writers, mnist_writers

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
        images: Array = client.features.reshape(-1, *self.image_shape)
        return images


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

    Returns
    -------
    DigitsByWriter

    Raises
    ------
    ValueError
        Where there are fewer writers than asked for, or a file is damaged.
    FileNotFoundError
        Where the data are not there; the message says how to get them.
    """
    sizes = SIZES[check_option("dataset", dataset, tuple(SIZES))]
    n_train = check_integer("n_train", sizes[0] if n_train is None else n_train)
    n_test = check_integer("n_test", sizes[1] if n_test is None else n_test)
    n_samples = check_integer("n_samples", sizes[2] if n_samples is None else n_samples)
    seed, concentration = check_seed("rng", rng), check_number("concentration", concentration, above=0)
    if dataset == "digits":
        names, hands, image_shape = _dealt(n_train, n_test, n_samples, concentration, seed)
    else:
        names, hands, image_shape = _drawn(dataset, n_train, n_test, n_samples, seed)
    images, labels = zip(*hands, strict=True)
    train = Federation.from_arrays(images[n_test:], labels[n_test:], loss=SoftmaxLoss(10))
    test = Federation.from_arrays(images[:n_test], labels[:n_test], loss=SoftmaxLoss(10))
    return DigitsByWriter(train, test, names[n_test:], names[:n_test], image_shape)


def _drawn(
    dataset: str, n_train: int, n_test: int, n_samples: int, seed: int
) -> tuple[tuple[str, ...], list[Hand], tuple[int, int]]:
    """Random digits of random writers, the test writers first, so that they are the same for every n_train."""
    place = locate(dataset)
    paths = [place / name for file in DOWNLOADS[dataset] for name in file.members or (file.name,)]
    writers = mnist_writers(*paths) if dataset == "mnist-writers" else femnist_writers(paths)
    able = sorted(writer for writer, count in writers.counts.items() if count >= n_samples)
    if n_train + n_test > len(able):
        raise ValueError(
            f"n_train={n_train} and n_test={n_test} ask for {n_train + n_test} writers of n_samples={n_samples} "
            f"digits; expected at most {len(able)}, as {dataset} has of its {len(writers.counts)} writers"
        )
    order = seeded(seed, 0).permutation(len(able))[: n_test + n_train]
    hands = []
    for i in order:
        pixels, labels = writers.digits(able[i])
        rows = seeded(seed, 1, int(i)).permutation(len(labels))[:n_samples]
        hands.append((pixels[rows], labels[rows]))
    return tuple(able[i] for i in order), hands, writers.image_shape


def _dealt(
    n_train: int, n_test: int, n_samples: int, concentration: float, seed: int
) -> tuple[tuple[str, ...], list[Hand], tuple[int, int]]:
    """The embedded digits, dealt to clients."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    n_clients = n_train + n_test
    if n_clients * n_samples > len(labels):
        raise ValueError(
            f"n_train={n_train} and n_test={n_test} ask for {n_clients} clients of n_samples={n_samples} digits; "
            f"expected at most {len(labels)} digits in all, enough for {len(labels) // n_samples} such clients"
        )
    pixels = (images / 16).astype(np.float32)
    rows = _deal_by_label(labels, n_clients, n_samples, concentration, seeded(seed))
    return tuple(f"client {i}" for i in range(n_clients)), [(pixels[own], labels[own]) for own in rows], (8, 8)


def _deal_by_label(
    labels: Array, n_clients: int, n_samples: int, concentration: float, generator: np.random.Generator
) -> Array:
    """Deal samples to clients with a Dirichlet skew of the labels (Hsu, Qi and Brown, 2019, arXiv 1909.06335).

    The clients take turns, in a new order each time, and draw one sample from the class that their shares choose among
    the classes that are left: no client is favoured.
    """
    classes = np.unique(labels)
    piles = [generator.permutation(np.flatnonzero(labels == c)) for c in classes]
    left = np.array([len(pile) for pile in piles])
    shares = generator.dirichlet(np.full(len(classes), concentration), n_clients)
    dealt = np.empty((n_clients, n_samples), np.intp)
    for turn in range(n_samples):
        for client in generator.permutation(n_clients):
            chances = shares[client] * (left > 0)
            if chances.sum() < 1e-9:
                chances = left / left.sum()
            chosen = generator.choice(len(classes), p=chances / chances.sum())
            left[chosen] -= 1
            dealt[client, turn] = piles[chosen][left[chosen]]
    return dealt
