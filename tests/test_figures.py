"""Lines that can be seen on white, and faults of figures that are found."""

import matplotlib.pyplot as plt
import pytest
from figure_faults import contrast_to_white, faults

from fgmp.book.figures import METHODS, gradation


def test_the_contrast_is_the_known_one():
    assert contrast_to_white("black") == pytest.approx(21) and contrast_to_white("white") == pytest.approx(1)
    assert contrast_to_white("#767676") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_seen(name):
    assert contrast_to_white(METHODS[name]["color"]) >= 3


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_step_of_a_gradation_can_be_seen(count):
    styles = gradation(count)
    assert all(contrast_to_white(style["color"]) >= 2.9 for style in styles)
    assert len({style["marker"] for style in styles}) == count


def test_an_axis_without_a_label_is_a_fault():
    figure, (left, right) = plt.subplots(1, 2)
    right.set(xlabel="round", ylabel="error")
    assert [fault.partition(": ")[2] for fault in faults(figure)] == [
        "the x axis has no label",
        "the y axis has no label",
    ]
    left.set(xlabel="round", ylabel="error")
    assert faults(figure) == []
    plt.close(figure)


def test_shared_axes_share_a_label_and_names_of_things_need_none():
    figure, axes = plt.subplots(2, 1, sharex=True)
    axes[1].set_xlabel("round")
    for ax in axes:
        ax.bar(["a"], [1])
        ax.set_ylabel("share")
    assert faults(figure) == []
    axes[1].set_xlabel("")
    figure.canvas.draw()
    assert faults(figure) == []
    plt.close(figure)


def test_a_pale_line_is_a_fault():
    figure, ax = plt.subplots()
    ax.set(xlabel="round", ylabel="error")
    ax.plot([1, 2], color="#E69F00", label="orange")
    ax.plot([1, 2], color="#0072B2", label="blue")
    assert [fault.partition(": ")[2] for fault in faults(figure)] == ["the line 'orange' has a contrast of 2.3"]
    ax.lines[0].set_color("k")
    ax.lines[1].set_alpha(0.4)
    assert "the line 'blue' has a contrast of" in faults(figure)[0]
    plt.close(figure)


def test_small_text_on_a_wide_figure_is_a_fault():
    figure, ax = plt.subplots(figsize=(30, 4))
    ax.set(xlabel="round", ylabel="error")
    assert "points on a page; expected 5.5" in faults(figure)[0]
    plt.close(figure)
