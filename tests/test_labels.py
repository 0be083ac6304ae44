"""Two labels of any kind, as the logistic loss takes them, and back."""

import numpy as np
import pytest

import fgmp

ROWS = np.random.default_rng(0).standard_normal((6, 3))

KINDS = {
    "signs": ([-1, 1], (-1, 1)),
    "booleans": ([False, True], (False, True)),
    "numbers": ([2.5, 7.0], (2.5, 7.0)),
    "strings": (["benign", "malignant"], ("benign", "malignant")),
    "objects": (np.array(["no", "yes"], object), ("no", "yes")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_two_labels_become_signs_and_are_kept(kind):
    """The smaller label is -1, also for a client that has one label alone."""
    values, labels = KINDS[kind]
    # The second client has one of them only.
    picked = [np.array(values)[[0, 1, 1, 0, 1, 0]], np.array(values)[[1] * 6]]
    fed = fgmp.Federation.from_arrays([ROWS, ROWS], picked, "logistic")
    assert fed.labels == labels
    assert [type(v) for v in fed.labels] == [type(v) for v in labels]
    np.testing.assert_array_equal(fed.clients[0].targets, [-1, 1, 1, -1, 1, -1])
    np.testing.assert_array_equal(fed.clients[1].targets, np.ones(6))
    assert fed.pooled().labels == labels


@pytest.mark.parametrize(
    ("alone", "known"),
    [
        (1, (-1, 1)),
        (-1, (-1, 1)),
        (0, (0, 1)),
        (True, (False, True)),
        (False, (False, True)),
    ],
)
def test_single_label_of_a_known_pair_has_its_sign(alone, known):
    """Both labels are known, although the data have one of them."""
    federation = fgmp.Federation.from_arrays([ROWS], [np.full(6, alone)], "logistic")
    assert federation.labels == known
    assert set(federation.clients[0].targets) == {1.0 if alone == known[1] else -1.0}


def test_named_labels_decide_the_sign():
    """The first is -1 and the second 1, whatever their order in the alphabet."""
    y = np.array(["yes", "no"] * 3)
    loss = fgmp.LogisticLoss(2)
    federation = fgmp.Federation.from_arrays([ROWS], [y], loss, labels=("yes", "no"))
    np.testing.assert_array_equal(federation.clients[0].targets, [-1, 1] * 3)
    assert federation.labels == ("yes", "no")
    assert federation.loss == fgmp.LogisticLoss(margin=2.0)
