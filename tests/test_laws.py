"""Laws that any version of this package keeps, each named by its sentence, against code that stands here.

Nothing in a law knows how the package is built. Those that are missing are held elsewhere: the objective, the order of
clients, precisions and bytes (3, 4, 26, 27) by the matrix; estimators (7 to 13) by test_laws_of_estimators; the others
by the tests of the files that they are about.
"""

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import fgmp
from fgmp.dictionary_learning import fit_ksvd

seeds = st.integers(0, 2**32 - 1)


def law(examples):
    """A family of so many cases, the same every time; the first that breaks a law is shown as it is."""
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
    how = {"derandomize": True, "deadline": None, "database": None, "phases": [Phase.generate]}
    return settings(max_examples=examples, suppress_health_check=slow, **how)


def largest(v, count):
    """The places of the largest magnitudes; of equal ones the first."""
    return np.sort(np.argsort(-np.abs(v), kind="stable")[:count])


def cosamp(A, y, tau, iterations):
    """Needell and Tropp, 2009."""
    x = np.zeros(A.shape[1])
    for _ in range(iterations):
        merged = np.union1d(largest(A.T @ (y - A @ x), 2 * tau), np.flatnonzero(x))
        b = np.linalg.lstsq(A[:, merged], y, rcond=None)[0]
        kept = largest(b, tau)
        x = np.zeros(A.shape[1])
        x[merged[kept]] = b[kept]
    return x


@law(30)
@given(seed=seeds, tau=st.integers(1, 4), n=st.integers(5, 30), steps=st.integers(1, 3), rounds=st.integers(1, 4))
def test_law_01_one_client_full_batch_squared_loss_standard_basis_fedgradmp_is_cosamp(seed, tau, n, steps, rounds):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3 * tau + 6, n))
    y = A[:, :tau].sum(1) + 0.3 * rng.standard_normal(len(A))
    found = fgmp.simulate(fgmp.FedGradMP(tau, steps), fgmp.Federation.from_arrays([A], [y]), rounds, rng=0).x
    np.testing.assert_allclose(found, cosamp(A, y, tau, steps * rounds), atol=1e-9)


@law(15)
@given(seed=seeds, n_atoms=st.integers(2, 8), sparsity=st.integers(1, 2), unit=st.sampled_from([1e-9, 1e-3, 37.0, 1e8]))
def test_law_25_ksvd_does_not_depend_on_units(seed, n_atoms, sparsity, unit):
    """That its error never grows is held by test_dictionary_learning."""
    rng = np.random.default_rng(seed)
    frames = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 12)) + 0.3 * rng.standard_normal((20, 12))
    fit, other = (fit_ksvd(scale * frames, n_atoms, sparsity, iterations=5, rng=0) for scale in (1, unit))
    np.testing.assert_allclose(other.dictionary.atoms, fit.dictionary.atoms, atol=1e-6)
    np.testing.assert_allclose(other.errors, fit.errors, atol=1e-9)
