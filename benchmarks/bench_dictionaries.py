"""Target 11: sparse codes of many signals, K-SVD, and approx_tau in a large dictionary. Processor time."""

import time
import warnings
from importlib.util import find_spec

import numpy as np
from bench_fedgradmp import without_numba
from harness import AT_LEAST, AT_MOST, Finding, Row, Scale, interleaved

import fgmp
from fgmp.batch_pursuit import pursue_signals

FEATURES, SPARSITY = 64, 10


def unit_columns(n_features: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Random directions."""
    columns = rng.standard_normal((n_features, count))
    return columns / np.linalg.norm(columns, axis=0)


def coding(scale: Scale) -> list[Row]:
    """Batch-OMP beside scikit-learn's, which codes one signal after another: a tenth of them, ten times its time."""
    from sklearn.linear_model import orthogonal_mp_gram

    n_signals, n_atoms = scale.pick(200, 10_000, 10_000), scale.pick(100, 1000, 1000)
    rng = np.random.default_rng(0)
    atoms, signals = unit_columns(FEATURES, n_atoms, rng), unit_columns(FEATURES, n_signals, rng)
    gram, correlations = atoms.T @ atoms, atoms.T @ signals
    some, peer_gram = np.asfortranarray(correlations[:, : n_signals // 10]), gram.copy()

    def ours() -> None:
        pursue_signals(gram, correlations, SPARSITY)

    contest = {
        "Batch-OMP": ours,
        "without Numba": without_numba(ours),
        "scikit-learn": lambda: orthogonal_mp_gram(peer_gram, some, n_nonzero_coefs=SPARSITY),
    }
    seconds = interleaved(contest, scale.pick(2, 9, 25), time.process_time)
    seconds["scikit-learn"] *= n_signals / some.shape[1]
    numba = find_spec("numba") is not None
    what = f"{n_signals:,} signals, {n_atoms:,} atoms, sparsity {SPARSITY}"
    rows = []
    for name, words in (("Batch-OMP", "with Numba" if numba else "Numba is missing"), ("without Numba", "NumPy alone")):
        note = f"{np.median(seconds[name]):.2g} s against {np.median(seconds['scikit-learn']):.2g} s"
        bound = (AT_LEAST, 20.0) if name == "Batch-OMP" else None
        ratios = (seconds["scikit-learn"] / seconds[name]).tolist()
        rows.append(Row(11, f"scikit-learn over Batch-OMP, {words}: {what}", ratios, bound, note=note))
    return rows


def plain_codes(signals: np.ndarray, atoms: np.ndarray, sparsity: int) -> np.ndarray:
    """scikit-learn's codes, which warns where a signal needs fewer atoms."""
    from sklearn.linear_model import orthogonal_mp_gram

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        codes: np.ndarray = orthogonal_mp_gram(atoms.T @ atoms, atoms.T @ signals, n_nonzero_coefs=sparsity)
    return codes


def plain_ksvd(signals: np.ndarray, atoms: np.ndarray, sparsity: int, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Atoms and codes, as one would write K-SVD first: scikit-learn's codes, a singular value decomposition an atom."""
    atoms = atoms.copy()
    codes = plain_codes(signals, atoms, sparsity)
    for _ in range(iterations):
        for j in range(atoms.shape[1]):
            users = np.flatnonzero(codes[j])
            if users.size:
                codes[j, users] = 0
                left = signals[:, users] - atoms @ codes[:, users]
                directions, sizes, weights = np.linalg.svd(left, full_matrices=False)
                atoms[:, j], codes[j, users] = directions[:, 0], sizes[0] * weights[0]
        codes = plain_codes(signals, atoms, sparsity)
    return atoms, codes


def learning(scale: Scale, n_atoms: int) -> Row:
    """A whole fit of one iteration, which codes all signals twice, against the plain one from the same start."""
    n_signals, rng = scale.pick(500, 10_000, 10_000), np.random.default_rng(1)
    planted = unit_columns(FEATURES, n_atoms, rng)
    frames = rng.standard_normal((n_signals, 8))
    frames = np.einsum("sk,sfk->sf", frames, planted.T[rng.integers(0, n_atoms, (n_signals, 8))].transpose(0, 2, 1))
    frames += 0.05 * rng.standard_normal(frames.shape)
    frames /= np.linalg.norm(frames, axis=1)[:, None]
    start = fgmp.ksvd(frames, n_atoms, SPARSITY, iterations=0, rng=0).atoms
    contest = {
        "fgmp": lambda: fgmp.ksvd(frames, n_atoms, SPARSITY, iterations=1, rng=0),
        "plain": lambda: plain_ksvd(frames.T, start, SPARSITY, 1),
    }
    seconds = interleaved(contest, scale.pick(1, 2, 5), time.process_time)
    note = f"{np.median(seconds['fgmp']):.2g} s against {np.median(seconds['plain']):.2g} s, start and books included"
    what = f"plain K-SVD over ours, one iteration: {n_signals:,} signals of {FEATURES}, {n_atoms:,} atoms"
    return Row(11, what, (seconds["plain"] / seconds["fgmp"]).tolist(), (AT_LEAST, 5.0), note=note)


def choosing(scale: Scale) -> Row:
    """approx_tau, with its search for a better choice, over one product with the Gram matrix for each atom chosen."""
    n_features, n_atoms = scale.pick((50, 500), (1000, 10_000), (1000, 10_000))
    dictionary, rng = fgmp.gaussian_dictionary(n_features, n_atoms, rng=0), np.random.default_rng(2)
    signal, coefficients = rng.standard_normal(n_features), rng.standard_normal(n_atoms)

    def products() -> None:
        for _ in range(SPARSITY):
            dictionary.gram @ coefficients

    contest = {"approx_tau": lambda: fgmp.approx_tau(dictionary, signal, SPARSITY), "products": products}
    seconds = interleaved(contest, scale.pick(2, 7, 15), time.process_time)
    note = f"{np.median(seconds['approx_tau']):.2g} s against {np.median(seconds['products']):.2g} s"
    what = f"approx_tau over {SPARSITY} products with the Gram matrix, {SPARSITY} of {n_atoms:,} atoms"
    return Row(11, what, (seconds["approx_tau"] / seconds["products"]).tolist(), (AT_MOST, 1.5), note=note)


def dictionaries(scale: Scale) -> Finding:
    """All of them; K-SVD with 1,000 atoms takes a minute longer."""
    learnt = [learning(scale, n_atoms) for n_atoms in scale.pick([80], [256], [256, 1000])]
    return Finding([*coding(scale), *learnt, choosing(scale)])
