"""Methods, losses, dictionaries and aggregators go to JSON and come back, and nothing else does."""

import json
import sys
from dataclasses import dataclass, is_dataclass

import numpy as np
import pytest
from cases import PUBLIC_NAMES, SERIALIZABLE, WIDE_DICTIONARY

import fgmp
from fgmp.dictionaries import StandardBasis
from fgmp.run.serialization import from_json, to_json


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in SERIALIZABLE])
def test_object_from_json_has_the_same_json(make):
    """Arrays are named by a checksum of their numbers and of their order in memory."""
    thing = make()
    text, arrays = to_json(thing)
    again = from_json(text, arrays)
    assert (to_json(again)[0], repr(again).split(" object at")[0]) == (
        text,
        repr(thing).split(" object at")[0],
    )


def test_every_public_dataclass_is_among_the_cases():
    """Or is one that is never sent."""
    texts = "".join(to_json(make())[0] for _, make in SERIALIZABLE)
    elsewhere = {
        "Client",
        "ProblemInfo",
        "RecordedModel",
        "RestrictedProblem",
        "Run",
        "Selection",
        "SparseModel",
        "SupportSolver",
        "UpdateSpec",
        "Corrupted",
        "DropOut",
        "Faulty",
        "Federation",
        "GaussianNoise",
        "History",
        "Result",
    }
    public = {name for name in PUBLIC_NAMES if is_dataclass(vars(fgmp).get(name))} - elsewhere
    assert {name for name in public if f':{name}"' not in texts} == set()


def changed(**fields):
    """The JSON of a method, with other fields."""
    tree = json.loads(to_json(fgmp.FedGradMP(2))[0])
    return json.dumps(
        tree | {"fields": {name: x for name, x in (tree["fields"] | fields).items() if x != "gone"}}
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (changed(momentum=0.9), "expected the JSON of a method of this fgmp .*momentum"),
        (changed(sparsity="gone"), "expected the JSON of a method of this fgmp .*sparsity"),
        (changed(sparsity=[1]), r"sparsity is \(1,\); expected"),
        (changed(dictionary={"array": "0"}), "dictionary is array '0'; expected it among arrays"),
        *(
            (text, ".")
            for text in (
                changed(dictionary={"array": ["0"]}),
                '{"kind": 3}',
                "",
                "[" * 100_000,
                None,
            )
        ),
    ],
)
def test_json_with_unknown_fields_is_refused(text, words):
    """The message names the field or the array."""
    with pytest.raises(ValueError, match=words):
        from_json(text)


NO_PARTS = """
os:system builtins:eval subprocess:Popen FedFuture fgmp._support.validation:check_integer
fgmp.run.callbacks:Checkpoint fgmp.privacy.masking:SecAggClient
fgmp.flower.transport:OverFlower fgmp.flower:fit_over
fgmp.run.serialization:json fgmp.method:StandardBasis fgmp:FedGradMP fgmp.data:replace
fgmp.cli:main test_serialization:Mine Mine
"""


@pytest.mark.parametrize("name", NO_PARTS.split())
def test_json_of_another_kind_is_refused_without_import(name, monkeypatch):
    """Nothing is called or imported that a server names."""
    monkeypatch.delitem(sys.modules, "fgmp.cli", raising=False)
    for text in (
        json.dumps({"kind": name, "fields": {}}),
        changed(solver={"kind": name, "fields": {}}),
    ):
        with pytest.raises(
            ValueError, match=f"is of kind '{name}'; expected one of fgmp here, or one of kinds"
        ):
            from_json(text)
    assert "fgmp.cli" not in sys.modules


def test_array_with_other_numbers_is_refused():
    """Other numbers, precision or order in memory have another checksum."""
    text, arrays = to_json(WIDE_DICTIONARY)
    (name,) = arrays
    for other in (
        arrays[name] + 1e-16 * 8,
        arrays[name].astype(np.float32),
        np.ascontiguousarray(arrays[name]),
        None,
    ):
        with pytest.raises(ValueError, match="expected it among arrays, as it was"):
            from_json(text, {name: other})


@dataclass(frozen=True)
class Mine:
    rate: float
    dictionary: StandardBasis


def test_dataclass_of_the_user_is_written_and_read_if_it_is_named():
    """The server and the client name it in `kinds`."""
    mine = Mine(0.5, StandardBasis())
    with pytest.raises(ValueError, match="name dataclasses of your own in kinds"):
        to_json(mine)
    text, _ = to_json(mine, [Mine])
    assert from_json(text, kinds=[Mine]).rate == 0.5


@pytest.mark.parametrize(
    "value",
    [object(), np.nan, [1], {"a": 1}, np.array([None])],
    ids=["object", "nan", "list", "dict", "array of objects"],
)
def test_field_that_json_does_not_hold_is_refused_by_name(value):
    """What would not come back is not written."""
    with pytest.raises(ValueError, match="rate is "):
        to_json(Mine(value, StandardBasis()), [Mine])


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_number_that_json_does_not_have_is_refused_by_its_field(number):
    """Python's reader takes it, and `to_json` writes none."""
    text, _ = to_json(fgmp.SharedSupportGradMP(2, selection=fgmp.PerBlock((0,), (0, 1, 1))))
    text = text.replace("[0, 1, 1]", f"[0, {number}, 1]")
    with pytest.raises(ValueError, match="block_of is (nan|-?inf); expected a finite number"):
        from_json(text)


def test_field_that_is_there_twice_is_refused():
    """Readers differ in which of the two they take."""
    text, _ = to_json(fgmp.FedGradMP(2))
    with pytest.raises(ValueError, match="the field 'sparsity' is there twice"):
        from_json(text.replace('"sparsity": 2', '"sparsity": 2, "sparsity": 3'))
