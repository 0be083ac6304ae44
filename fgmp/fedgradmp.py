"""Federated gradient matching pursuit: what clients and server compute in Algorithms 1 and 2.

`FedGradMP` is a method (`fgmp.method`) that starts from zero and has one exchange a round. Its
`client_update` is the loop over the local iterations of the pseudo-code, and its `server_update`
the projection after the mean. The rest is elsewhere: the loop over the rounds in `simulate`, the
draw of the cohort in `simulation.run_round`, the loop over its clients in
`LocalClients.run_clients`, the mean in `Updates.mean`, the weights p_i in the federation, and the
accuracy delta of Algorithm 2 in the solver. A compiled kernel may stand for `client_update`, up to
rounding; ``with fgmp.backend("reference"):`` runs the code below.

The paper writes x for a signal Psi alpha (in Section IV-D for the coefficients alpha). Here x holds
the coefficients (`SparseModel`), and clients have A_i Psi in place of A_i from the start of a run
on. In the standard basis these are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ._support.validation import validate_integer_field, validate_number_field
from ._support.warnings import check_batch_size, warn_of_few_rows
from .data import Client, ProblemInfo
from .dictionaries import Atoms, StandardBasis, check_dictionary
from .method import Exchange, Method
from .selection import PER_OUTPUT, Selection, check_selection
from .solvers import Solver, check_solver, minimise_on, solver_for
from .sparse_model import Array, NonFiniteUpdate, SparseModel, union
from .updates import UpdateSpec


@dataclass(frozen=True)
class FedGradMP(Method):
    """Run federated gradient matching pursuit (paper, Algorithms 1 and 2).

    In each round every client of the cohort runs `local_iterations` of stochastic gradient matching
    pursuit from the model x_t that the server broadcasts. The server averages the models that come
    back and projects the average onto `sparsity` atoms. With one client, orthonormal atoms, `Exact`
    and no radius this is StoGradMP. With full batches, too, it is GradMP, and with the squared loss
    in the standard basis CoSaMP.

    Parameters
    ----------
    sparsity : int
        tau, the number of atoms of the model: from 1 to the number of atoms of the dictionary. For
        a loss with several outputs (softmax) it is the number in each output's column of the model,
        unless `selection` counts in another way.
    local_iterations : int, default 3
        K, the iterations of a client in one round.
    batch_size : int or None
        Rows of a minibatch, drawn without replacement. None is the full batch, and so is a size
        above the number of rows of the client. A size above the rows of the largest client is an
        error.
    dictionary : StandardBasis or Dictionary
        The atoms; the standard basis by default.
    solver : Solver or None
        How a client minimises f_i over the span of the merged atoms. `Exact` is that of Algorithm
        1. `GradientDescent` or `Newton` with an `accuracy` delta and no `steps` is that of
        Algorithm 2: it stops once ||b - b_opt|| <= delta is certain, and warns if it does not reach
        it. With `steps`, and for `SGD`, no delta is promised. None takes what `loss.local_solver`
        names: `Exact` for the squared loss, and one step of gradient descent with a line search
        unless a loss says otherwise (`fgmp.solvers.solver_for` says why).
    radius : float or None
        R: clients and server project onto the ball ||Psi alpha||_2 <= R of the signal (Algorithm 2,
        optional step), with the norm of all entries. None disables the projection. (For several
        classes the paper's Section IV-D bounds the coefficients of each class.)
    selection : Selection
        What counts as one of the tau, and the atoms that always stay: `PerOutput` by default.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or does not fit the clients when a run starts.

    Warns
    -----
    AdviceWarning
        In a run, if clients solve exactly and some of them have too few rows for 3 tau atoms and
        those that always stay, or if some have fewer rows than `batch_size`.

    Notes
    -----
    The pseudo-code initialises Lambda once, before all rounds, and not anew for each client. Here
    every client starts a round with Lambda = supp(x_t), so that x lies in the span of Gamma-hat.
    The proof of the lemma that bounds the part outside of this span needs it (line 441 of the
    paper's source, its label is GradMP_lem3; Lemma 3 in ERRATA.md).

    Algorithm 2 prints sum_i p_i x_i over all clients, also for a cohort. Here the weights p_i are
    scaled to sum to one over the updates that are accepted. If all p_i are 1/N, this is the mean
    over the cohort of the proof. If they differ, its expectation over cohorts is not the mean of
    all clients that Algorithm 1 has. If the squared loss has several minimisers, `Exact` takes the
    one of minimum norm; the other solvers start from x and tend to one near it.

    The eta_1, eta_2 and eta_3 of the paper's approximate projections are 1 for orthonormal atoms.
    For matching pursuit and for thresholding no finite bound holds in every dictionary;
    `fgmp.theory.approx_tau` measures what is reached.

    Not in the paper: `always_include`, models with several outputs that are counted in another way
    than `PerOutput`, the rejection of updates that are not finite, and the default solver for
    losses other than the squared one.

    References
    ----------
    H. Jeong, D. Needell, J. Qin, Federated Gradient Matching Pursuit, IEEE Transactions on
    Information Theory 70(6), 4512-4537, 2024.
    N. Nguyen, D. Needell, T. Woolf, Linear convergence of stochastic iterative greedy algorithms
    with sparse constraints, IEEE Transactions on Information Theory 63(11), 6869-6895, 2017
    (GradMP and StoGradMP).

    Examples
    --------
    >>> import fgmp
    >>> federation = fgmp.make_sparse_regression(n_clients=5, n_features=200, sparsity=4, rng=0)
    >>> method = fgmp.FedGradMP(sparsity=4, local_iterations=2, batch_size=50)
    >>> result = fgmp.simulate(method, federation, rounds=10, cohort_size=3, rng=0)
    >>> len(result.support), bool(result.history["relative_error"][-1] < 1e-12)
    (4, True)
    """

    sparsity: int
    local_iterations: int = 3
    batch_size: int | None = None
    dictionary: Atoms = field(default_factory=StandardBasis)
    solver: Solver | None = None
    radius: float | None = None
    selection: Selection = PER_OUTPUT

    def __post_init__(self) -> None:
        validate_integer_field(self, "sparsity")
        validate_integer_field(self, "local_iterations")
        validate_integer_field(self, "batch_size", optional=True)
        validate_number_field(self, "radius", optional=True, above=0)
        check_dictionary(self.dictionary)
        check_selection(self.selection)
        if self.solver is not None:
            check_solver(self.solver)

    def check(self, info: ProblemInfo) -> None:
        """Raise a ValueError if a parameter does not fit the clients; warn of few rows."""
        self.selection.check(self.sparsity, info.model_shape)
        check_batch_size(self.batch_size, info.n_rows)

        solver = self.solver or solver_for(info.loss)
        if solver.is_exact:
            # Gamma-hat has 2 tau atoms of the gradient, tau of the model, and those that stay.
            # Within a run n_features counts the atoms.
            n_merged = 3 * self.sparsity + len(self.selection.always_include)
            warn_of_few_rows(min(n_merged, info.n_features), info.n_rows)

    def start(self, info: ProblemInfo) -> SparseModel:
        """Return x_0 = 0, with an empty support."""
        return SparseModel.zero(info.model_shape, info.dtype)

    def exchanges(self) -> Sequence[Exchange]:
        """Return the one exchange of a round: x_t goes out, the x_i come back, x_{t+1} is made."""
        # Declared for this `client_update` alone: one of a subclass has the strict defaults.
        return (Exchange.of(self, declared_for=FedGradMP.client_update),)

    def message(self, x: SparseModel) -> SparseModel:
        """Return x_t itself, which the server broadcasts."""
        return x

    def update_spec(self, x: SparseModel) -> UpdateSpec:
        """Return what an update looks like: tau atoms, and those that always stay.

        The reference is x_t: noise clips the difference of the update from it.
        """
        return UpdateSpec(
            x.shape,
            x.values.dtype,
            max_nonzeros=self.sparsity,
            reference=x,
            selection=self.selection,
            mean_only=False,
        )

    def client_update(
        self, client: Client, x: SparseModel, rng: np.random.Generator
    ) -> SparseModel:
        """Run the K local iterations of a client, from x_t with Lambda = supp(x_t)."""
        psi = self.dictionary
        tau = self.sparsity
        solver = self.solver or solver_for(client.loss)
        for batch in client.minibatches(rng, self.batch_size, self.local_iterations):
            # r = Psi' grad g_{i,j}(x), with the gradient of minibatch j: the features of the client
            # are A_i Psi. These inner products with the atoms are all that approx needs.
            r = client.gradient(x, batch)
            if not np.isfinite(r).all():
                # Comparisons with NaN are false: a selection may silently drop it, or all else.
                raise NonFiniteUpdate("the gradient is not finite")

            # Gamma = approx_{2 tau}(r), which CoSaMP calls identification
            gamma = psi.select_atoms(r, 2 * tau, self.selection)

            # Gamma-hat = Gamma u Lambda, with Lambda = x.support: all atoms that were chosen, also
            # those whose value happens to be zero
            gamma_hat = union(gamma, x.support, r.size)

            # b = argmin of f_i, over all its rows, in the span of the atoms of Gamma-hat, or as
            # near to it as the solver goes
            b = minimise_on(gamma_hat, client, psi, solver, x, rng)

            # x = Pi_R P_Lambda b with Lambda = approx_tau(b), which CoSaMP calls pruning
            x = self.prune(b)
        return x

    def server_update(self, x: SparseModel, aggregate: Array) -> SparseModel:
        """Return x_{t+1} = Pi_R P_{Lambda_s} of sum p_i x_i, with Lambda_s = approx_tau of it.

        `aggregate` is this weighted mean, unless the run has another aggregator. It replaces x_t,
        so `x` is not needed.
        """
        return self.prune(SparseModel.of(aggregate))

    def prune(self, b: SparseModel) -> SparseModel:
        """Return Pi_R P_Lambda b with Lambda = approx_tau(b)."""
        psi = self.dictionary
        support = psi.select_atoms_of(b, self.sparsity, self.selection)
        projected = psi.project(b, support)
        # A NumPy float64 would widen a model of float32.
        radius = None if self.radius is None else float(self.radius)
        return psi.into_ball(projected, radius)
