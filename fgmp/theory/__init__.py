"""Theory that runs: the theorems as functions, and the quantities in their assumptions measured on data.

`lemmas` and `theorems` are the paper's formulas as its proofs give them, `constants` what they take, `spectra`
restricted eigenvalues, `measured` the constants of a federation, `enumeration` its sparse solution.

May import: the ground floor. Nothing else imports it.
"""

from .constants import ClientConstants, TheoremParameters
from .enumeration import sparse_minimiser
from .lemmas import beta_1, beta_2, beta_2_unbounded_variance
from .measured import gaussian_width, heterogeneity, measure_constants, minibatch_variance
from .spectra import (
    RestrictedConstants,
    inner_restricted_constants,
    outer_restricted_constants,
    restricted_constants,
    rip_constant,
    stable_rank,
)
from .theorems import (
    ConvergenceBound,
    objective_bound,
    theorem1,
    theorem_inexact,
    theorem_partial_participation,
    theorem_unbounded_variance,
)

__all__ = [
    "ClientConstants",
    "ConvergenceBound",
    "RestrictedConstants",
    "TheoremParameters",
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
    "rip_constant",
    "sparse_minimiser",
    "stable_rank",
    "theorem1",
    "theorem_inexact",
    "theorem_partial_participation",
    "theorem_unbounded_variance",
]
