"""Downloads: what arrives whole stays, what does not leaves no trace, and the message says what to do."""

import ast
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
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

import fgmp
from fgmp.cli import main
from fgmp.datasets import downloads
from fgmp.datasets.downloads import DOWNLOADS, ChecksumError, DataFile, DownloadError, data_folder, fetch, locate

IMAGES, LABELS, ARCHIVE = b"images" * 1000, b"labels" * 500, "fed_emnist_digitsonly.tar.bz2"
LARGEST = 100_000
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
            file.name, file.what, file.licence, f"{address}/{file.name}", checksums[file.name], LARGEST, file.members
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


def test_a_download_without_end_is_stopped(server, tmp_path):
    name = "train-images-idx3-ubyte.gz"
    server.files[name], server.lengths[name] = bytes(10 * LARGEST), None
    with pytest.raises(DownloadError, match=f"could not download {name} .*it has more than {LARGEST} bytes"):
        fetch("mnist-writers", tmp_path, progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("act", [fetch, locate])
def test_a_small_file_that_unpacks_to_a_large_one_is_stopped(server, tmp_path, act):
    """A gigabyte of zeros in a megabyte: no more of it is read than the file may have."""
    bomb = gzip.compress(bytes(2**24), 1) * 64
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(bomb)
    (tmp_path / "qmnist-train-labels-idx2-int.gz").write_bytes(server.files["qmnist-train-labels-idx2-int.gz"])
    with pytest.raises(ChecksumError, match=f"holds more than {LARGEST} bytes. It is left as it is"):
        act("mnist-writers", tmp_path)


def test_two_downloads_at_once_do_not_meet(server, tmp_path):
    """Eight at a time of one file, whose content arrives in parts: all end well, and what is there is whole."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(fetch, name, tmp_path, False) for name in ("mnist-writers", "femnist") * 4]:
            assert done.result() == tmp_path
    names = {"train-images-idx3-ubyte.gz", "qmnist-train-labels-idx2-int.gz", ARCHIVE, *MEMBERS}
    assert contents(tmp_path) == names and locate("mnist-writers", tmp_path) == tmp_path
    for name, content in MEMBERS.items():
        assert (tmp_path / name).read_bytes() == content


def test_a_file_has_its_name_only_once_it_is_checked(server, tmp_path, monkeypatch):
    seen, check = [], downloads._problem
    monkeypatch.setattr(downloads, "_problem", lambda file, path: seen.append(contents(tmp_path)) or check(file, path))
    fetch("mnist-writers", tmp_path, progress=False)
    names = ["train-images-idx3-ubyte.gz", "qmnist-train-labels-idx2-int.gz"]
    assert len(seen) == 2 and all(name not in before for name, before in zip(names, seen, strict=True))


def hostile_archive(kind):
    """An archive with a member that wants to be somewhere else, or is something else."""
    packed, name = io.BytesIO(), next(iter(MEMBERS))
    with tarfile.open(fileobj=packed, mode="w:bz2") as archive:
        entry = tarfile.TarInfo({"above": f"../../{name}", "absolute": f"/{name}"}.get(kind, name))
        content = b"x" * (2 * LARGEST if kind == "large" else 9)
        if kind in ("symbolic link", "hard link"):
            entry.type = tarfile.SYMTYPE if kind == "symbolic link" else tarfile.LNKTYPE
            entry.linkname, content = "/etc/passwd", b""
        elif kind == "device":
            entry.type, content = tarfile.CHRTYPE, b""
        entry.size, entry.mode = len(content), 0o6777
        archive.addfile(entry, io.BytesIO(content))
        last = tarfile.TarInfo(list(MEMBERS)[1])
        archive.addfile(last, io.BytesIO())
    return packed.getvalue()


@pytest.mark.parametrize("kind", ["above", "absolute", "symbolic link", "hard link", "device", "large"])
def test_an_archive_reaches_nothing_but_its_members(kind, server, tmp_path, monkeypatch):
    folder, name = tmp_path / "a" / "b", next(iter(MEMBERS))
    server.files[ARCHIVE] = hostile_archive(kind)
    use_registry(monkeypatch, server.address, dict.fromkeys(server.files, sha256(server.files[ARCHIVE])))
    if kind in ("above", "absolute"):  # a plain file, wherever it claims to stand, is taken for the member
        fetch("femnist", folder, progress=False)
        assert (folder / name).read_bytes() == b"x" * 9 and not (folder / name).stat().st_mode & 0o6022
    else:
        message = "expected at most 100000" if kind == "large" else f"does not hold {name}"
        with pytest.raises(ValueError, match=message):
            fetch("femnist", folder, progress=False)
        assert contents(folder) == {ARCHIVE}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"] and [*(tmp_path / "a").iterdir()] == [folder]


def test_an_archive_that_is_cut_short_is_named(server, tmp_path, monkeypatch):
    server.files[ARCHIVE] = server.files[ARCHIVE][:-40]
    use_registry(monkeypatch, server.address, dict.fromkeys(server.files, sha256(server.files[ARCHIVE])))
    with pytest.raises(ChecksumError, match=f"{ARCHIVE} cannot be unpacked"):
        fetch("femnist", tmp_path, progress=False)
    assert contents(tmp_path) == {ARCHIVE}


def test_nothing_is_unpickled():
    """Of files that come from elsewhere; the workers of a run hand one another what this package has written."""
    for path in Path(fgmp.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imported = {
            name.split(".")[0]
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
        }
        if path.name != "workers.py":
            assert not imported & {"pickle", "cPickle", "shelve", "marshal", "dill", "cloudpickle"}, path
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                options = {option.arg: ast.unparse(option.value) for option in node.keywords}
                if ast.unparse(node.func) in ("np.load", "numpy.load"):
                    assert options.get("allow_pickle") == "False", path
                assert options.get("allow_pickle", "False") == "False", path
                assert node.func.attr not in ("read_pickle", "to_pickle", "full_load", "unsafe_load"), path
                assert ast.unparse(node.func) not in ("joblib.load", "torch.load", "yaml.load_all"), path


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
