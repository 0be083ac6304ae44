"""Internal-external cross-validation over Flower: clients are left out, and predicted by others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._support.optional import needs
from ..sparse_model import Array
from .fitting import sites_to_fit

if TYPE_CHECKING:  # a client would wait for scikit-learn with each message
    from ..estimators.internal_external import Validation
    from ..estimators.linear import SparseLinear
    from ..estimators.performance import Performance


def validate_over(
    estimator: SparseLinear,
    grid: Any,
    n_clients: int,
    features: Sequence[str],
    *,
    classes: Sequence[Any] | None = None,
    n_sets: int | None = None,
    dense: bool = True,
    **options: Any,
) -> Validation:
    """Leave each client of a Flower grid out, fit to the others, and measure the models there.

    Each client is left out of one fit for each of the two models, so that a validation has as many
    messages as twice as many fits as there are clients.

    Parameters
    ----------
    estimator, grid, n_clients, features, classes, **options
        As in `fit_over`, with `sparse` and `report`.
    n_sets, dense
        As in `FedGradMPClassifier.validate`.

    Returns
    -------
    Validation
        As ``estimator.validate(X, y, groups)`` of all rows in one process returns it, to the same
        bits.

    Raises
    ------
    ValueError
        As in `FedGradMPClassifier.validate`.

    Examples
    --------
    The clients have the tables of the example of `table_app`:

    >>> import fgmp
    >>> from fgmp.flower import on_engine, validate_over
    >>> def main(grid):
    ...     estimator = fgmp.FedGradMPRegressor(1)
    ...     return validate_over(estimator, grid, 3, ["age", "dose", "weight"])
    >>> on_engine(main, app, n_clients=3).columns["group"].tolist()[::2]  # doctest: +SKIP
    ['client 0', 'client 1', 'client 2']
    """
    with needs("validate_over", "scikit-learn", "narwhals", "tqdm"):
        from ..estimators.internal_external import validate_groups
        from ..estimators.performance import performance_of_clients
    sites = sites_to_fit(estimator, grid, n_clients, features, classes, **options)

    def refit(model: SparseLinear, is_inside: Array) -> SparseLinear:
        return sites.of(is_inside).fit(model)

    def measure(fitted: SparseLinear, is_measured: Array, by: str) -> Performance:
        measured = sites.of(is_measured)
        if hasattr(fitted, "encoding_"):
            measured = measured.encoded(fitted.encoding_)
        return performance_of_clients(fitted, measured, measured.names, by)

    return validate_groups(estimator, sites.names, n_sets, dense, refit, measure)
