"""Secure sums against plain sums of integers, with clients lost wherever they may be, and what the server holds."""

from fractions import Fraction

import numpy as np
import pytest
from garbage import not_finite
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import fgmp
from fgmp import Faulty
from fgmp.layers.faults import Changed
from fgmp.layers.masking import SHARING, UNMASKING, UPLOAD, masked_sum
from fgmp.methods.support_solvers import GradientsOnSupport, LocalSteps

pytest.importorskip("cryptography")
pytest.importorskip("Crypto")

FED = fgmp.make_sparse_regression(6, 30, 40, 3, 0.5, noise_variance=0.01, rng=0)
RATE = {"learning_rate": 0.05, "local_iterations": 2}
METHODS = {
    "sketch": fgmp.SharedSupportGradMP(3, fgmp.CountSketch(3, 6)),
    "conjugate": fgmp.SharedSupportGradMP(3, solver=GradientsOnSupport(3)),
    "newton": fgmp.SharedSupportGradMP(3, solver=fgmp.NewtonOnSupport(2)),
    "local": fgmp.SharedSupportGradMP(3, solver=LocalSteps(fgmp.GradientDescent(3))),
    "FedGradMP": fgmp.FedGradMP(3),
    "FedAvg": fgmp.FedAvg(server_learning_rate=0.7, **RATE),
    "FedHT": fgmp.FedHT(sparsity=3, **RATE),
    "FedIterHT": fgmp.FedIterHT(sparsity=3, **RATE),
    "FedMid": fgmp.FedMid(l1_weight=0.01, **RATE),
    "FedDualAvg": fgmp.FedDualAvg(l1_weight=0.01, **RATE),
    "FastFedDualAvg": fgmp.FastFedDualAvg(l1_weight=0.01, **RATE),
}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([8, 16, 32, 64]), st.integers(2, 7), st.data())
def test_the_unmasked_total_is_the_plain_one_with_clients_lost_between_the_trips(seed, bits, n_clients, data):
    """Bit for bit, whoever is lost, as long as the threshold is left."""
    threshold = data.draw(st.integers(2, n_clients))
    missing = data.draw(st.lists(st.integers(0, n_clients - 1), unique=True, max_size=n_clients - threshold))
    lost = {place: data.draw(st.sampled_from([SHARING, UPLOAD, UNMASKING])) for place in missing}
    kind = np.dtype(f"uint{bits}")
    vectors = list(np.random.default_rng(seed).integers(0, 2**bits, (n_clients, 5), dtype=kind))
    before = [vector.copy() for vector in vectors]
    outcome = masked_sum(vectors, threshold, lost)
    there = [place for place in range(n_clients) if lost.get(place, UNMASKING) == UNMASKING]
    expected = np.zeros(5, kind)
    for place in there:
        expected += vectors[place]
    np.testing.assert_array_equal(outcome.total, expected)
    assert np.flatnonzero(outcome.uploaded).tolist() == there and outcome.total.dtype == kind
    np.testing.assert_array_equal(vectors, before)


@pytest.mark.parametrize("trip", [SHARING, UPLOAD, UNMASKING])
def test_too_many_lost_clients_are_an_error_and_no_sum(trip):
    vectors = list(np.arange(20, dtype=np.uint32).reshape(5, 4))
    masked_sum(vectors, 3, {0: trip, 4: trip})
    with pytest.raises(ValueError, match="a secure sum has 2 of 5 clients left; expected at least 3, the threshold"):
        masked_sum(vectors, 3, {0: trip, 1: trip, 4: trip})


def test_what_the_server_holds_of_one_client_is_uniform():
    """Bytes of a vector of zeros under masks, also after a sum was opened; the vector itself fails the same test."""
    zeros = [np.zeros(4096, np.uint64) for _ in range(3)]
    outcome = masked_sum(zeros, 2)
    for place, vector in outcome.masked.items():
        counts = np.bincount(vector.view(np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-6, place
        assert chisquare(np.bincount(zeros[place].view(np.uint8), minlength=256)).pvalue < 1e-6
        bits = np.unpackbits(vector.view(np.uint8)).astype(float)
        assert abs(np.corrcoef(bits[:-64], bits[64:])[0, 1]) < 5 / bits.size**0.5
    assert not outcome.total.any()
    pairs = [outcome.masked[0] + outcome.masked[1], outcome.masked[1] + outcome.masked[2]]
    assert all(chisquare(np.bincount(pair.view(np.uint8), minlength=256)).pvalue > 1e-6 for pair in pairs)


def test_masks_are_fresh_and_bytes_are_those_counted_by_hand():
    vectors = [np.zeros(10, np.uint32) for _ in range(4)]
    first, second = masked_sum(vectors, 3), masked_sum(vectors, 3, {2: UPLOAD})
    assert (first.masked[0] != second.masked[0]).all()
    letters, share = 4 * 3 * (32 + 16), 4 + 16  # two shares and a tag; a number and a share
    assert first.bytes_up == 4 * 64 + letters + 4 * 40 + 4 * 4 * share
    assert first.bytes_down == 4 * 4 * 64 + letters + 4 * 4 * 4
    assert second.bytes_up == 4 * 64 + letters + 3 * 40 + 3 * 4 * share


@pytest.mark.parametrize("bits, resolution", [(64, 2.0**-40), (64, 1e-12), (32, 2.0**-14), (32, 1e-5)])
def test_a_sum_is_off_by_half_a_unit_for_each_answer_and_by_rounding(bits, resolution):
    """In the whole range, against sums of fractions."""
    secure, rng = fgmp.SecureSum(bits, resolution), np.random.default_rng(0)
    for magnitude in secure.range * 2.0 ** np.arange(-20, 1):
        values, weights = rng.uniform(-magnitude, magnitude, (7, 30)), rng.dirichlet(np.ones(7))
        encoded = [secure.encoded(value, p) for value, p in zip(values, weights, strict=True)]
        found, rounding = secure.decoded(secure.plain(encoded)), Fraction(np.abs(values).max().item()) / 2**51
        for total, column in zip(found.tolist(), values.T.tolist(), strict=True):
            expected = sum(Fraction(p) * Fraction(value) for p, value in zip(weights.tolist(), column, strict=True))
            assert abs(Fraction(total) - expected) <= Fraction(7, 2) * Fraction(resolution) + rounding


@pytest.mark.parametrize("bits", [32, 64])
def test_a_run_with_masks_is_the_one_without_bit_for_bit(bits, monkeypatch):
    """And so whatever the random numbers of the system are."""
    secure = fgmp.SecureSum(bits=bits, resolution=2.0 ** (-16 if bits == 32 else -40))
    run = lambda: fgmp.simulate(METHODS["sketch"], FED, 4, 5, 0, reduce=secure)  # noqa: E731
    masked, again = run(), run()
    monkeypatch.setattr(
        "fgmp.layers.secure_sums.masked_sum",
        lambda vectors, least, lost: masked_sum(vectors, least, lost)._replace(total=sum_of(vectors, lost)),
    )
    for other in (again, run()):
        np.testing.assert_array_equal(masked.x, other.x)


def sum_of(vectors, lost):
    """Without masks."""
    return np.add.reduce([v for i, v in enumerate(vectors) if i not in lost], axis=0, dtype=vectors[0].dtype)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_ends_where_it_does_without(name):
    plain, secure = (fgmp.simulate(METHODS[name], FED, 3, rng=0, reduce=r) for r in (fgmp.Mean(), fgmp.SecureSum()))
    np.testing.assert_allclose(secure.x, plain.x, atol=1e-8)
    np.testing.assert_allclose(secure.history["objective"], plain.history["objective"], atol=1e-8)


def test_clients_that_drop_out_are_left_out_of_the_sum_and_of_its_weights():
    faults = [fgmp.DropOut(clients=[1]), Changed(not_finite, clients=[4])]
    faulty = Faulty(FED, *faults)
    plain = fgmp.simulate(METHODS["sketch"], faulty, 3, rng=0)
    secure = fgmp.simulate(METHODS["sketch"], faulty, 3, rng=0, reduce=fgmp.SecureSum())
    np.testing.assert_allclose(secure.x, plain.x, atol=1e-8)
    np.testing.assert_array_equal(secure.history["clients"], [0, 4, 4, 4])
    with pytest.raises(ValueError, match="a secure sum has 4 of 6 clients left; expected at least 5, the threshold"):
        fgmp.simulate(METHODS["sketch"], faulty, 3, rng=0, reduce=fgmp.SecureSum(threshold=5))


def test_a_checkpoint_knows_whether_sums_were_secure(tmp_path):
    path = tmp_path / "run.fgmp"
    whole = fgmp.simulate(METHODS["sketch"], FED, 4, rng=0, reduce=fgmp.SecureSum())
    fgmp.simulate(METHODS["sketch"], FED, 2, rng=0, reduce=fgmp.SecureSum(), watch=fgmp.Checkpoint(path))
    resumed = fgmp.simulate(METHODS["sketch"], FED, 4, rng=0, reduce=fgmp.SecureSum(), watch=fgmp.Checkpoint(path))
    np.testing.assert_array_equal(whole.x, resumed.x)
    with pytest.raises(ValueError, match="is of another run: .*reduce is Mean, not SecureSum"):
        fgmp.simulate(METHODS["sketch"], FED, 4, rng=0, watch=fgmp.Checkpoint(path))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: fgmp.SecureSum(bits=24), "bits is 24; expected 8, 16, 32 or 64"),
        (lambda: fgmp.SecureSum(resolution=0), "resolution is 0; expected a finite number above 0"),
        (lambda: fgmp.SecureSum(threshold=1), "threshold is 1; expected an integer of at least 2"),
        (lambda: run(reduce=True), r"reduce is True; expected a reducer, such as fgmp.Mean\(\)"),
        (lambda: run(reduce=fgmp.SecureSum(threshold=7)), r"threshold is 7; expected an integer from 2 to 6"),
        (lambda: run(cohort_size=1, reduce=fgmp.SecureSum()), "cohort_size is 1; expected an integer from 2"),
        (
            lambda: run(reduce=fgmp.SecureSum(bits=16, resolution=1e-6)),
            r"an answer holds larger numbers; expected magnitudes of at most 0.016384, the range of SecureSum\(bits=16",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def run(method=METHODS["sketch"], cohort_size=None, **options):  # noqa: B008
    return fgmp.simulate(method, FED, 1, cohort_size, 0, **options)
