"""The report of a fit: every byte of the history, in words, as text and as Markdown."""

import numpy as np
import pytest
from cases import table_in_several_units

import fgmp

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")


@pytest.mark.parametrize("sparsity", [3, "cv", "all"])
@pytest.mark.parametrize("secure", [False, True])
def test_the_report_has_all_that_the_history_counts(sparsity, secure):
    """Its bytes and rounds add up to those of the last row, which were counted by the loop."""
    X, y, groups = table_in_several_units()
    model = fgmp.FedGradMPRegressor(
        sparsity, sparsities=[1, 3], secure=secure, folds="rows", n_folds=2
    )
    stages = model.fit(X, y, groups % 4).report().stages
    for name, attribute in (("bytes_up", "bytes_up"), ("round", "rounds")):
        total = sum(getattr(stage, attribute) for stage in stages)
        assert total == model.history_[name][-1]
    assert {stage.n_clients for stage in stages} == {4}
    assert not any("updates of" in stage.what for stage in stages)
    began = [stage.began for stage in stages]
    assert began == sorted(began) and len(began[0]) == len("2026-01-01T00:00:00")


def test_the_report_names_who_took_part_and_the_protection():
    """Groups left out are in it too, masks are told apart from none, and JSON keeps it."""
    X, y, groups = table_in_several_units()
    names = np.array(["north", "coast", "valley"], object)[groups % 3]
    names[:2] = "islet"
    model = fgmp.FedGradMPRegressor(2).fit(X, y, names)
    text = str(model.report())
    assert "coast, north, valley" in text and "islet" in text
    assert "none: the server sees the sums of each group" in text
    masked = fgmp.FedGradMPRegressor(2, secure=True).fit(X, y, names).report().to_markdown()
    assert "masks: the server sees sums over groups" in masked
    assert masked.count("\n| ") == 1 + len(model.report().stages) and "UTC" in masked
    again = fgmp.FedGradMPRegressor.from_json(model.to_json())
    assert str(again.report()) == text
