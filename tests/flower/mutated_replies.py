"""Replies of a client with one thing changed, as close to valid ones as there are changes."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord
from in_process_grid import altering

DTYPES = (
    "<f8",
    "<f4",
    "<i4",
    "<u8",
    ">f8",
    "|u1",
    "(1,2",
    "i4,(",
    "V2147483647",
    "O",
    "<U9999999",
    "|b1",
    "<c16",
    "",
)
STYPES = ("fgmp.F", "numpy.ndarray", "")
NUMBERS = (np.nan, np.inf, 1e308, -1e308)
WORDS = (
    0,
    -1,
    2**62,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "late",
    "(" * 500,
    b"",
    b"\xff" * 32,
    [1, -1],
    ["late"],
    [b""],
)
NAMES = (
    "dense",
    "support",
    "values",
    "at 30",
    "at 99999999x99999999",
    "at ",
    "at 30x",
    "at -1",
    "0.dense",
    "",
    "." * 900,
)


def array_of(data, shape=(3,), dtype="<f8", stype="fgmp.C"):
    """Return an array as it travels, whatever it says of itself."""
    return Array(dtype, shape, stype, data)


def _shapes_near(shape):
    return [
        (-1,),
        (2**62,),
        (0,),
        (*shape, 1),
        (1,) * 40,
        (*shape[:-1], 3),
        (0, 2**62),
        (),
    ]


def mutated_array(array, rng):
    """Return an array with one of its parts changed."""
    dtype, stype, data = array.dtype, array.stype, array.data
    shape = tuple(array.shape)
    size = len(data)
    match rng.integers(9):
        case 0:
            dtype = str(rng.choice(DTYPES))
        case 1:
            shape = _shapes_near(shape)[rng.integers(8)]
        case 2:
            stype = str(rng.choice(STYPES))
        case 3:
            data = data[: rng.integers(size + 1)]
        case 4:
            data = data + bytes(rng.integers(1, 9))
        case 5:
            data = rng.bytes(size)
        case 6:  # whole entries fewer, and a shape that fits
            data = data[: 8 * (size // 16)]
            shape = (size // 16,)
        case 7:
            data = np.full(size // 8 + 1, rng.choice(NUMBERS)).tobytes()[:size]
        case 8:  # each entry twice
            data = data * 2
            shape = (2 * shape[0], *shape[1:]) if shape else shape
    return Array(dtype, shape, stype, data)


def _mutate_arrays(content, rng):
    """Change one array of a reply, or one name of an array."""
    arrays = dict(content["message"])
    name = str(rng.choice(list(arrays)))
    match rng.integers(6):
        case 0:
            del arrays[name]
        case 1:
            arrays[str(rng.choice(NAMES))] = arrays.pop(name)
        case 2:
            arrays[str(rng.choice(NAMES))] = arrays[name]
        case _:
            arrays[name] = mutated_array(arrays[name], rng)
    content["message"] = ArrayRecord(arrays)


def _mutate_fields(content, rng):
    """Change one field of a reply, or add one that is not there."""
    fields = dict(content.get("fgmp", {}))
    name = str(rng.choice([*fields, "refused", "unknown"]))
    value = fields.get(name)
    match rng.integers(4) if isinstance(value, list) else 3:
        case 0:
            value = value[:-1]
        case 1:
            value = value * 2
        case 2:
            value = [part + b"x" for part in value]
        case 3:
            value = WORDS[rng.integers(len(WORDS))]
    content["fgmp"] = ConfigRecord({**fields, name: value})


def mutate(reply, rng):
    """Change one thing of a reply: an array, the name of one, a field, or what is not there."""
    content = reply.content
    has_arrays = bool(content.get("message", {}))
    has_fields = bool(content.get("fgmp", {}))
    if has_arrays and (not has_fields or rng.random() < 0.9):
        _mutate_arrays(content, rng)
    else:
        _mutate_fields(content, rng)


def mutating(ask, seed, mutations):
    """Return a mod that changes every reply to questions of a kind, and counts in a list."""
    rng = np.random.default_rng(seed)

    def change(reply):
        mutations.append(1)
        mutate(reply, rng)

    return altering(change, ask)
