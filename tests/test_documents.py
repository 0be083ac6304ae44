"""README, CONTRIBUTING and FAULTS: their code runs, and every link leads to a file."""

import importlib
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import jupytext
import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scipy.optimize import least_squares
from scipy.special import huber

import fgmp
from fgmp import RejectReason, baselines, losses, selection
from fgmp.estimators.client_sums import ClientSums
from fgmp.estimators.small_cells import Counts

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("[bde]*/README.md"), *ROOT.glob("examples/*/*.md")]


def python_blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_link_of_a_document_leads_to_a_file(document):
    """Links to files of the repository."""
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_badge_of_a_notebook_leads_to_binder_where_the_repository_is_known():
    """On the site of a repository on GitHub; elsewhere it leads to the README, and to no made-up address."""
    lead_badge = runpy.run_path(str(ROOT / "docs" / "conf.py"))["lead_badge"]
    badge = "[![Run this notebook](pictures/run.svg)]"
    text = f"A title\n\n{badge}(../README.md#three-ways-in)\n\n[README](../README.md)"
    address = (
        "https://mybinder.org/v2/gh/OWNER/NAME/HEAD?urlpath=lab/tree/notebooks/00_start_here.ipynb"
    )
    led = lead_badge(text, "00_start_here", "OWNER/NAME")
    assert led == f"A title\n\n{badge}({address})\n\n[README](../README.md)"
    assert address.partition("?")[0] in (ROOT / "README.md").read_text(encoding="utf-8")
    for unknown in (None, ""):
        assert lead_badge(text, "00_start_here", unknown) == text


def test_promise_names_a_test_that_exists():
    """The table of docs/promises.md names tests by file and name."""
    table = (ROOT / "docs" / "promises.md").read_text()
    named = re.findall(r"(tests/[\w/]+\.py)::(\w+)", table)
    assert len(named) > 12
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"


MADE_OF = {
    Counts.ROWS: "all rows alike",
    Counts.CLASSES: "rows of a class against others: zeros if these are few",
}


def declarations(kind=ClientSums):
    """Return all sums of the package that clients may be asked for, in their order."""
    found = [kind] if kind.sums is not ClientSums.sums else []
    for below in kind.__subclasses__():
        found += declarations(below)
    return [kind for kind in found if kind.__module__.startswith("fgmp.")]


def test_table_of_sums_is_that_of_the_declarations():
    """docs/promises.md has a row for each sum, in the words of its declaration, and no other."""
    text = (ROOT / "docs" / "promises.md").read_text()
    table = text.partition("| A group is asked for | and sends | made of |\n|---|---|---|\n")[2]
    rows = table.partition("\n\n")[0].splitlines()
    importlib.import_module("fgmp.flower.fitting")  # which loads all of them, as at a client
    expected = [
        f"| {kind.description} | {kind.form} | {MADE_OF[kind.counts]} |" for kind in declarations()
    ]
    assert len(rows) > 10
    assert sorted(rows) == sorted(expected)


def test_code_of_the_readme_runs(capsys):
    """The algorithm in NumPy and the library agree, and reach the errors that the README names."""
    algorithm, library, own, _ = python_blocks("README.md")
    names = {}
    exec(algorithm, names)
    exec(library, names)
    errors = names["result"].history["relative_error"]
    assert [f"{error:.3g}" for error in errors[:3]] == ["1", "0.604", "0.135"]
    assert "relative errors: 1, 0.604, 0.135, and then rounding" in library
    assert (errors[3:] <= 1e-14).all()
    assert capsys.readouterr().out.endswith("\nTrue\n")
    assert "print(np.allclose(x, result.x))  # True" in library
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((80, 60)) for _ in range(12)]
    names |= {"As": As, "ys": [A[:, 0] for A in As]}
    exec(own, names)
    np.testing.assert_allclose(names["result"].x, np.eye(60)[0], atol=1e-12)


def test_algorithm_of_the_readme_is_that_of_the_first_notebook():
    """Its first two cells of code, line for line."""
    cells = jupytext.read(ROOT / "notebooks/00_start_here.py").cells
    code = [cell.source.strip() for cell in cells if cell.cell_type == "code"]
    assert python_blocks("README.md")[0].strip() == "\n\n\n".join(code[:2])


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("tau, n_samples", [(1, 6), (2, 12), (3, 5), (8, 9)])
def test_algorithm_of_the_readme_computes_what_the_method_does(tau, n_samples):
    """After each round, also where rows are fewer than merged features and tau is that of all."""
    names = {}
    exec(python_blocks("README.md")[0], names)
    for seed in range(3):
        fed = fgmp.make_sparse_regression(4, n_samples, 8, tau, noise_variance=0.1, rng=seed)
        As = [client.features for client in fed.clients]
        ys = [client.targets for client in fed.clients]
        method = fgmp.FedGradMP(tau, local_iterations=2)
        for rounds in range(3):
            x = names["fedgradmp"](As, ys, tau=tau, K=2, T=rounds)
            with fgmp.backend("reference"):
                found = fgmp.simulate(method, fed, rounds=rounds)
            np.testing.assert_allclose(x, found.x, atol=1e-9)


def test_commands_of_the_readme_are_targets_of_make():
    """Every `make name` of the README exists."""
    named = re.findall(
        r"(?:^|`)make ([a-z-]+)", (ROOT / "README.md").read_text(), flags=re.MULTILINE
    )
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert len(named) >= 4
    assert set(named) <= set(targets)


def test_readme_stays_short_and_its_code_fits_narrow_pages():
    """It is read in minutes, without a wide table, and no line of code is cut off or scrolls."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"^```\w*\n.*?```", "", readme, flags=re.DOTALL | re.MULTILINE)
    assert len(prose) <= 6500
    assert not re.search(r"^\|", readme, re.MULTILINE)
    blocks = re.findall(r"^```\w*\n(.*?)```", readme, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 20
    assert max(map(len, lines)) <= 72, max(lines, key=len)


def test_code_of_the_list_of_faults_runs(tmp_path, monkeypatch, capsys):
    """FAULTS.md has an example, and a line for every reason of rejection."""
    monkeypatch.chdir(tmp_path)
    (lines,) = python_blocks("FAULTS.md")
    names = {}
    exec(lines, names)
    result = names["result"]
    assert result.history["round"].tolist() == list(range(41))
    assert (tmp_path / "run.fgmp").exists()
    assert capsys.readouterr().out == f"{dict(result.rejected)} False\n"
    assert 40 < result.rejected["missing"] < 120  # 80 of 800 on average
    assert {f"| `{reason}` |" in (ROOT / "FAULTS.md").read_text() for reason in RejectReason} == {
        True
    }


TABLE_OF_README = re.search(
    r"```\n(feature .*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
)[1]
# Packages that are not on a list cannot be imported, and the lines of README for a table run.
LINES_OF_README = """
import re, sys
from importlib.metadata import packages_distributions

allowed = set(sys.argv[1].split())
of_modules = packages_distributions().items()
others = {name for name, owners in of_modules if not allowed & {o.lower() for o in owners}}

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in others - {"fgmp"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
lines = re.findall(r"```python\\n(.*?)```", open("README.md").read(), re.DOTALL)[-1]
assert "bootstrap(200," in lines
exec(lines.replace("bootstrap(200,", "bootstrap(3,"))
"""


def install_line_of_readme():
    """Return what the README says to install: fgmp with extras, and other packages."""
    (line,) = re.findall(r"`pip install (.*?)`", (ROOT / "README.md").read_text(), re.MULTILINE)[:1]
    return shlex.split(line)


def installed_by(requirements):
    """Return the names of the distributions that these, and what they ask for, install."""
    found = {}
    left = [(Requirement(text), "") for text in requirements]
    while left:
        requirement, extra = left.pop()
        name = canonicalize_name(requirement.name)
        is_asked_for = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if is_asked_for and not {"", *requirement.extras} <= found.get(name, set()):
            found[name] = {"", *requirement.extras}
            asked = [Requirement(text) for text in metadata.requires(name) or ()]
            left += [(one, extra) for one in asked for extra in found[name]]
    return set(found)


def test_lines_of_the_readme_run_with_what_its_line_installs():
    """They print the table that README shows: no package is missing, and no number is another."""
    of_fgmp, *others = install_line_of_readme()
    extras = re.fullmatch(r"\.\[(.*)\]", of_fgmp)[1].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *others]
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    allowed = installed_by(requirements)
    assert {"pandas", "narwhals", "matplotlib"} <= allowed and "pooch" not in allowed

    command = [sys.executable, "-c", LINES_OF_README, " ".join(allowed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.partition("\nfeature ")[2].partition("\n\n")[0].splitlines()[2:]
    shown = [line.split() for line in TABLE_OF_README.splitlines()]
    assert shown[0] == ["feature", "per", "odds", "ratio", "low", "high"]
    rows = zip(printed, shown[1:], strict=True)
    assert [line.split()[: len(cells)] for line, cells in rows] == shown[1:]


def example(class_name, module):
    """Run the definition of a class in CONTRIBUTING; return the names, and the block after it."""
    blocks = python_blocks("CONTRIBUTING.md")
    (index,) = [i for i, block in enumerate(blocks) if re.search(rf"class {class_name}[(:]", block)]
    names = vars(fgmp) | vars(module)
    exec(blocks[index], names)
    return names, blocks[index + 1].strip()


def test_method_of_contributing_works():
    """In a tiny ball each client goes to the sphere along its gradient, and the server averages."""
    names, line = example("FedClip", baselines)
    assert (
        type(eval("{" + line + "}", names)["FedClip"](15, 0.1, learning_rate=0.01))
        is names["FedClip"]
    )
    fed = fgmp.make_sparse_regression(3, 20, 30, 3, rng=0)
    clip = 1e-3
    gradients = [client.gradient(np.zeros(30)) for client in fed.clients]
    by_hand = -clip * np.mean([g / np.linalg.norm(g) for g in gradients], axis=0)
    found = fgmp.simulate(names["FedClip"](clip=clip, learning_rate=0.01), fed, rounds=1)
    np.testing.assert_allclose(found.x, by_hand, atol=1e-15)


def test_loss_of_contributing_works():
    """One row in ten is off by 5, and the minimiser on the support is that of SciPy."""
    names, line = example("HuberLoss", losses)
    rng = np.random.default_rng(0)
    truth = np.zeros(40)
    truth[[3, 20, 33]] = [1.0, -2.0, 1.5]
    names["As"] = [rng.standard_normal((100, 40)) for _ in range(4)]
    noise = [0.02 * rng.standard_normal(100) + 5 * (np.arange(100) % 10 == 0) for _ in range(4)]
    names["ys"] = [A @ truth + e for A, e in zip(names["As"], noise, strict=True)]
    exec(line, names)
    found = fgmp.simulate(fgmp.FedGradMP(3, local_iterations=3), names["fed"], 20, rng=0)
    np.testing.assert_array_equal(found.support, np.flatnonzero(truth))
    A = np.concatenate(names["As"])[:, found.support]
    y = np.concatenate(names["ys"])
    how = dict.fromkeys(("xtol", "ftol"), 1e-15) | {"gtol": 1e-12}
    peer = least_squares(lambda v: A @ v - y, np.zeros(3), loss="huber", f_scale=0.1, **how)
    predictions = np.linspace(-3, 3, 41)
    values = names["fed"].loss.values(predictions, np.zeros(41))
    np.testing.assert_allclose(values, huber(0.1, predictions), atol=1e-15)
    np.testing.assert_allclose(
        fgmp.polish(found, names["fed"]).coefficients[found.support], peer.x, atol=1e-7
    )

    # From zero nearly all rows are where the loss is linear.
    names["ys"] = [A @ (50 * truth) + e for A, e in zip(names["As"], noise, strict=True)]
    exec(line, names)
    far = fgmp.simulate(fgmp.FedGradMP(3, local_iterations=3), names["fed"], 20, rng=0)
    np.testing.assert_allclose(far.x, 50 * truth, atol=0.05)


def test_selection_of_contributing_works():
    """Blocks of neighbouring atoms with unlike entries are found."""
    names, line = example("Blocks", selection)
    rng = np.random.default_rng(0)
    truth = np.zeros(60)
    truth[[6, 7, 8, 15, 16, 17, 27, 28, 29]] = [3.0, 0.01, 0.01, 0.02, -4.0, 0.01, -0.01, 0.02, 5.0]
    As = [rng.standard_normal((40, 60)) for _ in range(3)]
    fed = fgmp.Federation.from_arrays(
        As, [A @ truth + 0.1 * rng.standard_normal(40) for A in As], truth=truth
    )
    in_blocks = fgmp.simulate(eval("{" + line + "}", names)["Blocks"](3), fed, rounds=10, rng=0)
    np.testing.assert_array_equal(in_blocks.support, np.flatnonzero(truth))


def test_loop_of_contributing_is_that_of_the_package():
    """What CONTRIBUTING shows is in `fgmp.simulation`, line for line."""
    (loop,) = [block for block in python_blocks("CONTRIBUTING.md") if "def run_round" in block]
    code = [line.strip() for line in (ROOT / "fgmp/simulation.py").read_text().splitlines()]
    assert [line for line in loop.splitlines() if line.strip() and line.strip() not in code] == []
