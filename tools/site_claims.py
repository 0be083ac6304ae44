"""The page of all claims: one table, which a script filters by verdict, figure, and whose statement it is."""

import html

import ledger
from site_notebooks import anchor, kind

from fgmp.book.claims import VERDICTS, Claim

HEAD = ("verdict", "claim", "statement", "expected", "measured", "where")


def choice(name: str, words: list[str]) -> str:
    """One list to choose from."""
    options = "".join(f"<option>{html.escape(word)}</option>" for word in words)
    return f'<label>{name} <select name="{name}"><option value="">all</option>{options}</select></label>'


def row(run: ledger.Run, claim: Claim) -> str:
    """One claim, with a link to its verdict in the notebook."""
    folder = "notebooks/results" if run.kept else "notebooks"
    where = f"{folder}/{run.name}.html#{anchor(claim)}"
    number = run.notebook.partition("_")[0] + f", {run.kept}" * bool(run.kept)
    said, expected, shown = (html.escape(str(text)) for text in (claim.statement, claim.expected, claim.shown))
    cells = (
        f'<span class="verdict {kind(claim.verdict)}">{claim.verdict}</span>',
        f'<a href="{where}">{claim.id}</a> <small>{html.escape(claim.source)}</small>',
        said,
        expected,
        shown,
        f'<a href="{where}">{number}</a>',
    )
    data = {"verdict": claim.verdict, "figure": ledger.group(claim), "whose": claim.source.partition(",")[0]}
    data |= {"run": "kept" if run.kept else "committed"}
    attributes = "".join(f' data-{key}="{html.escape(value)}"' for key, value in data.items())
    inside = "".join(f'<td data-head="{head}">{cell}</td>' for head, cell in zip(HEAD, cells, strict=True))
    return f'<tr id="{run.name}-{claim.id}"{attributes}>{inside}</tr>'


def page(runs: list[ledger.Run]) -> str:
    """The page in Markdown; without the script it is the whole table."""
    groups: dict[str, list[tuple[ledger.Run, Claim]]] = {}
    for run, claim in (pairs := ledger.distinct(runs)):
        groups.setdefault(ledger.group(claim), []).append((run, claim))
    ordered = sorted(groups, key=lambda name: (ledger.place([claim for _, claim in groups[name]]), name))
    verdicts = [verdict for verdict in VERDICTS if any(claim.verdict == verdict for _, claim in pairs)]
    rows = [row(*pair) for name in ordered for pair in groups[name]]
    boxes = choice("verdict", verdicts) + choice("figure", ordered) + choice("whose", ["paper", "ours"])
    boxes += choice("run", ["committed", "kept"]) + '<label>words <input name="words" type="search"></label>'
    head = "".join(f"<th>{name}</th>" for name in HEAD)
    return (
        "# Claims\n\nEvery statement that the notebooks measure, with its verdict, from the records that they leave."
        ' "In part" means: on at least half of the seeds, or of the parts. The link of a claim leads to the cell'
        " that measures it. Lines are those of the LaTeX source of arXiv 2302.10755.\n\n"
        + "\n".join(ledger.counted(pairs))
        + f'\n\n<form class="claims-filter" hidden>{boxes}<output></output></form>\n\n'
        + f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table>\n"
    )
