"""Reprs are short and hold no data; tables in HTML are well-formed and say what the object holds."""

import pickle
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import fgmp
from fgmp._support.displays import HistoryTable, bytes_in_words, preview_words
from fgmp.estimators.bootstrap import Bootstrap

SECRET = 0.777125  # a number of the data that no repr may show
LONGEST = 400

RNG = np.random.default_rng(0)
AS = [np.where(A > 1, SECRET, A) for A in RNG.standard_normal((12, 40, 300))]
FEDERATION = fgmp.Federation.from_arrays(AS, [A[:, 3] - 2 * A[:, 5] for A in AS])
FLAKY = fgmp.Faulty(FEDERATION, fgmp.DropOut(probability=0.5))
RUNS = []
RESULT = fgmp.simulate(fgmp.FedGradMP(4), FLAKY, 20, rng=0, callbacks=RUNS.append)
POLISHED = fgmp.polish(RESULT, FEDERATION)
BOOTSTRAP = Bootstrap(
    np.repeat([[[0.0, 3.5, 0.0]], [[1.0, 3.0, 0.0]]], 2, axis=0),
    np.array([[0.0, 3.2, 0.0]]),
    ("age", "<b>dose</b>", "sex"),
)

OBJECTS = {
    "federation": FEDERATION,
    "client": FEDERATION.clients[0],
    "problem info": FEDERATION.info,
    "faulty federation": FLAKY,
    "result": RESULT,
    "best model": RESULT.best,
    "history": RESULT.history,
    "polished result": POLISHED,
    "polished history": POLISHED.history,
    "run": RUNS[0],
    "sparse model": RESULT.state,
    "bootstrap": BOOTSTRAP,
    "checkpoint": fgmp.Checkpoint("run.fgmp"),
    "bar": fgmp.Bar(),
}


class Cells(HTMLParser):
    """The texts of an HTML table by row, and whether each tag that opens is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.tags = [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        if tag in ("tr", "caption"):
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.rows[-1].append(data)


def facts_of(thing):
    """The rows of two cells of a table, as a dict."""
    return dict(Cells(thing._repr_html_()).rows[1:])


@pytest.mark.parametrize("name", OBJECTS)
def test_repr_of_an_object_is_short_and_without_data(name):
    """One line, no address, and no number of the data."""
    text = repr(OBJECTS[name])
    assert len(text) < LONGEST and "\n" not in text and " at 0x" not in text
    assert "777" not in text


def test_table_of_a_federation_says_clients_rows_and_features():
    """The sizes are those that the arrays were made with."""
    facts = facts_of(FEDERATION)
    assert facts["clients"] == "12"
    assert facts["rows"] == "480"
    assert facts["rows of a client"] == "40 to 40"
    assert facts["features"] == "300, dense, float64"
    assert "777" not in FEDERATION._repr_html_()


def test_table_of_a_result_says_rounds_objective_support_and_bytes():
    """Each number is that of the result, to three digits."""
    facts = facts_of(RESULT)
    assert facts["round"] == "20"
    assert float(facts["objective"]) == pytest.approx(RESULT.history["objective"][-1], rel=5e-3)
    assert facts["support"] == ", ".join(map(str, RESULT.support))
    assert facts["nonzero"] == f"{len(RESULT.support)} of 300 coefficients"
    assert facts["bytes_up"] == bytes_in_words(RESULT.history["bytes_up"][-1])
    assert facts["rejected"] == f"{RESULT.rejected['missing']} missing"


def test_history_is_a_dict_and_its_table_shows_both_ends():
    """Twenty-one rows are ten and a row of dots; a pickle is as it was."""
    history = RESULT.history
    assert isinstance(history, dict) and list(history)[0] == "round"
    _, header, *rows = Cells(history._repr_html_()).rows
    assert header == list(history)
    assert [row[0] for row in rows] == [*"01234", "...", "16", "17", "18", "19", "20"]
    again = pickle.loads(pickle.dumps(history))
    assert type(again) is HistoryTable
    assert all(np.array_equal(again[name], history[name], equal_nan=True) for name in history)


def test_history_of_eleven_rows_shows_all():
    """Dots in the place of one row would save nothing."""
    history = HistoryTable(round=np.arange(11))
    assert [row[0] for row in Cells(history._repr_html_()).rows[2:]] == list(map(str, range(11)))


def test_history_without_rows_has_a_repr():
    """As an estimator's may be that needed no round."""
    assert repr(HistoryTable()) == "<history of no rows: >"
    assert Cells(HistoryTable()._repr_html_()).rows == [["History of 0 rows"]]


def test_bootstrap_names_the_features_that_resamples_select():
    """The most frequent first, with its share; names of columns are text, not HTML."""
    assert repr(BOOTSTRAP) == "Bootstrap(4 resamples, <b>dose</b> 1, age 0.5)"
    cells = Cells(BOOTSTRAP._repr_html_())
    assert cells.rows[1:] == [["<b>dose</b>", "1"], ["age", "0.5"]]


def test_faulty_federation_has_no_table_of_the_federation_inside():
    """It passes attributes on, and a notebook would show the wrong thing."""
    assert FLAKY._repr_html_ is None
    assert repr(FLAKY).startswith("Faulty(Federation(12 clients")


def test_sparsity_path_shows_its_choice():
    """The chosen sparsity stands in the line, and a row for each that was tried in the table."""
    X = RNG.standard_normal((120, 6))
    model = fgmp.FedGradMPRegressor("cv", random_state=0).fit(X, X[:, 1], np.arange(120) % 4)
    assert repr(model.cv_).startswith(f"SparsityPath(chosen {model.cv_.chosen} of ")
    rows = Cells(model.cv_._repr_html_()).rows
    assert [int(row[0]) for row in rows[2:]] == model.cv_.table["sparsity"].tolist()
    assert type(model.history_) is HistoryTable


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (25_200, "25.2 kB"),
        (3.2e15, "3.2e+03 TB"),
    ],
)
def test_bytes_have_the_unit_that_keeps_them_short(count, words):
    """Powers of 1000, and the last unit for whatever is larger."""
    assert bytes_in_words(count) == words


def test_many_names_are_counted():
    """The first ones are shown."""
    assert preview_words(list("abcd"), 2) == "a, b and 2 more"


def test_completion_offers_public_names_and_nothing_else():
    """The estimators, too, before their first use, and the folders; no helper, no other module."""
    offered = dir(fgmp)
    wanted = {"FedGradMPClassifier", "FedGradMPRegressor", "simulate", "theory", "flower"}
    assert wanted <= set(offered)
    folders = {path.parent.name for path in Path(fgmp.__file__).parent.glob("[a-z]*/__init__.py")}
    assert set(offered) - set(fgmp.__all__) == {"__version__", *folders} - {"fast"}
    assert all(hasattr(fgmp, name) for name in offered)


def test_subpackage_is_imported_at_its_first_use():
    """Nothing but `import fgmp` is typed before `fgmp.estimators.`, and core does not load it."""
    code = """
import sys, fgmp
print("fgmp.estimators" in sys.modules, "fgmp.flower" in sys.modules)
print(fgmp.estimators.FedGradMPClassifier.__name__, fgmp.flower.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\nFedGradMPClassifier fgmp.flower\n"


def test_name_that_is_not_there_is_an_attribute_error():
    """A slip of the keyboard imports nothing."""
    with pytest.raises(AttributeError, match="'fgmp' has no attribute 'FedGradMPClasifier'"):
        fgmp.FedGradMPClasifier  # noqa: B018
