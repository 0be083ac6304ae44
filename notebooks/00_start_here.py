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
# common sparse signal together, without sending a single measurement?
#
# ![Animation of three rounds: votes come in, the server's model moves onto the signal](pictures/00_start_here.gif)
#
# They vote: wrong votes scatter, right ones collect, and in the third round all thirty agree and the signal is found.
# Above, how many clients would use each feature (orange: those of the signal); below, the server's model (orange),
# which moves onto the signal (grey). No row has left its client (what the models give away is in
# [16](16_what_the_server_may_see.ipynb)), and there was no learning rate to tune: clients solve small least-squares
# problems. (With too few rows for that they can take gradient steps, whose length a line search finds.)
#
# **The idea of this book.** A client's gradient is *what is missing, seen through $A^\top A/m$*. What blurs that view
# is a disease, and what clears it is a cure: chapters 00, 01, 08, 13 and 14 are about these, and the others ask how far
# theory, rivals and real data agree.
#
# **What you need.** Least squares, and Python with NumPy. All symbols are in [one table](../docs/symbols.md).
#
# **Where it stands in the paper.** The problem is that of Section II, the algorithm is Algorithm 1 of Section III.

# %% tags=["parameters"]
n_clients = 30  # N, clients of the federation
n_samples = 20  # m, rows of each client
n_features = 200  # n, dimension of the signal
sparsity = 5  # tau, nonzero entries of the signal
alpha = 1.0  # heterogeneity: by how much the clients' matrices differ (the signal is the same for all)
variance_decay = 1.1  # the entries of client i have variance 1/i^variance_decay
local_iterations = 3  # K, iterations of a client in one round
rounds = 10  # T, rounds of communication
exact = 1.0e-14  # relative error that counts as exact
samples = [1, 2, 4, 8, 14, 15, 16, 20, 40]  # rows of a client in "How few rows?"
n_seeds = 10  # seeds: repetitions with new data
picture_seed = 2  # seed of the federation in the pictures

# %% tags=["hide-input"]
from book import check_types

check_types(globals(), {
    int: "n_clients n_samples n_features sparsity local_iterations rounds n_seeds picture_seed",
    float: "alpha variance_decay exact",
    list[int]: "samples",
})
assert min(n_clients, n_samples, rounds) >= 1, f"{n_clients=}, {n_samples=}, {rounds=}: expected each at least 1"
assert min(local_iterations, n_seeds) >= 1, f"{local_iterations=}, {n_seeds=}: expected each at least 1"
assert 1 <= sparsity <= n_features, f"{sparsity=}: expected 1 to {n_features=}"
assert 0 < exact <= 0.1, f"{exact=}: expected above 0, at most 0.1"
assert alpha >= 0, f"{alpha=}: expected at least 0"
assert picture_seed >= 0, f"{picture_seed=}: expected at least 0"
assert 1 <= samples[0] < samples[-1] and samples == sorted(set(samples)), f"{samples=}: expected increasing"

# %% [markdown]
# The package `book`, beside the notebooks, draws figures, checks parameters and writes down what is measured. The
# method itself is in `fgmp`.

# %% tags=["hide-input"]
import numpy as np

import fgmp
from book import METHODS, Sight, alt, claim, count_votes, curve, draw_votes, floor, images, name_lines, panels
from book import see_through, sliders

# %% [markdown]
# ## The idea
#
# There is one signal $x^\#$ with $n$ entries, and only $\tau$ of them are not zero. A client knows a matrix $A$ with
# $m$ rows, and one number for each row: $y = A x^\#$. (In a table of a hospital a row is a patient and a column is a
# measurement, and $\tau$ measurements matter.) It would like to know $x^\#$. Its misfit at a model $x$ is
# $f(x) = \frac{1}{2m}\|Ax - y\|^2$.
#
# Let $e = x^\# - x$ be what is missing from the model. A client cannot see $e$. It sees its residuals $y - Ax = Ae$,
# and if it sends them back through its own matrix, it gets its negative gradient:
#
# $$-\nabla f(x) \;=\; \tfrac1m A^\top A\,e .$$
#
# **The gradient is what is missing, seen through $A^\top A/m$.** If that matrix were the identity, a client would see
# $e$ itself. To match the gradient is to look where the model lacks most. Now let us spoil the view of 40 features, of
# which three are missing, in four ways: few rows, columns with a common mean, equal columns, and clients that differ.

# %%
rng, missing = np.random.default_rng(2), np.zeros(40)
missing[[5, 17, 31]] = 1, -0.8, 0.6
few = [rng.standard_normal((12, 40)) for client in range(30)]
level = 1.2 + 0.6 * rng.standard_normal((200, 40))
half, atoms = rng.standard_normal((200, 200)), rng.standard_normal((400, 40))
twins = np.hstack([half, half])  # feature k + 200 equals feature k
full = [rng.standard_normal((200, 40)) for client in range(30)]

# %% tags=["hide-input"]
own = missing * rng.normal(1, 0.4, (30, 40))  # the values of each client, and one feature of its own
own[range(30), rng.integers(40, size=30)] += 0.8
grams = [A.T @ A / 200 for A in full]
sum_of_all = np.mean([gram @ e for gram, e in zip(grams, own, strict=True)], axis=0)

# %% tags=["hide-input"]
sights = [
    Sight.of("few rows (12)", few[0], missing),
    Sight.of("cure: sum over 30 clients", few, missing),
    Sight.of("a common mean", level, missing),
    Sight.of("cure: centre the columns", level - level.mean(axis=0), missing),
    Sight.of("twins: equal columns", twins[:, [*range(20), *range(200, 220)]], missing),
    Sight.of("cure: mix (random dictionary)", twins @ atoms, missing),
    Sight("clients that disagree: one", grams[0], own[0]),
    Sight("no cure: the sum of 30", np.mean(grams, axis=0), own[0], sum_of_all),
]

# %% [markdown]
# **Few rows** blur: columns that should be orthogonal are not. Every client is blurred in another way, so the cure is
# to **sum** over the clients. The picture adds their gradients, as [14](14_add_up_before_deciding.ipynb) does.
# FedGradMP, in this chapter, adds their answers, which works like a vote.

# %% tags=["hide-input"]
alt(see_through(sights[:2], taken=6), """Few rows, and the sum over thirty clients. Above the picture of A'A/m is
    speckled and the gradient has wrong entries everywhere; below it is nearly diagonal, and the gradient nearly what is
    missing.""")

# %% [markdown]
# *Above the disease, below the cure. Left $A^\top A/m$: red is positive, blue negative, white zero. Right what is
# missing (grey) and minus the gradient (orange), each scaled to 1. Dots: the $2\tau = 6$ entries that a client would
# take.*
#
# **A common mean** floods: all columns point one way, and the gradient says "more of everything". The cure is to
# **centre**: subtract from each column its mean ([01](01_linear_convergence.ipynb)).

# %% tags=["hide-input"]
alt(see_through(sights[2:4], taken=6), """A common mean, and centred columns. Above the picture is red all over and all
    entries of the gradient have one sign; below it is diagonal, and the gradient is nearly what is missing.""")

# %% [markdown]
# **Twins** double: each missing feature is seen twice, at every client, so that no sum can help. The cure is to
# **mix**: write the model as a sum of a few random mixtures of the features. Such a mixture is an *atom*, all of them
# together are a *random dictionary* ([08](08_gaussian_dictionary_rip.ipynb)). Two atoms are hardly ever alike, so the
# gradient can tell them apart. The price: the model names atoms, and no longer features.

# %% tags=["hide-input"]
alt(see_through(sights[4:6], taken=6), """Twins, and a random dictionary. Above the picture has a second diagonal and
    the gradient has each missing entry twice; below it is nearly diagonal, and the gradient is nearly what is
    missing.""")

# %% [markdown]
# **Clients that disagree** see well, but not the same. Their sum shows the mean of what they miss, and the feature that
# one client has alone (here grey without orange) is not in it. That one model cannot fit all of them, nothing cures;
# one has to decide what the common model is to be. That they lose features which they share is another matter: there
# sums help again ([13](13_clients_that_disagree_fail_or_lie.ipynb)).

# %% tags=["hide-input"]
alt(see_through(sights[6:], taken=6), """Clients that disagree: one, and the sum of thirty. Above a client's gradient is
    nearly what it misses; below the gradient of the sum lacks the feature that this client has alone.""")

# %% [markdown]
# ## One round by hand
#
# In a round of FedGradMP the server sends its sparse model to all clients. Each client improves it on its own rows and
# sends it back. The server averages the answers and keeps the $\tau$ largest entries. That is the whole algorithm, and
# it has no learning rate to tune: a client solves small least-squares problems.
#
# Here is a round in numbers. The toy has 3 clients with 6 rows each, 8 features, and a signal with $\tau = 2$ nonzero
# entries. Every client makes $K = 2$ local iterations with all its rows, so nothing is random. (The seed was chosen so
# that each step has something to show.) Features and clients are counted from 0, as Python does, and numbers are
# printed in hundredths.

# %%
toy = fgmp.make_sparse_regression(n_clients=3, n_samples=6, n_features=8, sparsity=2, heterogeneity=0.5, rng=41)
tau, clients = 2, range(3)
A, y = [c.features for c in toy.clients], [c.targets for c in toy.clients]


def largest(v, count):
    return np.sort(np.argsort(-np.abs(v), kind="stable")[:count])


def show(numbers):
    print(np.rint(100 * np.array(numbers)).astype(int))


show(toy.truth)  # the signal

# %% [markdown]
# The algorithm chooses a set of features in three places. In the standard basis the choice is simple: `largest` takes
# the largest magnitudes, and of two that are equal the one with the lower index.
#
# > **Start.** The server sends $x_0 = 0$. Each client sets `x` to it, and `support` to its nonzero features: none yet.

# %%
x = [np.zeros(8) for i in clients]
support = [np.flatnonzero(x[i]) for i in clients]

# %% [markdown]
# > **Gradient.** `r` is the gradient of the client's own misfit $f_i$ at `x`: minus what is missing, seen through
# > $A_i^\top A_i/m$.

# %%
r = np.array([A[i].T @ (A[i] @ x[i] - y[i]) / len(y[i]) for i in clients])
show(r)

# %% [markdown]
# > **Identify.** `gamma` (the paper's $\Gamma$) holds the $2\tau$ features with the largest entries of `r`. Along them
# > the misfit changes fastest.

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
show(b)

# %% [markdown]
# > **Prune.** `support` keeps the $\tau$ features with the largest entries of `b`.

# %%
support = [largest(b[i], tau) for i in clients]
print("support:", *support)

# %% [markdown]
# > **Project.** The new `x` is `b` on `support`, and zero elsewhere.

# %%
x = np.array([np.where(np.isin(range(8), support[i]), b[i], 0) for i in clients])
show(x)

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
show(x)

# %% [markdown]
# Now `merged` is a real union: the old `support`, which keeps feature 7, joins the new `gamma`. At clients 0 and 2 the
# gradient at the wrong model points to what was missing: feature 0 is in `gamma`. Least squares then sees both true
# features, and both clients have the signal. Client 1 has not found feature 0.
#
# > **Average.** The server forms the mean $\sum_i p_i x_i$ of what the clients send back.

# %%
mean = x.mean(axis=0)
show(mean)

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
# `FedGradMP.client_update` and `FedGradMP.server_update` in [fedgradmp](../fgmp/fedgradmp.py) have the same lines, with
# the same names. There the selections and the projections go through a
# dictionary, since the paper allows signals that are sparse in any set of atoms and not only in the standard basis.
#
# **Relatives.** With one client there is nothing to average, and the algorithm is StoGradMP. With one client and all
# rows in each step it is GradMP, and for least squares in the standard basis that is CoSaMP, a classic of compressed
# sensing.

# %% [markdown]
# ## Thirty clients
#
# Now real sizes. `make_sparse_regression` draws a problem the way the paper does: the entries of $A_i$ are normal with
# mean $\mu_i$ and variance $1/i^{1.1}$, and the means are drawn from $N(0, \alpha)$. The larger $\alpha$, the more the
# clients differ. That is their **heterogeneity**.

# %%
def draw(seed, n_samples=n_samples):
    spread = dict(heterogeneity=alpha, variance_decay=variance_decay)
    return fgmp.make_sparse_regression(n_clients, n_samples, n_features, sparsity, **spread, rng=seed)


fed = draw(picture_seed)
true = np.flatnonzero(fed.truth)

# %% tags=["hide-input"]
shown = np.unique(np.rint(np.geomspace(1, n_clients, 4)).astype(int))  # client numbers, as in the paper from 1 to N
matrices = [fed.clients[i - 1].features for i in shown]
titles = [f"client {i}: mean {A.mean():.2f}, variance {A.var():.2f}" for i, A in zip(shown, matrices, strict=True)]
alt(images(matrices, titles, columns=1, width=7, vmin=-3, vmax=3), """The matrices of four clients as grey pictures of
    20 rows and 200 columns; some are speckled, some nearly even in one grey.""")

# %% [markdown]
# *The matrices of four clients, one row of pixels for each measurement. Black is $-3$ or less, white is 3 or more. The
# mean sets how dark a matrix is; a small variance makes it look flat.*
#
# Every matrix is wide and low: 20 equations for 200 unknowns. Why not send all rows to one place? Together there would
# be 600 of them, more than enough. But rows may be medical records, or too many to send. In **federated learning** they
# stay where they are. A server and the clients exchange models only:

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
# Why does it work? Let the clients vote: in each round, count the features of the answers that the server receives.

# %%
votes, models = count_votes(method, fed)  # [round, client, feature]; the server's model before and after each round
print("most votes for a wrong feature, by round:", np.delete(votes.sum(axis=1), true, axis=1).max(axis=1, initial=0))

# %% tags=["headline", "hide-input"]
fig, axes = panels(3, width=2.5, height=2.4, sharey=True)
draw_votes(axes, votes, true)
alt(fig, """How many of the clients choose each feature, in rounds 1, 2 and 3. In round 1 many features have a few
    votes; in round 3 all clients choose the features of the signal.""")


# %% [markdown]
# *How many of the clients choose each feature, with all their rows. Coloured: the features of the signal.*
#
# In round 1 wrong choices are many, but they scatter, so none gets more than a few votes, while the large entries of
# the signal collect votes from many clients. The mean keeps what many agree on. In round 2 every client starts from
# that, so it has to look for the small entries only. In round 3 all thirty agree, and with the support known, least
# squares is exact.
#
# How right is a single client? Its gradient, at the start, holds more of what is missing than chance would:

# %%
def true_among_first(fed):
    """True features among those that a client takes first, in fifths of the clients, those with small means first."""
    zero = fgmp.sparse_model.SparseModel.zero((n_features,))
    mean = [client.features.mean() ** 2 / client.features.var() for client in fed.clients]
    order = np.argsort(mean, kind="stable")
    taken = [largest(fed.clients[i].gradient(zero), 2 * sparsity) for i in order]
    seen = [np.isin(features, np.flatnonzero(fed.truth)).sum() for features in taken]
    return [part.mean() for part in np.array_split(seen, min(5, n_clients))]


# %%
seen = np.array([true_among_first(fed) for fed in map(draw, range(n_seeds))])
chance, by_fifth = 2 * sparsity**2 / n_features, np.median(seen, axis=0)
print(f"of {2 * sparsity} features taken, {by_fifth[0]:.2g} are true where means are smallest, "
      f"{by_fifth[-1]:.2g} where they are largest, {chance:.2g} by chance (medians)")


# %% [markdown]
# Few, but more than chance, and that is enough, because the wrong ones scatter. A client with a large mean is nearly
# blind. It is not lost: with the server's model it gets the features that others have seen, and fits them by least
# squares, which needs no gradient.
#
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

# %% tags=["hide-input"]
fig, ax = panels(width=5.4, height=3)
curve(ax, range(rounds + 1), np.concatenate(separate), "each client\nalone", band=(25, 75), color="0.4", marker="s")
curve(ax, range(rounds + 1), together, "together,\nFedGradMP", band=(25, 75), **METHODS["FedGradMP"])
floor(ax, exact, "counts as exact")
ax.set(yscale="log", ylim=(1e-17, 30), xlabel="round", ylabel="relative error")
name_lines(ax)
alt(fig, "Relative error against rounds: each client alone stays near 1, together the error falls to rounding.")

# %% [markdown]
# *Lines are medians, bands run from the lower to the upper quartile: over the seeds for the federation, over all
# clients of all seeds for the clients alone.*
#
# Now put it down as **claims**. A claim is a sentence that a run may refute; it stands in the folded cell. Its line
# begins with the verdict: it *holds* if it does so on every seed, *in part* on at least half of them (unless the
# sentence itself counts seeds); a statement of the paper is *reproduced*, in part or not. Then come its name and what
# was measured, the median over the seeds and the range.

# %% tags=["hide-input"]
generous, end = exact**0.5, np.array(together)[:, -1]
succeed = (np.array(separate)[..., -1] <= generous).sum(axis=1)
sizes = f"{n_clients} clients with {n_samples} rows each, {sparsity} of {n_features} entries nonzero: "
claim("start-together", f"{sizes}together they reach relative error <= {exact:g} within {rounds} rounds on every seed",
    end, end <= exact, source="ours, first steps", expected=f"at most {exact:g}", floor=exact)
claim("start-alone", f"{sizes}alone, at most one client in three reaches {generous:.3g} with the same algorithm",
    succeed, succeed <= n_clients // 3, source="ours, first steps", expected=f"at most {n_clients // 3}",
    unit=f"of {n_clients} clients")

# %% [markdown]
# ## How few rows?
#
# Give the clients fewer rows, or more, and ask how often the federation finds the signal. Three ways: least squares on
# the merged features (`Exact`, Algorithm 1 of the paper); five gradient steps in their place and three times the rounds
# (Algorithm 2); and `SharedSupportGradMP`, this project's own, whose clients choose the support together.

# %%
ways = {
    "FedGradMP, exact": fgmp.FedGradMP(sparsity),
    "FedGradMP, five steps": fgmp.FedGradMP(sparsity, solver=fgmp.GradientDescent(steps=5)),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(sparsity),
}


def last_error(way, m, seed):
    length = 3 * rounds if "steps" in way else rounds
    stop = fgmp.stop_at(generous)
    return fgmp.simulate(ways[way], draw(seed, m), length, rng=seed, callbacks=[stop]).history["relative_error"][-1]


# %%
ends = {way: np.array([[last_error(way, m, s) for m in samples] for s in range(n_seeds)]) for way in ways}
shares = {way: np.mean(table <= generous, axis=0) for way, table in ends.items()}

# %% tags=["hide-input"]
fig, ax = panels(width=6, height=3)
looks = METHODS["FedGradMP"], METHODS["FedGradMP"] | {"linestyle": "--", "marker": "X"}, METHODS["SharedSupportGradMP"]
for (way, share), look in zip(shares.items(), looks, strict=True):
    ax.plot(range(len(samples)), share, label=way, **look)
ax.axvline(np.interp(3 * sparsity, samples, range(len(samples))), color="0.35", linestyle=":")
ax.set(xlabel=r"rows of a client (not to scale; dotted: 3 $\tau$)", ylabel="share of exact recoveries")
ax.set_xticks(range(len(samples)), samples)
fig.legend(loc="outside upper center", ncols=3)
alt(fig, """Share of seeds with exact recovery against rows of a client: with exact solutions it jumps from 0 to 1 just
    above three tau rows, with five gradient steps it rises earlier, with a shared support two rows are enough.""")

# %% [markdown]
# *Without noise: how many of the seeds end with an error that counts as exact.*

# %% tags=["hide-input"]
edge, steps = 3 * sparsity, ends["FedGradMP, five steps"]
if {edge, edge + 1} <= set(samples):
    on, over = (shares["FedGradMP, exact"][samples.index(edge + more)] for more in (0, 1))
    words = f"none of {n_seeds} seeds is recovered with {edge} rows, which is 3 tau, all with one row more"
    found = f"{100 * on:.0f} % of the seeds with {edge} rows, {100 * over:.0f} % with {edge + 1}"
    claim("start-rows", f"{n_clients} clients, K=3, exact solutions: {words}", found, [on == 0, over == 1],
        source="ours, first steps", expected="0 % and 100 %", keep={"shares": [on, over]})
    hits = steps[:, samples.index(edge)] <= generous
    claim("start-steps", f"{n_clients} clients with {edge} rows each, which is 3 tau, K=3, five gradient steps: "
        f"recovered within {3 * rounds} rounds on at least two seeds in three", f"{hits.sum()} of {n_seeds} seeds",
        bool(hits.mean() >= 2 / 3), source="ours, first steps", expected="at least two in three", keep={"exact": hits})
middle = {m: float(f"{e:.2g}") for m, e in zip(samples, np.median(ends["FedGradMP, exact"], axis=0), strict=True)}
print("exact solutions, last error by rows:", {m: middle[m] for m in samples if m <= edge})

# %% [markdown]
# The first curve is a cliff. A client fits up to $3\tau$ features at once: the $\tau$ of its model, and $2\tau$ that it
# adds. With exactly $3\tau$ rows an exact solution fits them to anything, and what it fits is not what is missing. One
# row more, and every seed is recovered. The error is largest *at* the edge: with still fewer rows the fit is the
# shortest of many, and a short wrong answer does less harm to the mean than a long one.
#
# So the cliff belongs to the **exact solution**, not to the algorithm. A few gradient steps cannot fit $3\tau$ features
# to anything, and the mean of the clients finds the signal with fewer rows, only in more rounds. And where the clients
# choose the support together, two rows are enough ([14](14_add_up_before_deciding.ipynb)).
#
# ## Turn it yourself
#
# `play` runs the algorithm and draws the votes of three rounds, in a moment: `play(rows=15, solver="five steps")`. In
# JupyterLab the sliders below run it. On a page without Python they show the same runs, computed beforehand. Walk over
# the cliff (rows 15 and 16), then change the solver; take the heterogeneity away; leave five clients of thirty.

# %% tags=["hide-input", "nbval-ignore-output"]
sliders()

# %% [markdown]
# ## What differs from the paper, and why
#
# - **The sizes.** They are small, so that a client alone fails and the pictures are readable. The paper's sizes, and
#   minibatches, come in [01_linear_convergence](01_linear_convergence.ipynb).
# - **Lambda.** `support` is $\Lambda$ in the pseudo-code, which does not say what $\Lambda$ is when a new round starts.
#   Here each client begins with the support of the model it receives. The proof of Lemma 3 needs that.
#
# ## When not to use it
#
# FedGradMP is for clients that share one sparse truth and may not share rows. Where that is not so, something else
# serves better:
#
# - **Rows that may be pooled.** Pool them: any sparse regression on all rows does as well, and is simpler
#   ([15](15_your_own_data.ipynb)).
# - **At most $3\tau$ rows a client.** An exact solution fits them to anything. Take five gradient steps, or
#   `SharedSupportGradMP`, which adds sums of all rows before it decides ([14](14_add_up_before_deciding.ipynb)).
# - **Twins**: features that are equal, or nearly, at every client. No sum of clients tells them apart. A random
#   dictionary mixes them, and then the model has no features to read off
#   ([08](08_gaussian_dictionary_rip.ipynb)).
# - **Clients that disagree**: a private feature as large as the shared ones. Their average is a model of nobody
#   ([13](13_clients_that_disagree_fail_or_lie.ipynb)).
# - **A truth that is not sparse**, as an image classifier has: FedAvg is as good or better
#   ([09](09_digits_by_writer.ipynb)); a dense federated ridge predicts better at each of four new hospitals than
#   the columns that were chosen ([15](15_your_own_data.ipynb)).
# - **Clients that may lie.** A false update that is well formed is not seen; a median holds against few of them
#   ([13](13_clients_that_disagree_fail_or_lie.ipynb)).
# - **A proof of privacy with few clients.** Masks hide all but the sum. Noise that hides one client among a dozen
#   leaves nothing of the model ([16](16_what_the_server_may_see.ipynb)).
#
# Nor is it made for times to an event or for mixed models.
#
# ## The answer
#
# Together the thirty clients recover the signal on all 10 seeds, below 1e-14, where alone 2 of 30 clients do (median).
# A client's gradient is what is missing, seen through $A^\top A/m$: few rows blur it, so most first choices are wrong,
# but wrong choices scatter while right ones collect votes. No learning rate is tuned. A client that solves exactly
# needs more than $3\tau$ rows: with 15 none of the seeds is recovered, with five gradient steps in place of exact
# solutions most are.
#
# ## Predict, then change
#
# Each line is a change of one parameter at the top. Guess what the votes and the curves will look like, then unfold.
#
# 1. **`sparsity: 7`.** Two more nonzeros, the same 20 rows. Will the federation need one more round, or two?
#
#    <details><summary>What comes out</summary>
#
#    It fails. The orange curve stays at the top beside the grey one. Now $3\tau = 21$, one more than the rows, so an
#    exact solution fits its features to anything: the error after ten rounds is 1.14 in the median over ten seeds, no
#    better than the zero model. There is no middle ground.
#
#    ```text
#    [does not hold] start-together: 1.14 (0.631 to 1.71, 10 seeds)
#    ```
#
#    </details>
# 2. **`alpha: 0`.** No client has a mean, so none is blind. What happens to the votes of round 1?
#
#    <details><summary>What comes out</summary>
#
#    The coloured bars are higher at once, because every client sees some of the signal. The first round leaves an
#    error of 0.31, in place of 0.60, and 9 of 30 clients succeed alone, in place of 2.
#
#    ```text
#    relative errors: 1, 0.314, 0.0307, below 1e-14
#    [holds in part] start-alone: 9 of 30 clients (3 to 17, 10 seeds)
#    ```
#
#    </details>
# 3. **`n_clients: 5`.** A sixth of the voters. Is their vote still enough?
#
#    <details><summary>What comes out</summary>
#
#    With 20 rows it is: all ten seeds end below 1e-14. With 16 rows, just past the cliff, only half of the seeds do,
#    where thirty clients had all: the cliff becomes a slope. A likely reason is that among few voters two that err in
#    one place already mislead the server.
#
#    ```text
#    [holds] start-together: below 1e-14 (10 seeds)
#    [holds in part] start-rows: 0 % of the seeds with 15 rows, 50 % with 16
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
