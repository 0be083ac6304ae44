"""Values that nobody should hand to a function, and a picture of a value that shows whether it was modified."""

from __future__ import annotations

import dataclasses
import datetime
import math
import warnings
from collections import OrderedDict

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import fgmp

try:
    import pandas
except ImportError:
    pandas = None

SIZES = st.integers(0, 6)
NUMBERS = st.one_of(
    st.sampled_from([0.0, -1.0, 0.5, 1e-320, 1e-150, 1e150, -1e300, math.inf, -math.inf, math.nan]),
    st.floats(-1e3, 1e3),
    st.floats(),
)
INTEGERS = st.one_of(st.integers(-3, 20), st.sampled_from([-(2**63), 2**63, 2**64, 10**30]))
OBJECTS = [
    None,
    ...,
    NotImplemented,
    object(),
    int,
    len,
    np.linalg,
    lambda *arguments, **named: None,
    np.random.default_rng(0),
    datetime.date(2024, 2, 29),
    datetime.timedelta(3),
    np.datetime64("NaT"),
    np.float32(2),
    np.int8(3),
    np.bool_(True),
    np.ma.masked,
    range(3),
    range(0),
    {1, 2},
    memoryview(b"abc"),
    OrderedDict(a=1),
]
DTYPES = [
    *("f2", "f4", "f8", ">f8", "g", "i1", "u1", ">i4", "i8", "u8", "?", "c8", "c16"),
    *("U3", "S2", "O", "M8[ns]", "m8[s]", "V4", [("a", "f8"), ("b", "i4")]),
]
SCALARS = st.one_of(
    st.sampled_from(OBJECTS),
    st.booleans(),
    INTEGERS,
    NUMBERS,
    st.complex_numbers(max_magnitude=10),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.sampled_from(["squared", "auto", "omp", "round", "nan", "1.0"]),
)


SPECIAL = np.array([0.0, -1.0, 0.5, 1.0, 7.0, 1e-320, 1e-150, 1e150, -1e300, math.inf, -math.inf, math.nan])


def filled(dtype, shape, seed):
    """An array of a type, with a bit of everything that the type has; drawn from a seed, which is quick."""
    dtype, rng = np.dtype(dtype), np.random.default_rng(seed)
    if dtype.kind == "V":
        return np.zeros(shape, dtype)
    if dtype.kind == "O":
        things = [*OBJECTS, True, 10**30, 2.5, -3, "a", b"b", 1j, [1, 2], {}]
        array = np.empty(shape, object)
        array.reshape(-1)[:] = [things[i] for i in rng.integers(len(things), size=array.size)] or None
        return array
    if dtype.kind in "US":
        return rng.choice(["", "a", "1.5", "nan", "x y"], shape).astype(dtype)
    if dtype.kind in "fc":
        several = rng.choice(SPECIAL, shape) if rng.random() < 0.5 else rng.choice(SPECIAL[:5], shape)
        return quietly((several + rng.standard_normal(shape) * (rng.random() < 0.5)).astype, dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    return np.frombuffer(rng.bytes(math.prod(shape) * dtype.itemsize), dtype).reshape(shape).copy()


def quietly(function, *arguments):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*arguments)


@st.composite
def arrays(draw):
    shape = draw(st.one_of(st.lists(SIZES, max_size=3).map(tuple), st.sampled_from([(5, 4), (5,), (4,), (4, 4)])))
    return filled(draw(st.sampled_from(DTYPES)), shape, draw(st.integers(0, 2**32 - 1)))


def ragged(draw):
    return draw(
        st.sampled_from(
            [
                [[1.0, 2.0], [3.0]],
                [[[1.0]], [2.0]],
                [np.zeros(2), np.zeros(3)],
                [np.zeros((2, 2)), np.zeros((2, 3))],
                [1.0, [2.0]],
                [[1.0, "a"], [2.0, 3.0]],
                [[None, 1.0], [2.0, 3.0]],
                [{}, {}],
                [[], [1.0]],
                [sparse.eye(2)],
            ]
        )
    )


@st.composite
def anything(draw):
    """Any scalar, array-like, container or thing."""
    kind = draw(st.sampled_from(["scalar", "scalar", "array", "array", "ragged", "list", "dict", "other"]))
    if kind == "scalar":
        return draw(SCALARS)
    if kind == "array":
        return draw(arrays())
    if kind == "ragged":
        return ragged(draw)
    if kind == "list":
        return draw(st.one_of(st.lists(SCALARS, max_size=5), st.lists(SCALARS, max_size=3).map(tuple)))
    if kind == "dict":
        return draw(st.dictionaries(st.one_of(st.text(max_size=3), st.integers(0, 3)), SCALARS, max_size=3))
    return draw(others())


@st.composite
def others(draw):
    """Masked, sparse, from pandas, of a subclass, and too large for a product."""
    shape = draw(st.sampled_from([(5, 4), (5,), (0, 4), (2, 2, 2)]))
    plain = filled("f8", shape, draw(st.integers(0, 2**32 - 1)))
    kinds = [
        lambda: np.ma.masked_array(plain, mask=draw(st.sampled_from([True, False]))),
        lambda: np.ma.masked_where(plain > 0, plain),
        lambda: np.broadcast_to(np.float64(draw(NUMBERS)), (100_000,)),
        lambda: plain.view(np.ndarray)[..., ::-1],
        lambda: sparse.csr_array(np.nan_to_num(plain.reshape(-1, 4 if plain.size % 4 == 0 else 5))),
        lambda: sparse.coo_matrix(np.ones((5, 4))),
        lambda: sparse.csc_array((5, 4), dtype=complex),
        lambda: sparse.eye_array(4, dtype=np.int8),
        lambda: sparse.linalg.aslinearoperator(np.ones((5, 4))),
    ]
    if pandas is not None:
        kinds += [
            lambda: pandas.DataFrame({"a": [1.0, 2.0, np.nan, 4.0, 5.0], "b": list("abcde")}),
            lambda: pandas.DataFrame(np.ones((5, 4))),
            lambda: pandas.Series([1.0, None, 3.0, 4.0, 5.0]),
            lambda: pandas.Series(["a", "b"], dtype="category"),
            lambda: pandas.Series([1, 2, None, 4, 5], dtype="Int64"),
            lambda: pandas.to_datetime(pandas.Series(["2020-01-01"] * 5)),
            lambda: pandas.NA,
        ]
    return draw(st.sampled_from(kinds))()


@st.composite
def near(draw, array):
    """An array that is nearly right: of another type, order or scale, with an entry that is wrong, cut, or dressed."""
    array = np.asarray(array)
    flat = array.reshape(-1)

    def with_entry(value):
        changed = array.astype(object if isinstance(value, (str, type(None))) else float)
        if changed.size:
            changed.reshape(-1)[draw(st.integers(0, changed.size - 1))] = value
        return changed

    kinds = [
        lambda: quietly(array.astype, draw(st.sampled_from(DTYPES[:-6]))),
        lambda: array.astype(object),
        lambda: array.astype("U8"),
        lambda: quietly(
            np.multiply, array, draw(st.sampled_from([0.0, 1e-320, 1e-300, 1e-150, 1e150, 1e300, np.inf, -1.0]))
        ),
        lambda: with_entry(draw(st.one_of(NUMBERS, st.sampled_from(["x", None, 1e308])))),
        lambda: array[: draw(SIZES)],
        lambda: array[..., : draw(SIZES)],
        lambda: array[None],
        lambda: array[..., None],
        lambda: array.T,
        lambda: np.asfortranarray(array),
        lambda: flat,
        lambda: np.ma.masked_array(array, mask=np.arange(flat.size).reshape(array.shape) % 3 == 0),
        lambda: np.ma.masked_array(array, mask=False),
        lambda: array.tolist(),
        lambda: tuple(array.tolist()),
        lambda: iter(array.tolist()),
        lambda: sparse.csr_array(array) if array.ndim == 2 else sparse.coo_array(array.reshape(1, -1)),
        lambda: sparse.csc_matrix(array) if array.ndim == 2 else array,
        lambda: np.repeat(array, 2, axis=0),
        lambda: np.broadcast_to(flat[:1], array.shape) if flat.size else array,
    ]
    if pandas is not None and array.ndim in (1, 2):
        kinds.append(lambda: pandas.DataFrame(array) if array.ndim == 2 else pandas.Series(array))
    return draw(st.sampled_from(kinds))()


def picture(value, depth=6):
    """All that a value holds, as something that can be compared; things that can be read once only are left alone."""
    if isinstance(value, np.ma.MaskedArray):
        return "masked", picture(np.asarray(value.data), depth), picture(np.ma.getmaskarray(value), depth)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return "objects", value.shape, [picture(part, depth - 1) for part in value.reshape(-1)] if depth else 0
        return "array", value.dtype.str, value.shape, value.strides, value.flags.writeable, value.tobytes()
    if sparse.issparse(value):
        parts = ("data", "indices", "indptr", "row", "col", "offsets")
        return (value.format, value.shape, *(picture(getattr(value, part, None), depth - 1) for part in parts))
    if pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series)):
        return type(value).__name__, value.to_csv(), str(getattr(value, "dtypes", ""))
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [picture(part, depth - 1) for part in value] if depth else 0
    if isinstance(value, dict):
        return "dict", [(repr(key), picture(part, depth - 1)) for key, part in value.items()] if depth else 0
    if isinstance(value, np.random.Generator):
        return "generator"
    if dataclasses.is_dataclass(value) or isinstance(value, fgmp.Dictionary):
        return type(value), picture(list(vars(value).values()), depth - 1) if depth else 0
    return type(value), repr(value)
