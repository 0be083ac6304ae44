"""README and CONTRIBUTING: their code runs, and every link leads somewhere."""

import re
import shlex
import tomllib
from itertools import combinations
from pathlib import Path

import numpy as np
import papermill
import pytest
import yaml
from click.testing import CliRunner
from scipy.optimize import least_squares
from scipy.special import huber

import fgmp
from book.__main__ import main as book
from fgmp import losses, selection
from fgmp.cli import main as cli
from fgmp.methods import rivals
from fgmp.rounds import REASONS

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("[bde]*/README.md"), *ROOT.glob("examples/*/README.md")]


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_code_of_the_readme_runs():
    _, synthetic, own = python_blocks("README.md")
    names = {}
    exec(synthetic, names)
    assert names["result"].history["relative_error"][-1] <= 1e-14
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((80, 60)) for _ in range(12)]
    names |= {"As": As, "ys": [A[:, 0] for A in As]}
    exec(own, names)
    np.testing.assert_allclose(names["result"].x, np.eye(60)[0], atol=1e-12)


def commands(name):
    """The lines of the blocks that are no Python, and what stands in backticks and begins like a command."""
    text = re.sub(r"```python\n.*?```", "", (ROOT / name).read_text(), flags=re.DOTALL)
    blocks = re.findall(r"```\n(.*?)```", text, flags=re.DOTALL)
    inline = re.findall(r"`((?:make|fgmp|papermill|pip) [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line for block in blocks for line in block.splitlines()] + inline
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


@pytest.mark.parametrize("command", commands("README.md"), ids=" ".join)
def test_the_commands_of_the_readme_are_known(command, tmp_path):
    """The targets, the parameters, the extras, the commands are there."""
    program, *rest = command
    if program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    elif program == "papermill":
        source, _, _, folder, _, given = rest
        parameters = yaml.safe_load(given)
        assert folder == "notebooks" and set(parameters) <= set(papermill.inspect_notebook(ROOT / source))
        papermill.execute_notebook(ROOT / source, tmp_path / "out.ipynb", parameters, prepare_only=True)
    elif program == "cd":
        assert (ROOT / rest[0]).is_dir()
    elif program == "python":
        assert rest[:2] == ["-m", "book"] and CliRunner().invoke(book, [rest[2], "--help"]).exit_code == 0
    elif program == "fgmp":
        words = [word for word in rest[:2] if word in ("data", "list", "fetch", "predict")]
        assert words and CliRunner().invoke(cli, [*words, "--help"]).exit_code == 0
    else:
        assert [program, rest[0]] == ["pip", "install"]
        assert "-c" not in rest or (ROOT / rest[rest.index("-c") + 1]).exists()
        extras = re.search(r"\[(.+)\]", rest[-1])[1].split(",")
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(extras) <= set(known)


def test_the_code_of_the_faults_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (lines,) = python_blocks("FAULTS.md")
    names = {}
    exec(lines, names)
    result = names["result"]
    assert result.history["round"].tolist() == list(range(41)) and (tmp_path / "run.fgmp").exists()
    assert capsys.readouterr().out == f"{dict(result.left_out)} False\n"
    assert 40 < result.left_out["missing"] < 120  # 80 of 800 on average


def test_the_reasons_of_faults_are_all_in_the_table():
    table = (ROOT / "FAULTS.md").read_text()
    assert {f"| `{reason}` |" in table for reason in REASONS} == {True}


def test_the_three_lines_for_a_table_run():
    import matplotlib

    matplotlib.use("agg")
    rng = np.random.default_rng(0)
    X, site = rng.standard_normal((600, 8)), rng.integers(4, size=600)
    y = np.where(2 * X[:, 1] - 2 * X[:, 5] + rng.logistic(size=600) > 0, "ill", "well")
    names, lines = {"X": X, "y": y, "site": site}, python_blocks("README.md")[0]
    assert 'FedGradMPClassifier(sparsity="cv").fit(X, y, groups=site)' in lines and "bootstrap(200," in lines
    exec(lines.replace("bootstrap(200,", "bootstrap(3,"), names)
    np.testing.assert_array_equal(names["model"].support_, [1, 5])
    matplotlib.pyplot.close("all")


def example(class_name, module):
    """The class that CONTRIBUTING defines, and the line that follows it, in the names of a module."""
    blocks = python_blocks("CONTRIBUTING.md")
    (place,) = [i for i, block in enumerate(blocks) if re.search(rf"class {class_name}[(:]", block)]
    names = vars(fgmp) | vars(module)
    exec(blocks[place], names)
    return names, blocks[place + 1].strip()


def test_the_method_of_contributing_works():
    """In a tiny ball, by hand: each client goes to its border along its gradient at zero, the server averages."""
    names, line = example("FedClip", rivals)
    assert type(eval("{" + line + "}", names)["FedClip"](15, 0.1, learning_rate=0.01)) is names["FedClip"]
    fed, clip = fgmp.make_sparse_regression(3, 20, 30, 3, rng=0), 1e-3
    gradients = [client.gradient(np.zeros(30)) for client in fed.clients]
    by_hand = -clip * np.mean([g / np.linalg.norm(g) for g in gradients], axis=0)
    found = fgmp.simulate(names["FedClip"](clip=clip, learning_rate=0.01), fed, rounds=1)
    np.testing.assert_allclose(found.x, by_hand, atol=1e-15)


def test_the_loss_of_contributing_is_scipys_with_its_derivatives():
    loss = example("HuberLoss", losses)[0]["HuberLoss"](distance=0.7)
    z, y, step = np.linspace(-3, 3, 41), np.full(41, 0.11), 1e-6  # no prediction within a step of the corners
    np.testing.assert_allclose(loss.values(z, y), huber(0.7, z - y), atol=1e-15)
    slopes = (loss.values(z + step, y) - loss.values(z - step, y)) / (2 * step)
    np.testing.assert_allclose(loss.derivative(z, y), slopes, atol=1e-8)
    bends = (loss.derivative(z + step, y) - loss.derivative(z - step, y)) / (2 * step)
    np.testing.assert_allclose(loss.curvature(z, y, np.full(41, 2.0)), 2 * bends, atol=1e-8)


def test_the_loss_of_contributing_works():
    """One observation in ten is off by 5, and the minimiser on the support is that of SciPy."""
    names, line = example("HuberLoss", losses)
    rng, truth = np.random.default_rng(0), np.zeros(40)
    truth[[3, 20, 33]] = [1.0, -2.0, 1.5]
    names["As"] = [rng.standard_normal((100, 40)) for _ in range(4)]
    noise = [0.02 * rng.standard_normal(100) + 5 * (np.arange(100) % 10 == 0) for _ in range(4)]
    names["ys"] = [A @ truth + e for A, e in zip(names["As"], noise, strict=True)]
    exec(line, names)
    found = fgmp.simulate(fgmp.FedGradMP(3, local_iterations=3), names["fed"], 20, rng=0)
    np.testing.assert_array_equal(found.support, np.flatnonzero(truth))
    A, y = np.concatenate(names["As"])[:, found.support], np.concatenate(names["ys"])
    how = dict.fromkeys(("xtol", "ftol"), 1e-15) | {"gtol": 1e-12}
    peer = least_squares(lambda v: A @ v - y, np.zeros(3), loss="huber", f_scale=0.1, **how)
    np.testing.assert_allclose(fgmp.polish(found, names["fed"]).coefficients[found.support], peer.x, atol=1e-7)


def test_the_selection_of_contributing_works():
    """Against all pairs of blocks; and blocks at 6-8, 15-17 and 27-29, of unlike entries, are found."""
    names, line = example("Blocks", selection)
    rng = np.random.default_rng(0)
    truth = np.zeros(60)
    truth[[6, 7, 8, 15, 16, 17, 27, 28, 29]] = [3.0, 0.01, 0.01, 0.02, -4.0, 0.01, -0.01, 0.02, 5.0]
    As = [rng.standard_normal((40, 60)) for _ in range(3)]
    fed = fgmp.Federation.from_arrays(As, [A @ truth + 0.1 * rng.standard_normal(40) for A in As], truth=truth)
    in_blocks = fgmp.simulate(eval("{" + line + "}", names)["Blocks"](3), fed, rounds=10, rng=0)
    np.testing.assert_array_equal(in_blocks.support, np.flatnonzero(truth))
    blocks = names["Blocks"]()
    for magnitudes in rng.uniform(size=(20, 12)):
        best = max(combinations(range(4), 2), key=lambda pair: (magnitudes.reshape(4, 3)[list(pair)] ** 2).sum())
        marked = np.flatnonzero(blocks.mark(magnitudes, 2))
        np.testing.assert_array_equal(marked, [3 * block + i for block in best for i in range(3)])
        assert blocks.counted(marked, (12,)) == 2
