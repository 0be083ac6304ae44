# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # The convergence theorem: what does it promise, and is it true?
#
# **Question.** The paper proves that FedGradMP converges linearly to a neighbourhood of the sparse solution. Do its
# lemmas, its main theorem and its corollary hold on runs, and how far are the promised errors from the measured ones?
#
# [![Run this notebook](pictures/run.svg)](../README.md#three-ways-in)
#
# ![Squared error and bound against rounds, with and without noise](pictures/06_convergence_theorem.png)
#
# On clients whose columns are nearly orthonormal, the bound of the theorem (black) is above the error of the run
# (orange) in every round of every run, and below that of the zero model. It is too large by many orders of magnitude.
#
# **What you will see**
# - what each of the three steps of a local iteration loses, and the lemma about it;
# - from these, the condition that a client has to meet, $c < 1.102$, and a better constant;
# - the main theorem and its corollary beside the measured error, and the reasons for the gap;
# - what more local iterations do to the bound and to the runs, and what follows in practice.
#
# **Where it stands in the paper.** Section III. The constants that the theorem needs are drawn in
# [05_restricted_convexity](05_restricted_convexity.ipynb); minibatches, inexact solvers and cohorts follow in
# [07_minibatches_solvers_cohorts](07_minibatches_solvers_cohorts.ipynb). Formulas here are those of the proofs; where
# the printed ones differ, [18_errata_checked](18_errata_checked.ipynb) has both.
#
# **Numbering.** The preprint counts lemmas and theorems together. Here, and everywhere in this project, Lemmas 1, 2
# and 3 are the three lemmas of Section III that come after the descent lemma, and Theorem 1 is the main theorem of
# Section III. All other statements go by name: the descent lemma, the corollary on $f$, the theorem on inexact
# solvers, the theorem on client sampling, the theorem without bounded variance (appendix).
#
# All symbols are in [one table](../docs/symbols.md).

# %% tags=["parameters"]
n_features = 12  # n, dimension of the problems
sparsity = 2  # tau, nonzero entries of the model
n_clients = 6  # N, clients
n_samples = 60  # rows of a client
last_condition = 1.06  # condition number of the last client; that of the first is 1.02
local_iterations = 3  # K, local iterations where the guarantee is tested
rounds = 8  # T, rounds of communication
noise = 0.01  # standard deviation of the noise where bounds are drawn
lemma_noise = 0.5  # standard deviation of the noise in the section on the lemmas
n_seeds = 10  # seeds: repetitions with new data

# %% tags=["hide-input"]
from book import check_parameters

check_parameters(globals(), {
    "4 * sparsity <= int <= min(14, n_samples)": "n_features",
    "1 <= int <= 3": "sparsity",
    "int >= 1": "n_clients n_samples rounds",
    "1 < float <= 1.14": "last_condition",
    "1 <= int <= 6": "local_iterations",
    "float > 0": "noise lemma_noise",
    "int >= 3": "n_seeds",
})
tau, n, K = sparsity, n_features, local_iterations

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np

import fgmp
from book import BLUE, GREEN, METHODS, BoundBesideError, alt, claim, curve, floor, name_lines, panels, slide
from fgmp import theory
from fgmp.datasets.synthetic import make_conditioned_regression, sparse_on_sphere
from fgmp.dictionaries import StandardBasis
from fgmp.sparse_model import SparseModel, union
from fgmp.solvers import minimise_on


# %% [markdown]
# ## One local iteration, three lemmas
#
# In words: a local iteration guesses features, fits them and drops some, and each step may lose a part of what is
# right. The factors of the three steps are multiplied, and the theorem applies if the product is below one. That
# requires nearly orthogonal columns, which the paper's own data do not have; the runs do well without. To skip the
# lemmas, go on with "Theorem 1 beside the measured error".
#
# Let $x^*$ be the sparse solution: the minimiser of $f = \sum_i p_i f_i$ over $\tau$-sparse vectors. With few
# features `theory.sparse_minimiser` finds it by trying all supports.
#
# A local iteration at a model $x_k$ takes three steps, and each loses something:
#
# - it **merges** the $2\tau$ largest entries of the gradient with the support of $x_k$ to $\hat\Gamma$. What may be
#   lost are entries of $x^*$ that the gradient hides, because the columns are not quite orthogonal;
# - it **minimises** over $\hat\Gamma$ to get $b$. This corrects the entries that are in $\hat\Gamma$, up to the noise;
#   the missed ones stay missed, and distort the others a little;
# - it **prunes** $b$ to its $\tau$ largest entries, and may throw away a right one that looks small.
#
# To see how much, the lines below, which are those of [fedgradmp](../fgmp/fedgradmp.py), also return what each step
# computes. Each client starts at a random sparse model, so that there is something to correct, and takes three local
# iterations with the full batch.

# %%
def local_steps(fed, seed):
    basis, rng = StandardBasis(), np.random.default_rng(seed)
    start = SparseModel.of(sparse_on_sphere(n, tau, rng))
    for client in fed.clients:
        x = start
        for _ in range(3):
            gamma = basis.select_atoms(client.gradient(x), 2 * tau)
            merged = union(gamma, x.support, n)
            b = minimise_on(merged, client, basis, fgmp.Exact(), x, rng)
            new = basis.project(b, basis.select_atoms_of(b, tau))
            yield client, x.dense(), merged, b.dense(), new.dense()
            x = new


# %% [markdown]
# These clients have 600 Gaussian rows each, one entry of the signal is thirty times smaller than the other, and the
# noise is strong. So the small entry is often missed, and every step can lose something.

# %% tags=["hide-input"]
def lemma_federation(seed, small=1 / 30):
    rng, truth = np.random.default_rng(seed), np.zeros(n)
    truth[rng.choice(n, tau, replace=False)] = small ** np.arange(tau)
    As = [rng.standard_normal((600, n)) for _ in range(4)]
    return fgmp.Federation.from_arrays(As, [A @ truth + lemma_noise * rng.standard_normal(600) for A in As])


# %% [markdown]
# The paper has a lemma for each step. All constants are at sparsity $4\tau$, because $\hat\Gamma$ holds at most
# $2\tau + \tau$ features and $x^*$ adds $\tau$; $\rho^-$ and $\rho^+$ are the smallest and the largest curvature of
# [05](05_restricted_convexity.ipynb).
#
# **Merging (Lemma 3).** What $\hat\Gamma$ misses is at most a share $\beta_2$ of the error before, plus what the noise
# in the gradient can hide, $\xi_2$:
#
# $$\|P^\perp_{\hat\Gamma}(b - x^*)\|^2 \le \beta_2 \|x_k - x^*\|^2 + \xi_2 .$$
#
# The share is small only where columns are nearly orthogonal, so that all sparse curvatures are nearly equal:
#
# $$\beta_2 = 2\,\frac{\rho^+ - \rho^-}{\rho^-} .$$
#
# **Minimising (Lemma 2).** The error after it is what was missed, a little enlarged, plus noise, $\xi_1$:
#
# $$\|b - x^*\|^2 \le \beta_1 \|P^\perp_{\hat\Gamma}(b - x^*)\|^2 + \xi_1 ,$$
#
# $$\beta_1 = \frac{\rho^+}{2\rho^- - \rho^+} .$$
#
# **Pruning (Lemma 1).** It costs at most a factor of four:
#
# $$\|x_{k+1} - x^*\|^2 \le 4\, \|b - x^*\|^2 .$$
#
# (With minibatches there are means over them, and the variance joins $\xi_1$ and $\xi_2$.)

# %% tags=["hide-input"]
def sides(client, x_star, x, merged, b, new):
    """The error before, and the left and the right side of Lemma 3, of Lemma 2 and of Lemma 1, each a pair."""
    found, slope = theory.restricted_constants(client.features, 4 * tau), client.gradient(x_star) ** 2
    low, high = found.lower, found.upper
    pieces = x - x_star, np.delete(x_star, merged), b - x_star, new - x_star
    before, missed, after, pruned = (np.sum(piece**2) for piece in pieces)
    xi_2, xi_1 = 8 * np.sort(slope)[-4 * tau :].sum() / low**2, 2 * slope[merged].sum() / (high * (2 * low - high))
    yield before, before
    yield missed, theory.beta_2(low, high) * before + xi_2
    yield after, theory.beta_1(low, high) * missed + xi_1
    yield pruned, 4 * after


# %% tags=["hide-input"]
def taken_apart(seed):
    fed = lemma_federation(seed)
    x_star = theory.sparse_minimiser(fed, tau)
    return [list(sides(client, x_star, *pieces)) for client, *pieces in local_steps(fed, seed)]


# %% tags=["hide-input"]
apart = np.array([taken_apart(seed) for seed in range(n_seeds)])  # [seed, iteration, step, side]

# %% tags=["hide-input"]
names = ["before", "missed by\nthe merged support", "after\nminimising", "after\npruning"]
measured, allowed = np.moveaxis(apart[:, ::3].reshape(-1, 4, 2), 2, 0)  # the first iteration of each client
fig, ax = panels(width=6, height=3.4)
curve(ax, [1, 2, 3], allowed[:, 1:], "allowed by\nthe lemma", band=(25, 75), color="k", marker="s")
curve(ax, range(4), np.maximum(measured, 1e-6), "measured", band=(25, 75), **METHODS["FedGradMP"])
ax.set(yscale="log", ylabel="squared error")
ax.set_xticks(range(4), names)
name_lines(ax)
alt(fig, """Squared error before a local iteration, missed by the merged support, after minimising and after pruning:
    what the lemmas allow is a little above what is measured for the last two, and far above it for the first.""")


# %% [markdown]
# *The first local iteration of all clients and seeds: medians and quartiles (values below $10^{-6}$ are drawn there).*
# The gradient does most of the work: what the merged support misses is more than three orders of magnitude less than
# the error before. Minimising then adds what the noise puts into the merged features, and pruning removes a part of
# that again. Lemmas 2 and 1 allow a few times what happens. Lemma 3 is loose: it allows about as much as there was
# before, because $\beta_2$ must cover the worst matrix with this $c$. Data as easy as these hardly test it: half of the
# twelve features are merged, and a feature is missed only if it is small; then what is missed is small, too.
#
# **Guess first.** How often is the small entry missed? And how often would an entry be missed that is a fifth, or a
# half, of the other?

# %% tags=["hide-input"]
def missing(seed, small):
    """The share of local iterations whose merged features lack a part of x*."""
    fed = lemma_federation(seed, small)
    x_star = theory.sparse_minimiser(fed, tau)
    return np.mean([bool(np.delete(x_star, merged).any()) for _, _, merged, _, _ in local_steps(fed, seed)])


# %%
for small in (1 / 30, 1 / 5, 1 / 2):
    share = np.mean([missing(seed, small) for seed in range(n_seeds)])
    print(f"an entry of {small:.2g} beside one of 1: missed in {100 * share:.0f} % of the local iterations")

# %% [markdown]
# ## How good are the constants?
#
# Together, without noise, the three lemmas say that a local iteration multiplies the squared error by at most
# $\mu = 4\beta_1\beta_2$. With the **condition number** $c = \rho^+/\rho^-$ of the client this is
# $\mu = 8c\,(c-1)/(2-c)$. It is below one, so that the iteration is guaranteed to reduce the error, if
# $8c^2 - 7c - 2 < 0$, that is, for $c$ below $(7+\sqrt{113})/16 \approx 1.102$. This is the threshold of the theorem.
#
# Could it be larger? Lemma 1 holds for every $b$, so we look for a bad one. Take $\tau = 1$, $x^* = (1, 0)$ and
# $b = (h, h)$ with a tie that is broken the wrong way: pruning multiplies the squared error by $(1+h^2)/((1-h)^2+h^2)$.

# %% tags=["hide-input"]
h, c = np.linspace(0.01, 2, 2000), np.linspace(1, 1.2, 2001)
fig, (left, right) = panels(2, width=3.75, height=3)
left.plot(h, (1 + h**2) / ((1 - h) ** 2 + h**2), "k-")
floor(left, 4, "Lemma 1", inside="left below")
left.set(xlabel="$h$", ylabel="factor of pruning", title="Pruning $(h, h)$", ylim=(0, 4.3), xticks=[0, 0.5, 1, 1.5, 2])
for prune, words, line in ((4, "paper", "k--"), ((3 + 5**0.5) / 2, "sharp", "k-")):
    local = prune * theory.beta_1(1, c) * theory.beta_2(1, c)
    right.plot(c, local, line, label=f"{words}: up to {c[local < 1].max():.3f}")
floor(right, 1, "no promise above", inside="left")
right.set(xlabel="condition number $c$ of a client", ylabel="$\\mu$", title="One local iteration", ylim=(0, 2))
right.set_xticks([1, 1.05, 1.1, 1.15, 1.2])
right.legend(loc="lower right")
alt(fig, """Left, the factor of pruning (h, h) has its largest value, 2.618, at h = 0.618, below the 4 of Lemma 1.
    Right, the factor of a local iteration against the condition number: it passes 1 at 1.102 with the constant 4,
    later with the sharp one.""")


# %% [markdown]
# The worst of these is $(3 + \sqrt5)/2 \approx 2.618$, at $h = 0.618$, and nothing is worse in the standard basis: it
# is the sharp constant of hard thresholding (Shen and Li, 2018, whom the paper cites for other reasons). It could
# replace the 4 of Lemma 1, and also the factor $2\eta_3^2 + 2 = 4$ of the server ($\eta_3$ is how far its selection is
# from the best one; here it selects exactly, $\eta_3 = 1$). So in the standard basis, with 2.618 instead of 4, a local
# iteration is guaranteed to reduce the error for $c$ up to 1.143 instead of 1.102. (In a dictionary the 4 is sharp:
# with two atoms along $x^* = (1, 0)$ and $(1, 2\delta)$, $b = (1, \delta)$ is nearer to the second line than to the
# first, and pruning takes it to $(1, 2\delta)$ up to terms of order $\delta^2$, which is twice as far from $x^*$.)
#
# ## Theorem 1 beside the measured error
#
# At client $i$ one local iteration multiplies the squared error by at most $\mu(i) = 4\beta_1\beta_2$, and adds
# $\nu(i)$ for the noise. ($\mu(i)$ is not the mean $\mu_i$ of a client's entries.) After $K$ of them and one average,
# which costs a factor of four for pruning at the server,
#
# $$\mathbb{E}\|x_t - x^*\|^2 \le \kappa^t \|x_0 - x^*\|^2 + \text{residual},$$
#
# $$\kappa = 4\sum_i p_i\, \mu(i)^K, \qquad
# \text{residual} = \frac{4}{1-\kappa} \sum_i p_i\, \nu(i)\, \frac{1-\mu(i)^K}{1-\mu(i)},$$
#
# if $\kappa < 1$. **This residual is the one that the proof arrives at, and not the printed one.** Line 629 has
# $\frac{4\nu}{1-\kappa}\sum_i p_i \frac{1-\mu(i)^K}{1-\mu(i)}$, with one $\nu$ for all clients in front of the sum.
# Both can be proved (entry 7 of [ERRATA.md](../ERRATA.md)), and the figure draws the smaller of the two, with
# $\nu = \sum_i p_i\,\nu(i)$ in the printed one. Condition numbers as small as that need nearly orthonormal columns.
# Therefore the clients here have (`make_conditioned_regression`) orthonormal columns, stretched by factors between 1
# and $\sqrt c$ along random directions. Full batches make a run deterministic, and the expectation is the run itself.
#
# The proof never uses that $x^*$ minimises anything. **Any $\tau$-sparse vector may take its place**, if the gradients
# are taken there, which the paper does not point out. We use the minimiser $x^*$ and the signal $x^\#$ that made the
# data. A bound says something only if it is below the error of the model that is zero everywhere, the first one of each
# run, drawn as a broken line.

# %%
def draw(conditions, noise, seed):
    return make_conditioned_regression(conditions, n_samples, n, tau, noise**2, rng=seed)


# %%
def squared_errors(fed, target, local_iterations=K):
    history = fgmp.History(metrics={"error": lambda x: np.sum((x - target) ** 2)})
    return fgmp.simulate(fgmp.FedGradMP(tau, local_iterations), fed, rounds, rng=0, history=history).history["error"]


# %%
def beside(fed, target):
    bound = theory.theorem1(theory.measure_constants(fed, target, tau), K)
    return squared_errors(fed, target), bound.after(np.arange(rounds + 1), np.sum(target**2))


# %%
conditions = np.linspace(1.02, last_condition, n_clients)
silent, noisy = ([draw(conditions, level, seed) for seed in range(n_seeds)] for level in (0.0, noise))
solutions = [theory.sparse_minimiser(fed, tau) for fed in noisy]
quiet, truth = (BoundBesideError.of([beside(fed, fed.truth) for fed in feds], 1e-28) for feds in (silent, noisy))
solution = BoundBesideError.of([beside(fed, x) for fed, x in zip(noisy, solutions, strict=True)], 1e-28)

# %% tags=["headline", "hide-input"]
fig, axes = panels(3, width=2.5, height=3)
titles = ("no noise, to $x^*$", "noise, to $x^*$", "noise, to $x^\\#$")
for ax, title, case in zip(axes, titles, (quiet, solution, truth), strict=True):
    case.draw(ax, title)
axes[0].set(ylabel="squared error")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
alt(fig, """Squared error and bound against rounds, in three panels. Without noise the bound falls steadily and the run
    is exact after one round; with noise the bound levels off below the zero model, and the run far below the bound.""")

# %% [markdown]
# *The bound holds, and it is loose. Lines are medians over the seeds, bands span all seeds; each panel has its own
# scale. Squared errors below $10^{-28}$ count as exact and are drawn there.*
#
# There are two reasons for that. Without noise (left) the bound falls by $\kappa$ each time, while the runs have the
# right support after one round and are exact. With noise (middle and right) $\kappa^t$ is soon too small to matter, and
# what remains of the bound is the **residual**. It is far above the error, because its constants cover the worst case,
# and because it adds up what the noise does to the clients one by one, while in the run their errors cancel in the
# mean. And $x^*$ is by definition the point where they cancel, so the error to it (middle) is smaller still.
# [04_statistical_rate](04_statistical_rate.ipynb) has a picture of this.
#
# ### Turn the condition number
#
# Six clients all have the condition number $c$, without noise. We compute the bound for three local iterations and for
# twenty, and the run.
#
# **Guess first.** The guarantee ends at $c = 1.102$. What will the run do there, and the bound shortly before?

# %%
turned = [1.01, 1.02, 1.04, 1.06, 1.08, 1.09, 1.1, 1.11, 1.12, 1.16, 1.2]


def at_condition(c):
    """The bounds for two numbers of local iterations, and the error of the run."""
    fed, steps = draw([c] * 6, 0.0, 0), np.arange(rounds + 1)
    constants = theory.measure_constants(fed, fed.truth, tau)
    bounds = [theory.theorem1(constants, local).after(steps, 1.0) for local in (3, 20)]
    return [*bounds, np.maximum(squared_errors(fed, fed.truth, 3), 1e-28)]


# %% tags=["hide-input"]
def draw_at(ax, c):
    three, twenty, run = at_condition(c)
    for words, bound, dashes in (("bound, K = 3", three, "-"), ("bound, K = 20", twenty, "--")):
        shown = np.where(np.isfinite(bound), np.maximum(bound, 1e-28), np.nan)
        ax.plot(shown, "k", linestyle=dashes, marker="s", label=words)
    ax.plot(run, label="run", **METHODS["FedGradMP"])
    none = [words for words, bound in (("K = 3", three), ("K = 20", twenty)) if not np.isfinite(bound[-1])]
    title = f"$c$ = {c:.2f}" + f"\nno bound for {' and '.join(none)}" * bool(none)
    ax.set(yscale="log", ylim=(1e-29, 10), xlabel="round", title=title)


# %% tags=["hide-input"]
fig, axes = panels(3, width=2.5, height=3, sharey=True)
for ax, c in zip(axes, (1.04, 1.09, 1.12), strict=True):  # some of `turned`
    draw_at(ax, c)
axes[0].set(ylabel="squared error")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
alt(fig, """Bounds and error against rounds at three condition numbers: at 1.04 both bounds fall, at 1.09 the one for
    twenty local iterations only, at 1.12 there is none; the run is exact after one round in each.""")


# %% [markdown]
# *The condition number does not affect the run. With three local iterations the bound leaves the figure at $c = 1.07$,
# with any number of them at 1.102.*
#
# In JupyterLab, and on the site of the book, a slider with eleven values of $c$ stands here. A page that runs no
# scripts shows only the figure above.

# %% tags=["hide-input", "nbval-ignore-output"]
def picture(c):
    fig, ax = panels(width=5.4, height=3)
    draw_at(ax, c)
    ax.set(ylabel="squared error")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    alt(fig, f"Bounds and error against rounds at condition number {c:.2f}")
    return fig


slide("condition", map(picture, turned), [f"{c:.2f}" for c in turned], "condition number c", first=2)
plt.close("all")


# %% [markdown]
# ## The corollary on $f$
#
# If $x$ is near $x^*$, $f(x)$ is near $f(x^*)$, because the curvature of $f$ is at most $\rho$, the mean restricted
# smoothness at sparsity $\tau$. So the corollary promises $\mathbb{E} f(x_t) \le f(x^*) + \frac{1}{2\rho}\|\nabla
# f(x^*)\|^2 + \rho\,(\text{the bound of Theorem 1})$.

# %%
def objective_beside(fed, x_star):
    bound, p = theory.theorem1(theory.measure_constants(fed, x_star, tau), K), fed.weights
    value = p @ [c.objective(x_star) for c in fed.clients]
    slope = np.sum((p @ [c.gradient(x_star) for c in fed.clients]) ** 2)
    rho = p @ [theory.restricted_constants(c.features, tau).upper for c in fed.clients]
    at_star = dict(objective=value, gradient=slope, smoothness=rho)
    promised = theory.objective_bound(bound, np.arange(rounds + 1), np.sum(x_star**2), **at_star)
    return fgmp.simulate(fgmp.FedGradMP(tau, K), fed, rounds).history["objective"] - value, promised - value


# %% [markdown]
# (Is sparsity $\tau$ enough for $\rho$? A line of the proof needs $2\tau$; the statement is true nevertheless:
# [18_errata_checked](18_errata_checked.ipynb).)
#
# ## More local iterations
#
# The paper remarks on Theorem 1: if all $\mu(i) < 1$, more local iterations $K$ make $\kappa$ smaller. If one $\mu(i)$
# exceeds 1, $\kappa$ may fall at first and must rise in the end, because $\mu(i)^K$ grows. We show both cases: 40 good
# clients, and the same with a bad one among them, of condition number 1.14.

# %%
iterations, better = np.arange(1, 21), np.linspace(1.005, 1.03, 39)


# %%
def kappas(seed, last):
    fed = draw([*better, last], noise, seed)
    constants = theory.measure_constants(fed, fed.truth, tau)
    return [theory.theorem1(constants, int(k)).kappa for k in iterations]


# %%
good, mixed = (np.array([kappas(seed, last) for seed in range(n_seeds)]) for last in (1.03, 1.14))

# %% tags=["hide-input"]
fig, ax = panels(width=6, height=3.1)
curve(ax, iterations, good, "all $\\mu(i) < 1$", color=BLUE, marker="o")
curve(ax, iterations, mixed, "one $\\mu(i) > 1$", color=GREEN, marker="s")
floor(ax, 1.0, "no promise above")
ax.set(yscale="log", xlabel="local iterations $K$", ylabel=r"factor of a round, $\kappa$", xticks=iterations[::3])
name_lines(ax)
alt(fig, """The factor of a round against the number of local iterations: it falls for forty good clients, and falls
    and then rises above one if one bad client is among them.""")

# %% [markdown]
# Does the bad client hurt the runs, too? Without noise, we run FedGradMP with the bad client and twenty local
# iterations, where $\kappa > 1$ and the theorem says nothing:

# %%
bad = [draw([*better, 1.14], 0.0, seed) for seed in range(n_seeds)]
last = [squared_errors(fed, fed.truth, 20)[2] ** 0.5 for fed in bad]

# %% [markdown]
# So the rise is a property of the bound, at least for data like these. What $K$ does to the runs of the paper is
# measured in [12_two_dials](12_two_dials.ipynb).
#
# **What to do with this.** Do not choose $K$, or leave out a client, because of the bound: not even the clients of
# Figure 1 of the paper meet its conditions ([05](05_restricted_convexity.ipynb)), and runs are far better. But the
# proof does tell where care pays: in the gradient, that is, in what a client sees. Subtract column means, and merge or
# mix columns that are nearly equal.

# %% [markdown]
# ## What was measured
#
# These are the claims of this chapter; [CLAIMS](../CLAIMS.md) has all.

# %% tags=["hide-input"]
for step, number, line in ((1, 3, 444), (2, 2, 430), (3, 1, 417)):
    left, right = np.moveaxis(apart[:, :, step], -1, 0)
    claim(f"theory-lemma-{number}", f"Lemma {number} holds in each of {left.shape[1]} local iterations of every seed",
        (left / right).max(axis=1), (np.isfinite(right) & (left <= right * (1 + 1e-9))).all(axis=1),
        source=f"paper, Lemma {number}, line {line}", expected="at most 1",
        unit="of the right side reached at most")

for name, words, case in (("solution", "x^*", solution), ("truth", "x^\\#", truth)):
    claim(f"theory-theorem-1-{name}",
        f"Theorem 1, noise, error to {words}: bound above the error in every round, in the end below the zero model",
        case.factors, case.useful, source="paper, Theorem 1, line 629", expected="below 1; above 1")

claim("theory-theorem-1-quiet", "Theorem 1, no noise: bound above the error in every round, runs exact after one",
    quiet.promised[:, -1], quiet.useful & (quiet.measured[:, 1] <= 1e-28), source="paper, Theorem 1, line 629",
    expected="well below the zero model, which has 1", unit="promised for the squared error at the last round")

objective = BoundBesideError.of([objective_beside(fed, x) for fed, x in zip(noisy, solutions, strict=True)], 1e-28)
claim("theory-corollary-f", "the corollary on f: bound above f in every round, and in the end below the zero model",
    objective.factors["bound over zero model"], objective.useful, source="paper, corollary on f, line 859",
    expected="below 1", unit="of what the zero model has above f(x*), promised at the last round")

# %% tags=["hide-input"]
claim("theory-kappa-falls", "all mu(i) < 1: kappa falls with every further local iteration", good[:, 4] / good[:, 0],
    (np.diff(good) < 0).all(axis=1), source="paper, Theorem 1, line 661", expected="below 1",
    unit="is kappa(5) / kappa(1)")
turning = iterations[np.argmin(mixed, axis=1)]
claim("theory-kappa-turns", "one mu(i) > 1: kappa falls, then rises above 1 as K grows", turning,
    (turning > 1) & (turning < 20) & (mixed[:, -1] > 1), source="paper, Theorem 1, line 664",
    expected="above 1, below 20", unit="local iterations where kappa is smallest")

claim("theory-kappa-measured", "with K = 20 and one mu(i) > 1, where kappa > 1 promises nothing: exact after 2 rounds",
    last, np.array(last) <= 1e-14, source="ours, Theorem 1", expected="at most 1e-14", floor=1e-14)

# %% [markdown]
# ## What differs from the paper, and why
#
# - **The clients** are nearly orthonormal, so that the theorems say something.
# - **The formulas** follow the proofs, the residual as said above its figure. Lemma 2 is tested with the gradient of
#   $f_i$ in $\xi_1$, which is enough.
# - **$\rho^+$** is the restricted curvature, as in [05](05_restricted_convexity.ipynb); all projections are exact
#   ($\eta = 1$).
# - **Batches** are full. [07_minibatches_solvers_cohorts](07_minibatches_solvers_cohorts.ipynb) has minibatches.
# - **Noise.** It is small enough for the bounds to say something, except in the section on the lemmas.
#
# ## The answer
#
# Yes. The three lemmas hold in each of 12 local iterations of every seed, though these data hardly test the one on
# merging, and Theorem 1 in every round of every run. With noise its bound on the error to the signal ends at 0.00829 of
# the zero model's squared error. But that is 1.88e+04 times the squared error of the run, and the factor is far larger
# for the error to $x^*$. More local iterations can worsen the bound, which is smallest at 2 of them if one client is
# bad; runs without noise were exact nevertheless.
#
# ## Predict, then change
#
# 1. **`last_condition: 1.12`.** The worst of the six clients is now beyond 1.102, the others are not. What is left of
#    the guarantee, and does it affect the runs?
#
#    <details><summary>What comes out</summary>
#
#    Nothing is left: the large $\mu(i)^3$ of the worst clients makes $\kappa$ larger than one, and the bound is
#    infinite, which counts as not reproduced. The runs without noise are exact after one round on all seeds, as before.
#
#    ```text
#    [not reproduced] theory-theorem-1-quiet: inf promised for the squared error at the last round (10 seeds)
#    ```
#
#    </details>
# 2. **`noise: 0.1`.** The noise is ten times as large. What happens to the bound relative to the zero model, and
#    relative to the run?
#
#    <details><summary>What comes out</summary>
#
#    The bound is nearly all residual, which grows a hundredfold: it ends at 0.79 of the zero model, and on the worst
#    seed above it. But the error of the run grows a hundredfold, too, so the bound is still 1e+08 times larger.
#
#    ```text
#    [reproduced in part] theory-theorem-1-solution: bound over zero model 0.793 (0.643 to 1.02), ...
#    [reproduced in part] theory-theorem-1-solution: bound over zero model 0.793, over squared error 1.06e+08; ...
#    ```
#
#    </details>
# 3. **`local_iterations: 1`.** Do clients as good as these have a guarantee with a single local iteration?
#
#    <details><summary>What comes out</summary>
#
#    No: the clients have to make up for the factor four of the server, so $4\mu(i) < 1$ is needed on average, and most
#    of the $\mu(i)$ are too large for that. On one seed of ten the run needs more than one round to be exact.
#
#    ```text
#    [not reproduced] theory-theorem-1-quiet: inf promised for the squared error at the last round (10 seeds)
#    ```
#
#    </details>
#
# ## References
#
# - The paper, as in [00](00_start_here.ipynb).
# - J. Shen, P. Li, *A tight bound of hard thresholding*, Journal of Machine Learning Research 18(208), 1-42, 2018.
#
# Next: [07_minibatches_solvers_cohorts](07_minibatches_solvers_cohorts.ipynb), because real clients take minibatches,
# stop early and do not always answer.
