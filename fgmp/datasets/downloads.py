"""Data that a user downloads: what it is, where it comes from, where it lies, and whether it arrived whole.

`fetch` is the only function that goes to the network, and only when it is called; `locate` finds what is there. Files
are known by their checksums. The environment variable ``FGMP_DATA`` names the folder.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, cast

from ..checks import check_option, check_path, check_truth

__all__ = ["DOWNLOADS", "ChecksumError", "DataFile", "DownloadError", "data_folder", "fetch", "locate"]


class ChecksumError(ValueError):
    """A file is damaged, or is another one than its name says."""


class DownloadError(OSError):
    """A file could not be downloaded."""


@dataclass(frozen=True)
class DataFile:
    """A file to download.

    Parameters
    ----------
    name : str
        Its name in the data folder.
    what : str
        What it holds.
    licence : str
    address : str
        Where its makers publish it.
    sha256 : str
        Checksum of its content: of a .gz, what is compressed in it, because mirrors compress the same content anew.
    largest : int
        The most bytes that it may have, and that its content or each member may: more are not read.
    members : tuple of str
        The files to unpack, where it is an archive.
    """

    name: str
    what: str
    licence: str
    address: str
    sha256: str
    largest: int
    members: tuple[str, ...] = ()

    def is_unpacked(self, folder: Path) -> bool:
        """Whether the folder holds what is read in the end: all members of an archive, or the file itself."""
        return all((folder / name).exists() for name in self.members or (self.name,))


DOWNLOADS: Mapping[str, tuple[DataFile, ...]] = MappingProxyType(
    {
        "mnist-writers": (
            DataFile(
                "train-images-idx3-ubyte.gz",
                "MNIST's training images",
                "CC BY-SA 3.0",
                "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                16 + 60_000 * 28 * 28,
            ),
            DataFile(
                "qmnist-train-labels-idx2-int.gz",
                "QMNIST's labels and writers of the same images",
                "BSD-style",
                "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-labels-idx2-int.gz",
                "bb1b6e1ec7b04fd5696f1ed50b5f58f8ef195118edd5c93c81783df9740b8ac5",
                12 + 60_000 * 8 * 4,
            ),
        ),
        "femnist": (
            DataFile(
                "fed_emnist_digitsonly.tar.bz2",
                "Federated EMNIST, digits only",
                "see TensorFlow Federated and NIST Special Database 19",
                "https://storage.googleapis.com/tff-datasets-public/fed_emnist_digitsonly.tar.bz2",
                "55333deb8546765427c385710ca5e7301e16f4ed8b60c1dc5ae224b42bd5b14b",
                2**31,
                ("fed_emnist_digitsonly_train.h5", "fed_emnist_digitsonly_test.h5"),
            ),
        ),
    }
)


def data_folder() -> Path:
    """The folder with the data: the one that the environment variable FGMP_DATA names, else a cache of the user's."""
    named = os.environ.get("FGMP_DATA")
    if named:
        try:
            return Path(named).expanduser()
        except RuntimeError as error:
            raise ValueError(f"FGMP_DATA is {named!r}; expected a folder ({error})") from error
    import pooch

    return Path(pooch.os_cache("fgmp"))


def fetch(name: str, folder: str | Path | None = None, progress: bool = True) -> Path:
    """Download what is missing of a data set, check it and unpack it.

    A file takes its place in the folder only when it has arrived whole. What is there already is checked and not
    fetched again, so running `fetch` once more continues an interrupted one.

    Parameters
    ----------
    name : {"mnist-writers", "femnist"}
    folder : str or Path, default `data_folder()`
        Made if it does not exist.
    progress : bool, default True
        Whether to show names, licences and a bar on standard error.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    DownloadError
        An OSError, where a file cannot be downloaded; the message says how to do without.
    ChecksumError
        A ValueError, where a file has the wrong content. A download is removed, a user's own file is left alone.
    """
    check_option("name", name, tuple(DOWNLOADS))
    check_truth("progress", progress)
    folder = data_folder() if folder is None else check_path("folder", folder, "a folder")
    for file in DOWNLOADS[name]:
        if file.members and file.is_unpacked(folder):
            continue
        if (folder / file.name).exists():
            _check_in_place(name, file, folder)
        else:
            _say(progress, f"{file.name}: {file.what}. Licence: {file.licence}. From {file.address}")
            _download(file, folder, progress)
        if file.members:
            _say(progress, f"unpacking {file.name}")
            _unpack(file, folder)
    return folder


def locate(name: str, folder: str | Path | None = None) -> Path:
    """The folder in which a data set lies, complete and checked; nothing is downloaded.

    Parameters
    ----------
    name : {"mnist-writers", "femnist"}
    folder : str or Path, default `data_folder()`

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError
        Where a file is missing; the message says how to get it.
    ChecksumError
        As in `fetch`.
    """
    check_option("name", name, tuple(DOWNLOADS))
    folder = data_folder() if folder is None else check_path("folder", folder, "a folder")
    for file in DOWNLOADS[name]:
        if not file.is_unpacked(folder):
            raise FileNotFoundError(_how_to_get(name, file, folder))
        if not file.members:
            _check_in_place(name, file, folder)
    return folder


def open_content(path: Path) -> IO[bytes]:
    """Open a file for reading what is compressed in it, or the file itself where it is not a gzip file.

    Some browsers unpack a .gz on the way and keep its name.
    """
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path)) if compressed else path.open("rb")


def _how_to_get(name: str, file: DataFile, folder: Path) -> str:
    if (folder / file.name).exists():
        return f"{file.name} in {folder} is not unpacked; run `fgmp data fetch {name}`, which unpacks it"
    wanted = f"{file.name} (or {' and '.join(file.members)} from it)" if file.members else file.name
    return (
        f"{name} needs {wanted}, which is not in {folder}. Run `fgmp data fetch {name}`, or download {file.address} "
        "and put it there. The environment variable FGMP_DATA names another folder"
    )


def _download(file: DataFile, folder: Path, progress: bool) -> None:
    import pooch

    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its place, so that moving it there is one step: nobody ever sees half a file under its name.
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as scratch:
            arriving = Path(scratch) / file.name
            with arriving.open("wb") as target:
                pooch.HTTPDownloader(progressbar=progress, chunk_size=1 << 16)(
                    file.address, _Bounded(target, file.largest), None
                )
            problem = _problem(file, arriving)
            if problem:
                raise ChecksumError(
                    f"{file.name} from {file.address} {problem}. The download is removed; run the same again, or put "
                    f"the file into {folder} by hand"
                )
            arriving.replace(folder / file.name)
            _marker(file, folder).touch()
    except OSError as error:
        raise DownloadError(
            f"could not download {file.name} into {folder}: {error}. Run the same again; or, without a connection, "
            f"get {file.address} by other means and put it into {folder} by hand"
        ) from error


class _Bounded:
    """A file that takes so many bytes and no more."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self.file, self.left, self.most = file, most, most
        self.flush = file.flush

    def write(self, part: bytes) -> int:
        """Write a part, or raise an OSError where it is too much."""
        self.left -= len(part)
        if self.left < 0:
            raise OSError(f"it has more than {self.most} bytes")
        return self.file.write(part)


def _check_in_place(name: str, file: DataFile, folder: Path) -> None:
    """Raise a ChecksumError where a file in the folder is damaged; remove it first if it was downloaded by `fetch`."""
    path, marker = folder / file.name, _marker(file, folder)
    problem = _problem(file, path)
    if not problem:
        return
    if marker.exists():
        path.unlink()
        marker.unlink()
        raise ChecksumError(f"{path} {problem}. It was a download and is removed; run `fgmp data fetch {name}` again")
    raise ChecksumError(
        f"{path} {problem}. It is left as it is, because it was put there by hand: replace it by {file.address}, or "
        f"move it away and run `fgmp data fetch {name}`"
    )


def _marker(file: DataFile, folder: Path) -> Path:
    """An empty file that says of a file beside it: downloaded, and not put there by hand."""
    return folder / f".{file.name}.fetched"


def _problem(file: DataFile, path: Path) -> str:
    """What is wrong with the content of a file, in words; empty if nothing is."""
    try:
        digest, left = hashlib.sha256(), file.largest
        with open_content(path) as content:
            while part := content.read(1 << 16):
                left -= len(part)
                if left < 0:
                    return f"holds more than {file.largest} bytes"
                digest.update(part)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"is damaged or cut short ({error})"
    found = digest.hexdigest()
    return "" if found == file.sha256 else f"has the wrong checksum: sha256 {found}; expected {file.sha256}"


def _unpack(file: DataFile, folder: Path) -> None:
    """Unpack the members of an archive that are missing in the folder."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as scratch:
        try:
            _extract(file, folder / file.name, scratch)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise ChecksumError(f"{folder / file.name} cannot be unpacked ({error})") from error
        absent = [name for name in file.members if not (Path(scratch) / name).exists()]
        if absent:
            raise ChecksumError(f"{folder / file.name} does not hold {', '.join(absent)}")
        for name in file.members:
            if not (folder / name).exists():
                (Path(scratch) / name).replace(folder / name)


def _extract(file: DataFile, path: Path, scratch: str) -> None:
    """Copy out the members that are plain files, under their own names, whatever folder they stand in."""
    with tarfile.open(path) as archive:
        for entry in archive:
            name = Path(entry.name).name
            if name not in file.members or not entry.isreg():
                continue
            if entry.size > file.largest:
                raise ChecksumError(f"{path} has {name} of {entry.size} bytes; expected at most {file.largest}")
            with cast(IO[bytes], archive.extractfile(entry)) as content, open(Path(scratch) / name, "wb") as copy:
                shutil.copyfileobj(content, copy)


def _say(aloud: bool, text: str) -> None:
    if aloud:
        print(text, file=sys.stderr)
