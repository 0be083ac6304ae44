"""The report of a fit: what left each client, in which form, when, how large, how protected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .fitted import SELECTED_BY, LinearModel, words_on_features
from .session import Sent


@dataclass(frozen=True)
class FitReport:
    """A report that prints as text, and as Markdown in a notebook.

    Attributes
    ----------
    facts : tuple of (str, str)
        The model, who took part and who did not, and the protection.
    stages : tuple of Sent
        What was sent, in its order.

    Examples
    --------
    >>> import numpy as np
    >>> import fgmp
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> report = fgmp.FedGradMPRegressor(1).fit(X, X[:, 1], groups=["A", "B"] * 30).report()
    >>> report.facts[0], report.facts[2]
    (('model', 'FedGradMPRegressor, 1 of 3 features'), ('groups', 'A, B'))
    >>> print(report.stages[0].what)
    means and mean squares of all columns and the outcome
    """

    facts: tuple[tuple[str, str], ...]
    stages: tuple[Sent, ...]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.facts)
        lines = [f"{name:{width}}  {value}" for name, value in self.facts]
        for number, stage in enumerate(self.stages, start=1):
            rounds = "1 round" if stage.rounds == 1 else f"{stage.rounds} rounds"
            lines += ["", f"{number}. {stage.what}"]
            lines.append(
                f"   {stage.began} UTC; {rounds} with {stage.n_clients} clients; "
                f"{_bytes_each(stage):,} bytes from each"
            )
        return "\n".join(lines)

    __repr__ = __str__

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        lines = [f"- **{name}**: {value}" for name, value in self.facts]
        lines += ["", "| what left each client | when (UTC) | rounds | clients | bytes each |"]
        lines += ["|---|---|---|---|---|"]
        for stage in self.stages:
            each = _bytes_each(stage)
            lines.append(
                f"| {stage.what} | {stage.began} | {stage.rounds} | {stage.n_clients} | {each:,} |"
            )
        return "\n".join(lines)

    _repr_markdown_ = to_markdown


def report_of(model: LinearModel) -> FitReport:
    """Return the report of a fitted estimator.

    Raises
    ------
    ValueError
        If it has no record of what was sent.
    """
    stages: Sequence[Sent] | None = getattr(model, "exchanges_", None)
    if stages is None:
        raise ValueError("the model has no record of what was sent; expected a fitted model")
    return FitReport(tuple(_facts_of(model, stages)), tuple(stages))


def _facts_of(model: LinearModel, stages: Sequence[Sent]) -> Iterator[tuple[str, str]]:
    """Yield the model, who took part, the protection, and what groups have said of themselves."""
    yield "model", f"{type(model).__name__}, {words_on_features(model)}"
    yield "selected by", SELECTED_BY[model.method_]
    yield "groups", ", ".join(map(str, model.groups_))
    yield "took no part, or left", ", ".join(map(str, getattr(model, "missing_", []))) or "none"
    yield "protection", protection_of(model)
    yield "bytes from each group", bytes_from_each(stages, len(model.groups_))
    yield "made by", f"fgmp {model.fgmp_version_}, random_state={_seed_in_words(model)}"
    if model.fit_intercept == "per_group":
        words = "each is sent once, after the fit, and never averaged"
        if model.secure:
            words = "stay with the groups; the common one is a sum"
        yield "intercepts of the groups", words

    variables = model.encoding_.variables if hasattr(model, "encoding_") else []
    categories = [variable.name for variable in variables if variable.is_category]
    if categories:
        words = "the set of those that it has left each group, without numbers, beforehand"
        if isinstance(model.categories, Mapping) and model.categories:
            words = "named beforehand: no group said which it has"
        elif model.min_rows > 1:
            words += f"; of those that {model.min_rows} rows of it have, or more"
        yield f"levels of {', '.join(categories)}", words


def bytes_from_each(stages: Sequence[Sent], n_groups: int) -> str:
    """Return what a group sent in all stages, in words."""
    return f"{sum(stage.bytes_up for stage in stages) // max(n_groups, 1):,} on average"


def _seed_in_words(model: LinearModel) -> str:
    """Return the seed of a fit; cohorts, minibatches and folds depend on nothing else."""
    if model.random_state is None or isinstance(model.random_state, (int, np.integer)):
        return str(model.random_state)
    return "a generator"


def protection_of(model: LinearModel) -> str:
    """Return who sees what, in words."""
    if model.private is not None:
        return f"in the open to the server, which adds noise to sums ({model.private!r})"
    if model.secure:
        return "masks: the server sees sums over groups, and nothing of one group"
    return "none: the server sees the sums of each group, which are over all of its rows"


def _bytes_each(stage: Sent) -> int:
    """Return what a client sent on average."""
    return stage.bytes_up // max(stage.n_clients, 1)
