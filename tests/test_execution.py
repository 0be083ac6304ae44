"""How a notebook is started and stopped; what it computes is for test_reruns, what is saved for test_tools."""

import os
import signal
import sys
import threading

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager

from fgmp.sweeping.execution import execute


@pytest.fixture
def notebook(tmp_path):
    """It leaves a file called `ran`."""
    cells = [nbformat.v4.new_code_cell("open('ran', 'w').close()")]
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python"}})


def dying(folder, deaths):
    """Variables of kernels of which the first `deaths` end before they are up."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(f"""
import os, sys
from pathlib import Path
born = Path({str(folder / "born")!r})
with born.open("a") as file:
    file.write("x")
if born.stat().st_size <= {deaths}:
    os._exit(1)
""")
    return {"PYTHONPATH": os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])}


def test_a_kernel_that_dies_at_its_start_is_started_again(notebook, tmp_path):
    """As where two of them were given the same port."""
    assert execute(notebook, tmp_path / "out.ipynb", {}, tmp_path, dying(tmp_path, 2)) == ""
    assert (tmp_path / "ran").exists() and (tmp_path / "born").stat().st_size == 3


def test_a_kernel_that_never_comes_up_is_said(notebook, tmp_path):
    said = execute(notebook, tmp_path / "out.ipynb", {}, tmp_path, dying(tmp_path, 99))
    assert said == "RuntimeError: Kernel died before replying to kernel_info"
    assert not (tmp_path / "ran").exists() and (tmp_path / "born").stat().st_size == 3


@pytest.mark.skipif(sys.platform == "win32", reason="no signals")
def test_ctrl_c_while_a_kernel_is_being_started_ends_it(notebook, tmp_path, monkeypatch):
    start, caught = AsyncKernelManager.start_kernel, threading.Event()

    async def slow(self, **options):
        os.kill(os.getpid(), signal.SIGINT)
        caught.wait(1)  # the main thread is told meanwhile
        await start(self, **options)

    monkeypatch.setattr(AsyncKernelManager, "start_kernel", slow)
    with pytest.raises(KeyboardInterrupt):
        execute(notebook, tmp_path / "out.ipynb", {}, tmp_path, {})
    assert not (tmp_path / "ran").exists()
