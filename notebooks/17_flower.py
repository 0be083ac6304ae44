# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Does a run over Flower end in the same model?
#
# **Question.** The clients are now separate processes that exchange messages. Does a run end in the same model as in
# one process, and what is sent?
#
# [![Run this notebook](pictures/run.svg)](../README.md#three-ways-in)
#
# ![Objective against bytes that a client sends, over Flower and in one process](pictures/17_flower.png)
#
# Over Flower four methods have the same models as in one process, bit for bit, and a client of FedGradMP sends 196
# bytes in a round where one of dense FedAvg sends 8048.
#
# **What you will see**
# - what a server knows: a shape, a seed, and a method as JSON;
# - four methods on the simulation engine of [Flower](https://flower.ai), beside `simulate`;
# - a client that sends garbage, and sums under masks.
#
# **Where it stands in the paper.** Nowhere. The engine runs on one machine, without a network; its clients are
# processes that share only messages. It needs the extra `flower` of fgmp.

# %% tags=["parameters"]
n_clients = 6  # N
n_samples = 60  # rows of a client
n_features = 1000  # n
sparsity = 10  # tau
cohort_size = 4  # L, the clients of a round
rounds = 4  # rounds of every method
learning_rate = 0.1  # of the first-order methods
seed = 0  # of the data and of all runs

# %% tags=["hide-input"]
from book import check_parameters

check_parameters(globals(), {
    "int >= 3": "n_clients",
    "int >= 3 * sparsity": "n_samples",
    "int >= 20 * sparsity": "n_features",
    "int >= 1": "sparsity rounds",
    "2 <= int <= n_clients": "cohort_size",
    "float > 0": "learning_rate",
    "int >= 0": "seed",
})

# %% tags=["hide-input"]
import json
import tempfile
from functools import partial

import numpy as np

import fgmp
from book import METHODS, claim, panels
from book.over_flower import CountingGrid, sending_nan
from fgmp.flower import OverFlower, client_app, on_engine
from fgmp.run.serialization import to_json

# %%
shape = dict(n_clients=n_clients, n_samples=n_samples, n_features=n_features, sparsity=sparsity)
fed = fgmp.make_sparse_regression(**shape, heterogeneity=0.0, variance_decay=0.2, rng=seed)
known = fed.info
print(f"{len(known.n_rows)} clients with {known.n_rows} rows of {known.n_features} features, {known.loss}")

# %%
method = fgmp.FedGradMP(sparsity, local_iterations=2, batch_size=n_samples // 2)
print(json.dumps(json.loads(to_json(method)[0]), indent=1)[:230], "...")

# %% [markdown]
# The server knows this and no row, and sends none. A client makes the same method from the JSON, with classes that it
# has. `OverFlower` carries the messages and is passed to `simulate` instead of a federation. One session of the engine
# runs all methods, each client reads its own rows from a file, and in the run of seed 99 client 2 sends nan instead of
# its numbers.

# %%
first_order = dict(learning_rate=learning_rate, local_iterations=2)
runners = {
    "FedGradMP": method,
    "FedIterHT": fgmp.FedIterHT(sparsity=sparsity, **first_order),
    "SharedSupportGradMP": fgmp.SharedSupportGradMP(sparsity),
    "FedAvg": fgmp.FedAvg(**first_order),
}
secure = fgmp.SecureSum()
plan = dict(rounds=rounds, cohort_size=cohort_size, rng=seed)


# %%
def load(context, settings):
    with np.load(f"{settings['folder']}/{context.node_config['partition-id']}.npz") as file:
        return file["A"], file["y"]


# %%
def count_replies(grid, counts, run):
    counts.append((grid.up, grid.n_up))


def serve(grid):
    grid = CountingGrid(grid)
    clients = OverFlower(grid, fed.loss, n_clients, settings={"folder": folder})
    runs, sent = {}, {}
    for name, each in runners.items():
        sent[name] = []
        watch = partial(count_replies, grid, sent[name])
        runs[name] = fgmp.simulate(each, clients, **plan, callbacks=watch)
        sent[name] = np.array(sent[name]) - sent[name][0]  # [round, bytes or messages]
    runs["liar"] = fgmp.simulate(method, clients, rounds, rng=99)
    runs["secure"] = fgmp.simulate(runners["FedAvg"], clients, rounds, rng=seed, aggregator=secure)
    return runs, sent


# %%
with tempfile.TemporaryDirectory() as folder:
    for place, client in enumerate(fed.clients):
        np.savez(f"{folder}/{place}.npz", A=client.features, y=client.targets)
    app = client_app(load, mods=[sending_nan(client_id=2, seed=99)])
    runs, sent = on_engine(serve, app, n_clients)

# %%
here = {name: fgmp.simulate(each, fed, **plan) for name, each in runners.items()}


# %% [markdown]
# ## The same model, from these bytes
#
# **Guess first.** A client of SharedSupportGradMP sends a sketch and the normal equations on at most thirty features.
# How many bytes is that in a round, compared with 196 of FedGradMP and 8048 of FedAvg?

# %%
def bytes_in_a_round(sent_so_far):
    """What a client sends in a round: the size of a message, times the messages of a client in a round."""
    n_bytes, n_messages = sent_so_far[-1]
    return n_bytes / n_messages * round(n_messages / (rounds * cohort_size))


for name in runners:
    numbers = runs[name].history["bytes_up"][-1] / (rounds * cohort_size)
    in_all = bytes_in_a_round(sent[name])
    print(f"{name}: a client sends {in_all:.0f} bytes in a round, of which {numbers:.0f} are numbers")

# %% tags=["headline", "hide-input"]
fig, ax = panels(width=6.4, height=3.4)
for name in runners:
    bytes_of_client = sent[name][1:, 0] / cohort_size
    colour = METHODS[name]["color"]
    there = runs[name].history["objective"][1:]
    ax.loglog(bytes_of_client, there, "o-", mfc="none", ms=9, color=colour, label=name)
    ax.plot(bytes_of_client, here[name].history["objective"][1:], "x", color=colour)
ax.plot([], [], "ko", mfc="none", ms=9, label="over Flower")
ax.plot([], [], "kx", label="in one process")
ax.set(xlabel="bytes that a client has sent so far, names and frames included", ylabel="objective")
_ = ax.legend(loc="upper left", bbox_to_anchor=(1, 1))


# %% [markdown]
# *Every cross is in its circle: the objectives are the same. There is one mark a round. Do not compare the methods:
# the learning rate of FedIterHT and FedAvg is not tuned.* SharedSupportGradMP sends almost as much as FedAvg, which is
# worth it if clients have few rows ([14_add_up_before_deciding](14_add_up_before_deciding.ipynb)).

# %%
def same(there, here):
    columns = [name for name in there.history if name not in ("seconds", "objective")]
    alike = [np.array_equal(there.history[name], here.history[name]) for name in columns]
    near = np.allclose(there.history["objective"], here.history["objective"], rtol=1e-12, atol=0)
    return np.array_equal(there.x, here.x) and all(alike) and near


# %% [markdown]
# ## Garbage, and masks
#
# What client 2 sends is left out and counted, and the run is that of the others. FedAvg is a sum, so its answers can
# be sent under masks that cancel: the server gets noise and a total.

# %%
liar = runs["liar"]
print("left out:", dict(liar.rejected), " clients:", liar.history["clients"].tolist())

# %%
silent = fgmp.simulate(method, fgmp.Faulty(fed, fgmp.DropOut(clients=[2])), rounds, rng=99)

# %%
masked = fgmp.simulate(runners["FedAvg"], fed, rounds, rng=seed, aggregator=secure)

# %% [markdown]
# ## What was measured
#
# These are the claims of this chapter; [CLAIMS](../CLAIMS.md) has all.

# %% tags=["hide-input"]
ratio = bytes_in_a_round(sent["FedAvg"]) / bytes_in_a_round(sent["FedGradMP"])
claim("flower-bytes",
    f"over Flower, a client of dense FedAvg sends at least 20 times the bytes of FedGradMP, tau = {sparsity}, n = "
    f"{n_features}, names and frames included",
    round(float(ratio), 1), ratio >= 20, source="ours, fgmp.flower", expected="at least 20")

alike = [same(runs[name], here[name]) for name in runners]
claim("flower-same-bits",
    "runs on Flower's simulation engine end in the model of one process, bit for bit, with the same bytes and clients "
    f"and, but for rounding, objectives, {cohort_size} of {n_clients} clients in a round",
    f"{sum(alike)} of {len(alike)} methods", alike, source="check, fgmp.flower", expected="all methods")

alike = np.array_equal(liar.x, silent.x)
claim("flower-liar", "a client that sends what is no number over Flower leaves the run as if it had sent nothing",
    "same bits" if alike else "other bits", alike, source="check, fgmp.flower", expected="same bits")

alike = same(runs["secure"], masked)
claim("flower-secure",
    "secure sums over Flower have the model, the bytes and the objectives of secure sums in one process",
    "same bits" if alike else "other bits", alike, source="check, fgmp.flower", expected="same bits")

# %% [markdown]
# ## The answer
#
# Yes: the four methods end in the same models as in one process, bit for bit, because the random numbers of a client
# depend only on the seed, the round and its id. A client of FedGradMP sends 196 bytes a round, of which 120 are
# numbers, and one of FedAvg 41.1 times as many. A client that sends nan is left out and counted, and sums under masks
# are those of one process. What a real network adds, certificates, keys and machines that fail, is in
# [examples/hospitals](../examples/hospitals/README.md), with the exact commands.
#
# ## Predict, then change
#
# 1. **`sparsity: 20`.** With twice as many atoms, whose marks move to the right, and does SharedSupportGradMP stay to
#    the left of FedAvg?
#
#    <details><summary>What comes out</summary>
#
#    A client of FedGradMP sends 319 bytes instead of 196, and one of FedAvg 8048 as before. SharedSupportGradMP is far
#    to the right of FedAvg, because the normal equations grow with the square of the sparsity.
#
#    ```text
#    FedGradMP: a client sends 319 bytes in a round, of which 240 are numbers
#    SharedSupportGradMP: a client sends 19633 bytes in a round, of which 19536 are numbers
#    FedAvg: a client sends 8048 bytes in a round, of which 8000 are numbers
#    ```
#
#    </details>
# 2. **`n_features: 10000`.** Which method sends ten times as much? And do all four claims still hold?
#
#    <details><summary>What comes out</summary>
#
#    FedAvg, whose client sends 408 times what one of FedGradMP does; SharedSupportGradMP sends five times as much as
#    before. The last claim no longer holds: `learning_rate: 0.1` is too large for so many features, FedAvg diverges,
#    and its objective leaves the range of a secure sum, about four million. So it is nan, over Flower as in one
#    process, and the comparison counts nan as a difference.
#
#    ```text
#    FedGradMP: a client sends 196 bytes in a round, of which 120 are numbers
#    SharedSupportGradMP: a client sends 33532 bytes in a round, of which 33430 are numbers
#    FedAvg: a client sends 80053 bytes in a round, of which 80000 are numbers
#    [holds] flower-bytes: 408
#    [does not hold] flower-secure: other bits
#    ```
#
#    </details>
# 3. **`rounds: 20`.** Where do the two curves that fall end, and does a client send more bytes in a round when the run
#    is longer?
#
#    <details><summary>What comes out</summary>
#
#    They stay at rounding, and their marks only move to the right. A client of FedGradMP sends 196 bytes in every
#    round, whatever has been found. SharedSupportGradMP sends a little more a round than in four, because in the first
#    round its model is empty and the equations are shorter.
#
#    ```text
#    FedGradMP: a client sends 196 bytes in a round, of which 120 are numbers
#    ```
#
#    </details>
#
# ## References
#
# - D. J. Beutel et al., *Flower: a friendly federated learning research framework*, arXiv 2007.14390, 2020.
# - K. Bonawitz et al., *Practical secure aggregation for privacy-preserving machine learning*, CCS 2017.
#
# Next: [18_errata_checked](18_errata_checked.ipynb), which checks the paper's formulas.
