# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Video and K-SVD: can clients with thirty measurements each recover a frame?
#
# **Question.** A frame of a clip has 76,800 pixels. Fifty clients measure it, thirty numbers each, with matrices that
# differ. They know a dictionary that was learnt from earlier frames. Can they recover the frame together, as
# well as the dictionary allows?
#
# ![The frame, and the frame that FedGradMP recovers from thirty measurements a client](pictures/02_video_ksvd.png)
#
# Fifty clients with thirty measurements each recover a frame of 76,800 pixels, as five numbers on atoms that were
# learnt from earlier frames. What is missing is what no five atoms can show.
#
# **What you will see**
# - a clip, and the atoms that K-SVD learns from its first 80 frames;
# - how close five atoms can come to a later frame at all: the floor; and how close a guess comes: the mean frame;
# - the frame that FedGradMP recovers, and its difference to the true one;
# - the error against the floor round by round, and against the number of clients.
#
# **Where it stands in the paper.** Figure 2 (Section V-A, real data). The paper uses a clip that ships with MATLAB and
# may not be redistributed. By default this notebook uses a clip composed from two photographs that come with
# scikit-learn; the parameter `video` takes any file.

# %% tags=["parameters"]
video = None  # path of a video file with a fixed camera (None is the embedded clip)
height = 240  # height of a frame in pixels
width = 320  # width of a frame in pixels
n_training = 80  # frames 1 to n_training are what the dictionary learns from
frame_number = 82  # the frame to recover, counted from 1
n_atoms = 50  # d, atoms of the dictionary
sparsity = 5  # tau, atoms of the recovered frame and of each training frame
n_clients = 50  # N, clients that measure the frame
n_samples = 30  # |D_i|, measurements of each client
alpha = 0.5  # heterogeneity, the variance of the clients' means
variance_decay = 0.9  # p: the entries of client i have variance 1/i^p
local_iterations = 3  # K, iterations of a client in one round
rounds = 6  # T, rounds of communication
fewer_clients = [1, 3, 10]  # numbers of clients to compare with all of them
within = 1.05  # the recovery should end within this factor of the floor
n_seeds = 6  # seeds: dictionaries and measurements drawn anew

# %%
from book import check_types

check_types(globals(), {
    str | None: "video",
    int: "height width n_training frame_number n_atoms sparsity n_clients n_samples "
         "local_iterations rounds n_seeds",
    float: "alpha variance_decay within",
    list[int]: "fewer_clients",
})
assert min(height, width) >= 16, f"{height=}, {width=}: expected at least 16"
assert n_training >= n_atoms, f"{n_training=}: expected at least {n_atoms=}"
assert frame_number >= n_training + 1, f"{frame_number=}: expected at least {n_training + 1=}"
assert 1 <= sparsity <= n_atoms, f"{sparsity=}: expected 1 to {n_atoms=}"
assert min(n_clients, n_samples) >= 1, f"{n_clients=}, {n_samples=}: expected each at least 1"
assert min(local_iterations, rounds) >= 1, f"{local_iterations=}, {rounds=}: expected each at least 1"
assert min(fewer_clients) >= 1 and max(fewer_clients) <= n_clients, f"{fewer_clients=}: expected each 1 to {n_clients=}"
assert alpha >= 0, f"{alpha=}: expected at least 0"
assert n_seeds >= 2 and within > 1, f"{n_seeds=}, {within=}: expected at least 2, and above 1"

# %%
from math import comb
from pathlib import Path

import numpy as np

import fgmp
from fgmp.datasets import load_video, make_sensing, photo_clip
from fgmp.dictionary_learning import fit_ksvd
from fgmp.theory import approx_tau
from book import METHODS, claim, curve, each, floor, images, name_lines, panels

# %% [markdown]
# ## The clip

# %%
if video is None:
    name, clip = "the embedded clip", photo_clip(max(120, frame_number), height, width)
else:
    name, clip = Path(video).stem, load_video(video, height=height, width=width, n_frames=frame_number)
training, frame = clip[:n_training], clip[frame_number - 1]
print(f"{name}: {n_training} training frames of {height} x {width} = {height * width:,} pixels")

# %%
shown = [1, n_training // 2, n_training, frame_number]
_ = images([clip[i - 1] for i in shown], [f"frame {i}" for i in shown], columns=2, vmin=0, vmax=1)

# %% [markdown]
# The camera does not move, something in front of it does. Frames that look alike have a sparse description: a few
# prototypes, added with weights. K-SVD learns the prototypes. Write the training frames as columns of $X$. It looks
# for a dictionary $\Psi$ with columns of length one, the **atoms**, and codes $C$ that make
#
# $$\|X - \Psi C\|_F^2 \quad \text{small, where each column of } C \text{ has at most } \tau \text{ nonzero entries}.$$
#
# It alternates two steps. It codes each frame by greedy selection (orthogonal matching pursuit). Then it refits one
# atom at a time, with the weights that use it, by the best rank-one approximation of what the other atoms leave.
#
# All frames lie in a space of only 80 dimensions, and so do all atoms. Working in coordinates of that space gives the
# same dictionary as working on 76,800 pixels, in a second.

# %%
fit = fit_ksvd(training, n_atoms, sparsity, rng=0)
used = np.argsort(-np.abs(fit.codes).sum(axis=1))[:6]
pictures = [fit.dictionary.atoms[:, k].reshape(height, width) for k in used]
_ = images(pictures, [f"atom {k}" for k in used], columns=2, width=3)

# %% [markdown]
# *The six atoms that the training frames use most, each on its own grey scale.*
#
# The first atom starts as the mean of the frames; it holds what does not move. The others start as what single frames
# add to it. Differences of positions show as a bright copy of the moving thing beside a dark one.
#
# ## The floor
#
# The frame to recover is not among the training frames, and no combination of five atoms equals it. No method can do
# better than the best one. `approx_tau` tries all two million supports for it, and tells how good greedy selection is:
# $\eta$ is the distance of the greedy choice divided by the smallest one. (With more than five million supports we do
# not try them all, and the floor is what greedy selection leaves.)

# %%
n_supports = comb(n_atoms, sparsity)
choice = "best" if n_supports <= 5_000_000 else "greedily chosen"


# %%
def distances(dictionary):
    """From the frame to its `choice` of atoms, which is the floor, and to those of greedy selection."""
    if choice == "best":
        found = approx_tau(dictionary, frame.ravel(), sparsity)
        return found.best_error, found.error
    atoms = dictionary.atoms[:, dictionary.select_atoms(dictionary.atoms.T @ frame.ravel(), sparsity)]
    greedy = np.linalg.norm(frame.ravel() - atoms @ np.linalg.lstsq(atoms, frame.ravel(), rcond=None)[0])
    return greedy, greedy


# %%
size = np.linalg.norm(frame)
smallest, greedy = distances(fit.dictionary)

# %%
print(f"the {choice} {sparsity} atoms miss {100 * smallest / size:.3g} % of the frame")
if choice == "best":
    print(f"greedy selection comes within a factor eta = {greedy / smallest:.3g} of that")
else:
    print(f"there are {n_supports:.2g} supports, too many to look for the best one")

# %% [markdown]
# And the other end of the scale: a guess without any measurement. The **mean training frame** holds all that does not
# move, so it is not a bad picture. A recovery has to be better than that to be worth a measurement.

# %%
trivial = np.linalg.norm(frame - training.mean(axis=0)) / size
print(f"the mean training frame misses {100 * trivial:.3g} % of the frame")

# %% [markdown]
# ## What the clients measure
#
# Client $i$ knows $y_i = A_i x^\#$, where $x^\#$ is the frame as a vector. The entries of $A_i$ are normal with mean
# $\mu_i \sim N(0, \alpha)$ and variance $1/i^p$. One such matrix has 2.3 million entries, and fifty of them would fill
# almost a gigabyte. They are never stored. `make_sensing` keeps a seed for each client and draws the rows anew, a few
# at a time, whenever a product is asked for. FedGradMP asks once: it works with coefficients $c$ in $x = \Psi c$,
# and for that a client needs only $B_i = A_i \Psi$.

# %%
fed = make_sensing(frame.ravel(), n_clients, n_samples, alpha, variance_decay, rng=0)
stored = 8 * n_clients * n_samples * height * width
kept = 8 * n_samples * (n_atoms + 1)
print(f"the matrices A_i would fill {stored / 1e9:.3g} GB; a client keeps B_i and y_i, {kept / 1e3:.3g} kB")

# %% [markdown]
# ## One recovery

# %%
method = fgmp.FedGradMP(sparsity, local_iterations=local_iterations, dictionary=fit.dictionary)
result = fgmp.simulate(method, fed, rounds, rng=0)
recovered = result.x.reshape(height, width)
print(f"relative error {result.history['relative_error'][-1]:.3g}, floor {smallest / size:.3g}")
print(f"a client sends {result.history['bytes_up'][1] // n_clients} bytes in a round")

# %% tags=["headline"]
difference = frame - recovered
limit = np.abs(difference).max()
titles = [f"frame {frame_number}", "recovered by FedGradMP"]
titles += ["mean training frame", f"difference, from {-limit:.2f} to {limit:.2f}"]
shown = [frame, recovered, training.mean(axis=0), 0.5 + difference / (2 * limit)]
_ = images(shown, titles, columns=2, vmin=0, vmax=1)


# %% [markdown]
# *Figure 2 of the paper, and the mean training frame. All but the difference share a grey scale from 0 to 1; in the
# difference of the upper two, grey is zero.*
#
# What is still is recovered. What moves is there as well, at its place, but softened: five atoms are not enough for a
# position that none of the training frames shows. The next experiment tells how much of the difference is due to the
# dictionary, and how much to the clients.
#
# ## Over several seeds, and with fewer clients
#
# Each seed learns a dictionary of its own and draws new measurements. Each run is compared with the floor of its own
# dictionary. Fewer clients means the first of the fifty.

# %%
def ratios(seed):
    """Error over floor per round, for each number of clients; and the floor."""
    dictionary = fgmp.ksvd(training, n_atoms, sparsity, rng=seed)
    lowest, curves = distances(dictionary)[0] / size, []
    method = fgmp.FedGradMP(sparsity, local_iterations=local_iterations, dictionary=dictionary)
    for count in counts:
        fed = make_sensing(frame.ravel(), count, n_samples, alpha, variance_decay, rng=seed)
        curves.append(fgmp.simulate(method, fed, rounds, rng=seed).history["relative_error"] / lowest)
    return np.array(curves), lowest


# %%
counts = sorted({*fewer_clients, n_clients})
outcomes = each(ratios, zip(range(n_seeds)))
runs = np.array([curves for curves, _ in outcomes])  # [seed, number of clients, round]
final = runs[:, -1, -1]
lowest = np.array([value for _, value in outcomes])
medians = {count: float(f"{value:.3g}") for count, value in zip(counts, np.median(runs[:, :, -1], axis=0), strict=True)}
print("error / floor after the last round, by the number of clients:", medians)

# %%
fig, (left, right) = panels(2, width=4.2, height=3.3, sharey=True)
left.set(yscale="log", xlabel="round", ylabel="error / floor of the dictionary")
left.set_yticks([1, 2, 5, 10, 20], [1, 2, 5, 10, 20])
right.set(xscale="log", xlabel="number of clients")
right.set_xticks(counts, counts)
for ax, x, values in ((left, range(rounds + 1), runs[:, -1]), (right, counts, runs[:, :, -1])):
    curve(ax, x, values, "FedGradMP", **METHODS["FedGradMP"])
    floor(ax, trivial / np.median(lowest), "mean training frame", linestyle=":")
    floor(ax, 1.0, f"{choice} {sparsity} atoms")
    ax.minorticks_off()
name_lines(right)

# %% [markdown]
# *Lines are medians over the seeds, bands span all of them. Left: all clients, round by round. Right: after the last
# round, for fewer clients.*
#
# Most of the way is made in the first two rounds. Below the dotted line the measurements begin to pay. Even one client
# with thirty measurements ends at 1.42 times the floor in the median, though the band reaches beyond twice the floor.
# Three clients are at 1.08 times, ten at 1.03, and fifty at 1.03 as well. So fifty clients are hardly needed for this
# frame, and ten would do. What acts as noise here is the part of the frame that no atom describes; the average over
# clients takes much of it away, and what is left is the choice of the atoms: good ones, not always the best.

# %%
claim("fig2-floor",
    f"{name}, frame {frame_number}: {n_clients} clients with {n_samples} measurements recover it within a factor "
    f"{within:g} of the {choice} {sparsity} atoms",
    final, final <= within, source="ours, Figure 2", expected=f"at most {within:g}", unit="times the floor")
claim("fig2-trivial",
    f"{name}, frame {frame_number}: the recovered frame is nearer than the mean training frame, by a factor of 2",
    final * lowest / trivial, final * lowest / trivial <= 0.5, source="ours, Figure 2", expected="at most 0.5",
    unit="times the error of the mean training frame")

# %% [markdown]
# A seed misses the first limit when the clients agree on five atoms that are good, but not the best five: the answers
# are exact on those atoms and stay there.

# %%
claim("fig2-satisfactory",
    f"{name}, frame {frame_number}: in spite of heterogeneous measurements the error of the recovered frame is at "
    "most a tenth of the frame",
    final * lowest, final * lowest <= 0.1, source="paper, Figure 2, line 1196",
    expected="reasonably satisfactory quality")

# %% [markdown]
# ## What differs from the paper, and why
#
# - **The clip.** The paper's clip cannot be redistributed. Any other is one parameter away:
#   `papermill 02_video_ksvd.ipynb out.ipynb -y "{video: /path/to/clip.avi, within: 1.02}"`.
# - **Sparsity, local iterations, batch.** The paper does not state them for this experiment. We take $\tau = 5$,
#   $K = 3$ and the full batch of thirty rows.
# - **Quality.** The paper calls the picture reasonably satisfactory. We measure it against the best that the dictionary
#   allows, against the mean training frame, and against a tenth of the frame.
# - **The start of K-SVD.** K-SVD usually starts from training frames. Frames of a fixed camera are almost multiples of
#   one another, and the atoms stay that way. Starting from the mean and what frames add to it gives atoms that a few
#   measurements can tell apart.
# - **$\eta$.** For atoms that are not orthonormal, $\mathrm{approx}_\tau$ is greedy here, and the notebook prints how
#   far from the best choice it is.
#
# ## The answer
#
# Yes. The recovered frame misses 0.0501 of its norm in the median (0.0475 to 0.053 over 6 seeds), which is 1.03 times
# what the best 5 atoms leave; on one seed it is 1.1 times, so the factor of 1.05 is met on most seeds and not on all.
# The mean training frame misses 12.5 % of the frame, so the clip itself is no hard one: the recovery has 0.4 times that
# error. Fifty clients are more than it takes, for 10 of them end as near to the floor. A client sends 60 bytes in a
# round, and no sensing matrix is ever stored: they would fill 0.922 GB.
#
# ## Predict, then change
#
# Each line is a change of one parameter at the top. Guess first, then unfold.
#
# 1. **`alpha: 10`.** The means of the clients are over four times as large. In 01 that cost rounds. What will it cost
#    here?
#
#    <details><summary>What comes out</summary>
#
#    Quality, because the frame is not exactly sparse. The error rises from 1.03 to 1.16 times the floor in the median,
#    and to 1.32 on the worst seed; the frame misses 0.0558 of its norm, in place of 0.0501. The reason is probably the
#    part of the frame that no atom describes: its sum is multiplied by the mean of the client, so it is more noise to
#    clients with large means. We have not taken the two apart.
#
#    ```text
#    [does not hold] fig2-floor: 1.16 times the floor (1.01 to 1.32, 6 seeds)
#    [reproduced] fig2-satisfactory: 0.0558 (0.0475 to 0.0656, 6 seeds)
#    ```
#
#    </details>
# 2. **`sparsity: 10`.** Twice as many atoms. Does the frame come out better?
#
#    <details><summary>What comes out</summary>
#
#    No. It misses 0.0506 of its norm, in place of 0.0501, at 1.07 times a floor that is a little
#    lower (of greedy selection, for ten of fifty atoms are too many supports to try). Thirty rows are
#    now exactly $3\tau$, where [00_start_here](00_start_here.ipynb) had its cliff, but nothing falls off it here. Why
#    not, we have not measured.
#
#    ```text
#    the greedily chosen 10 atoms miss 4.71 % of the frame
#    there are 1e+10 supports, too many to look for the best one
#    [does not hold] fig2-floor: 1.07 times the floor (1.04 to 1.13, 6 seeds)
#    [reproduced] fig2-satisfactory: 0.0506 (0.0491 to 0.0537, 6 seeds)
#    ```
#
#    </details>
# 3. **`n_samples: 16`.** Half as many measurements a client, one more than $3\tau$. Do fifty clients make up for it?
#
#    <details><summary>What comes out</summary>
#
#    Nearly. The error is 1.06 times the floor in the median, in place of 1.03, and 1.24 on the worst seed. So fifty
#    clients make up for most of it, in the median, and less so on a bad seed.
#
#    ```text
#    [does not hold] fig2-floor: 1.06 times the floor (1.05 to 1.24, 6 seeds)
#    [reproduced] fig2-satisfactory: 0.0523 (0.0493 to 0.063, 6 seeds)
#    ```
#
#    </details>
#
# ## References
#
# - H. Jeong, D. Needell, J. Qin, *Federated Gradient Matching Pursuit*, IEEE Transactions on Information Theory 70(6),
#   4512-4537, 2024. [arXiv 2302.10755](https://arxiv.org/abs/2302.10755)
# - M. Aharon, M. Elad, A. Bruckstein, *K-SVD: an algorithm for designing overcomplete dictionaries for sparse
#   representation*, IEEE Transactions on Signal Processing 54(11), 4311-4322, 2006.
# - R. Rubinstein, M. Zibulevsky, M. Elad, *Efficient implementation of the K-SVD algorithm using batch orthogonal
#   matching pursuit*, Technion, CS-2008-08, 2008.
#
# Next: [03_comparison_linear](03_comparison_linear.ipynb), because nothing so far says whether other methods would have
# done as well.
