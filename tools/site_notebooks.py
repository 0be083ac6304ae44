"""Notebooks as pages: their committed outputs, with verdicts that can be linked to, and links back and forth."""

import html
import re

import nbformat
from nbformat import NotebookNode
from site_links import Links

from fgmp.book.claims import Claim, printed_claims
from fgmp.book.parameters import read_parameters


def anchor(claim: Claim) -> str:
    """Where the verdict stands in the page of its notebook."""
    return f"claim-{claim.id}"


def kind(verdict: str) -> str:
    """A verdict as the name of a class: good, partly, bad or other."""
    if verdict in ("reproduced", "holds"):
        return "good"
    if verdict.endswith("in part"):
        return "partly"
    return "bad" if verdict in ("not reproduced", "does not hold") else "other"


def boxes(claims: list[Claim], ledger: str, run: str) -> NotebookNode:
    """Claims as an output of a cell.

    Parameters
    ----------
    claims : list of Claim
    ledger : str
        Address of the table of claims, seen from the page.
    run : str
        The run that made them, as the table names it.
    """
    rows = []
    for claim in claims:
        said, expected, shown = (html.escape(str(text)) for text in (claim.statement, claim.expected, claim.shown))
        rows.append(
            f'<div class="claim {kind(claim.verdict)}" id="{anchor(claim)}"><p><strong>{claim.verdict}</strong> '
            f'<a href="{ledger}#{run}-{claim.id}">{claim.id}</a> <span>({html.escape(claim.source)})</span></p>'
            f"<p>{said}</p><p>expected: {expected}<br>measured: {shown}</p></div>"
        )
    return nbformat.v4.new_output("display_data", data={"text/html": "".join(rows), "text/plain": ""})


def split_claims(outputs: list[NotebookNode], ledger: str, run: str) -> list[NotebookNode]:
    """Outputs of a cell with the lines of claims turned into boxes, all else as it was and where it was."""
    result: list[NotebookNode] = []
    for output in outputs:
        if output.output_type != "stream":
            result.append(output)
            continue
        waiting: list[Claim] = []
        words = ""
        for line in output.text.splitlines(keepends=True):
            found = printed_claims(line)
            if found and words.strip():
                result.append(nbformat.v4.new_output("stream", name=output.name, text=words))
            elif not found and line.strip() and waiting:
                result.append(boxes(waiting, ledger, run))
                waiting = []
            words = "" if found else words + line
            waiting += found
        if waiting:
            result.append(boxes(waiting, ledger, run))
        if words.strip():
            result.append(nbformat.v4.new_output("stream", name=output.name, text=words))
    return result


def title(notebook: NotebookNode) -> str:
    """The words of the first heading."""
    text = next(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return re.search(r"^# (.+)$", text, re.MULTILINE)[1]


def after_first_cell(notebook: NotebookNode, text: str) -> None:
    """Put a few words of Markdown under the opening of a notebook."""
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(text))


def as_page(notebook: NotebookNode, place: str, links: Links, ledger: str) -> NotebookNode:
    """A notebook as the site shows it, changed in place: links moved, claims in boxes.

    Parameters
    ----------
    notebook : NotebookNode
    place : str
        Its file in the repository.
    links : Links
    ledger : str
        Address of the table of claims, seen from the page.
    """
    run = place.rpartition("/")[2].removesuffix(".ipynb")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = links.moved(cell.source, place)
        elif cell.cell_type == "code":
            cell.outputs = split_claims(cell.outputs, ledger, run)
    return notebook


def parameter_table(notebook: NotebookNode) -> str:
    """The parameters of a notebook as a table in Markdown; empty where it has none that can be read."""
    cells = [cell.source for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if not cells:
        return ""
    try:
        found = read_parameters(cells[0])
    except ValueError:  # a kept run from before the comments were data
        return ""
    lines = ["| parameter | default | meaning | range |", "|---|---|---|---|"]
    for one in found:
        words = [f"`{one.name}`", f"`{one.default!r}`", one.meaning, "; ".join(filter(None, (one.range, one.note)))]
        lines.append("| " + " | ".join(word.replace("|", r"\|") for word in words) + " |")
    return "\n".join(lines)
