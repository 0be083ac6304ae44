"""A model goes through JSON with its covariance, and how it was chosen, and its summary is the same."""

import json

import numpy as np
import pytest
from cases import table_in_several_units

import fgmp

pytestmark = pytest.mark.filterwarnings("ignore::fgmp.AdviceWarning")

MODELS = {
    "logistic": (fgmp.FedGradMPClassifier(3), 2),
    "softmax": (fgmp.FedGradMPClassifier(2), 3),
    "class weights": (fgmp.FedGradMPClassifier(3, class_weight={0: 1.0, 1: 2.5}), 2),
    "balanced classes": (fgmp.FedGradMPClassifier(2, class_weight="balanced"), 3),
    "maximum likelihood": (fgmp.FedGradMPClassifier(3, C=np.inf), 2),
    "linear": (fgmp.FedGradMPRegressor("cv", sparsities=[1, 3], random_state=0), 0),
    "own intercepts": (fgmp.FedGradMPRegressor(3, fit_intercept="per_group"), 0),
    "collinear": (fgmp.FedGradMPRegressor("all"), 0),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_from_json_has_the_predictions_and_the_summary(name):
    """To the last bit, with names, covariances, the path of the choice, and who took part."""
    estimator, n_classes = MODELS[name]
    X, y, groups = table_in_several_units(n_classes)
    if name == "collinear":
        X = X.assign(twin=X["f1"])
    model = estimator.fit(X, y, groups)
    again = type(estimator).from_json(model.to_json())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert repr(again.summary()) == repr(model.summary())
    for column, values in model.summary().columns.items():
        np.testing.assert_array_equal(again.summary().columns[column], values)
    np.testing.assert_array_equal(again.covariance_.by_group, model.covariance_.by_group)
    assert again.groups_.tolist() == model.groups_.tolist() and not again.missing_.size
    if hasattr(model, "cv_"):
        assert again.cv_.chosen == model.cv_.chosen
    assert again.to_json() == model.to_json()
    assert getattr(again, "class_weight", None) == getattr(model, "class_weight", None)


def test_a_model_of_the_other_class_is_refused():
    """A classifier does not read the file of a regressor."""
    X, y, groups = table_in_several_units()
    text = fgmp.FedGradMPRegressor(2).fit(X, y, groups).to_json()
    with pytest.raises(ValueError, match="model of a FedGradMPRegressor; expected a FedGradMPCla"):
        fgmp.FedGradMPClassifier.from_json(text)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content["covariance"].pop("values"),
        lambda content: content["covariance"]["columns"].append(99),
        lambda content: content["covariance"]["model_based"].pop(),
        lambda content: content["covariance"]["deviations"][0].update(column=99),
        lambda content: content["covariance"]["deviations"][0].update(column="f0"),
    ],
)
def test_a_damaged_covariance_is_refused_in_words(spoil):
    """With a part missing or wrong, the text is no model of fgmp."""
    X, y, groups = table_in_several_units()
    content = json.loads(fgmp.FedGradMPRegressor(2).fit(X, y, groups).to_json())
    spoil(content)
    with pytest.raises(ValueError, match="^text is not what to_json of an estimator wrote: "):
        fgmp.FedGradMPRegressor.from_json(json.dumps(content))
