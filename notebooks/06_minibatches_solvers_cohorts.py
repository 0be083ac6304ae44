# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Beyond the theorem: what is left of the guarantee when runs are not ideal?
#
# **Question.** Real clients take minibatches, solve inexactly, and answer now and then; real data are noisy. Which of
# the paper's promises survive that, and what does the theory miss that the runs can do?
#
# ![Promised and measured errors of four ways to run FedGradMP](pictures/06_minibatches_solvers_cohorts.png)
#
# One federation, four ways to run it. The promises (squares) are true, and below the error of the model that is zero
# everywhere; the runs (dots) are better by orders of magnitude, and hardly notice the difference between the rows.
#
# **What you will see**
# - minibatches: their variance has no bound, and the trade-off in $\theta$;
# - when the residual is zero;
# - the theorem of the appendix, which no data can meet, and a repair;
# - inexact solvers, cohorts, a ball, each with its bound beside the runs;
# - the statistical rate, and why Theorem 1 does not explain it.
#
# **Where it stands in the paper.** The remarks on Theorem 1, Sections IV-A to IV-C, and the appendix. Theorem 1
# itself and its lemmas are in [05_convergence_theorem](05_convergence_theorem.ipynb), with the names that statements
# have in this project; printed formulas beside derived ones in [20_errata_checked](20_errata_checked.ipynb); Figure
# 10 in [12_local_iterations](12_local_iterations.ipynb), Figure 11 in [13_cohort_size](13_cohort_size.ipynb).

# %% tags=["parameters"]
n_features = 12  # n, dimension of the small problems
sparsity = 2  # tau, nonzero entries of the model
n_clients = 6  # N, clients of the small federations
n_samples = 60  # rows of a client
first_condition = 1.02  # condition number of the first client
last_condition = 1.06  # condition number of the last client
local_iterations = 3  # K, local iterations
rounds = 8  # T, rounds of communication
noise = 0.01  # standard deviation of the noise where bounds are drawn
batch_samples = 10000  # rows of a client in the section on minibatches
batch_size = 9000  # b in the section on minibatches
rate_features = 100  # n in the section on the statistical rate
rate_sparsity = 5  # tau in the section on the statistical rate
rate_noise = 0.1  # standard deviation of the noise in the section on the statistical rate
n_seeds = 10  # seeds: repetitions with new data

# %%
tau, n, K = sparsity, n_features, local_iterations
assert 4 * sparsity <= n_features <= 14, f"{n_features=}: expected {4 * sparsity=} to 14"
assert 1 <= sparsity <= 3, f"{sparsity=}: expected 1 to 3"
assert n_clients >= 2, f"{n_clients=}: expected at least 2"
assert n_samples >= n_features, f"{n_samples=}: expected at least {n_features=}"
assert 1 < first_condition <= 1.06, f"{first_condition=}: expected above 1, at most 1.06"
assert 1 < last_condition <= 1.06, f"{last_condition=}: expected above 1, at most 1.06"
assert 3 <= local_iterations <= 6, f"{local_iterations=}: expected 3 to 6"
assert 3 <= rounds <= 50, f"{rounds=}: expected 3 to 50"
assert noise > 0, f"{noise=}: expected above 0"
assert 1000 <= batch_samples <= 50000, f"{batch_samples=}: expected 1000 to 50000"
assert batch_samples / 2 <= batch_size <= batch_samples - 1, f"{batch_size=}: half of {batch_samples=} to one below"
assert 20 <= rate_features <= 1000, f"{rate_features=}: expected 20 to 1000"
assert 1 <= rate_sparsity <= rate_features / 10, f"{rate_sparsity=}: expected 1 to {rate_features / 10=}"
assert rate_noise > 0, f"{rate_noise=}: expected above 0"
assert n_seeds >= 3, f"{n_seeds=}: expected at least 3"

# %%
from dataclasses import dataclass, replace
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np

import fgmp
from fgmp.dictionaries import StandardBasis
from book import BLUE, GREEN, METHODS, VERMILLION, BoundBesideError, claim, curve, floor, ink, name_lines, panels
from fgmp import theory
from fgmp.datasets import make_conditioned_regression
from fgmp.datasets.synthetic import sparse_on_sphere
from fgmp.models import SparseModel, union
from fgmp.solvers import minimise_on

# %%
c = np.linspace(1, 1.12, 200)
fig, ax = panels(width=6.4, height=3)
for factor, words, colour in ((1, "exact solver", BLUE), (2, "inexact solver", VERMILLION)):
    ax.plot(c, factor * 4 * theory.beta_1(1, c) * theory.beta_2(1, c), color=colour, label=words)
floor(ax, 1, "no guarantee above")
ax.set(xlabel="condition number of a client at sparsity $4\\tau$", ylabel="factor of one local iteration")
name_lines(ax)
plt.show()


# %% [markdown]
# *How little the theory bears: each local iteration multiplies the squared error by this factor at most. Beyond a
# condition number of 1.102, or 1.056 with an inexact solver, nothing is promised.*
#
# ## Four promises, four runs
#
# The clients of this notebook are nearly orthonormal, for only such clients meet the conditions of the theorems
# ([04_restricted_convexity](04_restricted_convexity.ipynb)). One federation of them, and two functions that all
# sections use:

# %%
def draw(seed, noise=noise, conditions=None, m=n_samples):
    spread = np.linspace(first_condition, last_condition, n_clients) if conditions is None else conditions
    return make_conditioned_regression(spread, m, n, tau, noise**2, rng=seed)


# %%
def squared_errors(fed, target, method, rounds=rounds, rng=0, **options):
    history = fgmp.History(metrics={"error": lambda x: np.sum((x - target) ** 2)})
    return fgmp.simulate(method, fed, rounds, rng=rng, history=history, **options).history["error"]


# %% [markdown]
# The same federation with an exact solver, with one that stops early, with a single client in each round, and with
# models in a ball: what the paper's theorems promise for the squared error after the last round, and what is measured.

# %%
gentle = np.linspace(1.005, 1.03, n_clients)
fed, method = draw(0, conditions=gentle), fgmp.FedGradMP(tau, K)
constants = theory.measure_constants(fed, fed.truth, tau)
rough = fgmp.FedGradMP(tau, K, solver=fgmp.GradientDescent(accuracy=1e-3))
settings = {
    "exact solver, all clients": (theory.theorem1(constants, K), method, {}),
    "solver off by 0.001 at most": (theory.theorem_inexact(constants, K, 1e-3), rough, {}),
    "one client a round": (theory.theorem_partial_participation(constants, K, 1), method, dict(cohort_size=1)),
    "models in a ball": (theory.theorem1(constants, K), fgmp.FedGradMP(tau, K, radius=1.01), {}),
}
promised = [bound.after(rounds, 1.0) for bound, *_ in settings.values()]
ends = [squared_errors(fed, fed.truth, method, **options)[-1] for _, method, options in settings.values()]

# %% tags=["headline"]
fig, ax = panels(width=7.6, height=2.9)
ax.hlines(range(4), ends, promised, color="0.75", zorder=1)
ax.plot(promised, range(4), "ks", markersize=8)
ax.plot(ends, range(4), **METHODS["FedGradMP"] | dict(linestyle="none", markersize=9))
ax.axvline(1, color="0.35", linestyle=(0, (5, 3)))
for x, words, colour in ((ends[0], "measured", VERMILLION), (promised[0], "promised", "k")):
    ax.annotate(words, (x, 0), (0, 11), textcoords="offset points", ha="center", color=ink(colour))
ax.annotate("zero model", (1, 0), (6, 11), textcoords="offset points")
ax.set(xscale="log", xlim=(1e-8, 30), ylim=(3.5, -0.9), xlabel="squared error after the last round")
ax.set_yticks(range(4), settings)
plt.show()


# %% [markdown]
# *A row for each way to run. What the theory does not see is that the errors of many clients cancel in their mean: the
# sections on cohorts and on the statistical rate measure that.*
#
# ## Minibatches: the variance and the trade-off in $\theta$
#
# With minibatches, Theorem 1 needs a bound $\sigma_i^2$ of $\mathbb{E}_j\|\nabla g_{i,j}(x) - \nabla f_i(x)\|^2$, at
# **every** $\tau$-sparse $x$ (Assumption 4). For the squared loss there is none. Walk away from $x^*$ along any
# sparse direction, and the variance grows with the square of the distance. (`theory.minibatch_variance` is exact: it
# needs no minibatch.)

# %%
def crowd(seed, noise=noise):
    return draw(seed, noise, [1.002, 1.005, 1.01], batch_samples)


# %%
distances = np.geomspace(0.01, 1000, 26)


# %%
def variances(seed):
    fed, direction = crowd(seed), sparse_on_sphere(n, tau, np.random.default_rng(seed))
    points = [fed.truth + s * direction for s in distances]
    return [theory.minibatch_variance(fed.clients[0], x, batch_size) for x in points]


# %%
spread = np.array([variances(seed) for seed in range(n_seeds)])

# %%
fig, ax = panels(width=6.4, height=3.3)
curve(ax, distances, spread, "variance of the\nminibatch gradients", color=BLUE, marker="o")
ax.plot(distances[6:], 0.1 * spread.mean(0)[-1] * (distances[6:] / distances[-1]) ** 2, "k:", label="slope 2")
ax.set(xscale="log", yscale="log", xlabel="distance from $x^\\#$ along a sparse direction", ylabel="$\\sigma_i^2(x)$")
name_lines(ax)
plt.show()


# %% [markdown]
# The paper remarks that Assumption 4 may fail, and that it is not essential. We come to that. First, what can be
# saved: the proof uses $\sigma_i^2$ only at the points $x_{t,k}$ that a run visits, and at $x^*$. So take the largest
# variance on the way. With this number, Theorem 1 is true for the run.

# %%
@dataclass(frozen=True)
class Watched(fgmp.FedGradMP):
    seen: tuple = ()

    def at_client(self, client, x, rng):
        one = replace(self, local_iterations=1)
        for _ in range(self.local_iterations):
            self.seen[client.key].append(theory.minibatch_variance(client, x.dense(), self.batch_size))
            x = fgmp.FedGradMP.at_client(one, client, x, rng)
        return x


# %%
def minibatch_case(seed, repeats=4):
    fed = crowd(seed)
    seen = tuple([theory.minibatch_variance(c, fed.truth, batch_size)] for c in fed.clients)
    method = Watched(tau, K, batch_size, seen=seen)
    runs = [squared_errors(fed, fed.truth, method, rng=r) for r in range(repeats)]
    constants = theory.measure_constants(fed, fed.truth, tau, batch_size=batch_size, n_minibatches=6)
    return np.mean(runs, axis=0), replace(constants, variance=np.array([max(s) for s in seen]))


# %%
crowds = [minibatch_case(seed) for seed in range(n_seeds)]

# %% [markdown]
# Now $\theta$. A large $\theta$ makes $\beta_2$, and with it $\kappa$, small. The residual contains
# $\theta^2\sigma_i^2$. So there is a best $\theta$, and it depends on the round.

# %%
thetas = np.geomspace(2, 200, 70)
tradeoffs = [theory.TheoremParameters(theta=th) for th in thetas]
bounds = [[theory.theorem1(constants, K, tradeoff) for tradeoff in tradeoffs] for _, constants in crowds]
rate = np.array([[b.kappa for b in row] for row in bounds])
left_over = np.array([[b.residual for b in row] for row in bounds])
after = {t: np.array([[b.after(t, 1.0) for b in row] for row in bounds]) for t in (1, 2, rounds)}

# %%
fig, (left, right) = panels(2, width=4.8, height=3.5)
curve(left, thetas, rate, r"$\kappa$", color=BLUE, markevery=6, marker="o")
floor(left, 1.0, "no guarantee\nabove")
left.set(xscale="log", yscale="log", xlabel=r"$\theta$", ylabel=r"$\kappa$", title="Rate per round")
for (t, values), (colour, marker) in zip(after.items(), ((BLUE, "o"), (GREEN, "s"), (VERMILLION, "D")), strict=True):
    right.plot(thetas, np.median(values, axis=0), color=colour, marker=marker, markevery=6, label=f"after round {t}")
right.plot(thetas, np.median(left_over, axis=0), "k:", label="residual alone")
floor(right, 1.0, "zero model")
right.set(xscale="log", yscale="log", xlabel=r"$\theta$", title="The trade-off", xlim=(3.5, 30), ylim=(0.3, 6))
right.set_xticks([5, 10, 20], [5, 10, 20])
right.set_yticks([0.5, 1, 2, 5], [0.5, 1, 2, 5])
right.set(ylabel="bound of the squared error")
right.minorticks_off()
name_lines(left)
right.legend(loc="upper center")
plt.show()

# %% [markdown]
# The best $\theta$ for each round gives the bound that can be laid beside the runs:

# %%
steps = np.arange(rounds + 1)
lowest = [np.min([b.after(steps, 1.0) for b in row], axis=0) for row in bounds]
minibatch = BoundBesideError.of([(run, best) for (run, _), best in zip(crowds, lowest, strict=True)], 1e-28)
fig, ax = panels(width=6.4, height=3.3)
minibatch.draw(ax, "Minibatches, the best $\\theta$ for each round")
ax.set(ylabel="mean squared error to $x^\\#$")
name_lines(ax)
plt.show()

# %%
slopes = [np.polyfit(np.log(distances[-8:]), np.log(v[-8:]), 1)[0] for v in spread]
claim("theory-variance-unbounded",
    "squared loss: the variance grows with the square of the distance, so no sigma_i^2 of Assumption 4 serves all x",
    slopes, np.abs(np.array(slopes) - 2) < 0.05, source="ours, Theorem 1", expected=2,
    unit="is the slope of log variance against log distance")

# %%
interior = np.argmin(left_over, axis=1)
inside = (np.diff(rate) < 0).all() and (interior > 0).all() and (interior < len(thetas) - 1).all()
claim("theory-theta", "larger theta: smaller kappa; the residual has its minimum at a theta in between",
    thetas[interior], inside, source="paper, Theorem 1, line 705", expected="inside 2 to 200",
    unit="is the theta with the smallest residual")
claim("theory-theorem-1-minibatch",
    f"Theorem 1 with minibatches (b = {batch_size} of {batch_samples}, mean of 4 runs), variance as met on the way: "
    "bound above the error in every round, for every theta, and in the end below the zero model",
    minibatch.factors, minibatch.useful, source="paper, Theorem 1, line 629", expected="below 1; above 1")


# %% [markdown]
# ## When the residual is zero
#
# The residual of Theorem 1 is made of $\|\nabla f_i(x^*)\|$ and $\sigma_i$. It vanishes if $\zeta_* = (\sum_i p_i
# \|\nabla f_i(x^*)\|^2)^{1/2}$ and all $\sigma_i$ vanish, and for $\sigma_i = 0$ only then. Measure five
# federations: no noise and noise, full batches and minibatches, and one without noise whose clients have different
# signals on the same support.

# %%
def disagreeing(seed):
    fed, rng = crowd(seed, 0.0), np.random.default_rng(seed)
    signals = [fed.truth * (1 + 0.1 * rng.standard_normal(n)) for _ in fed.clients]
    ys = [c.features @ x for c, x in zip(fed.clients, signals, strict=True)]
    return fgmp.Federation.from_arrays([c.features for c in fed.clients], ys, truth=fed.truth)


# %%
def silent(seed):
    return crowd(seed, 0.0)


# %%
makers = {"no noise, full batch": (silent, None), "no noise, minibatch": (silent, batch_size)}
makers |= {"noise, full batch": (crowd, None), "noise, minibatch": (crowd, batch_size)}
makers |= {"different signals, full batch": (disagreeing, None)}


# %%
def residual_row(fed, batch):
    x_star = theory.sparse_minimiser(fed, tau)
    sigma = max(theory.minibatch_variance(c, x_star, batch) for c in fed.clients) ** 0.5
    error = squared_errors(fed, x_star, fgmp.FedGradMP(tau, K, batch), rounds=4, rng=1)[-1] ** 0.5
    return theory.heterogeneity(fed, x_star), sigma, error


# %%
rows = {name: [residual_row(maker(s), batch) for s in range(3)] for name, (maker, batch) in makers.items()}
for name, found in rows.items():
    zeta, sigma, error = (f"{v:.2g}" if v > 1e-12 else "zero" for v in np.median(found, axis=0))
    print(f"{name:<30} zeta* {zeta:<8} sigma at x* {sigma:<8} final error to x* {error}")

# %% [markdown]
# This agrees with the paper's comparison with earlier work: FedGradMP converges to $x^*$ only if $\zeta_* = \sigma_i
# = 0$, and otherwise to a neighbourhood. The second row is a case in point for the *appendix*: there $\sigma_i = 0$ at
# $x^*$, but no $\sigma_i = 0$ serves all sparse vectors, so Theorem 1 promises no more than a neighbourhood. The runs
# reach $x^*$.

# %%
zero = np.array([max(found[0], found[1]) < 1e-12 for row in rows.values() for found in row])
ends = np.array([found[2] < 1e-12 for row in rows.values() for found in row])
claim("theory-zero-residual",
    "the final error to x* is zero where zeta* and sigma_i (at x*) are zero, and only there",
    f"{zero.sum()} runs with zeta* = sigma_i = 0, {(zero & ends).sum()} of them exact; {(ends & ~zero).sum()} of "
    f"the other {(~zero).sum()} exact", zero == ends, source="paper, Theorem 1, line 678",
    expected="all exact; 0 exact")

# %% [markdown]
# ## Without a bound on the variance
#
# The appendix replaces Assumption 4 by a lemma: the variance at $x$ is at most $3\,(\mathbb{E}\rho^{+2} + \bar\rho^{+})
# \|x - x^*\|^2 + 12\,\mathbb{E}\|\nabla g_{i,j}(x^*)\|^2$. In the standard basis it is true with room: a variance is at
# most a second moment, which gives $\frac{12}{11}\mathbb{E}\rho^{+2}_{2\tau}$ in place of the bracket. Its proof goes
# another way and bounds $3\|\nabla f_i(x) - \nabla f_i(x^*)\|^2$ by $3\bar\rho^+$ where the square is due.
#
# Followed to its end, the proof of the next lemma adds $6\theta^2(\mathbb{E}\rho^{+2} + \bar\rho^{+2})/\rho^-$ to
# $\beta_2$, and the paper prints $3\theta^2(\mathbb{E}\rho^{+2} + \bar\rho^+)/\rho^-$
# ([20_errata_checked](20_errata_checked.ipynb) compares the two). Either *grows* with $\theta$, while $1/\theta^2$
# falls. So $\beta_2$ has a smallest value. For perfect clients, $\rho^- = \rho^+ = \rho$, it is $2 \min_\theta
# (\theta^{-2}/\rho + 6\theta^2\rho) = 4\sqrt6 \approx 9.80$ as derived. As printed, for exact projections, it is at
# least $2\sqrt6 \approx 4.9$. But $\kappa < 1$ needs $\beta_2 < 1/4$ at some client.

# %%
theta = np.geomspace(1e-3, 1e3, 20001)
least = theory.beta_2_unbounded_variance(1.0, 1.0, 1.0, theta=theta).min()
rho = np.geomspace(1e-2, 1e4, 25)[:, None]
least_printed = (2 / (rho * theta**2) + 3 * theta**2 * (rho + 1)).min()
always = [theory.theorem_unbounded_variance(crowds[0][1], K, 0.0, tradeoff).guarantees for tradeoff in tradeoffs]


# %% [markdown]
# So the theorem of the appendix is empty: no data set, no $\theta$ and no unit of the loss gives it $\kappa
# < 1$. Taking $3\,\mathbb{E}\rho^{+2}$ for the growth of the
# variance throws away that large minibatches vary little.
#
# A small repair saves the idea. Let $v_i$ be the growth itself: the variance at $x$ is at most $2v_i\|x - x^*\|^2 +
# 2\sigma_i^2(x^*)$. For minibatches of $b$ of $m$ rows $a_r$ without replacement, $v_i$ is at most $(\frac1b -
# \frac1m)\frac{m}{m-1}$ times the largest $2\tau$-sparse eigenvalue of $\frac1m\sum_r \|a_r\|^2 a_r a_r^\top$, which
# the library can enumerate. Lemma 3 then has $\beta_2 = \frac{2}{\rho^-}(\rho^+ - \rho^- + \theta^{-2} + 2\theta^2
# v_i)$.

# %%
def growth(client):
    norms = np.sum(client.features**2, axis=1)
    heaviest = theory.restricted_constants(client.features, 2 * tau, weights=norms).upper
    m = client.n_samples
    return (1 / batch_size - 1 / m) * m / (m - 1) * heaviest


# %%
def repaired(constants, v, theta):
    second = theory.beta_2(constants.lower, constants.upper, theta=theta) + 4 * theta**2 * v / constants.lower
    mu = 4 * theory.beta_1(constants.lower, constants.upper) * second
    return 4 * np.mean(mu**K)


# %%
growths = [np.array([growth(c) for c in crowd(seed).clients]) for seed in range(n_seeds)]
kappa = [[repaired(found, v, th) for th in thetas] for (_, found), v in zip(crowds, growths, strict=True)]
mu = 4 * theory.beta_2_unbounded_variance(1.0, 1.0, 1.0, theta=theta)  # of perfect clients

# %%
fig, ax = panels(width=6.4, height=3.4)
curve(ax, thetas, kappa, "with the measured\ngrowth of the variance", color=BLUE)
ax.plot(theta, 4 * mu**K, color=VERMILLION, linestyle="-.", label="the appendix,\nfor perfect clients")
floor(ax, 1.0, "no guarantee above")
ax.set(xscale="log", yscale="log", xlabel=r"$\theta$", ylabel=r"$\kappa$", xlim=(0.2, 60), ylim=(0.1, 1e9))
name_lines(ax)
plt.show()

# %%
claim("theory-unbounded-variance",
    "the theorem without bounded variance gives kappa < 1 for some data (exact projections)",
    f"beta_2 >= {least:.3g} for all data and all theta ({least_printed:.3g} as printed), so kappa >= "
    f"{16 * least:.3g} ({16 * least_printed:.3g})", bool(min(least, least_printed) <= 0.25 or any(always)),
    source="paper, appendix, line 1690", expected="kappa below 1")
claim("theory-variance-repaired",
    f"with the measured growth of the variance, K = {K} and b = {batch_size} of {batch_samples} rows, kappa < 1",
    np.min(kappa, axis=1), np.min(kappa, axis=1) < 1, source="ours, appendix", expected="below 1",
    unit="is kappa at the best theta")


# %% [markdown]
# ## Inexact solvers
#
# Algorithm 2 solves the restricted problem only to $\|b - b_{\mathrm{opt}}\| \le \delta$. The proof uses $\|u + v\|^2
# \le 2\|u\|^2 + 2\|v\|^2$. That doubles $\mu(i)$, as the paper prints. It also turns $\nu$ into $2\nu + 2(1 +
# \eta_2)^2\delta^2$, which is $2\nu + 8\delta^2$ for exact pruning. The statement prints $\nu + \delta^2$, which is too
# small in general ([20_errata_checked](20_errata_checked.ipynb)). The bound here is that of the proof.
#
# To have $\|b - b_{\mathrm{opt}}\| = \delta$ exactly, solve exactly and take a step of length $\delta$ in a random
# direction. Beside it, gradient descent that stops when an error of at most $\delta$ is certain.

# %%
@dataclass(frozen=True)
class OffBy:
    delta: float
    orthonormal = True

    def minimise(self, problem, start, rng):
        b = fgmp.Exact().minimise(problem, start, rng)
        step = rng.standard_normal(b.shape)
        return b + self.delta * step / np.linalg.norm(step)


# %%
deltas = np.geomspace(1e-6, 1e-1, 6)
solvers = {"off by exactly $\\delta$": OffBy}
solvers["gradient descent\nto $\\delta$"] = lambda delta: fgmp.GradientDescent(accuracy=delta)


# %%
def inexact(seed):
    fed = draw(seed, 0.0, gentle)
    constants = theory.measure_constants(fed, fed.truth, tau)
    bounds = [theory.theorem_inexact(constants, K, d).after(rounds, 1.0) for d in deltas]
    methods = [[fgmp.FedGradMP(tau, K, solver=make(d)) for d in deltas] for make in solvers.values()]
    return [[squared_errors(fed, fed.truth, m, rng=seed)[-1] for m in row] for row in methods] + [bounds]


# %%
by_seed = np.sqrt([inexact(seed) for seed in range(n_seeds)])

# %%
fig, ax = panels(width=6.4, height=3.5)
curve(ax, deltas, by_seed[:, 2], "bound", color="k", marker="s")
floor(ax, 1.0, "zero model")
for k, (name, style) in enumerate(zip(solvers, (dict(color=BLUE, marker="D"), METHODS["FedGradMP"]), strict=True)):
    curve(ax, deltas, np.maximum(by_seed[:, k], 1e-9), name, **style)
ax.set(xscale="log", yscale="log", xlabel=r"accuracy $\delta$ of the solver", ylabel="error at the last round")
name_lines(ax)
plt.show()

# %% [markdown]
# *No noise, so $\nu = 0$ and only $\delta$ is left. Gradient descent can only take whole steps. On clients this good
# one step gains more than a digit, so it often ends far below its target. Where $\delta$ is tiny, the bound is
# dominated by $\kappa^t$.*
#
# Two more remarks on this section of the paper. The restricted problem lives in up to $3\tau$ dimensions, not $\tau$,
# and its condition is that of $3\tau$ columns. And the costs of the solvers are the subject of
# [12_local_iterations](12_local_iterations.ipynb).

# %%
slope = [np.polyfit(np.log(deltas), np.log(row[0]), 1)[0] for row in by_seed]
below, useful = (by_seed[:, :2] <= by_seed[:, 2:]).all(axis=(1, 2)), (by_seed[:, 2, deltas <= 0.01] < 1).all(axis=1)
claim("theory-inexact",
    "inexact solvers: bound (with 2 nu + 8 delta^2) above measurement for every delta, both solvers, every seed",
    slope, below & useful, source="ours, inexact solvers",
    expected="1; for delta up to 0.01 the bound is below the zero model",
    unit="is the slope of log error against log delta (off by exactly delta)")

# %% [markdown]
# ## Cohorts
#
# With $L$ of $N$ clients drawn in each round, all $p_i$ equal, the paper's $\kappa$ is $4$ times the mean of the $L$
# largest $\mu(i)^K$. It falls as $L$ grows: that is the paper's remark on the theorem.

# %%
sizes = np.arange(1, n_clients + 1)


# %%
def cohorts(seed):
    fed = draw(seed)
    constants = theory.measure_constants(fed, fed.truth, tau)
    bounds = [theory.theorem_partial_participation(constants, K, int(L)) for L in sizes]
    steps = range(rounds + 1)
    errors = [squared_errors(fed, fed.truth, fgmp.FedGradMP(tau, K), rng=seed, cohort_size=int(L)) for L in sizes]
    return [b.kappa for b in bounds], errors, [b.after(steps, 1.0) for b in bounds], bounds[0].mu


# %%
sampled = [cohorts(seed) for seed in range(n_seeds)]
kappa, errors, promised, mu = (np.array(part) for part in zip(*sampled, strict=True))


# %% [markdown]
# Look at the proof again. It has the factor $\frac1L\sum_{i \in I_t}\mu(i)^K$, where the cohort $I_t$ is drawn
# uniformly and independently of $x_t$. Then it takes the *maximum* over all cohorts. But the bound is about an
# expectation, and the expectation of that factor is $\frac1N\sum_i \mu(i)^K$: **for every $L$ the rate of full
# participation.** So the fall of $\kappa$ with $L$ is a property of the maximum. Average over all cohorts and see:

# %%
def over_cohorts(powers, L):
    return 4 * np.mean([powers[list(S)].mean() for S in combinations(range(n_clients), L)])


# %%
means = np.array([[over_cohorts(powers, L) for L in sizes] for powers in mu**K])

# %%
fig, (left, right) = panels(2, width=4.8, height=3.4)
curve(left, sizes, kappa, "maximum\n(the paper)", color=VERMILLION, marker="o")
curve(left, sizes, means, "mean over\ncohorts", color=BLUE, marker="s", linestyle="--")
left.set(xlabel="cohort size $L$", ylabel=r"$\kappa$", ylim=(0, None), title="Rate per round", xticks=sizes)
curve(right, sizes, promised[:, :, -1], "bound", color="k", marker="s")
curve(right, sizes, errors[:, :, -1], "measured", **METHODS["FedGradMP"])
floor(right, 1.0, "zero model")
right.set(yscale="log", xlabel="cohort size $L$", ylabel="squared error", title="After the last round", xticks=sizes)
name_lines(left, [0.3, 0.15])
name_lines(right)
plt.show()

# %% [markdown]
# So the printed $\kappa$ is right, and larger than it need be. The variance term of the theorem is $\frac1L
# \sum_{i=1}^N$, which is $N/L$ times larger than the mean over cohorts, $\frac1N\sum_{i=1}^N$. The paper calls its
# residual pessimistic; this is one reason. How cohorts change the runs themselves is measured in
# [13_cohort_size](13_cohort_size.ipynb).

# %%
claim("theory-cohort-kappa", "the theorem on client sampling: its kappa falls as the cohort grows",
    kappa[:, 0] / kappa[:, -1], (np.diff(kappa, axis=1) < 0).all(axis=1), source="paper, client sampling, line 992",
    expected="above 1", unit=f"times larger for 1 client than for {n_clients}")
below, useful = (errors <= promised).all(axis=(1, 2)), (promised[:, :, -1] < 1).all(axis=1)
claim("theory-cohort-bound",
    "the theorem on client sampling: bound above the error for every cohort size and round, and in the end below "
    "the zero model",
    promised[:, :, -1].max(axis=1), below & useful, source="paper, client sampling, line 969", expected="below 1",
    unit="promised for the squared error at the last round, worst cohort size (the zero model has 1)")

# %%
found = {"kappa for L = 1 with the maximum": kappa[:, 0], "with the mean": means[:, 0]}
claim("theory-cohort-mean",
    "client sampling: the mean over random cohorts can replace the maximum, and does not depend on L",
    found, np.ptp(means, axis=1) < 1e-9 * means[:, 0], source="ours, client sampling",
    expected="the mean is the same for every L")


# %% [markdown]
# ## With a ball
#
# Section IV-C adds a constraint $\|x\| \le R$: clients and server project onto the ball. A projection onto a convex
# set that contains $x^*$ brings no point farther from $x^*$. So Theorem 1 holds as it stands.
#
# At the server the projection does nothing at all. All clients' models are in the ball, so is their mean, and pruning
# the mean is an orthogonal projection, which cannot make it longer. (The paper prints $\Lambda_s$, the server's
# support, in the clients' projection; their own $\Lambda$ is meant.)

# %%
@dataclass(frozen=True)
class Weighed(fgmp.FedGradMP):
    ends: tuple = ()

    def at_server(self, x, mean):
        free = replace(self, radius=None)
        self.ends.append(np.linalg.norm(fgmp.FedGradMP.at_server(free, x, mean).values))
        return fgmp.FedGradMP.at_server(self, x, mean)


# %%
def with_ball(fed, bound, share):
    radius = share * np.linalg.norm(fed.truth)
    errors = squared_errors(fed, fed.truth, Weighed(tau, K, radius=radius, ends=(norms := [])))
    return (errors <= bound).all() and bound[-1] < 1, max(norms) / radius


# %%
def balls(seed):
    fed = draw(seed)
    bound = theory.theorem1(theory.measure_constants(fed, fed.truth, tau), K).after(range(rounds + 1), 1.0)
    below, longest = zip(*[with_ball(fed, bound, share) for share in (1.0, 1.01, 2.0)], strict=True)
    return all(below), max(longest)


# %%
below, longest = np.array([balls(seed) for seed in range(n_seeds)]).T
claim("theory-ball",
    "with a ball of 1 to 2 times ||x#||: bound of Theorem 1 above the error and in the end below the zero model; "
    "the server's projection changes nothing",
    longest, (below == 1) & (longest <= 1 + 1e-12), source="paper, Section IV-C, line 1015", expected="at most 1",
    unit="of the radius: the longest model before the server's projection")

# %% [markdown]
# **Logistic losses need the ball earlier.** *(Entry 24 of [ERRATA.md](../ERRATA.md).)* Their curvature falls
# exponentially along a model that separates the rows, so restricted strong convexity holds in a ball only. But the
# client projects onto the ball *after* pruning. The minimiser $b$ on the merged support, where Lemma 2 uses the
# constant, lies where it will, and for separable rows there is none. The repair: minimise over the part of the span
# that lies in the ball, `solver=fgmp.Exact(radius=R)`. Lemma 2 survives, because $\langle \nabla f_i(b), b -
# P_{\hat\Gamma}x^*\rangle \le 0$ stands where $= 0$ stood, and $P_{\hat\Gamma}x^*$ is in the ball with $x^*$. A form
# that needs no condition follows at once:
#
# $$\|b - x^*\| \le \frac{\rho^+}{\rho^-}\,\|P^\perp_{\hat\Gamma}(b - x^*)\| +
# \frac{1}{\rho^-}\|P_{\hat\Gamma}\nabla f_i(x^*)\|.$$
#
# Clients whose few rows a model with two features separates, and constants that hold in the whole ball: a margin of a
# row is at most its length times $R$, which bounds the weights of the Hessian from below.

# %%
radius = 1.0  # R of the ball
at_most = np.array(list(combinations(range(n), 4 * tau)))  # all supports of 4 tau features


# %%
def separable(seed):
    rng, truth = np.random.default_rng(seed), sparse_on_sphere(n, tau, np.random.default_rng(seed))
    As = [rng.standard_normal((n_samples, n)) for _ in range(n_clients)]
    return fgmp.Federation.from_arrays(As, [np.where(A @ truth > 0, 1, -1) for A in As], "logistic", truth=truth)


# %%
def weight(margins):  # the second derivative of the logistic loss
    return 1 / (4 * np.cosh(np.clip(margins / 2, -300, 300)) ** 2)


# %%
def constants_in_ball(A):
    parts = A[:, at_most].transpose(1, 0, 2)  # [support, row, feature]
    least = weight(radius * np.linalg.norm(parts, axis=2))[:, :, None]
    low = np.linalg.eigvalsh(parts.transpose(0, 2, 1) @ (least * parts) / len(A))[:, 0].min()
    return low, np.linalg.eigvalsh(parts.transpose(0, 2, 1) @ parts / (4 * len(A)))[:, -1].max()


# %%
def local_minimisers(client, solver):
    x, basis = SparseModel.zero((n,)), StandardBasis()
    for _ in range(K):
        merged = union(basis.approximate(client.gradient(x), 2 * tau), x.support, n)
        b = minimise_on(merged, client, basis, solver, x, np.random.default_rng(0))
        yield merged, b.dense()
        x = basis.into_ball(basis.project(b, basis.approximate_model(b, tau)), radius)


# %%
def smallest_curvature(A, x):
    return np.linalg.eigvalsh(A.T @ (weight(A @ x)[:, None] * A) / len(A))[0]


# %%
def ball_case(seed):
    fed = separable(seed)
    x_star, ratios, curvatures, lengths = radius * fed.truth, [], [], []
    for client in fed.clients:
        low, high = constants_in_ball(client.features)
        for merged, b in local_minimisers(client, fgmp.Exact(radius=radius)):
            missed, slope = np.delete(b - x_star, merged), client.gradient(x_star)[merged]
            right = (high * np.linalg.norm(missed) + np.linalg.norm(slope)) / low
            ratios.append(np.linalg.norm(b - x_star) / right)
        for merged, b in local_minimisers(client, fgmp.Exact()):
            curvatures.append(smallest_curvature(client.features[:, merged], b[merged]) / low)
            lengths.append(np.linalg.norm(b) / radius)
    return max(ratios), min(curvatures), max(lengths)


# %%
one, lengths = separable(0), np.geomspace(0.1, 100, 60)
client, S = one.clients[0], np.union1d(np.flatnonzero(one.truth), np.arange(3 * tau))
along = [smallest_curvature(client.features[:, S], s * one.truth[S]) for s in lengths]
ends = {"as printed": fgmp.Exact(), "within the ball": fgmp.Exact(radius=radius)}

# %%
fig, ax = panels(width=7.2, height=3.5)
ax.plot(lengths, along, color="k")
ax.annotate("along the signal", (lengths[25], along[25]), (8, 4), textcoords="offset points")
for (words, solver), colour, marker in zip(ends.items(), (VERMILLION, BLUE), "os", strict=True):
    found = [(np.linalg.norm(b), smallest_curvature(client.features[:, m], b[m])) for m, b in
             local_minimisers(client, solver)]  # fmt: skip
    x, y = np.array(found).T
    ax.plot(x, np.maximum(y, 1e-20), marker, color=colour)
    ax.annotate(f"$b$, {words}", (x[0], max(y[0], 1e-20)), (-8, 6), textcoords="offset points", ha="right")
ax.axvline(radius, color="0.35", linestyle=(0, (5, 3)))
ax.annotate("ball", (radius, 1e-19), (6, 0), textcoords="offset points", color="0.35")
ax.set(xscale="log", yscale="log", ylim=(3e-21, 10), xlabel="length of the model", ylabel="smallest curvature")
plt.show()

# %% [markdown]
# *One client. Lemma 2 needs a curvature at $b$. Without the ball, $b$ runs as far as a hundred Newton steps take it, to
# curvatures below $10^{-20}$ (drawn there). Within the ball there is one.*

# %%
ratios, flat, far = np.array([ball_case(seed) for seed in range(n_seeds)]).T
claim("theory-ball-lemma-2",
    "separable logistic clients that minimise within the ball: Lemma 2, with constants of the whole ball, in each "
    "local iteration of the first round",
    ratios, ratios <= 1, source="ours, Section IV-C", expected="at most 1", unit="of the right side at most")
claim("theory-ball-leaves", "the same clients as printed, which prune before they project: b leaves the ball, to where "
    "the curvature is below that of every model in the ball",
    np.floor(np.log10(far)), (far > 3) & (flat < 1e-6), source="ours, Section IV-C", expected="b above 3 R",
    unit="is the power of ten of the longest b over R")

# %% [markdown]
# ## The statistical rate
#
# With independent noise, and full batches, the paper promises an error of order $\sqrt{\tau\log n / (N|D|)}$: as if
# all rows were in one place. Measure the error to $x^\#$ with Gaussian clients, for growing $N$ with fixed $|D|$ and
# for growing $|D|$ with fixed $N$. The entries of the signal are equal, so that none hides in the noise: the rate is
# about the size of the error once the support is right.

# %%
grid = [(N, 100) for N in (4, 8, 16, 32, 64)] + [(8, rows) for rows in (50, 200, 400, 800)]


# %%
def statistical(N, rows, seed):
    rng, truth = np.random.default_rng([seed, N, rows]), np.zeros(rate_features)
    truth[:rate_sparsity] = rate_sparsity**-0.5
    As = [rng.standard_normal((rows, rate_features)) for _ in range(N)]
    ys = [A @ truth + rate_noise * rng.standard_normal(rows) for A in As]
    fed = fgmp.Federation.from_arrays(As, ys, truth=truth)
    method = fgmp.FedGradMP(rate_sparsity, K)
    return fgmp.simulate(method, fed, rounds=3, rng=seed).history["relative_error"][-1]


# %%
rates = np.array([[statistical(N, rows, seed) for N, rows in grid] for seed in range(5 * n_seeds)])
total = np.array([N * rows for N, rows in grid])

# %%
fits = np.array([np.polyfit(np.log(total), np.log(row), 1) for row in rates])
by_clients = np.array([np.polyfit(np.log(total[:5]), np.log(row[:5]), 1)[0] for row in rates])
half = 2.01 * fits[:, 0].std(ddof=1) / np.sqrt(len(fits))
print(f"slope against N|D|: {fits[:, 0].mean():.3f}, 95% interval of the mean +- {half:.3f}")
print(f"slope against N alone: {by_clients.mean():.3f}, +- {2.01 * by_clients.std(ddof=1) / len(fits) ** 0.5:.3f}")

# %%
fig, ax = panels(width=6.4, height=3.6)
ax.plot(total[[0, 4]], np.exp(fits[:, 1].mean()) * total[[0, 4]] ** fits[:, 0].mean(), "k-", label="fit to all")
kinds = [("100 rows each,\nmore clients", slice(0, 5), "o", VERMILLION)]
kinds += [("8 clients,\nmore rows", slice(5, 9), "s", BLUE)]
for shift, (label, part, marker, colour) in zip((0.965, 1.035), kinds, strict=True):
    low, middle, high = np.percentile(rates[:, part], (5, 50, 95), axis=0)
    ax.errorbar(shift * total[part], middle, (middle - low, high - middle), fmt=marker, color=colour, capsize=3)
    place = (14, 6 if marker == "o" else -16)
    ax.annotate(label, (total[4], middle[-1]), place, textcoords="offset points", color=ink(colour))
ax.set(xscale="log", yscale="log", xlabel="rows of all clients, $N |D|$", ylabel="relative error to $x^\\#$")
ax.set_xticks(np.unique(total), np.unique(total))
ax.set_yticks([0.002, 0.005, 0.01, 0.02], [0.002, 0.005, 0.01, 0.02])
ax.minorticks_off()
plt.show()

# %% [markdown]
# *Points are medians, bars span 5 to 95 percent of the seeds, the black line is the fit to all points; the two kinds
# are drawn beside one another where they have the same number of rows.* The rate is near. (The slope is a little
# steeper than $-1/2$ where $|D|$ grows: a client with 50 rows overfits its $3\tau$ merged columns.)
#
# Does Theorem 1 explain it? The argument in the paper assumes that the clients' gradients at $x^*$ deviate from their
# mean by at most a constant $\beta$ times the mean: $\|P_\Omega\nabla f_i(x^*) - P_\Omega\nabla f(x^*)\| \le
# \beta\,\|P_\Omega\nabla f(x^*)\|$. But with independent noise the mean of $N$ gradients is about $\sqrt N$ times
# shorter than each of them. So $\beta$ grows like $\sqrt N$, and takes back what $N$ gave. Measure both: the smallest
# $\beta$, and the residual of Theorem 1, as $N$ grows.

# %%
counts = np.array([4, 16, 64])


# %%
def of_size(N, seed):
    return draw(seed, conditions=np.linspace(first_condition, last_condition, N))


# %%
def needs(N, seed):
    fed = of_size(N, seed)
    gradients = np.array([c.gradient(fed.truth) for c in fed.clients])
    mean = gradients.mean(axis=0)
    Omega = np.argsort(-np.abs(mean))[: 4 * tau]
    beta = np.linalg.norm((gradients - mean)[:, Omega], axis=1).max() / np.linalg.norm(mean[Omega])
    bound = theory.theorem1(theory.measure_constants(fed, fed.truth, tau), K)
    return beta, np.sqrt(bound.residual)


# %%
def ending(N, seed):
    fed = of_size(N, seed)
    return squared_errors(fed, fed.truth, fgmp.FedGradMP(tau, K), 2)[-1] ** 0.5


# %%
sizes_of = np.array([[needs(N, seed) for N in counts] for seed in range(n_seeds)])
endings = np.array([[ending(N, seed) for N in counts] for seed in range(3 * n_seeds)])

# %%
labels = ("smallest $\\beta$\n(no unit)", "residual of\nTheorem 1 (root)", "measured error")
styles = (dict(color=GREEN, marker="D"), dict(color="k", marker="s"), METHODS["FedGradMP"])
fig, ax = panels(width=6.4, height=3.6)
for runs, label, style in zip((*np.moveaxis(sizes_of, 2, 0), endings), labels, styles, strict=True):
    curve(ax, counts, runs, label, **style)
floor(ax, 1.0, "zero model")
ax.set(xscale="log", yscale="log", ylabel="error, or $\\beta$", xlabel=f"clients $N$, with {n_samples} rows each")
ax.set_xticks(counts, counts)
ax.minorticks_off()
name_lines(ax)
plt.show()

# %% [markdown]
# So the measured error deserves the rate, and Theorem 1 does not give it: its residual adds up what the clients do
# one by one and never sees that their errors cancel in the mean.

# %%
off = abs(fits[:, 0].mean() + 0.5)
claim("theory-statistical-rate",
    "the final error falls like (N |D|)^(-1/2): the mean slope is within 0.1 of -1/2, and its 95 % interval holds "
    "-1/2",
    fits[:, 0], [off < 0.1, off <= half], source="paper, Theorem 1, line 701", expected="-0.5",
    unit="is the fitted slope")

# %%
names = "smallest beta", "root of the residual", "measured error"
pairs = zip(names, (*np.moveaxis(sizes_of, 2, 0), endings), strict=True)
slopes = {name: np.polyfit(np.log(counts), np.log(runs.T), 1)[0] for name, runs in pairs}
flat, falling = np.mean(slopes["smallest beta"]), np.mean(slopes["root of the residual"])
claim("theory-statistical-beta",
    "independent clients have a bounded beta, so the residual of Theorem 1 falls like N^(-1/2): slopes in log N",
    slopes, bool(abs(flat) < 0.1 and falling < -0.3), source="paper, Theorem 1, line 701",
    expected="0 for beta, -1/2 for residual and error", digits=2)

# %% [markdown]
# ## What differs from the paper, and why
#
# - **The clients** are nearly orthonormal, since the paper's own data do not meet the conditions of its theorems
#   ([04_restricted_convexity](04_restricted_convexity.ipynb)); for the statistical rate they are Gaussian.
# - **The formulas** follow the proofs, where the printed ones differ ([ERRATA.md](../ERRATA.md)).
# - **Noise.** It is so small that the bounds say something, except where a section has a noise of its own.
# - **Chance.** The constants $\bar\rho^+$ of minibatches are means over some minibatches, not over all.
#
# ## The answer
#
# The promises survive: with minibatches of 9000 of 10000 rows, with inexact solvers, with cohorts and with a ball the
# bound is above the error of every run, and below the zero model. They survive with little to say: with minibatches the
# bound ends at 0.408 of the zero model, 1.09e+08 times above the run. The theorem without a bound on the variance is
# empty, for its kappa is at least 157 (78.4 as printed), rounded; with the measured growth of the variance it is 0.444.
# What the theory misses is that errors cancel: the mean over cohorts makes kappa 0.224 for every cohort size, where the
# maximum gives 0.594 for cohorts of 1; and measured errors fall with the number of clients, with slope -0.46, where the
# residual of Theorem 1 has -0.0033. (All numbers are medians over the seeds.)
#
# ## References
#
# - H. Jeong, D. Needell, J. Qin, *Federated Gradient Matching Pursuit*, IEEE Transactions on Information Theory
#   70(6), 4512-4537, 2024. [arXiv 2302.10755](https://arxiv.org/abs/2302.10755)
