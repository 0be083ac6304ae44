"""The two estimators: sparse linear regression, and sparse logistic or softmax regression.

They have the interface of scikit-learn: `fit`, `predict`, `score`, parameters that are set by name,
and fitted attributes that end with an underscore. What the methods do stands in modules of its own:
`training` (from rows to fitted attributes), `summary`, `bootstrap`, `performance`, `report` and
`model_files`.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import log_softmax
from sklearn.base import RegressorMixin
from sklearn.linear_model._base import LinearClassifierMixin
from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .._support.optional import needs
from .._support.validation import check_option
from ..losses import GLMLoss
from ..sparse_model import Array, IndexArray
from .advice import advise_on_intercepts, has_own_intercepts
from .bootstrap import Bootstrap, bootstrap_rows
from .federated_table import LOSSES_OF_NUMBERS, loss_of
from .fitted import LinearModel
from .groups import group_of_each_row
from .inputs import targets_of_rows, validated, validated_targets, weights_of_rows
from .internal_external import Validation, validate_rows
from .own_intercepts import intercept_of_group
from .performance import Performance, performance_of_rows
from .report import FitReport, report_of
from .summary import Summary, summarize
from .training import fit_rows


def _is_of_fit(name: str) -> bool:
    """Return whether an attribute is set by a fit; its name ends with an underscore then."""
    return name == "_training_data" or (name.endswith("_") and not name.endswith("__"))


class SparseLinear(LinearModel):
    """Base of both estimators; parameters as in `FedGradMPRegressor`."""

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            The features. Of a sparse matrix only the columns of the support become dense.
        y : array_like, shape (n_samples,)
            Numbers, or for a classifier labels: numbers or text.
        groups : array_like, shape (n_samples,), optional
            The group of each row; by default all rows are of one group.
        sample_weight : array_like, shape (n_samples,), or float, optional
            A row of weight 2 counts as two rows; one of weight 0 is left out. Weights that are not
            all whole numbers, as those of a survey, are relative: rows are counted as rows, and the
            scale of weights plays a part in two places only. A number for `C` is relative to it, as
            in scikit-learn, and so are model-based errors of labels (`summary`). Weights of rates,
            counts that are not all whole, are times under observation, and relative. A number is
            the weight of all rows.

        Notes
        -----
        A fit that fails or is interrupted changes nothing: the model is the one of before, if there
        was any.
        """
        fitted = object.__new__(type(self))
        fitted.__dict__.update(
            (name, value) for name, value in vars(self).items() if not _is_of_fit(name)
        )
        fit_rows(fitted, X, y, groups, sample_weight)
        # All fitted attributes at once: a fit is interrupted before or after this, never within it.
        self.__dict__ = fitted.__dict__
        return self

    # Predictions.

    def _linear_predictions(self, X: Any, groups: Any) -> Array:
        """Return coefficients times features, and the intercept of the group of each row."""
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        predictions = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        names = None
        if groups is not None and has_own_intercepts(self):
            names = group_of_each_row(len(predictions), groups).tolist()
        advise_on_intercepts(self, names)
        if names is None or not hasattr(self, "intercepts_"):
            return np.asarray(predictions)

        # A number as the others are, unless there are several classes.
        common = np.squeeze(self.intercept_)
        intercepts = [self.intercepts_.get(name, common) for name in names]
        return np.asarray(predictions - self.intercept_ + np.reshape(intercepts, predictions.shape))

    def intercept_of(self, X: Any, y: Any, sample_weight: Any = None) -> float | Array:
        """Return the intercept that fits the rows of one group best, given the coefficients.

        With ``fit_intercept="per_group"`` a group works out its own where its rows are: under
        masks, where the fit returns none, and for a group that took no part. `predict` uses what is
        in ``model.intercepts_[group]``, a dict, which a fit under masks does not make.

        Parameters
        ----------
        X, y, sample_weight
            The rows of the group, as in `fit`. A classifier takes the labels of its fit.

        Returns
        -------
        float or ndarray, shape (n_classes,)
            As the values of `intercepts_`: an array with several classes.

        Raises
        ------
        ValueError
            If the rows determine none: all are of one class, or no count is above zero. If y has
            not one value for each row, or labels in y are none of the fit.

        Examples
        --------
        >>> import numpy as np
        >>> import fgmp
        >>> X = np.random.default_rng(0).standard_normal((60, 3))
        >>> groups = np.repeat(["A", "B", "C"], 20)
        >>> y = 2 * X[:, 1] + np.repeat([0.0, 5.0, 10.0], 20)
        >>> model = fgmp.FedGradMPRegressor(1, fit_intercept="per_group").fit(X, y, groups)
        >>> round(model.intercept_of(X[:5], 2 * X[:5, 1] + 7), 6)
        7.0
        """
        check_is_fitted(self)
        X = validated(self, X, reset=False)
        y = targets_of_rows(self, X, y)
        weights = weights_of_rows(sample_weight, X)
        predictions = safe_sparse_dot(X, self.coef_.T, dense_output=True)
        if predictions.ndim > 1 and predictions.shape[1] == 1:
            predictions = predictions[:, 0]
        targets, loss = self._targets_of_fit(y)
        return intercept_of_group(loss, predictions, targets, weights)

    # How sure: standard errors, and the bootstrap.

    def summary(self, level: float = 0.95, *, unshrunken: bool = False) -> Summary:
        """Return coefficients with standard errors and intervals, given the chosen features.

        The errors are model-based, and site-robust: a cluster sandwich with the groups as clusters.
        Both come from sums that the fit has made, over a network and under masks, too. The choice
        of the features is in neither, and `bootstrap` shows how often a feature is chosen again.

        Parameters
        ----------
        level : float, default 0.95
            The coverage of the intervals, above 0 and at most 1.
        unshrunken : bool, default False
            Whether a refit of the same features without a ridge (``C=np.inf``) stands beside a
            model that has one: a ridge shrinks what the intervals are about. It asks the groups
            again, as `bootstrap` does, with the rows that `fit` was called with. Where features
            separate the classes it does not exist, and a note says so.

        Returns
        -------
        Summary
            A table with notes. ``to_frame()`` returns it for pandas, and `columns` has the arrays.

        Raises
        ------
        ValueError
            If the fit had no minimiser (``polish=False``), was private, or has more than 1,000
            coefficients. With `unshrunken`, if it was over a network, or the model is a copy.

        Notes
        -----
        Model-based errors are those of least squares, with the residual variance over n - k, or of
        maximum likelihood. Those of counts are quasi-Poisson: times the root of the dispersion,
        Pearson's chi-squared over n - k, which makes them smaller below 1, as in R and with
        ``scale="X2"`` of statsmodels. With a finite C, A is the Hessian H of the mean loss and the
        ridge, and the covariance A^-1 H A^-1 / n is that of a ridge estimate about its own mean.
        The sandwich is A^-1 M A^-1, with M the sum of the outer products of the gradients of the
        groups, times G/(G-1) (n-1)/(n-k), the finite-sample correction of statsmodels and Stata.
        Under masks there is none with fewer than four groups, because the sum would tell one of
        them the gradients of the others. With an intercept for each group k counts these, as a
        column for each group would.

        Weights that are whole numbers are numbers of rows, as `freq_weights` of statsmodels: a row
        of weight 2 counts as two rows, in n too. Any others are relative, as the weights of its
        `WLS` and `var_weights`, and n is the number of rows: no error of numbers or counts, and no
        sandwich, depends on their scale. Model-based errors of labels, whose variance is not
        estimated, do, in statsmodels as here: weights that sum to n are on the scale of rows, and a
        note tells of others.

        Examples
        --------
        >>> import numpy as np
        >>> import fgmp
        >>> X = np.random.default_rng(0).standard_normal((400, 6))
        >>> y = 3 * X[:, 2] - X[:, 4] + np.random.default_rng(1).standard_normal(400)
        >>> model = fgmp.FedGradMPRegressor(2).fit(X, y, groups=np.arange(400) % 8)
        >>> table = model.summary().columns
        >>> table["feature"].tolist()
        ['(intercept)', 'x2', 'x4']
        >>> bool(np.all(np.abs(table["coefficient"] - [0, 3, -1]) < 4 * table["standard_error"]))
        True
        """
        check_is_fitted(self)
        return summarize(self, level, unshrunken)

    def bootstrap(
        self,
        n_resamples: int = 200,
        over: str = "groups",
        *,
        choose_again: bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> Bootstrap:
        """Fit the model to resamples of its rows, to see which features are selected again.

        Every resample starts afresh from the model without features, and after ``sparsity="cv"``,
        or ``C="cv"``, chooses that again. (A group that is drawn holds out the rows that it held
        out in the fit, so that no other sums of its rows leave it.) A group that is drawn twice
        counts twice as much, and stays one client. The data are those that `fit` was called with,
        to which the estimator keeps a reference: a pickle, or a copy, holds nothing of them. After
        a fit over a network `fgmp.flower.bootstrap_over` draws whole clients, and needs no rows. On
        a terminal a bar shows the progress from two seconds on.

        Parameters
        ----------
        n_resamples : int, default 200
            Number of resamples.
        over : {"groups", "rows"}
            What is drawn with replacement: whole groups, of which there are at least two, or rows
            within each group.
        choose_again : bool, optional
            Whether each resample chooses again among the sparsities, and C, that the fit chose
            from, with its `folds`. By default it does if the fit chose any. False keeps what the
            fit has chosen, which is faster and blind to how sure that is: shares of 1 may then only
            say that all features fit into the sparsity.
        random_state : int, RandomState or None
            Seed of the draws and of the fits; by default that of the model.
        n_jobs : int, optional
            Number of processes, as in joblib; -1 is one for each processor. By default there is one
            process. The result does not depend on it.

        Returns
        -------
        Bootstrap
            The coefficients of all resamples.

        Warns
        -----
        ConvergenceWarning
            Once, of how many resamples warn of something.

        Raises
        ------
        ValueError
            If the model has no rows, or `private` noise: every resample would spend its epsilon
            again.
        """
        check_is_fitted(self)
        return bootstrap_rows(self, n_resamples, over, choose_again, random_state, n_jobs)

    def report(self) -> FitReport:
        """Return what left each group: in which form, when, how many bytes, how protected.

        It is about the fit. What was sent to measure the model is in the report of what
        `performance` returns.

        Returns
        -------
        FitReport
            It prints as text, and ``to_markdown()`` returns Markdown.

        Examples
        --------
        >>> import numpy as np
        >>> import fgmp
        >>> X = np.random.default_rng(0).standard_normal((60, 4))
        >>> model = fgmp.FedGradMPRegressor(1).fit(X, X[:, 2], groups=np.arange(60) % 3)
        >>> report = model.report()
        >>> report.stages[0].what, report.stages[0].n_clients
        ('means and mean squares of all columns and the outcome', 3)
        """
        check_is_fitted(self)
        return report_of(self)

    def performance(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        *,
        sample_weight: Any = None,
        by: str = "groups",
    ) -> Performance:
        """Return how good the model is for each group: AUC, R^2 or D^2, and calibration.

        The rows may be those of the fit, or of a hospital that had no part in it. Each group
        measures the model on its own rows, and its measures are numbers of its own: `report` of the
        result says so. `fgmp.flower.performance_over` asks clients on other machines, and has the
        same bits.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            The features.
        y : array_like, shape (n_samples,)
            Numbers, or the labels of the fit.
        groups : array_like, shape (n_samples,), optional
            The group of each row; by default all rows are of one group.
        sample_weight : array_like, shape (n_samples,), or float, optional
            As in `fit`, whose weights these have to be: rates are measured with their times. All
            measures have them, and standard errors take weights for numbers of rows if they are
            whole. Over Flower rows have no weights. With ``by="all"`` rows that are not measured
            are counted by their weights.
        by : {"groups", "all"}
            ``"groups"`` measures each group. ``"all"`` measures all rows together from sums over
            the groups, which is what can be had under masks; its AUC is that of pairs within a
            group. A group with fewer than `min_rows` rows, or of a class that it has, sends zeros,
            and its rows are not measured.

        Returns
        -------
        Performance
            A table, with ``plot()``, ``to_frame()`` and ``report()``.

        Warns
        -----
        AdviceWarning
            As `predict` does, of groups without an intercept of their own.

        Raises
        ------
        ValueError
            If `secure` is True with ``by="groups"``; if the model is private; or if labels in y are
            none of the fit.

        Examples
        --------
        >>> import fgmp
        >>> from fgmp.datasets import heart_disease
        >>> heart = heart_disease()
        >>> age_and_sex = heart.X[:, :2]
        >>> is_here = heart.hospital != "Switzerland"
        >>> model = fgmp.FedGradMPClassifier("all")
        >>> model = model.fit(age_and_sex[is_here], heart.y[is_here], heart.hospital[is_here])
        >>> performance = model.performance(age_and_sex, heart.y, heart.hospital)
        >>> performance.columns["group"].tolist()
        ['Budapest', 'Cleveland', 'Long Beach', 'Switzerland']
        >>> performance.columns["auc"].round(2).tolist()
        [0.68, 0.71, 0.61, 0.5]
        """
        check_is_fitted(self)
        return performance_of_rows(self, X, y, groups, by, sample_weight)

    def validate(
        self,
        X: Any,
        y: Any,
        groups: Any,
        *,
        sample_weight: Any = None,
        n_sets: int | None = None,
        dense: bool = True,
    ) -> Validation:
        """Leave each group out, fit to the others, and return how good the models are there.

        This is internal-external cross-validation: everything is chosen and fitted anew without the
        group that is predicted, whatever ``"cv"`` chooses. This estimator need not be fitted, and
        is not changed. `fgmp.flower.validate_over` has the same bits over a network.

        Parameters
        ----------
        X, y, groups, sample_weight
            As in `fit`; the measures have the weights too.
        n_sets : int, optional
            Leave out this number of sets of groups, the same in every call, in place of each group
            by itself. Under masks each set has two groups or more and is measured as one: sums with
            and without a group differ by its own. Then the sparsity and C have to be numbers.
        dense : bool, default True
            Whether a model with ``sparsity="all"``, which takes at most 5,000 features, is
            validated beside this one.

        Returns
        -------
        Validation
            A table by group, and its summary by random effects, with ``plot()``, ``to_frame()`` and
            ``report()``.

        Raises
        ------
        ValueError
            If there are fewer than two groups, masks would not hide one, or a fit is refused.
        """
        return validate_rows(self, X, y, groups, sample_weight, n_sets, dense)

    def to_json(self) -> str:
        """Return the fitted model as JSON, which `from_json` reads.

        It holds numbers and names, and no pickle: the coefficients, intercepts, names of columns,
        labels, groups that took part and those that did not, how the model was fitted and its
        sparsity chosen, and the covariance with the deviations of the chosen columns. It holds no
        rows, and no `history_`.

        Raises
        ------
        ValueError
            If `from_json` would refuse it: labels or groups are neither text nor numbers, or
            attributes or parameters were changed after the fit and do not fit together.
        """
        check_is_fitted(self)
        with needs("a model as JSON", "pydantic"):
            from .model_files import model_to_json
        return model_to_json(self, _KINDS)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the fitted model that `to_json` wrote: `predict` and `summary` have the same bits.

        Raises
        ------
        ValueError
            If the text is no such JSON, if its parts do not fit together (the message names the
            field), or if it is of another class.

        Examples
        --------
        >>> import numpy as np
        >>> import fgmp
        >>> X = np.random.default_rng(0).standard_normal((60, 4))
        >>> model = fgmp.FedGradMPClassifier(1).fit(X, X[:, 2] > 0, groups=np.arange(60) % 3)
        >>> again = fgmp.FedGradMPClassifier.from_json(model.to_json())
        >>> again.support_.tolist(), repr(again.summary()) == repr(model.summary())
        ([2], True)
        """
        model = model_from_json(text)
        if not isinstance(model, cls):
            raise ValueError(
                f"text is the model of a {type(model).__name__}; expected a {cls.__name__}"
            )
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training_data"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(eq=False, repr=False)
class FedGradMPRegressor(RegressorMixin, SparseLinear):  # type: ignore[misc]
    """Linear or Poisson regression on a few features, over groups that keep their rows.

    Choosing the features asks one of two questions: how well a model predicts in a hospital that it
    has never seen (``folds="groups"``), or new patients of the hospitals that it knows
    (``folds="rows"``). By default it is the first one from ten groups on. Where every column counts
    a little, ``sparsity="all"`` predicts better, and `summary` says what the choice costs.

    Each group is one client. The groups send sums, for common units. FedGradMP, or its relative
    with a shared support, selects more features than are asked for. Features are then removed one
    at a time by backward elimination on the pooled Hessian, and a closing exchange solves on those
    that are left, with the sums of all groups.

    Parameters
    ----------
    sparsity : int, {"cv", "all"} or None
        tau, the number of features: from 0 to all. ``"cv"`` chooses it by cross-validation
        (`folds`): the smallest one whose loss is within half a standard error of the best, where
        the error is that of the difference of the two, or within half a thousandth of what the
        best gains. ``"all"`` is the dense model, by the same sums, for up to 5,000 features. None
        is 10, or all if there are fewer.
    method : {"auto", "fedgradmp", "shared"}
        The method that selects the features. ``"auto"`` is `fgmp.FedGradMP`, in which each client
        selects and the server averages. Its clients solve least squares exactly if the smallest
        group has more than twice as many rows as coefficients (3 T and an intercept), and else,
        and for labels, they take five gradient steps. If the smallest group has no more rows than
        that, and there are more than 50 T features, it is `fgmp.SharedSupportGradMP`, which adds up
        the whole gradients of all groups before anything is selected: among so many features a
        client with few rows sees noise. The path begins at T features: 20, or 2.5 tau, but no more
        than all features or a third of the rows, and if features outnumber the rows a sixth of
        those that train. `method_` says which one it was.
    fit_intercept : True, "per_group" or False
        ``"per_group"`` is an intercept for each group, as a column of ones for each would be. A
        group works it out itself: it subtracts its own means, as the within estimator for panel
        data does, or for counts and classes shifts its predictions by what fits its rows best.
    standardize : {"auto"} or bool
        Whether features compete for the support in units of their standard deviation (about zero,
        if there is no intercept). ``"auto"`` does so if X is dense: in units of deviations a word
        that hardly occurs weighs as much as any other.
    polish : bool, default True
        Whether a closing exchange solves on the support that was selected.
    C : float, {"auto", "cv"}
        The closing exchange adds half the squared norm of the coefficients (in standardised units,
        without the intercept) to C times half the sum of squares: the ridge 1/C. ``np.inf`` adds
        nothing. ``"auto"`` is ``np.inf`` for few features, and 1 with ``sparsity="all"``, because
        least squares on more columns than sense fits noise. ``"cv"`` chooses from 0.001, 0.01, 0.1,
        1, 10 and 100 by the same folds, together with the sparsity if that is ``"cv"`` as well: a
        sparsity counts by its best C. With relative weights of rows a number is relative to their
        sum, as in scikit-learn, and what ``"auto"`` and ``"cv"`` take is divided by their mean.
    rounds : int, optional
        The most rounds, by default 20, and five where a sparsity or C is chosen. Within folds, and
        where the rounds select all features anyway, they are five at most.
    tol : float, default 1e-2
        Rounds end earlier if three in a row improve the objective by less than this fraction. A
        ConvergenceWarning says so if the last round still did more than this fraction of all.
    cohort_size, local_iterations, batch_size
        As in `fgmp.simulate` and `fgmp.FedGradMP`, in the rounds.
    sparsities : sequence of int, optional
        The sizes that ``"cv"`` chooses from, by default 0 to 6, 8, 10, 12, 15 and 20, no further
        than the features and half the rows, or a sixth of those that train if features outnumber
        the rows; and all features if these are at most 50 and a third of the rows.
    folds : {"auto", "rows", "groups"}
        What ``"cv"`` holds out. ``"groups"`` leaves whole groups out, and so asks how well a group
        is predicted that the model has never seen. ``"rows"`` has each group hold out rows of its
        own, by random numbers of its own, and asks about new rows of known groups. ``"auto"`` is
        ``"groups"`` from ten groups on, and ``"rows"`` with fewer: a fold of one of four hospitals
        takes much away that the others do not have, and new hospitals are predicted worse. With
        `secure` a fold has at least two groups.
    n_folds : int, optional
        The most folds, by default 20 of groups and 10 of rows. Groups have no more folds than there
        are (half of it with `secure`), so that up to 20 are left out one by one, whatever the seed.
        A fit takes about as long as its folds: fewer are faster, and hang more on the seed.
    min_rows : int, default 5
        Groups with fewer rows send nothing, and a warning says so: the mean of few rows is nearly a
        row. With ``folds="rows"`` no group deals folds of fewer: one with less than
        ``n_folds * min_rows`` rows deals fewer folds, or none, and trains with all its rows then.
        Levels and gaps of fewer rows of a group, or of all rows without groups, are in no column
        (`categories`, `missing`), and `performance` has no measure of fewer rows of a class. A fit
        takes classes of few rows, and columns of your own with few ones: sums in the open tell of
        these rows. A warning names the classes, over Flower in the log of the client, `summary`
        marks the columns, and `secure` adds the rows of all groups first. Not applied with
        `private`, because numbers of rows are data then.
    secure : bool, default False
        Whether every sum is one under masks, as by `fgmp.SecureSum`: over Flower the server sees
        sums over groups, and no combination of them rests on one group (docs/promises.md says who
        sees what, and under which conditions, and what it costs). A fit ends if a group leaves, and
        `cohort_size` has to be None.
    private : GaussianNoise, optional
        FedGradMP's rounds alone, with this noise. All else that a fit asks for are exact sums, so
        that `standardize`, `fit_intercept`, `polish` and `secure` have to be False, and `sparsity`
        a number. Every fit spends epsilon, so what repeats fits to the same rows
        (`cross_val_score`, `GridSearchCV`) spends it each time, and `bootstrap` refuses.
    random_state : int, RandomState or None
        Seed of cohorts, minibatches and folds.
    verbose : {"auto"} or bool
        What `fit` and `bootstrap` say of their progress on the standard error. ``"auto"`` shows the
        stage and the round, or a bar, on a terminal if the work takes more than two seconds, and
        takes the line away at the end. True prints a line for each stage and each round, wherever
        the output goes. Over Flower ``fit_over(report=)`` has these lines.
    always_include : str, int, or sequence of these, optional
        Columns, by name or index, that are in every model, such as age and sex. They are none of
        the tau: ``sparsity=3`` chooses three others, and ``sparsity=0`` none.
    missing : {"error", "indicator"}
        What to do where a value is missing. ``"error"`` refuses it, and names the column.
        ``"indicator"`` puts the mean of the values that are there in its place, over all groups,
        and adds a column that says so, ``cholesterol is missing``, if a value is missing in any
        group. The two are selected together and count as one. A column may be missing at a whole
        group. Fewer than `min_rows` gaps of a group are its own mean, and make no column; where
        fewer rows of it have a value, all are gaps. Columns become float64. Not with a sparse X.
    categories : str, int, sequence of these, or mapping, optional
        Columns, by name or index, that are categories: text, or numbers that stand for kinds. A
        value is one level whatever its type at a group: 1, 1.0, True, "1" and "True"; 0.1 as a
        float32, a float64, a Decimal and "0.1". A category becomes a column of zeros and ones,
        ``ward=B``, for each of its levels but the most frequent one, the reference (of equally
        frequent ones the first, in the order of their texts). All levels are selected together and
        count as one. The levels are the union of those that occur in any group. Over Flower the set
        of its levels leaves a client for that, in the open; a mapping from columns to levels names
        them beforehand, so that nothing does, and `secure` asks for one. With
        ``missing="indicator"`` a category that is missing is a level more. Levels that fewer than
        `min_rows` rows of a group have count as
        the level ``other`` there, if there are several and these are no fewer together, and else as
        its most frequent one: neither their names nor their numbers leave it.
    loss : {"squared", "poisson"}
        ``"poisson"`` is for counts: a coefficient is the logarithm of a rate ratio, `predict`
        returns expected counts, and `score` the share of the deviance that is explained. With C the
        penalty is that of `sklearn.linear_model.PoissonRegressor` with alpha = 1 / (C n), in
        standardised units.

    Attributes
    ----------
    coef_ : ndarray, shape (n_columns,)
        The coefficients, in the units of the data. The columns are those of X; with `missing` or
        `categories` they are ``encoding_.column_names()``.
    intercept_ : float
        The intercept, in the units of the data. With ``fit_intercept="per_group"`` it is the best
        one of all rows, given the coefficients: for the squared loss, the mean of those of the
        groups.
    intercepts_ : dict
        With ``fit_intercept="per_group"`` the intercept of each group whose rows determine one. It
        is sent once, at the end, and averaged with no other; under masks it stays with the group,
        which works it out by `intercept_of`.
    encoding_ : Encoding
        With `missing` or `categories` what the columns of X become, for all groups alike.
    support_ : ndarray of int
        The features with a coefficient that is not zero.
    groups_ : ndarray
        The groups that take part. Over Flower these are the clients that replied to the end.
    missing_ : ndarray
        The other groups: those with fewer than `min_rows` rows, or without a positive weight. Over
        Flower they are the clients that did not reply to the end.
    n_rows_left_out_ : int
        How many rows of a positive weight the other groups have, after `fit`. Over Flower these say
        nothing of themselves.
    n_rows_recoded_ : dict of str to int
        With `missing` or `categories`, after `fit`: how many rows of each column of X entered the
        fit with another level, or without their gap, because fewer than `min_rows` rows of their
        group have it. `predict` and `performance` take rows as they are.
    sparsity_, C_, method_, n_iter_ : int, float, str, int
        tau, C and the method, as given or chosen, and the number of rounds.
    history_ : dict of ndarray
        As in `fgmp.Result`. The first entry includes the sums for the units. The last one is of the
        closing exchange, and its rounds and bytes are those of everything that was sent, a choice
        of tau included.
    cv_ : SparsityPath
        How the sparsity, or C, was chosen, if one of them is ``"cv"``.
    exchanges_ : tuple of Sent
        What the groups sent, stage by stage, which `report` shows.
    fgmp_version_ : str
        The version of the package that the model was fitted with.
    covariance_ : Covariance
        The covariance of the coefficients, which `summary` shows. A private model, or one with
        ``polish=False``, has none.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((200, 6))
    >>> y = 3 * X[:, 1] - 2 * X[:, 4] + 7
    >>> model = fgmp.FedGradMPRegressor(sparsity=2).fit(X, y, groups=np.arange(200) % 5)
    >>> model.support_.tolist(), model.coef_[model.support_].round(6).tolist()
    ([1, 4], [3.0, -2.0])
    """

    _: KW_ONLY
    loss: str = "squared"

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Return predictions, shape (n_samples,); with ``loss="poisson"`` expected counts.

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            The features.
        groups : array_like, shape (n_samples,), optional
            With ``fit_intercept="per_group"`` the group of each row. A row has the intercept of its
            group, or the common one if the group has none, of which a warning tells. Without groups
            all rows have the common one, and an AdviceWarning says so.
        """
        return loss_of(None, self.loss).expected_targets(self._linear_predictions(X, groups))

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Return the coefficient of determination R^2 of ``predict(X, groups)``.

        With ``loss="poisson"`` it is D^2, the share of the deviance that is explained, as in
        `sklearn.linear_model.PoissonRegressor`.

        In cross-validation ``set_score_request(groups=True)`` and scikit-learn's metadata routing
        pass the groups on.
        """
        y = validated_targets(self, y)
        predictions = self.predict(X, groups)
        weights = None if sample_weight is None else weights_of_rows(sample_weight, predictions)
        if self.loss == "poisson":
            return float(d2_tweedie_score(y, predictions, sample_weight=weights, power=1))
        return float(r2_score(y, predictions, sample_weight=weights))

    def _check_parameters(self) -> None:
        """Check each parameter by itself."""
        super()._check_parameters()
        check_option("loss", self.loss, tuple(LOSSES_OF_NUMBERS))

    def _targets(self, y: Array, weights: Array) -> tuple[Array, GLMLoss, Array]:
        """Return the targets in float64, the loss, and the weights as they are."""
        targets, loss = self._targets_of_fit(y)
        if self.loss == "poisson" and not targets[weights > 0].any():
            raise ValueError("y is zero in every row; expected a count above zero")
        return targets, loss, weights


@dataclass(eq=False, repr=False)
class FedGradMPClassifier(LinearClassifierMixin, SparseLinear):  # type: ignore[misc]
    """Logistic regression on a few features (softmax for several classes), over groups of rows.

    With ``sparsity="cv"`` it asks how well a hospital is predicted that the model has never seen
    (``folds="groups"``, the default from ten groups on), or new patients of known hospitals
    (``folds="rows"``).

    The groups keep their rows to themselves. Parameters and attributes are those of
    `FedGradMPRegressor`, except for the ones below. A feature counts once, whatever the number of
    classes.

    Parameters
    ----------
    fit_intercept : True, "per_group" or False
        An intercept for all groups, or one for each, which are not among the tau.
    C : float or "cv", default 1.0
        As in `sklearn.linear_model.LogisticRegression`: the closing exchange adds half the squared
        norm of the coefficients (in standardised units, without the intercept) to C times the
        summed log loss. ``np.inf`` adds nothing. Classes that a few features separate, or some rows
        of them as by a flag that one class has, then have no finite model, and the fit is an error.
    class_weight : dict, "balanced" or None
        As in scikit-learn: the weight of a row by its class, beside `sample_weight`; above 0.
        ``"balanced"`` makes the sums of the sample weights of all classes alike.

    Attributes
    ----------
    coef_ : ndarray, shape (1, n_features) or (n_classes, n_features)
        In log-odds per unit of the feature: of ``classes_[1]`` if there are two classes.
    intercept_ : ndarray, shape (1,) or (n_classes,)
        In log-odds.
    classes_ : ndarray, shape (n_classes,)
        The labels, increasing.

    Examples
    --------
    >>> import fgmp
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> sites = [row % 3 for row in range(len(y))]
    >>> model = fgmp.FedGradMPClassifier(sparsity=3).fit(X, y, groups=sites)
    >>> len(model.support_), len(model.groups_), model.score(X, y) > 0.9
    (3, 3, True)
    """

    C: float | str = 1.0
    class_weight: object = None

    # Without `set_score_request(groups=True)` scikit-learn passes no groups to what predicts.
    __metadata_request__predict = {"groups": False}
    __metadata_request__predict_proba = {"groups": False}
    __metadata_request__predict_log_proba = {"groups": False}
    __metadata_request__decision_function = {"groups": False}
    __metadata_request__score = {"groups": False}

    def decision_function(self, X: Any, groups: Any = None) -> Array:
        """Return the scores of the classes, shape (n_samples, n_classes).

        For two classes they are log-odds of ``classes_[1]``, shape (n_samples,).

        Parameters
        ----------
        X : array_like, sparse matrix or table, shape (n_samples, n_features)
            The features.
        groups : array_like, shape (n_samples,), optional
            As in `FedGradMPRegressor.predict`, and the same for all methods that predict.
        """
        scores = self._linear_predictions(X, groups)
        return np.asarray(scores[:, 0] if scores.shape[1] == 1 else scores)

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Return the class of the largest score for each row, shape (n_samples,)."""
        scores = self.decision_function(X, groups)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Return the share of rows whose class ``predict(X, groups)`` finds."""
        y = validated_targets(self, y)
        predictions = self.predict(X, groups)
        weights = None if sample_weight is None else weights_of_rows(sample_weight, predictions)
        return float(accuracy_score(y, predictions, sample_weight=weights))

    def predict_proba(self, X: Any, groups: Any = None) -> Array:
        """Return probabilities, shape (n_samples, n_classes)."""
        return np.exp(self.predict_log_proba(X, groups))

    def predict_log_proba(self, X: Any, groups: Any = None) -> Array:
        """Return the logarithms of `predict_proba`."""
        scores = self.decision_function(X, groups)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return np.asarray(log_softmax(scores, axis=1))

    def _targets(self, y: Array, weights: Array) -> tuple[Array, GLMLoss, Array]:
        """Return signs, or codes from 0 for several classes; the loss; and weights with classes.

        A class whose rows all have the weight zero is left out.
        """
        check_classification_targets(y)
        self.classes_ = np.unique(y[weights > 0])
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data "
                f"contains only one class: {self.classes_[0]!r}"
            )
        if self.class_weight is not None:
            codes = np.searchsorted(self.classes_, y).clip(max=n_classes - 1)
            weights = self._times_class_weights(weights, codes)
        return *self._targets_of_fit(y), weights

    def _times_class_weights(self, weights: Array, codes: IndexArray) -> Array:
        """Return the weights of rows times those of their classes, or raise a ValueError.

        Products for rows that take part have to be above zero and finite.
        """
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(codes, weights)
            by_class = weights.sum(dtype=np.float64) / (len(totals) * totals)
        else:
            by_class = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_
            )
        for label, weight in zip(self.classes_.tolist(), by_class.tolist(), strict=True):
            if not 0 < weight < np.inf:
                raise ValueError(
                    f"class_weight is {weight!r} for the class {label!r}; expected a finite number "
                    "above 0 (rows with a sample_weight of 0 are left out)"
                )

        with np.errstate(over="ignore", under="ignore"):
            products = weights * by_class[codes]
        if not np.isfinite(products).all() or (products[weights > 0] == 0).any():
            raise ValueError(
                "class_weight times sample_weight is zero or not finite for some rows; expected "
                "products above 0 that a float holds"
            )
        return np.asarray(products)


_KINDS: tuple[type[SparseLinear], ...] = (FedGradMPRegressor, FedGradMPClassifier)


def model_from_json(text: str | bytes) -> SparseLinear:
    """Return the fitted estimator that `to_json` wrote. Its predictions have the same bits.

    Raises
    ------
    ValueError
        If the text is no such JSON, or its parts do not fit together. The message names the field.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> from fgmp.estimators import model_from_json
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> model = fgmp.FedGradMPRegressor(1).fit(X, 2 * X[:, 1])
    >>> again = model_from_json(model.to_json())
    >>> bool(np.all(again.predict(X) == model.predict(X))), again.support_.tolist()
    (True, [1])
    """
    with needs("a model as JSON", "pydantic"):
        from .model_files import read_model
    return read_model(text, _KINDS)
