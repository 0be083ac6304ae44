"""Notebooks as pages: their committed outputs, with verdicts that can be linked to, and links back and forth."""

import html
import re
from itertools import groupby

import nbformat
from nbformat import NotebookNode
from site_links import Links

from fgmp.book.claims import VERDICTS, Claim
from fgmp.book.parameters import read_parameters

LINE = re.compile(rf"\[({'|'.join(VERDICTS)})\] ([a-z0-9][a-z0-9._-]*?)(?:: | \()")


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


def boxes(claims: list[Claim], rows: dict[str, str]) -> NotebookNode:
    """Claims as an output of a cell.

    Parameters
    ----------
    claims : list of Claim
    rows : dict of str to str
        Address of a claim's row in the table of claims, seen from the page, by the claim's name.
    """
    text = ""
    for claim in claims:
        said, expected, shown = (html.escape(str(words)) for words in (claim.statement, claim.expected, claim.shown))
        text += (
            f'<div class="claim {kind(claim.verdict)}" id="{anchor(claim)}"><p><strong>{claim.verdict}</strong> '
            f'<a href="{rows[claim.id]}">{claim.id}</a> <span>({html.escape(claim.source)})</span></p>'
            f"<p>{said}</p><p>expected: {expected}<br>measured: {shown}</p></div>"
        )
    return nbformat.v4.new_output("display_data", data={"text/html": text, "text/plain": ""})


def split_claims(outputs: list[NotebookNode], records: dict[str, Claim], rows: dict[str, str]) -> list[NotebookNode]:
    """Outputs of a cell with the lines of claims turned into boxes, all else as it was and where it was."""
    result: list[NotebookNode] = []
    for output in outputs:
        if output.output_type != "stream":
            result.append(output)
            continue
        for of_claims, lines in groupby(output.text.splitlines(keepends=True), lambda line: bool(named(line, records))):
            if of_claims:
                result.append(boxes([records[named(line, records)] for line in lines], rows))
            elif (words := "".join(lines)).strip():
                result.append(nbformat.v4.new_output("stream", name=output.name, text=words))
    return result


def named(line: str, records: dict[str, Claim]) -> str:
    """The claim that a printed line is about, empty if it is none of those on record."""
    found = LINE.match(line)
    return found[2] if found and found[2] in records else ""


def title(notebook: NotebookNode) -> str:
    """The words of the first heading."""
    text = next(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return re.search(r"^# (.+)$", text, re.MULTILINE)[1]


def after_first_cell(notebook: NotebookNode, text: str) -> None:
    """Put a few words of Markdown under the opening of a notebook."""
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell(text))


def as_page(
    notebook: NotebookNode, place: str, links: Links, records: dict[str, Claim], rows: dict[str, str]
) -> NotebookNode:
    """A notebook as the site shows it, changed in place: links moved, claims in boxes.

    Parameters
    ----------
    notebook : NotebookNode
    place : str
        Its file in the repository.
    links : Links
    records : dict of str to Claim
        The claims of this run.
    rows : dict of str to str
        The addresses of their rows in the table of claims.
    """
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = links.moved(cell.source, place)
        elif cell.cell_type == "code":
            cell.outputs = split_claims(cell.outputs, records, rows)
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
