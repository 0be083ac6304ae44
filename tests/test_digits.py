"""Digits by writer: who is in which half, what a row is, and files that are not what they should be."""

import gzip
import hashlib
import os
import struct
import sys
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_digits

import fgmp
from fgmp.datasets import downloads
from fgmp.datasets.digits import digits_by_writer
from fgmp.datasets.downloads import DOWNLOADS, DataFile
from fgmp.datasets.idx import read_idx
from fgmp.datasets.label_skew import deal_by_label
from fgmp.datasets.writers import FemnistWriters, MnistWriters, _checked_labels
from fgmp.running.metrics import accuracy, accuracy_on

IMAGES, LABELS = (file.name for file in DOWNLOADS["mnist-writers"])
FEMNIST = DOWNLOADS["femnist"][0].members
HERE = os.environ.get("FGMP_DATA")
REAL = bool(HERE) and all((Path(HERE) / name).exists() for name in (IMAGES, LABELS))
real_digits = pytest.mark.skipif(not REAL, reason="FGMP_DATA does not name a folder with MNIST and QMNIST")


def idx(array, code):
    header = struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype({0x08: ">u1", 0x0C: ">i4"}[code]).tobytes()


def some_digits(n_writers=6, seed=0):
    """Images that carry their own number in the first two pixels, with label, series and writer as in QMNIST."""
    rng = np.random.default_rng(seed)
    writers = np.repeat(np.arange(n_writers) * 7 + 100, np.arange(n_writers) + 5)
    rng.shuffle(writers)
    n = len(writers)
    images = rng.integers(0, 256, (n, 28, 28))
    images[:, 0, 0], images[:, 0, 1] = np.arange(n) // 256, np.arange(n) % 256
    table = np.zeros((n, 8), int)
    table[:, 0], table[:, 1], table[:, 2] = rng.integers(0, 10, n), 4, writers
    return images, table


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """A folder with a small set of the same layout as MNIST and QMNIST, and a registry with its checksums."""
    images, table = some_digits()
    contents = {IMAGES: idx(images, 0x08), LABELS: idx(table, 0x0C)}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(gzip.compress(content))
    files = tuple(DataFile(name, "", "", "", hashlib.sha256(c).hexdigest(), 10**6) for name, c in contents.items())
    monkeypatch.setattr(downloads, "DOWNLOADS", {**DOWNLOADS, "mnist-writers": files})
    return tmp_path, images, table


def write_femnist(folder, counts, seed=0):
    """HDF5 files of the layout of TensorFlow Federated: each writer in both, paper 1 and ink 0."""
    rng = np.random.default_rng(seed)
    written = {}
    for name, share in zip(FEMNIST, (0, 1), strict=True):
        with h5py.File(folder / name, "w") as file:
            for writer, count in counts.items():
                pixels = rng.random((count[share], 28, 28)).astype(np.float32)
                label = rng.integers(0, 10, count[share]).astype(np.int32)
                file[f"examples/{writer}/pixels"], file[f"examples/{writer}/label"] = pixels, label
                written.setdefault(writer, []).append((pixels, label))
    return written


def rows(federation):
    return np.concatenate([client.features for client in federation.clients])


def labels(federation):
    return np.concatenate([client.targets for client in federation.clients])


# the embedded digits


def test_embedded_digits_are_a_federation_of_clients():
    data = digits_by_writer(rng=0)
    assert (data.train.n_clients, data.test.n_clients) == (30, 10)
    assert {client.n_samples for fed in (data.train, data.test) for client in fed.clients} == {40}
    assert data.image_shape == (8, 8) and data.train.model_shape == (64, data.n_classes) == (64, 10)
    assert isinstance(data.train.loss, fgmp.SoftmaxLoss) and data.train.dtype == np.float32
    assert rows(data.train).min() == 0 and rows(data.train).max() == 1
    np.testing.assert_allclose(data.train.weights, 1 / 30)
    assert set(labels(data.train)) == set(labels(data.test)) == set(range(10))
    assert data.images(data.train.clients[0]).shape == (40, 8, 8)


def test_each_embedded_digit_is_dealt_once_with_its_own_label():
    data = digits_by_writer("digits", 30, 14, 40, rng=1)
    given = np.concatenate([rows(data.train), rows(data.test)]) * 16
    images, digits = load_digits(return_X_y=True)
    answer = {image.tobytes(): digit for image, digit in zip(images, digits, strict=True)}
    assert len(answer) == 1797
    seen = [row.astype(float).tobytes() for row in given]
    assert len(set(seen)) == 44 * 40
    np.testing.assert_array_equal(
        [answer[row] for row in seen], np.concatenate([labels(data.train), labels(data.test)])
    )


def classes_per_client(concentration):
    data = digits_by_writer("digits", rng=0, concentration=concentration)
    return np.mean([len(set(client.targets)) for client in data.train.clients])


def test_the_skew_follows_the_concentration():
    counts = [classes_per_client(c) for c in (1e-4, 0.1, 1.0, 1e4)]
    assert counts == sorted(counts)
    assert counts[0] < 4 and counts[1] < 5 and counts[3] > 9.5


def test_dealing_favours_no_client():
    generator = np.random.default_rng(0)
    every = np.repeat(np.arange(10), 100)
    first, last = [], []
    for _ in range(60):
        hands = deal_by_label(every, 20, 45, 0.5, generator)
        assert len(np.unique(hands)) == 900
        share = [np.max(np.bincount(every[hand], minlength=10)) / 45 for hand in hands]
        first.append(share[0])
        last.append(share[-1])
    assert np.mean(first) == pytest.approx(np.mean(last), abs=0.08)


# digits by writer


def test_writers_and_their_digits_are_those_of_the_files(mnist):
    folder, images, table = mnist
    data = digits_by_writer("mnist-writers", 3, 2, 6, rng=0, folder=folder)
    assert data.image_shape == (28, 28) and data.train.model_shape == (784, 10)
    for federation, writers in ((data.train, data.train_writers), (data.test, data.test_writers)):
        for client, writer in zip(federation.clients, writers, strict=True):
            pixels = np.rint(client.features * 255).astype(int)
            numbers = pixels[:, 0] * 256 + pixels[:, 1]
            assert len(set(numbers)) == 6
            np.testing.assert_array_equal(table[numbers, 2], int(writer))
            np.testing.assert_array_equal(client.targets, table[numbers, 0])
            np.testing.assert_allclose(data.images(client), images[numbers] / 255, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_training_and_test_writers_are_disjoint(mnist, seed):
    folder, _, _ = mnist
    data = digits_by_writer("mnist-writers", 4, 2, 5, rng=seed, folder=folder)
    assert len(data.train_writers) == 4 and len(data.test_writers) == 2
    assert len({*data.train_writers, *data.test_writers}) == 6
    seen = [row.tobytes() for row in np.concatenate([rows(data.train), rows(data.test)])]
    assert len(set(seen)) == 30


def test_seeds_repeat_and_the_test_set_does_not_depend_on_the_training_set(mnist):
    folder, _, _ = mnist
    few, many = (digits_by_writer("mnist-writers", n, 2, 5, rng=3, folder=folder) for n in (2, 4))
    assert few.test_writers == many.test_writers and few.train_writers == many.train_writers[:2]
    np.testing.assert_array_equal(rows(few.test), rows(many.test))
    np.testing.assert_array_equal(rows(few.train), rows(many.train)[:10])
    np.testing.assert_array_equal(
        rows(digits_by_writer("digits", rng=3).train), rows(digits_by_writer("digits", rng=3).train)
    )
    draws = {digits_by_writer("mnist-writers", 4, 2, 5, rng=s, folder=folder).test_writers for s in range(10)}
    assert len(draws) > 3


def test_femnist_takes_the_digits_of_both_files_and_stores_ink_as_one(tmp_path):
    written = write_femnist(tmp_path, {"f0000_14": (4, 2), "f0001_41": (5, 1), "f0002_05": (6, 6), "f0003_00": (1, 1)})
    data = digits_by_writer("femnist", 2, 1, 6, rng=0, folder=tmp_path)
    assert {*data.train_writers, *data.test_writers} == {"f0000_14", "f0001_41", "f0002_05"}
    clients = (*data.test.clients, *data.train.clients)
    for client, writer in zip(clients, (*data.test_writers, *data.train_writers), strict=True):
        pixels, label = (np.concatenate(parts) for parts in zip(*written[writer], strict=True))
        source = {(1 - image).tobytes(): digit for image, digit in zip(pixels, label, strict=True)}
        own = [np.ascontiguousarray(image).tobytes() for image in data.images(client)]
        assert len(set(own)) == 6
        np.testing.assert_array_equal([source[image] for image in own], client.targets)


def test_a_writer_may_be_in_one_femnist_file_only(tmp_path):
    write_femnist(tmp_path, {"f0000_14": (4, 2)})
    with h5py.File(tmp_path / FEMNIST[1], "a") as file:
        del file["examples/f0000_14"]
    writers = FemnistWriters([tmp_path / name for name in FEMNIST])
    assert writers.counts == {"f0000_14": 4}
    assert writers.digits("f0000_14").pixels.shape == (4, 784)


def test_rows_of_length_one_on_request(mnist):
    folder, _, _ = mnist
    plain, unit = (digits_by_writer("mnist-writers", 3, 2, 6, rng=0, folder=folder, normalise=n) for n in (False, True))
    assert plain.train_writers == unit.train_writers and unit.train.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows(unit.test), axis=1), 1, rtol=1e-6)
    lengths = np.linalg.norm(rows(plain.test), axis=1, keepdims=True)
    np.testing.assert_allclose(rows(unit.test) * lengths, rows(plain.test), rtol=1e-5)


def test_an_empty_image_stays_empty(tmp_path):
    write_femnist(tmp_path, {"a": (2, 1), "b": (2, 1)})
    for name in FEMNIST:
        with h5py.File(tmp_path / name, "a") as file:
            for writer in "ab":
                file[f"examples/{writer}/pixels"][:] = 1
    data = digits_by_writer("femnist", 1, 1, 3, rng=0, folder=tmp_path, normalise=True)
    np.testing.assert_array_equal(rows(data.train), 0)


# bad input


@pytest.mark.parametrize(
    "options, message",
    [
        ({"dataset": "mnist"}, "dataset is 'mnist'; expected one of 'digits', 'mnist-writers', 'femnist'"),
        ({"n_train": 0}, "n_train is 0"),
        ({"n_test": -1}, "n_test is -1"),
        ({"n_samples": 2.5}, "n_samples is 2.5"),
        ({"concentration": 0}, "concentration is 0; expected a finite number above 0"),
        ({"rng": -1}, "rng is -1"),
        (
            {"n_train": 40},
            "ask for 50 clients of n_samples=40 digits; expected at most 1797 digits in all, enough for 44",
        ),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        digits_by_writer(**options)


def test_more_clients_than_writers_with_enough_digits(mnist):
    folder, _, _ = mnist
    with pytest.raises(
        ValueError, match="ask for 5 writers of n_samples=7 digits; expected at most 4, as mnist-writers has of its 6"
    ):
        digits_by_writer("mnist-writers", 3, 2, 7, folder=folder)


def test_a_truncated_file_is_refused_and_left_alone(mnist):
    folder, _, _ = mnist
    path = folder / IMAGES
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=f"{path} is damaged or cut short"):
        digits_by_writer("mnist-writers", 3, 2, 5, folder=folder)
    assert path.exists()


def test_missing_data_say_how_to_get_them(tmp_path):
    with pytest.raises(FileNotFoundError, match="fgmp data fetch mnist-writers"):
        digits_by_writer("mnist-writers", folder=tmp_path)


def damage(path, how):
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-200])
    elif how == "not HDF5":
        path.write_bytes(b"<html>not found</html>")
    else:
        with h5py.File(path, "a") as file:
            how(file)


def set_label(file, label):
    del file["examples/a/label"]
    file["examples/a/label"] = label


def announce(file, count):
    """A data set that has a shape and no values: a kilobyte that would be three terabytes."""
    del file["examples/a/pixels"]
    file.create_dataset("examples/a/pixels", (count, 28, 28), np.float32)


BAD_HDF5 = {
    "truncated": ("truncated", "is not a complete HDF5 file"),
    "not HDF5": ("not HDF5", "is not a complete HDF5 file"),
    "no examples": (lambda file: file.move("examples", "samples"), "has no group 'examples'"),
    "no pixels": (lambda file: file.move("examples/a/pixels", "examples/a/x"), "has no 'examples/a/pixels'"),
    "no label": (lambda file: file.pop("examples/a/label"), "has no 'examples/a/label'"),
    "no group of a writer": (lambda file: file.create_dataset("examples/c", data=[1]), "has no 'examples/c/pixels'"),
    "count": (lambda file: set_label(file, [1, 2]), r"a has pixels of shape \(3, 28, 28\) and 2 labels"),
    "letters": (lambda file: set_label(file, [1, 2, 36]), "holds the label 36; expected digits from 0 to 9"),
    "words": (lambda file: set_label(file, ["a", "b", "c"]), "a has pixels or labels that are no numbers"),
    "lies": (lambda file: announce(file, 10**9), "a has 1000000000 digits; expected at most 100000 of one writer"),
    "range": (lambda file: file["examples/a/pixels"].write_direct(np.full((3, 28, 28), 255.0)), "outside 0..1"),
}


@pytest.mark.parametrize("name", BAD_HDF5)
def test_bad_hdf5_files_are_named_with_what_is_missing(tmp_path, name):
    how, message = BAD_HDF5[name]
    write_femnist(tmp_path, {"a": (3, 2), "b": (3, 2)})
    damage(tmp_path / FEMNIST[0], how)
    with pytest.raises(ValueError, match=f"{tmp_path / FEMNIST[0]}.*{message}"):
        digits_by_writer("femnist", 1, 1, 5, folder=tmp_path)


def test_without_h5py_the_message_says_what_to_install(tmp_path, monkeypatch):
    write_femnist(tmp_path, {"a": (3, 2)})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r'pip install "fgmp\[femnist\]"'):
        digits_by_writer("femnist", 1, 1, 5, folder=tmp_path)


def test_idx_files_compressed_or_not(tmp_path):
    array = np.arange(-3, 9).reshape(3, 4)
    for name, pack in (("plain", bytes), ("packed.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(idx(array, 0x0C)))
        np.testing.assert_array_equal(read_idx(tmp_path / name), array)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "begins with '', 0 bytes in all; expected the header of an IDX file"),
        (b"\0\0\x07\x01" + bytes(8), "begins with '00 00 07 01'"),
        (idx(np.ones((2, 3)), 0x08)[:-1], r"holds 17 bytes; expected 18 for an array of shape \(2, 3\)"),
        (idx(np.ones((2, 3)), 0x0C) + b"\0", "holds more than 36 bytes; expected 36"),
        (b"\0\0\x08\x03\0\0", "begins with '00 00 08 03', 6 bytes in all"),
    ],
)
def test_bad_idx_files_are_named(tmp_path, content, message):
    path = tmp_path / "digits"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path} .*({message})"):
        read_idx(path)


def packed_zeros(count):
    """Gigabytes of zeros as a gzip file of some megabytes, in some seconds less than it takes to compress them."""
    part = gzip.compress(bytes(2**24), 1)
    return part * -(-count // 2**24)


@pytest.mark.parametrize(
    "shape, message",
    [
        ((10, 28, 28), "holds more than 7856 bytes; expected 7856"),
        ((3_000_000, 28, 28), r"announces 2352000000 bytes of shape \(3000000, 28, 28\); expected at most 1073741824"),
        ((2**32 - 1,) * 9, "expected at most 1073741824"),
    ],
)
def test_a_compressed_idx_file_that_would_fill_the_memory_is_refused(tmp_path, shape, message):
    """Two gigabytes of zeros in ten megabytes; what is read of them is what the header says, and one byte."""
    header = b"\0\0\x08" + bytes([len(shape)]) + np.array(shape, ">u4").tobytes()
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(header) + packed_zeros(2**31))
    tracemalloc.start()
    with pytest.raises(ValueError, match=message):
        read_idx(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_compressed_idx_file_that_is_cut_short_is_named(tmp_path, share):
    path, content = tmp_path / "digits.gz", gzip.compress(idx(np.arange(600).reshape(30, 20) % 251, 0x08))
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=f"{path} is damaged or cut short"):
        read_idx(path)


@pytest.mark.parametrize("label", [np.nan, 2.5, -1, 10, np.inf])
def test_labels_are_digits(label):
    with pytest.raises(ValueError, match="file holds the label .*; expected digits from 0 to 9"):
        _checked_labels("file", np.array([3.0, label]))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda images, table: (images[:-1], table), r"labels holds int32 of shape .* expected at least 3 columns"),
        (lambda images, table: (images, table[:, :2]), "labels holds int32 .* expected at least 3 columns"),
        (lambda images, table: (images.reshape(-1, 784), table), r"images holds uint8 .* expected uint8 images"),
        (lambda images, table: (images, table + 5), "labels holds the label 1[0-4]; expected digits from 0 to 9"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, change, message):
    images, table = change(*some_digits())
    (tmp_path / "images").write_bytes(idx(images, 0x08))
    (tmp_path / "labels").write_bytes(idx(table, 0x0C))
    with pytest.raises(ValueError, match=message):
        MnistWriters(tmp_path / "images", tmp_path / "labels")


# accuracy


def test_accuracy_is_the_fraction_of_right_labels():
    data = digits_by_writer("digits", 5, 3, 20, rng=0)
    x = np.random.default_rng(0).standard_normal((64, 10)).astype(np.float32)
    right = (rows(data.test) @ x).argmax(axis=1) == labels(data.test)
    assert accuracy(data.test, x) == accuracy_on(data.test)(x) == pytest.approx(right.mean())
    assert accuracy(data.test, np.zeros((64, 10))) == pytest.approx(np.mean(labels(data.test) == 0))


def test_accuracy_counts_rows_and_not_clients():
    A = np.eye(2)
    fed = fgmp.Federation.from_arrays([A, A[:1]], [[0, 1], [1]], loss=fgmp.SoftmaxLoss(2))
    assert accuracy(fed, np.eye(2)) == pytest.approx(2 / 3)


def test_accuracy_refuses_other_losses_and_shapes():
    data = digits_by_writer("digits", 5, 3, 20, rng=0)
    with pytest.raises(ValueError, match=r"x has shape \(64,\); expected \(64, 10\)"):
        accuracy(data.test, np.zeros(64))
    with pytest.raises(ValueError, match="federation has the loss SquaredLoss.*; expected SoftmaxLoss"):
        accuracy_on(fgmp.make_sparse_regression(2, 5, 10, 2, rng=0))


def test_a_run_on_the_embedded_digits_learns_them():
    data = digits_by_writer(rng=0)
    metrics = {"test_accuracy": accuracy_on(data.test)}
    method = fgmp.FedAvg(learning_rate=1.0, local_iterations=10, batch_size=20)
    result = fgmp.simulate(method, data.train, 30, cohort_size=10, rng=0, metrics=metrics, record_every=30)
    assert result.history["test_accuracy"][0] < 0.2
    assert result.history["test_accuracy"][-1] > 0.9


# the real digits, where they are


@real_digits
def test_real_writers():
    counts = MnistWriters(Path(HERE) / IMAGES, Path(HERE) / LABELS).counts
    assert len(counts) == 539 and sum(counts.values()) == 60_000
    assert sum(count >= 100 for count in counts.values()) == 440
    assert np.median(list(counts.values())) == 116


@real_digits
def test_the_papers_scale_on_real_digits():
    data = digits_by_writer("mnist-writers", rng=0)
    assert (data.train.n_clients, data.test.n_clients) == (300, 50)
    assert len({*data.train_writers, *data.test_writers}) == 350
    assert {client.n_samples for fed in (data.train, data.test) for client in fed.clients} == {100}
    assert data.train.dtype == np.float32 and rows(data.test).max() == 1
    # A digit is recognised by the digits of other writers: images and labels are in the same order.
    means = np.array([rows(data.train)[labels(data.train) == c].mean(axis=0) for c in range(10)])
    nearest = ((rows(data.test)[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == labels(data.test)) > 0.75
    with pytest.raises(ValueError, match="expected at most 440, as mnist-writers has of its 539 writers"):
        digits_by_writer("mnist-writers", n_train=400)
