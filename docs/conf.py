"""How Sphinx makes the site, of the documents, the notebooks as committed, and the docstrings."""

import json
import os
import re
import shutil
import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "notebooks"))
from book import ledger, overview, paper_figures  # noqa: E402

# The parts of the book, in the order in which it is read, and the numbers of their notebooks.
PARTS = {
    "See it": (0, 19, 1, 2, 3),
    "Why it works": range(4, 9),
    "Real data and dials": range(9, 14),
    "Ours": range(14, 15),
    "Practice": range(15, 18),
    "Appendix": range(18, 19),
}
CONTENTS = {
    "Other runs": ["notebooks/results/*"],
    "What came out": ["CLAIMS", "docs/figures", "ERRATA", "docs/letter", "benchmarks/README"],
    "Symbols": ["docs/symbols"],
    "How do I ...": ["docs/howto", "docs/howto/*"],
    "The module": [
        "docs/reference",
        "docs/promises",
        "docs/sweeps",
        "FAULTS",
        "examples/hospitals/README",
        "examples/hospitals/at_a_hospital",
    ],
    "Working on it": ["README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "data/README"],
}
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([\w./-]+)\)")
HEADLINE = re.compile(r"!\[[^]]*\]\((?:\.\./)*(pictures/\w+\.png)\)")
BADGE = re.compile(r"(\[!\[[^]]*\]\(\S+\)\])\(\.\./README\.md#three-ways-in\)")
SHOWN_PER_STORED = 90 / 144  # dots per inch, as in notebooks/book/figures.py
WIDE = 600  # pixels: a telephone shows a wider figure in a frame of its own, in which it moves sideways
CODE = re.compile(r"(``.*?``|`[^`]*`)")

project = html_title = "Federated Gradient Matching Pursuit"
author = "the fgmp developers"
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "*/README.md",
    "examples/*/*.md",
    "docs/*.md",
    "docs/howto/*.md",
    "docs/api/*.rst",
    "notebooks/**.ipynb",
]
exclude_patterns = [".*", "build", "notebooks/.ipynb_checkpoints"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]

# The committed outputs are shown. Widgets would ask another host for their script; there are none.
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4

default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "ignore-module-all": True,
    "exclude-members": "set_fit_request, set_score_request, set_predict_request, "
    "set_predict_proba_request, set_predict_log_proba_request, set_decision_function_request, "
    "get_metadata_routing",
}
autosummary_generate = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # a type such as "shape" in a docstring is a word

html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["site.css", "formulas.js"]
html_extra_path = ["index.html"]
html_css_files = ["site.css"]
html_js_files = [("formulas.js", {"priority": 400})]
html_show_sphinx = html_copy_source = html_show_sourcelink = False

# Formulas are set by a script and fonts that travel with the site.
mathjax_path = "mathjax/tex-chtml-full.js"
myst_update_mathjax = False  # formulas.js says how


def ship_mathjax(app):
    """Copy the script and its fonts out of their package."""
    package = Path(find_spec("mathjax").submodule_search_locations[0], "static", "mathjax")
    target, fonts = (
        Path(app.outdir, "_static", "mathjax"),
        Path("output", "chtml", "fonts", "woff-v2"),
    )
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(package / "es5" / "tex-chtml-full.js", target)
    shutil.copy(package / "LICENSE", target)
    shutil.copytree(package / "es5" / fonts, target / fonts, dirs_exist_ok=True)


def notebooks_of(part):
    """The names of the notebooks of a part, without their ending."""
    found = [sorted(ROOT.glob(f"notebooks/{number:02}_*.ipynb")) for number in PARTS[part]]
    return [f"notebooks/{path.stem}" for paths in found for path in paths]


def card(name):
    """A notebook on the front page: its headline picture, its title, and the sentence below the picture."""
    cells = json.loads((ROOT / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    first = "".join(cells[0]["source"])
    title = re.search(r"^# (.+)$", first, re.MULTILINE)[1]
    alt, picture, words = re.search(
        r"^!\[([^]]*)\]\((\S+)\)\s+(.+?)(?:\n\n|\Z)", first, re.DOTALL | re.MULTILINE
    ).groups()
    sentence = re.split(r"(?<=[.?!])\s", " ".join(LINK.sub(r"\1", words).split()))[0]
    number = Path(name).name[:2]
    link = f"/{name}.ipynb"
    return f"- [![{alt}](/notebooks/{picture})]({link})\n\n  [{number} {title}]({link})\n\n  {sentence}\n"


def front_page():
    """The cards of all parts, and the table of contents, which the side of every page shows."""
    parts = {caption: notebooks_of(caption) for caption in PARTS}
    for caption, names in parts.items():
        yield (
            f"\n## {caption}\n\n:::{{container}} gallery\n" + "\n".join(map(card, names)) + ":::\n"
        )
    for caption, names in (parts | CONTENTS).items():
        pages = "\n".join(f"/{name}" for name in names)
        yield f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:glob:\n:titlesonly:\n\n{pages}\n```\n"


def figures_page():
    """The figures of the paper as they are committed, and what became of each statement about them."""
    claims = ledger.records()
    find, weights = overview.found_in(claims), ledger.weights_of_errata()
    folder = ROOT / "build" / "site" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    cells = groupby(paper_figures.paper_figures(), lambda one: (one.source, one.place))
    cells = [list(of_cell) for _, of_cell in cells]
    for numbers, several in groupby(cells, lambda of_cell: [one.number for one in of_cell]):
        yield f"\n## Figure{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}\n\n"
        for one, *_ in several:
            (folder / f"{one.tag}.png").write_bytes(one.picture)
            shown = f"(/build/site/figures/{one.tag}.png){{width={shown_width(one.picture)}px}}"
            yield f"![{one.alt}]{shown}\n\n{one.caption}\n\n"
        yield f"It is a figure of [{one.source.stem}](/notebooks/{one.source.stem}.ipynb).\n\n"
        rows = [row for number in numbers for row in ledger.rows_of_figure(number)]
        yield ledger.table_of_rows(rows, find, weights).replace("](notebooks/", "](/notebooks/")


def with_width(match):
    """A picture of a title, shown in the size that it has in the notebook that drew it."""
    wide = shown_width((ROOT / "notebooks" / match[1]).read_bytes())
    return f"{match[0]}{{width={wide}px}}"


def shown_width(png):
    """The pixels across in which a picture is shown, from the head of its file."""
    return round(int.from_bytes(png[16:20], "big") * SHOWN_PER_STORED)


def binder(name, repository):
    """The address at which Binder opens a notebook of a repository on GitHub, OWNER/NAME."""
    return f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab/tree/notebooks/{name}.ipynb"


def lead_badge(source, name, repository):
    """Let the badge of a notebook open it on Binder, if it is known where the repository lies."""
    return BADGE.sub(rf"\1({binder(name, repository)})", source) if repository else source


def finish_pictures(source):
    """Give each picture of a notebook its size, and those that a cell shows the description stored with them."""
    notebook = json.loads(source)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = HEADLINE.sub(with_width, "".join(cell["source"]))
        stored = [
            output["metadata"]["image/png"]
            for output in cell.get("outputs", [])
            if "alt" in output.get("metadata", {}).get("image/png", {})
        ]
        if stored:
            options = {"alt": stored[0]["alt"]} | (
                {"class": "wide"} if stored[0]["width"] > WIDE else {}
            )
            cell["metadata"]["mystnb"] = {"image": options}
    return json.dumps(notebook)


def as_pages(app, docname, source):
    """Let links to files of the module lead to the reference; the first page shows all notebooks."""

    def moved(link):
        path = Path(os.path.normpath(Path(docname).parent / link[2]))
        inside = path.parent if path.name == "__init__.py" else path.with_suffix("")
        if path.parts[0] == "fgmp" and any(part.startswith("_") for part in inside.parts):
            return link[1]  # the reference has no page of what is private
        if path.parts[0] == "fgmp" and (ROOT / path).exists():
            return f"[{link[1]}](/docs/api/{'.'.join(inside.parts)}.rst)"
        return link[1] if (ROOT / path).is_dir() else link[0]

    source[0] = LINK.sub(moved, source[0]) if not docname.startswith("docs/") else source[0]
    if docname == root_doc:
        source[0] += "".join(front_page())
    if docname == "docs/figures":
        source[0] += "".join(figures_page())
    if Path(app.env.doc2path(docname)).suffix == ".ipynb":
        name = Path(docname).name
        source[0] = finish_pictures(source[0])
        source[0] = lead_badge(source[0], name, os.environ.get("GITHUB_REPOSITORY"))


def plain_letters(app, what, name, obj, options, lines):
    """Take |D_i| and coef_ in a docstring as they are written; an example ends at the next empty line."""
    example = False
    for number, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            parts = CODE.split(line)
            parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
            lines[number] = "".join(parts)


def setup(app):
    """Say what happens when."""
    app.connect("builder-inited", ship_mathjax)
    app.connect("source-read", as_pages)
    app.connect("autodoc-process-docstring", plain_letters, priority=400)
