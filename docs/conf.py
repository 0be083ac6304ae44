"""How Sphinx makes the site; tools/site_sources.py gathers what it is made of."""

import importlib
import inspect
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

import fgmp

project = "fgmp"
author = "the fgmp developers"
html_title = "Federated Gradient Matching Pursuit"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]

# The committed outputs are shown. Widgets would ask another host for their script; there are none.
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 4

default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("formulas.js", {"priority": 400}), "claims.js"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False

# Formulas are set by a script and fonts that travel with the site.
mathjax_path = "mathjax/tex-chtml-full.js"
myst_update_mathjax = False  # formulas.js says how

# Where the files of the repository are shown, if anywhere: then every name of the reference links to its source.
repository = os.environ.get("FGMP_REPOSITORY", "").rstrip("/")
if repository:
    extensions.append("sphinx.ext.linkcode")

CODE = re.compile(r"(``.*?``|`[^`]*`)")


def linkcode_resolve(domain, info):
    """The address of the file and the line where a name of the module is defined."""
    value = importlib.import_module(info["module"])
    try:
        for part in info["fullname"].split("."):
            value = inspect.unwrap(getattr(value, part))
        value = value.fget if isinstance(value, property) else value
        file = Path(inspect.getsourcefile(value)).relative_to(Path(fgmp.__file__).parents[1])
        return f"{repository}/{file.as_posix()}#L{inspect.getsourcelines(value)[1]}"
    except (AttributeError, TypeError, OSError):
        return None


def ship_mathjax(app):
    """Copy the script and its fonts out of their package."""
    package = Path(find_spec("mathjax").submodule_search_locations[0], "static", "mathjax")
    target = Path(app.outdir, "_static", "mathjax")
    fonts = Path("output", "chtml", "fonts", "woff-v2")
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(package / "es5" / "tex-chtml-full.js", target)
    shutil.copy(package / "LICENSE", target)
    shutil.copytree(package / "es5" / fonts, target / fonts, dirs_exist_ok=True)


def plain_letters(app, what, name, obj, options, lines):
    """Take |D_i| and coef_ in a docstring as they are written; an example ends at the next empty line."""
    example = False
    for number, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            parts = CODE.split(line)
            parts[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
            lines[number] = "".join(parts)


def skip_generated(app, what, name, obj, skip, options):
    """Leave out what scikit-learn adds to every estimator; its docstrings link into its own manual."""
    return True if re.fullmatch(r"(set_\w+_request|get_metadata_routing)", name) else None


def words_as_types(app, doctree):
    """A type in small letters (int, ndarray, (n_features,)) is a word, not the name of something of ours."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("reftype") == "class" and node["reftarget"][:1].islower() and "." not in node["reftarget"]:
            node.replace_self(node.children)


def shorter_names(app, env, node, contnode):
    """Find `FedAvg` where the reference has fgmp.FedAvg, or `minimise_on` where one module has it."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].lstrip(".")
    objects = env.domains["py"].objects
    found = [f"fgmp.{target}"] if f"fgmp.{target}" in objects else [n for n in objects if n.endswith(f".{target}")]
    if len(found) != 1:
        return None
    entry = objects[found[0]]
    address = app.builder.get_relative_uri(node.get("refdoc", env.docname), entry.docname)
    return nodes.reference("", "", contnode, internal=True, refuri=f"{address}#{entry.node_id}", reftitle=found[0])


def setup(app):
    """Say what happens when."""
    app.connect("builder-inited", ship_mathjax)
    app.connect("autodoc-process-docstring", plain_letters, priority=400)
    app.connect("autodoc-skip-member", skip_generated)
    app.connect("doctree-read", words_as_types)
    app.connect("missing-reference", shorter_names)
