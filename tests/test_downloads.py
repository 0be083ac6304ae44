"""Downloads: what arrives whole stays, what does not leaves no trace, and the message says what to do."""

import gzip
import hashlib
import importlib
import io
import socket
import subprocess
import sys
import tarfile
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

import fgmp
from fgmp.cli import main
from fgmp.datasets import downloads
from fgmp.datasets.downloads import DOWNLOADS, ChecksumError, DataFile, DownloadError, data_folder, fetch, locate

IMAGES, LABELS, ARCHIVE = b"images" * 1000, b"labels" * 500, "fed_emnist_digitsonly.tar.bz2"
MEMBERS = {"fed_emnist_digitsonly_train.h5": b"training", "fed_emnist_digitsonly_test.h5": b"test"}


def tar(members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:bz2") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


class Server:
    """Serves bytes by name on this machine, and counts what was asked for."""

    def __init__(self):
        self.files, self.lengths, self.requests = {}, {}, []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.strip("/")
                outer.requests.append(name)
                if name not in outer.files:
                    return self.send_error(404)
                self.send_response(200)
                if outer.lengths.get(name, 0) is not None:
                    self.send_header("Content-Length", str(outer.lengths.get(name, len(outer.files[name]))))
                self.end_headers()
                self.wfile.write(outer.files[name])

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server(monkeypatch):
    """A server of small stand-ins for the real files, and the registry that points to it."""
    server = Server()
    images, labels, archive = "train-images-idx3-ubyte.gz", "qmnist-train-labels-idx2-int.gz", tar(MEMBERS)
    server.files = {images: gzip.compress(IMAGES), labels: gzip.compress(LABELS), ARCHIVE: archive}
    checksums = {images: IMAGES, labels: LABELS, ARCHIVE: archive}
    use_registry(monkeypatch, server.address, {name: sha256(content) for name, content in checksums.items()})
    yield server
    server.http.shutdown()
    server.http.server_close()


def use_registry(monkeypatch, address, checksums):
    def moved(file):
        return DataFile(
            file.name, file.what, file.licence, f"{address}/{file.name}", checksums[file.name], file.members
        )

    monkeypatch.setattr(downloads, "DOWNLOADS", {name: tuple(map(moved, files)) for name, files in DOWNLOADS.items()})
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def contents(folder):
    """Everything in a folder but the markers of downloads."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(".fetched")}


def test_fetch_brings_every_file_into_a_new_folder(server, tmp_path):
    folder = tmp_path / "new" / "folder"
    assert fetch("mnist-writers", folder, progress=False) == folder
    assert contents(folder) == {"train-images-idx3-ubyte.gz", "qmnist-train-labels-idx2-int.gz"}
    assert gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes()) == IMAGES
    assert locate("mnist-writers", folder) == folder


def test_names_licences_and_a_bar_are_shown(server, tmp_path, capsys):
    fetch("mnist-writers", tmp_path, progress=True)
    shown = capsys.readouterr()
    assert "CC BY-SA 3.0" in shown.err and "BSD-style" in shown.err and "100%" in shown.err
    assert not shown.out
    fetch("mnist-writers", tmp_path, progress=True)
    assert not capsys.readouterr().err


def test_running_it_again_fetches_what_is_missing_only(server, tmp_path):
    labels = server.files.pop("qmnist-train-labels-idx2-int.gz")
    with pytest.raises(DownloadError, match="404"):
        fetch("mnist-writers", tmp_path, progress=False)
    assert contents(tmp_path) == {"train-images-idx3-ubyte.gz"}
    server.files["qmnist-train-labels-idx2-int.gz"] = labels
    server.requests.clear()
    for _ in range(2):
        fetch("mnist-writers", tmp_path, progress=False)
    assert server.requests == ["qmnist-train-labels-idx2-int.gz"]


def test_another_compression_of_the_same_content_is_right(server, tmp_path):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(IMAGES, compresslevel=1, mtime=5))
    (tmp_path / "qmnist-train-labels-idx2-int.gz").write_bytes(LABELS)
    fetch("mnist-writers", tmp_path, progress=False)
    assert server.requests == []


BROKEN = {
    "other content": lambda packed: gzip.compress(b"something else"),
    "an error page": lambda packed: b"<html>not found</html>",
    "cut short": lambda packed: packed[: len(packed) // 2],
    "damaged": lambda packed: packed[:15] + b"\xff\xff\xff\xff" + packed[19:],
    "empty": lambda packed: b"",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_bad_download_leaves_nothing(server, tmp_path, how):
    name = "train-images-idx3-ubyte.gz"
    server.files[name] = BROKEN[how](server.files[name])
    with pytest.raises(ChecksumError, match=f"{name} from .* (wrong checksum|damaged or cut short).* removed"):
        fetch("mnist-writers", tmp_path, progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length_is_known", [True, False])
def test_a_download_that_breaks_off_leaves_nothing(server, tmp_path, length_is_known):
    name = "train-images-idx3-ubyte.gz"
    whole = server.files[name]
    server.files[name] = whole[:30]
    server.lengths[name] = len(whole) if length_is_known else None
    with pytest.raises((DownloadError, ChecksumError), match=name):
        fetch("mnist-writers", tmp_path, progress=False)
    assert list(tmp_path.iterdir()) == []
    server.files[name], server.lengths[name] = whole, len(whole)
    assert locate("mnist-writers", fetch("mnist-writers", tmp_path, progress=False)) == tmp_path


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("act", [fetch, locate])
def test_a_users_own_bad_file_is_left_alone(server, tmp_path, how, act):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(BROKEN[how](server.files[path.name]))
    before = path.read_bytes()
    (tmp_path / "qmnist-train-labels-idx2-int.gz").write_bytes(server.files["qmnist-train-labels-idx2-int.gz"])
    with pytest.raises(ValueError, match=f"{path} .*left as it is.* replace it by {server.address}"):
        act("mnist-writers", tmp_path)
    assert path.read_bytes() == before
    assert server.requests == []


def test_a_download_that_is_damaged_later_is_removed_and_fetched_again(server, tmp_path):
    fetch("mnist-writers", tmp_path, progress=False)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ChecksumError, match=f"{path} .*was a download and is removed; run `fgmp data fetch"):
        locate("mnist-writers", tmp_path)
    assert not path.exists()
    fetch("mnist-writers", tmp_path, progress=False)
    assert locate("mnist-writers", tmp_path) == tmp_path


def test_offline_the_message_says_where_to_put_the_file(tmp_path, monkeypatch):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    use_registry(monkeypatch, address, dict.fromkeys([f.name for files in DOWNLOADS.values() for f in files], ""))
    with pytest.raises(OSError) as caught:
        fetch("mnist-writers", tmp_path, progress=False)
    message = str(caught.value)
    assert f"get {address}/train-images-idx3-ubyte.gz by other means and put it into {tmp_path} by hand" in message


def test_a_folder_that_cannot_be_made_is_named(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match="could not download train-images.* into .*file/folder"):
        fetch("mnist-writers", tmp_path / "file" / "folder", progress=False)


def test_the_archive_is_unpacked(server, tmp_path):
    fetch("femnist", tmp_path, progress=False)
    assert contents(tmp_path) == {ARCHIVE, *MEMBERS}
    for name, content in MEMBERS.items():
        assert (tmp_path / name).read_bytes() == content
    (tmp_path / ARCHIVE).unlink()
    fetch("femnist", tmp_path, progress=False)
    assert server.requests == [ARCHIVE]
    assert locate("femnist", tmp_path) == tmp_path


def test_an_archive_put_there_by_hand_is_unpacked_without_a_download(server, tmp_path):
    (tmp_path / ARCHIVE).write_bytes(server.files[ARCHIVE])
    (tmp_path / "fed_emnist_digitsonly_test.h5").write_bytes(b"a user's own")
    with pytest.raises(FileNotFoundError, match="not unpacked; run `fgmp data fetch femnist`"):
        locate("femnist", tmp_path)
    fetch("femnist", tmp_path, progress=False)
    assert (tmp_path / "fed_emnist_digitsonly_train.h5").read_bytes() == b"training"
    assert (tmp_path / "fed_emnist_digitsonly_test.h5").read_bytes() == b"a user's own"
    assert server.requests == []


def test_an_archive_without_its_members_is_named(server, tmp_path, monkeypatch):
    server.files[ARCHIVE] = tar({"fed_emnist_digitsonly_train.h5": b"training"})
    use_registry(monkeypatch, server.address, dict.fromkeys(server.files, sha256(server.files[ARCHIVE])))
    with pytest.raises(ValueError, match=f"{ARCHIVE} does not hold fed_emnist_digitsonly_test.h5"):
        fetch("femnist", tmp_path, progress=False)
    assert contents(tmp_path) == {ARCHIVE}


def test_locate_says_how_to_get_what_is_missing(tmp_path):
    for name, files in DOWNLOADS.items():
        with pytest.raises(FileNotFoundError) as caught:
            locate(name, tmp_path)
        for words in (files[0].name, files[0].address, str(tmp_path), f"fgmp data fetch {name}", "FGMP_DATA"):
            assert words in str(caught.value)


@pytest.mark.parametrize("act", [fetch, locate])
def test_unknown_names_are_refused(act, tmp_path):
    with pytest.raises(ValueError, match="name is 'mnist'; expected one of 'mnist-writers', 'femnist'"):
        act("mnist", tmp_path)


def test_the_folder_is_the_one_that_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setenv("FGMP_DATA", "~/somewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / "somewhere"
    for unset in (lambda: monkeypatch.setenv("FGMP_DATA", ""), lambda: monkeypatch.delenv("FGMP_DATA")):
        unset()
        assert "fgmp" in data_folder().parts


def test_a_home_that_nobody_has_is_named(monkeypatch):
    monkeypatch.setenv("FGMP_DATA", "~nosuchuser/x")
    with pytest.raises(ValueError, match="FGMP_DATA is '~nosuchuser/x'; expected a folder"):
        data_folder()
    for command in (["data", "list"], ["data", "fetch", "mnist-writers"]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 1 and "FGMP_DATA is '~nosuchuser/x'" in done.output


def test_the_command_lists_and_fetches(server, tmp_path, monkeypatch):
    monkeypatch.setenv("FGMP_DATA", str(tmp_path))
    listed = CliRunner().invoke(main, ["data", "list"]).output
    assert listed.count("missing") == 3 and "CC BY-SA 3.0" in listed and str(tmp_path) in listed
    fetched = CliRunner().invoke(main, ["data", "fetch", "mnist-writers"])
    assert fetched.exit_code == 0
    assert f"mnist-writers is complete in {tmp_path}" in fetched.output and "CC BY-SA 3.0" in fetched.output
    (tmp_path / ARCHIVE).write_bytes(server.files[ARCHIVE])
    listed = CliRunner().invoke(main, ["data", "list"]).output
    assert "missing" not in listed and listed.count("there, not unpacked") == 1


def test_the_command_fails_with_a_message_and_no_traceback(server, tmp_path, monkeypatch):
    monkeypatch.setenv("FGMP_DATA", str(tmp_path))
    server.files.clear()
    failed = CliRunner().invoke(main, ["data", "fetch", "mnist-writers"])
    assert failed.exit_code == 1 and isinstance(failed.exception, SystemExit)
    assert "Error: could not download train-images-idx3-ubyte.gz" in failed.output
    unknown = CliRunner().invoke(main, ["data", "fetch", "cifar"])
    assert unknown.exit_code == 2 and "'mnist-writers', 'femnist'" in unknown.output


def test_the_command_has_a_version_and_a_name():
    assert fgmp.__version__ in CliRunner().invoke(main, ["--version"]).output
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    module, function = project["scripts"]["fgmp"].split(":")
    assert getattr(importlib.import_module(module), function) is main


def test_importing_everything_imports_no_heavy_package():
    modules = (
        "fgmp, fgmp.cli, fgmp.running.metrics, fgmp.datasets.digits, fgmp.datasets.downloads, fgmp.datasets.writers"
    )
    heavy = "{'h5py', 'matplotlib', 'pooch', 'requests', 'sklearn'}"
    code = f"import sys, {modules}; sys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
