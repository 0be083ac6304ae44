"""ERRATA.md and the letter to the authors: weights, links, labels and lines.

The paper is not in the repository; FGMP_PAPER may name its source.
"""

import os
import re
from pathlib import Path

import nbformat
import pytest

from book import ledger

ROOT = Path(__file__).parents[1]
ERRATA = (ROOT / "ERRATA.md").read_text(encoding="utf-8")
LETTER = (ROOT / "docs" / "letter.md").read_text(encoding="utf-8")
TABLES = "Misprints", "Silences, and what we chose"
ENTRY = re.compile(
    r"^\*\*(\d+)\. ([^*]+)\*\* · ([\d, ]+?)(?: \(([^)]+)\))? · \*([^*]+)\*<br>$", re.M
)
SHOWN = re.compile(r"\[(\d\d)\]\(notebooks/(\w+)\.ipynb\), \"([^\"]+)\"")

# Fragments of the lines that ERRATA.md names, by which a shifted number is noticed.
LISTED = Path(__file__).with_name("errata_lines.txt").read_text(encoding="utf-8").splitlines()
LINES = {int(number): fragment for number, _, fragment in (line.partition(" ") for line in LISTED)}


def numbers(text):
    return [int(number) for number in re.findall(r"\d+", text)]


def section(title):
    return ERRATA.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title):
    """Cells of the table in a section, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def lines_named():
    named = [number for entry in ENTRY.finditer(ERRATA) for number in numbers(entry[3])]
    for title in TABLES:
        named += [number for row in rows(title) for number in numbers(row[0])]
    named += [
        int(n)
        for n in re.findall(r"^- \*\*.*\(.*?(\d{3,4})\)", section("Better than claimed"), re.M)
    ]
    for several in re.findall(
        r"\blines?\s+(\d{3,4}(?:(?:, | and | to )\d{3,4})*)", ERRATA + LETTER
    ):
        named += numbers(several)
    named += [int(line) for _, line in constants_of_the_letter()]
    return sorted(set(named))


def constants_of_the_letter():
    """Return the entry and the line of each constant that the letter calls false."""
    found = re.findall(r"^\| [^|]+ \| (\d+) \|.*\| (\d+) \|$", LETTER, re.M)
    return [(entry, line) for line, entry in found]


def test_entries_of_errata_have_number_weight_and_lines():
    """Every line of the paper that is named has its fragment in errata_lines.txt."""
    entries = list(ENTRY.finditer(ERRATA))
    assert sorted(int(entry[1]) for entry in entries) == list(range(1, len(entries) + 1))
    false = [
        entry
        for entry in re.split(r"^(?=\*\*\d+\. )", ERRATA, flags=re.M)
        if "*statement false*<br>" in entry
    ]
    assert all("**What remains:**" in entry for entry in false)
    assert len(entries) == len(re.findall(r"^\*\*\d+\.", ERRATA, re.M))
    weights = set(re.findall(r"^- \*([^*]+)\*:", ERRATA, re.M))
    assert len(weights) == 7
    assert {entry[5] for entry in entries} <= weights
    assert lines_named() == sorted(LINES)
    for title in TABLES:
        assert rows(title)
        assert not [row for row in rows(title) if len(row) != 3 or not re.match(r"\d", row[0])]


def test_letter_names_each_false_constant_with_a_line_of_its_entry():
    """It names all of them, and no other, asks about four figures, and has today's count."""
    lines = {entry[1]: numbers(entry[3]) for entry in ENTRY.finditer(ERRATA)}
    false = [entry[1] for entry in ENTRY.finditer(ERRATA) if entry[5] == "statement false"]
    found = constants_of_the_letter()
    assert [entry for entry, _ in found] == false
    assert all(int(line) in lines[entry] for entry, line in found)
    assert re.findall(r"^(\d)\. ", LETTER, re.M) == [str(number) for number in range(1, 10)]
    words = " ".join(LETTER.split())
    assert "has not been sent" in words
    figures = ledger.count(ledger.records())["figures"]
    assert f"{figures.total()} statements about the figures: {ledger.in_words(figures)}" in words


def test_sections_named_by_errata_exist():
    """Each link to a notebook names a heading of it."""
    links = SHOWN.findall(ERRATA)
    assert len(links) >= 20
    for number, name, heading in links:
        assert name.startswith(number)
        cells = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        assert heading in re.findall(r"^##+ (.+)$", text, re.M), (
            f"{name} has no section {heading!r}"
        )


@pytest.mark.skipif(
    "FGMP_PAPER" not in os.environ, reason="FGMP_PAPER does not name the source of the paper"
)
def test_lines_and_labels_of_errata_are_those_of_the_paper():
    """Compared with the source, if FGMP_PAPER names it."""
    text = Path(os.environ["FGMP_PAPER"]).read_text(encoding="utf-8")
    paper = text.splitlines()
    assert len(paper) == 1713
    assert {
        n: fragment for n, fragment in LINES.items() if not fragment or fragment not in paper[n - 1]
    } == {}
    heads = " ".join(entry[4] or "" for entry in ENTRY.finditer(ERRATA)) + section(
        "Better than claimed"
    )
    assert set(re.findall(r"`([a-zA-Z]+:[^`]+)`", heads)) <= set(
        re.findall(r"\\label\{([^}]+)\}", text)
    )
