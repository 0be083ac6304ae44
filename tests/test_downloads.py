"""Downloads: what arrives as announced stays, what does not leaves no trace, and the message says what to do."""

import functools
import gzip
import hashlib
import io
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from fgmp.cli import main
from fgmp.datasets import downloads
from fgmp.datasets.downloads import DOWNLOADS, data_folder, fetch, locate

ARCHIVE, MEMBERS = "fed_emnist_digitsonly.tar.bz2", ("fed_emnist_digitsonly_train.h5", "fed_emnist_digitsonly_test.h5")
IMAGES, LABELS = "train-images-idx3-ubyte.gz", "qmnist-train-labels-idx2-int.gz"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder of files that are served on this machine, and a registry with their checksums."""
    folder = tmp_path / "server"
    folder.mkdir()
    for name in (IMAGES, LABELS):
        (folder / name).write_bytes(gzip.compress(name.encode() * 1000))
    with tarfile.open(folder / ARCHIVE, "w:bz2") as archive:
        for name in (*MEMBERS, "other.h5"):
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(name)
            archive.addfile(entry, io.BytesIO(name.encode()))
    http = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    address, served = f"http://127.0.0.1:{http.server_port}", {}
    for name, files in DOWNLOADS.items():
        sums = [hashlib.sha256((folder / file.name).read_bytes()).hexdigest() for file in files]
        served[name] = tuple(
            file._replace(address=f"{address}/{file.name}", sha256=sha256)
            for file, sha256 in zip(files, sums, strict=True)
        )
    monkeypatch.setattr(downloads, "DOWNLOADS", served)
    yield folder
    http.shutdown()
    http.server_close()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("FGMP_DATA", str(tmp_path / "new" / "data"))
    return data_folder()


def test_fetch_brings_what_is_missing_and_leaves_what_is_there(server, place):
    assert fetch("mnist-writers", progress=False) == place
    assert locate("mnist-writers") == [place / IMAGES, place / LABELS]
    assert {path.name for path in place.iterdir()} == {IMAGES, LABELS}
    assert (place / IMAGES).read_bytes() == (server / IMAGES).read_bytes()
    (place / LABELS).unlink()
    (place / IMAGES).write_bytes(b"the same, compressed anew")
    fetch("mnist-writers", progress=False)
    assert (place / IMAGES).read_bytes() == b"the same, compressed anew" and (place / LABELS).exists()


def test_of_an_archive_that_came_by_hand_the_members_are_unpacked(server, place):
    place.mkdir(parents=True)
    (server / ARCHIVE).rename(place / ARCHIVE)
    with pytest.raises(FileNotFoundError, match="fed_emnist_digitsonly_train.h5 and .* `fgmp data fetch femnist`"):
        locate("femnist")
    fetch("femnist", progress=False)
    assert [path.read_text() for path in locate("femnist")] == list(MEMBERS)
    assert {path.name for path in place.iterdir()} == {ARCHIVE, *MEMBERS}


@pytest.mark.parametrize("content", [b"<html>not found</html>", None])
def test_what_is_not_as_announced_leaves_nothing(server, place, content):
    (server / IMAGES).unlink() if content is None else (server / IMAGES).write_bytes(content)
    expected = OSError if content is None else ValueError
    message = f"could not download {IMAGES} into .*get http.* by other means" if content is None else "hash"
    with pytest.raises(expected, match=message):
        fetch("mnist-writers", progress=False)
    assert [*place.iterdir()] == []


def test_the_command_lists_and_fetches_with_a_bar_and_fails_in_one_line(server, place):
    listed = CliRunner().invoke(main, ["data", "list"]).output
    assert listed.count("missing") == 3 and "CC BY-SA 3.0" in listed and str(place) in listed
    fetched = CliRunner().invoke(main, ["data", "fetch", "mnist-writers"])
    assert fetched.exit_code == 0 and "100%" in fetched.stderr and "CC BY-SA 3.0" in fetched.output
    (server / ARCHIVE).unlink()
    failed = CliRunner().invoke(main, ["data", "fetch", "femnist"])
    assert failed.exit_code == 1 and f"\nError: could not download {ARCHIVE}" in f"\n{failed.output}"
