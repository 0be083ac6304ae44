# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # When each client holds almost nothing
#
# **Question.** FedGradMP asks every client to find the support alone. How many samples must a client hold for that? And
# what can clients do that hold fewer?
#
# ![Maps of exact recovery over sparsity and samples a client, six methods](pictures/15_phase_transition.png)
#
# FedGradMP needs more samples at each client than there are atoms to tell apart. With a shared support the samples of
# all clients count together, and a few rows a client are enough, though not quite as few as for pooled data.
#
# **What you will see**
# - `SharedSupportGradMP`, a variant in which the clients choose the support together, in one small call;
# - why it needs less: a proposition, with its assumption measured;
# - maps of where exact recovery succeeds, for six ways to solve the problem;
# - `polish`, one closing exchange that takes the result of any method to the pooled least-squares solution;
# - what all this costs in bytes, and what breaks it.
#
# This is the method in its first form (`shared` below): every client names its largest entries. What became of it,
# exact on more seeds and from sums only, is in [16_only_sums](16_only_sums.ipynb).
#
# **Where it stands in the paper.** It does not: `SharedSupportGradMP` and `polish` are this project's own. FedGradMP
# and its rivals are the paper's ([00_start_here](00_start_here.ipynb),
# [03_comparison_linear](03_comparison_linear.ipynb)).

# %% tags=["parameters"]
n_features = 200  # n in the maps
n_clients = 20  # N in the first map
samples = [1, 2, 3, 5, 8, 14, 20, 30]  # rows of a client in the maps
sparsities = [2, 4, 7, 10]  # tau in the first map
client_counts = [2, 5, 10, 20]  # N in the second map
map_sparsity = 5  # tau in the second map
heterogeneity = [0.0, 1.0]  # alpha, the variance of the clients' means, one row of maps each
variance_decay = 0.2  # p: the entries of client i have variance 1/i^p
rounds = 10  # rounds that a method may take
recovered = 1.0e-6  # relative error that counts as exact recovery
n_seeds = 20  # seeds of every cell and every claim
few_sizes = [50, 5, 1000, 10]  # N, rows of a client, n and tau where clients hold few
noisy_sizes = [50, 1000]  # N and n in the section with noise
many_clients = 12000  # N where the proposition is measured
dataset = "digits"  # for the last experiment; `fgmp data fetch` gets the second
digits_rounds = 80  # rounds there
digits_sparsity = [4, 8, 16]  # tau there, nonzero weights of a digit
digits_rates = [0.05, 0.2, 1.0]  # learning rates tried there for every method
workers = 2  # processes that share the work
progress = False  # whether to show a bar for each experiment

# %%
from book import as_list

samples, sparsities, client_counts, heterogeneity = map(as_list, (samples, sparsities, client_counts, heterogeneity))
digits_sparsity, digits_rates = as_list(digits_sparsity), as_list(digits_rates)
assert n_features >= max(sparsities), f"{n_features=}: expected at least {max(sparsities)=}"
assert n_clients >= 1, f"{n_clients=}: expected at least 1"
assert samples == sorted(set(samples)) and min(samples) >= 1, f"{samples=}: expected increasing, each at least 1"
assert sparsities == sorted(set(sparsities)), f"{sparsities=}: expected increasing"
assert min(sparsities) >= 1, f"{sparsities=}: expected each at least 1"
assert client_counts == sorted(set(client_counts)), f"{client_counts=}: expected increasing"
assert min(client_counts) >= 1, f"{client_counts=}: expected each at least 1"
assert 1 <= map_sparsity <= n_features, f"{map_sparsity=}: expected 1 to {n_features=}"
assert min(heterogeneity) >= 0, f"{heterogeneity=}: expected each at least 0"
assert rounds >= 1, f"{rounds=}: expected at least 1"

# %%
assert 1e-13 <= recovered <= 0.1, f"{recovered=}: expected 1e-13 to 0.1"
assert n_seeds >= 5, f"{n_seeds=}: expected at least 5"
assert len(few_sizes) == 4 and min(few_sizes) >= 1, f"{few_sizes=}: expected four values, each at least 1"
assert len(noisy_sizes) == 2 and min(noisy_sizes) >= 1, f"{noisy_sizes=}: expected two values, each at least 1"
assert many_clients >= 2000, f"{many_clients=}: expected at least 2000"
assert dataset in ("digits", "mnist-writers"), f"{dataset=}: expected 'digits' or 'mnist-writers'"
assert digits_rounds >= 2, f"{digits_rounds=}: expected at least 2"
assert min(digits_sparsity) >= 1, f"{digits_sparsity=}: expected each at least 1"
assert min(digits_rates) > 0, f"{digits_rates=}: expected each above 0"
assert workers >= 1, f"{workers=}: expected at least 1"
assert progress in (True, False), f"{progress=}: expected True or False"

# %%
import warnings
from functools import partial
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import OrthogonalMatchingPursuit
from tqdm import tqdm

import fgmp
from fgmp.methods.support_solvers import GradientsOnSupport, LocalSteps
from book import FOREST, METHODS, claim, curve, floor, listed, name_lines, outwards, panels

(few_clients, few_samples, few_features, few_sparsity), (noisy_clients, noisy_features) = few_sizes, noisy_sizes


def shared(tau, entries=2, **options):
    return fgmp.SharedSupportGradMP(tau, fgmp.LargestEntries(entries * tau), pruning="largest", **options)


# %%
def each(function, jobs):
    results = Parallel(n_jobs=workers, batch_size=8, return_as="generator")(delayed(function)(*job) for job in jobs)
    return list(tqdm(results, desc=function.__name__, total=len(jobs), disable=not progress))


# %% [markdown]
# ## Five samples a client
#
# Here are 50 clients with 5 samples each. The signal has 1000 entries, 10 of them are not zero. A client of FedGradMP
# minimises on up to 30 atoms; with 5 rows that says nothing.

# %%
few = dict(n_clients=few_clients, n_samples=few_samples, n_features=few_features, sparsity=few_sparsity)
few |= dict(variance_decay=variance_decay)
toy = fgmp.make_sparse_regression(**few, heterogeneity=0.0, rng=0)
for method in (fgmp.FedGradMP(sparsity=few_sparsity), shared(few_sparsity)):
    result = fgmp.simulate(method, toy, rounds=10, rng=0)
    error = result.history["relative_error"][-1]
    print(f"{type(method).__name__}: relative error", f"{error:.2g}" if error > 1e-10 else "below 1e-10")

# %% [markdown]
# ## The method
#
# A round of `SharedSupportGradMP` has two exchanges. With $x_t$ the model, $S_t$ its support, $p_i$ the weights:
#
# 1. Client $i$ sends the $2\tau$ largest entries of $\nabla f_i(x_t)$, with their indices. The server adds them up with
#    the weights, takes the $2\tau$ largest of the sum, and joins them with $S_t$ to $\hat\Gamma$.
# 2. The server broadcasts $\hat\Gamma$ and the values of $x_t$ on it. Client $i$ sends
#    $A_{\hat\Gamma}^\top A_{\hat\Gamma}/m_i$ and $A_{\hat\Gamma}^\top (y - A x_t)/m_i$. The server solves the sum of
#    these normal equations for what is to be added to $x_t$, and keeps the $\tau$ largest entries. (To ask for a
#    correction, not for the whole model, keeps a model that is good already, however the columns are scaled.)
#
# FedGradMP averages solutions; here the server adds up gradients and equations, and solves once. Both exchanges need
# sums over the clients only.
#
# **What a client reveals.** A Gram matrix on $3\tau$ features holds their second moments, and the right side their
# correlations with the targets. Other features do not occur in it. But where a client has fewer rows than $3\tau$, the
# matrix gives away these rows up to a rotation: without secure aggregation of the sums this is no protection. The first
# exchange names the features that matter most to a client.
#
# ## Why it needs less
#
# **Proposition.** Let $f=\sum_i p_i f_i$ have restricted constants $\rho^-_{4\tau} > 0$ and $\rho^+_{4\tau}$. If
# nothing is cut in the first exchange and all clients take part, `SharedSupportGradMP` satisfies
# $\|x_{t+1} - x^*\|^2 \le \mu \|x_t - x^*\|^2 + \nu$ with the $\mu$ and $\nu$ that the paper's Theorem 1 has for one
# client, computed from the constants of $f$.
#
# *Proof.* The sum of the whole gradients is $\nabla f(x_t)$, so the first exchange finds the $\hat\Gamma$ of GradMP on
# $f$. The sum of the normal equations is that of $f$ on $\hat\Gamma$, so the second finds its $b$. What remains is one
# local iteration of FedGradMP at a single client with the objective $f$, and Lemma 3 of the paper applies. $\square$
#
# The assumption speaks of $f$ only. Let us measure it where the $f_i$ have no constants at all: with 3 rows, every
# $f_i$ is flat along some 4-sparse direction.

# %%
small = dict(n_clients=many_clients, n_samples=3, n_features=14, sparsity=2, heterogeneity=0.0, variance_decay=0.0)
many = fgmp.make_sparse_regression(**small, noise_variance=1e-6, rng=0)
one = many.pooled()
constants = fgmp.theory.measure_constants(one, many.truth, sparsity=2)
lower = max(fgmp.theory.restricted_constants(client.features, 8).lower for client in many.clients[:20])
print(f"f: rho- = {constants.lower[0]:.2f}, rho+ = {constants.upper[0]:.2f}")
print("largest rho- of 20 clients:", f"{lower:.2g}" if lower > 1e-9 else "zero to rounding")

# %%
bound = fgmp.theory.theorem1(constants, local_iterations=1)
mu, nu = bound.mu[0], bound.nu[0]
limit = mu**3 * np.sum(many.truth**2) + nu * (1 - mu**3) / (1 - mu)
print(f"mu = {mu:.2f}")

# %%
uncut = shared(2, entries=7)
same = fgmp.FedGradMP(sparsity=2, local_iterations=1)
errors = [fgmp.simulate(method, fed, 3, rng=0).x - many.truth for method, fed in ((uncut, many), (same, one))]
print("squared error after 3 rounds:", "within the bound" if np.sum(errors[0] ** 2) <= limit else "above the bound")
print("the same as GradMP on the pooled data:", np.allclose(*errors, rtol=0, atol=1e-10))


# %% [markdown]
# What the proposition does not cover is the cut to $2\tau$ entries. The maps below show what it costs.
#
# ## Where recovery succeeds
#
# Every cell is a federation: so many samples a client, so many atoms (or clients). The data are noiseless, so a method
# either finds the signal or fails: after ten rounds, or after four in a row that did not lower its error by 1 %. Six
# ways:
#
# - *one client alone*: GradMP on the data of the first client, without a federation;
# - *FedGradMP*, with 3 local iterations;
# - *SharedSupportGradMP*, each client sending its $2\tau$ largest entries;
# - the same with $4\tau$ entries (`LargestEntries`);
# - *pooled GradMP*: all rows in one place. With nothing cut, `SharedSupportGradMP` is the same;
# - *pooled OMP*: scikit-learn's orthogonal matching pursuit on all rows in one place.

# %%
def omp(fed, tau):
    client = fed.pooled().clients[0]
    pursuit = OrthogonalMatchingPursuit(n_nonzero_coefs=tau, fit_intercept=False, tol=None)
    return pursuit.fit(client.features, client.targets).coef_


# %%
def iterate(method, fed):
    found, stalled = fgmp.stop_at(recovered), fgmp.stop_when_stalled(4, "relative_error", improvement=0.01)
    return fgmp.simulate(method, fed, rounds, rng=0, watch=[found, stalled]).x


# %%
def alone(fed):
    return fgmp.Federation.of(fed.clients[:1], [1], truth=fed.truth)


# %%
WAYS = {
    "one client alone": lambda fed, tau: iterate(fgmp.FedGradMP(tau, local_iterations=1), alone(fed)),
    "FedGradMP": lambda fed, tau: iterate(fgmp.FedGradMP(tau), fed),
    "SharedSupportGradMP": lambda fed, tau: iterate(shared(tau), fed),
    "4 tau sent": lambda fed, tau: iterate(shared(tau, entries=4), fed),
    "pooled GradMP": lambda fed, tau: iterate(fgmp.FedGradMP(tau, local_iterations=1), fed.pooled()),
    "pooled OMP": omp,
}


# %%
def trial(alpha, N, m, tau, seed):
    options = dict(heterogeneity=alpha, variance_decay=variance_decay, rng=seed)
    fed = fgmp.make_sparse_regression(N, m, n_features, tau, **options)
    errors = [np.linalg.norm(way(fed, tau) - fed.truth) / np.linalg.norm(fed.truth) for way in WAYS.values()]
    return np.array(errors) <= recovered


# %%
def chart(cells):
    jobs = [(*cell, seed) for cell in cells for seed in range(n_seeds)]
    return np.reshape(each(quiet, jobs), (len(cells), n_seeds, len(WAYS)))


# %% [markdown]
# (OMP warns where it stops early; here that only means that it has found all there is, or that a cell is hopeless.)

# %%
def quiet(*job):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trial(*job)


# %%
first = list(product(heterogeneity, [n_clients], samples, sparsities))
second = list(product(heterogeneity, client_counts, samples, [map_sparsity]))
found = chart(first + second)

# %%
by_sparsity = found[: len(first)].reshape(len(heterogeneity), len(samples), len(sparsities), n_seeds, -1)
by_clients = found[len(first) :].reshape(len(heterogeneity), len(client_counts), len(samples), n_seeds, -1)
by_clients = by_clients.swapaxes(1, 2)


# %%
def maps(outcomes, across, label):
    fig, axes = panels(len(WAYS), len(heterogeneity), width=2.0, height=2.4, sharex=True, sharey=True, squeeze=False)
    for row, alpha, outcome in zip(axes, heterogeneity, outcomes, strict=True):
        for ax, way, hits in zip(row, WAYS, np.moveaxis(outcome.mean(axis=2), -1, 0), strict=True):
            picture = ax.imshow(hits, origin="lower", cmap="cividis", vmin=0, vmax=1, aspect="auto")
            if min(hits.shape) > 1 and hits.min() < 0.5 < hits.max():
                ax.contour(hits, levels=[0.5], colors="white", linewidths=2)
            ax.set(xticks=range(len(across)), xticklabels=across, yticks=range(len(samples)), yticklabels=samples)
            ax.set_title(way, fontsize=9)
            ax.grid(False)
        row[0].set_ylabel(f"alpha = {alpha:g}\nsamples a client")
    for ax in axes[-1]:
        ax.set_xlabel(label)
    fig.colorbar(picture, ax=axes, label="recovered exactly")
    plt.show()


# %% tags=["headline"]
maps(by_sparsity, sparsities, "sparsity")

# %% [markdown]
# *The share of seeds with exact recovery; the white line is at 50 %.* The scales of both axes are not even.
#
# FedGradMP needs about $3\tau$ samples a client, because a client has to solve on $3\tau$ atoms. That is less than one
# client needs alone. With a shared support the line lies far below: for the larger sparsities a client has fewer
# samples than the model has atoms.
#
# What do more clients bring?

# %%
maps(by_clients, client_counts, "clients")


# %% [markdown]
# FedGradMP does not gain: more clients cannot help one that fails. With a shared support, and with all data in one
# place, what counts is the number of samples in all.
#
# **How close is the cut version to pooled GradMP?** For each column of the maps, take the number of samples at which
# the success passes 50 % (between two cells by interpolation on the logarithm), and divide.

# %%
def passes_half(hits):
    above = np.flatnonzero(hits >= 0.5)
    if not above.size or above[0] == 0:
        return np.nan  # outside of the grid
    i, logs = above[0], np.log(samples)
    return np.exp(np.interp(0.5, hits[i - 1 : i + 1], logs[i - 1 : i + 1]))


# %%
def contour(outcomes, way):
    shares = outcomes[..., list(WAYS).index(way)].mean(axis=-1)
    return np.array([[passes_half(column) for column in table.T] for table in shares])


# %%
def against_pooled(way):
    tables = [contour(outcomes, way) / contour(outcomes, "pooled GradMP") for outcomes in (by_sparsity, by_clients)]
    return np.concatenate(tables, axis=1)


# %%
for way, name in (("SharedSupportGradMP", "ours-contour"), ("4 tau sent", "ours-contour-4tau")):
    measured = against_pooled(way)
    measured = measured[~np.isnan(measured)]
    if not measured.size:
        print(f"{way}: no column crosses 50 % inside this grid, so nothing is claimed")
        continue
    middle = outwards(np.median(measured), 0.25)  # an interpolated contour moves where one seed of one cell does
    claim(name,
        f"{way}: the 50 % contour is within 10 % of that of pooled GradMP: ratio of samples, columns of the maps",
        f"median of {measured.size} columns from {middle}", measured <= 1.1,
        source="ours, SharedSupportGradMP and polish", expected="at most 1.1", keep=dict(ratios=measured))

# %% [markdown]
# A dash stands where one of the two does not cross 50 % inside the grid. The cut has a price where a client has few
# samples: its gradient is then mostly chance, and its $2\tau$ largest entries are a poor vote. More entries buy a part
# of the difference back.
#
# ## Five samples, claimed
#
# The example of the beginning over all seeds, without and with heterogeneity.

# %%
FIVE = ("FedGradMP", "SharedSupportGradMP", "4 tau sent", "pooled GradMP", "pooled OMP")


# %%
def five(alpha, seed):
    fed = fgmp.make_sparse_regression(**few, heterogeneity=alpha, rng=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of OMP, as above
        return [relative(WAYS[way](fed, few_sparsity), fed) <= recovered for way in FIVE]


# %%
def relative(x, fed):
    return np.linalg.norm(x - fed.truth) / np.linalg.norm(fed.truth)


# %%
outcome = each(five, list(product(heterogeneity, range(n_seeds))))
outcome = np.reshape(outcome, (len(heterogeneity), n_seeds, len(FIVE)))
print(f"recovered, of {n_seeds} seeds:" + "".join(f"{way:>21}" for way in FIVE))
for alpha, row in zip(heterogeneity, outcome.sum(axis=1), strict=True):
    print(f"{f'alpha = {alpha:g}':22}" + "".join(f"{hits:21}" for hits in row))

# %%
exact = outcome[:, :, FIVE.index("SharedSupportGradMP")]
counts = [f"{row.sum()} of {row.size} seeds" for row in exact]
claim("ours-five-samples",
    f"SharedSupportGradMP recovers exactly with {few_samples} samples at each of {few_clients} clients, alpha in "
    f"{heterogeneity}",
    f"{listed(counts)}", exact, source="ours, SharedSupportGradMP and polish", expected="every seed",
    keep={way: outcome[:, :, i].sum(axis=1) for i, way in enumerate(FIVE)})


# %% [markdown]
# With heterogeneity the columns of each client's matrix share a common part, and greedy selection suffers from it. The
# data do hold the signal: with all rows in one place OMP finds it on every seed of these. *Pooled GradMP*, which
# exchanges many atoms at a time, can go round in circles:

# %%
def circling(seed, longest=12):
    fed = fgmp.make_sparse_regression(**few, heterogeneity=heterogeneity[-1], rng=seed).pooled()
    error = fgmp.simulate(fgmp.FedGradMP(few_sparsity, local_iterations=1), fed, 60, rng=0).history["relative_error"]
    periods = [p for p in range(1, longest + 1) if np.allclose(error[-20:], error[-20 - p : -p], rtol=1e-6)]
    return error[-1] > recovered, bool(periods)


# %%
failed, repeats = np.array(each(circling, [(seed,) for seed in range(n_seeds)])).T
print(f"pooled GradMP, alpha = {heterogeneity[-1]:g}, 60 rounds: {failed.sum()} of {n_seeds} runs fail, ", end="")
print(f"{(failed & repeats).sum()} of these repeat themselves after at most 12 rounds")


# %% [markdown]
# ## Labels instead of numbers
#
# For the logistic loss the second exchange consists of a few aggregated Newton steps (`NewtonOnSupport`): clients send
# gradient and Hessian on $\hat\Gamma$. Ten samples of a client are always separable on 30 atoms, so FedGradMP needs the
# ball here, and `NewtonOnSupport` asks for a ridge or a ball where all data together are separable. How many of the ten
# atoms does each find, with 100 clients of 10 samples?

# %%
def labelled(seed, n=500):
    rng = np.random.default_rng(seed)
    x = np.zeros(n)
    x[rng.choice(n, 10, replace=False)] = rng.choice([-1.0, 1.0], 10)
    As = [rng.standard_normal((10, n)) for _ in range(100)]
    ys = [np.where(rng.random(10) < 1 / (1 + np.exp(-2 * A @ x)), 1, -1) for A in As]
    return fgmp.Federation.from_arrays(As, ys, fgmp.LogisticLoss(margin=2.0), truth=x)


# %%
def atoms_found(seed):
    fed = labelled(seed)
    theirs = fgmp.FedGradMP(10, radius=10, solver=fgmp.GradientDescent(steps=5))
    ours = shared(10, solver=fgmp.NewtonOnSupport(steps=3, ridge=1e-3))
    truth = np.flatnonzero(fed.truth)
    return [np.isin(fgmp.simulate(method, fed, 5, rng=0).support, truth).sum() for method in (theirs, ours)]


# %%
hits = np.array(each(atoms_found, [(seed,) for seed in range(n_seeds)])).T
for name, counts in zip(("FedGradMP", "SharedSupportGradMP"), hits, strict=True):
    print(f"{name:20} {np.median(counts):.3g} of 10 atoms ({counts.min()} to {counts.max()}, {n_seeds} seeds)")

# %% [markdown]
# ## With noise: the closing exchange
#
# Above the limit FedGradMP works, but with noise it keeps an error: the mean of local solutions is worse than the
# solution of all the data. `polish` repairs that for any method that has found the support. After the last round the
# clients send their normal equations on the final support, once.
#
# The data are those of Figure 3, with more and fewer samples. The floor is pooled least squares on the true
# support, which no method can know.

# %%
noisy = dict(n_clients=noisy_clients, n_features=noisy_features, sparsity=15)
noisy |= dict(heterogeneity=0.2, variance_decay=0.2, noise_variance=0.005)


# %%
def pooled_floor(fed):
    support, client = np.flatnonzero(fed.truth), fed.pooled().clients[0]
    x = np.zeros(fed.n_features)
    x[support] = np.linalg.lstsq(client.features[:, support], client.targets, rcond=None)[0]
    return relative(x, fed)


# %%
def with_noise(m, seed):
    fed = fgmp.make_sparse_regression(n_samples=m, **noisy, rng=seed)
    result = fgmp.simulate(fgmp.FedGradMP(15, batch_size=min(50, m)), fed, 8, rng=0)
    together = fgmp.simulate(shared(15), fed, 8, rng=0)
    ends = [result.x, fgmp.polish(result, fed).x, together.x]
    return [relative(x, fed) for x in ends] + [pooled_floor(fed), set(result.support) == set(np.flatnonzero(fed.truth))]


# %%
rows = [3, 5, 10, 25, 50, 100]
jobs = list(product(rows, range(n_seeds)))
errors = np.reshape(each(with_noise, jobs), (len(rows), n_seeds, 5))
total = noisy_clients * np.array(rows)

# %%
fig, ax = panels(width=6.4, height=4)
polished = METHODS["FedGradMP"] | {"linestyle": "--", "marker": "^", "color": FOREST}
curve(ax, total, errors[:, :, 0].T, "FedGradMP", **METHODS["FedGradMP"])
curve(ax, total, errors[:, :, 1].T, "FedGradMP,\npolished", **polished)
curve(ax, total, errors[:, :, 2].T, "SharedSupportGradMP", **METHODS["SharedSupportGradMP"])
ax.plot(total, np.median(errors[:, :, 3], axis=1), color="0.35", linestyle=":", label="pooled least squares")
ax.set(xscale="log", yscale="log", xlabel=f"samples of all {noisy_clients} clients together", ylabel="relative error")
ax.minorticks_off()
ax.set_xticks(total, total)
name_lines(ax)

# %% [markdown]
# *Median and range over the seeds.* `SharedSupportGradMP` solves with all data in every round. It ends a little above
# the floor, because it solves on $3\tau$ atoms and cuts the solution to $\tau$. The polished FedGradMP reaches the
# floor where FedGradMP finds the support.

# %%
ratio = errors[-1, :, 1] / errors[-1, :, 3]
claim("ours-polish",
    "one closing exchange takes FedGradMP to the pooled floor: error over that of pooled least squares, 100 samples",
    ratio, ratio <= 1.05, source="ours, SharedSupportGradMP and polish", expected="at most 1.05",
    keep=dict(before=errors[-1, :, 0] / errors[-1, :, 3]))

# %%
right = errors[-1, :, 4] == 1
print(f"before the closing exchange: {np.median(errors[-1, :, 0] / errors[-1, :, 3]):.2g} times the floor (median)")
print(f"FedGradMP has the true support on {right.sum()} of {n_seeds} seeds; there the ratio is at most ", end="")
print(f"{ratio[right].max(initial=0):.3f}")

# %% [markdown]
# Where the support lacks a small entry of the signal, a closing exchange cannot bring it back.
#
# Polishing serves the rivals too, so that a comparison of supports is fair. Here with the learning rates that
# [03_comparison_linear](03_comparison_linear.ipynb) finds best for these data. (It does not tune FedHT and
# FastFedDualAvg, which have those of FedAvg and FedDualAvg.) FedAvg, FedMid and FastFedDualAvg have models with
# hundreds of nonzeros and are not polished: their normal equations would be longer than all that was sent before.

# %%
local = dict(local_iterations=3, batch_size=50)
RIVALS = {
    "FedIterHT": fgmp.FedIterHT(learning_rate=0.05, sparsity=15, **local),
    "FedHT": fgmp.FedHT(learning_rate=0.001, sparsity=15, **local),
    "FedDualAvg": fgmp.FedDualAvg(learning_rate=0.001, l1_weight=0.5**5, **local),
    "FastFedDualAvg": fgmp.FastFedDualAvg(learning_rate=0.001, l1_weight=0.5**5, **local),
    "FedMid": fgmp.FedMid(learning_rate=0.001, l1_weight=0.5**5, **local),
    "FedAvg": fgmp.FedAvg(learning_rate=0.001, **local),
}
DENSE = ("FastFedDualAvg", "FedMid", "FedAvg")
OURS = {"FedGradMP": fgmp.FedGradMP(15, **local), "SharedSupportGradMP": shared(15)}


# %%
def raced(name, seed):
    fed = fgmp.make_sparse_regression(n_samples=100, **noisy, rng=seed)
    method, T = (OURS | RIVALS)[name], 8 if name in OURS else 40
    result = fgmp.simulate(method, fed, T, rng=0)
    history = (fgmp.polish(result, fed) if name not in DENSE else result).history
    return (history["bytes_up"] + history["bytes_down"]) / 1e6, history["relative_error"], pooled_floor(fed)


# %%
jobs = list(product(OURS | RIVALS, range(5)))
races = dict(zip(jobs, each(raced, jobs), strict=True))
lines = {name: np.array([races[name, seed][:2] for seed in range(5)]) for name in OURS | RIVALS}

# %%
fig, ax = panels(width=6.8, height=4.4)
for name, runs in lines.items():
    (megabytes, error), style = np.median(runs, axis=0), METHODS[name]
    T = 8 if name in OURS else 40
    curve(ax, megabytes[1 : T + 1], runs[:, 1, 1 : T + 1], name, markevery=6, **style)
    ax.plot(megabytes[T:], error[T:], color=style["color"], linestyle=":", linewidth=1)
    if len(error) > T + 1:
        ax.plot(megabytes[-1], error[-1], color=style["color"], marker=style["marker"], mfc="white", markersize=9)
floor(ax, np.median([races[job][2] for job in races]), "pooled least squares")
ax.set(xscale="log", yscale="log", xlabel="megabytes on the wire, all clients together", ylabel="relative error")
legend = ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))

# %% [markdown]
# *Median and range over five seeds. The white symbol at the end of a dotted line is the same run after `polish`.*
#
# In bytes FedGradMP is ahead until it stops improving: its messages are the shortest. The normal equations of
# `SharedSupportGradMP` are longer, and they buy the last factor. A FedGradMP that ends with one closing exchange has
# both.

# %%
reach = {}
for name in OURS:
    megabytes, error = np.median(lines[name], axis=0)
    for part, stop in (("", -1), (", polished", None)):
        reach[name + part] = error[:stop][-1], megabytes[:stop][-1]

# %%
for name, (error, size) in reach.items():
    print(f"{name:30} relative error {error:.2g} after {size:.2g} MB")


# %% [markdown]
# **Are the bytes counted right?** Count by hand, with 4 bytes for an index or a whole number and 8 for any other, and
# compare with the books of a run. In the first round the model is zero, so the number of the round is broadcast alone
# at first, and $\hat\Gamma$ has $2\tau$ entries; the second message carries them with the server's values, and a whole
# number that says whether it is the last of several steps.

# %%
def counted(tau, N):
    merged = 2 * tau
    gram_and_right = 8 * merged * (merged + 1) // 2 + 8 * merged
    return N * (4 + 12 * merged + 4), N * (12 * 2 * tau + gram_and_right)


# %%
def booked(seed, tau=15):
    fed = fgmp.make_sparse_regression(n_samples=20, **noisy, rng=seed)
    history = fgmp.simulate(shared(tau), fed, 1, rng=0).history
    return history["bytes_down"][-1], history["bytes_up"][-1]


# %%
booked_bytes = np.array([booked(seed) for seed in range(n_seeds)])
down, up = counted(15, noisy_clients)
claim("ours-bytes",
    f"bytes of the first round as counted by hand: {down / 1e3:.3g} kB down and {up / 1e3:.3g} kB up for "
    f"{noisy_clients} clients",
    booked_bytes.sum(axis=1) / 1e3, (booked_bytes == (down, up)).all(axis=1),
    source="ours, SharedSupportGradMP and polish", expected=f"{(down + up) / 1e3:.3g}", unit="kB")

# %% [markdown]
# For large $\tau$ a Gram matrix is too long to send. `GradientsOnSupport` then sends vectors only, in more
# exchanges. Its price grows with $\tau$, not with $\tau^2$:

# %%
large = fgmp.make_sparse_regression(20, 100, 1000, 400, heterogeneity=0.5, variance_decay=0.2, rng=0)
print(f"{'tau = 400':23} {'objective':>10} {'MB in 3 rounds':>15}")
for solver in (fgmp.NewtonOnSupport(), GradientsOnSupport(steps=10)):
    run = fgmp.simulate(shared(400, solver=solver), large, 3, rng=0).history
    megabytes = (run["bytes_up"][-1] + run["bytes_down"][-1]) / 1e6
    print(f"{type(solver).__name__:23} {run['objective'][-1] / run['objective'][0]:10.2g} {megabytes:15.3g}")

# %% [markdown]
# *The objective is relative to the one at zero.*
#
# ## Digits
#
# The clients of [09_digits_by_writer](09_digits_by_writer.ipynb), dealt in the same way, softmax loss: by default
# scikit-learn's digits with made-up clients, and real writers [in the folder of
# results](results/15_phase_transition-mnist-writers.ipynb). The second exchange is here a set of local SGD steps on the
# shared support, which the server averages (`LocalSteps`): as many as the other methods take. All learning rates come
# from the same search, on data not shown afterwards.

# %%
paper = dataset != "digits"
skew = 0.3  # concentration of the labels of a client, as in notebook 09; real writers ignore it
cohort, batch, K = (10, 50, 20) if paper else (5, 20, 10)


# %%
def classifier(name, tau, learning_rate):
    step = dict(learning_rate=learning_rate, batch_size=batch)
    if name == "SharedSupportGradMP":
        solver = LocalSteps(fgmp.SGD(steps=2 * K, **step))
        return shared(tau, solver=solver, radius=1e5)
    if name == "FedGradMP":
        solver = fgmp.SGD(steps=2, **step)
        return fgmp.FedGradMP(tau, local_iterations=K, batch_size=batch, solver=solver, radius=1e5)
    own = {"FedAvg": {}, "FedIterHT": {"sparsity": tau}}.get(name, {"l1_weight": 1e-4})
    return getattr(fgmp, name)(local_iterations=2 * K, **step, **own)


# %%
def fitted(name, tau):
    train = fgmp.digits_by_writer(dataset, concentration=skew, rng=1000).train
    wrong = {"wrong": lambda x: 1 - fgmp.metrics.accuracy(train, x)}
    half = digits_rounds // 2
    options = dict(cohort_size=cohort, column="wrong", history=fgmp.History(half, wrong))
    tuning = fgmp.tune(partial(classifier, name, tau), {"learning_rate": digits_rates}, train, half, **options)
    return tuning.best.parameters["learning_rate"]


# %%
def classified(name, tau, rate, seed):
    split = fgmp.digits_by_writer(dataset, concentration=skew, rng=seed)
    unseen = {"unseen": fgmp.accuracy_on(split.test)}
    options = dict(cohort_size=cohort, rng=seed, history=fgmp.History(max(1, digits_rounds // 40), unseen))
    result = fgmp.simulate(classifier(name, tau, rate), split.train, digits_rounds, **options)
    return result.history, len(result.support)


# %%
sparse = ("SharedSupportGradMP", "FedGradMP", "FedIterHT")
who = [*product(sparse, digits_sparsity), *((name, None) for name in ("FedAvg", "FedMid", "FedDualAvg"))]
rates = dict(zip(who, each(fitted, who), strict=True))
jobs = [(*one, rates[one], seed) for one in who for seed in range(5)]
runs = np.reshape(np.array(each(classified, jobs), object), (len(who), 5, 2))


# %%
def last(run):
    accuracy = run[0]["unseen"]
    return accuracy[-max(1, len(accuracy) // 4) :].mean()


# %%
ends = {one: np.array([last(run) for run in row]) for one, row in zip(who, runs, strict=True)}
size = {one: np.median([run[1] for run in row]) for one, row in zip(who, runs, strict=True)}
traffic = {one: row[0, 0]["bytes_up"][-1] + row[0, 0]["bytes_down"][-1] for one, row in zip(who, runs, strict=True)}

# %%
fig, (left, right) = panels(2, width=4.6, height=3.8, sharey=True)
for name in dict.fromkeys(one[0] for one in who):
    points = sorted([one for one in who if one[0] == name], key=size.get)
    middle = [np.median(ends[one]) for one in points]
    spread = np.abs([[ends[one].min() - m, ends[one].max() - m] for one, m in zip(points, middle, strict=True)]).T
    left.errorbar([size[one] for one in points], middle, spread, label=name, **METHODS[name])
    right.errorbar([traffic[one] / 1e6 for one in points], middle, spread, **METHODS[name])
    for ax, places in ((left, size), (right, {one: traffic[one] / 1e6 for one in points})):
        for one, height in zip(points, middle, strict=True):
            said = "" if one[1] is None or name == "FedIterHT" else str(one[1])
            ax.annotate(said, (places[one], height), (-5, 3), textcoords="offset points", ha="right", fontsize=8)
left.set(xlabel="nonzero weights", ylabel="accuracy on unseen clients")
right.set(xlabel="megabytes on the wire")
legend = fig.legend(*left.get_legend_handles_labels(), loc="outside right center")

# %% [markdown]
# *Median and range over five seeds; each point is one sparsity, the number at it is $\tau$. Accuracy is the mean over
# the last quarter of a run.*

# %%
print(f"{'tau':>4}" + "".join(f"{name:>21}" for name in sparse))
for tau in digits_sparsity:
    middle = [outwards(np.median(ends[name, tau]), 0.01 if paper else 0.1) for name in sparse]
    print(f"{tau:4}" + "".join(f"{words:>21}" for words in middle))

# %% [markdown]
# Pixels of `digits` tie, and how a processor rounds decides between them: hence the tenths below and above.
#
# The claim is about *paired* differences: for each seed both methods have the same clients, cohorts and minibatches.
# (The median of differences need not be the difference of the medians above.)

# %%
gains = {tau: ends[sparse[0], tau] - ends["FedGradMP", tau] for tau in digits_sparsity}
level = 0.01 if paper else 0.02  # accuracy on 400 images jumps by more than 0.01
found = {f"tau = {tau}, either way:": np.abs(gain).round(4) for tau, gain in gains.items()}
everyone = {f"{name} {tau}": ends[name, tau] for name, tau in who}
claim("ours-digits",
    f"{dataset}, {digits_rounds} rounds: accuracy on unseen clients, SharedSupportGradMP minus FedGradMP (paired)",
    found, [np.median(gain) > level for gain in gains.values()], source="ours, SharedSupportGradMP and polish",
    expected=f"above {level}", within=level if paper else 0.1, keep=everyone)


# %% [markdown]
# ## What breaks it
#
# Three ways to fail, on the data of the first section with 5 samples a client.
#
# **A cohort that is too small to carry the support.** With $L$ clients in a round there are $5L$ samples for up to 30
# unknowns. And **gradients that are cut too hard**: a client sends `count` entries of its gradient, $2\tau=20$
# unless it is given.

# %%
def limited(cohort_size, count, seed):
    fed = fgmp.make_sparse_regression(**few, heterogeneity=1.0, rng=seed)
    named = fgmp.LargestEntries(count or 2 * few_sparsity)
    method = fgmp.SharedSupportGradMP(few_sparsity, named, pruning="largest")
    run = fgmp.simulate(method, fed, 3 * rounds, cohort_size, rng=0, watch=fgmp.stop_at(recovered))
    return run.history["relative_error"][-1] <= recovered


# %%
cohorts = [L for L in (5, 10, 15, 20, 30) if L < few_clients] + [few_clients]
cuts = [sent for sent in (1, 2, 4, 10, 20, 40) if sent < few_features] + [few_features]
cells = [(L, None) for L in cohorts] + [(few_clients, cut) for cut in cuts]
jobs = [(*cell, seed) for cell in cells for seed in range(n_seeds)]
hits = np.reshape(each(limited, jobs), (-1, n_seeds)).mean(axis=1)


# %% [markdown]
# **A feature that only one client sees.** In the next data, with much noise and 20 samples a client, the largest of the
# ten true entries belongs to a feature that is zero in the rows of all clients but a few. In the sum of gradients its
# entry has the weight of these few, and the noise of all others stands against it. How often does the model contain it?

# %%
def hidden(seeing, seed):
    fed = fgmp.make_sparse_regression(**(few | {"n_samples": 20}), heterogeneity=0.0, noise_variance=0.2, rng=seed)
    rare = np.abs(fed.truth).argmax()
    As, ys = [client.features.copy() for client in fed.clients], [client.targets for client in fed.clients]
    for A, y in zip(As[seeing:], ys[seeing:], strict=True):
        y -= fed.truth[rare] * A[:, rare]  # as if the feature were zero there
        A[:, rare] = 0
    blind = fgmp.Federation.from_arrays(As, ys)
    return rare in fgmp.simulate(shared(few_sparsity), blind, rounds, rng=0).support


# %%
seen = [count for count in (1, 2, 5, 10, 25) if count < few_clients] + [few_clients]
jobs = list(product(seen, range(n_seeds)))
kept = np.reshape(each(hidden, jobs), (len(seen), n_seeds)).mean(axis=1)

# %%
fig, axes = panels(3, width=3.1, height=3, sharey=True)
style = METHODS["SharedSupportGradMP"]
axes[0].plot(cohorts, hits[: len(cohorts)], **style)
axes[1].plot(cuts, hits[len(cohorts) :], **style)
axes[2].plot(seen, kept, **style)
axes[0].set(xlabel="clients in a round", ylabel="recovered exactly", title="small cohorts", ylim=(-0.05, 1.05))
axes[1].set(xlabel="entries sent", xscale="log", title="gradients cut")
axes[2].set(xlabel="clients that see a feature", xscale="log", title="a rare feature", ylabel="found")
plt.show()

# %%
for words, values, shares in (
    ("clients in a round", cohorts, hits),
    ("entries sent", cuts, hits[len(cohorts) :]),
    ("clients that see the feature", seen, kept),
):
    print(f"{words:29}" + "".join(f"{value:6}" for value in values))
    print(f"{'share of seeds':29}" + "".join(f"{share:6.2g}" for share in shares[: len(values)]))


# %% [markdown]
# Few clients in a round carry too few samples. That full participation is not the best here may surprise. With
# everybody in every round nothing is random, so a run can go round in circles for ever; another cohort breaks the
# circle.

# %%
def circles(seed, longest=12):
    fed = fgmp.make_sparse_regression(**few, heterogeneity=1.0, rng=seed)
    error = fgmp.simulate(shared(few_sparsity), fed, 60, rng=0).history["relative_error"]
    periods = [p for p in range(1, longest + 1) if np.allclose(error[-20:], error[-20 - p : -p], rtol=1e-6)]
    return error[-1] > recovered, bool(periods)


# %%
failed, repeats = np.array(each(circles, [(seed,) for seed in range(n_seeds)])).T
print(f"all {few_clients} clients, 60 rounds: {failed.sum()} of {n_seeds} runs fail, ", end="")
print(f"{(failed & repeats).sum()} of these repeat themselves after at most 12 rounds")

# %% [markdown]
# More entries help as well. A rare feature is lost only where the noise is strong: the client that sees it votes for
# it.
#
# ## What this adds up to
#
# - With a shared support, the samples that count are those of all clients together, not those of each. The price is a
#   second exchange whose messages grow with $\tau^2$, or more exchanges with messages that grow with $\tau$.
# - Where clients hold enough samples, FedGradMP is the cheaper method in bytes. With a closing exchange it also ends at
#   the pooled floor, if it has found the support.
# - The cut to $2\tau$ entries is not covered by the proposition. It costs samples, and longer lists buy some back.
# - The server needs sums only, and these reveal second moments of the chosen features.
#
# ## Relatives
#
# Greedy pursuit with several sensors is not new. Distributed orthogonal matching pursuit adds one atom at a time from
# shared correlations; distributed parallel pursuit lets neighbours vote on a common support; distributed hard
# thresholding pursuit exchanges estimates. What differs here: gradients are cut to their largest entries before they
# are added, the whole support is refined in every round, the same two exchanges serve cohorts, balls, dictionaries and
# three losses, and `polish` takes any method's result. No more novelty is claimed.
#
# ## The answer
#
# With 5 samples at each of 50 clients SharedSupportGradMP is exact on 20 of 20 seeds where the clients are alike, and
# on 13 of 20 where they differ; FedGradMP on none. It needs 1.5 to 1.75 times the samples of pooled GradMP for half
# of the runs, and so misses the goal of 10 %; with 4 tau entries sent it is 1.25 to 1.5. With noise one closing
# exchange takes FedGradMP to the pooled floor where it has found the support, on 9 of 20 seeds; the median is 1.08
# times the floor, the worst 3.88 times. The price is bytes: 3.6
# MB where FedGradMP takes 0.14 MB; and on digits it is not ahead.
#
# ## References
#
# - H. Jeong, D. Needell, J. Qin, *Federated Gradient Matching Pursuit*, IEEE Transactions on Information Theory 70(6),
#   4512-4537, 2024. [arXiv 2302.10755](https://arxiv.org/abs/2302.10755)
# - N. Nguyen, D. Needell, T. Woolf, *Linear convergence of stochastic iterative greedy algorithms with sparse
#   constraints*, IEEE Transactions on Information Theory 63(11), 6869-6895, 2017 (GradMP).
# - T. Wimalajeewa, P. Varshney, *Cooperative sparsity pattern recovery in distributed networks via distributed-OMP*,
#   2012. [arXiv 1211.6719](https://arxiv.org/abs/1211.6719)
# - D. Sundman, S. Chatterjee, M. Skoglund, *Distributed greedy pursuit algorithms*, Signal Processing 105, 2014.
# - *Estimate exchange over network is good for distributed hard thresholding pursuit*, 2017.
#   [arXiv 1709.07731](https://arxiv.org/abs/1709.07731)
