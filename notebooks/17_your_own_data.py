# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own data: one model from twelve sites, in three lines
#
# **Question.** I have a table and a column that says from which site each row is. What do three lines give me: a model
# of a few features, how good it is at a site that it has never seen, how sure it is of them, and what has to travel?
#
# ![Share of resamples that find each measurement again, and its coefficient](pictures/17_your_own_data.png)
#
# Twelve sites with breast cancer patients, drawn with replacement again and again. On the left, how often a measurement
# is found again (filled: it is in the model); on the right, its coefficient with the middle 95 % of the resamples.
#
# **What you will see**
# - a logistic model from a table and a column of sites, with the number of features chosen by the sites themselves;
# - its predictions for sites that had no part in the fit, and what travelled for it;
# - standard errors, a bootstrap over sites, sums under masks, an intercept for each site, and where one goes wrong.
#
# **This is a rehearsal.** All rows lie in this process, so one might as well pool them. Where that is not allowed, the
# same estimator is fitted over a network: [examples/hospitals](../examples/hospitals/README.md) is this case with three
# hospitals, each with its own file, and its model has the bits that it has in one process.
#
# **Where it stands in the paper.** It does not: estimators are this project's own. FedGradMP is the paper's; if it is
# new to you, read [00_start_here](00_start_here.ipynb) first.

# %% tags=["parameters"]
n_sites = 12  # sites that the patients are dealt to
sparsity = "cv"  # how many features: a number, or "cv", by which the sites choose it
n_resamples = 200  # resamples of the sites in the bootstrap
masked = 3  # features of the model whose sums are sent under masks
seed = 0  # of the deal, the folds and the resamples

# %%
from book import check_types

check_types(globals(), {
    int: "n_sites n_resamples masked seed",
    int | str: "sparsity",
})
assert 3 <= n_sites <= 40 and n_resamples >= 10, f"{n_sites=}, {n_resamples=}: expected 3 to 40, and at least 10"
assert sparsity in ("cv", *range(1, 31)), f"{sparsity=}: expected 'cv' or 1 to 30"
assert 1 <= masked <= 30 and seed >= 0, f"{masked=}, {seed=}: expected 1 to 30, and at least 0"

# %%
import numpy as np
import sklearn

from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

import fgmp
from book import claim, panels

# %% [markdown]
# ## The table
#
# scikit-learn's breast cancer table: 30 measurements of cell nuclei of 569 patients, and whether the tumour is
# malignant. It does not say where a patient was seen, so the patients are dealt to the sites at random, as cards are.

# %%
cancer = load_breast_cancer(as_frame=True)
X, y = cancer.data, (cancer.target == 0).astype(int)  # 1 is malignant
site = np.random.default_rng(seed).permutation(np.arange(len(y)) % n_sites)
print(f"{len(y)} patients, {y.sum()} malignant; {np.bincount(site).min()} to {np.bincount(site).max()} at a site")

# %% [markdown]
# ## Three lines
#
# The first is `import fgmp`. Nothing has to be scaled, because the sites send sums from which common units follow; and
# the number of features need not be known.

# %%
model = fgmp.FedGradMPClassifier(sparsity, random_state=seed)
model = model.fit(X, y, groups=site)
print(f"{model.sparsity_} of {X.shape[1]} features, found by method {model.method_!r}")

# %% [markdown]
# So the classifier did not run FedGradMP here. It ran the method 'shared', `SharedSupportGradMP`: a relative in which
# the sites choose one support together and send only sums. In FedGradMP each site solves for more coefficients than
# features are asked for, and these sites have too few rows for it. The argument `method` overrides this choice.
#
# How many features? Each site holds out a fold of its rows. A model is fitted to the other rows of all sites and judged
# on the rows held out, and of these only the loss is sent. The choice is the smallest number whose loss is within half
# a standard error of the lowest.

# %%
if hasattr(model, "cv_"):
    fig, ax = panels(width=5.4)
    model.cv_.plot(ax)
    ax.set(xlabel="features in the model", ylabel="log loss on rows held out", yscale="linear", xticks=range(0, 21, 5))

# %% [markdown]
# *Means over sites; a bar is the standard error over the sites.* The lowest loss is that of 20 features, the last
# number that was tried. More features might lower it further, and then the choice could be larger, too.
#
# The coefficients are in the units of the table: by so much the log-odds of a malignant tumour grow when a measurement
# grows by 1, the others fixed. ("worst" is the mean of a patient's three largest nuclei, "error" a standard error over
# the nuclei. Units differ: -55 per unit of the compactness error is -1 per standard deviation of it.) They are **ridge
# estimates**: the last fit adds half their squared length, in standardised units, to `C=1.0` times the summed log loss,
# as scikit-learn does, and so they are shorter than those of maximum likelihood. Do not read their exponentials as odds
# ratios of a model without penalty.

# %%
for j in model.support_:
    print(f"{X.columns[j]:24} {model.coef_[0, j]:9.2g}")

# %% [markdown]
# How much does the ridge do? `C=np.inf` is maximum likelihood. Here are both, with as many features, in log-odds per
# standard deviation.

# %%
count = min(model.sparsity_, 20)  # with all 30 features the classes are separated, and there is no maximum
free = fgmp.FedGradMPClassifier(count, C=np.inf, random_state=seed).fit(X, y, groups=site)
for words, one in (("C = 1", model), ("C = inf", free)):
    per_sd = (one.coef_[0] * X.std().to_numpy())[one.support_]
    print(f"{words:8} log-odds per standard deviation from {per_sd.min():.1f} to {per_sd.max():.1f}")
print(f"features in both: {len(set(model.support_) & set(free.support_))} of {count}")

# %% [markdown]
# So the ridge decides here, also *which* features are taken: they are alike, and without it their coefficients grow
# against each other. The printed numbers predict; they are no effects of the measurements.

# %% [markdown]
# ## At a site that it has never seen
#
# Leave a site out, choose and fit on the others, predict its patients. scikit-learn does this, if it is told that the
# fit wants the sites: with `set_fit_request(groups=True)` and its metadata routing. Without these two settings the
# inner fits would treat all rows as one site, and a warning would say so.

# %%
with sklearn.config_context(enable_metadata_routing=True):
    asking = sklearn.clone(model).set_fit_request(groups=True)
    how = dict(cv=LeaveOneGroupOut(), params={"groups": site}, method="predict_proba")
    malignant = cross_val_predict(asking, X, y, **how)[:, 1]

# %%
auc, loss = roc_auc_score(y, malignant), log_loss(y, malignant)
print(f"sites left out: AUC {auc:.3f}, log loss {loss:.3f}; no feature: {log_loss(y, np.full(len(y), y.mean())):.2f}")
claim("own-left-out", f"breast cancer, {n_sites} sites: AUC on the patients of sites that had no part in the fit",
    auc, auc >= 0.98, source="ours", expected="at least 0.98")

# %% [markdown]
# ## What travelled
#
# `history_` counts all that was sent: the choice of the number, the sums for standard errors and a check of units
# included. Beside it is the fit of that number alone, and what a site would send if it just sent its table.

# %%
fixed = fgmp.FedGradMPClassifier(model.sparsity_, random_state=seed).fit(X, y, groups=site)
for words, one in (("choice and fit", model), ("the fit alone", fixed)):
    sent, rounds = one.history_["bytes_up"][-1] / n_sites / 1000, one.history_["round"][-1]
    print(f"{words:15} {sent:4.0f} kB from each site, in {rounds:.0f} rounds")
print(f"{'the table':15} {8 * (X.size + y.size) / n_sites / 1000:4.0f} kB from each site")

# %% [markdown]
# So the reason to do this is not to save bytes. It is that no row leaves its site.
#
# ## How sure it is
#
# `summary()` has for each feature of the model the coefficient, the odds ratio, and two standard errors with intervals,
# one by the model and one with the sites as clusters, of sums that the fit has already asked for; so it needs no rows,
# and is there after a fit over a network and under masks, too (with masks the second error from four sites on). It does
# not say how sure the *choice* is: the intervals take these features as if they had been named beforehand, and are
# about coefficients that the ridge has shortened.

# %%
model.summary()

# %% [markdown]
# For the choice, draw the sites with replacement, refit with the same number of features, and see which come back and
# with which coefficient. This costs one line. (Here the rows of all sites are in one process; over a network
# `fgmp.flower.bootstrap_over` draws whole sites, but not under masks. The number is not chosen anew, so what the choice
# of the number adds is not in it.)

# %%
bootstrap = model.bootstrap(n_resamples, over="groups", random_state=seed)
most = np.argsort(-bootstrap.inclusion, kind="stable")[:18]
units = X.std().to_numpy()[most]
low, high = (bound[0, most] * units for bound in bootstrap.interval())
again = np.sum(bootstrap.inclusion[model.support_] >= 0.5)
print(f"{again} of {len(model.support_)} features of the model are in at least half of the resamples")

# %% tags=["headline"]
fig, (left, right) = panels(2, width=4.6, height=4.8, sharey=True)
filled = np.where(np.isin(most, model.support_), "#0072B2", "white")
left.barh(range(len(most)), bootstrap.inclusion[most], color=filled, edgecolor="#0072B2")
left.set(xlabel=f"share of {n_resamples} resamples", xlim=(0, 1), yticks=range(len(most)))
left.set_yticklabels(X.columns[most])
left.invert_yaxis()
right.hlines(range(len(most)), low, high, color="0.4")
right.scatter(model.coef_[0, most] * units, range(len(most)), c=filled, edgecolor="#0072B2", zorder=3)
right.axvline(0, color="0.35", linestyle="--", linewidth=1.2)
_ = right.set(xlabel="log-odds of malignant\nper standard deviation")

# %% [markdown]
# *Filled: in the model. Lines: the middle 95 % of the resamples, where a measurement that was not taken counts as
# zero.*
#
# Read it with care: radius, perimeter and area of a nucleus say nearly the same, and one stands in for another. So an
# interval that reaches zero may belong to a measurement that others can replace, and does not show that it is
# irrelevant.
#
# ## Under masks
#
# With `secure=True` every sum is one under masks that cancel, so that a server sees no site's own part of it. How many
# rows a site has still goes in the clear. The model is the same up to the rounding of the masked numbers.

# %%
given = dict(sparsity=masked, random_state=seed)
plain, secure = (fgmp.FedGradMPClassifier(**given, secure=way).fit(X, y, groups=site) for way in (False, True))
apart = np.abs(plain.predict_proba(X) - secure.predict_proba(X)).max()
claim("own-masks", f"breast cancer, {n_sites} sites, {masked} features: largest difference of a probability, "
    "sums under masks against sums in the open", apart, apart < 1e-8, source="ours", expected="below 1e-8", floor=1e-8)

# %% [markdown]
# ## An intercept for each site
#
# A regression in which sites measure on shifted scales: the diabetes table, with a shift of each site added to the
# target. With `fit_intercept="per_group"` a site keeps its own level, and only what varies within sites is modelled.

# %%
diabetes, rng = load_diabetes(as_frame=True), np.random.default_rng(seed)
where = rng.permutation(np.arange(len(diabetes.target)) % n_sites)
target = diabetes.target + rng.normal(0, 50, n_sites)[where]
test = rng.random(len(target)) < 0.25

# %%
for intercept in (True, "per_group"):
    own = fgmp.FedGradMPRegressor(5, method="shared", fit_intercept=intercept, random_state=seed)
    own.fit(diabetes.data[~test], target[~test], groups=where[~test])
    error = own.predict(diabetes.data[test], groups=where[test]) - target[test]
    print(f"fit_intercept={intercept!r:12} error on rows held out (root mean square): {np.sqrt(np.mean(error**2)):.0f}")

# %% [markdown]
# Tell `predict` the groups, too; a row of a site that took no part gets the mean of the intercepts.
#
# ## Where one goes wrong
#
# - **Groups that are not passed on.** See above: a pipeline, a search or a cross-validation has to be told, by metadata
#   routing and `set_fit_request(groups=True)`.
# - **Small sites.** A site with fewer than `min_rows=5` rows sends nothing, and a warning says so, because the mean of
#   few rows is nearly a row. Of larger ones the sums are still sums over few.
# - **Classes.** A site may have one class only, since sums are added before anything is solved; but the sites that are
#   drawn or left need both. On a network the server sees no labels, so it is told `classes=`.
# - **Other units at one site.** Centimetres for metres are another column. A fit warns of a column whose spread at a
#   site is more than five times the common one, or less than a fifth, or whose mean is far off, and says which site it
#   is; under masks it names the column alone.
# - **Rows of one patient at two sites.** Then a site left out is not unseen, and all measures above are too kind.
#
# ## The answer
#
# Three lines give a logistic model of 15 of 30 measurements, with the number chosen by the sites, and ridge estimates
# (C = 1) as coefficients: maximum likelihood shares 6 of the 15. On sites that had no part in the fit the AUC is 0.995
# and the log loss 0.072; but the sites are random deals of one table, so this is no evidence that a model carries over
# to other hospitals. When the sites are drawn anew, 14 of the 15 are found again in at least half of the resamples.
# Each site sent 271 kB of sums, in 51 rounds, of which the fit alone takes 71 kB; its table would be 12 kB, so what one
# gains is that rows stay, not bytes.
#
# ## Predict, then change
#
# 1. **`n_sites: 30`.** The same patients at 30 sites, 18 or 19 at each. Which features change? Guess before you unfold.
#
#    <details><summary>What comes out</summary>
#
#    Three go: mean texture, mean area and area error. That is the choice, and not the sums. A sum over all rows is the
#    same, however the rows are dealt: with 12 features given, 12 sites and 30 find the same ones, and the same
#    coefficients in two digits. But a site of 18 or 19 rows deals its rows to three folds and not to five, because each
#    fold has to hold 5 rows of it, and a warning says so. Over these folds 12 features are enough. A site sends 187 kB
#    in place of 271, because fewer folds take fewer rounds, and its table would now be 5 kB. Sites left out are
#    predicted with a log loss of 0.075 (before: 0.072).
#
#    ```text
#    12 of 30 features, found by method 'shared'
#    569 patients, 212 malignant; 18 to 19 at a site
#    sites left out: AUC 0.995, log loss 0.075; no feature: 0.66
#    choice and fit   187 kB from each site, in 37 rounds
#    the table          5 kB from each site
#    ```
#
#    </details>
# 2. **`sparsity: 5`.** You want a model that fits on a card. What do five features cost in log loss, and what do they
#    save in bytes?
#
#    <details><summary>What comes out</summary>
#
#    Sites left out are predicted with a log loss of 0.095 in place of 0.072, and the AUC is 0.993 in place of 0.995. A
#    site sends 52 kB in 15 rounds, most of what is saved being the choice. The five are radius error and the worst
#    radius, texture, perimeter and concave points, and all of them are among the fifteen.
#
#    ```text
#    sites left out: AUC 0.993, log loss 0.095; no feature: 0.66
#    choice and fit    52 kB from each site, in 15 rounds
#    ```
#
#    </details>
# 3. **`seed: 1`.** Other folds, and other patients at the sites. Does the model change?
#
#    <details><summary>What comes out</summary>
#
#    Not in two digits, for the reason of the first. The measure does: the log loss is 0.078, because now others are
#    left out together, and the folds that choose are others. So already the second digit of such a measure depends on
#    how the patients are dealt.
#
#    ```text
#    sites left out: AUC 0.995, log loss 0.078; no feature: 0.66
#    ```
#
#    </details>
#
# ## References
#
# - W. N. Street, W. H. Wolberg, O. L. Mangasarian, *Nuclear feature extraction for breast tumor diagnosis*, 1993 (the
#   table).
# - B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, *Least angle regression*, Annals of Statistics 32(2), 2004 (the
#   diabetes table).
# - N. Meinshausen, P. Buhlmann, *Stability selection*, Journal of the Royal Statistical Society B 72(4), 2010.
#
# To deploy what was rehearsed here, copy [examples/hospitals](../examples/hospitals/README.md).
#
# Next: [18_hospitals_compared](18_hospitals_compared.ipynb), because this model has only been compared with none so
# far.
