"""The comments of a notebook's parameters are its schema: read, enforced, and the same in every notebook."""

import ast
import re
from pathlib import Path

import jupytext
import pytest
from jupyter_client.manager import start_new_kernel

from fgmp.book.parameters import Parameter, check_parameters, read_parameters

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("[0-9]*.py"))


def one(default, words, **others):
    return lambda value: Parameter("name", default, "", words).settled(value, others)


@pytest.mark.parametrize(
    "default, words, fits, does_not",
    [
        (3, "at least 2", [2, 10**9], [1, 2.0, 2.5, True, "2", None, float("inf")]),
        (0.5, "above 0, at most 1", [1e-9, 1, 1.0], [0, 1.001, float("nan"), float("inf"), "1", False]),
        (0.5, "above 0, below 1", [0.999], [1.0]),
        (3, "1 to 4", [1, 4], [0, 5]),
        (0.0, "any number", [-1e300, 3], [float("nan"), "3", None]),
        (False, "True or False", [True, False], [0, 1, None, "True"]),
        ("a", '"a", "b" or "c"', ["a", "c"], ["d", None, 1]),
        ("a", "text", ["", "whatever"], [1, None]),
        (None, "integer, at least 1", [None, 1], [0, 1.5, "1"]),
        (None, "text", [None, "a"], [1]),
        (4, "even, 2 to 8", [2, 8], [3, 10, 4.0]),
        (2, "1 to 2 * n - 1", [1, 9], [10]),
        (2, "max(sizes) to 40", [7, 40], [6, 41]),
    ],
)
def test_one_value(default, words, fits, does_not):
    settle = one(default, words, n=5, sizes=[3, 7])
    for value in fits:
        assert settle(value) == value
    for value in does_not:
        with pytest.raises(ValueError, match=rf"name is {re.escape(repr(value))}; expected {re.escape(words)}"):
            settle(value)


@pytest.mark.parametrize(
    "words, fits, does_not",
    [
        ("each at least 1", [[1], [3, 2]], [[], [0], [1, 0], [1.5]]),
        ("two or more, each at least 1", [[1, 2], [3, 2, 1]], [[1], 1]),
        ("two values, each at least 1", [[1, 2]], [[1], [1, 2, 3]]),
        ("increasing, each at least 1", [[1, 2], [5]], [[2, 1], [1, 1]]),
    ],
)
def test_several_values(words, fits, does_not):
    settle = one([1, 2], words)
    assert one([1, 2], "each at least 1")(4) == [4]
    for value in fits:
        assert settle(value) == value
    for value in does_not:
        with pytest.raises(ValueError, match="name is .*; expected .*each at least 1"):
            settle(value)


def test_numbers_come_out_plain():
    np = pytest.importorskip("numpy")
    assert type(one(1, "at least 1")(np.int64(3))) is int
    assert type(one(1.0, "at least 1")(3)) is float
    assert one([1], "each at least 1")(np.array([2, 3])) == [2, 3]


@pytest.mark.parametrize(
    "line, message",
    [
        ("n = 1", "expected a range in brackets at its end"),
        ("n = 1  # many (at least 1) of them", "expected a range in brackets at its end"),
        ("n = 1  # many (some)", "'some' is not understood at 'some'; expected 'at least 1'"),
        ("n = 1  # many (1 to half of m)", "not understood at 'half of m'; expected arithmetic"),
        ("n = 1  # many (at least open(m))", "not understood at .*; expected arithmetic"),
        ("n = 1  # many (at least m.real)", "not understood at .*; expected arithmetic"),
        ("n = [1]  # many (two or more, at least 1)", "counts values; expected 'each'"),
        ('n = "a"  # one of ("a" and "b")', "is not understood; expected words such as"),
        ("n += 1  # many (at least 1)", "is no parameter; expected 'name = value"),
        ("import os", "is no parameter; expected 'name = value"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(line, message):
    with pytest.raises(ValueError, match=message):
        read_parameters(line)


CELL = """n = 20  # n, dimension of the signal (at least 1)
tau = 4  # tau, nonzero entries (1 to n)
alpha = [0.5]  # heterogeneity (each at least 0)
size = None  # rows, (say) (integer, 1 to n; None: 5)
"""


def test_the_names_asked_for_come_settled():
    space = {"In": ["", "import os", CELL, "tau = 5"], "n": 20, "tau": 5, "alpha": 2, "size": None}
    assert check_parameters(space, "alpha", "tau", "size", none={"size": 5, "tau": 1}) == ([2.0], 5, 5)
    assert [p.meaning for p in read_parameters(CELL)][-1] == "rows, (say)"
    assert read_parameters(CELL)[-1].note == "None: 5"


def test_the_message_tells_what_the_bound_is_worth():
    with pytest.raises(ValueError, match=r"tau is 21; expected 1 to n \(n is 20\)"):
        check_parameters({"In": [CELL], "n": 20, "tau": 21, "alpha": [1], "size": 3})
    with pytest.raises(ValueError, match=r"size is 21; expected integer, 1 to n \(n is 20\)"):
        check_parameters({"In": [CELL], "n": 20, "tau": 2, "alpha": [1], "size": 21})


def test_a_bound_may_be_the_largest_of_several_values_or_of_one():
    space = {"In": ["n = 20  # n (at least max(taus))\ntaus = [3, 4]  # tau (each at least 1)"], "n": 5, "taus": 5}
    assert check_parameters(space, "taus") == ([5],)
    with pytest.raises(ValueError, match=r"n is 5; expected at least max\(taus\) \(taus is \[6\]\)"):
        check_parameters(space | {"taus": 6})


def test_a_notebook_as_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f'# %%\nimport os\n\n# %% tags=["parameters"]\n{CELL}\n# %%\nprint(n)\n')
    space = {"__file__": str(script), "n": 20, "tau": 0, "alpha": [1], "size": None}
    with pytest.raises(ValueError, match="tau is 0"):
        check_parameters(space)


def test_no_cell_of_parameters():
    with pytest.raises(ValueError, match="has no cell of parameters"):
        check_parameters({"In": ["", "n = 1"]})


def code_cells(path):
    return [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_checks_all_its_parameters_in_one_call(path):
    cells = code_cells(path)
    where = next(i for i, cell in enumerate(cells) if "parameters" in cell.metadata.get("tags", []))
    parameters = read_parameters(cells[where].source)
    defaults = {parameter.name: parameter.default for parameter in parameters}
    for parameter in parameters:
        assert parameter.meaning, parameter.name
        assert parameter.settled(parameter.default, defaults) == parameter.default
    calls = [n for cell in cells for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Call)]
    names = [getattr(call.func, "id", getattr(call.func, "attr", "")) for call in calls]
    assert names.count("begin") == 1
    assert "begin(globals()" in cells[where + 1].source
    assert not any("globals()[" in cell.source for cell in cells)


def test_a_kernel_without_history_knows_its_cell_of_parameters():
    """As nbval runs notebooks: nothing of what is executed is in `In`."""
    manager, client = start_new_kernel()
    try:
        for source in (
            "n_clients = 5  # N, clients of the federation (at least 1)",
            "from fgmp.book.parameters import check_parameters\n[count] = check_parameters(globals(), 'n_clients')",
            "assert (count, len(In)) == (5, 1)",
        ):
            reply = client.execute_interactive(source, store_history=False, timeout=60)
            assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
