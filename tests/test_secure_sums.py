"""Secure sums against plain sums of integers, with clients lost wherever they may be, and what the server holds."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from cases import METHODS
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed_updates import not_finite
from masked_sums import masked_sum
from scipy.stats import chisquare

import fgmp
from fgmp.privacy.masking import Sessions, TooFewClients
from fgmp.privacy.secagg_client import TRIPS
from fgmp.run.faults import Corrupted

pytestmark = pytest.mark.usefixtures("backend")

pytest.importorskip("cryptography")

FED = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
CLIENTS = fgmp.LocalClients(FED)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 7), st.data())
def test_the_unmasked_total_is_the_plain_one_with_clients_lost_between_the_trips(
    seed, n_clients, data
):
    """Bit for bit, whoever is lost, as long as the threshold is left."""
    threshold = data.draw(st.integers(2, n_clients))
    missing = data.draw(
        st.lists(st.integers(0, n_clients - 1), unique=True, max_size=n_clients - threshold)
    )
    lost = {position: data.draw(st.sampled_from(list(TRIPS))) for position in missing}
    vectors = list(np.random.default_rng(seed).integers(0, 2**64, (n_clients, 5), np.uint64))
    before = [vector.copy() for vector in vectors]
    outcome = masked_sum(vectors, threshold, lost)
    present = [
        position for position in range(n_clients) if lost.get(position, "unmask") == "unmask"
    ]
    np.testing.assert_array_equal(
        outcome.total, np.sum([vectors[position] for position in present], axis=0)
    )
    assert outcome.uploaded.tolist() == present
    np.testing.assert_array_equal(vectors, before)


def test_what_the_server_holds_of_one_client_is_uniform():
    """Bytes of a vector of zeros under masks, also after a sum was opened; the vector itself fails the same test."""
    zeros = [np.zeros(4096, np.uint64) for _ in range(3)]
    outcome = masked_sum(zeros, 2, {})
    for position, vector in outcome.masked.items():
        counts = np.bincount(vector.view(np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-6, position
        assert chisquare(np.bincount(zeros[position].view(np.uint8), minlength=256)).pvalue < 1e-6
        bits = np.unpackbits(vector.view(np.uint8)).astype(float)
        assert abs(np.corrcoef(bits[:-64], bits[64:])[0, 1]) < 5 / bits.size**0.5
    assert not outcome.total.any()
    pairs = [outcome.masked[0] + outcome.masked[1], outcome.masked[1] + outcome.masked[2]]
    assert all(
        chisquare(np.bincount(pair.view(np.uint8), minlength=256)).pvalue > 1e-6 for pair in pairs
    )


def test_masks_are_fresh_and_bytes_are_those_counted_by_hand():
    """The masked words of two sums differ, and the bytes are those counted by hand."""
    vectors = [np.zeros(10, np.uint64) for _ in range(4)]
    first, second = masked_sum(vectors, 3, {}), masked_sum(vectors, 3, {2: "masked_input"})
    assert (first.masked[0] != second.masked[0]).all()
    secrets, share = 2, 16  # the wrapping secret, and the seed of the self-mask
    advertised = 4 * (16 + 32)  # a nonce, and a key
    shares_sent = 4 * 3 * (secrets * share + 16)  # shares, and a tag
    wrapped = 4 * 3 * 32  # a key of each pair
    assert first.bytes_up == advertised + shares_sent + wrapped + 4 * 80 + 4 * 4 * share
    assert first.bytes_down == 4 * advertised + shares_sent + 4 * 4 * 4
    assert second.bytes_up == advertised + shares_sent + wrapped + 3 * 80 + 3 * 4 * share
    assert first.n_messages == 4 * 4 and second.n_messages == 4 + 4 + 3 + 3


def test_a_session_is_used_for_all_sums_of_a_run():
    """Four trips for the first sum, and one for each other."""
    sessions, vectors = Sessions(), [np.arange(5, dtype=np.uint64)] * 3
    sums = [masked_sum(vectors, 2, {}, sessions) for _ in range(33)]
    assert all((one.total == 3 * np.arange(5)).all() for one in sums)
    assert [one.n_messages for one in sums] == [4 * 3] + [3] * 32
    held = {one.masked[0].tobytes() for one in sums}
    assert len(held) == 33  # the same vector, and other masks each time


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.data())
def test_many_sums_of_a_run_are_the_plain_ones_whoever_is_lost_in_any_of_them(seed, data):
    """Bit for bit; and where too few are left the next sum is well again."""
    rng, sessions, n_clients, threshold = np.random.default_rng(seed), Sessions(), 5, 3
    is_whole = False  # whether everybody has replied to everything in a session
    for _ in range(6):
        vectors = list(rng.integers(0, 2**64, (n_clients, 4), np.uint64))
        missing = data.draw(st.lists(st.integers(0, n_clients - 1), unique=True, max_size=3))
        lost = {position: data.draw(st.sampled_from(list(TRIPS))) for position in missing}
        is_later = is_whole and set(lost.values()) <= {"unmask"}
        is_whole = is_later or not lost
        if len(lost) > n_clients - threshold and not is_later:
            with pytest.raises(TooFewClients):
                masked_sum(vectors, threshold, lost, sessions)
            continue
        outcome = masked_sum(vectors, threshold, lost, sessions)
        present = [
            position for position in range(n_clients) if lost.get(position, "unmask") == "unmask"
        ]
        assert outcome.uploaded.tolist() == present
        np.testing.assert_array_equal(outcome.total, np.sum([vectors[i] for i in present], axis=0))


@pytest.mark.parametrize("resolution", [2.0**-40, 1e-12, 1e-5])
def test_a_sum_is_off_by_half_a_unit_for_each_answer_and_by_rounding(resolution):
    """In the whole range, against sums of fractions."""
    secure, rng = fgmp.SecureSum(resolution), np.random.default_rng(0)
    for magnitude in secure.range * 2.0 ** np.arange(-20, 1):
        values, weights = rng.uniform(-magnitude, magnitude, (7, 30)), rng.dirichlet(np.ones(7))
        encoded = [secure.encoded(value, p) for value, p in zip(values, weights, strict=True)]
        found, rounding = (
            secure.decoded(np.sum(encoded, axis=0)),
            Fraction(np.abs(values).max().item()) / 2**51,
        )
        for total, column in zip(found.tolist(), values.T.tolist(), strict=True):
            expected = sum(
                Fraction(p) * Fraction(value)
                for p, value in zip(weights.tolist(), column, strict=True)
            )
            assert (
                abs(Fraction(total) - expected) <= Fraction(7, 2) * Fraction(resolution) + rounding
            )


@pytest.mark.parametrize("name", METHODS)
def test_every_method_ends_where_it_does_without(name):
    """With secure sums and without, the ends and objectives differ by at most 1e-8."""
    plain, secure = (
        fgmp.simulate(METHODS[name](), FED, 3, rng=0, aggregator=r)
        for r in (fgmp.Mean(), fgmp.SecureSum())
    )
    np.testing.assert_allclose(secure.x, plain.x, atol=1e-8)
    np.testing.assert_allclose(secure.history["objective"], plain.history["objective"], atol=1e-8)


def test_clients_that_drop_out_are_left_out_of_the_sum_and_of_its_weights():
    """The model is that of the four others, and a sum beyond the range is NaN."""
    faulty = fgmp.Faulty(FED, fgmp.DropOut(clients=[1]), Corrupted(not_finite, clients=[4]))
    for method in (METHODS["SharedSupportGradMP"](), METHODS["FedAvg"]()):
        plain, secure = (
            fgmp.simulate(method, faulty, 3, rng=0, aggregator=r) for r in (None, fgmp.SecureSum())
        )
        np.testing.assert_allclose(secure.x, plain.x, atol=1e-8)
        np.testing.assert_array_equal(secure.history["clients"], [0, 4, 4, 4])
    secure = fgmp.SecureSum(1e-24).for_run(FED.info, 6, 1, 1).privacy
    assert np.isnan(secure.objective(CLIENTS, np.zeros(40), np.arange(6)))  # beyond the range


def test_a_round_with_fewer_than_the_threshold_is_lost_and_counted():
    """As one in which nobody answers: the model stays."""
    faulty = fgmp.Faulty(FED, fgmp.DropOut(clients=[1]), Corrupted(not_finite, clients=[4]))
    secure, unheard = fgmp.SecureSum(threshold=5), fgmp.History(objective_on=0)
    with pytest.warns(fgmp.AdviceWarning, match="no update arrived in 3 rounds"):
        lost = fgmp.simulate(
            METHODS["FedAvg"](), faulty, 3, rng=0, aggregator=secure, history=unheard
        )
    assert not lost.x.any() and lost.rejected == {"missing": 3, "not_finite": 3}
    np.testing.assert_array_equal(lost.history["clients"], 0)


def test_the_threshold_is_that_of_objectives_too():
    """With too few clients the objective is NaN, and with all six it is the plain one."""
    asked = np.zeros(40), np.arange(6)
    for threshold, n_clients in ((6, 5), (4, 3), (5, 4)):
        secure = fgmp.SecureSum(threshold=threshold).for_run(FED.info, 6, 1, 1).privacy
        assert np.isnan(secure.objective(CLIENTS, asked[0], np.arange(n_clients)))
        assert secure.objective(CLIENTS, *asked) == pytest.approx(FED.objective(asked[0]))


def test_a_sum_of_losses_below_zero_is_none(monkeypatch):
    """A client that takes 1000 away would have the start taken for the best model."""
    honest = fgmp.LocalClients.objectives

    def adversarial(federation, x, indices=None):
        reported, values = honest(federation, x, indices)
        return reported, np.where(reported == 0, values - 1000, values)

    monkeypatch.setattr(fgmp.LocalClients, "objectives", adversarial)
    secure = fgmp.SecureSum().for_run(FED.info, 6, 1, 1)
    assert np.isnan(secure.objective(CLIENTS, np.zeros(40), np.arange(6)))


@pytest.mark.parametrize("weight", [2.0, 1 + 1e-12, -0.5, np.nan, np.inf])
def test_a_weight_that_is_no_share_is_refused(weight):
    """Twice the range would come out as its negative."""
    secure = fgmp.SecureSum()
    with pytest.raises(ValueError, match="weight is .*; expected a share of all"):
        secure.encoded(np.array([secure.range, 0.0]), weight)
    np.testing.assert_array_equal(
        secure.decoded(secure.encoded(np.array([secure.range, 0.0]))), [secure.range, 0]
    )


@pytest.mark.parametrize("resolution", [1e200, 5e-324, 2.0**65, 2.0**-127])
def test_a_resolution_that_cannot_work_is_refused(resolution):
    """Resolutions too large or too small are an error that has the bounds."""
    with pytest.raises(
        ValueError, match="resolution is .*; expected a finite number at least .* and at most"
    ):
        fgmp.SecureSum(resolution)


class SendsHessians(fgmp.Method):
    """A method of a user, whose updates are Hessians, and which declares what it is told to."""

    def __init__(self, **declared):
        self.declared = declared

    def start(self, info):
        return np.zeros((info.n_features, info.n_features))

    def exchanges(self):
        hessian = fgmp.Exchange(
            message=lambda state: 0,
            client_update=lambda client, message, rng: client.features.T @ client.features,
            server_update=lambda state, mean: mean,
            update_spec=lambda state: fgmp.UpdateSpec(state.shape),
            **self.declared,
        )
        return [hessian]

    def coefficients(self, state):
        return np.zeros(len(state))


def test_method_that_declares_nothing_is_refused_in_cohorts():
    """What it sends may be the same in every round, and the message says what to declare."""
    run = partial(fgmp.simulate, rounds=2, rng=0, aggregator=fgmp.SecureSum())
    words = r'cohort_size is 4 of 6 .* of SendsHessians, .* say Exchange\(..., ignores_message="never"\)'
    for declared in ({}, {"ignores_message": "nevermore"}, {"reveals_objective": False}):
        with pytest.raises(ValueError, match=words):
            run(SendsHessians(**declared), FED, cohort_size=4)

    assert run(SendsHessians(), FED).history["clients"].tolist() == [0, 6, 6]
    with pytest.raises(ValueError, match="Hessians of a quadratic loss are the same"):
        run(SendsHessians(ignores_message="quadratic"), FED, cohort_size=4)
    declared = SendsHessians(ignores_message="never", reveals_objective=False)
    assert run(declared, FED, cohort_size=5).history["clients"][1] == 5


@pytest.mark.parametrize("base", [fgmp.FedAvg, fgmp.FedDualAvg, fgmp.FastFedDualAvg])
def test_method_that_overrides_its_update_inherits_no_declaration(base):
    """Another function sends other numbers; another threshold does not."""
    options = {"learning_rate": 0.1} | ({} if base is fgmp.FedAvg else {"l1_weight": 0.1})
    (exchange,) = base(**options).exchanges()
    assert (exchange.ignores_message, exchange.reveals_objective) == ("never", False)
    name = exchange.client_update.__name__

    overriding = type("Overriding", (base,), {name: lambda self, client, message, rng: message})
    (exchange,) = overriding(**options).exchanges()
    assert (exchange.ignores_message, exchange.reveals_objective) == ("always", True)


def test_method_of_plain_functions_has_one_exchange_that_declares_nothing():
    """It has the functions of the method, and the strict defaults."""

    class Plain(fgmp.Method):
        def message(self, state):
            return "message"

        def client_update(self, client, message, rng):
            return "update"

        def server_update(self, state, aggregate):
            return "state"

        def update_spec(self, state):
            return "spec"

    (exchange,) = Plain().exchanges()
    assert (exchange.message(0), exchange.client_update(0, 0, 0)) == ("message", "update")
    assert (exchange.server_update(0, 0), exchange.update_spec(0)) == ("state", "spec")
    for client_update in (Plain.client_update, staticmethod(len), partial(len)):
        method = type("Other", (Plain,), {"client_update": client_update})()
        (exchange,) = method.exchanges()
        assert (exchange.ignores_message, exchange.reveals_objective) == ("always", True)


def test_objectives_of_an_undeclared_method_are_in_the_ledger():
    """The first objective may not stand beside the sums of an update that may hold it."""
    for declared, with_objectives in (({}, True), ({"reveals_objective": False}, False)):
        secure = fgmp.SecureSum().for_run(FED.info, 6, 1, 1)
        secure.check_method(SendsHessians(**declared), FED.info, 6)
        assert secure.ledger.with_objectives == with_objectives
