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
# **Question.** Thirty clients hold twenty measurements each of one signal. For nearly all of them that is too few. Can
# they find the signal together without sending a single measurement?
#
# [![Run this notebook](pictures/run.svg)](../README.md#three-ways-in)
#
# ![Animation of three rounds: votes come in, the server's model moves onto the signal](pictures/00_start_here.gif)
#
# Three rounds of FedGradMP: wrong choices scatter, right choices coincide, and in the third round the signal is found.
# Above, how many clients have each feature in their answer (orange: the features of the signal). Below, the server's
# model (orange), which moves onto the signal (grey).
#
# **What you need.** Least squares, and Python with NumPy. All symbols are in [one table](../docs/symbols.md).
#
# **Where it stands in the paper.** The problem is that of Section II, the algorithm is Algorithm 1 of Section III.
# Numbers of lines, here and in all chapters, are those of the LaTeX source of the preprint (arXiv 2302.10755).
#
# ## The algorithm
#
# There is one signal $x^\#$ with $n$ entries, of which only $\tau$ are not zero; where they are is its **support**.
# Client $i$ knows a matrix $A_i$ with $m$ rows, and one number for each row: $y_i = A_i x^\#$. (In the table of a
# hospital a row is a patient and a column is a feature, and $\tau$ of the features matter.) The loss of a model $x$ at
# this client is $f_i(x) = \frac{1}{2m}\|A_i x - y_i\|^2$. The rows stay at the clients. Only models with $\tau$ nonzero
# entries travel, from the server to all clients and back.
#
# Here is Algorithm 1 of the paper, in its letters, with one simplification: a client takes the gradient on all its
# rows. In the paper it is the gradient of a minibatch $j_k$, drawn anew in each local iteration, while $b$ is fitted on
# all rows, there as here. At the start of a round $\Lambda$ is the support of the model received: the paper sets
# $\Lambda = \emptyset$ once and does not say, but the proof of its Lemma 3 needs this
# ([06](06_convergence_theorem.ipynb)). $\mathrm{approx}_s(v)$ is the set of the $s$ places where $v$ has its largest
# magnitudes, and $P_\Lambda(v)$ is $v$ with all entries outside of $\Lambda$ set to zero. There are $N$ clients, $T$
# rounds, and $K$ local iterations in each; $p_i$ is the weight of client $i$, and here all weights are equal.
#
# ```text
# x_0 = 0
# for each round t = 0, ..., T-1
#      for each client i = 1, ..., N, side by side
#          x = x_t,  Λ = support of x_t             receive   the server's model
#          for k = 1, ..., K
#              r = ∇f_i(x)                          gradient  of the client's own loss
#              Γ = approx_2τ(r)                     identify  2τ features along which it falls fastest
#              Γ̂ = Γ ∪ Λ                            merge     with the features of the model
#              b = argmin of f_i, zero outside Γ̂    estimate  least squares on at most 3τ columns
#              Λ = approx_τ(b),  x = P_Λ(b)         prune     keep the τ largest entries
#          send x_i = x
#      Λ_s = approx_τ(Σ p_i x_i)                    average, and prune again:
#      x_{t+1} = P_{Λ_s}(Σ p_i x_i)                 the server keeps the τ largest entries of the mean
# ```
#
# Here it is in NumPy:

# %%
import numpy as np


def approx(v, count):
    return np.argsort(-np.abs(v), kind="stable")[:count]


def P(Lambda, v):
    x = np.zeros(len(v))
    x[Lambda] = v[Lambda]
    return x


# %%
def fedgradmp(As, ys, tau, K, T):
    x_t = np.zeros(As[0].shape[1])
    for t in range(T):
        sent = []
        for A, y in zip(As, ys, strict=True):
            x, Lambda = x_t, np.flatnonzero(x_t)
            for k in range(K):
                r = A.T @ (A @ x - y) / len(y)  # gradient
                Gamma = approx(r, 2 * tau)  # identify
                Gamma_hat = np.union1d(Gamma, Lambda)  # merge
                fit = np.linalg.lstsq(A[:, Gamma_hat], y, rcond=None)[0]
                b = np.zeros(len(x))
                b[Gamma_hat] = fit  # estimate
                Lambda = approx(b, tau)  # prune
                x = P(Lambda, b)
            sent.append(x)
        mean = np.mean(sent, axis=0)  # average
        Lambda_s = approx(mean, tau)  # prune again
        x_t = P(Lambda_s, mean)
    return x_t


# %% [markdown]
# That is the whole algorithm. There is no learning rate to tune, because a client solves small least-squares problems.

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
n_seeds = 10  # seeds: repetitions with new data
picture_seed = 2  # seed of the federation that is looked at

# %% tags=["hide-input"]
from book import METHODS, alt, check_parameters, claim, count_votes, curve, floor, name_lines, panels

check_parameters(globals(), {
    "int >= 1": "n_clients n_samples n_features rounds local_iterations n_seeds",
    "1 <= int <= n_features": "sparsity",
    "0 < float <= 0.1": "exact",
    "float >= 0": "alpha",
    "float": "variance_decay",
    "int >= 0": "picture_seed",
})

# %% [markdown]
# ## One round by hand
#
# A toy has 3 clients with 6 rows each, 8 features, and a signal with $\tau = 2$ nonzero entries: a small one at feature
# 0 and a large one at feature 7. We run one round with $K = 2$. All numbers are in hundredths, one line for each
# client.

# %%
import fgmp

toy = fgmp.make_sparse_regression(n_clients=3, n_samples=6, n_features=8, sparsity=2, heterogeneity=0.5, rng=41)
As, ys = [client.features for client in toy.clients], [client.targets for client in toy.clients]


def show(numbers):
    print(np.rint(100 * np.array(numbers)).astype(int))


show(toy.truth)  # the signal

# %% [markdown]
# **Receive and gradient.** The server sends $x_0 = 0$, so $\Lambda$ is empty, and each client computes $r$ there.

# %%
r = np.array([-A.T @ y / len(y) for A, y in zip(As, ys, strict=True)])
show(r)

# %% [markdown]
# **Guess first.** Each client takes the four entries of $r$ with the largest magnitudes. Who takes feature 7? Who takes
# feature 0? Look at the output above, then run on.
#
# **Identify and merge.** $\Lambda$ is empty, so $\hat\Gamma = \Gamma$.

# %%
Gamma_hat = [np.sort(approx(r_i, 2 * 2)) for r_i in r]
print("Gamma-hat:", *Gamma_hat)


# %% [markdown]
# The large feature 7 is in every $\hat\Gamma$, and the small feature 0 is in none.
#
# **Estimate.** Each client fits its four columns to its six rows.

# %%
def estimate(A, y, columns):
    b = np.zeros(A.shape[1])
    b[columns] = np.linalg.lstsq(A[:, columns], y, rcond=None)[0]
    return b


b = [estimate(A, y, columns) for A, y, columns in zip(As, ys, Gamma_hat, strict=True)]
show(b)

# %% [markdown]
# **Prune.** Each keeps the two largest entries. Feature 7 stays, with a wrong value; the other feature is wrong.

# %%
x = np.array([P(approx(b_i, 2), b_i) for b_i in b])
show(x)

# %% [markdown]
# **Repeat** for $k = 2$. The gradient at the new $x$ is different, and now $\Lambda$ is not empty:

# %%
r = [A.T @ (A @ x_i - y) / len(y) for A, y, x_i in zip(As, ys, x, strict=True)]
Gamma_hat = [np.union1d(approx(r_i, 2 * 2), np.flatnonzero(x_i)) for r_i, x_i in zip(r, x, strict=True)]
b = [estimate(A, y, columns) for A, y, columns in zip(As, ys, Gamma_hat, strict=True)]
x = np.array([P(approx(b_i, 2), b_i) for b_i in b])
print("Gamma-hat:", *Gamma_hat)
show(x)

# %% [markdown]
# At the first and the third client $\hat\Gamma$ now has both true features, 7 from the old model and 0 from the new
# gradient. Least squares finds the signal. The second client has not found feature 0.
#
# **Average, and prune again.** The server forms the mean of the three answers and keeps its two largest entries.

# %%
mean = x.mean(axis=0)
x_1 = P(approx(mean, 2), mean)
show([mean, x_1])
print("fedgradmp computes the same:", np.allclose(x_1, fedgradmp(As, ys, tau=2, K=2, T=1)))

# %% [markdown]
# The two clients that are right outvote the third, so the support is right after one round. The values are still wrong,
# because the mean includes the second client. In the next round every client starts from the right support and fits it
# exactly:

# %%
toy_errors = [np.linalg.norm(fedgradmp(As, ys, 2, 2, T) - toy.truth) / np.linalg.norm(toy.truth) for T in range(3)]
print(f"relative errors: {toy_errors[0]:.3g}, {toy_errors[1]:.3g}, then below 1e-14: {toy_errors[2] < 1e-14}")


# %% [markdown]
# ## Thirty clients
#
# `make_sparse_regression` draws the clients of the question as the paper does: all entries of $A_i$ are normal with the
# same mean $\mu_i$ and variance $1/i^{1.1}$. Each client has one mean, drawn from $N(0, \alpha)$. The larger $\alpha$,
# the more the clients differ: it measures their **heterogeneity**.

# %%
def draw(seed):
    spread = dict(heterogeneity=alpha, variance_decay=variance_decay)
    return fgmp.make_sparse_regression(n_clients, n_samples, n_features, sparsity, **spread, rng=seed)


fed = draw(picture_seed)
As, ys = [client.features for client in fed.clients], [client.targets for client in fed.clients]

# %% [markdown]
# Every client has 20 equations for 200 unknowns. Together they have 600 equations, which is more than enough, but rows
# may be medical records, or too many to send. In **federated learning** they stay where they are.
#
# **Guess first.** After how many rounds is the signal found? And how many of the thirty clients would find it alone,
# with the same algorithm but no one to average with?

# %%
models = [fedgradmp(As, ys, sparsity, local_iterations, T) for T in range(rounds + 1)]
errors = np.array([np.linalg.norm(x - fed.truth) for x in models]) / np.linalg.norm(fed.truth)
end = [f"below {exact:g}"] if errors[-1] <= exact else []
print("relative errors:", ", ".join([f"{error:.3g}" for error in errors[errors > exact]] + end))

# %% [markdown]
# The relative error is $\|x_t - x^\#\|_2 / \|x^\#\|_2$, which is 1 for the zero model.
#
# **The library** has the algorithm as `fgmp.FedGradMP`, and `fgmp.simulate` runs it. Here it is compared with the
# function above, after one, two and three rounds.

# %%
method = fgmp.FedGradMP(sparsity=sparsity, local_iterations=local_iterations)
alike = []
for seed in range(n_seeds):
    fed = draw(seed)
    As, ys = [client.features for client in fed.clients], [client.targets for client in fed.clients]
    for T in (1, 2, 3):
        x = fedgradmp(As, ys, sparsity, local_iterations, T)
        result = fgmp.simulate(method, fed, rounds=T, rng=seed)
        same_support = np.array_equal(result.support, np.flatnonzero(x))
        alike.append(same_support and np.allclose(result.x, x))
print(f"same support and same values: {sum(alike)} of {len(alike)} models")

# %% [markdown]
# `FedGradMP.client_update` and `FedGradMP.server_update` in [fedgradmp](../fgmp/fedgradmp.py) have the same lines in
# the same order. There the selections use a dictionary, because the paper allows signals that are sparse in any set of
# atoms and not only in the standard basis; gradients of minibatches and losses other than least squares are allowed.
#
# With one client there is nothing to average, and the algorithm is StoGradMP. With one client and all rows in each step
# it is GradMP, and for least squares in the standard basis that is CoSaMP, a classic of compressed sensing.
#
# Here is what travelled, compared with the rows that stayed with a client:

# %%
sent, kept = result.history["bytes_up"][1] / n_clients, 8 * n_samples * (n_features + 1)
print(f"a client sends {sent:.0f} bytes in a round; its rows and observations fill {kept / 1000:.3g} kB")

# %% [markdown]
# ([16](16_what_the_server_may_see.ipynb) shows what those bytes reveal.)
#
# ## Why it works
#
# Count, in each round, how many clients have a feature in their answer. These are the votes of the moving picture. (The
# word is ours: the server counts nothing, it averages values.)

# %%
fed = draw(picture_seed)
votes, _ = count_votes(method, fed)  # [round, client, feature]
counts, true = votes.sum(axis=1), np.flatnonzero(fed.truth)
order = np.argsort(-np.abs(fed.truth[true]))
print("most votes for a wrong feature, by round:", np.delete(counts, true, axis=1).max(axis=1, initial=0))
print("votes for the true features, the largest entry first, a line for each round:")
print(counts[:, true[order]])


# %% [markdown]
# In round 1 there are many wrong choices, but they differ from client to client: none gets more than 5 votes. The two
# largest entries of the signal stand out, and the mean keeps them (and some wrong features, because it always keeps
# $\tau$). In round 2 all clients start from that, and less of the signal is missing, so smaller entries stand out, too.
# In round 3 all thirty agree on the support, and with the support known least squares is exact.
#
# One success may be luck. Therefore we repeat it with new data, and let each of the thirty clients try alone, too.

# %%
def alone(client, truth):
    single = fgmp.Federation.from_clients([client], truth=truth)
    return fgmp.simulate(method, single, rounds=rounds, rng=0).history["relative_error"]


together, separate = [], []
for seed in range(n_seeds):
    fed = draw(seed)
    together.append(fgmp.simulate(method, fed, rounds=rounds, rng=seed).history["relative_error"])
    separate.append([alone(client, fed.truth) for client in fed.clients])

# %% tags=["headline", "hide-input"]
fig, ax = panels(width=5.4, height=3)
curve(ax, range(rounds + 1), np.concatenate(separate), "each client\nalone", band=(25, 75), color="0.4", marker="s")
curve(ax, range(rounds + 1), together, "together,\nFedGradMP", band=(25, 75), **METHODS["FedGradMP"])
floor(ax, exact, "counts as exact")
ax.set(yscale="log", ylim=(1e-17, 30), xlabel="round", ylabel="relative error")
name_lines(ax)
alt(fig, "Relative error against rounds: each client alone stays near 1, together the error falls to rounding.")

# %% [markdown]
# *Together the error falls to rounding within a few rounds; a client alone stays near 1, which is no better than the
# zero model. Lines are medians and bands quartiles: over the seeds for the federation, over all clients of all seeds
# for the clients alone.*
#
# ## What was measured
#
# A claim is a sentence that a run may refute. Its line gives the verdict, its name and what was measured: the median
# over the seeds and the range. Below stand the claim and what was expected; if only some seeds met it, their number. A
# statement of the paper is *reproduced*, one of our own *holds* ([CLAIMS](../CLAIMS.md) has all). A client alone
# succeeds with an error of $10^{-7}$, the square root of what counts as exact; "one in three" is a bound that we chose.

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
# ## What differs from the paper, and why
#
# - **The sizes.** They are small, so that a client alone fails. The paper's sizes and minibatches come in
#   [01_linear_convergence](01_linear_convergence.ipynb).
# - **The standard basis.** The paper has approximate projections onto atoms, with factors $\eta_1$, $\eta_2$ and
#   $\eta_3$. In the standard basis they are exact, and the factors are 1.
#
# ## When not to use it
#
# FedGradMP is for clients that share one sparse truth and may not share rows. Otherwise something else is better:
#
# - **Rows that may be pooled.** Pool them: any sparse regression on all rows does as well, and is simpler
#   ([15](15_your_own_data.ipynb)).
# - **At most $3\tau$ rows a client.** An exact solution fits them whatever the truth is ([19](19_how_few_rows.ipynb)).
#   Let clients take five gradient steps instead, or take `SharedSupportGradMP`, which adds up the gradients of all
#   before it selects ([14](14_add_up_before_deciding.ipynb)).
# - **Identical columns**: features that are equal, or nearly, at every client. No average over clients tells them
#   apart. A random dictionary mixes them, but then the model no longer names features
#   ([08](08_gaussian_dictionary_rip.ipynb)).
# - **Clients that disagree**: if private features are as large as shared ones, the average of the models fits no client
#   ([13](13_clients_that_disagree_fail_or_lie.ipynb)).
# - **A truth that is not sparse**, as in image classification: FedAvg is as good or better
#   ([09](09_digits_by_writer.ipynb)); at four new hospitals a dense federated ridge has a higher mean AUC than the
#   chosen columns ([15](15_your_own_data.ipynb)).
# - **Clients that may lie.** A well-formed false update goes undetected; a median withstands only few of them
#   ([13](13_clients_that_disagree_fail_or_lie.ipynb)).
# - **A proof of privacy with few clients.** Masks hide all but the sum. Noise that hides one client among a dozen
#   swamps the model ([16](16_what_the_server_may_see.ipynb)).
#
# It is not made for times to an event or for mixed models either.
#
# ## The answer
#
# Yes: in each round every client identifies features by its gradient, fits them by least squares and prunes, and the
# server averages the answers and prunes again. The thirty clients recover the signal on all 10 seeds, with errors below
# 1e-14; alone, 2 of 30 clients do (median). No measurement leaves its client.
#
# ## Predict, then change
#
# Each item changes one parameter. Guess what the curves will look like, then unfold.
#
# 1. **`sparsity: 7`.** There are two more nonzeros, and the same 20 rows. Will the federation need one more round, or
#    two?
#
#    <details><summary>What comes out</summary>
#
#    It fails. The orange curve stays at the top beside the grey one. Now $3\tau = 21$, one more than the rows, so an
#    exact solution fits whatever the truth is: the error after ten rounds is 1.14 in the median over ten seeds, no
#    better than the zero model. [19](19_how_few_rows.ipynb) is about this threshold.
#
#    ```text
#    [does not hold] start-together: 1.14 (0.631 to 1.71, 10 seeds)
#    ```
#
#    </details>
# 2. **`alpha: 0`.** All means are zero, and the clients differ only by their variances. What error does round 1 leave?
#
#    <details><summary>What comes out</summary>
#
#    It leaves 0.31 instead of 0.60, because no client has a mean that hides the signal, and 9 of 30 clients succeed
#    alone instead of 2.
#
#    ```text
#    relative errors: 1, 0.314, 0.0307, below 1e-14
#    [holds in part] start-alone: 9 of 30 clients (3 to 17, 10 seeds)
#    ```
#
#    </details>
# 3. **`n_clients: 5`.** This is a sixth of the voters. Are they still enough?
#
#    <details><summary>What comes out</summary>
#
#    With 20 rows they are: all ten seeds end below 1e-14. With 16 rows they are not always
#    ([19](19_how_few_rows.ipynb)).
#
#    ```text
#    [holds] start-together: below 1e-14 (10 seeds)
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
# Next: [19_how_few_rows](19_how_few_rows.ipynb), because twenty rows were enough for five nonzeros, but nothing here
# says how many a client needs, or what else distorts what it sees. (It is read second, and its number is the last
# because it was written last; 01 follows it.)
