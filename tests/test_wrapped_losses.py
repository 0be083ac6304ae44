"""Losses around other losses: whatever a loss has or will have is that of the loss inside."""

import inspect

import numpy as np
import pytest
from scipy.optimize import linprog

import fgmp
from fgmp.estimators.profiled_loss import ProfiledLoss
from fgmp.estimators.weighted_loss import WeightedLoss
from fgmp.estimators.wrapped_loss import WrappedLoss
from fgmp.losses import GLMLoss, Loss

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

LOSSES = [fgmp.LogisticLoss(), fgmp.SoftmaxLoss(3), fgmp.PoissonLoss()]


def subclasses(kind):
    """Return all subclasses of a class, of any depth."""
    found = kind.__subclasses__()
    return [*found, *(deeper for one in found for deeper in subclasses(one))]


def is_wrapper(kind):
    """Whether a loss of the package has a loss among its fields."""
    hints = inspect.get_annotations(kind)
    return kind.__module__.startswith("fgmp.") and any("Loss" in str(h) for h in hints.values())


WRAPPERS = [kind for kind in subclasses(Loss) if is_wrapper(kind) and kind is not WrappedLoss]


def test_every_loss_around_another_is_a_wrapped_loss():
    """Both of the estimators are found."""
    assert {ProfiledLoss, WeightedLoss} <= set(WRAPPERS)
    assert all(issubclass(kind, WrappedLoss) for kind in WRAPPERS)


@pytest.mark.parametrize("base", [Loss, GLMLoss])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_member_that_a_loss_gets_later_is_passed_on(wrapper, base, monkeypatch):
    """An attribute, a property and a method: the wrapper answers with those of the loss inside."""

    class Late(fgmp.PoissonLoss):
        late = "inside"
        late_property = property(lambda self: ("inside", type(self).__name__))

        def late_method(self, number):
            return number + 1

    monkeypatch.setattr(base, "late", "default", raising=False)
    monkeypatch.setattr(base, "late_property", property(lambda self: "default"), raising=False)
    monkeypatch.setattr(base, "late_method", lambda self, number: number, raising=False)

    class Defined(wrapper):
        """A wrapper that is defined when the base has them."""

    for wrapped in (Defined(Late()), Defined(Defined(Late()))):
        assert wrapped.late == "inside"
        assert wrapped.late_property == ("inside", "Late")
        assert wrapped.late_method(1) == 2


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_member_is_overridden_or_that_of_the_loss_inside(wrapper, loss):
    """Methods that take targets are overridden, because those of a wrapper differ."""
    wrapped = wrapper(loss)
    for name in (name for name in dir(GLMLoss) if not name.startswith("_")):
        overridden = any(name in vars(kind) for kind in (wrapper, WrappedLoss))
        member = inspect.getattr_static(GLMLoss, name)
        if inspect.isfunction(member) and name != "check_targets":
            takes_targets = "targets" in inspect.signature(member).parameters
            assert overridden or not takes_targets, name
        if overridden:
            continue
        found = getattr(wrapped, name)
        expected = getattr(loss, name)
        assert np.all(found == expected) or found is expected, name


@pytest.mark.parametrize("loss", LOSSES)
def test_expansion_is_what_values_derivative_and_curvature_say(loss):
    """Of a loss, with weights, with an intercept of its own, and with both."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((30, loss.n_outputs)).squeeze()
    direction = rng.standard_normal(z.shape)
    y = rng.integers(0, 3, 30) if loss.n_outputs > 1 else np.where(rng.random(30) < 0.5, -1.0, 1.0)
    y = np.abs(y) if isinstance(loss, fgmp.PoissonLoss) else y
    weighted = np.column_stack([y, rng.uniform(0.5, 1.5, 30)])
    for each, targets in [
        (loss, y),
        (WeightedLoss(loss), weighted),
        (ProfiledLoss(loss), y),
        (ProfiledLoss(WeightedLoss(loss)), weighted),
    ]:
        found = each.expansion(z, targets)
        np.testing.assert_array_equal(found.values, each.values(z, targets))
        np.testing.assert_array_equal(found.derivative, each.derivative(z, targets))
        expected = each.curvature(z, targets, direction)
        np.testing.assert_array_equal(found.curvature(direction), expected)
        assert (found.coupling is not None) == each.has_coupled_rows


def test_weights_of_rows_that_are_tied_together_are_refused():
    """A row alone has a weight; the other order of the two wrappers is the right one."""
    with pytest.raises(ValueError, match="couples rows"):
        WeightedLoss(ProfiledLoss(fgmp.LogisticLoss()))


def test_softmax_of_an_own_intercept_is_computed_once_a_step(monkeypatch):
    """Each Newton step of a client takes the exponentials of its rows once, however many classes."""
    n_exponentials = []
    exp = np.exp

    def counted(z, *args, **kwargs):
        n_exponentials.append(len(z))
        return exp(z, *args, **kwargs)

    steps = []
    expansion = fgmp.SoftmaxLoss.expansion

    def counted_expansion(self, predictions, targets):
        steps.append(len(targets))
        return expansion(self, predictions, targets)

    rng = np.random.default_rng(0)
    z, y = rng.standard_normal((40, 5)), np.arange(40) % 5
    monkeypatch.setattr(fgmp.SoftmaxLoss, "expansion", counted_expansion)
    monkeypatch.setattr(np, "exp", counted)
    ProfiledLoss(fgmp.SoftmaxLoss(5)).expansion(z, y)
    assert 1 < len(steps) == len(n_exponentials)


# Rows that a flag separates, with an intercept for each group.


def flagged(kind, seed, *, with_flag=True, weighted=False, one_class=False):
    """Return 240 rows of four groups, and a flag that one class, or rows without events, have."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((240, 3))
    groups = np.arange(240) % 4
    if kind == "counts":
        y = rng.poisson(np.exp(0.5 * X[:, 0]))
        marked = y == 0
    elif kind == "two classes":
        y = (X[:, 0] + rng.logistic(size=240) > 0).astype(int)
        marked = y == 1
    else:
        y = (X @ rng.standard_normal((3, 3)) + rng.gumbel(size=(240, 3))).argmax(axis=1)
        marked = y == 2
    if one_class:
        y = np.where(groups == 3, 0, y)
        marked &= groups != 3
    rows = np.flatnonzero(marked) if with_flag else rng.permutation(240)
    flag = np.isin(np.arange(240), rows[:25])
    weights = rng.uniform(0.3, 3, 240) if weighted else None
    return np.column_stack([X, flag]), y, groups, weights


@pytest.mark.parametrize("one_class", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["two classes", "three classes", "counts"])
def test_flag_of_one_class_is_refused_with_own_intercepts(kind, weighted, one_class, backend):
    """As with one intercept for all; a group of one class does not hide it."""
    make = fgmp.FedGradMPClassifier
    options = {"C": np.inf}
    if kind == "counts":
        make = fgmp.FedGradMPRegressor
        options["loss"] = "poisson"
    for intercept in ("per_group", True):
        X, y, groups, weights = flagged(kind, 0, weighted=weighted, one_class=one_class)
        model = make("all", fit_intercept=intercept, **options)
        with pytest.raises(ValueError, match="separated in part"):
            model.fit(X, y, groups, sample_weight=weights)


def is_separated(X, y, groups):
    """Return whether some coefficients and levels take a row ahead and none back, by a program."""
    signs = np.where(y == 1, 1, -1)
    columns = signs[:, None] * np.column_stack([X, groups[:, None] == np.unique(groups)])
    found = linprog(-columns.sum(axis=0), -columns, np.zeros(len(y)), bounds=(-1, 1))
    return -found.fun > 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_own_intercepts_refuse_what_a_linear_program_finds_separated(seed):
    """Small groups, some of which one column separates by chance."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal((36, 2)), rng.random(36) < 0.2])
    y = (X @ [1, 0, 2 * (seed % 3)] + rng.logistic(size=36) > 0).astype(int)
    groups = np.arange(36) % 3
    model = fgmp.FedGradMPClassifier("all", C=np.inf, fit_intercept="per_group", min_rows=1)
    if is_separated(X, y, groups):
        with pytest.raises(ValueError, match="separated"):
            model.fit(X, y, groups)
    else:
        assert np.abs(model.fit(X, y, groups).coef_).max() < 20
