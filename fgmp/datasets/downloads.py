"""Data that a user downloads: what it is, where it comes from and where it lies, fetched by pooch.

Only `fetch` goes to the network, and only when it is called. The environment variable ``FGMP_DATA`` names the folder.
"""

import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path
from typing import NamedTuple

from .._support.optional import needs
from .._support.validation import check_option


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

    def state(self, folder: Path) -> str:
        """Return "missing", "damaged" or "there": whether the folder holds all that is read in the end."""
        if not all(path.exists() for path in self.paths(folder)):
            return "missing"
        return "there" if self._is_whole(folder) else "damaged"

    def record(self, folder: Path) -> Path:
        """Return the file with the checksums of the unpacked members, as ``sha256sum`` writes them."""
        return folder / f"{self.name}.sha256"

    def _is_whole(self, folder: Path) -> bool:
        """Return whether the checksums are those of the registry, or of the members when they were unpacked.

        Mirrors compress the same content anew, with another checksum: a gzip file that came by hand is whole if it
        unpacks, for it ends with a checksum of its content. Members that came by hand have no record to compare with.
        """
        if not self.members:
            return _sha256(folder / self.name) == self.sha256 or _unpacks(folder / self.name)
        if not self.record(folder).exists():
            return True
        lines = self.record(folder).read_text(encoding="utf-8").splitlines()
        recorded = {name: sha256 for sha256, _, name in (line.partition("  ") for line in lines)}
        return all(_sha256(folder / name) == recorded.get(name) for name in self.members)


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
        with needs("a data set without FGMP_DATA", "pooch"):
            import pooch

        place = pooch.os_cache("fgmp")
    return Path(place).expanduser().absolute()


def fetch(name: str, progress: bool = True) -> Path:
    """Download what is missing or damaged of a data set ("mnist-writers", "femnist") and unpack it; return its folder.

    A file takes its place only when it is whole, and with the right checksum; another one is a ValueError. What is
    whole is not fetched again.
    """
    with needs("a download", "pooch", "tqdm"):
        import pooch

    place = data_folder()
    for file in DOWNLOADS[check_option("name", name, tuple(DOWNLOADS))]:
        if file.state(place) == "there":
            continue
        try:
            pooch.retrieve(
                file.address, f"sha256:{file.sha256}", file.name, place, progressbar=progress
            )
        except OSError as error:
            by_hand = (
                f"run the same again, or get {file.address} by other means and put it into {place}"
            )
            raise OSError(
                f"could not download {file.name} into {place}: {error}; {by_hand}"
            ) from error
        if file.members:
            try:
                _unpack(file, place)
            except OSError as error:
                raise OSError(
                    f"could not unpack {file.name} in {place}: {error}; run the same again"
                ) from error
    return place


def locate(name: str) -> list[Path]:
    """Return the files of a data set that are read; where one is missing or damaged, an OSError says how to get it."""
    place = data_folder()
    for file in DOWNLOADS[name]:
        state = file.state(place)
        if state == "missing":
            needs = f"{name} needs {' and '.join(file.members) or file.name}, not found in {place}"
            get = f"run `fgmp data fetch {name}`, or put {file.address} there and run it"
            raise FileNotFoundError(f"{needs}; {get}. FGMP_DATA names another folder")
        if state == "damaged":
            damaged = f"{' or '.join(file.members) or file.name} in {place} is damaged: its checksum is another"
            raise OSError(f"{damaged}; run `fgmp data fetch {name}` to get it again")
    return [path for file in DOWNLOADS[name] for path in file.paths(place)]


def _unpack(file: DataFile, folder: Path) -> None:
    """Unpack the members beside their places, move them there when all are whole, and record their checksums last."""
    with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=folder) as beside:
        lines = []
        with tarfile.open(folder / file.name) as archive:
            entries = {
                entry.name.removeprefix("./"): entry
                for entry in archive.getmembers()
                if entry.isfile()
            }
            for name in file.members:
                source = archive.extractfile(entries[name]) if name in entries else None
                if source is None:
                    raise ValueError(
                        f"{file.name} has no member {name}; expected {' and '.join(file.members)}"
                    )
                with source, open(Path(beside) / name, "wb") as target:
                    shutil.copyfileobj(source, target)
                    target.flush()
                    os.fsync(target.fileno())
                lines.append(f"{_sha256(Path(beside) / name)}  {name}\n")
        record = Path(beside) / file.record(folder).name
        record.write_text("".join(lines), encoding="utf-8")
        file.record(folder).unlink(missing_ok=True)  # it may be of an earlier version
        for name in file.members:
            os.replace(Path(beside) / name, folder / name)
        os.replace(record, file.record(folder))


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpacks(path: Path) -> bool:
    """Return whether a file is whole by the checksum at the end of its gzip format."""
    if path.suffix != ".gz" or not path.stat().st_size:
        return False
    try:
        with gzip.open(path) as file:
            while file.read(2**20):
                pass
    except (OSError, EOFError, zlib.error):
        return False
    return True
