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
# ![AUC and calibration at each hospital left out, for three models](pictures/15_your_own_data.png)
#
# Each hospital is predicted by a model of the three others: how well its ill patients are told from the others (AUC),
# how much too low the predicted log-odds are (intercept, right at 0), and whether they are too timid (slope, right at
# 1). A dense model fitted where the rows are keeps up with pooled rows; fewer, chosen columns fall a little behind; and
# the level is off almost everywhere, most of all at Switzerland, where 93 % are ill.
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
given = 10  # features of the model whose number is given
indicators = "with"  # "with" columns that say where a value was missing, or "without"
n_resamples = 100  # resamples in the bootstrap
masked = 3  # features of the model whose sums are sent under masks
seed = 0  # of folds and resamples

# %% tags=["hide-input"]
from book import check_types

check_types(globals(), {
    int: "given n_resamples masked seed",
    str: "indicators",
    int | str: "sparsity",
})
assert sparsity in ("cv", *range(1, 16)), f"{sparsity=}: expected 'cv' or 1 to 15"
assert 1 <= given <= 15 and 1 <= masked <= 15, f"{given=}, {masked=}: expected 1 to 15"
assert indicators in ("with", "without"), f"{indicators=}: expected 'with' or 'without'"
assert n_resamples >= 10 and seed >= 0, f"{n_resamples=}, {seed=}: expected at least 10, and at least 0"

# %% tags=["hide-input"]
from collections import Counter

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fgmp
from book import claim, panels
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
HOSPITALS = ["Cleveland", "Budapest", "Switzerland", "Long Beach"]
gaps = pd.DataFrame(np.isnan(heart.X), columns=heart.feature_names).groupby(hospital).mean()
for name in HOSPITALS:
    many = [f"{column} {share:.0%}" for column, share in gaps.loc[name].items() if share > 0.2]
    print(f"{name:12} {np.sum(hospital == name):4} patients, {y[hospital == name].mean():.0%} ill; "
          f"missing: {', '.join(many) or 'little'}")


# %% [markdown]
# Nothing here is made up, and all that makes such data hard is there: hospitals with 36 % and 93 % ill, a cholesterol
# that Switzerland never wrote down, and three features that hardly anybody outside Cleveland has.
#
# A model needs numbers. A category becomes a column of zeros and ones for each of its levels (one column, if there are
# two). A number that is missing becomes the mean of those that are there, and beside either a column says that it was
# missing. The means are those of the hospitals that fit, so that nothing of a hospital left out is in them.

# %%
def prepared(fits, indicators=indicators):
    """Return columns of numbers; means are those of the rows `fits`."""
    columns = {}
    for name, values in zip(heart.feature_names, heart.X.T, strict=True):
        is_missing = np.isnan(values)
        known = values[fits & ~is_missing]
        if name in heart.categories:
            levels = list(heart.categories[name].items())
            for code, level in levels[-1:] if len(levels) == 2 else levels:
                columns[f"{name}={level}"] = (values == code) * 1.0
        else:
            columns[name] = np.where(is_missing, known.mean() if len(known) else 0.0, values)
        if is_missing.any() and indicators == "with":
            columns[f"{name} is missing"] = is_missing * 1.0
    return pd.DataFrame(columns)


# %%
X = prepared(np.full(len(y), True))
print(f"{len(heart.feature_names)} features, {X.shape[1]} columns")

# %% [markdown]
# ## Three lines
#
# The first is `import fgmp`. Nothing has to be scaled, because the hospitals send sums from which common units follow;
# and the number of features need not be known.

# %%
model = fgmp.FedGradMPClassifier(sparsity, random_state=seed)
model = model.fit(X, y, groups=hospital)
print(f"{model.sparsity_} of {X.shape[1]} columns, found by method {model.method_!r}")
print(", ".join(X.columns[model.support_]))

# %% [markdown]
# The method is FedGradMP: each hospital takes gradient steps on a few columns with its own patients, and the server
# averages and keeps the largest. With few rows for very many columns the hospitals would add up gradients instead
# (method 'shared'); the argument `method` overrides this choice.
#
# How many features? Each hospital holds out a fold of its rows. A model is fitted to the other rows of all hospitals
# and judged on the rows held out, and of these only the loss is sent. The choice is the smallest number whose loss is
# within half a standard error of the lowest, where the error is that of the difference of the two. (The rule was fixed
# on simulated tables and on eight others, [in the benchmarks](../benchmarks/README.md).)

# %% tags=["hide-input"]
if hasattr(model, "cv_"):
    fig, ax = panels(width=5.4)
    model.cv_.plot(ax)
    ax.set(xlabel="columns in the model", ylabel="log loss on rows held out", yscale="linear", xticks=range(0, 21, 5))

# %% [markdown]
# *Means over the rows held out; a bar is the standard error of the difference from the lowest.* If more columns are
# tried, the choice is:

# %%
wide = dict(sparsities=[*range(0, 13, 2), *range(15, X.shape[1] + 1)], random_state=seed)
tried = fgmp.FedGradMPClassifier("cv", **wide).fit(X, y, groups=hospital).cv_
lowest = tried.table["sparsity"][np.argmin(tried.table["score"])]
least_loss = tried.table["score"].min()
print(f"tried up to {X.shape[1]}: lowest loss with {lowest} columns, {least_loss:.3f}; chosen: {tried.chosen}")

# %% [markdown]
# ## How sure it is
#
# `summary()` has for each column the coefficient, the odds ratio, and two standard errors with intervals, one by the
# model and one with the hospitals as clusters. They come from sums that the fit has asked for already, so that they are
# there after a fit over a network and under masks, too. Its notes say what they leave out: the coefficients are **ridge
# estimates**, and the choice of the columns is in no error. And they do not say how many patients a column rests on:
# "restecg is missing" at two patients, both ill, has the largest odds ratio, which the ridge alone keeps finite. Levels
# and gaps of a few patients should be merged or dropped before a fit.

# %%
model.summary()

# %% [markdown]
# How much does the ridge do? `C=np.inf` is maximum likelihood. Here it is, with as many columns.

# %%
count = min(model.sparsity_, 15)
free = fgmp.FedGradMPClassifier(count, C=np.inf, random_state=seed).fit(X, y, groups=hospital)
both = np.intersect1d(model.support_, free.support_)
ratio = free.coef_[0, both] / model.coef_[0, both]
print(f"columns in both: {len(both)} of {count}; coefficients without the ridge over those with it: "
      f"{ratio.min():.3f} to {ratio.max():.3f}")

# %% [markdown]
# So the ridge matters for a few of the columns, those that few patients have, and hardly for the others. With few rows,
# or columns that are nearly alike, it also decides which are taken.
#
# For the choice, draw patients with replacement within each hospital, refit with the same number of columns, and see
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
# columns chosen (or given), and all of them, the dense ridge, by the same sums. Two need all rows in one place: the
# usual $\ell_1$ penalty with cross-validation, and scikit-learn's ridge.

# %%
def federated(sparsity):
    def fit(X, y, hospital):
        one = fgmp.FedGradMPClassifier(sparsity, random_state=seed).fit(X, y, groups=hospital)
        return one.decision_function, X.columns[one.support_]

    return fit


# %%
OLD = LogisticRegression().penalty != "deprecated"  # before scikit-learn 1.8
L1 = dict(penalty="l1") if OLD else dict(l1_ratios=(1,), use_legacy_attributes=False)


# %%
def lasso(X, y, hospital):
    how = dict(solver="liblinear", intercept_scaling=10, scoring="neg_log_loss", cv=5, random_state=seed)
    search = LogisticRegressionCV(Cs=10, **how, **L1)
    one = make_pipeline(StandardScaler(), search).fit(X, y)
    return one.decision_function, X.columns[search.coef_[0] != 0]


# %%
def ridge(X, y, hospital):
    one = make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky", tol=1e-10)).fit(X, y)
    return one.decision_function, X.columns


# %% [markdown]
# Three things are measured. The **AUC** is the share of pairs, one ill and one not, in which the ill one has the higher
# risk. The **calibration intercept** is what has to be added to the log-odds so that as many are ill as predicted:
# above 0 the model says too little. The **calibration slope** is what the log-odds have to be multiplied with: below 1
# the model is too sure of itself.

# %%
def measured(log_odds, y):
    pairs = count_pairs(log_odds, y == 1)
    calibration = calibrate(Outcome(log_odds, 2.0 * y - 1, fgmp.LogisticLoss()))
    return [pairs.n_concordant / pairs.n_pairs, np.sqrt(pairs.variance) / pairs.n_pairs, *calibration]


# %%
ARMS = {"chosen": federated("cv"), f"{given} given": federated(given), "all (dense)": federated("all")}
ARMS |= {"l1, pooled": lasso, "ridge, pooled": ridge}
log_odds, found, table = {}, {}, {}
for one in HOSPITALS:
    inside = hospital != one
    columns = prepared(inside)
    for arm, fit in ARMS.items():
        predict, names = fit(columns[inside], y[inside], hospital[inside])
        log_odds[arm, one], found[arm, one] = predict(columns[~inside]), list(names)
        table[arm, one] = measured(log_odds[arm, one], y[~inside])

# %%
print(f"{'AUC, calibration slope':18}" + "".join(f"{one:>16}" for one in HOSPITALS) + f"{'mean AUC':>10}{'columns':>9}")
for arm in ARMS:
    cells = [f"{table[arm, one][0]:.3f} {table[arm, one][4]:5.2f}" for one in HOSPITALS]
    mean = np.mean([table[arm, one][0] for one in HOSPITALS])
    size = np.mean([len(found[arm, one]) for one in HOSPITALS])
    print(f"{arm:18}" + "".join(f"{cell:>16}" for cell in cells) + f"{mean:10.3f}{size:9.1f}")

# %% tags=["headline", "hide-input"]
COLOURS = {"chosen": "#D55E00", "all (dense)": "#0072B2", "l1, pooled": "#117733"}
fig, axes = panels(3, width=3.4, height=3.3, sharey=True)
for shift, (arm, colour) in zip((-0.2, 0, 0.2), COLOURS.items(), strict=True):
    for ax, column in zip(axes, (0, 2, 4), strict=True):
        values = np.array([table[arm, one] for one in HOSPITALS])
        error = 1.96 * values[:, column + 1]
        marker = "s" if "pooled" in arm else "o"
        ax.errorbar(values[:, column], np.arange(4) + shift, xerr=error, fmt=marker, color=colour, ms=5, label=arm)
axes[0].set(xlabel="AUC", yticks=range(4), ylim=(3.5, -0.5))
axes[0].set_yticklabels(HOSPITALS)
axes[1].set_xlabel("calibration intercept")
axes[2].set_xlabel("calibration slope")
axes[1].axvline(0, color="0.35", linestyle="--", linewidth=1.2)
axes[2].axvline(1, color="0.35", linestyle="--", linewidth=1.2)
_ = axes[1].legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncol=3, frameon=False)

# %% [markdown]
# *Lines are 95 % intervals. A dashed line is where a model that is right would be.*
#
# **For the dense ridge, rows that stay change nothing.** The dense federated model *is* the ridge on pooled rows,
# because both come from the same sums; and it is as good as the $\ell_1$ penalty on pooled rows.
#
# **Few columns cost a little.** With the number chosen by the hospitals the AUC is lower at three of the four; at
# Switzerland it is a gain, which with eight healthy patients is no evidence. Ten given columns cost more. The rule of
# the choice asks how new patients of *known* hospitals are predicted (`folds="rows"`, the default below ten groups).
# Whether a *new* hospital is predicted is another question (`folds="groups"`), to which four hospitals have four
# answers. If you do not need a short model, take `sparsity="all"`.
#
# **Ranks travel, levels do not.** The intercept of the dense model reaches 0 within its interval at Long Beach alone.
# At Switzerland its log-odds are too low by more than 2: three hospitals with 36 to 74 % ill know nothing of one with
# 93 %. At Cleveland they are too low by more than 1, because a model of hospitals with many gaps takes few gaps for few
# ill; without the columns that mark gaps they are too high by as much. At Switzerland and Long Beach it is also too
# sure of itself (slopes 0.56 and 0.51). A hospital that takes over a model has to set the intercept anew on some
# patients of its own.

# %% tags=["hide-input"]
risks = {key: expit(values) for key, values in log_odds.items()}
apart = max(np.abs(risks["all (dense)", one] - risks["ridge, pooled", one]).max() for one in HOSPITALS)
claim("hospitals-dense-is-pooled", "heart disease, four hospitals left out one at a time: largest difference of a "
    "probability, dense and federated against the ridge of scikit-learn on pooled rows", apart, apart < 1e-4,
    source="ours", expected="below 1e-4", floor=1e-4)
auc = {arm: np.array([table[arm, one][0] for one in HOSPITALS]) for arm in ARMS}
claim("hospitals-auc", "heart disease: AUC at each of four hospitals left out, all columns, rows where they are",
    dict(zip(HOSPITALS, auc["all (dense)"], strict=True)), auc["all (dense)"] >= auc["l1, pooled"] - 0.05,
    source="ours", expected="at most 0.05 below the l1 penalty on pooled rows, at each")
means = {arm: float(auc[arm].mean()) for arm in ("chosen", "all (dense)")}
claim("hospitals-chosen-loses", "heart disease: mean AUC at four hospitals left out", means,
    means["chosen"] < means["all (dense)"], source="ours", expected="the chosen columns below all: sparsity costs")

# %% [markdown]
# **Are the columns the same whoever leaves?** In how many of the four fits a column was chosen:

# %%
times = Counter(name for one in HOSPITALS for name in found["chosen", one])
for count in range(4, 0, -1):
    print(f"{count} of 4: {', '.join(sorted(name for name, n in times.items() if n == count)) or '-'}")

# %% [markdown]
# Five columns are chosen whoever leaves, and each is a measurement. That a cholesterol, or another value, is missing is
# chosen in some of the fits. Nothing is known of a heart by that: it says *where* a patient was seen, and so how many
# are ill there. At a hospital never seen, that is the wrong thing to know. `fit_intercept="per_group"` takes this job
# off such columns: each hospital then has a level of its own.
#
# **And a hospital alone?** The ridge on its own patients, with its own means, judged at the three others:

# %%
print(f"{'AUC of a model of':18}" + "".join(f"{'at ' + one:>16}" for one in HOSPITALS))
for one in HOSPITALS:
    inside = hospital == one
    columns = prepared(inside)
    predict = ridge(columns[inside], y[inside], None)[0]
    cells = ["-" if other == one else f"{measured(predict(columns[hospital == other]), y[hospital == other])[0]:.2f}"
             for other in HOSPITALS]
    print(f"{one:18}" + "".join(f"{cell:>16}" for cell in cells))

# %% [markdown]
# The dense model of three hospitals has 0.89, 0.91, 0.72 and 0.71 in these columns, and no hospital alone does better
# at any. Switzerland, with eight healthy patients to learn from, ranks Cleveland's patients upside down.
#
# ## Performance without rows
#
# The measures above were computed with all predictions at hand. `performance` has them from the hospitals: each
# measures the model on its own patients, and sends a dozen numbers. Here is the model of all columns of three
# hospitals, at all four.

# %%
left_out = "Switzerland"
inside = hospital != left_out
columns = prepared(inside)
dense = fgmp.FedGradMPClassifier("all").fit(columns[inside], y[inside], groups=hospital[inside])
performance = dense.performance(columns, y, groups=hospital)
performance

# %%
_ = performance.plot()

# %% [markdown]
# These numbers are a hospital's own: an AUC says how its patients differ from what the model expects. `report()` of the
# table says that they left, and of a hospital with fewer than `min_rows=5` ill or healthy patients none does. Under
# masks no number of one hospital may leave; what can be had is the calibration of all rows, from sums (`by="all"`).

# %%
pooled = dense.performance(columns, y, groups=hospital, by="all")
print(pooled)

# %% [markdown]
# ## What is missing says where one is

# %%
for use in ("with", "without"):
    cells = []
    for one in HOSPITALS:
        inside = hospital != one
        columns = prepared(inside, use)
        predict = federated("all")(columns[inside], y[inside], hospital[inside])[0]
        found_there = measured(predict(columns[~inside]), y[~inside])
        cells.append(f"{found_there[0]:.3f} {found_there[2]:+.2f}")
    print(f"{use:7} columns that mark gaps: AUC, intercept {', '.join(cells)}")

# %% [markdown]
# For the ranks of the dense model it does not decide: better at Long Beach without, better at Switzerland with. The
# levels are wrong either way, and at Cleveland the sign turns. What a mark of gaps stands for is an intercept of a
# hospital, which this model does not have.
#
# ## What travelled
#
# `history_` counts all that was sent. Beside the choice is the dense ridge, and what a hospital would send if it just
# sent its table.

# %%
everything = fgmp.FedGradMPClassifier("all").fit(X, y, groups=hospital)
for words, one in (("choice and fit", model), ("all columns", everything)):
    sent, rounds = one.history_["bytes_up"][-1] / 4 / 1000, one.history_["round"][-1]
    print(f"{words:15} {sent:4.0f} kB from each hospital, in {rounds:.0f} rounds")
print(f"{'the table':15} {8 * (X.size + y.size) / 4 / 1000:4.0f} kB from each hospital")

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

# %%
known = dict(sparsity=masked, random_state=seed)
plain, secure = (fgmp.FedGradMPClassifier(**known, secure=way).fit(X, y, groups=hospital) for way in (False, True))
apart = np.abs(plain.predict_proba(X) - secure.predict_proba(X)).max()
claim("own-masks", f"heart disease, four hospitals, {masked} columns: largest difference of a probability, "
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
# Three lines give a logistic model of 20 of 32 columns, which a table with gaps and categories became, with standard
# errors and with AUC and calibration for each hospital. Hospitals that had no part in the fit are predicted with a mean
# AUC of 0.806 by all columns: to within 0.0001 of a probability the ridge on pooled rows, so that rows that stay cost
# nothing. Sparsity costs a little: with the number chosen by the hospitals it is 0.797, and the columns change with who
# leaves. Ranks carry over to a new hospital, levels do not: its intercept has to be set anew. What one gains is that
# rows stay, not bytes: a choice sends more than the table has.
#
# ## Predict, then change
#
# 1. **`indicators: without`.** No column says any more where a value was missing. Does a model of few columns gain at a
#    hospital that it has never seen?
#
#    <details><summary>What comes out</summary>
#
#    Not in the mean: the AUC of the chosen columns is 0.796 in place of 0.797, higher at Cleveland and Long Beach,
#    lower at Switzerland. But the model is half as long, and a hospital sends 73 kB in place of 142 for the choice.
#
#    ```text
#    13 features, 22 columns
#    10 of 22 columns, found by method 'fedgradmp'
#    chosen                 0.890  0.94     0.901  1.18     0.683  0.48     0.710  0.51     0.796     10.0
#    all (dense)            0.888  0.92     0.905  1.20     0.707  0.54     0.729  0.53     0.807     22.0
#    choice and fit    73 kB from each hospital, in 72 rounds
#    ```
#
#    </details>
# 2. **`given: 4`.** A model that fits on a card. What do four columns cost against ten?
#
#    <details><summary>What comes out</summary>
#
#    In the mean 0.04: 0.749 in place of 0.787. At Cleveland, Budapest and Long Beach it is 0.06 to 0.10; at Switzerland
#    it is a gain, which with eight healthy patients says nothing.
#
#    ```text
#    4 given                0.797  0.89     0.798  1.50     0.746  0.55     0.654  0.30     0.749      4.0
#    ```
#
#    </details>
# 3. **`seed: 1`.** Other folds: other rows are held out. Is the choice another one?
#
#    <details><summary>What comes out</summary>
#
#    Yes: 15 columns in place of 20, and other numbers where a hospital is left out. The mean AUC is 0.798 in place of
#    0.797. So how rows are dealt to folds decides which columns are taken, and hardly how good they are.
#
#    ```text
#    15 of 32 columns, found by method 'fedgradmp'
#    chosen                 0.871  0.87     0.900  1.23     0.692  0.50     0.728  0.48     0.798     14.2
#    all (dense)            0.887  0.88     0.906  1.17     0.718  0.56     0.713  0.51     0.806     32.0
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
