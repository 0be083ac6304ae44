"""The parameters of the estimators, as a user gives them, and the check of each by itself."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from .._support.validation import (
    check_bool,
    check_integer,
    check_kind,
    check_number,
    check_option,
)
from ..privacy.noise import GaussianNoise
from .encoding import MISSING_RULES


@dataclass(eq=False, repr=False)
class FitParameters:
    """The parameters of both estimators, as in `FedGradMPRegressor`."""

    sparsity: int | str | None = None
    _: KW_ONLY
    method: str = "auto"
    fit_intercept: bool | str = True
    standardize: bool | str = "auto"
    polish: bool = True
    C: float | str = "auto"
    rounds: int | None = None
    tol: float = 1e-2
    cohort_size: int | None = None
    local_iterations: int = 3
    batch_size: int | None = None
    sparsities: Sequence[int] | None = None
    folds: str = "auto"
    n_folds: int | None = None
    min_rows: int = 5
    secure: bool = False
    private: GaussianNoise | None = None
    random_state: object = None
    verbose: bool | str = "auto"
    always_include: object = None
    missing: str = "error"
    categories: object = None

    def _check_parameters(self) -> None:
        """Check each parameter by itself; the sparsities are checked against the features later."""
        check_option("method", self.method, ("auto", "fedgradmp", "shared"))
        check_bool("standardize", self.standardize, "auto")
        check_bool("fit_intercept", self.fit_intercept, "per_group")
        check_option("missing", self.missing, MISSING_RULES)
        check_bool("polish", self.polish)
        check_bool("secure", self.secure)
        check_option("folds", self.folds, ("auto", "rows", "groups"))
        check_bool("verbose", self.verbose, "auto")
        if self.n_folds is not None:
            check_integer("n_folds", self.n_folds, at_least=2)
        for name in ("local_iterations", "min_rows"):
            check_integer(name, getattr(self, name))
        for name in ("rounds", "cohort_size", "batch_size"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name))
        check_number("tol", self.tol, at_least=0)
        if isinstance(self.C, str):
            check_option("C", self.C, ("auto", "cv"))
        elif not (isinstance(self.C, float) and self.C == np.inf):
            check_number("C", self.C, above=0)
        check_kind("private", self.private, (GaussianNoise, type(None)), "a GaussianNoise or None")
