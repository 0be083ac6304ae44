# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What the server may see: in the open, under masks, with noise
#
# **Question.** No row leaves a client, but gradients and sums do. What can a server read in them, what do masks hide,
# and what does noise cost?
#
# [![Run this notebook](pictures/run.svg)](../README.md#three-ways-in)
#
# ![A digit, its gradient in the open and under masks, and means over thirty](pictures/16_what_the_server_may_see.png)
#
# A client that holds a single image and sends its gradient in the open has sent the image. Under masks the server gets
# noise, and the mean over thirty clients, which resembles some images and shows none exactly. Noise on that mean
# limits what it reveals about any one of them, here to a factor of 7.4, which is weak; it also hides most of the mean.
#
# **What you will see**
# - an image read from a gradient;
# - a round of secure sums by hand, with three clients, and one in which a client is lost;
# - secure sums in the library: what a run recovers, and what it costs in bytes;
# - how good a model is under differential privacy, with 12 to 3000 clients.
#
# **Where it stands in the paper.** Nowhere: there clients send their models in the open. The protocol and the
# accounting of noise are taken from the references. Every promise of the package, to whom it is made, and what breaks
# it, is in [the promises](../docs/promises.md).

# %% tags=["parameters"]
n_clients = 30  # clients with one image each
image_epsilon = 2.0  # epsilon of the noise in the first picture
private_clients = [12, 100, 1000, 3000]  # N under noise; three seeds, one where N is above 1000
epsilons = [0.5, 2.0, 8.0]  # epsilon of a whole run
seed = 0  # of the images and of the masks

# %% tags=["hide-input"]
from book import check_parameters

check_parameters(globals(), {
    "2 <= int <= 1000": "n_clients",
    "float > 0": "image_epsilon",
    "list[int] >= 2": "private_clients",
    "increasing list[float] > 0": "epsilons",
    "int >= 0": "seed",
})

# %% tags=["hide-input"]
import warnings
from itertools import product

import numpy as np
from sklearn.datasets import load_digits

import fgmp
from book import METHODS, alt, claim, curve, each, floor, images, panels

# %% [markdown]
# ## An image, read out of a gradient
#
# Thirty clients hold one image each, 64 pixels and a digit. The model is zero, and each sends the gradient of its
# softmax loss, one row for each digit. For the digit that the image shows, that row is the image itself times $-0.9$;
# for each other digit it is the image times $0.1$.

# %%
rng = np.random.default_rng(seed)
pixels, digits = load_digits(return_X_y=True)
mine = rng.permutation(len(digits))[:n_clients]
labels = np.arange(10)
gradients = [np.outer(1 / 10 - (labels == digits[i]), pixels[i] / 16) for i in mine]


# %% [markdown]
# Now the same under masks. Each pair of clients draws one mask, which one adds and the other subtracts. Numbers and
# masks are whole multiples of $2^{-40}$ modulo $2^{64}$, and each value of a mask is equally likely.

# %%
def encoded(values):
    return np.round(values * 2.0**40).astype(np.int64).view(np.uint64)


def masked(vectors):
    """The vectors with one mask for each pair, which the first of the two adds and the second subtracts."""
    sent = [encoded(vector) for vector in vectors]
    for first in range(len(sent)):
        for second in range(first + 1, len(sent)):
            mask = rng.integers(0, 2**64, sent[0].shape, dtype=np.uint64)
            sent[first] = sent[first] + mask
            sent[second] = sent[second] - mask
    return sent


sent = masked(gradients)
total = np.sum(sent, axis=0, dtype=np.uint64).view(np.int64) / 2.0**40
apart = np.abs(total - np.sum(gradients, axis=0)).max()
print(f"the sum of what was sent is the sum of the gradients up to {apart:.1g}")

# %% [markdown]
# The sum is right, and nothing of one client can be seen. Noise is added to a sum. Each client's vector is clipped to
# a length $C$, so that replacing a client moves the mean by at most $2C/N$, and the noise in each entry is a multiple
# of that: `fgmp.GaussianNoise` computes the smallest one for which probabilities change by a factor of at most
# $e^\epsilon$.

# %%
lengths = [np.linalg.norm(gradient) for gradient in gradients]
clip = float(np.median(lengths))
clipped = [gradient * min(1, clip / length) for gradient, length in zip(gradients, lengths, strict=True)]
fed = fgmp.Federation.from_arrays([pixels[[i]] for i in mine], [digits[[i]].astype(float) for i in mine])
multiple = fgmp.GaussianNoise(image_epsilon, clip, insecure_seed=seed).for_run(fed.info, n_clients, 1, 1).multiplier
noisy = np.mean(clipped, axis=0) + rng.normal(0, multiple * 2 * clip / n_clients, gradients[0].shape)

# %% tags=["headline", "hide-input"]
tables = (-gradients[0], sent[0].view(np.int64), -total, -noisy)
pictures = [np.reshape(row, (8, 8)) for row in (pixels[mine[0]], *(table[digits[mine[0]]] for table in tables))]
titles = ["image of client 1", "its gradient\nin the open", "the same\nunder masks", f"mean over {n_clients}",
    f"mean, noise for\nepsilon {image_epsilon:g}"]
fig = images(pictures, titles, width=1.45, cmap="gray_r")
alt(fig, """Five pictures of 8 x 8 pixels: a digit; its gradient, which is the digit; noise under masks; a blurred mean
    over the clients; and the mean with noise, in which little is left.""")


# %% tags=["hide-input"]
def likeness(table, i):
    """The correlation of an image with the row of its digit, sign aside."""
    return abs(np.corrcoef(pixels[i], np.asarray(table[digits[i]], dtype=float))[0, 1])


seen = {
    "in the open": [likeness(g, i) for g, i in zip(gradients, mine, strict=True)],
    "under masks": [likeness(s.view(np.int64), i) for s, i in zip(sent, mine, strict=True)],
    "in the sum": [likeness(total, i) for i in mine],
    "in the sum with noise": [likeness(noisy, i) for i in mine],
}
for where, values in seen.items():
    print(f"{where:22} correlation with an image {np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")

# %% [markdown]
# The correlations under masks are those of 64 random numbers with an image. The sum still resembles many of the
# images, because digits look alike: a sum is meant to describe the group. With few clients it describes each (the
# first of the changes below).
#
# ## A round of secure sums, by hand
#
# If a client is lost, the masks of its pairs stay in the sum. So each client also adds a mask of its own, and gives
# shares of its secrets to the others beforehand. Take three clients with one number each, and one byte on the wire:

# %%
values = np.array([37, 5, 250])  # 250 is -6 modulo 256
pairs = {(0, 1): 201, (0, 2): 14, (1, 2): 99}  # agreed on by two clients each
own = np.array([77, 160, 3])  # each client's own mask
wire = values + own
for (first, second), mask in pairs.items():
    wire[first] += mask
    wire[second] -= mask
wire %= 256
print("on the wire", wire, "with the sum", wire.sum() % 256)
print("less the own masks, which the clients open:", (wire.sum() - own.sum()) % 256)
print("the sum of the values:", values.sum() % 256)

# %% [markdown]
# Own masks are opened only for clients whose number has arrived. For a client that was lost after the masks were
# agreed on, the others open a secret that gives the masks of its pairs in this one sum, and not its own mask, never
# both. Client 3 sends nothing.
#
# **Guess first.** Which of the masks above must be opened for the server to find the sum of the other two?

# %%
opened = own[0] + own[1] + pairs[0, 2] + pairs[1, 2]
print("on the wire", (wire[0] + wire[1]) % 256, "and masks that are opened", opened % 256)
print("the difference:", (wire[0] + wire[1] - opened) % 256, "and the sum of the two values:", values[0] + values[1])

# %% [markdown]
# ## For real
#
# `simulate(..., aggregator=fgmp.SecureSum())` does this with X25519 keys, ChaCha20 masks and Shamir's shares; the
# estimators do it with `secure=True`. Clients agree on keys once in a run. The first sum of a session takes four trips
# between the server and the clients, and each later one a single one, until a client is lost and a new session begins.
# A sum that, together with earlier ones, would reveal a single client is not opened.
#
# Ten clients find five of a thousand atoms, and each is lost in a round with probability 0.1:

# %%
ten = fgmp.make_sparse_regression(10, 30, 1000, 5, heterogeneity=0.0, variance_decay=0.2, rng=0)
lossy = fgmp.Faulty(ten, fgmp.DropOut(probability=0.1))
recovered = 1e-6  # relative error that counts as exact recovery


def megabytes_until_recovered(run):
    first = np.argmax(run["relative_error"] <= recovered)
    return (run["bytes_up"] + run["bytes_down"])[first] / 1e6


def both_ways(seed):
    sums = (fgmp.SecureSum(threshold=5), fgmp.Mean())
    runs = [fgmp.simulate(fgmp.SharedSupportGradMP(5), lossy, 10, rng=seed, aggregator=how).history for how in sums]
    return [(run["relative_error"][-1], megabytes_until_recovered(run)) for run in runs]


# %%
errors, megabytes = np.moveaxis(each(both_ways, zip(range(3))), -1, 0)
print(f"megabytes until recovery is exact: {megabytes[0, 0]:.2g} under masks, {megabytes[0, 1]:.2g} in the open")

# %% [markdown]
# The protocol adds keys, encrypted shares and opened shares: bytes and work grow with the square of the cohort up to
# 129 clients, and in larger cohorts each client has about 128 neighbours. [The promises](../docs/promises.md) list
# costs and attacks that were tried.
#
# ## The price of noise
#
# Two sums, with and without a client, still reveal it. `aggregator=fgmp.GaussianNoise(epsilon, clip)` clips what each
# client adds to a sum, and adds noise. Whether a client (a whole hospital, not one patient) has these data or others
# then changes the probability of any model by a factor of at most $e^\epsilon$, up to $\delta = 10^{-5}$. That factor
# is 1.6 at epsilon 0.5, 7.4 at 2 and 2981 at 8: only the smallest of the three hides a client well, and the largest
# promises next to nothing. The server adds the noise. It protects against whoever sees the model, not against the
# server (for that there is `aggregator=fgmp.SecureSum()`).
#
# Noise is divided by the number of clients, so that number decides. The runs have 50 features, three atoms, ten rows a
# client, and clips from other data of the same kind; a consortium of hospitals may have 12 clients. They use an
# `insecure_seed`, so that the figure can be repeated: whoever knows it can remove the noise.

# %%
NOISY = {  # a method, its rounds, its clips
    "SharedSupportGradMP": (fgmp.SharedSupportGradMP(3), 1, (2.0, 2.0)),
    "FedGradMP": (fgmp.FedGradMP(3, local_iterations=2), 2, 1.0),
    "FedAvg": (fgmp.FedAvg(learning_rate=0.1, local_iterations=5), 4, 0.5),
}


# %%
def private(N, seed):
    """The relative error of each method for each epsilon."""
    alike = dict(heterogeneity=0.0, variance_decay=0.0, noise_variance=0.01)
    fed = fgmp.make_sparse_regression(N, 10, 50, 3, **alike, rng=seed)
    ends = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fgmp.AdviceWarning)  # of the seed, which protects nobody
        for (method, T, clip), epsilon in product(NOISY.values(), epsilons):
            noise = fgmp.GaussianNoise(epsilon, clip, insecure_seed=seed)
            ends.append(fgmp.simulate(method, fed, T, rng=seed, aggregator=noise).x)
    off = [np.linalg.norm(x - fed.truth) / np.linalg.norm(fed.truth) for x in ends]
    return np.reshape(off, (len(NOISY), len(epsilons)))


# %%
private_errors = {}
for N in private_clients:
    found = each(private, [(N, k) for k in range(3 if N <= 1000 else 1)])
    private_errors |= {(N, name): table for name, table in zip(NOISY, np.swapaxes(found, 0, 1), strict=True)}

# %% tags=["hide-input"]
fig, axes = panels(2, -(-len(private_clients) // 2), width=3.7, height=2.6, sharey=True, squeeze=False)
for ax, N in zip(axes.flat, private_clients, strict=False):
    for name in NOISY:
        curve(ax, epsilons, private_errors[N, name], name, **METHODS[name])
    floor(ax, 1.0, "zero model")
    ax.set(title=f"{N} clients" + " (one seed)" * (N > 1000), xscale="log", yscale="log", ylabel="relative error")
    ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    ax.minorticks_off()
for ax in axes.flat[len(private_clients) :]:
    ax.set_visible(False)
for ax in axes[-1]:
    ax.set_xlabel("epsilon of the run")
legend = fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
alt(fig, """Relative error against epsilon, a panel for each number of clients: with twelve clients no method is below
    the zero model at small epsilon; with more clients the errors fall.""")

# %% [markdown]
# *Median and range over three seeds, and one seed with 3000 clients.* FedGradMP is better in the middle: its models
# are short, a client has enough rows here to solve alone, and no noisy matrix has to be inverted. With many clients
# the sums are better, because their noise shrinks with $1/N$ and averages of local solutions do not limit them. FedAvg
# is far from converged after four rounds, which is all that the budget allows.

# %% tags=["hide-input"]
middle = len(epsilons) // 2
for N, name in product(private_clients, ("SharedSupportGradMP", "FedGradMP")):
    end = np.median(private_errors[N, name][:, middle])
    print(f"epsilon {epsilons[middle]:g}, {N:5} clients: {name:20}{end:.2g}")

# %% [markdown]
# ## What was measured
#
# These are the claims of this chapter; [CLAIMS](../CLAIMS.md) has all.

# %% tags=["hide-input"]
in_the_clear = np.array(seen["in the open"])
claim("server-open",
    f"digits, {n_clients} clients with one image: the correlation of an image with the gradient that its client sends "
    "in the open", f"at least {in_the_clear.min():.3f} at each client", in_the_clear > 0.999,
    source="ours", expected="above 0.999")

under_masks, in_the_open = errors.T <= recovered
claim("sums-secure",
    "under masks, with a tenth of the clients lost in every round, recovery is exact where it is in the open",
    f"{under_masks.sum()} and {in_the_open.sum()} of {len(under_masks)} seeds", under_masks == in_the_open,
    source="check, SecureSum", expected="the same on every seed")

# %% [markdown]
# ## The answer
#
# In the open a server can learn what a client has: the gradient of one image is the image. Under masks it gets noise
# and one sum; recovery is exact wherever it is in the open, and ten clients send 0.14 MB until then instead of 0.076.
# Noise protects against whoever sees the model, but a dozen clients are too few: at epsilon = 2 both methods end above
# the error of the zero model. With 100 clients FedGradMP ends at a relative error of 0.3.
#
# ## Predict, then change
#
# 1. **`n_clients: 2`.** Masks also work for two clients. What does the sum reveal?
#
#    <details><summary>What comes out</summary>
#
#    Almost everything: the sum has a correlation of 0.98 to 0.99 with each image. And each of the two can subtract its
#    own part and has the other's exactly. Masks need many clients, and so the package refuses what would rest on one.
#
#    ```text
#    under masks            correlation with an image 0.02 (0.00 to 0.04)
#    in the sum             correlation with an image 0.99 (0.98 to 0.99)
#    ```
#
#    </details>
# 2. **`image_epsilon: 1000`.** A report might call this differentially private. What is left of the image?
#
#    <details><summary>What comes out</summary>
#
#    Nearly as much as in the mean without noise: 0.73 instead of 0.76. Epsilon is an exponent, and a factor of
#    $e^{1000}$ promises nothing.
#
#    ```text
#    in the sum             correlation with an image 0.76 (0.06 to 0.91)
#    in the sum with noise  correlation with an image 0.73 (0.09 to 0.89)
#    ```
#
#    </details>
# 3. **`private_clients: [300]`.** Between 100 clients, where FedGradMP is ahead at epsilon = 2, and 3000, where the
#    sums are: who is ahead at 300?
#
#    <details><summary>What comes out</summary>
#
#    FedGradMP, and by more than at 100: 0.067 against 0.17 at epsilon = 2 (before: 0.3 against 0.53 at 100 clients,
#    and nearly level at 1000). With ten rows for three atoms a client can solve alone. The sums are ahead only if
#    their noise is below the error at which an average of local solutions ends, about 0.04.
#
#    ```text
#    epsilon 2,   300 clients: FedGradMP           0.067
#    epsilon 2,   300 clients: SharedSupportGradMP 0.17
#    ```
#
#    </details>
#
# ## References
#
# - K. Bonawitz et al., *Practical secure aggregation for privacy-preserving machine learning*, CCS 2017.
# - J. Bell, K. Bonawitz, A. Gascon, T. Lepoint, M. Raykova, *Secure single-server aggregation with (poly)logarithmic
#   overhead*, CCS 2020: neighbours in large cohorts.
# - L. Zhu, Z. Liu, S. Han, *Deep leakage from gradients*, NeurIPS 2019: images out of gradients of deeper models.
# - H. B. McMahan et al., *Learning differentially private recurrent language models*, ICLR 2018.
# - Y.-X. Wang, B. Balle, S. Kasiviswanathan, *Subsampled Renyi differential privacy and analytical moments accountant*,
#   AISTATS 2019.
#
# Next: [17_flower](17_flower.ipynb), because all of this was one process, and messages have to travel.
