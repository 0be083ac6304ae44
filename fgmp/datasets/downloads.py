"""Data sets to download: their addresses, checksums and licences, and the folder that holds them.

Only `fetch` goes to the network, and only if it is called. The environment variable ``FGMP_DATA``
names the folder. What ships with fgmp, or with scikit-learn, is not here: it is read where it is.
"""

import gzip
import hashlib
import os
import tempfile
import zlib
from pathlib import Path
from typing import NamedTuple

from .._support.optional import needs
from .._support.validation import check_option


class DataFile(NamedTuple):
    """A file to download.

    Attributes
    ----------
    address : str
    sha256 : str
        Its checksum.
    licence : str
    members : tuple of str
        The files in it that are read, if it is an archive.
    """

    address: str
    sha256: str
    licence: str
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return self.address.rpartition("/")[2]

    def paths(self, folder: Path) -> list[Path]:
        """Return the paths of the files that are read: the members of an archive, or the file."""
        return [folder / name for name in self.members or (self.name,)]

    def state(self, folder: Path) -> str:
        """Return "missing", "damaged" or "there": the state of the files that are read.

        Members of an archive count as intact: they get their names when they are complete, and
        HDF5 notices a file that was cut. Mirrors compress the same content anew, with another
        checksum. Therefore a gzip file that came by hand is intact if it unpacks, too: its format
        ends with a checksum of the content.
        """
        paths = self.paths(folder)
        if not all(path.exists() for path in paths):
            return "missing"
        if self.members or _sha256(paths[0]) == self.sha256 or _unpacks(paths[0]):
            return "there"
        return "damaged"


DOWNLOADS = {
    "mnist-writers": (
        DataFile(
            "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "CC BY-SA 3.0",
        ),
        DataFile(
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"
            "qmnist-train-labels-idx2-int.gz",
            "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
            "BSD-style",
        ),
    ),
    "femnist": (
        DataFile(
            "https://storage.googleapis.com/tff-datasets-public/fed_emnist_digitsonly.tar.bz2",
            "55333deb8546765427c385710ca5e7301e16f4ed8b60c1dc5ae224b42bd5b14b",
            "see TensorFlow Federated and NIST Special Database 19",
            ("fed_emnist_digitsonly_train.h5", "fed_emnist_digitsonly_test.h5"),
        ),
    ),
}


def data_folder() -> Path:
    """Return the folder of the data.

    The environment variable FGMP_DATA names it. By default it is ``~/.cache/fgmp``.

    Examples
    --------
    >>> import os
    >>> from unittest import mock
    >>> from fgmp import datasets
    >>> with mock.patch.dict(os.environ, FGMP_DATA="my_data"):
    ...     print(datasets.data_folder().name, datasets.data_folder().is_absolute())
    my_data True
    """
    folder = os.environ.get("FGMP_DATA") or "~/.cache/fgmp"
    return Path(folder).expanduser().absolute()


def fetch(name: str, progress: bool = True) -> Path:
    """Download and unpack the files of a data set that are missing or damaged.

    A file gets its name only after it was downloaded completely and its checksum was right. Files
    that are intact are not downloaded again.

    Parameters
    ----------
    name : {"mnist-writers", "femnist"}
    progress : bool, default True
        Whether to show a bar.

    Returns
    -------
    Path
        The folder of the data.

    Raises
    ------
    OSError
        If a file cannot be downloaded or unpacked; the message says what to do.
    ValueError
        If a file has another checksum than expected.

    Examples
    --------
    >>> from fgmp import datasets
    >>> folder = datasets.fetch("mnist-writers")  # doctest: +SKIP
    >>> digits = datasets.digits_by_writer("mnist-writers", rng=0)  # doctest: +SKIP
    """
    files = DOWNLOADS[check_option("name", name, tuple(DOWNLOADS))]
    folder = data_folder()
    for file in files:
        if file.state(folder) != "there":
            _download(file, folder, progress)
    return folder


def locate(name: str) -> list[Path]:
    """Return the files of a data set that are read.

    Raises
    ------
    OSError
        If one is missing or damaged; the message says how to get it.
    """
    folder = data_folder()
    for file in DOWNLOADS[name]:
        state = file.state(folder)
        if state == "missing":
            files = " and ".join(file.members) or file.name
            raise FileNotFoundError(
                f"{name} needs {files}, not found in {folder}; run `fgmp data fetch {name}`, or "
                f"put {file.address} there and run it. FGMP_DATA names another folder"
            )
        if state == "damaged":
            raise OSError(
                f"{file.name} in {folder} is damaged: its checksum is another; run "
                f"`fgmp data fetch {name}` to get it again"
            )
    return [path for file in DOWNLOADS[name] for path in file.paths(folder)]


def _download(file: DataFile, folder: Path, progress: bool) -> None:
    """Download a file and check it, and unpack it if it is an archive.

    Members are unpacked into a temporary folder, and moved when all of them are complete.
    """
    with needs("a download of data", "pooch"):
        import pooch
    checksum = f"sha256:{file.sha256}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=folder) as unpacked:
            unpack = pooch.Untar(list(file.members), unpacked) if file.members else None
            pooch.retrieve(file.address, checksum, file.name, folder, unpack, progressbar=progress)
            for name in file.members:
                os.replace(Path(unpacked, name), folder / name)
    except OSError as error:
        raise OSError(
            f"could not get {file.name} into {folder}: {error}; run the same again, or get "
            f"{file.address} by other means and put it into {folder}"
        ) from error


def _sha256(path: Path) -> str:
    """Return the checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpacks(path: Path) -> bool:
    """Return whether a gzip file has the content of which its last bytes are the checksum."""
    if path.suffix != ".gz" or not path.stat().st_size:
        return False
    try:
        with gzip.open(path) as file:
            while file.read(2**20):
                pass
    except (OSError, EOFError, zlib.error):
        return False
    return True
