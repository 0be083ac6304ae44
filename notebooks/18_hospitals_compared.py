# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Twelve hospitals compared: what sparsity costs, and what staying apart costs
#
# **Question.** Twelve hospitals want to predict the patients of one that they have never seen. What does it cost them
# in log loss to take few measurements, and what to keep their rows to themselves?
#
# ![Log loss on hospitals left out against the number of features, arm by arm](pictures/18_hospitals_compared.png)
#
# Every dot is a way to a model, judged on patients of a hospital that had no part in it; lines are the range over deals
# of the patients. Further left is sparser, further down is better. Only a hospital alone, with $\ell_1$ and a refit,
# pays for staying apart; and the dense ridge, at the right, is as good as any.
#
# **What you will see**
# - five ways to a model (six with `abess`), judged by leaving one hospital out, where each chooses anew without that
#   hospital;
# - log loss, how alike the features stay when a hospital leaves, and what was sent;
# - on made-up data with five true features, how often five are chosen.
#
# **Where it stands in the paper.** It does not: it compares this project's estimators, whose use
# [17_your_own_data](17_your_own_data.ipynb) shows, with what scikit-learn does to rows in one place.

# %% tags=["parameters"]
n_sites = 12  # hospitals that the patients are dealt to
n_deals = 3  # deals of the patients to the hospitals
fixed = 5  # features of the arm whose number is given
n_seeds = 20  # seeds of the made-up data
peers = "no"  # "run" adds best subsets by abess, if it is installed

# %%
from book import check_types

check_types(globals(), {
    int: "n_sites n_deals fixed n_seeds",
    str: "peers",
})
assert 3 <= n_sites <= 20, f"{n_sites=}: expected 3 to 20"
assert min(n_deals, n_seeds) >= 1, f"{n_deals=}, {n_seeds=}: expected at least 1"
assert 1 <= fixed <= 29, f"{fixed=}: expected 1 to 29"
assert peers in ("no", "run"), f"{peers=}: expected 'no' or 'run'"

# %%
from importlib.util import find_spec
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fgmp
from book import claim, panels

# %% [markdown]
# ## Ways to a model
#
# An arm takes rows and their sites, and gives a model, its features, and what a site has sent, in kB and rounds. Three
# are federated: the number of features chosen by the sites ("cv"), given, and all of them: the dense ridge, from the
# same sums.

# %%
X, y = load_breast_cancer(return_X_y=True)
y = 1 - y  # 1 is malignant


# %%
def federated(sparsity):
    def fit(X, y, site):
        model = fgmp.FedGradMPClassifier(sparsity, random_state=0).fit(X, y, groups=site)
        sent = model.history_["bytes_up"][-1] / len(model.groups_) / 1000
        return model.predict_proba, model.support_, sent, model.history_["round"][-1]

    return fit


# %% [markdown]
# Two need all rows in one place: the usual $\ell_1$ penalty, of six strengths the one that cross-validation prefers,
# with a refit on the features that it leaves; and, if asked for, best subsets by `abess`, whose own cross-validation
# chooses among 1 to 20 features. The refit has the ridge that the estimators have.

# %%
OLD = LogisticRegression().penalty != "deprecated"  # before scikit-learn 1.8
L1 = dict(penalty="l1") if OLD else dict(l1_ratios=(1,), use_legacy_attributes=False)
STRENGTHS = np.geomspace(0.02, 5, 6)  # C


# %%
def refit(X, y, support):
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:, support], y)
    return lambda X: model.predict_proba(X[:, support]), support, np.nan, np.nan


# %%
def lasso(X, y, site):
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    how = dict(solver="liblinear", intercept_scaling=10, scoring="neg_log_loss", max_iter=500, random_state=0)
    search = LogisticRegressionCV(Cs=STRENGTHS, cv=folds, **how, **L1).fit(StandardScaler().fit_transform(X), y)
    return refit(X, y, np.flatnonzero(search.coef_))


# %%
def subsets(X, y, site):
    from abess import LogisticRegression as BestSubset

    search = BestSubset(support_size=range(1, 21), cv=5).fit(StandardScaler().fit_transform(X), y)
    return refit(X, y, np.flatnonzero(search.coef_))


# %%
ARMS = {"chosen by the sites": federated("cv"), f"{fixed} given": federated(fixed), "all (dense)": federated("all")}
ARMS |= {"l1 and refit, pooled": lasso}
if peers == "run" and find_spec("abess"):
    ARMS |= {"best subsets, pooled": subsets}


# %% [markdown]
# ## Judged at a hospital left out
#
# Deal the patients to the hospitals. Leave a hospital out, fit on the others, with every choice made anew, and predict
# its patients. Over all hospitals that gives a prediction of every patient, and one set of features for each hospital
# left out.
#
# How alike are these sets? Jaccard's index of two sets is the number of features in both over the number in either. Its
# mean over pairs grows with the size of the sets by chance alone, and so we also take the index of Nogueira, Sechidis
# and Brown, which is 0 for sets drawn at random and 1 for equal ones: one minus the variance of a feature's presence,
# averaged over the features, in units of what it is for random sets of that size.

# %%
def jaccard(supports):
    pairs = combinations([set(map(int, support)) for support in supports], 2)
    return np.mean([len(a & b) / len(a | b) for a, b in pairs])


# %%
def beyond_chance(supports, n_features):
    present = np.array([np.isin(range(n_features), support) for support in supports])
    share = present.mean()  # k / p: of the features, how many are taken
    return 1 - present.var(axis=0, ddof=1).mean() / (share * (1 - share)) if share < 1 else np.nan


# %%
def judged(fit, site):
    malignant, fits = np.empty(len(y)), []
    for left in np.unique(site):
        inside = site != left
        fits.append(fit(X[inside], y[inside], site[inside]))
        malignant[~inside] = fits[-1][0](X[~inside])[:, 1]
    supports, sent = [one[1] for one in fits], np.median([one[2:] for one in fits], axis=0)
    alike = [jaccard(supports), beyond_chance(supports, X.shape[1])]
    return [np.mean([*map(len, supports)]), log_loss(y, malignant), roc_auc_score(y, malignant), *alike, *sent]


# %% [markdown]
# And the last arm: a hospital alone, with $\ell_1$ and a refit on its own rows. Its model is judged on the patients of
# all others.

# %%
def alone(site):
    models = [lasso(X[site == one], y[site == one], None) for one in np.unique(site)]
    malignant = [model[0](X[site != one])[:, 1] for one, model in zip(np.unique(site), models, strict=True)]
    losses = [log_loss(y[site != one], p) for one, p in enumerate(malignant)]
    ranks = [roc_auc_score(y[site != one], p) for one, p in enumerate(malignant)]
    supports = [model[1] for model in models]
    alike = [jaccard(supports), beyond_chance(supports, X.shape[1])]
    return [np.mean([*map(len, supports)]), np.median(losses), np.median(ranks), *alike, 0, 0]


# %%
deals = [np.random.default_rng(seed).permutation(np.arange(len(y)) % n_sites) for seed in range(n_deals)]
measures = {name: np.array([judged(fit, site) for site in deals]) for name, fit in ARMS.items()}
measures["a hospital alone"] = np.array([alone(site) for site in deals])

# %% tags=["headline"]
COLOURS = dict(zip(ARMS, ("#D55E00", "#882255", "#0072B2", "#117733", "#8C510A"), strict=False))
fig, ax = panels(width=6.8, height=4.2)
for name, runs in measures.items():
    (features, loss), losses, colour = np.median(runs[:, :2], axis=0), runs[:, 1], COLOURS.get(name, "black")
    ax.vlines(features, losses.min(), losses.max(), color=colour)
    ax.plot(features, loss, "^" if "alone" in name else "s" if "pooled" in name else "o", color=colour, label=name)
ax.set(xlabel="features in the model", ylabel="log loss on hospitals left out", yscale="log", xlim=(0, 31))
ax.set_yticks([0.07, 0.1, 0.2, 0.3], [0.07, 0.1, 0.2, 0.3])
ax.minorticks_off()
ax.legend()
plt.show()

# %% [markdown]
# *Medians and ranges over the deals; squares need all rows in one place. The triangle is a hospital alone: the median
# of the hospitals, on the patients of all others.*
#
# The ranges are those of the deals only. All deals have the same 569 patients, so what other patients would change is
# not in them.
#
# What the picture does not show: whether the features stay, and what is sent.

# %%
print(f"{'medians over the deals':24}{'features':>9}{'log loss':>9}{'AUC':>7}{'Jaccard':>9}"
      f"{'beyond chance':>15}{'kB a site':>11}{'rounds':>8}")
for name, runs in measures.items():
    features, loss, auc, *alike, sent, rounds = np.median(runs, axis=0)
    words = [f"{value:.2f}" if value == value else "-" for value in np.round(alike, 2) + 0.0]
    words += [f"{value:.0f}" if value == value else "rows" for value in (sent, rounds)]
    print(f"{name:24}{features:9.1f}{loss:9.3f}{auc:7.3f}{words[0]:>9}{words[1]:>15}{words[2]:>11}{words[3]:>8}")

# %%
chosen = measures["chosen by the sites"]
ours = dict(source="ours")
say = f"breast cancer, {n_sites} hospitals left out one at a time, number of features chosen anew: "
claim("compared-loss", say + "log loss (each deal)", chosen[:, 1], np.median(chosen[:, 1]) <= 0.085, **ours,
    expected="at most 0.085 in the median")
claim("compared-features", say + "mean Jaccard index of the features (each deal)", chosen[:, 3],
    np.median(chosen[:, 3]) >= 0.75, **ours, expected="at least 0.75 in the median")
claim("compared-bytes", say + "kB that a site sends (each deal)", chosen[:, 5],
    chosen[:, 5] <= 500, **ours, expected="at most 500")

# %% [markdown]
# Two things to hold against this table. **The rule of choice was fixed on it.** That a choice is the smallest number
# within half a standard error of the lowest loss, out of up to 20, was settled after these 569 patients had been seen,
# so for the arm "chosen by the sites" they are no fresh test, and the bounds of the claims above record what was
# reached and test nothing. And **the dense ridge is as good**: it has the log loss of the chosen features, the same
# features whoever leaves, a fifth of the bytes, and an eighth of the rounds. If you do not need a short model, take
# `sparsity="all"`.

# %%
dense, ours_now = np.median(measures["all (dense)"], axis=0), np.median(chosen, axis=0)
print(f"dense over chosen: log loss {dense[1] / ours_now[1]:.2f}, bytes {dense[5] / ours_now[5]:.2f}, "
      f"rounds {dense[6]:.0f} for {ours_now[6]:.0f} (medians over the deals)")

# %% [markdown]
# Three deals are few, and best subsets are missing. Over ten deals, with `abess`
# ([a kept run](results/18_hospitals_compared-ten-deals.ipynb)), the table is this:
#
# | | features | log loss | AUC | Jaccard | beyond chance | kB a site | rounds |
# |---|---|---|---|---|---|---|---|
# | chosen by the sites | 16.3 | 0.078 | 0.995 | 0.82 | 0.77 | 269 | 49 |
# | 5 given | 5.0 | 0.097 | 0.993 | 0.89 | 0.92 | 51 | 13 |
# | all (dense) | 30.0 | 0.077 | 0.995 | 1.00 | - | 52 | 4 |
# | l1 and refit, pooled | 16.1 | 0.083 | 0.994 | 0.71 | 0.64 | rows | rows |
# | best subsets, pooled | 6.5 | 0.106 | 0.990 | 0.41 | 0.43 | rows | rows |
# | a hospital alone | 7.2 | 0.156 | 0.988 | 0.24 | 0.18 | 0 | 0 |
#
# Bytes and rounds of this run were counted before a fit sent sums for standard errors and for a check of units, which
# are two rounds more. The order is the same, and there is one arm more: the subsets of `abess` have 6.5 features in the
# median, are less alike than those of the $\ell_1$ penalty, and predict no better than five features that are given to
# the sites.
#
# What does the choice itself cost? The same number of features, given and not chosen, on all rows of each deal.

# %%
ratios = []
for site in deals:
    _, support, sent, rounds = federated("cv")(X, y, site)
    ratios.append([sent, rounds] / np.array(federated(len(support))(X, y, site)[2:]))
ratios = np.array(ratios)
claim("compared-choice", f"breast cancer, {n_sites} hospitals: rounds of a choice and its fit over those of the "
    "fit alone (each deal)", ratios[:, 1], ratios[:, 1] <= 4, **ours, expected="at most 4")


# %% [markdown]
# ## Where the truth is known
#
# On breast cancer nobody knows how many features are right. So make up data: 600 rows at 12 sites, 40 independent
# features of which five count, with coefficients of size 0.75 to 1.5 and noise of variance 1; for the classifier the
# log-odds are 1.5 times as large.

# %%
def made_up(seed, kind):
    rng = np.random.default_rng(seed)
    X, truth = rng.standard_normal((600, 40)), np.zeros(40)
    truth[rng.choice(40, 5, replace=False)] = rng.choice([-1, 1], 5) * rng.uniform(0.75, 1.5, 5)
    if kind == "linear":
        return X, X @ truth + rng.standard_normal(600), fgmp.FedGradMPRegressor, truth
    return X, (1.5 * X @ truth + rng.logistic(size=600) > 0).astype(int), fgmp.FedGradMPClassifier, truth


# %%
found = {"linear": [], "logistic": []}
for kind, seed in [(kind, seed) for kind in found for seed in range(n_seeds)]:
    A, b, Estimator, truth = made_up(seed, kind)
    support = Estimator("cv", random_state=0).fit(A, b, groups=np.arange(600) % 12).support_
    found[kind].append(np.array_equal(support, np.flatnonzero(truth)))

# %%
for kind, least in (("linear", 0.9), ("logistic", 0.85)):
    share = float(np.mean(found[kind]))
    claim(f"compared-{kind}", f"{kind} regression, 600 rows at 12 sites, five of 40 features count: share of {n_seeds} "
        "seeds that choose exactly these five", share, share >= least, **ours, expected=f"at least {least}")

# %% [markdown]
# ## The answer
#
# Keeping the rows apart costs no log loss here beside what was tried on all rows in one place: with the number chosen
# by the sites, hospitals left out are predicted with 0.077 from 16.7 features, and by the usual penalty with 0.083 from
# 16.5; but the rule of choice was fixed on this very table, so the difference is no evidence. A hospital alone, tried
# with the l1 penalty only, pays: 0.156 in the median. Sparsity is free at that number and buys nothing but shortness,
# since the federated dense ridge has 0.077 too, with 60 kB from a site in 6 rounds where the choice takes 271 kB in 51;
# 5 features have 0.098, and are also the most stable when a hospital is left out. Where five strong features of
# independent, made-up ones are right, the sites choose exactly these on all 20 seeds, for either loss, which is an easy
# case. The hospitals are random deals of one table, so none of this is evidence that a model carries over to others.
#
# ## Predict, then change
#
# 1. **`fixed: 10`.** Twice as many features. Is the log loss closer to that of five or of the choice, and do the
#    features stay as well? Guess before you unfold.
#
#    <details><summary>What comes out</summary>
#
#    It is half-way: 0.088 (five: 0.098, chosen: 0.077). But the features stay less, 0.80 beyond chance in place of
#    0.92, because more of them are alike and stand in for each other. Bytes hardly grow: 60 kB in place of 52.
#
#    ```text
#    10 given                     10.0    0.088  0.994     0.77           0.80         60      15
#    ```
#
#    </details>
# 2. **`fixed: 2`.** How far do two measurements carry?
#
#    <details><summary>What comes out</summary>
#
#    To an AUC of 0.986, with a log loss of 0.133: still better than the 0.156 of a hospital alone with all its
#    measurements to choose from. And they are the same two whichever hospital leaves: both indices are 1.
#
#    ```text
#    2 given                       2.0    0.133  0.986     1.00           1.00         51      15
#    a hospital alone              7.2    0.156  0.988     0.24           0.17          0       0
#    ```
#
#    </details>
# 3. **`n_sites: 4`.** Four hospitals hold 142 patients each. What happens to a hospital alone, and to all together?
#
#    <details><summary>What comes out</summary>
#
#    A hospital alone gets to 0.103 in place of 0.156, because it has three times the rows. Together they are a little
#    worse, 0.081 in place of 0.077, since a quarter of the patients is missing from each fit now and not a twelfth. So
#    the fewer rows a site has, the more it gains.
#
#    ```text
#    chosen by the sites          17.5    0.081  0.994     0.75           0.66        139      60
#    a hospital alone             10.2    0.103  0.992     0.34           0.25          0       0
#    ```
#
#    </details>
#
# ## References
#
# - S. Nogueira, K. Sechidis, G. Brown, *On the stability of feature selection algorithms*, Journal of Machine Learning
#   Research 18(174), 2018.
# - W. N. Street, W. H. Wolberg, O. L. Mangasarian, *Nuclear feature extraction for breast tumor diagnosis*, 1993 (the
#   table).
# - J. Zhu, C. Wen, J. Zhu, H. Zhang, X. Wang, *A polynomial algorithm for best-subset selection problem*, PNAS 117(52),
#   2020 (`abess`).
#
# Next: [19_flower](19_flower.ipynb), because all of this was one process, and what travels between several is still to
# be looked at.
