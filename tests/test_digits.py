"""Digits by writer: who has which digits, what a row is, and damaged files."""

import gzip
import os
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_digits

import fgmp
from fgmp.datasets.digits import digits_by_writer, mnist_writers
from fgmp.datasets.downloads import DOWNLOADS
from fgmp.run.metrics import accuracy_on

IMAGES, LABELS = (file.name for file in DOWNLOADS["mnist-writers"])
FEMNIST = DOWNLOADS["femnist"][0].members
HERE = Path(os.environ.get("FGMP_DATA", "."))


def idx(array, code):
    header = struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    return gzip.compress(header + array.astype({0x08: ">u1", 0x0C: ">i4"}[code]).tobytes(), mtime=0)


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """Six writers of 5 to 10 images that carry their own number in the first two pixels."""
    rng = np.random.default_rng(0)
    writers = rng.permutation(np.repeat(np.arange(6) * 7 + 100, np.arange(6) + 5))
    images = rng.integers(0, 256, (len(writers), 28, 28))
    images[:, 0, 0], images[:, 0, 1] = divmod(np.arange(len(writers)), 256)
    table = np.column_stack([rng.integers(0, 10, len(writers)), np.full(len(writers), 4), writers])
    (tmp_path / IMAGES).write_bytes(idx(images, 0x08))
    (tmp_path / LABELS).write_bytes(idx(table, 0x0C))
    monkeypatch.setenv("FGMP_DATA", str(tmp_path))
    return tmp_path, images, table


@pytest.fixture
def femnist(tmp_path, monkeypatch):
    """HDF5 files as TensorFlow Federated has them; a writer has few digits, one is in one file."""
    rng = np.random.default_rng(0)
    written = {}
    counts = {"f0000_14": (4, 2), "f0001_41": (5, 1), "f0002_05": (6, 0), "f0003_00": (1, 1)}
    for share, name in enumerate(FEMNIST):
        with h5py.File(tmp_path / name, "w") as file:
            for writer, count in counts.items():
                if count[share]:
                    pixels = rng.random((count[share], 28, 28), np.float32)
                    label = rng.integers(0, 10, count[share])
                    file[f"examples/{writer}/pixels"] = pixels
                    file[f"examples/{writer}/label"] = label
                    written.setdefault(writer, {}).update(
                        (p.tobytes(), q) for p, q in zip(1 - pixels, label, strict=True)
                    )
    monkeypatch.setenv("FGMP_DATA", str(tmp_path))
    return tmp_path, written


def rows(federation):
    return np.concatenate([client.features for client in federation.clients])


def labels(federation):
    return np.concatenate([client.targets for client in federation.clients])


def test_embedded_digit_is_dealt_once_with_its_label():
    """No image is with two clients, and each has the label of scikit-learn."""
    data = digits_by_writer("digits", 30, 14, 40, rng=1)
    assert data.image_shape == (8, 8)
    assert data.train.model_shape == (64, 10)
    assert data.train.dtype == np.float32
    images, digits = load_digits(return_X_y=True)
    answer = {image.tobytes(): digit for image, digit in zip(images, digits, strict=True)}
    seen = [
        (16 * row).astype(float).tobytes()
        for row in np.concatenate([rows(data.train), rows(data.test)])
    ]
    assert len(set(seen)) == 44 * 40
    np.testing.assert_array_equal(
        [answer[row] for row in seen], [*labels(data.train), *labels(data.test)]
    )


def classes_per_client(concentration):
    """Return the mean number of classes of a client."""
    data = digits_by_writer("digits", rng=0, concentration=concentration)
    return np.mean([len(set(client.targets)) for client in data.train.clients])


def test_label_skew_follows_the_concentration():
    """A small concentration gives few classes per client, a large one nearly all."""
    counts = [classes_per_client(concentration) for concentration in (1e-4, 0.1, 1.0, 1e4)]
    assert counts == sorted(counts)
    assert counts[0] < 4
    assert counts[1] < 5
    assert counts[3] > 9.5


def test_label_skew_is_that_of_the_last_client_as_of_the_first():
    """Also if nearly all digits are dealt: the shares of their largest classes agree."""
    shares = []
    for seed in range(15):
        train = digits_by_writer("digits", 43, 1, 40, seed, concentration=0.5).train
        shares.append([np.max(np.bincount(train.clients[k].targets)) / 40 for k in (0, -1)])
    first, last = np.mean(shares, axis=0)
    assert first == pytest.approx(last, abs=0.08)


def test_writers_and_digits_are_those_of_the_files(mnist):
    """Each client has images and labels of one writer."""
    _, images, table = mnist
    data = digits_by_writer("mnist-writers", 3, 2, 6, rng=0)
    assert data.image_shape == (28, 28)
    assert len({*data.train_writers, *data.test_writers}) == 5
    for federation, writers in ((data.train, data.train_writers), (data.test, data.test_writers)):
        for client, writer in zip(federation.clients, writers, strict=True):
            pixels = np.rint(client.features * 255).astype(int)
            numbers = pixels[:, 0] * 256 + pixels[:, 1]
            assert len(set(numbers)) == 6
            np.testing.assert_array_equal(table[numbers, 2], int(writer))
            np.testing.assert_array_equal(client.targets, table[numbers, 0])
            np.testing.assert_allclose(data.images(client), images[numbers] / 255, rtol=1e-6)


def test_test_writers_do_not_depend_on_number_of_training_writers(mnist):
    """With one seed more training writers begin with the same ones."""
    few = digits_by_writer("mnist-writers", 2, 2, 5, rng=3)
    many = digits_by_writer("mnist-writers", 4, 2, 5, rng=3)
    assert few.test_writers == many.test_writers
    assert few.train_writers == many.train_writers[:2]
    np.testing.assert_array_equal(rows(few.test), rows(many.test))
    np.testing.assert_array_equal(rows(few.train), rows(many.train)[:10])


def test_seed_draws_writers_and_their_digits(mnist):
    """Over ten seeds there are several test writers, and more than five digits of a writer."""
    drawn = [digits_by_writer("mnist-writers", 4, 2, 5, rng=seed) for seed in range(10)]
    assert len({data.test_writers for data in drawn}) > 3
    assert len({row.tobytes() for data in drawn for row in rows(data.train)}) > 6 * 5


def test_femnist_joins_both_files_and_stores_ink_as_one(femnist):
    """Each writer has the digits of both files, and paper is zero."""
    data = digits_by_writer("femnist", 2, 1, 6, rng=0)
    assert {*data.train_writers, *data.test_writers} == {"f0000_14", "f0001_41", "f0002_05"}
    clients = (*data.test.clients, *data.train.clients)
    for client, writer in zip(clients, (*data.test_writers, *data.train_writers), strict=True):
        own = [np.ascontiguousarray(image).tobytes() for image in data.images(client)]
        assert len(set(own)) == 6
        np.testing.assert_array_equal([femnist[1][writer][image] for image in own], client.targets)


@pytest.mark.parametrize(
    ("dataset", "most"),
    [("digits", "1797 digits in all"), ("mnist-writers", "1, of the 6 writers")],
)
@pytest.mark.usefixtures("mnist")
def test_more_writers_than_there_are_is_refused(dataset, most):
    """The message says how many digits or writers there are."""
    words = f"ask for .* of n_samples=10 digits; expected at most {most}"
    with pytest.raises(ValueError, match=words):
        digits_by_writer(dataset, 200, 1, 10)


DAMAGED = "in .* is damaged: its checksum is another; run `fgmp data fetch mnist-writers`"


@pytest.mark.parametrize(
    ("table", "kind", "message"),
    [
        (b"<html>", OSError, DAMAGED),
        (idx(np.ones((2, 3)), 0x0C)[:-9], OSError, DAMAGED),
        (idx(np.ones((44, 3)), 0x0C), ValueError, "holds 44 rows; expected one for each of 45"),
    ],
    ids=["another file", "cut", "fewer rows"],
)
def test_damaged_file_of_mnist_is_named(mnist, table, kind, message):
    """The message says which command downloads it again."""
    (mnist[0] / LABELS).write_bytes(table)
    with pytest.raises(kind, match=f"{LABELS} {message}"):
        digits_by_writer("mnist-writers", 3, 2, 5)


def test_damaged_file_of_femnist_is_named(femnist):
    """A file that was cut is not read in part."""
    path = femnist[0] / FEMNIST[0]
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match=f"{path} is damaged or cut short"):
        digits_by_writer("femnist", 2, 1, 6, rng=0)


def test_accuracy_is_the_share_of_correct_labels_over_rows():
    """Rows count alike, whichever client has them."""
    fed = fgmp.Federation.from_arrays(
        [np.eye(2), np.eye(2)[:1]], [[0, 1], [1]], loss=fgmp.SoftmaxLoss(2)
    )
    assert accuracy_on(fed)(np.eye(2)) == pytest.approx(2 / 3)


@pytest.mark.skipif(
    not all((HERE / name).exists() for name in (IMAGES, LABELS)), reason="FGMP_DATA holds no MNIST"
)
def test_real_writers_have_sizes_of_the_paper():
    """And digits of some writers are recognized by those of others."""
    counts = mnist_writers(HERE / IMAGES, HERE / LABELS).counts
    assert len(counts) == 539
    assert sum(counts.values()) == 60_000
    assert sum(n >= 100 for n in counts.values()) == 440
    data = digits_by_writer("mnist-writers", rng=0)
    assert (data.train.n_clients, data.test.n_clients) == (300, 50)
    assert rows(data.test).max() == 1
    # A digit is recognised by the digits of other writers: images and labels are in the same order.
    means = np.array([rows(data.train)[labels(data.train) == c].mean(axis=0) for c in range(10)])
    nearest = ((rows(data.test)[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == labels(data.test)) > 0.75
