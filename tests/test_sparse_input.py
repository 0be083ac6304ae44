"""Sparse matrices as they come: every format gives the same model, is left as it is, or is refused by name."""

import numpy as np
import pytest
from scipy import sparse

import fgmp
from fgmp.federation import Federation


def data():
    rng = np.random.default_rng(0)
    As = [rng.standard_normal((m, 30)) * (rng.random((m, 30)) < 0.3) for m in (40, 41, 42)]
    return As, [A @ np.eye(30)[4] + 0.3 * rng.standard_normal(len(A)) for A in As]


def unsorted(A):
    matrix = sparse.csr_array(A)
    for row in range(len(A)):
        own = slice(matrix.indptr[row], matrix.indptr[row + 1])
        matrix.indices[own], matrix.data[own] = matrix.indices[own][::-1].copy(), matrix.data[own][::-1].copy()
    matrix.has_sorted_indices = False
    return matrix


def twice(A, kind=sparse.csr_array):
    """Every entry in two parts, and zeros that are stored."""
    rows, columns = A.nonzero()
    zeros = np.argwhere(A == 0)[:5].T
    rows, columns = np.concatenate([rows, rows, zeros[0]]), np.concatenate([columns, columns, zeros[1]])
    parts = A[A.nonzero()]
    values = np.concatenate([0.25 * parts, 0.75 * parts, np.zeros(5)])
    if kind is sparse.coo_array:
        return sparse.coo_array((values, (rows, columns)), shape=A.shape)
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum(np.bincount(rows, minlength=len(A)))
    return sparse.csr_array((values[order], columns[order], np.append(0, ends)), shape=A.shape)


FORMS = {
    **{f"{name}_array": getattr(sparse, f"{name}_array") for name in ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")},
    **{f"{name}_matrix": getattr(sparse, f"{name}_matrix") for name in ("csr", "csc", "coo")},
    "unsorted": unsorted,
    "twice": twice,
    "twice in coo": lambda A: twice(A, sparse.coo_array),
    "long indices": lambda A: _with_indices(sparse.csr_array(A), np.int64),
}


def _with_indices(matrix, dtype):
    parts = (matrix.data, matrix.indices.astype(dtype), matrix.indptr.astype(dtype))
    return sparse.csr_array(parts, shape=matrix.shape)


@pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")
@pytest.mark.parametrize("convert", FORMS.values(), ids=FORMS)
def test_every_format_gives_the_same_model_and_is_left_as_it_is(convert):
    As, ys = data()
    method = fgmp.FedGradMP(3, batch_size=12)
    expected = fgmp.simulate(method, Federation.from_arrays([sparse.csr_array(A) for A in As], ys), 2, rng=0).x
    those = [convert(A) for A in As]
    names = ("data", "indices", "indptr", "row", "col", "offsets")
    arrays = [getattr(A, name) for A in those for name in names if isinstance(getattr(A, name, None), np.ndarray)]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)
    found = fgmp.simulate(method, Federation.from_arrays(those, ys), 2, rng=0).x
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)
    for A, dense in zip(those, As, strict=True):
        np.testing.assert_allclose(A.toarray(), dense, rtol=1e-15)


@pytest.mark.parametrize("kind", [np.int64, np.int8, bool])
def test_whole_numbers_become_floats(kind):
    A = np.array([[1, 0, 1], [0, 1, 0]], kind)
    client = Federation.from_arrays([sparse.csr_array(A)], [[1, 2]]).clients[0]
    assert client.dtype == np.float64
    np.testing.assert_array_equal(client.predictions(np.array([1.0, 2.0, 4.0])), [5, 2])


def test_canonical_csr_is_not_copied():
    A = sparse.csr_array(np.eye(4))
    assert np.shares_memory(Federation.from_arrays([A], [np.ones(4)]).clients[0].features.stored.data, A.data)


def test_one_matrix_is_not_a_sequence_and_one_dimension_no_matrix():
    with pytest.raises(ValueError, match="As is one sparse matrix; expected a sequence of matrices"):
        Federation.from_arrays(sparse.csr_array(np.eye(2)), [[1.0], [2.0]])
    try:
        flat = sparse.coo_array(np.array([1.0, 0, 2]))
    except (TypeError, ValueError):
        pytest.skip("this SciPy has no sparse vectors")
    if flat.ndim == 2:
        pytest.skip("this SciPy has no sparse vectors")
    with pytest.raises(ValueError, match=r"As\[0\] has shape \(3,\); expected 2 dimensions"):
        Federation.from_arrays([flat], [[1.0]])


def with_an_index_of(place):
    """An identity whose second entry stands in a column that is not there."""
    matrix = sparse.csr_array(np.eye(3))
    matrix.indices[1] = place
    return matrix


def test_an_index_beyond_the_columns_is_named():
    with pytest.raises(ValueError, match=r"As\[0\] is no valid sparse matrix: .*ind.*; expected indices within"):
        Federation.from_arrays([with_an_index_of(7)], [np.ones(3)])
