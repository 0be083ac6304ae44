"""Downloads: a file arrives whole or leaves no trace, and the message says what to do."""

import functools
import gzip
import hashlib
import io
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from command_line import run_command

from fgmp.datasets import downloads
from fgmp.datasets.downloads import DOWNLOADS, data_folder, fetch, locate

ARCHIVE = "fed_emnist_digitsonly.tar.bz2"
MEMBERS = ("fed_emnist_digitsonly_train.h5", "fed_emnist_digitsonly_test.h5")
IMAGES = "train-images-idx3-ubyte.gz"
LABELS = "qmnist-train-labels-idx2-int.gz"


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
    address = f"http://127.0.0.1:{http.server_port}"
    served = {}
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
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FGMP_DATA", str(tmp_path / "new" / "data"))
    return data_folder()


def test_fetch_downloads_the_files_of_a_data_set(server, folder):
    """They are those of the server, in the folder for data."""
    assert fetch("mnist-writers", progress=False) == folder
    assert locate("mnist-writers") == [folder / IMAGES, folder / LABELS]
    assert {path.name for path in folder.iterdir()} == {IMAGES, LABELS}
    assert (folder / IMAGES).read_bytes() == (server / IMAGES).read_bytes()


def test_fetch_downloads_missing_files_alone(server, folder):
    """A file with the right content stays as it is, also in another compression."""
    fetch("mnist-writers", progress=False)
    (folder / LABELS).unlink()
    compressed = gzip.compress(IMAGES.encode() * 1000, 1, mtime=7)
    assert compressed != (server / IMAGES).read_bytes()
    (folder / IMAGES).write_bytes(compressed)
    fetch("mnist-writers", progress=False)
    assert (folder / IMAGES).read_bytes() == compressed
    assert (folder / LABELS).exists()


def test_fetch_unpacks_an_archive_that_was_put_there(server, folder):
    """Its members alone stand beside it."""
    folder.mkdir(parents=True)
    (server / ARCHIVE).rename(folder / ARCHIVE)
    with pytest.raises(
        FileNotFoundError, match="fed_emnist_digitsonly_train.h5 and .* `fgmp data fetch femnist`"
    ):
        locate("femnist")
    fetch("femnist", progress=False)
    assert [path.read_text() for path in locate("femnist")] == list(MEMBERS)
    assert {path.name for path in folder.iterdir()} == {ARCHIVE, *MEMBERS}


@pytest.mark.parametrize("content", [b"<html>not found</html>", None])
def test_download_that_fails_leaves_nothing(server, folder, content):
    """Another content and a missing file leave no trace."""
    (server / IMAGES).unlink() if content is None else (server / IMAGES).write_bytes(content)
    expected = OSError if content is None else ValueError
    message = (
        f"could not get {IMAGES} into .*get http.* by other means" if content is None else "hash"
    )
    with pytest.raises(expected, match=message):
        fetch("mnist-writers", progress=False)
    assert [*folder.iterdir()] == []


def test_data_list_shows_what_is_missing(server, folder):
    """With licences, and the folder."""
    listed = run_command("data", "list").output
    assert listed.count("missing") == 3
    assert "CC BY-SA 3.0" in listed
    assert str(folder) in listed


def test_data_fetch_shows_a_bar_and_the_licence(server, folder):
    """The bar goes to the standard error."""
    fetched = run_command("data", "fetch", "mnist-writers")
    assert fetched.exit_code == 0
    assert "100%" in fetched.stderr
    assert "CC BY-SA 3.0" in fetched.output


def test_data_fetch_that_fails_prints_one_line(server, folder):
    """The line has the file that could not be downloaded."""
    (server / ARCHIVE).unlink()
    failed = run_command("data", "fetch", "femnist")
    assert failed.exit_code == 1
    assert f"\nError: could not get {ARCHIVE}" in f"\n{failed.output}"


def cut(content):
    return content[: len(content) // 2]


def flip(content):
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


@pytest.mark.parametrize("damage", [cut, flip, lambda content: b""])
def test_damaged_file_is_found_and_fetched_again(server, folder, damage):
    """By its checksum, in `locate` and in `fgmp data list`."""
    fetch("mnist-writers", progress=False)
    whole = (folder / IMAGES).read_bytes()
    (folder / IMAGES).write_bytes(damage(whole))
    words = f"{IMAGES} in .* is damaged.*`fgmp data fetch mnist-writers`"
    with pytest.raises(OSError, match=words):
        locate("mnist-writers")
    assert "damaged" in run_command("data", "list").output
    fetch("mnist-writers", progress=False)
    assert (folder / IMAGES).read_bytes() == whole


KILLED = """
import os, signal, sys, tarfile
from fgmp.datasets import downloads

def extract(archive, path, members, **options):
    with open(os.path.join(path, members[0].name), "w") as member:
        member.write("cut")
    os.kill(os.getpid(), signal.SIGKILL)

def replace(source, target, number=[0]):
    number[0] += 1
    if number[0] == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    move(source, target)

move = os.replace
if sys.argv[2] == "0":
    tarfile.TarFile.extractall = extract
os.replace = replace
file = downloads.DOWNLOADS["femnist"][0]
file = file._replace(sha256=sys.argv[3])
downloads._download(file, downloads.Path(sys.argv[1]), False)
"""


@pytest.mark.parametrize("moment", [0, 1, 2])
def test_killed_unpacking_leaves_nothing_that_counts_as_whole(server, folder, moment):
    """In the first member, before either is moved, and between the two."""
    folder.mkdir(parents=True)
    shutil.copy(server / ARCHIVE, folder / ARCHIVE)
    (file,) = downloads.DOWNLOADS["femnist"]
    command = [sys.executable, "-c", KILLED, str(folder), str(moment), file.sha256]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with pytest.raises(FileNotFoundError):
        locate("femnist")
    there = [folder / name for name in MEMBERS if (folder / name).exists()]
    assert len(there) == max(moment - 1, 0)
    assert all(path.read_text() == path.name for path in there)
    fetch("femnist", progress=False)
    assert [path.read_text() for path in locate("femnist")] == list(MEMBERS)


def test_full_disk_while_unpacking_leaves_nothing(server, folder, monkeypatch):
    """The error reaches the user."""

    def full(archive, path, members, **options):
        (Path(path) / members[0].name).write_text("cut")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extractall", full)
    folder.mkdir(parents=True)
    shutil.copy(server / ARCHIVE, folder / ARCHIVE)
    with pytest.raises(
        OSError,
        match=f"could not get {ARCHIVE} into .*: .*No space left on device; run the same again",
    ):
        downloads.fetch("femnist", progress=False)
    assert {path.name for path in folder.iterdir()} == {ARCHIVE}
