"""Claims that are computed from the tables of kept runs, because no notebook makes them itself.

Notebook 09 compares FedGradMP at its own best rate with rivals at up to 0.01 for ink = 1. The same table has the runs
with paper = 1, the coding in which Federated EMNIST is published. And whether one setting shows both Figure 6 and
Figure 7 takes the tables of notebooks 09 and 10 together, which have the same writers, seeds and cohorts.
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


def own_rate_leads(main: dict, sparsity: int, stop: int, coding: str) -> dict[float, np.ndarray]:
    """Return by how much FedGradMP with its best rate is ahead of the best rival at each rate up to 0.01.

    The best rate is the one with the best accuracy on training writers. A value for each seed.
    """
    table = Accuracies(main["cells"])

    def on_training_writers(rate):
        return np.median(table.at(cell("FedGradMP", rate, sparsity, coding), stop, "training"))

    ours = cell("FedGradMP", max(main["rates"], key=on_training_writers), sparsity, coding)
    leads = {}
    for rate in (rate for rate in main["rates"] if rate <= 0.01):
        theirs = [cell(rival, rate, sparsity, coding) for rival in RIVALS]
        leads[rate] = np.min([table.lead(ours, other, stop) for other in theirs], axis=0)
    return leads


def both_leads(six: dict, seven: dict) -> list[tuple[float, float]]:
    """Return the leads of FedGradMP in pixels over FedAvg, and of the dictionary over pixels, in each common cell.

    Accuracy on unseen writers after the early round, medians over the seeds that the cell of Figure 7 has.
    """
    rivals, arms = Accuracies(six["cells"]), Accuracies(seven["cells"])
    stop, rates = seven["stops"][0], [rate for rate in seven["rates"] if rate in six["rates"]]
    found = []
    for coding, tau, rate in product((INK, PAPER), seven["sparsity"], rates):
        pixels = cell_of("FedGradMP", rate, tau, coding)
        dictionary = cell_of("FedGradMP", rate, tau, coding, seven["atoms"])
        if pixels in seven["cells"]:
            ours = arms.at(pixels, stop)
            theirs = rivals.at(cell("FedAvg", rate, tau, coding), stop)[: len(ours)]
            leads = ours - theirs, arms.lead(dictionary, pixels, stop)
            found.append(tuple(float(np.median(lead)) for lead in leads))
    return found


def claims_of(records: list[dict]) -> list[dict]:
    """Return the claims on Figure 6 with paper = 1, each beside its record with ink = 1, and on Figures 6 and 7."""
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
    counts = f"pixels {alone[0]}, dictionary {alone[1]}, both {both.sum()} of {len(both)} cells"
    found = [usual | together | {"measured": counts, "shown": counts}]
    for stop, words in zip(main["stops"], ("early", "late"), strict=True):
        usual = committed[f"fig6-own-rate-{words}"]
        sparsity = max(tau for tau in main["sparsity"] if tau < main["pixels"])
        leads = own_rate_leads(main, sparsity, stop, PAPER)
        measured = plain({f"rivals at {rate:g}": lead for rate, lead in leads.items()})
        holds = [bool(np.median(lead) > LEVEL) for lead in leads.values()]
        changed = {
            "id": f"{usual['id']}-paper",
            "statement": usual["statement"].replace(INK, PAPER),
            "verdict": verdict_of(holds, WORDS["paper"]),
            "measured": measured,
            "shown": shown(measured),
            "derived": True,
        }
        found.append(usual | changed)
    return found
