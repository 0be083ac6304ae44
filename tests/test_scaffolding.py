"""How much of the notebooks' code is scaffolding: what a reader has to get past before, and around, what is shown.

Scaffolding is, in lines of code: imports; the call that checks the parameters, and checks that follow it; claims, which
are one line each; statements that do nothing but prepare the words of claims or keep records; and whatever writes into
the notebook's own namespace. The cell of parameters is not: it is what a reader changes.
"""

import ast
from pathlib import Path

import jupytext
import pytest
import yaml

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted(NOTEBOOKS.glob("[0-9]*.py"))
MOST = 0.15
CHECKS = {
    "begin",
    "check_parameters",
    "use_style",
    "simplefilter",
    "filterwarnings",
    "check_cohort",
    "check_batch_size",
}
CHECKS |= {"check_sparsity", "globals", "kept_records"}

each_notebook = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)


def cells(path):
    """The code cells of a notebook but that of its parameters, as trees, and the number of all lines of code."""
    found = [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]
    count = sum(bool(line.strip()) for cell in found for line in cell.source.splitlines())
    return [ast.parse(cell.source) for cell in found if "parameters" not in cell.metadata.get("tags", [])], count


def called(node):
    """The names of what is called in a statement, without the objects before the dots."""
    calls = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
    return {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}


def simple(trees):
    """All statements that hold no other statements."""
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return [node for node in nodes if not hasattr(node, "body")]


def heads(trees):
    """What stands in the first lines of loops, conditions, contexts and functions."""
    for node in (node for tree in trees for node in ast.walk(tree)):
        for part in ("iter", "test", "items", "decorator_list", "args"):
            if isinstance(node, ast.stmt) and hasattr(node, "body") and hasattr(node, part):
                found = getattr(node, part)
                yield from found if isinstance(found, list) else [found]


def is_claim(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and "claim" in called(node)


def names(node, context):
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, context)}


def holds_words(node):
    """Whether a statement builds a text, or takes the values of a kept run."""
    texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return any(" " in text.strip() for text in texts)


def scaffolding(trees):
    """The simple statements that are scaffolding."""
    statements = simple(trees)
    found = [node for node in statements if isinstance(node, ast.Import | ast.ImportFrom) or is_claim(node)]
    found += [node for node in statements if called(node) & CHECKS or isinstance(node, ast.Raise)]
    while True:  # words that only claims use, and what only such words use
        others = [node for node in statements if node not in found]
        used = set().union(*(names(node, ast.Load) for node in [*others, *heads(trees)]))
        needed = set().union(*(names(node, ast.Load) for node in found)) - used
        more = [node for node in others if isinstance(node, ast.Assign | ast.AugAssign) and holds_words(node)]
        more = [node for node in more if names(node, ast.Store) & needed and not names(node, ast.Store) & used]
        if not more:
            return found
        found += more


def lines_of(nodes):
    return sum(node.end_lineno - node.lineno + 1 for node in nodes)


def share(path):
    trees, count = cells(path)
    return lines_of(scaffolding(trees)) / count


@each_notebook
def test_scaffolding_is_little(path):
    assert share(path) < MOST


@each_notebook
def test_a_claim_is_one_line(path):
    claims = [node for node in simple(cells(path)[0]) if is_claim(node)]
    assert claims
    assert [ast.unparse(node) for node in claims if node.lineno != node.end_lineno] == []


@each_notebook
def test_nothing_is_done_on_the_side(path):
    """One call has the notebook's namespace; no comprehension or tuple stands for its side effects."""
    trees, _ = cells(path)
    assert sum("globals" in called(node) for node in simple(trees)) == 1
    expressions = [node.value for node in simple(trees) if isinstance(node, ast.Expr)]
    aside = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Tuple | ast.List
    assert [ast.unparse(one) for one in expressions if isinstance(one, aside)] == []


@each_notebook
def test_the_statements_are_those_of_the_file(path):
    """Each has its words in claims.yaml, under the notebook's name, and none there is left over."""
    calls = [node.value for node in simple(cells(path)[0]) if is_claim(node)]
    literal = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    words = yaml.safe_load((NOTEBOOKS / "claims.yaml").read_text())[path.stem]
    text = path.read_text()
    assert literal <= set(words)
    assert [id for id in words if f'"{id}"' not in text] == []


def test_scaffolding_is_counted():
    lines = "import numpy as np", "claim, n = begin(globals())", "", "values = compute(n)"
    lines += 'words = f"{n} values are small"', "def helper():", "    import json", "    return json", "print(values)"
    counted = scaffolding([ast.parse("\n".join([*lines, "claim('a', values, words)", "draw(values)"]))])
    assert sorted(node.lineno for node in counted) == [1, 2, 5, 7, 10]
    printed = scaffolding([ast.parse("\n".join([*lines, "claim('a', values, words)", "print(words)"]))])
    assert sorted(node.lineno for node in printed) == [1, 2, 7, 10]
