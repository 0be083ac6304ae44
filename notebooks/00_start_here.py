# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Start here: one sparse model from many clients with few measurements each
#
# **Question.** Thirty clients hold twenty measurements each. For nearly all of them that is too few. Can they find a
# common sparse signal together, without showing their measurements to anyone?
#
# ![Relative error against rounds: alone near 1, together exact after four rounds](pictures/00_start_here.png)
#
# Alone, a client with 20 rows stays where it began. Together, thirty such clients find the signal exactly within a
# few rounds, and no row of data leaves any of them.
#
# **What you will see**
# - the problem in pictures: few rows per client, one sparse signal, and clients that differ from one another;
# - how often a client finds the signal alone, and how often the thirty find it together;
# - what a client's gradient shows it, why some clients are blind, and the line that cures them;
# - one round of the algorithm, Federated Gradient Matching Pursuit (FedGradMP), traced by hand on a toy of 3 clients
#   and 8 features, and compared with the library.
#
# **What you need.** Least squares, and Python with NumPy.
#
# **Where it stands in the paper.** The problem is that of Section II, the algorithm is Algorithm 1 of Section III.

# %% tags=["parameters"]
n_clients = 30  # N, clients of the federation
n_samples = 20  # |D_i|, rows of each client
n_features = 200  # n, dimension of the signal
sparsity = 5  # tau, nonzero entries of the signal
alpha = 1.0  # heterogeneity, the variance of the clients' means
variance_decay = 1.1  # p: the entries of client i have variance 1/i^p
local_iterations = 3  # K, iterations of a client in one round
rounds = 10  # T, rounds of communication
exact = 1.0e-14  # relative error that counts as exact
samples = [1, 2, 4, 8, 14, 15, 16, 20, 40]  # rows of a client in "What it buys"
noise_variance = 1.0e-4  # variance of the noise there, on the left
n_seeds = 10  # seeds: repetitions with new data
picture_seed = 2  # seed of the federation in the pictures

# %%
from book import check_types

check_types(globals(), {
    int: "n_clients n_samples n_features sparsity local_iterations rounds n_seeds picture_seed",
    float: "alpha variance_decay exact noise_variance",
    list[int]: "samples",
})
assert min(n_clients, n_samples, rounds) >= 1, f"{n_clients=}, {n_samples=}, {rounds=}: expected each at least 1"
assert min(local_iterations, n_seeds) >= 1, f"{local_iterations=}, {n_seeds=}: expected each at least 1"
assert 1 <= sparsity <= n_features, f"{sparsity=}: expected 1 to {n_features=}"
assert 0 < exact <= 0.1 and noise_variance > 0, f"{exact=}, {noise_variance=}: expected above 0, exact at most 0.1"
assert alpha >= 0, f"{alpha=}: expected at least 0"
assert picture_seed >= 0, f"{picture_seed=}: expected at least 0"
assert 1 <= samples[0] < samples[-1] and samples == sorted(set(samples)), f"{samples=}: expected increasing"

# %%
import numpy as np

import fgmp
from book import METHODS, claim, curve, floor, images, name_lines, panels, pooled_error
from fgmp.sparse_model import SparseModel
from fgmp.theory import restricted_constants


# %% [markdown]
# ## The problem
#
# There is one signal $x^\#$ with $n$ entries. Only $\tau$ of them are not zero. Client $i$ knows a matrix $A_i$ with a
# few rows, and one number for each row: $y_i = A_i x^\#$. It would like to know $x^\#$. It has fewer rows than
# unknowns, so infinitely many vectors fit its data.
#
# `make_sparse_regression` draws such a problem the way the paper does.

# %%
def draw(seed, n_samples=n_samples, **noise):
    spread = dict(heterogeneity=alpha, variance_decay=variance_decay, **noise)
    return fgmp.make_sparse_regression(n_clients, n_samples, n_features, sparsity, **spread, rng=seed)


fed = draw(picture_seed)
true = np.flatnonzero(fed.truth)
shown = np.unique(np.rint(np.geomspace(1, n_clients, 4)).astype(int))  # client numbers, as in the paper from 1 to N
matrices, colour = [fed.clients[i - 1].features for i in shown], METHODS["FedGradMP"]["color"]

# %%
titles = [f"client {i}: mean {A.mean():.2f}, variance {A.var():.2f}" for i, A in zip(shown, matrices, strict=True)]
_ = images(matrices, titles, columns=1, width=8, vmin=-3, vmax=3)

# %% [markdown]
# *The matrices of four clients, one row of pixels for each measurement. Black is $-3$ or less, white is 3 or more.*
#
# Every matrix is wide and low: 20 equations for 200 unknowns. And the matrices differ. That is the **heterogeneity** of
# the clients. The entries of $A_i$ are normal with mean $\mu_i$ and variance $1/i^{1.1}$. The mean sets how dark a
# matrix is, and a small variance makes it look flat. The means are drawn from $N(0, \alpha)$: the larger $\alpha$, the
# more the clients differ.
#
# Why not send all rows to one place? Together there would be 600 of them, more than enough. But rows may be medical
# records, or too many to send. In **federated learning** they stay where they are. A server and the clients exchange
# models only.
#
# Write $f_i(x) = \frac{1}{2 |D_i|} \|A_i x - y_i\|_2^2$ for the misfit of client $i$, with $|D_i|$ rows. The problem is
#
# $$\min_x \; \sum_{i=1}^N p_i f_i(x) \quad \text{where } x \text{ has at most } \tau \text{ nonzero entries},$$
#
# with weights $p_i$ that sum to one. Here they are equal.
#
# ## One federated recovery
#
# In a round of FedGradMP the server sends its sparse model to all clients. Each client improves it on its own rows and
# sends it back. The server averages the answers and keeps the $\tau$ largest entries. That is the whole algorithm:

# %%
method = fgmp.FedGradMP(sparsity=sparsity, local_iterations=local_iterations)
result = fgmp.simulate(method, fed, rounds=rounds, rng=0)
errors = result.history["relative_error"]
end = [f"below {exact:g}"] if errors[-1] <= exact else []
print("relative errors:", ", ".join([f"{error:.3g}" for error in errors[errors > exact]] + end))

# %% [markdown]
# The relative error is $\|x_t - x^\#\|_2 / \|x^\#\|_2$. It starts at 1, since $x_0 = 0$. After a few rounds nothing but
# rounding is left. And this is what travelled, compared with the rows that stayed at home:

# %%
sent, kept = result.history["bytes_up"][1] / n_clients, 8 * n_samples * (n_features + 1)
print(f"a client sends {sent:.0f} bytes in a round; its rows and observations fill {kept / 1000:.3g} kB")

# %% [markdown]
# ## Why together
#
# The same method on a federation of one client is that client alone. With so few rows it settles on features that are
# mostly wrong. But other clients have other rows, and err in other places. So
# let them vote: in each of the first three rounds of the federation, count the features of the answers that the server
# receives.

# %%
models = [np.zeros(n_features), *(fgmp.simulate(method, fed, rounds=t, rng=0).x for t in (1, 2))]
fig, axes = panels(3, width=3.2, height=2.6, sharey=True)
for number, (ax, x) in enumerate(zip(axes, map(SparseModel.of, models), strict=True), start=1):
    answers = [method.client_update(client, x, np.random.default_rng(0)).support for client in fed.clients]
    votes = np.bincount(np.concatenate(answers), minlength=n_features)
    ax.vlines(range(n_features), 0, votes, color="0.6")
    ax.vlines(true, 0, votes[true], color=colour, linewidth=3)
    ax.set(title=f"round {number}", xlabel="feature", ylim=(0, n_clients))
_ = axes[0].set(ylabel="clients that choose it")


# %% [markdown]
# *How many of the clients choose each feature, with all their rows. Coloured: the features of the signal.*
#
# In round 1 wrong choices are many, but they scatter, so none gets more than a few votes, while the large entries of
# the signal collect votes from many clients. The average keeps what many agree on. In round 2 every client starts from
# that, so it has to look for the small entries only. In round 3 all thirty agree.

# %% [markdown]
# One federation may be luck. So repeat it with new data, and beside it let each of the thirty clients try alone.

# %%
def alone(client, truth):
    single = fgmp.Federation.from_clients([client], truth=truth)
    return fgmp.simulate(method, single, rounds=rounds, rng=0).history["relative_error"]


together, separate = [], []
for seed in range(n_seeds):
    fed = draw(seed)
    together.append(fgmp.simulate(method, fed, rounds=rounds, rng=seed).history["relative_error"])
    separate.append([alone(client, fed.truth) for client in fed.clients])

# %% tags=["headline"]
fig, ax = panels(width=6, height=3.4)
curve(ax, range(rounds + 1), np.concatenate(separate), "each client alone", band=(25, 75), color="0.4", marker="s")
curve(ax, range(rounds + 1), together, "together, FedGradMP", band=(25, 75), **METHODS["FedGradMP"])
floor(ax, exact, "counts as exact")
ax.set(yscale="log", ylim=(1e-17, 30), xlabel="round", ylabel="relative error")
name_lines(ax)

# %% [markdown]
# *Lines are medians, bands run from the lower to the upper quartile: over the seeds for the federation, over all
# clients of all seeds for the clients alone.*

# %%
generous, end = exact**0.5, np.array(together)[:, -1]
succeed = (np.array(separate)[..., -1] <= generous).sum(axis=1)
sizes = f"{n_clients} clients with {n_samples} rows each, {sparsity} of {n_features} entries nonzero: "
claim("start-together", f"{sizes}together they reach relative error <= {exact:g} within {rounds} rounds on every seed",
    end, end <= exact, source="ours, first steps", expected=f"at most {exact:g}", floor=exact)
claim("start-alone", f"{sizes}alone, at most one client in three reaches {generous:.3g} with the same algorithm",
    succeed, succeed <= n_clients // 3, source="ours, first steps", expected=f"at most {n_clients // 3}",
    unit=f"of {n_clients} clients")


# %% [markdown]
# ## What a gradient sees
#
# How does a client choose features at all? By its gradient, and the idea of the whole algorithm is in this step. Let $e
# = x^\# - x$ be what is missing from the model $x$. A client cannot see $e$. It sees its residuals $y_i - A_i x = A_i
# e$, and if it sends them back through its own matrix, it gets its negative gradient $\frac1m A_i^\top A_i e$, where
# $m$ is its number of rows. If the columns of $A_i$ point in nearly orthogonal directions and have equal lengths, then
# $\frac1m A_i^\top A_i$ is nearly a multiple of the identity. So the negative gradient is nearly a multiple of $e$:
# **its large entries are what is missing.** To match the gradient is to look where the model lacks most.
#
# But the columns of a client whose entries have a large mean all point in nearly one direction. Its residuals depend on
# the *sum* of what is missing, far more than on where it is missing, and the gradient says "more of everything" or
# "less of everything". Here is what real clients see at the start, where nothing is known and $e = x^\#$. In the middle
# is the client of the four pictures whose mean is nearest to zero. On the left is the same client with twenty times the
# rows, and on the right the client whose mean is largest.

# %%
def largest(v, count):
    return np.sort(np.argsort(-np.abs(v), kind="stable")[:count])


fed, zero = draw(picture_seed), SparseModel.zero((n_features,))
small, *_, large = sorted([i - 1 for i in shown] * 2, key=lambda i: abs(fed.clients[i].features.mean()))
clients = [draw(picture_seed, 20 * n_samples).clients[small], fed.clients[small], fed.clients[large]]

# %%
fig, axes = panels(3, width=3.6, height=3)
for ax, client in zip(axes, clients, strict=True):
    A, scaled = client.features, -client.gradient(zero) / client.features.var()
    taken = largest(scaled, 2 * sparsity)
    ax.vlines(true, 0, fed.truth[true], color="0.7", linewidth=7, label=r"missing, $x^\# - x$")
    ax.vlines(range(n_features), 0, scaled, color=colour, linewidth=1, label="negative gradient / variance")
    ax.plot(taken, scaled[taken], "k.", label=f"the {2 * sparsity} largest: the client takes them")
    ax.set(title=f"mean {A.mean():.2f}, {len(A)} rows", xlabel="feature", ylabel="value")
_ = fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


# %% [markdown]
# *What is missing, and what the gradient shows, at two clients.*
#
# On the left the gradient is what is missing, beside some noise. In the middle the same is hidden in more noise,
# because 20 rows leave the columns far from orthogonal: the two largest entries are among the ten that the client
# takes, and the small ones wait until these are fitted. On the right all bars go down together, since the entries of
# this signal have a negative sum, and the largest entry of the signal, which is positive, gives one of the *shortest*
# bars. With $A = \mu\,1 1^\top + \sigma G$, where the entries of $G$ have mean zero and variance 1,
#
# $$\tfrac1m A^\top A e \;\approx\; \sigma^2 e \;+\; \mu^2 (1^\top e)\,1 \;+\; \mu\sigma\,(1^\top e)\,\tfrac1m G^\top 1
# \;+\; \mu\sigma\,(\tfrac1m 1^\top G e)\,1.$$
#
# The first term is what the client is after. The second and the last lift all entries alike. The third is noise that
# differs from feature to feature. All but the first carry the mean, and those with $1^\top e$ vanish once the model has
# the right *sum*, whichever features hold it. Until then the client is blind, and the more so the larger $\mu^2$ is
# beside $\sigma^2$. Does that order the real clients?

# %%
def by_mean(fed):
    """The numbers of the clients, ordered by mean^2 / variance."""
    blindness = [client.features.mean() ** 2 / client.features.var() for client in fed.clients]
    return np.argsort(blindness, kind="stable")


def sight(fed, order):
    """True features among those that a client takes first, in fifths of the clients."""
    taken = [largest(fed.clients[i].gradient(zero), 2 * sparsity) for i in order]
    seen = [np.isin(features, np.flatnonzero(fed.truth)).sum() for features in taken]
    return [part.mean() for part in np.array_split(seen, min(5, n_clients))]


# %%
seen = np.array([sight(fed, by_mean(fed)) for fed in map(draw, range(n_seeds))])
chance, (best_sighted, *_, blindest) = 2 * sparsity**2 / n_features, np.median(seen, axis=0)
print(f"of {2 * sparsity} features taken, {best_sighted:.2g} are true where means are smallest, "
      f"{blindest:.2g} where they are largest, {chance:.2g} by chance (medians)")


# %% [markdown]
# The fifth of the clients with the smallest means finds the most, the fifth with the largest little more than chance.
# Even the best find few of the five at first; but few more than chance are enough, because the wrong ones scatter. This
# is what $\alpha$ does: it makes clients blind, and a blind client is slow. It is not lost, though. It gets the
# features that others have seen with the server's model, merges them with its own, and fits them by least squares,
# which needs no gradient. From then on its rows count like all others. The price is a few rounds more, as
# [01_linear_convergence](01_linear_convergence.ipynb) measures.
#
# ### One line against blindness
#
# The mean of a client is a property of its columns, and the client knows it. If it subtracts from every column its
# mean, and from its observations theirs, the model fits as before, $y_i - \bar y_i = (A_i - \bar A_i) x^\#$, and the
# terms with $\mu$ are gone. (In regression this is an intercept for each site,
# [17_your_own_data](17_your_own_data.ipynb).) It costs one row, since the rows of the result sum to zero. Here is what
# the clients then see, and how many rounds it takes, with one local iteration, until the error is that of rounding.

# %%
def centred(fed):
    """The same clients, each with the means of its columns and of its observations subtracted."""
    As = [client.features - client.features.mean(axis=0) for client in fed.clients]
    ys = [client.targets - client.targets.mean() for client in fed.clients]
    return fgmp.Federation.from_arrays(As, ys, truth=fed.truth)


# %%
mended = np.array([sight(centred(fed), by_mean(fed)) for fed in map(draw, range(n_seeds))])
fig, ax = panels(width=6, height=2.8)
fifths = range(1, 1 + len(seen[0]))
curve(ax, fifths, mended, "column means\nsubtracted", band=(25, 75), color="#0072B2", marker="s")
curve(ax, fifths, seen, "as they are", band=(25, 75), **METHODS["FedGradMP"])
floor(ax, chance, "by chance", inside="left")
ax.set(xlabel="fifths of the clients, ordered by mean$^2$ / variance", ylabel=f"true features found, of {sparsity}")
ax.set(xticks=fifths, ylim=(0, None))
name_lines(ax)


# %% [markdown]
# *Means over the clients of a fifth; median and quartiles over the seeds.*

# %%
def rounds_until_exact(change, alpha, seed):
    spread = dict(heterogeneity=alpha, variance_decay=variance_decay, rng=seed)
    fed = change(fgmp.make_sparse_regression(n_clients, n_samples, n_features, sparsity, **spread))
    one = fgmp.FedGradMP(sparsity, local_iterations=1)
    table = fgmp.simulate(one, fed, 3 * rounds, rng=seed, callbacks=[fgmp.stop_at(exact**0.5)]).history
    return len(table["round"]) - 1 if table["relative_error"][-1] <= exact**0.5 else np.inf


# %%
levels, took = [0.0, 1.0, 10.0], {}
for words, change in (("as they are", lambda fed: fed), ("column means subtracted", centred)):
    took[words] = np.array([[rounds_until_exact(change, level, s) for level in levels] for s in range(n_seeds)])
    table = zip(levels, np.median(took[words], axis=0), took[words].max(axis=0), strict=True)
    print(f"{words:23}", ", ".join(f"alpha = {a:g}: {middle:g} rounds ({most:g} at most)" for a, middle, most in table))
same = took["column means subtracted"]
claim("start-centred", "column means subtracted, K=1: rounds until exact, the same at alpha = 0, 1 and 10",
    {f"alpha = {level:g}": numbers for level, numbers in zip(levels, same.T, strict=True)},
    (same == same[:, :1]).all(axis=1), source="ours, first steps", expected="the same at every alpha")


# %% [markdown]
# So the heterogeneity of these data is one that clients can remove by themselves. A *random dictionary* does not remove
# it, although it cures other ills ([08_gaussian_dictionary_rip](08_gaussian_dictionary_rip.ipynb): features that are
# equal at a client). What a dictionary gives depends on the stable rank of a client's matrix, and a large mean makes
# that nearly 1. Here are condition numbers along two features of 40, of the fifth of the clients with the largest
# means, given five times the rows: as they are, in a Gaussian dictionary of 40 atoms, and with column means subtracted.

# %%
def conditions(seed):
    """Condition numbers at sparsity 2 in the three ways: medians over the fifth with the largest means."""
    fed, rng = draw(seed, 5 * n_samples), np.random.default_rng(seed)
    found = []
    for i in by_mean(fed)[-max(1, n_clients // 5) :]:
        A = fed.clients[i].features
        ways = A[:, :40], A @ rng.standard_normal((n_features, 40)), (A - A.mean(axis=0))[:, :40]
        bounds = [restricted_constants(B, 2) for B in ways]
        found.append([bound.upper / bound.lower for bound in bounds])
    return np.median(found, axis=0)


# %%
plain, in_atoms, free = np.array([conditions(seed) for seed in range(n_seeds)]).T
claim("start-dictionary", "the fifth of the clients with the largest means: a Gaussian dictionary makes the restricted "
    "condition number larger", {"as they are": plain, "in the dictionary": in_atoms, "column means subtracted": free},
    in_atoms > plain, source="ours, first steps", expected="larger in the dictionary")

# %% [markdown]
# ## One round by hand
#
# Now look inside. The toy has 3 clients with 6 rows each, 8 features, and a signal with $\tau = 2$ nonzero entries.
# Every client makes $K = 2$ local iterations with all its rows, so nothing is random. (The seed was chosen so that each
# step has something to show.) Features and clients are counted from 0, as Python does.

# %%
toy = fgmp.make_sparse_regression(n_clients=3, n_samples=6, n_features=8, sparsity=2, heterogeneity=0.5, rng=41)
tau, clients = 2, range(3)
np.set_printoptions(precision=2, suppress=True, floatmode="fixed")
A, y = [c.features for c in toy.clients], [c.targets for c in toy.clients]


print("the signal:", toy.truth)

# %% [markdown]
# The algorithm chooses a set of features in three places. In the standard basis the choice is simple: `largest` takes
# the largest magnitudes, and of two that are equal the one with the lower index.
#
# > **Start.** The server sends $x_0 = 0$. Each client sets `x` to it, and `support` to its nonzero features: none yet.

# %%
x = [np.zeros(8) for i in clients]
support = [np.flatnonzero(x[i]) for i in clients]

# %% [markdown]
# > **Gradient.** `r` is the gradient of the client's own misfit $f_i$ at `x`. (With minibatches, of $g_{i,j}$: the
# > misfit on a few rows.)

# %%
r = np.array([A[i].T @ (A[i] @ x[i] - y[i]) / len(y[i]) for i in clients])
print(r)

# %% [markdown]
# > **Identify.** `gamma` holds the $2\tau$ features with the largest entries of `r`. Along them the misfit changes
# > fastest.

# %%
gamma = [largest(r[i], 2 * tau) for i in clients]
print("gamma:", *gamma)

# %% [markdown]
# The true features are 0 and 7. Feature 7, the large one, is in every `gamma`. Feature 0 is in none.
#
# > **Merge.** `merged` joins `gamma` and the features of the current model. In the first round there are none to add.

# %%
merged = [np.union1d(gamma[i], support[i]).astype(int) for i in clients]
print("merged:", *merged)


# %% [markdown]
# > **Estimate.** `b` minimises $f_i$ over all vectors that are zero outside `merged`: least squares on a few columns.

# %%
def estimate(i):
    b = np.zeros(8)
    b[merged[i]] = np.linalg.lstsq(A[i][:, merged[i]], y[i], rcond=None)[0]
    return b


b = np.array([estimate(i) for i in clients])
print(b)

# %% [markdown]
# > **Prune.** `support` keeps the $\tau$ features with the largest entries of `b`.

# %%
support = [largest(b[i], tau) for i in clients]
print("support:", *support)

# %% [markdown]
# > **Project.** The new `x` is `b` on `support`, and zero elsewhere.

# %%
x = np.array([np.where(np.isin(range(8), support[i]), b[i], 0) for i in clients])
print(x)

# %% [markdown]
# Every client has feature 7 with a wrong value, and a second feature that is wrong.
#
# > **Repeat** for $k = 2$: the same lines again, from the new `x`.

# %%
r = [A[i].T @ (A[i] @ x[i] - y[i]) / len(y[i]) for i in clients]
gamma = [largest(r[i], 2 * tau) for i in clients]
merged = [np.union1d(gamma[i], support[i]).astype(int) for i in clients]
b = [estimate(i) for i in clients]
support = [largest(b[i], tau) for i in clients]
x = np.array([np.where(np.isin(range(8), support[i]), b[i], 0) for i in clients])
print("gamma: ", *gamma, "\nmerged: ", *merged, "\nsupport:", *support)
print(x)

# %% [markdown]
# Now `merged` is a real union: the old `support`, which keeps feature 7, joins the new `gamma`. At clients 0 and 2 the
# gradient at the wrong model points to what was missing: feature 0 is in `gamma`. Least squares then sees both true
# features, and both clients have the signal. Client 1 has not found feature 0.
#
# > **Average.** The server forms the mean $\sum_i p_i x_i$ of what the clients send back.

# %%
mean = x.mean(axis=0)
print(mean)

# %% [markdown]
# > **Prune and project again,** now at the server: the $\tau$ largest entries of the mean are the model $x_1$.

# %%
kept = largest(mean, tau)
x_1 = np.where(np.isin(range(8), kept), mean, 0)
print("kept:", kept)

# %% [markdown]
# The two clients that are right outvote the third, and the support is correct after one round. The values are not yet:
# client 1 has pulled the mean away. In the next round every client starts from the correct support.
#
# Does the library do the same? And what happens in the second round?

# %%
toy_errors = fgmp.simulate(fgmp.FedGradMP(sparsity=2, local_iterations=2), toy, rounds=2).history["relative_error"]
assert abs(toy_errors[1] - np.linalg.norm(x_1 - toy.truth)) < 1e-12  # the library's first round is ours
print(f"relative errors: {toy_errors[0]:.3g}, {toy_errors[1]:.3g}, then rounding: {toy_errors[2] < exact}")

# %% [markdown]
# The same lines stand in `FedGradMP.client_update` and `FedGradMP.server_update` in
# [fedgradmp](../fgmp/fedgradmp.py), with the same names. There the selections and the projections go through a
# dictionary, since the paper allows signals that are sparse in any set of atoms and not only in the standard basis.
#
# **Relatives.** With one client there is nothing to average, and the algorithm is StoGradMP. With one client and all
# rows in each step it is GradMP, and for least squares in the standard basis that is CoSaMP, a classic of compressed
# sensing.
#
# ## What it buys
#
# Anyone with data will ask two questions. With noise, how close is the error to that of least squares on all rows in
# one place, with the support known? And how many rows must a client hold? Two methods stand beside FedGradMP. FedAvg
# has as many local iterations, and the best of five learning rates for each of the federations that are shown, an
# advantage that nobody has in practice. `SharedSupportGradMP` is this project's own: its clients choose the support
# together.

# %%
methods = {"FedGradMP": fgmp.FedGradMP(sparsity), "SharedSupportGradMP": fgmp.SharedSupportGradMP(sparsity)}
rates = {"learning_rate": [0.03, 0.01, 0.003, 0.001, 0.0003], "local_iterations": [3]}


def fedavg(fed):
    tuning = fgmp.tune(lambda **local: fgmp.FedAvg(**local), rates, fed, rounds)
    return fgmp.FedAvg(**tuning.best.parameters)


# %%
noisy, best = {"FedAvg": [], "FedGradMP": [], "SharedSupportGradMP": [], "fitted": []}, []
for seed in range(n_seeds):
    fed = draw(seed, samples[-1], noise_variance=noise_variance)
    history = fgmp.History(metrics={"fitted": lambda x, fed=fed: pooled_error(fed, np.flatnonzero(x))})
    tables = {name: fgmp.simulate(one, fed, rounds, rng=seed, history=history).history for name, one in methods.items()}
    tables["FedAvg"] = fgmp.simulate(fedavg(fed), fed, rounds, rng=seed).history
    for name, table in tables.items():
        noisy[name].append(table["relative_error"])
    noisy["fitted"].append(tables["FedGradMP"]["fitted"])
    best.append(pooled_error(fed, np.flatnonzero(fed.truth)))


# %%
def end(method, m, seed):
    found = fgmp.stop_at(generous)
    return fgmp.simulate(method, draw(seed, m), rounds, rng=seed, callbacks=[found]).history["relative_error"][-1]


ends = {name: [[end(one, m, s) for m in samples] for s in range(n_seeds)] for name, one in methods.items()}
shares = {name: np.mean(np.array(rows) <= generous, axis=0) for name, rows in ends.items()}

# %%
few = [draw(seed, 3 * sparsity) for seed in range(n_seeds)]
steps = fgmp.FedGradMP(sparsity, solver=fgmp.GradientDescent(steps=5))
long = dict(rounds=3 * rounds, callbacks=[fgmp.stop_at(generous)])
gentle = np.array([fgmp.simulate(steps, fed, rng=0, **long).history["relative_error"][-1] for fed in few]) <= generous

# %% tags=["readme"]
fig, (left, right) = panels(2, width=4.8, height=3.6)
for name in ("FedAvg", *methods):
    curve(left, range(rounds + 1), noisy[name], name, **METHODS[name])
    right.plot(range(len(samples)), shares.get(name, [np.nan] * len(samples)), **METHODS[name])
curve(left, range(rounds + 1), noisy["fitted"], "its features,\nvalues fitted anew", color="0.4", marker="x")
floor(left, np.median(best), "least squares on all rows, support known", inside="right below")
left.set(yscale="log", ylim=(np.median(best) / 2.5, None), xlabel="round", ylabel="relative error")
edge = np.interp(3 * sparsity, samples, range(len(samples)))
right.axvline(edge, color="0.35", linestyle=":")
right.plot(edge, gentle.mean(), "X", color=colour, markersize=11)
words = f"FedGradMP,\n5 gradient steps,\n{3 * rounds} rounds"
right.annotate(words, (edge, gentle.mean()), (-9, -9), textcoords="offset points", ha="right", va="top", color=colour)
right.set(xlabel="rows of a client (not to scale)", ylabel="share of exact recoveries")
right.set_xticks(range(len(samples)), samples)
_ = left.legend(loc=(0.45, 0.5))

# %% [markdown]
# *Left: with noise, medians and bands over all seeds; each client has as many rows as the last number on the right.
# Right: without noise, how many of the seeds end with an error that counts as exact; the dotted line is at $3\tau$
# rows. The cross is FedGradMP with five gradient steps in place of exact solutions, and with more rounds.*
#
# On the right is a cliff. A client fits up to $3\tau$ features at once: the $\tau$ of its model, and $2\tau$ that it
# adds. With exactly $3\tau$ rows an exact solution fits them to anything, and what it fits is not what is missing. With
# one row more every seed is recovered, here. The error is largest *at* the edge: with still fewer rows the fit that is
# chosen is the shortest of many, and a short wrong answer does less harm to the mean than a long one.
#
# So the cliff belongs to the **exact solution**, and not to the algorithm. The paper's Algorithm 2 lets a client stop
# early. A few gradient steps cannot fit $3\tau$ features to anything, and the mean of the clients finds the signal
# with $3\tau$ rows, too, only in more rounds:

# %%
if {3 * sparsity, 3 * sparsity + 1} <= set(samples):
    on, over = (shares["FedGradMP"][samples.index(3 * sparsity + more)] for more in (0, 1))
    words = f"none of {n_seeds} seeds is recovered with {3 * sparsity} rows, which is 3 tau, all with one row more"
    claim("start-rows", f"{n_clients} clients, K=3, exact solutions: {words}", {"3 tau rows": on, "one more": over},
        [on == 0, over == 1], source="ours, first steps", expected="0 and 1", unit="of the seeds")
claim("start-steps", f"{n_clients} clients with {3 * sparsity} rows each, which is 3 tau, K=3, five gradient steps: "
    f"recovered within {3 * rounds} rounds on at least two seeds in three", f"{gentle.sum()} of {n_seeds} seeds",
    bool(gentle.mean() >= 2 / 3), source="ours, first steps", expected="at least two in three", keep={"exact": gentle})
middle = {m: float(f"{error:.2g}") for m, error in zip(samples, np.median(ends["FedGradMP"], axis=0), strict=True)}
print("exact solutions, without noise, last error by rows:", {m: middle[m] for m in samples if m <= 3 * sparsity})
last = {name: float(f"{np.median(np.array(runs)[:, -1]) / np.median(best):.2g}") for name, runs in noisy.items()}
print("with noise, last error / least squares on all rows:", last)

# %% [markdown]
# Where the clients choose the support together, two rows are enough on every seed. (With so few features each client
# sends its gradient whole, and the server needs the sum alone; [14_add_up_before_deciding](14_add_up_before_deciding.ipynb) has sketches that are
# shorter.)
#
# On the left FedAvg hardly moves. The large means allow only tiny steps, and ten rounds are few for it. FedGradMP comes
# close to the floor in two rounds, but then its error *rises*. The grey line shows what is not to blame: with the same
# features, and values fitted anew on all rows, the error stays at the floor. So the features are right, or nearly, and
# the values get worse. Each client adds $2\tau$ features whose columns happen to fit its noise, fits all values
# together, and prunes without fitting again. What the pruned columns took from the others is lost, and because the next
# gradient starts from there, it chooses nearly the same columns again.
# [01_linear_convergence](01_linear_convergence.ipynb) shows at the end which part of the gradient is to blame.
#
# ## What differs from the paper, and why
#
# - **The sizes.** They are small, so that a client alone fails and the pictures are readable. The paper's sizes, and
#   minibatches, come in [01_linear_convergence](01_linear_convergence.ipynb).
# - **Lambda.** `support` is $\Lambda$ in the pseudo-code, which does not say what $\Lambda$ is when a new round starts.
#   Here each client begins with the support of the model it receives. The proof of Lemma 3 needs that.
#
# ## The answer
#
# Thirty clients that hold 20 rows each recover a signal with 5 nonzeros among 200 together: below 1e-14 on all 10
# seeds, where alone the median is 2 of 30 clients. It works because a client's gradient holds more of what is missing
# than chance would, and because wrong choices scatter while right ones collect votes. A client with a large mean is
# blind at first; it follows the others, or subtracts its column means, and then $\alpha$ costs nothing. In a round a
# client sends 60 bytes, while its rows and observations fill 32.2 kB. A client that solves exactly needs more than
# $3\tau$ rows: with 15 none of 10 seeds is recovered, with one row more all are, and with five gradient steps in place
# of exact solutions 9 of 10 seeds are with 15.
#
# ## Predict, then change
#
# Each line is a change of one parameter at the top. Guess first, then unfold.
#
# 1. **`sparsity: 7`.** Two more nonzeros, the same 20 rows. Will the federation need one more round, or two?
#
#    <details><summary>What comes out</summary>
#
#    It fails. Now $3\tau = 21$, one more than the rows, so an exact solution fits its features to anything: the error
#    after ten rounds is 1.14 in the median over ten seeds, no better than the zero model. There is no middle ground.
#
#    ```text
#    [does not hold] start-together: 1.14 (0.631 to 1.71, 10 seeds)
#    ```
#
#    </details>
# 2. **`alpha: 0`.** No client has a mean, so none is blind. Which number changes most?
#
#    <details><summary>What comes out</summary>
#
#    That of the clients who succeed alone: the median is 9 of 30, in place of 2. The federation shown is still exact
#    after three rounds, but its first round leaves an error of 0.31, in place of 0.60. And with noise the last error is
#    2.9 times that of least squares on all rows, in place of 6.2, because no common part of the gradients lifts it.
#
#    ```text
#    relative errors: 1, 0.314, 0.0307, below 1e-14
#    [holds in part] start-alone: 9 of 30 clients (3 to 17, 10 seeds)
#    with noise, last error / least squares on all rows: {'FedAvg': 420.0, 'FedGradMP': 2.9, ...
#    ```
#
#    </details>
# 3. **`n_clients: 5`.** A sixth of the voters. Is their vote still enough?
#
#    <details><summary>What comes out</summary>
#
#    With 20 rows it is: all ten seeds end below 1e-14. With 16 rows, just past the cliff, only half of the seeds do,
#    where thirty clients had all. A likely reason is that among few voters two that err in one place already mislead
#    the server.
#
#    ```text
#    [holds] start-together: below 1e-14 (10 seeds)
#    [holds in part] start-rows: 3 tau rows 0, one more 0.5 of the seeds
#    ```
#
#    </details>
#
# ## References
#
# - H. Jeong, D. Needell, J. Qin, *Federated Gradient Matching Pursuit*, IEEE Transactions on Information Theory 70(6),
#   4512-4537, 2024. [arXiv 2302.10755](https://arxiv.org/abs/2302.10755)
# - N. Nguyen, D. Needell, T. Woolf, *Linear convergence of stochastic iterative greedy algorithms with sparse
#   constraints*, IEEE Transactions on Information Theory 63(11), 6869-6895, 2017 (GradMP and StoGradMP).
# - D. Needell, J. A. Tropp, *CoSaMP: iterative signal recovery from incomplete and inaccurate samples*, Applied and
#   Computational Harmonic Analysis 26(3), 301-321, 2009.
#
# Next: [01_linear_convergence](01_linear_convergence.ipynb), because one run with one $\alpha$ does not say how much
# slower a federation gets when more of its clients are blind.
