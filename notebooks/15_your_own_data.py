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
# **Question.** Four hospitals record in different ways which of their patients have heart disease. With three lines
# they get one model. How good is it at a hospital that it has never seen, and what does it cost to use few features,
# and to leave every row where it is?
#
# [![Run this notebook](pictures/run.svg)](../README.md#three-ways-in)
#
# ![AUC and calibration at each hospital left out, for three models](pictures/15_your_own_data.png)
#
# Each hospital is predicted by a model of the three others: how well its ill patients are told from the others (AUC),
# how much too low the predicted log-odds are (intercept, ideally 0), and whether they are too moderate (slope, ideally
# 1). A dense ridge fitted where the rows are, which is not FedGradMP, is as good as with pooled rows. Asked how many of
# 13 features to take, the four hospitals choose all. Any three choose fewer, and predict the fourth a little worse than
# with all. So **here the sparse method is not the one to use**, unless a short model is wanted. The intercept is off
# almost everywhere, most in Switzerland, where 93 % are ill.
#
# **What you will see**
# - a logistic model from a table with gaps, categories and a column of hospitals, which choose the number of features
#   themselves;
# - each hospital left out and predicted by the others: AUC and calibration, sparse, dense, and pooled side by side;
# - standard errors, how often a feature is selected again, what was sent, and common mistakes.
#
# **This is a rehearsal.** All rows are in this process, so one might as well pool them. If that is not allowed, the
# same estimator is fitted over a network ([examples/hospitals](../examples/hospitals/README.md)), with the same bits.
#
# **Where it stands in the paper.** Nowhere: the estimators are this project's own, and from here on nobody knows the
# true model. FedGradMP is the paper's; if it is new to you, read [00_start_here](00_start_here.ipynb) first.

# %% tags=["parameters"]
sparsity = "cv"  # features of the model: a number, or "cv", by which the hospitals choose it
given = 5  # features of the model whose number is given
n_resamples = 50  # resamples in the bootstrap
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
from book import alt, claim, listed, panels
from fgmp.datasets import heart_disease
from fgmp.estimators.calibration import Outcome, calibrate, count_pairs

# %% [markdown]
# ## The table
#
# In 920 patients with chest pain the arteries were examined: is one of them narrowed by more than half? The thirteen
# features have short names (`fgmp.datasets.heart_disease` explains them).

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
# The data are real and hard: hospitals have 36 % to 93 % ill, Switzerland never recorded cholesterol, and three
# features are missing for most patients outside Cleveland.
#
# ## Three lines
#
# The first is `import fgmp`. The estimator turns the table into numbers: a missing value becomes the mean of the
# others, and a column beside it says that it is missing; a category becomes a column of zeros and ones for each level
# but the most frequent one. The levels are named here, so no hospital has to say which it has. Nothing has to be
# scaled, because the hospitals send sums from which common units follow, and the number of features need not be known.
#
# These data are public, so `min_rows=1` makes a column of each level and gap. With the default, 5, a level or gap that
# fewer than five patients of a hospital have gets no column, because its coefficient would reveal their outcome. Then
# the vessels, `ca`, which hardly anybody outside Cleveland has, could not be used if Cleveland is left out.

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
# All of them: the choice itself says that here sparsity costs, and the model is the dense ridge.
#
# The columns of a feature are chosen together and count once. The method is FedGradMP: each hospital takes gradient
# steps on a few columns with its own patients, and the server averages and keeps the largest. With few rows and very
# many columns the hospitals would add up gradients instead (method 'shared'); the argument `method` overrides this
# choice.
#
# To choose the number of features, each hospital holds out one of ten folds of its rows. A model is fitted to the
# other rows of all hospitals and judged on the rows held out, of which only the loss is sent, and how many pairs are
# in order, for an AUC. The choice is the smallest number whose loss is within half a standard error of the lowest,
# where the error is that of the difference of the two, or within half a thousandth of what the lowest gains over no
# features. (The rule was fixed on simulated tables and on others, [in the benchmarks](../benchmarks/README.md).)

# %% tags=["hide-input"]
if hasattr(model, "cv_"):
    fig, ax = panels(width=5.4)
    model.cv_.plot(ax)
    ax.set(xlabel="features in the model", ylabel="log loss on rows held out", yscale="linear", xticks=range(0, 14, 2))

# %% [markdown]
# *After ten features little is gained, but ten are within one standard error of all 13, not within half of one. Means
# over the rows held out; a bar is the standard error of the difference from the lowest.*
#
# ## How sure it is
#
# `summary()` has for each column the odds ratio with two intervals, one by the model and one with the hospitals as
# clusters, and behind them the coefficient with its standard errors. They come from sums of the fit, so they are there
# after a fit over a network and under masks, too. Its notes say what they leave out: the coefficients are **ridge
# estimates**, and no error accounts for the selection of features. Nor does an error say what a gap means: the odds
# ratio of "fbs is missing" is 3.4, and this blood sugar is missing for 61 % of Switzerland, where nearly all are
# ill. The largest, 284, is that of "restecg is missing", a column of two patients. Its interval by the model, from
# almost 0 to a billion, rightly says nothing; the one by hospitals is much too narrow: no interval holds for so few.

# %%
model.summary()

# %% [markdown]
# What is the effect of the ridge? `C=np.inf` is maximum likelihood. Here are both, with the given number of features.

# %%
few, free = (fgmp.FedGradMPClassifier(given, C=C, **how).fit(table, y, groups=hospital) for C in (1.0, np.inf))
both = np.intersect1d(few.support_, free.support_)
ratio = np.exp(free.coef_ - few.coef_)[0, both]
print(f"columns in both: {len(both)} of {len(few.support_)}")
print(f"odds ratios without the ridge over those with it: {ratio.min():.2f} to {ratio.max():.2f}")
print("ill where restecg is missing:", y[table["restecg"].isna()])

# %% [markdown]
# With five features the ridge does little: without it the same columns are selected, and no odds ratio changes by more
# than a twentieth. With all of them maximum likelihood has no finite answer, and a fit says so in an error: because
# both patients without `restecg` are ill, the likelihood grows with the coefficient of that gap for ever. And as
# `thalach` and `exang` are missing for the same 55 patients, the ridge alone decides how two equal columns share one
# effect.
#
# To test the choice, we draw patients with replacement within each hospital, choose the number of features and fit
# again, and see which are selected. (Over a network `fgmp.flower.bootstrap_over` draws whole hospitals, of which there
# are too few here.)

# %%
bootstrap = model.bootstrap(n_resamples, over="rows", random_state=seed)
bootstrap.plot(most=28)
again = np.sum(bootstrap.inclusion[model.support_] >= 2 / 3)
print(f"{again} of {len(model.support_)} columns of the model are in at least two thirds of the resamples")

# %% [markdown]
# The choice of all features is not sure: about half of the resamples do without blood pressure and ECG at rest
# (`trestbps`, `restecg`).
#
# ## At a hospital that it has never seen
#
# We leave a hospital out, choose and fit on the others, and predict its patients. Two models are federated: one with
# the number of features chosen (or given), and one with all of them, the dense ridge, by the same sums. Two need all
# rows in one place, and get the columns of the dense model: the usual $\ell_1$ penalty with cross-validation, and
# scikit-learn's ridge.

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
# There are three measures. The **AUC** is the share of pairs, one ill and one not, in which the ill one has the higher
# risk. The **calibration intercept** has to be added to the log-odds so that as many are ill as predicted: above 0,
# predictions are too low. The **calibration slope** has to multiply the log-odds: below 1, predictions are too
# extreme.

# %% tags=["hide-input"]
def measured(log_odds, y):
    pairs = count_pairs(log_odds, y == 1)
    ones = np.ones(len(y))
    calibration = calibrate(Outcome(log_odds, 2.0 * y - 1, fgmp.LogisticLoss(), ones, ones))
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
# *Lines are 95 % intervals. Dashed lines are perfect calibration.*
#
# **The dense ridge loses nothing if rows stay.** The dense federated model *is* the ridge on pooled rows, because both
# come from the same sums; and on average it is as good as the $\ell_1$ penalty on pooled rows.
#
# **Fewer features cost a little.** Three hospitals choose fewer than four do, and with their choice the AUC at the
# fourth is lower at each of the four, by at most 0.02; five given features lose little more on average. The rule for
# the choice is how well new patients of *known* hospitals are predicted (`folds="rows"`, the default below ten
# groups). Whether a *new* hospital is predicted well is another question (`folds="groups"`), for which four hospitals
# are few. If you do not need a short model, take `sparsity="all"`.
#
# **Discrimination mostly transfers to a new hospital; calibration does not.** Patients of Cleveland and Budapest are
# ranked well, those of Long Beach less so, and for Switzerland the interval begins at one half: eight of its patients
# are healthy. Only at Long Beach does the interval of the dense model's intercept contain 0. At Switzerland its
# log-odds are too low by more than 2: three hospitals with 36 to 74 % ill do not predict one with 93 %. At Cleveland
# they are too low by more than 1, probably because a model of hospitals with many gaps takes few gaps for few ill; the
# chosen model and the $\ell_1$ penalty, with fewer columns, are there too high instead. At Switzerland and Long Beach
# predictions are also too extreme (slopes 0.57 and 0.52). A remedy comes below.
#
# **One hospital alone.** Here a dense ridge of one hospital's patients is judged at the three others:

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
# The dense model of three hospitals has 0.89, 0.91, 0.72 and 0.71 in these columns, and to two digits no hospital
# alone is better at any. Switzerland's model, with eight healthy patients to learn from, ranks Cleveland's patients
# worse than chance.
#
# ## Performance without rows, in one call
#
# The measures above were computed from all predictions. `validate` needs none: for each hospital it chooses and fits
# on the others, the chosen number of features and all of them, and each hospital measures the models on its own
# patients and sends a dozen numbers.

# %%
validation = fgmp.FedGradMPClassifier("cv", **how).validate(table, y, groups=hospital)
validation

# %%
alt(validation.plot()[0], """AUC, calibration intercept and slope of the chosen and of the dense model at each of the
    four hospitals left out, and over all, with intervals: the intercept of Switzerland is far above 0.""")

# %% [markdown]
# *Diamonds are means over hospitals (random effects), dotted lines are where a new hospital is expected.*
#
# The lines have the numbers of the chosen and the dense model above. Beside the AUC stands that of the same hospital
# *in sample*, as part of the fit: for the dense model it is higher by 0.01 to 0.09, which is how much too kind a
# measure on rows of the fit is. The second table says how hospitals differ. The mean AUC of the dense model is 0.83,
# with an interval from 0.62 to 0.94, and a fifth hospital may have nearly any AUC: four hospitals say little about a
# new one. By how much it is better than the chosen one, 0.012, has an interval that just contains 0.
#
# These numbers are of single hospitals: an AUC says how a hospital's patients differ from what the model expects.
# `report()` of the table says that they left; a hospital with fewer than `min_rows=5` ill or healthy patients sends
# none. Under masks no number of one hospital may leave; `performance` of a fitted model has the calibration of all rows
# from sums (`by="all"`), here of the dense model without Switzerland.

# %%
inside = hospital != "Switzerland"
dense = fgmp.FedGradMPClassifier("all", **how).fit(table[inside], y[inside], groups=hospital[inside])
dense.performance(table, y, groups=hospital, by="all")


# %% [markdown]
# ## A level for each hospital
#
# A missing cholesterol says nothing about a heart. It says *where* a patient was seen, and so how many are ill there.
# With `fit_intercept="per_group"` such columns need not do this: each hospital has an intercept of its own, which it
# computes itself. A new hospital gets the common one, or computes its own with `intercept_of` from some patients whose
# outcome it knows. Here it knows 40, drawn twenty times, and is judged on the others:

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
# An intercept for each hospital changes the AUC at a new one little, and by itself makes its level worse at each of
# the four, because a new hospital gets the mean of the others. But 40 patients of its own correct it, on average, to
# within 0.12, with a deviation of 0.5 to 0.9 from draw to draw. That is much less than Switzerland's error, and more
# than Long Beach's. So a hospital whose level is far off should set the intercept anew, and one that cannot tell needs
# more patients.
#
# ## What travelled
#
# `history_` counts all that was sent. It is compared with the dense ridge, and with sending the table.

# %%
everything = fgmp.FedGradMPClassifier("all", **how).fit(table, y, groups=hospital)
for words, one in (("choice and fit", model), ("all columns", everything)):
    sent, rounds = one.history_["bytes_up"][-1] / 4 / 1000, one.history_["round"][-1]
    print(f"{words:15} {sent:4.0f} kB from each, in {rounds:.0f} rounds")
print(f"{'the table':15} {8 * (table.size + y.size) / 4 / 1000:4.0f} kB from each")

# %% [markdown]
# So the gain is not in bytes, but that no row leaves its hospital. `model.report()` lists for an ethics board what
# left, in which form, when and how protected:

# %%
left = Counter()
for stage in model.report().stages:
    left[stage.what] += stage.bytes_up // stage.n_clients
for what, n_bytes in left.most_common():
    print(f"{n_bytes:8,} bytes  {what}")

# %% [markdown]
# ## Under masks
#
# With `secure=True` every sum is under masks that cancel, so a server sees no hospital's own part of it. The number of
# rows of a hospital is still sent in the clear. The model is the same up to the rounding of the masked numbers.
#
# Masks protect one fit. Whoever fits all hospitals, and then all but one on the same rows, can subtract the two and
# learn what that hospital added. So `validate` refuses to leave out one hospital under masks, and with `n_sets=2`
# leaves out two; [the promises](../docs/promises.md) say what may be asked there. Nor does `sparsity="cv"` leave out
# one: with `folds="groups"` it holds out two hospitals or more at a time under masks, and so needs four.

# %%
fits = [fgmp.FedGradMPClassifier(masked, **how, secure=way).fit(table, y, groups=hospital) for way in (False, True)]
plain, secure = (fit.predict_proba(table) for fit in fits)

# %% [markdown]
# ## What was measured
#
# These are the claims of this chapter; [CLAIMS](../CLAIMS.md) has all.

# %% tags=["hide-input"]
risks = {key: expit(values) for key, values in log_odds.items()}
apart = max(np.abs(risks["all (dense)", one] - risks["ridge pooled", one]).max() for one in HOSPITALS)
claim("hospitals-dense-is-pooled", "heart disease, four hospitals left out one at a time: largest difference of a "
    "probability, dense and federated against the ridge of scikit-learn on pooled rows", apart, apart < 1e-4,
    source="ours", expected="below 1e-4", floor=1e-4)
auc = {arm: np.array([measures[arm, one][0] for one in HOSPITALS]) for arm in ARMS}
claim("hospitals-auc", "heart disease: AUC at each of four hospitals left out, all columns, rows where they are",
    dict(zip(HOSPITALS, auc["all (dense)"], strict=True)), auc["all (dense)"] >= auc["l1 pooled"] - 0.05,
    source="ours", expected="at most 0.05 below the l1 penalty on pooled rows, at each",
    keep={"pooled": listed(np.round(auc["l1 pooled"], 3))})
means = {arm: float(auc[arm].mean()) for arm in ("chosen", "all (dense)")}
middle, low, high = (validation.overall[name][2] for name in ("mean", "lower", "upper"))
claim("hospitals-chosen-loses", "heart disease: mean AUC at four hospitals left out", means,
    auc["chosen"] < auc["all (dense)"], source="ours", expected="the chosen columns below all at each: sparsity costs",
    keep={"difference": f"{middle:.3f} ({low:.3f} to {high:.3f})"})

apart = np.abs(plain - secure).max()
claim("own-masks", f"heart disease, four hospitals, {masked} features: largest difference of a probability, "
    "sums under masks against sums in the open", apart, apart < 1e-6, source="ours", expected="below 1e-6", floor=1e-6)

# %% [markdown]
# ## Where one goes wrong
#
# - **Groups that are not passed on.** Pipelines, searches and cross-validations of scikit-learn pass the hospitals on
#   by metadata routing only ([ten lines](../docs/howto/groups_in_scikit_learn.md)); otherwise each fit takes all rows
#   as one group, with a warning.
# - **Small hospitals.** One with fewer than `min_rows=5` rows sends nothing, with a warning, because the mean of few
#   rows is nearly a row.
# - **Classes.** A hospital may have only one class, since sums are added before anything is solved; but those that
#   remain need both together. On a network the server sees no labels, so it needs `classes=`.
# - **Other units at one hospital.** Centimetres instead of metres make another column. A fit warns of a column whose
#   spread or mean is far off the common one, and says at which hospital; under masks it names the column alone.
# - **Patients of two hospitals.** Then a hospital left out is not unseen, and all measures above are too good.
# - **Reading coefficients as effects.** They are ridge estimates of selected columns, made to predict.
#
# ## The answer
#
# Three lines give a logistic model from a table with gaps and categories, with standard errors and with AUC and
# calibration for each hospital. Asked for the number of features, the four hospitals choose all 13. Hospitals that had
# no part in the fit are predicted with a mean AUC of 0.807 by this dense ridge, which is the ridge on pooled rows, so
# it loses nothing if rows stay. FedGradMP's selection, of as many features as the three others choose, has 0.796.
# Discrimination transfers well to two of four new hospitals, calibration to one, and 40 patients of its own correct a
# level that is far off.
#
# ## Predict, then change
#
# 1. **`given: 3`.** What do three features, which fit on a card, cost at a new hospital, compared with five?
#
#    <details><summary>What comes out</summary>
#
#    On average next to nothing, 0.788 instead of 0.792: a loss of 0.08 at Budapest, and a gain of 0.06 at Switzerland,
#    which with eight healthy patients says little. Eight columns remain.
#
#    ```text
#    3 given      .830 .834 .789 .700 .788  7.8
#    ```
#
#    </details>
# 2. **`sparsity: 5`.** If the number is given, how many bytes does that save?
#
#    <details><summary>What comes out</summary>
#
#    Nearly nine tenths of them: a choice sends mostly Hessians of models that it does not take. The rest is about the
#    size of the table.
#
#    ```text
#    chosen by 'fedgradmp': 5 features, 13 columns
#    choice and fit    25 kB from each, in 19 rounds
#    ```
#
#    </details>
# 3. **`seed: 1`.** Other rows are held out. Does the choice change?
#
#    <details><summary>What comes out</summary>
#
#    Not with all four hospitals: it is all features again. With one left out it does, and the mean AUC is 0.804 instead
#    of 0.796, still below that of all.
#
#    ```text
#    chosen by 'fedgradmp': 13 features, 28 columns
#    chosen       .883 .903 .724 .707 .804 19.2
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
# Next: [16_what_the_server_may_see](16_what_the_server_may_see.ipynb), because sums leave a hospital, too.
