"""What notebooks share beside claims: a bound beside errors, and names of lines that can be read."""

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from fgmp.book import figures
from fgmp.book.bounds import BoundBesideError
from fgmp.book.figures import dots, floor, images, ink, name_lines

PALETTE = [figures.ORANGE, figures.SKY, figures.GREEN, figures.BLUE, figures.VERMILLION, figures.PURPLE, figures.WINE]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_a_bound_beside_errors_by_hand():
    runs = [([4.0, 1.0, 0.0], [5.0, 2.0, 1.0]), ([4.0, 3.0, 2.0], [5.0, 2.0, 2.0]), ([4.0, 1.0, 1.0], [9.0, 9.0, 4.0])]
    beside = BoundBesideError.of(runs, exact=0.5)
    assert beside.holds.tolist() == [True, False, True]  # the second run exceeds its bound in round 1
    assert beside.useful.tolist() == [True, False, False]  # the third bound ends at the zero model's error
    np.testing.assert_array_equal(beside.factors["bound over zero model"], [0.25, 0.5, 1.0])
    np.testing.assert_array_equal(beside.factors["over squared error"], [2.0, 1.0, 4.0])


def test_a_bound_beside_errors_is_drawn_with_exact_errors_at_their_floor():
    ax = plt.figure().add_subplot()
    BoundBesideError.of([([4.0, 1.0, 0.0], [5.0, 2.0, 1.0])], exact=0.5).draw(ax, "title")
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert list(lines) == ["bound", "measured", "zero model"]
    assert lines["measured"].get_ydata().tolist() == [4.0, 1.0, 0.5]
    assert lines["zero model"].get_ydata()[0] == 4.0
    assert ax.get_yscale() == "log" and ax.get_title() == "title"


def drawn():
    """Lines that end at one height, one that ends early, one that leaves the axes, and a floor."""
    ax = plt.figure().add_subplot()
    ax.plot([1, 2, 3], [1.0, 2.0, 5.0], label="a", color=figures.BLUE)
    ax.plot([1, 2, 3], [3.0, 2.0, 5.1], label="b, in\ntwo rows", color=figures.VERMILLION)
    ax.plot([1, 2, np.nan], [1.5, 1.2, np.nan], label="short", color=figures.GREEN)
    ax.plot([1, 2, 3], [4.0, 7.0, 1e9], label="out", color="k")
    ax.plot([1, 3], [2, 2], color="k")
    floor(ax, 1.0, "floor")
    ax.set(yscale="log", ylim=(0.5, 10))
    return ax


def test_names_stand_at_the_ends_of_their_lines_and_apart():
    ax = drawn()
    name_lines(ax)
    ax.figure.canvas.draw()
    texts = {text.get_text(): text for text in ax.texts}
    assert list(texts) == ["a", "b, in\ntwo rows", "short", "out", "floor"]
    boxes = {words: text.get_window_extent() for words, text in texts.items()}
    pixel = ax.transData.transform
    assert boxes["a"].x0 > pixel((3, 1))[0] and boxes["b, in\ntwo rows"].x0 > pixel((3, 1))[0]
    assert pixel((2, 1))[0] < boxes["short"].x0 < pixel((2.3, 1))[0]
    assert pixel((2, 1))[0] < boxes["out"].x0 < pixel((3, 1))[0]  # it leaves the axes between 2 and 3
    middle = {words: (box.y0 + box.y1) / 2 for words, box in boxes.items()}
    assert middle["b, in\ntwo rows"] > middle["a"]
    assert middle["floor"] == pytest.approx(pixel((3, 1.0))[1], abs=12)
    names = list(boxes.values())
    assert not any(one.overlaps(other) for i, one in enumerate(names) for other in names[:i])


def test_names_at_given_places():
    ax = drawn()
    name_lines(ax, [8, 6, 4, 2, 1])
    ax.figure.canvas.draw()
    heights = [text.get_window_extent().y0 for text in ax.texts]
    assert heights == sorted(heights, reverse=True)


def test_words_in_the_colours_of_lines_can_be_read():
    """Contrast of at least 4.5 on white, as the guidelines for accessible pages ask (WCAG 2.1, 1.4.3)."""
    for colour in [*PALETTE, "k", "0.35"]:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in ink(colour)]
        luminance = np.dot([0.2126, 0.7152, 0.0722], linear)
        assert 1.05 / (luminance + 0.05) >= 4.5, colour
        assert max(ink(colour)) <= max(to_rgb(colour))


@pytest.mark.parametrize(
    "inside, place, above",
    [("left", "left", 1), ("right below", "right", -1), ("left below", "left", -1), ("outside", "beyond", 0)],
)
def test_a_floor_is_named_where_it_lies(inside, place, above):
    ax = plt.figure().add_subplot()
    ax.set_ylim(0, 2)
    floor(ax, 1.0, "floor", inside=inside)
    ax.figure.canvas.draw()
    (text,) = ax.texts
    box, (height, frame) = text.get_window_extent(), (ax.transData.transform((0, 1))[1], ax.bbox)
    middle = (frame.x0 + frame.x1) / 2
    assert {"left": box.x0 >= frame.x0 and box.x1 < middle, "right": middle < box.x0 and box.x1 <= frame.x1}.get(
        place, box.x0 > frame.x1
    )
    assert {1: box.y0 >= height, -1: box.y1 <= height, 0: box.y0 < height < box.y1}[above]
    assert ax.get_legend_handles_labels() == ([], [])


def test_a_floor_without_a_place_is_for_the_legend():
    ax = plt.figure().add_subplot()
    floor(ax, 1.0, "floor")
    assert ax.get_legend_handles_labels()[1] == ["floor"] and not ax.texts


def test_dots_are_medians_with_ranges_from_the_top_down():
    ax = plt.figure().add_subplot()
    dots(ax, {"FedAvg": [3, 1, 2], "other": [0.123456]}, digits=3)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["FedAvg", "other"]
    assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.get_lines()] == [(2, 0), (0.123456, 1)]
    ranges = [part.get_segments()[0] for part in ax.collections]
    np.testing.assert_array_equal(ranges[0], [[1, 0], [3, 0]])
    assert [text.get_text() for text in ax.texts] == ["2", "0.123"] and ax.get_ylim()[0] > ax.get_ylim()[1]


def test_rows_of_pictures_have_names_and_titles_once():
    figure = images([np.eye(2)] * 4, ["a", "b", "a", "b"], columns=2, rows=["one", "two"])
    assert [ax.get_title() for ax in figure.axes] == ["a", "b", "", ""]
    assert [text.get_text() for ax in figure.axes for text in ax.texts] == ["one", "two"]
    assert [ax.get_title() for ax in images([np.eye(2)] * 2, ["a", "b"], columns=1).axes] == ["a", "b"]
