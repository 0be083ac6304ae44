"""Theory that runs: the theorems as functions, and the quantities in their assumptions measured on data.

May import: the ground floor. Nothing else imports it.
"""

from .measured import (
    RestrictedConstants,
    approx_tau,
    gaussian_width,
    heterogeneity,
    inner_restricted_constants,
    measure_constants,
    minibatch_variance,
    outer_restricted_constants,
    restricted_constants,
    sparse_minimiser,
    stable_rank,
)
from .theorems import (
    ClientConstants,
    ConvergenceBound,
    TheoremParameters,
    beta_1,
    beta_2,
    beta_2_unbounded_variance,
    objective_bound,
    theorem1,
    theorem_inexact,
    theorem_partial_participation,
)

__all__ = [
    "ClientConstants",
    "ConvergenceBound",
    "RestrictedConstants",
    "TheoremParameters",
    "approx_tau",
    "beta_1",
    "beta_2",
    "beta_2_unbounded_variance",
    "gaussian_width",
    "heterogeneity",
    "inner_restricted_constants",
    "measure_constants",
    "minibatch_variance",
    "objective_bound",
    "outer_restricted_constants",
    "restricted_constants",
    "sparse_minimiser",
    "stable_rank",
    "theorem1",
    "theorem_inexact",
    "theorem_partial_participation",
]
