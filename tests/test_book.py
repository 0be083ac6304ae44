"""The notebooks as a book: a picture first, an answer last, and little scaffolding between."""

import re
from pathlib import Path

import headlines
import nbformat
import pytest
from normalise import printed

NOTEBOOKS = sorted(headlines.NOTEBOOKS.glob("[0-9]*.ipynb"))
NUMBER = re.compile(r"(?<![\w.^])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w^])")
SENTENCE = re.compile(r"[.!?](?=\s+[A-Z]|\s*$)")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def sections(notebook):
    """The titles of the sections, and the text under each."""
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def said(notebook):
    """All text that the outputs show."""
    values = [o.data.get("text/plain", "") for c in notebook.cells for o in c.get("outputs", []) if "data" in o]
    return printed(notebook) + "\n".join(values)


@each_notebook
def test_a_question_and_its_picture_stand_on_the_first_screen(path):
    notebook = read(path)
    first = notebook.cells[0].source
    assert re.match(r"# .+\n\n\*\*Question\.\*\* ", first)
    alone = re.search(r"^!\[([^\]]{20,})\]\(pictures/(.+)\.png\)$", first, flags=re.MULTILINE)
    assert alone and alone[2] == path.stem
    before, after = first[: alone.start()], first[alone.end() :].strip().partition("\n\n")[0]
    assert len(before.splitlines()) <= 10, "the picture has to be on the first screen"
    assert 2 <= len(SENTENCE.findall(after)) <= 3, after


@each_notebook
def test_the_picture_is_the_one_that_the_notebook_draws(path):
    notebook = read(path)
    assert sum("headline" in cell.metadata.get("tags", []) for cell in notebook.cells) == 1
    kept = headlines.PICTURES / f"{path.stem}.png"
    assert kept.read_bytes() == headlines.headline(notebook), "make refresh writes the pictures"


@each_notebook
def test_the_last_section_but_one_answers(path):
    titles = list(sections(read(path)))
    assert titles[-2:] == ["The answer", "References"]


@each_notebook
def test_the_answer_is_short_and_measured(path):
    notebook = read(path)
    answer = sections(notebook)["The answer"]
    assert 3 <= len(SENTENCE.findall(answer)) <= 6, answer
    numbers, found = ({number.lstrip("-") for number in NUMBER.findall(text)} for text in (answer, said(notebook)))
    assert numbers and not (missing := numbers - found), f"not in any output: {sorted(missing)}"


def test_no_picture_without_a_notebook():
    named = {path.stem for path in headlines.NOTEBOOKS.glob("[0-9]*.ipynb")}
    assert {path.stem for path in Path(headlines.PICTURES).glob("*")} <= named
