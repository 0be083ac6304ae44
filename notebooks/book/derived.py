"""Claims that are computed from the table of a kept run, because its notebook does not make them itself.

Notebook 09 compares FedGradMP at its own best rate with rivals at the printed rates for ink = 1. The same table has the
runs with paper = 1, the coding in which Federated EMNIST is published.
"""

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
    """Return by how much FedGradMP with its best rate is ahead of the best rival at each printed rate.

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


def claims_of(records: list[dict]) -> list[dict]:
    """Return the claims on Figure 6 with paper = 1, each beside its record with ink = 1."""
    committed = {one["id"]: one for one in records if not one["kept"]}
    if "fig6-unseen" not in committed:
        return []
    main = committed["fig6-unseen"]["parameters"]
    found = []
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
        }
        found.append(usual | changed)
    return found
