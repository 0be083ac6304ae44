import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgmp.book.ranges import outwards


@pytest.mark.parametrize(
    ("values", "step", "words"),
    [
        (0.726, 0.1, "0.7 to 0.8"),
        (0.3, 0.1, "0.3"),
        ([-0.07, -0.101], 0.05, "-0.15 to -0.05"),
        (-1e-12, 0.01, "0"),
        (61.0, 10, "60 to 70"),
    ],
)
def test_words(values, step, words):
    assert outwards(values, step) == words


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=5), st.sampled_from([0.01, 0.05, 0.1, 0.25, 1, 10]))
def test_the_range_holds_the_values_and_no_step_more(values, step):
    bounds = [float(word) for word in outwards(values, step).split(" to ")]
    slack = 1e-6 * step + 1e-5 * max(map(abs, values))  # six digits are printed
    assert bounds[0] - slack <= min(values) < bounds[0] + step + slack
    assert bounds[-1] - step - slack < max(values) <= bounds[-1] + slack


@pytest.mark.parametrize(
    ("values", "step", "words"),
    [([], 0.1, "values"), ([np.nan], 0.1, "values"), ([0.1], 0, "step"), ([0.1], -1, "step")],
)
def test_bad_input_names_the_argument(values, step, words):
    with pytest.raises(ValueError, match=words):
        outwards(values, step)
