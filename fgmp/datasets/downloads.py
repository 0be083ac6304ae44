"""Data that a user downloads: what it is, where it comes from and where it lies, fetched and unpacked by pooch.

Only `fetch` goes to the network, and only when it is called. The environment variable ``FGMP_DATA`` names the folder.
"""

import os
from pathlib import Path
from typing import NamedTuple

from ..checks import check_option


class DataFile(NamedTuple):
    """A file to download, by its sha256, and the members that are read in the end where it is an archive."""

    address: str
    sha256: str
    licence: str
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the file is called."""
        return self.address.rpartition("/")[2]

    def paths(self, folder: Path) -> list[Path]:
        """What is read in the end."""
        return [folder / name for name in self.members or (self.name,)]

    def is_there(self, folder: Path) -> bool:
        """Whether the folder holds all that is read in the end."""
        return all(path.exists() for path in self.paths(folder))


DOWNLOADS = {
    "mnist-writers": (
        DataFile(
            "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "CC BY-SA 3.0",
        ),
        DataFile(
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-labels-idx2-int.gz",
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
    """The folder with the data: the one that the environment variable FGMP_DATA names, else a cache of the user's."""
    if not (place := os.environ.get("FGMP_DATA")):
        import pooch

        place = pooch.os_cache("fgmp")
    return Path(place).expanduser().absolute()


def fetch(name: str, progress: bool = True) -> Path:
    """Download what is missing of a data set ("mnist-writers", "femnist"), check it and unpack it; the folder with it.

    A file takes its place only with the right checksum; another one is a ValueError. What is there is not fetched
    again, whatever its checksum: mirrors compress the same content anew.
    """
    import pooch

    place = data_folder()
    for file in DOWNLOADS[check_option("name", name, tuple(DOWNLOADS))]:
        if file.is_there(place):
            continue
        unpack = pooch.Untar(list(file.members), extract_dir=".") if file.members else None
        try:
            pooch.retrieve(file.address, f"sha256:{file.sha256}", file.name, place, unpack, progressbar=progress)
        except OSError as error:
            by_hand = f"run the same again, or get {file.address} by other means and put it into {place}"
            raise OSError(f"could not download {file.name} into {place}: {error}; {by_hand}") from error
    return place


def locate(name: str) -> list[Path]:
    """The files of a data set that are read; where one is missing, a FileNotFoundError says how to get it."""
    place = data_folder()
    for file in DOWNLOADS[name]:
        if not file.is_there(place):
            needs = f"{name} needs {' and '.join(file.members) or file.name}, not found in {place}"
            get = f"run `fgmp data fetch {name}`, or put {file.address} there and run it"
            raise FileNotFoundError(f"{needs}; {get}. FGMP_DATA names another folder")
    return [path for file in DOWNLOADS[name] for path in file.paths(place)]
