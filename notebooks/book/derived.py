"""Claims that are computed from the tables of kept runs, because no notebook makes them itself.

Notebook 09 compares FedGradMP at its own best rate with rivals at up to 0.01, and at theirs, for ink = 1 and on unseen
writers. The same table has the runs with paper = 1, the coding in which Federated EMNIST is published, and the accuracy
on training writers, as that of notebook 10 has for its claim on few atoms. And whether one setting shows both Figure 6
and Figure 7 takes the tables of notebooks 09 and 10 together, which have the same writers, seeds and cohorts.
"""

from itertools import product

import numpy as np

from .claims import WORDS, plain, shown, verdict_of
from .writers import Accuracies, cell_of

INK, PAPER = "ink = 1", "paper = 1"
RIVALS = ("FedAvg", "FedMid", "FedDualAvg", "FedIterHT")
LEVEL = 0.01  # a lead of at most this counts as none, as in notebook 09


def cell(method: str, rate: float, sparsity: int, coding: str) -> str:
    """Return the cell of a method, whose sparsity counts where it has one."""
    return cell_of(method, rate, sparsity if method in ("FedGradMP", "FedIterHT") else None, coding)


def own_rate_leads(main: dict, stop: int, coding: str, column: str) -> dict[str, np.ndarray]:
    """Return by how far FedGradMP at its best rate leads the best rival, at each rate up to 0.01 and at its best.

    The best rate is the one with the best accuracy on training writers. A value for each seed.
    """
    table = Accuracies(main["cells"])
    sparsity = max(tau for tau in main["sparsity"] if tau < main["pixels"])

    def of(method, rate):
        return cell(method, rate, sparsity, coding)

    def best(method):
        def on_training_writers(rate):
            return np.median(table.at(of(method, rate), stop, "training"))

        return of(method, max(main["rates"], key=on_training_writers))

    small = [rate for rate in main["rates"] if rate <= 0.01]
    rivals = {f"rivals at {rate:g}": [of(rival, rate) for rival in RIVALS] for rate in small}
    rivals["rivals at their best"] = [best(rival) for rival in RIVALS]
    ours = best("FedGradMP")
    return {
        words: np.min([table.lead(ours, other, stop, column) for other in theirs], axis=0)
        for words, theirs in rivals.items()
    }


def beside(usual: dict, suffix: str, statement: str, leads: dict[str, np.ndarray]) -> dict:
    """Return the record of leads that a notebook does not claim, beside the one that it does."""
    measured = plain(leads)
    return usual | {
        "id": f"{usual['id']}-{suffix}",
        "statement": statement,
        "verdict": verdict_of(
            [bool(np.median(lead) > LEVEL) for lead in leads.values()], WORDS["paper"]
        ),
        "measured": measured,
        "shown": shown(measured),
        "derived": True,
    }


def both_leads(six: dict, seven: dict, of_fedavg: float | None = None) -> list[tuple[float, float]]:
    """Return the leads of FedGradMP in pixels over FedAvg, and of the dictionary over pixels, in each common cell.

    Accuracy on unseen writers after the early round, medians over the seeds that the cell of Figure 7 has. FedAvg has
    the rate of the cell, or `of_fedavg`.
    """
    rivals, arms = Accuracies(six["cells"]), Accuracies(seven["cells"])
    stop, rates = seven["stops"][0], [rate for rate in seven["rates"] if rate in six["rates"]]
    found = []
    for coding, tau, rate in product((INK, PAPER), seven["sparsity"], rates):
        pixels = cell_of("FedGradMP", rate, tau, coding)
        dictionary = cell_of("FedGradMP", rate, tau, coding, seven["atoms"])
        if pixels in seven["cells"]:
            ours = arms.at(pixels, stop)
            theirs = rivals.at(cell("FedAvg", of_fedavg or rate, tau, coding), stop)[: len(ours)]
            leads = ours - theirs, arms.lead(dictionary, pixels, stop)
            found.append(tuple(float(np.median(lead)) for lead in leads))
    return found


def few_atoms_on_training_writers(usual: dict, seven: dict) -> dict:
    """Return the claim on few atoms for training writers, whom the caption of Figure 7 has, and after all rounds."""
    stop, last = seven["stops"]
    smallest = min(seven["rates"])
    tau = min(seven["sparsity"])
    early = Accuracies(seven["cells"])
    late = Accuracies(seven["long"])

    def lead(accuracies, rate, at, column):
        pixels = cell_of("FedGradMP", rate, tau, INK, None)
        dictionary = cell_of("FedGradMP", rate, tau, INK, seven["atoms"])
        return accuracies.lead(dictionary, pixels, at, column)

    leads = {f"rate {rate:g}": lead(early, rate, stop, "training") for rate in seven["rates"]}
    for column in ("training", "unseen"):
        leads[f"{column}, round {last}"] = lead(late, smallest, last, column)
    words = f"training clients, and after {last} rounds at the smallest rate on both"
    return beside(usual, "training", usual["statement"].replace("unseen clients", words), leads)


def accuracies_elsewhere(committed: dict[str, dict], main: dict) -> list[dict]:
    """Return the claims on Figure 6 with own rates for paper = 1, and on training writers."""
    found, tuned = [], {}
    for stop, words in zip(main["stops"], ("early", "late"), strict=True):
        usual, on_training = committed[f"fig6-own-rate-{words}"], {}
        for coding, column in ((PAPER, "unseen"), (INK, "training"), (PAPER, "training")):
            leads = own_rate_leads(main, stop, coding, column)
            tuned[f"{coding}, {column}, round {stop}"] = leads.pop("rivals at their best")
            if column == "unseen":
                found.append(beside(usual, "paper", usual["statement"].replace(INK, PAPER), leads))
            else:
                on_training |= {f"{coding}, {rivals}": lead for rivals, lead in leads.items()}
        statement = usual["statement"].replace(INK, f"{INK} and {PAPER}")
        found.append(
            beside(usual, "training", statement.replace("unseen", "training"), on_training)
        )
    usual = committed["fig6-tuned"]
    statement = usual["statement"].replace(INK, f"{INK} and {PAPER}")
    return [
        *found,
        beside(usual, "elsewhere", statement.replace("unseen", "training and unseen"), tuned),
    ]


def claims_of(records: list[dict]) -> list[dict]:
    """Return the claims on Figures 6 and 7 on training writers, in the other coding, and on both in one setting."""
    committed = {one["id"]: one for one in records if not one["kept"]}
    if not {"fig6-unseen", "fig7-unseen"} <= set(committed):
        return []
    usual = committed["fig7-unseen"]
    main, seven = (committed[name]["parameters"] for name in ("fig6-unseen", "fig7-unseen"))
    ahead = np.array(both_leads(main, seven)) > LEVEL
    alone, both = ahead.sum(axis=0), ahead.all(axis=1)
    together = {
        "id": "fig7-with-fig6",
        "statement": f"{seven['dataset']}, {seven['stops'][0]} rounds, one rate for all, each tau, rate and coding "
        f"(ink = 1, paper = 1) of Figure 7: on unseen clients FedGradMP in pixels is above FedAvg by more than "
        f"{LEVEL}, and the dictionary above pixels",
        "expected": "both in a cell",
        "verdict": verdict_of(bool(both.any()), WORDS["paper"]),
        "source": "paper, Figure 7, line 1312",
        "derived": True,
    }
    counts = [f"pixels {alone[0]}, dictionary {alone[1]}, both {both.sum()} of {len(both)} cells"]
    for rate in main["rates"]:
        with_rate = (np.array(both_leads(main, seven, rate)) > LEVEL).all(axis=1)
        counts.append(f"FedAvg at {rate:g}: both {with_rate.sum()}")
    words = "; ".join(counts)
    found = [usual | together | {"measured": words, "shown": words}]
    few = few_atoms_on_training_writers(committed["fig7-few-atoms"], seven)
    return [*found, few, *accuracies_elsewhere(committed, main)]
