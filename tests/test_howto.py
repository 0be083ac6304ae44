"""The pages of the site that show code: it runs, and no public name is missing in the reference."""

import inspect
import re
import shlex
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pictures_of_reference
import pytest
from cases import PUBLIC_NAMES
from click.testing import CliRunner

import fgmp
import fgmp.flower
from book.__main__ import main as book

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "howto").glob("*.md"))
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def run_code(page):
    """Run the blocks of Python of a page in one namespace, and return it."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names = {"__name__": page.stem}
    for block in blocks:
        exec(block, names)
    return names


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """A folder of its own: examples write files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_of_a_page_runs(page, empty_folder):
    """What a reader copies works."""
    run_code(page)


def test_code_of_missing_values_finds_the_features_that_made_the_data(empty_folder, capsys):
    """Age and ward B, although every tenth age is missing, and all ages of a site."""
    model = run_code(ROOT / "docs/howto/units_and_missing_values.md")["model"]
    out = capsys.readouterr().out
    assert "age is missing" in out and "ward=B" in out
    names = model.encoding_.column_names()
    assert abs(model.coef_[names.index("ward=B")] - 3) < 1
    assert abs(model.coef_[names.index("age")] - 0.2) < 0.05


def test_code_of_intercepts_finds_levels_and_keeps_age_and_sex(empty_folder):
    """The levels increase, and a new hospital has one."""
    names = run_code(ROOT / "docs/howto/intercepts_and_fixed_columns.md")
    model = names["model"]
    assert names["X"].columns[model.support_].tolist() == ["age", "sex", "a", "d"]
    levels = [model.intercepts_[site] for site in range(5)]
    assert sorted(levels, reverse=True) == levels or sorted(levels) == levels
    assert abs(model.intercepts_["new"]) < 2


def test_code_of_predictions_by_hand_has_those_of_the_model(empty_folder):
    """Of all 920 patients, from the file alone."""
    names = run_code(ROOT / "docs/howto/predict_in_r.md")
    by_hand = [names["probability"](row) for row in names["rows"]]
    expected = names["model"].predict_proba(names["X"])[:, 1]
    np.testing.assert_allclose(by_hand, expected, rtol=1e-12)
    assert any(term["name"].endswith("missing") for term in names["content"]["coefficients"])


def test_code_of_counts_finds_the_features_that_made_the_data(empty_folder):
    """The code of the page on counts selects features 2 and 7."""
    model = run_code(ROOT / "docs/howto/counts.md")["model"]
    assert model.support_.tolist() == [2, 7]


def test_code_of_resume_says_that_the_bits_are_those_of_an_uninterrupted_run(empty_folder, capsys):
    """And its run did resume: the checkpoint was there."""
    run_code(ROOT / "docs/howto/resume.md")
    assert capsys.readouterr().out == "True\n"
    assert (empty_folder / "run.fgmp").exists()


def test_code_of_own_method_keeps_its_ball_and_finds_no_kernel(empty_folder):
    """The norm is at most that of the ball, up to rounding."""
    names = run_code(ROOT / "docs/howto/own_method.md")
    result = names["result"]
    assert np.linalg.norm(result.x) <= 0.5 + 1e-12
    assert result.backend == "reference"


def test_code_of_own_hospital_fills_in_and_encodes(empty_folder):
    """The empty age is the one agreed on; ward B is a column of zeros and ones."""
    names = run_code(ROOT / "docs/howto/own_hospital.md")
    names["csv"].seek(0)
    X, y = names["read"](names["csv"], ["age", "ward=B"])
    np.testing.assert_array_equal(X, [[70.0, 0.0], [61.0, 1.0]])
    assert y.tolist() == ["well", "ill"]


def test_commands_of_the_sweep_name_options_and_parameters_that_exist(monkeypatch):
    """They are parsed as `python -m book` parses them, and nothing runs."""
    tasks = []

    def record(*given):
        tasks.append(given)
        return len(given[1])

    monkeypatch.setattr("book.running.sweep", record)
    text = (ROOT / "docs/howto/sweep.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^python -m book (sweep .*)$", text, re.MULTILINE)
    done = CliRunner().invoke(book, args=shlex.split(command))
    assert done.exit_code == 0, done.output
    assert len(tasks) == 1 and len(tasks[0][1]) == 6  # three values, and two lists


def test_pages_are_listed_on_the_page_of_how_do_i():
    """Each, once."""
    index = (ROOT / "docs" / "howto.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(howto/(\w+)\.md\)", index)) == [page.stem for page in PAGES]


def test_each_link_of_a_page_leads_to_a_file():
    """Of the pages, their index and the reference."""
    for page in (*PAGES, ROOT / "docs/howto.md", ROOT / "docs/reference.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_each_public_name_stands_in_the_reference():
    """With a link to its page."""
    wanted = {*PUBLIC_NAMES, *fgmp.flower.__all__}
    linked = set(re.findall(r"{py:(?:class|func)}`[^`]*<[\w.]*\.(\w+)>`", REFERENCE))
    assert wanted - linked == set()


def test_each_link_of_the_reference_is_where_the_name_is_defined():
    """The site has a page there: a module moves, and its link with it."""
    for shown, where in re.findall(r"{py:(?:class|func)}`([\w.]+) <([\w.]+)>`", REFERENCE):
        module, _, name = where.rpartition(".")
        thing = getattr(__import__(module, fromlist=[name]), name)
        assert shown.rpartition(".")[2] == name
        defined_in = thing.__module__
        if "._" in defined_in:  # the site has no page of a private module
            defined_in = "fgmp"
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert defined_in == module, where


def test_each_name_is_seen_at_work_where_the_reference_says():
    """A notebook of a row has one of its names in its code."""
    for line in REFERENCE.splitlines():
        names = re.findall(r"\.(\w+)>`", line)
        for notebook in re.findall(r"notebooks/(\w+)\.ipynb", line):
            code = (ROOT / "notebooks" / f"{notebook}.py").read_text(encoding="utf-8")
            shorts = [name for name in names if re.search(rf"\b{name}\b", code)]
            bootstrapped = {"Bootstrap", "SparsityPath"} & set(names) and ".bootstrap(" in code
            assert shorts or bootstrapped or "fgmp.simulate(" in code, (notebook, names)


def test_examples_of_the_reference_run_and_each_part_has_its_picture(empty_folder):
    """Seven parts by task; the pictures that are committed come from the same code."""
    parts = re.findall(r"^## (.*)$", REFERENCE, re.MULTILINE)
    pictures = []
    for picture, figure in pictures_of_reference.figures():
        assert figure.axes and any(axes.has_data() for axes in figure.axes)
        assert (ROOT / "docs" / picture).exists()
        pictures.append(picture)
        plt.close(figure)
    named = [f"pictures/{part.lower().replace(' ', '_')}.png" for part in parts[:-1]]
    assert pictures == named


def test_extras_to_install_are_those_of_the_project():
    """The list names each that a user of the module may want."""
    page = (ROOT / "docs/howto/install.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^- `(\w+)`", page, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (everything,) = project["optional-dependencies"]["all"]
    assert named == {*re.search(r"\[(.*)\]", everything)[1].split(","), "all"}


def test_versions_agree():
    """Of the module, the project, the citation, the archive, and the newest of the changelog."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == fgmp.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {fgmp.__version__}\n" in citation
    assert f'"version": "{fgmp.__version__}"' in (ROOT / ".zenodo.json").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[?(\d+\.\d+\.\d+)", changelog, re.MULTILINE)
    assert released[0] == fgmp.__version__
