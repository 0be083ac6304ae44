"""Methods, losses, dictionaries and solvers go to JSON and come back, and what is not known here is named."""

import json
from dataclasses import dataclass, fields, is_dataclass

import numpy as np
import pytest
from test_simulate import ALL

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.methods.method_json import _KINDS, from_json, to_json
from fgmp.selection import Overall

RNG = np.random.default_rng(0)
DICTIONARY = fgmp.Dictionary(np.asfortranarray(RNG.standard_normal((6, 9))), "thresholding")
THINGS = [
    fgmp.FedGradMP(2, 2, 10, DICTIONARY, fgmp.SGD(0.5, 3, 2), 4.5, fgmp.PerAtom((0, 3))),
    fgmp.FedGradMP(2, solver=fgmp.GradientDescent(steps=5)),
    fgmp.FedGradMP(2, solver=fgmp.Exact()),
    fgmp.FedGradMP(2, solver=fgmp.Newton(2)),
    fgmp.SharedSupportGradMP(2, solver=fgmp.NewtonOnSupport(2, 1e-3), selection=Overall((1,)), seed=3),
    *ALL.values(),
    fgmp.SquaredLoss(averaged=False),
    fgmp.LogisticLoss(margin=2.0),
    fgmp.SoftmaxLoss(3),
    StandardBasis(),
    DICTIONARY,
    fgmp.Mean(),
    fgmp.Median(),
    fgmp.TrimmedMean(0.1),
    fgmp.SecureSum(),
]


def told(thing):
    """All that a thing holds."""
    if isinstance(thing, fgmp.Dictionary | StandardBasis):
        atoms = getattr(thing, "atoms", np.zeros(()))
        return type(thing), atoms.tolist(), atoms.flags.f_contiguous, getattr(thing, "approximation", "")
    return (type(thing), *(told(getattr(thing, f.name)) for f in fields(thing))) if is_dataclass(thing) else thing


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: type(thing).__name__)
def test_what_is_written_comes_back(thing):
    written = to_json(thing)
    again = from_json(written.text, written.arrays)
    assert told(again) == told(thing)
    assert to_json(again).text == written.text


def test_every_kind_is_tried_and_every_public_method_and_part_is_one():
    assert {name for thing in THINGS for name in _KINDS if f'"{name}"' in to_json(thing).text} == set(_KINDS)
    public = {name for name in fgmp.__all__ if is_dataclass(vars(fgmp).get(name))}
    elsewhere = {"Changed", "DropOut", "Faulty", "Federation", "GaussianNoise", "History", "Result"}
    assert public - elsewhere <= set(_KINDS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.update(fgmp=2), "version 2; expected 1"),
        (lambda t: t["is"].update(kind="FedFuture"), "of kind 'FedFuture'; expected one of .*FedGradMP"),
        (lambda t: t["is"]["fields"].update(momentum=0.9), "field 'momentum', which FedGradMP has not here"),
        (lambda t: t["is"]["fields"].update(sparsity=[1]), r"text.sparsity is \[1\]"),
        (lambda t: t["is"]["fields"].update(solver={"kind": "os.system", "fields": {}}), "of kind 'os.system'"),
        (lambda t: t["is"]["fields"].update(dictionary={"array": "0"}), "array '0', which did not come"),
    ],
)
def test_what_is_not_known_is_named(change, words):
    whole = json.loads(to_json(fgmp.FedGradMP(2)).text)
    change(whole)
    with pytest.raises(ValueError, match=words):
        from_json(json.dumps(whole))


def test_an_array_with_other_numbers_is_refused():
    written = to_json(DICTIONARY)
    (name,) = written.arrays
    for other in (written.arrays[name] + 1e-16 * 8, written.arrays[name].astype(np.float32), None):
        with pytest.raises(ValueError, match="another checksum"):
            from_json(written.text, {name: other})


@dataclass(frozen=True)
class Mine:
    rate: float
    dictionary: StandardBasis


def test_a_class_of_ones_own_is_named():
    mine = Mine(0.5, StandardBasis())
    with pytest.raises(ValueError, match="name dataclasses of your own in kinds"):
        to_json(mine)
    text = to_json(mine, [Mine]).text
    assert from_json(text, kinds=[Mine]).rate == 0.5
    with pytest.raises(ValueError, match="of kind 'Mine'"):
        from_json(text)
    with pytest.raises(ValueError, match="thing.rate is "):
        to_json(Mine(object(), StandardBasis()), [Mine])
