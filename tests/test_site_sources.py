"""What the site is made of, as far as it needs no Sphinx: links, verdicts, claims, reference, parameters."""

import os
import re
from html.parser import HTMLParser

import ledger
import nbformat
import pytest
import site_claims
import site_notebooks
import site_reference
import site_sources
from site_links import Links

import fgmp
from fgmp.book.claims import Claim

ROOT = site_sources.ROOT
BOOKS = site_sources.notebooks(ROOT)


class Table(HTMLParser):
    """Rows of a table, by their name, and all links."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.links = {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "tr" and "id" in found:
            assert found["id"] not in self.rows
            self.rows[found["id"]] = found
        self.links += [found["href"]] if "href" in found else []


@pytest.fixture
def links(tmp_path):
    for name in ("README.md", "docs/a.png", "tests/b.py", "fgmp/losses.py", "notebooks/00_x.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    pages = {"README.md": "index.md", "notebooks/00_x.ipynb": "notebooks/00_x.ipynb"}
    modules = {"fgmp": "module-fgmp", "fgmp/losses.py": "module-fgmp-losses"}
    return Links(tmp_path, pages, modules, titles={"README.md": "the first page"})


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("README.md", "[00](notebooks/00_x.ipynb#end)", "[00](notebooks/00_x.ipynb#end)"),
        ("notebooks/00_x.ipynb", "[README.md](../README.md)", "[the first page](../index.md)"),
        ("notebooks/00_x.ipynb", "[here](../README.md)", "[here](../index.md)"),
        (
            "README.md",
            "[fgmp/](fgmp), [losses](fgmp/losses.py)",
            "[fgmp/](#module-fgmp), [losses](#module-fgmp-losses)",
        ),
        ("README.md", "![a](docs/a.png)", "![a](docs/a.png)"),
        ("README.md", "[b](tests/b.py) in [tests](tests)", "[b](tests/b.py) in tests"),
        ("README.md", "[w](https://x.org/y_(z)), [h](#top)", "[w](https://x.org/y_(z)), [h](#top)"),
        ("README.md", "`a[i](b)` and\n```\nf[0](x)\n```", "`a[i](b)` and\n```\nf[0](x)\n```"),
        ("README.md", "[`b.py`](tests/b.py)", "[`b.py`](tests/b.py)"),
    ],
)
def test_links_become_those_of_the_site(links, place, text, expected):
    assert links.moved(text, place) == expected


def test_what_stays_in_the_repository_is_linked_there_or_travels_along(links):
    links.moved("[b](tests/b.py) ![a](docs/a.png)", "README.md")
    assert links.files == {"tests/b.py", "docs/a.png"}
    links.repository = "https://host/blob/main/"
    assert links.moved("[b](../tests/b.py)", "notebooks/00_x.ipynb") == "[b](https://host/blob/main/tests/b.py)"
    assert links.moved("[t](tests)", "README.md") == "[t](https://host/blob/main/tests)"


def test_a_dead_link_is_an_error(links):
    with pytest.raises(FileNotFoundError, match="README.md links to gone.md"):
        links.moved("[x](gone.md)", "README.md")


def test_verdicts_become_boxes_where_they_were_printed():
    one = Claim("a-b", "x < 1", "ours", "1", "holds", "0.5", measured=0.5)
    text = "before\n[holds] a-b (ours): x < 1 | expected: 1 | measured: 0.5\nafter\n[holds] c (ours): no record\n"
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
    first, box, last = site_notebooks.split_claims(outputs, {"a-b": one}, {"a-b": "../CLAIMS.html#run-a-b"})
    assert (first.text, last.text) == ("before\n", "after\n[holds] c (ours): no record\n")
    html = box.data["text/html"]
    assert 'id="claim-a-b"' in html and 'class="claim good"' in html and 'href="../CLAIMS.html#run-a-b"' in html
    assert "x &lt; 1" in html and "x < 1" not in html


@pytest.mark.parametrize("place", BOOKS)
def test_every_recorded_claim_has_its_place_in_its_notebook(place):
    """Also in kept runs, whose lines are of an older form; and nothing printed, drawn or written is lost."""
    run = next(run for run in ledger.runs() if run.name == place.rpartition("/")[2].removesuffix(".ipynb"))
    records = {claim.id: claim for claim in run.claims}
    notebook = nbformat.read(ROOT / place, as_version=4)
    pictures = str(notebook).count("image/png")
    links = Links(ROOT, site_sources.DOCUMENTS | {b: b for b in BOOKS}, site_reference.places(ROOT / "fgmp"))
    page = site_notebooks.as_page(notebook, place, links, records, dict.fromkeys(records, "#"))
    shown = "".join(str(output) for cell in page.cells for output in cell.get("outputs", []))
    assert sorted(re.findall(r'id="claim-([^"]+)"', shown)) == sorted(records)
    assert str(page).count("image/png") == pictures


def test_the_table_of_claims_has_a_row_for_each_and_leads_to_it():
    table = Table(site_claims.page(ledger.runs()))
    pairs = ledger.distinct(ledger.runs())
    assert set(table.rows) == {f"{run.name}-{claim.id}" for run, claim in pairs}
    for run, claim in pairs:
        row = table.rows[f"{run.name}-{claim.id}"]
        assert (row["data-verdict"], row["data-figure"]) == (claim.verdict, ledger.group(claim))
    for link in table.links:
        assert (ROOT / link.partition("#")[0].replace(".html", ".ipynb")).exists()


def test_the_reference_has_every_public_name():
    pages = "".join(
        site_reference.room_page(room, site_reference.fronts()) for room in site_reference.rooms(ROOT / "fgmp")
    )
    entries = re.findall(r"^\.\. auto(?:class|function):: (\S+)$", pages, re.MULTILINE)
    assert len(entries) == len(set(entries))
    for name in set(fgmp.__all__) - {"theory", "datasets"}:
        assert f"fgmp.{name}" in entries
    assert {f"fgmp.theory.{name}" for name in fgmp.theory.__all__} <= set(entries)
    for path in sorted((ROOT / "fgmp").rglob("[!_]*.py")):
        assert f".. automodule:: {'.'.join(path.relative_to(ROOT).with_suffix('').parts)}\n" in pages


def test_parameters_become_a_table():
    source = "n = 3  # n, a | number (at least 1; None is all)"
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": ["parameters"]})
    table = site_notebooks.parameter_table(nbformat.v4.new_notebook(cells=[cell]))
    assert table.splitlines()[-1] == r"| `n` | `3` | n, a \| number | at least 1; None is all |"
    assert site_notebooks.parameter_table(nbformat.v4.new_notebook()) == ""


def test_all_sources_are_written(tmp_path):
    site_sources.write(ROOT, tmp_path / "sources", animations=False)
    pages = {os.path.relpath(path, tmp_path / "sources") for path in (tmp_path / "sources").rglob("*.*")}
    assert {"conf.py", "index.md", "CLAIMS.md", "parameters.md", "reference/index.rst", *BOOKS} <= pages
    first = (tmp_path / "sources" / "index.md").read_text()
    listed = re.findall(r"<(notebooks/\S+)>$", first, re.MULTILINE)
    assert [f"{name}.ipynb" for name in listed] == BOOKS
