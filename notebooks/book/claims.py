"""A claim: words, what was measured, whose statement it is, and the verdict; and what notebooks measure with."""

import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable

import numpy as np
from IPython import get_ipython
from IPython.display import publish_display_data
from joblib import Parallel, cpu_count, delayed

__all__ = [
    "as_list",
    "claim",
    "each",
    "falls",
    "listed",
    "outwards",
    "passes_half",
    "pooled_error",
    "with_interval",
]

# Wholly, at least half, less than half; then what has to be named.
WORDS = {
    "paper": ("reproduced", "reproduced in part", "not reproduced", "undecided"),
    "errata": (
        "as printed",
        "as printed in part",
        "not as printed",
        "misprint",
        "gap in the proof",
        "statement false",
    ),
    "ours": ("holds", "holds in part", "does not hold", "undecided"),
}
WORDS["check"] = WORDS["ours"]
VERDICTS = tuple(dict.fromkeys(word for words in WORDS.values() for word in words))


def claim(
    id,
    words,
    measured,
    holds,
    *,
    source,
    expected,
    unit="",
    digits=3,
    floor=None,
    within=None,
    keep=None,
):
    """Show the verdict, the words and the expectation; the whole record travels as metadata of the output.

    `words` say what is claimed, in one line. `source` is "paper, " and the place of a finding that the authors state,
    "errata, " and the place of a formula that stands beside its derivation, "ours" for a statement of our own, or
    "check" for an identity or a check of our code, both with a place after a comma. `measured` is one value for each
    seed, one value, several of these by name, or a few words. `holds` is one answer, or one for each seed or part: all
    true means "reproduced" ("holds", "as printed"), at least half of them "in part"; or it names the verdict:
    "undecided", where the data do not decide, or the weight of an entry of ERRATA.md.

    `digits` are significant ones, and whole numbers are shown in full. Magnitudes below `floor` are shown as
    "below ...", because they differ between machines; with `within` the range of the seeds is shown, rounded outwards
    to multiples of it, and no median: for what the last bits decide. `keep` holds more values for the record.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", id):
        raise ValueError(f"id is {id!r}; expected lower-case letters, digits, '.', '_' and '-'")
    if not re.fullmatch(r"(paper|errata), .+|(ours|check)(, .+)?", source):
        raise ValueError(
            f"source of {id} is {source!r}; expected 'paper, ' or 'errata, ' + place, 'ours' or 'check'"
        )
    measured = plain(measured)
    verdict = verdict_of(holds, WORDS[source.partition(",")[0]])
    parts = measured.values() if isinstance(measured, dict) else [measured]
    numbers = np.hstack([np.ravel(part) for part in parts])
    unknown = numbers.dtype.kind == "f" and np.isnan(numbers).any()
    if not numbers.size or (unknown and verdict in ("reproduced", "holds")):
        raise ValueError(
            f"measured of {id} is {measured!r}; expected numbers, or another verdict than {verdict!r}"
        )
    look = {"unit": f" {unit}" * bool(unit), "digits": digits, "floor": floor, "within": within}
    record = {
        "id": id,
        "statement": words,
        "source": source,
        "expected": expected,
        "verdict": verdict,
    }
    record |= {
        "shown": shown(measured, **look),
        "measured": measured,
        "unit": unit,
        "parameters": plain(keep or {}),
    }
    line = f"[{verdict}] {id}: {shown(measured, **look, brief=True)}"
    paragraphs = [words, f"expected: {expected}{met_by(holds, parts)}"]
    text = "\n".join(
        [line, *(textwrap.indent(textwrap.fill(one, 100), "    ") for one in paragraphs)]
    )
    if get_ipython() is None:
        print(text)
    else:
        publish_display_data({"text/plain": text}, {"claim": written(record)})


def verdict_of(holds, words) -> str:
    """One of the words: by the share of answers that are true, or the one that is named."""
    if isinstance(holds, str) and holds in words[3:]:
        return holds
    answers = np.ravel(np.asarray(holds))
    if answers.dtype != bool or not answers.size:
        raise ValueError(
            f"holds is {holds!r}; expected True, False, a sequence of these, or one of {words[3:]}"
        )
    return words[0 if answers.all() else 1 if 2 * answers.sum() >= answers.size else 2]


def met_by(holds, parts) -> str:
    """How many answers are true, if there are several and not all are."""
    answers = np.ravel(holds)
    if answers.dtype != bool or answers.size == 1 or answers.all():
        return ""
    by_seed = answers.size in {len(part) for part in parts if isinstance(part, list)}
    return f"; met by {answers.sum()} of {answers.size} {'seeds' if by_seed else 'parts'}"


def shown(measured, unit="", digits=3, floor=None, within=None, brief=False) -> str:
    """The measured values in words: medians, with ranges over the seeds; `brief` has none of what has names."""

    def show(value) -> str:
        if isinstance(value, int):
            return str(value)
        return (
            f"below {floor:g}"
            if floor is not None and abs(value) < floor
            else f"{value + 0.0:.{digits}g}"
        )

    def in_words(values, unit, seeds=True, brief=False) -> str:
        if not isinstance(values, list):
            return show(values) + unit
        whole = all(isinstance(value, int) for value in values)
        ends = (float(end) for end in (np.min(values), np.median(values), np.max(values)))
        low, median, high = (show(int(end) if whole and end.is_integer() else end) for end in ends)
        inside = [f"{low} to {high}"] if within is None and low != high and not brief else []
        inside += [_seeds(values)] if seeds else []
        middle = median if within is None else outwards(values, within)
        return middle + unit + f" ({', '.join(inside)})" * bool(inside)

    if isinstance(measured, str):
        return measured + unit
    if not isinstance(measured, dict):
        return in_words(measured, unit)
    counts = {_seeds(values) for values in measured.values() if isinstance(values, list)}
    parts = [
        f"{name}{':' * name[-1].isdigit()} {in_words(values, '', len(counts) > 1, brief)}"
        for name, values in measured.items()
    ]
    return ", ".join(parts) + unit + "".join(f"; {count}" for count in counts if len(counts) == 1)


def _seeds(values) -> str:
    return f"{len(values)} seed{'s' * (len(values) > 1)}"


def outwards(values, step: float) -> str:
    """The range of values, rounded outwards to multiples of a step; one number where both bounds are the same."""
    low = math.floor(float(np.min(values)) / step + 1e-9) * step
    high = math.ceil(float(np.max(values)) / step - 1e-9) * step
    least, most = (f"{bound + 0.0:.6g}" for bound in (low, high))
    return least if least == most else f"{least} to {most}"


def listed(values) -> str:
    """Values in a row: numbers short, words as they are."""
    return ", ".join(value if isinstance(value, str) else f"{value:g}" for value in values)


def as_list(value) -> list:
    """A parameter that holds several values, or one."""
    return np.atleast_1d(value).tolist()


def plain(value):
    """Numbers, texts, lists and dicts of Python in place of NumPy's."""
    as_python = lambda one: one.tolist() if hasattr(one, "tolist") else list(one)  # noqa: E731
    return json.loads(json.dumps(value, default=as_python))


def written(value, digits: int = 17):
    """The value as JSON has it: numbers to so many significant digits, and those that are not finite as words."""
    look = {
        "parse_float": lambda text: float(f"{float(text):.{digits}g}"),
        "parse_constant": lambda t: str(float(t)),
    }
    return json.loads(json.dumps(value), **look)


def totals(claims: Iterable[dict]) -> str:
    """How often each verdict was reached, in words."""
    counts = Counter(one["verdict"] for one in claims)
    several = {"holds": "hold", "holds in part": "hold in part", "does not hold": "do not hold"}
    words = {
        verdict: several.get(verdict, verdict) if counts[verdict] > 1 else verdict
        for verdict in VERDICTS
    }
    return (
        ", ".join(f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict])
        or "none"
    )


def each(function, jobs) -> list:
    """The function of each job, which is a tuple of arguments, in up to eight processes."""
    return Parallel(min(cpu_count(), 8))(delayed(function)(*job) for job in jobs)


def with_interval(values, per_doubling_of=None):
    """Mean over the seeds and 95 % interval, by the bootstrap, of values or of their slopes against log2 of sizes."""
    if per_doubling_of is not None:
        values = np.polyfit(np.log2(per_doubling_of), values.T, 1)[0]
    draws = np.random.default_rng(0).integers(len(values), size=(9999, len(values)))
    ends = np.percentile(values[draws].mean(axis=1), (2.5, 97.5), axis=0)
    return np.round(
        [values.mean(axis=0), *ends], 9
    )  # a mean of zero is zero, without rounding errors


def falls(mean, low, high):  # whether what has this interval is below zero
    return "yes" if high < 0 else "no" if low > 0 else "undecided"


def passes_half(shares, sizes):
    """The size at which a share passes one half, between two by their logarithm; nan outside of the sizes."""
    i, logs = int(np.argmax(shares >= 0.5)), np.log(sizes)
    return np.exp(np.interp(0.5, shares[i - 1 : i + 1], logs[i - 1 : i + 1])) if i else np.nan


def pooled_error(fed, support):
    """The relative error of least squares on the rows of all clients, with the features of a support."""
    whole, x = fed.pooled().clients[0], np.zeros(fed.n_features)
    x[support] = np.linalg.lstsq(whole.columns(support), whole.targets, rcond=None)[0]
    return np.linalg.norm(x - fed.truth) / np.linalg.norm(fed.truth)
