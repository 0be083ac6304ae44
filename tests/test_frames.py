"""A table with a column of sites becomes the federation of its rows, whatever package holds it."""

import numpy as np
import pytest

import fgmp


def columns():
    rng = np.random.default_rng(0)
    return {
        "hospital": np.array(["west", "east", "north"])[rng.integers(3, size=50)],
        "age": rng.integers(20, 90, 50),
        "pressure": rng.standard_normal(50),
        "smokes": rng.random(50) < 0.3,
        "outcome": rng.standard_normal(50),
    }


def as_frame(package, data):
    module = pytest.importorskip(package)
    return module.table(data) if package == "pyarrow" else module.DataFrame(data)


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_each_site_holds_its_rows(package):
    data = columns()
    labels = np.where(data["outcome"] > 0, "ill", "well")
    fed, labelled = (
        fgmp.Federation.from_frame(as_frame(package, data | more), site="hospital", target="outcome", **options)
        for more, options in (({}, {}), ({"outcome": labels}, {"loss": "logistic"}))
    )
    assert fed.feature_names == ("age", "pressure", "smokes") and fed.site_names == ("east", "north", "west")
    for client, other, name in zip(fed.clients, labelled.clients, fed.site_names, strict=True):
        rows = data["hospital"] == name
        expected = np.column_stack([data["age"], data["pressure"], data["smokes"]])[rows]
        np.testing.assert_array_equal(client.features, expected)
        np.testing.assert_array_equal(client.targets, data["outcome"][rows])
        np.testing.assert_array_equal(other.targets == 1, labels[rows] == labelled.labels[1])
    np.testing.assert_allclose(fed.weights, [np.mean(data["hospital"] == name) for name in fed.site_names])


def test_columns_losses_and_precision_are_those_asked_for():
    data = columns()
    data = {name: value.astype(np.float32) if name != "hospital" else value for name, value in data.items()}
    data["outcome"] = np.sign(data["outcome"])
    options = dict(site="hospital", target="outcome", features=["smokes", "age"], loss="logistic", weights=[1, 2, 1])
    fed = fgmp.Federation.from_frame(as_frame("pandas", data), **options)
    assert fed.feature_names == ("smokes", "age") and fed.dtype == np.float32
    assert isinstance(fed.loss, fgmp.LogisticLoss)
    np.testing.assert_array_equal(fed.weights, [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(fed.clients[2].features[:, 1], data["age"][data["hospital"] == "west"])
