"""What holds for every committed notebook, and that each refuses wrong parameters.

nbval runs all with their own parameters (`make test`), `make soak` with those of small.yaml; three
of the notebooks run here.
"""

import ast
import io
import json
import math
import os
import re
import statistics
import subprocess
import tokenize
from pathlib import Path

import jupytext
import nbformat
import numpy as np
import papermill
import pytest
import yaml
from figure_faults import HOOK
from jupytext.compare import compare_notebooks
from PIL import Image

from book import keeping, pairs, plays, running
from book.keeping import VERDICT, seen

NOTEBOOKS = sorted(pairs.NOTEBOOKS.glob("[0-9]*.ipynb"))
KEPT = sorted(pairs.NOTEBOOKS.glob("results/*.ipynb"))
SMALL = yaml.safe_load((pairs.NOTEBOOKS / "small.yaml").read_text())
NUMBER = re.compile(r"(?<![\w.^])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w^])")
# `make soak` runs all of them.
RERUN = SMALL if os.environ.get("FGMP_SOAK") else ("01_linear_convergence",)

each_notebook, each_kept_run = (
    pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)
    for paths in (NOTEBOOKS, KEPT)
)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def lines_of(cell):
    return [line for line in cell.source.splitlines() if line.strip()]


def printed(notebook):
    return "\n".join(
        o.text for cell in code(notebook) for o in cell.outputs if o.output_type == "stream"
    )


def text_of(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def sections(notebook):
    parts = re.split(r"^## (.+)$", text_of(notebook), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@each_notebook
def test_notebook_pair_is_in_step_and_was_executed_in_order(path):
    """Without metadata of a machine, warnings, errors, megabytes, or long cells."""
    notebook = pairs.read(path)
    source = pairs.normalise(jupytext.read(path.with_suffix(".py"), fmt="py:percent"))
    compare_notebooks(source, notebook, fmt="py:percent")  # with what folds cells in JupyterLab
    counts = [cell.execution_count for cell in code(notebook) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    assert nbformat.writes(pairs.normalise(pairs.read(path))) == nbformat.writes(notebook)
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"] == []
    assert "Warning:" not in printed(notebook)
    assert path.stat().st_size < 2e6
    assert max(len(lines_of(cell)) for cell in code(notebook)) <= 20
    unfolded = [one for one in code(notebook) if "hide-input" not in one.metadata.get("tags", [])]
    assert statistics.median(len(lines_of(cell)) for cell in unfolded) <= 6


def parameters_and_checks(path):
    """Return the cell of the parameters, their values, and the code that checks them."""
    cells = code(jupytext.read(path.with_suffix(".py")))
    index = next(k for k, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", []))
    first, *others = [cell.source for cell in cells[index : index + 3]]
    checks = [
        source
        for source in others
        if "check_parameters(" in source and not re.search(r"^import |^def ", source, re.M)
    ]
    return (
        cells[index],
        {one.targets[0].id: ast.literal_eval(one.value) for one in ast.parse(first).body},
        checks,
    )


@each_notebook
def test_parameters_are_commented_literals_with_checked_ranges(path, caplog):
    """Papermill finds them, the defaults pass, and a value out of range is named in one line."""
    cell, given, found = parameters_and_checks(path)
    tokens = tokenize.generate_tokens(io.StringIO(cell.source).readline)
    assert (
        sum(token.type == tokenize.COMMENT for token in tokens) == len(given) == len(lines_of(cell))
    )
    assert list(papermill.inspect_notebook(path)) == list(given)
    assert not caplog.records
    checks = "\n".join(found)
    exec(checks, dict(given))
    for name in set(given) - {"variance_decay", "lie", "video"}:  # any number, or a path
        wrong = (
            "no such"
            if isinstance(given[name], str)
            else -1
            if not isinstance(given[name], list)
            else [-1, -1]
        )
        with pytest.raises((ValueError, TypeError)) as caught:
            exec(checks, given | {name: wrong})
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


WRONG = {
    "whole": [10.5, 10.0, True, "four", "1e-6", None, [10], [], {}, math.inf, -math.inf, math.nan],
    "number": [True, "four", "1e-6", None, [0.5], [], {}, math.inf, -math.inf, math.nan],
    "text": [10, 10.5, True, None, ["digits"], {}, math.inf, math.nan],
    "list": [
        10,
        10.5,
        True,
        "four",
        None,
        [],
        {},
        math.inf,
        math.nan,
        [None],
        [True],
        ["1e-6", 1],
        [math.nan],
        [[1]],
    ],
}
# Parameters that take values of another type than their default has.
ALSO = {
    ("01", "alpha"): [10, 10.5],
    ("01", "local_iterations"): [10],
    ("02", "video"): ["four", "1e-6"],
    ("09", "learning_rates"): [[0.5]],
    ("10", "learning_rates"): [[0.5]],
    ("09", "sparsity"): [[10]],
    ("10", "sparsity"): [[10]],
    ("10", "small_sparsity"): [10],
    ("15", "sparsity"): [10],
}


def wrong_values(number, name, default):
    """Values that a parameter must not have, by the type of its default."""
    if isinstance(default, list):
        kind = "list"
    elif isinstance(default, str):
        kind = "text"
    else:
        kind = "number" if isinstance(default, float) or name == "learning_rates" else "whole"
    allowed = ALSO.get((number, name), [])
    return [
        value for value in WRONG[kind] if not any(value is one or value == one for one in allowed)
    ]


@each_notebook
def test_parameter_of_wrong_type_stops_in_the_first_check(
    path,
):
    """By one line that names it, whatever papermill, YAML and Python may bring."""
    _, given, (first, *_) = parameters_and_checks(path)
    for name, default in given.items():
        for value in wrong_values(path.stem[:2], name, default):
            if value is None and default is None:
                continue
            with pytest.raises((ValueError, TypeError)) as caught:
                exec(first, given | {name: value})
            shown = str(caught.value)
            assert shown.startswith(f"{name}=") and ": expected " in shown and "\n" not in shown, (
                name,
                value,
                shown,
            )
    exec(first, dict(given))


@each_notebook
def test_notebook_begins_with_a_question_and_its_picture(path):
    """The picture of a notebook has a description, and is its figure as it is committed."""
    notebook = pairs.read(path)
    first = notebook.cells[0].source
    assert re.match(r"# .+\n\n\*\*Question\.\*\* ", first)
    cover = re.search(
        r"^!\[([^\]]{20,})\]\((pictures/(.+)\.(png|gif))\)$", first, flags=re.MULTILINE
    )
    assert cover[3] == path.stem
    assert (path.parent / cover[2]).exists()
    for tag, file in pairs.pictures(path.stem).items():
        assert file.read_bytes() == pairs.picture(notebook, tag), "make refresh writes the pictures"


def test_first_cover_moves():
    """It shows the votes of thirty clients in three rounds, and never stops."""
    path = pairs.NOTEBOOKS / "pictures" / "00_start_here.gif"
    assert path.stat().st_size < 300_000
    with Image.open(path) as cover:
        assert cover.n_frames > 3 * 10
        assert cover.info["loop"] == 0


@pytest.mark.parametrize("path", NOTEBOOKS[:9], ids=lambda path: path.stem)
def test_figure_has_words_for_readers_who_cannot_see_it(path):
    """Whole sentences, and no formula."""
    outputs = [output for cell in code(pairs.read(path)) for output in cell.outputs]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert pictures
    for picture in pictures:
        words = picture.metadata["image/png"]["alt"]
        assert len(words.split()) >= 8 and "$" not in words


@pytest.mark.parametrize("path", NOTEBOOKS[:9], ids=lambda path: path.stem)
def test_cells_that_draw_check_or_claim_can_be_folded(path):
    """They have the tag by which the site folds them."""
    for cell in code(pairs.read(path)):
        if re.search(r"^\s*(claim|check_parameters|alt)\(", cell.source, re.MULTILINE):
            assert "hide-input" in cell.metadata.get("tags", []), cell.source


@each_notebook
def test_figures_of_a_notebook_are_described(path):
    """Who does not see a figure hears what is on its axes, and pages show it in its size."""
    outputs = [output for cell in code(pairs.read(path)) for output in cell.outputs]
    stored = [
        one.metadata.get("image/png", {}) for one in outputs if "image/png" in one.get("data", {})
    ]
    assert stored
    assert all(one.get("alt") and one.get("width") and one.get("height") for one in stored)


@each_notebook
def test_cells_that_check_claim_or_only_draw_are_folded(path):
    """The site folds what has the tag hide-input, and most cells tell the story, open."""
    cells = code(pairs.read(path))
    folded = ["hide-input" in cell.metadata.get("tags", []) for cell in cells]
    asides = [pairs.is_aside(cell.source) for cell in cells]
    assert all(fold for fold, aside in zip(folded, asides, strict=True) if aside)
    assert not folded[0]  # the parameters


@pytest.mark.parametrize("path", [*NOTEBOOKS, *KEPT], ids=lambda path: path.stem)
def test_cell_that_the_site_folds_is_folded_in_jupyter_too(path):
    """The tag of the site and the metadata of JupyterLab stand together; outputs stay visible."""
    for cell in code(pairs.read(path)):
        folded = "hide-input" in cell.metadata.get("tags", [])
        assert cell.metadata.get("jupyter", {}) == ({"source_hidden": True} if folded else {})


@each_notebook
def test_parameters_are_checked_by_rules_and_not_by_asserts(path):
    """A reader does not see lines of checks; each message names parameter, value and what was expected."""
    assert not [
        cell.source
        for cell in code(pairs.read(path))
        if re.search(r"^\s*assert ", cell.source, re.M)
    ]


@each_notebook
def test_claims_stand_in_one_section_near_the_end(path):
    """Figures and what they show come without verdicts between them."""
    heading, at = "", []
    for cell in pairs.read(path).cells:
        if cell.cell_type == "markdown":
            heading = [heading, *re.findall(r"^## (.+)$", cell.source, flags=re.MULTILINE)][-1]
        elif any(VERDICT.match(one.get("text/plain", "")) for one in seen(cell)[1:]):
            at.append(heading)
            assert "hide-input" in cell.metadata.get("tags", [])
    assert set(at) == {"What was measured"}


@each_notebook
def test_reader_guesses_before_a_result(path):
    """Once at least, and before the claims."""
    before = text_of(pairs.read(path)).partition("## What was measured\n")[0]
    assert "**Guess first.** " in before


@each_notebook
def test_notebook_has_a_badge_that_leads_to_where_it_runs(path):
    """The README says how; the address of the repository is nowhere made up."""
    first = pairs.read(path).cells[0].source
    assert first.count("[![Run this notebook](pictures/run.svg)](../README.md#three-ways-in)") == 1
    assert (path.parent / "pictures" / "run.svg").exists()
    assert "## Three ways in\n" in (pairs.NOTEBOOKS.parent / "README.md").read_text(
        encoding="utf-8"
    )


def test_reference_to_the_paper_stands_once():
    """In the first notebook; the others lead there."""
    having = [path.stem for path in NOTEBOOKS if "4512-4537" in text_of(pairs.read(path))]
    assert having == ["00_start_here"]


@each_notebook
def test_slider_has_its_picture_beside_it(path):
    """Where scripts do not run, a figure has stood before it, and the text says so."""
    cells = pairs.read(path).cells
    for number, cell in enumerate(cells):
        if cell.cell_type == "code" and re.search(r"^(slide|sliders)\(", cell.source, re.MULTILINE):
            assert "page that runs no scripts" in " ".join(cells[number - 1].source.split()).lower()
            assert any("image/png" in one for one in seen(cells[number - 2])[1:])


@each_notebook
def test_notebook_ends_with_answer_changes_and_references(path):
    """In this order, so that a reader finds them."""
    last = list(sections(pairs.read(path)))[-3:]
    assert last == ["The answer", "Predict, then change", "References"]


@each_notebook
def test_numbers_of_the_answer_are_printed_or_claimed(path):
    """No number of the answer is out of date."""
    notebook = pairs.read(path)
    records = json.loads((pairs.NOTEBOOKS / "results" / f"{path.stem}.json").read_text())
    outputs = [output for cell in code(notebook) for output in cell.outputs if "data" in output]
    texts = [output.data.get("text/plain", "") for output in outputs]
    for claim in records["claims"]:
        texts += [claim["statement"], str(claim["expected"]), claim["shown"]]
    texts.append(printed(notebook))

    stated = absolute_numbers(sections(notebook)["The answer"])
    found = absolute_numbers("\n".join(texts))
    assert stated
    assert sorted(stated - found) == []


@each_notebook
def test_answer_is_short(path):
    """Three to five sentences, and at most five numbers outside of links and formulas."""
    answer = sections(pairs.read(path))["The answer"]
    plain = re.sub(r"\]\([^)]*\)|\$[^$]*\$", "]", answer).strip()
    assert 3 <= len(re.findall(r"[.?!](?=\s|$)", plain)) <= 5
    assert len(absolute_numbers(plain)) <= 5


def absolute_numbers(text):
    """Return the numbers in a text, without signs."""
    return {number.lstrip("-") for number in NUMBER.findall(text)}


@pytest.mark.parametrize(
    "name, number", [(name, k) for name in RERUN for k in range(len(SMALL[name]))]
)
def test_notebook_with_small_parameters_runs_with_readable_figures(name, number, tmp_path):
    """No error, and no fault in a figure."""
    out = tmp_path / "out.ipynb"
    report = tmp_path / "faults.txt"
    parameters = SMALL[name][number]
    notebook = running.unexecuted(pairs.find(name), parameters)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(HOOK.format(target=str(report))))
    report.touch()
    assert running.execute(notebook, pairs.NOTEBOOKS, out, parameters, alone=True) == ""
    assert report.read_text() == ""
    assert pairs.read(out).metadata.papermill.exception is None


def test_parameters_of_other_runs_exist():
    """Files of parameters name those of the notebooks."""
    assert sorted(SMALL) == [path.stem for path in NOTEBOOKS]
    for name, sets in SMALL.items():
        for values in sets:
            running.check_names(pairs.find(name), values)
    for run in keeping.kept_runs():
        running.check_names(run.source, run.parameters)


def test_kept_runs_are_those_of_paper_yaml_and_of_the_notebooks_as_they_are():
    """Each that is listed is there, with its parameters and of the code of its notebook, and no other."""
    assert keeping.outdated() == [], "make paper makes them anew"


@each_kept_run
def test_kept_run_has_its_records_and_repeats_nothing(path):
    """Its cells differ from those of the notebook, its links exist, its claims are recorded."""
    notebook = pairs.read(path)
    stem = path.stem.partition("-")[0]
    assert f"This is another run of [{stem}](../{stem}.ipynb), with `" in notebook.cells[0].source
    usual = [(one.source, seen(one)) for one in code(pairs.read(pairs.NOTEBOOKS / f"{stem}.ipynb"))]
    texts = {
        id(one): [data.get("text/plain", "") for data in seen(one)[1:]] for one in code(notebook)
    }
    claiming = [one for one in code(notebook) if any(map(VERDICT.match, texts[id(one)]))]
    assert [
        one.source
        for one in code(notebook)
        if (one.source, seen(one)) in usual and one not in claiming
    ] == []
    links = re.findall(r"\]\(([^)#]+)\)", text_of(notebook))
    assert [
        link for link in links if not link.startswith("http") and not (path.parent / link).exists()
    ] == []
    records = json.loads(path.with_suffix(".json").read_text())["claims"]
    lines = [
        text.partition(":")[0] for found in texts.values() for text in found if VERDICT.match(text)
    ]
    assert sorted(lines) == sorted(f"[{one['verdict']}] {one['id']}" for one in records)


@each_kept_run
def test_kept_run_has_the_words_of_its_notebook(path):
    """Claims and text are those of the notebook as it is, but for numbers."""
    kept = json.loads(path.with_suffix(".json").read_text())
    stem = path.stem.partition("-")[0]
    values = [
        re.escape(one)
        for one in (*kept["given_parameters"].values(), "digits")
        if isinstance(one, str)
    ]

    def words(one):
        text = " / ".join(
            str(one.get(name)) for name in ("source", "statement", "expected", "unit")
        )
        text = re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "#", re.sub("|".join(values), "DATA", text))
        return one["id"], re.sub(r"#(, #)+", "#", text)

    today = json.loads(path.with_name(f"{stem}.json").read_text())["claims"]
    assert set(map(words, kept["claims"])) <= set(map(words, today))
    current = text_of(pairs.read(pairs.NOTEBOOKS / f"{stem}.ipynb"))
    texts = [
        re.sub(r"\]\(\.\./", "](", c.source)
        for c in pairs.read(path).cells[1:]
        if c.cell_type == "markdown"
    ]
    assert [text for text in texts if text not in current] == []


def test_no_file_names_a_path_of_one_machine():
    """Paths of a developer's machine are in no file."""
    root = pairs.NOTEBOOKS.parent
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [
        root / name
        for name in listed.stdout.splitlines()
        if (root / name) != Path(__file__).resolve()
    ]
    texts = {
        path: path.read_bytes().decode("utf-8", errors="ignore") for path in paths if path.is_file()
    }
    assert [
        path for path, text in texts.items() if re.search(r"(?<![\w.])/(work|farm|root|tmp)/", text)
    ] == []


@pytest.mark.parametrize("stem", ["00_start_here", "01_linear_convergence"])
@pytest.mark.parametrize("last, ending", [(1e-16, "1, 0.5, below 1e-14"), (0.25, "1, 0.5, 0.25")])
def test_exact_run_is_called_exact(stem, last, ending, capsys):
    """And one that is not has its error printed."""
    cell = next(
        one
        for one in code(jupytext.read(pairs.find(stem).with_suffix(".py")))
        if "below {exact" in one.source
    )
    run = cell.source[cell.source.index("end = [") :]
    exec(run, dict.fromkeys(("errors", "start"), np.array([1.0, 0.5, last])) | {"exact": 1e-14})
    assert capsys.readouterr().out == f"relative errors: {ending}\n"


def test_rounds_of_runs_that_are_never_exact_are_no_number():
    """The text says how many seeds are not exact."""
    cells = code(jupytext.read(pairs.find("01").with_suffix(".py")))
    source = next(one.source for one in cells if "def mean_in_words" in one.source)
    names = {"np": np, "n_seeds": 3, "rounds": 14}
    exec(source[source.index("def mean_in_words") : source.index("for K, runs")], names)
    assert names["mean_in_words"](np.array([3.0, 4.0, 5.0])) == "4"
    shown = names["mean_in_words"](np.array([3.0, np.inf, 5.0]))
    assert shown == "no number (1 of 3 seeds are not exact after 14)"


@each_notebook
def test_folded_answer_quotes_its_run(path):
    """Parameters exist, lines are quoted, and every number is printed somewhere."""
    records = json.loads((pairs.NOTEBOOKS / "results" / f"{path.stem}.json").read_text())
    committed = [*plays.printed_by(pairs.read(path)), str(records["parameters"])]
    committed += [
        f"{one['shown']} {one['expected']} {one['statement']}" for one in records["claims"]
    ]
    found = plays.plays_of(path.with_suffix(".py"))
    assert [one.number for one in found] == [1, 2, 3]
    for play in found:
        assert any(records["parameters"][name] != value for name, value in play.parameters.items())
        assert play.lines
        assert plays.unsupported(play, committed) == []
