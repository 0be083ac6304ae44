"""What the notebooks draw with: the picture of the idea, the votes, and pages with sliders."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import fgmp
from book import pairs, sliding, voting
from book.figures import Sight, alt, see_through


@pytest.fixture
def published(monkeypatch):
    """Collect what is shown, in place of a notebook."""
    shown = []
    for module in (sliding, voting):
        monkeypatch.setattr(module, "publish_display_data", shown.append)
    return shown


def test_sight_of_several_clients_is_the_mean_of_their_gradients():
    """What they see together, where all miss the same, is the gradient of the pooled misfit."""
    rng = np.random.default_rng(0)
    truth, As = rng.standard_normal(6), [rng.standard_normal((9, 6)) for _ in range(3)]
    fed = fgmp.Federation.from_arrays(As, [A @ truth for A in As])
    zero = fgmp.SparseModel.zero((6,))
    sight = Sight.of("together", As, truth)
    expected = -np.mean([client.gradient(zero) for client in fed.clients], axis=0)
    np.testing.assert_allclose(sight.gram @ sight.missing, expected, atol=1e-12)


def test_picture_of_the_idea_has_two_axes_for_each_sight_and_hides_the_rest():
    """Left the matrix, scaled to a mean diagonal of 1, right the bars."""
    gram = np.diag([1.0, 3.0])
    figure = see_through([Sight("one", gram, np.ones(2))] * 3, taken=1)
    visible = [ax for ax in figure.axes if ax.get_visible()]
    assert len(visible) == 6
    np.testing.assert_array_equal(visible[0].images[0].get_array(), gram / 2)
    assert visible[0].get_title(loc="left") == "one"
    plt.close(figure)


def test_votes_are_those_of_the_clients_and_models_those_of_a_run():
    """Counted by asking each client, and by simulating."""
    fed = fgmp.make_sparse_regression(4, 12, 20, 2, heterogeneity=0.5, rng=0)
    method = fgmp.FedGradMP(2, local_iterations=2)
    votes, models = voting.count_votes(method, fed, rounds=2)
    assert votes.shape == (2, 4, 20)
    assert (votes.sum(axis=2) == 2).all()
    client, before = fed.clients[3], fgmp.SparseModel.of(models[1])
    answer = method.client_update(client, before, np.random.default_rng(5))
    assert np.flatnonzero(votes[1, 3]).tolist() == answer.support.tolist()
    np.testing.assert_array_equal(models[2], fgmp.simulate(method, fed, rounds=2, rng=0).x)


def test_point_of_the_grid_has_the_votes_of_its_run():
    """One character a feature, in base 36, and the logarithms of the errors."""
    point = voting.point(rows=16, alpha=0, clients=30, solver="exact")
    fed, method = voting.problem(16, 0, 30, "exact")
    counts = [[int(vote, 36) for vote in row] for row in point["votes"]]
    assert counts == voting.count_votes(method, fed)[0].sum(axis=1).tolist()
    assert point["true"] == np.flatnonzero(fed.truth).tolist()
    assert point["errors"][0] == 0.0


def test_slider_shows_one_picture_and_asks_no_other_host(published):
    """All pictures travel with the page, each with its words, and no figure stays open."""
    before = plt.get_fignums()
    figures = [plt.figure(figsize=(1, 1)) for _ in range(3)]
    alt(figures[1], "the middle\n   one")
    sliding.slide("test", iter(figures), ["a", "b", "c"], "turn", first=2, width=40)
    page = published[0]["text/html"]
    assert page.count("<img ") == 3
    assert page.count("display: block") == 1
    assert 'alt="the middle one"' in page
    assert json.loads(re.search(r"names = (\[.*?\])", page)[1]) == ["a", "b", "c"]
    assert re.findall(r"https?://|\$[a-z]", page) == []
    assert plt.get_fignums() == before


def test_page_of_votes_has_its_grid_and_asks_no_other_host():
    """The script has what it needs within itself."""
    data = {"knobs": {"rows": [1]}, "first": {"rows": 0}, "points": {"1": {}}}
    page = sliding.page("votes.html", id="here", data=data)
    assert json.dumps(data, separators=(",", ":")) in page
    assert re.findall(r"https?://", page) == []


def test_widget_without_a_kernel_is_not_committed():
    """The page beside it is."""
    view = "application/vnd.jupyter.widget-view+json"
    output = new_output("display_data", {view: {"model_id": "1"}, "text/html": "<p>"})
    notebook = pairs.normalise(new_notebook(cells=[new_code_cell("1", outputs=[output])]))
    assert notebook.cells[0].outputs[0].data == {"text/html": "<p>"}


def test_play_draws_the_votes_above_the_error_and_nothing_overlaps(monkeypatch):
    """Three panels of votes, and the error below them."""
    monkeypatch.setattr(plt, "show", lambda: None)
    voting.play(rows=20, clients=3, rounds=2)
    figure = plt.gcf()
    figure.draw_without_rendering()
    *above, below = [ax.get_position() for ax in figure.axes]
    assert len(above) == voting.SHOWN
    assert all(one.y0 > below.y1 for one in above)
    assert not any(one.overlaps(other) for one, other in zip(above, above[1:], strict=False))
    plt.close(figure)
