# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own data, with hospitals compared
#
# **Question.** Four hospitals record in their own ways which of their patients have heart disease. What do three lines
# give them: how good is one model at a hospital that it has never seen, and what does it cost to take few features, and
# to leave every row where it is?
#
# [![Run this notebook](pictures/run.svg)](../README.md#three-ways-in)
#
# ![AUC and calibration at each hospital left out, for three models](pictures/15_your_own_data.png)
#
# Each hospital is predicted by a model of the three others: how well its ill patients are told from the others (AUC),
# how much too low the predicted log-odds are (intercept, right at 0), and whether they are too timid (slope, right at
# 1). A dense ridge fitted where the rows are, which is not FedGradMP, keeps up with pooled rows. The columns that
# FedGradMP chooses fall a little behind, so **here the sparse method is not the one to use**, unless a short model is
# wanted. And the level is off almost everywhere, most of all at Switzerland, where 93 % are ill.
#
# **What you will see**
# - a logistic model from a table with gaps and categories and a column of hospitals, with the number of features chosen
#   by the hospitals themselves;
# - each hospital left out and predicted by the others: AUC and calibration, sparse, dense, and pooled side by side;
# - standard errors, how often a feature is found again, what was sent, and where one goes wrong.
#
# **This is a rehearsal.** All rows lie in this process, so one might as well pool them. Where that is not allowed, the
# same estimator is fitted over a network ([examples/hospitals](../examples/hospitals/README.md)), and has the bits that
# it has in one process.
#
# **Where it stands in the paper.** It does not: estimators are this project's own, and from here on nobody knows the
# true model. FedGradMP is the paper's; if it is new to you, read [00_start_here](00_start_here.ipynb) first.

# %% tags=["parameters"]
sparsity = "cv"  # features of the model: a number, or "cv", by which the hospitals choose it
given = 5  # features of the model whose number is given
n_resamples = 100  # resamples in the bootstrap
masked = 3  # features of the model whose sums are sent under masks
seed = 0  # of folds and resamples

# %% tags=["hide-input"]
from book import check_parameters

check_parameters(globals(), {
    "1 <= int <= 13 | str in ['cv']": "sparsity",
    "1 <= int <= 13": "given masked",
    "int >= 10": "n_resamples",
    "int >= 0": "seed",
})

# %% tags=["hide-input"]
import textwrap
from collections import Counter

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fgmp
from book import alt, claim, panels
from fgmp.datasets import heart_disease
from fgmp.estimators.calibration import Outcome, calibrate, count_pairs

# %% [markdown]
# ## The table
#
# 920 patients with chest pain, whose arteries were then looked at: is one of them narrowed by more than half? Thirteen
# features are known by their short names in the files (`fgmp.datasets.heart_disease` says what each is).

# %%
heart = heart_disease()
y, hospital = heart.y, heart.hospital
table = pd.DataFrame(heart.X, columns=heart.feature_names)
for name, levels in heart.categories.items():
    table[name] = table[name].map(levels)  # "male" in place of 1

# %%
HOSPITALS = ["Cleveland", "Budapest", "Switzerland", "Long Beach"]
gaps = table.isna().groupby(hospital).mean()
for name in HOSPITALS:
    many = [f"{column} {share:.0%}" for column, share in gaps.loc[name].items() if share > 0.5]
    print(f"{name:12} {np.sum(hospital == name):3} patients, {y[hospital == name].mean():.0%} ill")
    print(f"    missing: {', '.join(many) or 'little'}")

# %% [markdown]
# Nothing here is made up, and all that makes such data hard is there: hospitals with 36 % and 93 % ill, a cholesterol
# that Switzerland never wrote down, and three features that hardly anybody outside Cleveland has.
#
# ## Three lines
#
# The first is `import fgmp`. A model needs numbers, and the estimator makes them of the table: a number that is missing
# becomes the mean of those that are there, with a column beside it that says so; a category becomes a column of zeros
# and ones for each level but the most frequent one. The levels are named here, so that no hospital has to say which it
# has. Nothing has to be scaled, because the hospitals send sums from which common units follow; and the number of
# features need not be known.
#
# These patients are public, so `min_rows=1` makes a column of each level and gap. With the default, 5, what fewer than
# five patients of a hospital have is in no column: its coefficient would tell their outcome. Then the vessels, `ca`,
# which hardly anybody outside Cleveland has, could not be used where Cleveland is left out.

# %%
levels = {name: list(codes.values()) for name, codes in heart.categories.items()}
how = dict(missing="indicator", categories=levels, min_rows=1, random_state=seed)

# %% [markdown]
# **Guess first.** How many of the 13 features will the hospitals choose by themselves?

# %%
model = fgmp.FedGradMPClassifier(sparsity, **how)
model = model.fit(table, y, groups=hospital)

# %%
names = np.array(model.encoding_.column_names())
print(f"{table.shape[1]} features, {len(names)} columns of numbers")
print(f"chosen by {model.method_!r}: {model.sparsity_} features, {len(model.support_)} columns")
print(*textwrap.wrap(", ".join(names[model.support_]), 60), sep="\n")

# %% [markdown]
# The columns of a feature are chosen together and count once. The method is FedGradMP: each hospital takes gradient
# steps on a few columns with its own patients, and the server averages and keeps the largest. With few rows for very
# many columns the hospitals would add up gradients instead (method 'shared'); the argument `method` overrides this
# choice.
#
# How many features? Each hospital holds out a fold of its rows. A model is fitted to the other rows of all hospitals
# and judged on the rows held out, and of these only the loss is sent. The choice is the smallest number whose loss is
# within half a standard error of the lowest, where the error is that of the difference of the two. (The rule was fixed
# on simulated tables and on eight others, [in the benchmarks](../benchmarks/README.md).)

# %% tags=["hide-input"]
if hasattr(model, "cv_"):
    fig, ax = panels(width=5.4)
    model.cv_.plot(ax)
    ax.set(xlabel="features in the model", ylabel="log loss on rows held out", yscale="linear", xticks=range(0, 14, 2))

# %% [markdown]
# *More features help up to about ten. Means over the rows held out; a bar is the standard error of the difference from
# the lowest.*
#
# ## How sure it is
#
# `summary()` has for each column the odds ratio with two intervals, one by the model and one with the hospitals as
# clusters, and behind them the coefficient with its standard errors. They come from sums that the fit has asked for
# already, so that they are there after a fit over a network and under masks, too. Its notes say what they leave out:
# the coefficients are **ridge estimates**, and the choice of the features is in no error. And no error says what a gap
# stands for. The largest odds ratio is that of "fbs is missing": this blood sugar is missing for 61 % of Switzerland,
# where nearly all are ill.

# %%
model.summary()

# %% [markdown]
# How much does the ridge do? `C=np.inf` is maximum likelihood. Here it is, with as many features.

# %%
free = fgmp.FedGradMPClassifier(model.sparsity_, C=np.inf, **how)
free = free.fit(table, y, groups=hospital)
both = np.intersect1d(model.support_, free.support_)
ratio = free.coef_[0, both] / model.coef_[0, both]
print(f"columns in both: {len(both)} of {len(model.support_)}")
print(f"coefficients without the ridge over those with it: {ratio.min():.3f} to {ratio.max():.3f}")

# %% [markdown]
# So the ridge does little here: without it the same columns are taken, and no coefficient changes by more than a fifth.
# With few rows, or columns that are nearly alike, it does more, and decides which are taken.
#
# For the choice, draw patients with replacement within each hospital, refit with the same number of features, and see
# which come back. (Over a network `fgmp.flower.bootstrap_over` draws whole hospitals, of which there are too few here.)

# %%
bootstrap = model.bootstrap(n_resamples, over="rows", random_state=seed)
bootstrap.plot(most=14)
again = np.sum(bootstrap.inclusion[model.support_] >= 0.5)
print(f"{again} of {len(model.support_)} columns of the model are in at least half of the resamples")

# %% [markdown]
# ## At a hospital that it has never seen
#
# Leave a hospital out, choose and fit on the others, predict its patients. Two models are federated: the number of
# features chosen (or given), and all of them, the dense ridge, by the same sums. Two need all rows in one place, and
# get the columns of the dense model: the usual $\ell_1$ penalty with cross-validation, and scikit-learn's ridge.

# %% tags=["hide-input"]
OLD = LogisticRegression().penalty != "deprecated"  # before scikit-learn 1.8
L1 = dict(penalty="l1") if OLD else dict(l1_ratios=(1,), use_legacy_attributes=False)

# %% tags=["hide-input"]
search = dict(solver="liblinear", intercept_scaling=10, scoring="neg_log_loss", cv=5, random_state=seed)
lasso = LogisticRegressionCV(Cs=10, **search, **L1)
ridge = LogisticRegression(solver="newton-cholesky", tol=1e-10)
FEDERATED = {"chosen": "cv", f"{given} given": given, "all (dense)": "all"}
POOLED = {"l1 pooled": lasso, "ridge pooled": ridge}


# %% tags=["hide-input"]
def fit_all(table, y, hospital):
    """Of each model a function that gives the log-odds of new rows, and its number of columns."""
    fitted = {}
    for arm, sparsity in FEDERATED.items():
        model = fgmp.FedGradMPClassifier(sparsity, **how).fit(table, y, groups=hospital)
        fitted[arm] = model.decision_function, len(model.support_)
    encode = model.encoding_.transform  # of the dense model, which is the last
    for arm, estimator in POOLED.items():
        model = make_pipeline(StandardScaler(), clone(estimator)).fit(encode(table), y)
        fitted[arm] = lambda new, model=model: model.decision_function(encode(new)), np.count_nonzero(model[-1].coef_)
    return fitted


# %% [markdown]
# Three things are measured. The **AUC** is the share of pairs, one ill and one not, in which the ill one has the higher
# risk. The **calibration intercept** is what has to be added to the log-odds so that as many are ill as predicted:
# above 0 the model says too little. The **calibration slope** is what the log-odds have to be multiplied with: below 1
# the model is too sure of itself.

# %% tags=["hide-input"]
def measured(log_odds, y):
    pairs = count_pairs(log_odds, y == 1)
    calibration = calibrate(Outcome(log_odds, 2.0 * y - 1, fgmp.LogisticLoss()))
    return [pairs.n_concordant / pairs.n_pairs, np.sqrt(pairs.variance) / pairs.n_pairs, *calibration]


# %%
ARMS = [*FEDERATED, *POOLED]
log_odds, sizes, measures = {}, {}, {}
for one in HOSPITALS:
    inside = hospital != one
    for arm, (predict, sizes[arm, one]) in fit_all(table[inside], y[inside], hospital[inside]).items():
        log_odds[arm, one] = predict(table[~inside])
        measures[arm, one] = measured(log_odds[arm, one], y[~inside])

# %%
print(f"{'AUC at':12}" + "".join(f" {one[:4]}" for one in HOSPITALS) + " mean cols")
for arm in ARMS:
    auc = [measures[arm, one][0] for one in HOSPITALS]
    size = np.mean([sizes[arm, one] for one in HOSPITALS])
    print(f"{arm:12}" + "".join(f"{f'{value:.3f}'.lstrip('0'):>5}" for value in [*auc, np.mean(auc)]) + f"{size:5.1f}")

# %% tags=["headline", "hide-input"]
COLOURS = {"chosen": "#D55E00", "all (dense)": "#0072B2", "l1 pooled": "#117733"}
fig, axes = panels(1, 3, width=4.6, height=2.1)
for shift, (arm, colour) in zip((-0.2, 0, 0.2), COLOURS.items(), strict=True):
    for ax, column in zip(axes, (0, 2, 4), strict=True):
        values = np.array([measures[arm, one] for one in HOSPITALS])
        error = 1.96 * values[:, column + 1]
        marker = "s" if "pooled" in arm else "o"
        ax.errorbar(values[:, column], np.arange(4) + shift, xerr=error, fmt=marker, color=colour, ms=5, label=arm)
for ax, label in zip(axes, ("AUC", "calibration intercept", "calibration slope"), strict=True):
    ax.set(xlabel=label, ylim=(3.5, -0.5))
    ax.set_yticks(range(4), HOSPITALS)
axes[1].axvline(0, color="0.35", linestyle="--", linewidth=1.2)
axes[2].axvline(1, color="0.35", linestyle="--", linewidth=1.2)
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
alt(fig, """AUC, calibration intercept and calibration slope of three models at each of four hospitals left out, with
    intervals. AUC is high at Cleveland and Budapest; the intercept is far from 0 at Switzerland and Cleveland.""")

# %% [markdown]
# *Lines are 95 % intervals. A dashed line is where a model that is right would be.*
#
# **For the dense ridge, rows that stay change nothing.** The dense federated model *is* the ridge on pooled rows,
# because both come from the same sums; and it is as good as the $\ell_1$ penalty on pooled rows. This says nothing of
# FedGradMP, whose model is the sparse one.
#
# **Few features cost a little.** With the number chosen by the hospitals the AUC is lower at each of the four, most at
# Cleveland (0.84 in place of 0.89); five given features have as much in the mean. The rule of the choice asks how new
# patients of *known* hospitals are predicted (`folds="rows"`, the default below ten groups). Whether a *new* hospital
# is predicted is another question (`folds="groups"`), to which four hospitals have four answers. If you do not need a
# short model, take `sparsity="all"`.
#
# **Ranks travel, mostly; levels do not.** Patients of Cleveland and Budapest are ranked well, those of Long Beach less
# so, and for Switzerland the interval begins at one half: eight of its patients are healthy. The intercept of the dense
# model reaches 0 within its interval at Long Beach alone. At Switzerland its log-odds are too low by more than 2: three
# hospitals with 36 to 74 % ill know nothing of one with 93 %. At Cleveland they are too low by more than 1: likely
# because a model of hospitals with many gaps takes few gaps for few ill. At Switzerland and Long Beach it is also too
# sure of itself (slopes 0.57 and 0.52). What helps comes below.
#
# **And a hospital alone?** The dense ridge on its own patients, judged at the three others:

# %%
print(f"{'AUC of, at':11}" + "".join(f"{one[:4]:>6}" for one in HOSPITALS))
for one in HOSPITALS:
    here = hospital == one
    known = table.loc[:, table[here].notna().any()]  # Switzerland has no cholesterol at all
    alone = how | dict(categories={name: levels[name] for name in levels if name in known})
    dense = fgmp.FedGradMPClassifier("all", **alone).fit(known[here], y[here])
    scores = dense.decision_function(known)
    cells = ["-" if other == one else f"{measured(scores[hospital == other], y[hospital == other])[0]:.2f}"
             for other in HOSPITALS]
    print(f"{one:11}" + "".join(f"{cell:>6}" for cell in cells))

# %% [markdown]
# The dense model of three hospitals has 0.89, 0.91, 0.72 and 0.71 in these columns, and in these two digits no hospital
# alone has more at any. Switzerland, with eight healthy patients to learn from, ranks Cleveland's patients upside down.
#
# ## Performance without rows
#
# The measures above were computed with all predictions at hand. `performance` has them from the hospitals: each
# measures the model on its own patients, and sends a dozen numbers. Here is the model of all columns of three
# hospitals, at all four.

# %%
left_out = "Switzerland"
inside = hospital != left_out
dense = fgmp.FedGradMPClassifier("all", **how)
dense = dense.fit(table[inside], y[inside], groups=hospital[inside])
performance = dense.performance(table, y, groups=hospital)
performance

# %%
alt(performance.plot()[0], """AUC, calibration intercept and slope of the dense model at each of the four hospitals,
    with intervals: the intercept of Switzerland is far above 0.""")

# %% [markdown]
# These numbers are a hospital's own: an AUC says how its patients differ from what the model expects. `report()` of the
# table says that they left, and of a hospital with fewer than `min_rows=5` ill or healthy patients none does. Under
# masks no number of one hospital may leave; what can be had is the calibration of all rows, from sums (`by="all"`).

# %%
dense.performance(table, y, groups=hospital, by="all")


# %% [markdown]
# ## A level for each hospital
#
# That a cholesterol is missing says nothing of a heart. It says *where* a patient was seen, and so how many are ill
# there. `fit_intercept="per_group"` takes this job off such columns: each hospital has an intercept of its own, which
# it works out itself. A new hospital has none, and gets the common one, or works out its own with `intercept_of` from
# some patients whose outcome it knows. Here it knows 40, drawn twenty times, and the others are judged:

# %% tags=["hide-input"]
def levels_of(one, fit_intercept):
    """Of the dense model without a hospital: AUC and calibration intercept there, and these with 40 patients known."""
    inside = hospital != one
    dense = fgmp.FedGradMPClassifier("all", fit_intercept=fit_intercept, **how)
    dense = dense.fit(table[inside], y[inside], groups=hospital[inside])
    there = np.flatnonzero(~inside)
    auc, _, level, *_ = measured(dense.decision_function(table.iloc[there]), y[there])
    set_anew = []
    rng = np.random.default_rng(seed)
    while fit_intercept == "per_group" and len(set_anew) < 20:
        order = rng.permutation(there)
        known, judged = order[:40], order[40:]
        if np.ptp(y[known]):  # ill patients alone determine no level
            dense.intercepts_[one] = dense.intercept_of(table.iloc[known], y[known])
            scores = dense.decision_function(table.iloc[judged], groups=hospital[judged])
            set_anew.append(measured(scores, y[judged])[2])
    return [auc, level, np.mean(set_anew or np.nan), np.std(set_anew or np.nan)]


# %%
common, own = (np.array([levels_of(one, kind) for one in HOSPITALS]).T for kind in (True, "per_group"))
print(f"{'':16}" + "".join(f"{one[:4]:>6}" for one in HOSPITALS))
lines = {"AUC, common": common[0], "AUC, per group": own[0], "level, common": common[1], "level, per group": own[1]}
for words, numbers in (lines | {"level, set on 40": own[2], "  its deviation": own[3]}).items():
    print(f"{words:16}" + "".join(f"{number:6.2f}" for number in numbers))

# %% [markdown]
# *Level: the calibration intercept, 0 if as many are ill as predicted; set on 40: mean and deviation over the draws.*
#
# An intercept for each hospital changes the ranks at a new one by little, and by itself makes its level worse at each
# of the four: what it gets is the mean of the others. But 40 patients of its own set it right, on average, to within
# 0.12, with a deviation of 0.5 to 0.9 from draw to draw. That is much less than Switzerland's error, and more than Long
# Beach's. So a hospital whose level is far off sets the intercept anew, and one that cannot tell needs more patients.
#
# ## What travelled
#
# `history_` counts all that was sent. Beside the choice is the dense ridge, and what a hospital would send if it just
# sent its table.

# %%
everything = fgmp.FedGradMPClassifier("all", **how).fit(table, y, groups=hospital)
for words, one in (("choice and fit", model), ("all columns", everything)):
    sent, rounds = one.history_["bytes_up"][-1] / 4 / 1000, one.history_["round"][-1]
    print(f"{words:15} {sent:4.0f} kB from each, in {rounds:.0f} rounds")
print(f"{'the table':15} {8 * (table.size + y.size) / 4 / 1000:4.0f} kB from each")

# %% [markdown]
# So the reason to do this is not to save bytes. It is that no row leaves its hospital. `model.report()` lists for an
# ethics board what left, in which form, when and how protected:

# %%
left = Counter()
for stage in model.report().stages:
    left[stage.what] += stage.bytes_up // stage.n_clients
for what, n_bytes in left.most_common():
    print(f"{n_bytes:8,} bytes  {what}")

# %% [markdown]
# ## Under masks
#
# With `secure=True` every sum is one under masks that cancel, so that a server sees no hospital's own part of it. How
# many rows a hospital has still goes in the clear. The model is the same up to the rounding of the masked numbers.
#
# Masks protect one fit. Whoever fits all hospitals, and then all but one on the same rows, can subtract the two, and
# has what that hospital added. So what this notebook does "at a hospital that it has never seen" is not to be repeated
# under masks; what may be asked there is in [the promises](../docs/promises.md). Nor does `sparsity="cv"` do so: with
# `folds="groups"` it holds out two hospitals or more at a time under masks, and so needs four.

# %%
fits = [fgmp.FedGradMPClassifier(masked, **how, secure=way).fit(table, y, groups=hospital) for way in (False, True)]
plain, secure = (fit.predict_proba(table) for fit in fits)

# %% [markdown]
# ## What was measured
#
# Each claim with its verdict, and what was measured ([CLAIMS](../CLAIMS.md) has all of them).

# %% tags=["hide-input"]
risks = {key: expit(values) for key, values in log_odds.items()}
apart = max(np.abs(risks["all (dense)", one] - risks["ridge pooled", one]).max() for one in HOSPITALS)
claim("hospitals-dense-is-pooled", "heart disease, four hospitals left out one at a time: largest difference of a "
    "probability, dense and federated against the ridge of scikit-learn on pooled rows", apart, apart < 1e-4,
    source="ours", expected="below 1e-4", floor=1e-4)
auc = {arm: np.array([measures[arm, one][0] for one in HOSPITALS]) for arm in ARMS}
claim("hospitals-auc", "heart disease: AUC at each of four hospitals left out, all columns, rows where they are",
    dict(zip(HOSPITALS, auc["all (dense)"], strict=True)), auc["all (dense)"] >= auc["l1 pooled"] - 0.05,
    source="ours", expected="at most 0.05 below the l1 penalty on pooled rows, at each")
means = {arm: float(auc[arm].mean()) for arm in ("chosen", "all (dense)")}
claim("hospitals-chosen-loses", "heart disease: mean AUC at four hospitals left out", means,
    means["chosen"] < means["all (dense)"], source="ours", expected="the chosen columns below all: sparsity costs")

apart = np.abs(plain - secure).max()
claim("own-masks", f"heart disease, four hospitals, {masked} features: largest difference of a probability, "
    "sums under masks against sums in the open", apart, apart < 1e-6, source="ours", expected="below 1e-6", floor=1e-6)

# %% [markdown]
# ## Where one goes wrong
#
# - **Groups that are not passed on.** Inside scikit-learn a pipeline, a search or a cross-validation passes the
#   hospitals on by metadata routing only ([ten lines](../docs/howto/groups_in_scikit_learn.md)); otherwise each fit
#   takes all rows for one group, and a warning says so.
# - **Small hospitals.** One with fewer than `min_rows=5` rows sends nothing, and a warning says so, because the mean of
#   few rows is nearly a row.
# - **Classes.** A hospital may have one class only, since sums are added before anything is solved; but those that are
#   left need both. On a network the server sees no labels, so it is told `classes=`.
# - **Other units at one hospital.** Centimetres for metres are another column. A fit warns of a column whose spread or
#   mean is far off the common one, and says at which hospital; under masks it names the column alone.
# - **Patients of two hospitals.** Then a hospital left out is not unseen, and all measures above are too kind.
# - **Reading coefficients as effects.** They are ridge estimates of columns that were chosen, and they predict.
#
# ## The answer
#
# Three lines give a logistic model of 10 of 13 features from a table with gaps and categories, with standard errors and
# with AUC and calibration for each hospital. Hospitals that had no part in the fit are predicted with a mean AUC of
# 0.807 by a dense ridge on all features, which is that of pooled rows, so that to it rows that stay cost nothing.
# FedGradMP's sparse model costs a little: 0.789 with the number chosen by the hospitals. Ranks carry over to two of
# four new hospitals well, levels to one, and 40 patients of its own set a level that is far off anew. What one gains is
# that rows stay, not bytes.
#
# ## Predict, then change
#
# 1. **`given: 3`.** A model that fits on a card. What do three features cost at a new hospital, against five?
#
#    <details><summary>What comes out</summary>
#
#    In the mean next to nothing, 0.788 in place of 0.792: a loss of 0.08 at Budapest, a gain of 0.06 at Switzerland,
#    which with eight healthy patients says little. Eight columns are left for the card.
#
#    ```text
#    3 given      .830 .834 .789 .700 .788  7.8
#    ```
#
#    </details>
# 2. **`sparsity: 5`.** The number is given, so nobody has to choose. How many bytes does that save?
#
#    <details><summary>What comes out</summary>
#
#    Four fifths of them: nearly all that a choice sends are Hessians of models that it does not take. What is left is
#    about the size of the table.
#
#    ```text
#    chosen by 'fedgradmp': 5 features, 13 columns
#    choice and fit    25 kB from each, in 20 rounds
#    ```
#
#    </details>
# 3. **`seed: 1`.** Other folds: other rows are held out. Is the choice another one?
#
#    <details><summary>What comes out</summary>
#
#    Not on all four hospitals: the same ten features. Where a hospital is left out it is, and the mean AUC is 0.800 in
#    place of 0.789. So how rows are dealt to folds matters as much as how many features one takes.
#
#    ```text
#    chosen by 'fedgradmp': 10 features, 21 columns
#    chosen       .868 .903 .721 .707 .800 21.5
#    all (dense)  .886 .906 .723 .714 .807 28.0
#    ```
#
#    </details>
#
# ## References
#
# - A. Janosi, W. Steinbrunn, M. Pfisterer, R. Detrano, *Heart Disease*, UCI Machine Learning Repository, 1988, [doi
#   10.24432/C52P4X](https://doi.org/10.24432/C52P4X) (the table, CC BY 4.0).
# - B. Van Calster, D. J. McLernon, M. van Smeden, L. Wynants, E. W. Steyerberg, *Calibration: the Achilles heel of
#   predictive analytics*, BMC Medicine 17, 2019 (intercept and slope).
# - E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, *Comparing the areas under two or more correlated receiver
#   operating characteristic curves*, Biometrics 44(3), 1988 (the error of an AUC).
# - N. Meinshausen, P. Buhlmann, *Stability selection*, Journal of the Royal Statistical Society B 72(4), 2010.
#
# To deploy what was rehearsed here, copy [examples/hospitals](../examples/hospitals/README.md).
#
# Next: [17_flower](17_flower.ipynb), because all of this was one process, and what travels between several is still to
# be looked at.
