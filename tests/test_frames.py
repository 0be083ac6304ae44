"""A table with a column of sites becomes the federation of its rows, whatever package holds it."""

import datetime
import zoneinfo

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
def test_client_of_a_table_has_the_rows_of_its_site(package):
    """Of pandas, polars and pyarrow; weights are shares of the rows."""
    data = columns()
    labels = np.where(data["outcome"] > 0, "ill", "well")
    fed, labelled = (
        fgmp.Federation.from_frame(
            as_frame(package, data | more), site="hospital", target="outcome", **options
        )
        for more, options in (({}, {}), ({"outcome": labels}, {"loss": "logistic"}))
    )
    assert fed.feature_names == ("age", "pressure", "smokes")
    assert fed.client_names == (
        "east",
        "north",
        "west",
    )
    for client, other, name in zip(fed.clients, labelled.clients, fed.client_names, strict=True):
        rows = data["hospital"] == name
        expected = np.column_stack([data["age"], data["pressure"], data["smokes"]])[rows]
        np.testing.assert_array_equal(client.features, expected)
        np.testing.assert_array_equal(client.targets, data["outcome"][rows])
        np.testing.assert_array_equal(other.targets == 1, labels[rows] == labelled.labels[1])
    np.testing.assert_allclose(
        fed.weights, [np.mean(data["hospital"] == name) for name in fed.client_names]
    )


def test_table_with_options_has_those_columns_loss_and_weights():
    """float32 columns stay float32."""
    data = columns()
    data = {
        name: value.astype(np.float32) if name != "hospital" else value
        for name, value in data.items()
    }
    data["outcome"] = np.sign(data["outcome"])
    options = dict(
        site="hospital",
        target="outcome",
        features=["smokes", "age"],
        loss="logistic",
        weights=[1, 2, 1],
    )
    fed = fgmp.Federation.from_frame(as_frame("pandas", data), **options)
    assert fed.feature_names == ("smokes", "age")
    assert fed.dtype == np.float32
    assert isinstance(fed.loss, fgmp.LogisticLoss)
    np.testing.assert_array_equal(fed.weights, [0.25, 0.5, 0.25])
    np.testing.assert_array_equal(
        fed.clients[2].features[:, 1], data["age"][data["hospital"] == "west"]
    )


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_sites_that_are_times_keep_their_zone(package):
    """They are sorted by time."""
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    days = [datetime.datetime(2020, 6, day, tzinfo=berlin) for day in (2, 1)]
    data = {"day": days * 10, "age": np.arange(20.0), "outcome": np.arange(20.0)}
    fed = fgmp.Federation.from_frame(as_frame(package, data), site="day", target="outcome")
    assert list(fed.client_names) == days[::-1]
    assert [name.isoformat() for name in fed.client_names] == [
        "2020-06-01T00:00:00+02:00",
        "2020-06-02T00:00:00+02:00",
    ]
    np.testing.assert_array_equal(fed.clients[0].targets, np.arange(1, 20, 2))
    naive = data | {"day": [day.replace(tzinfo=None) for day in data["day"]]}
    fed = fgmp.Federation.from_frame(as_frame(package, naive), site="day", target="outcome")
    assert fed.client_names == (datetime.datetime(2020, 6, 1), datetime.datetime(2020, 6, 2))


def test_columns_of_a_table_may_have_names_of_any_kind():
    """Integers, floats and tuples, as pandas has them."""
    pandas = pytest.importorskip("pandas")
    table = np.random.default_rng(0).standard_normal((20, 4))
    sites = np.arange(20) % 2
    mixed = pandas.DataFrame(table[:, :3]).assign(site=sites, y=table[:, 3])
    whole = pandas.DataFrame(np.column_stack([table[:, :3], sites, table[:, 3]]))
    nested = mixed.set_axis(pandas.MultiIndex.from_product([["t"], mixed.columns]), axis=1)
    for frame, site, target, names in (
        (mixed, "site", "y", ("0", "1", "2")),
        (whole, np.int64(3), 4, ("0", "1", "2")),
        (whole.rename(columns=float), 3.0, 4.0, ("0.0", "1.0", "2.0")),
        (nested, ("t", "site"), ("t", "y"), ("('t', 0)", "('t', 1)", "('t', 2)")),
    ):
        fed = fgmp.Federation.from_frame(frame, site=site, target=target)
        assert fed.feature_names == names
        np.testing.assert_array_equal(fed.clients[1].features, table[sites == 1, :3])
        np.testing.assert_array_equal(fed.clients[1].targets, table[sites == 1, 3])
    fed = fgmp.Federation.from_frame(whole, site=3, target=4, features=[np.int64(2), 0])
    np.testing.assert_array_equal(fed.clients[0].features, table[sites == 0][:, [2, 0]])


@pytest.mark.parametrize("kind", ["tuple", "array", "index", "pandas", "polars"])
def test_features_are_named_by_whatever_has_several_names(kind):
    """They are in its order; a set has none, and is refused."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    several = {
        "tuple": tuple,
        "array": np.array,
        "index": pandas.Index,
        "pandas": pandas.Series,
        "polars": polars.Series,
    }[kind]
    names = {"site": "hospital", "target": "outcome"}
    for frame in (pandas.DataFrame(columns()), polars.DataFrame(columns())):
        fed = fgmp.Federation.from_frame(frame, features=several(["smokes", "age"]), **names)
        assert fed.feature_names == ("smokes", "age")
        with pytest.raises(ValueError, match="features is {.*expected a sequence of names"):
            fgmp.Federation.from_frame(frame, features={"smokes", "age"}, **names)
