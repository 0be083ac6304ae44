"""The one form in which an executed notebook is committed, so that a rerun changes nothing that did not change."""

from nbformat import NotebookNode

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def normalise(notebook: NotebookNode) -> None:
    """Strip what execution and tools leave behind, in place: all metadata but the kernel and the tags."""
    notebook.metadata = NotebookNode(kernelspec=NotebookNode(KERNEL), language_info=NotebookNode(name="python"))
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        tags = cell.metadata.get("tags")
        cell.metadata = NotebookNode(tags=tags) if tags else NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = merged(cell.outputs)


def merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs with neighbouring pieces of one stream joined: where print was cut depends on timing."""
    result: list[NotebookNode] = []
    for output in outputs:
        if "metadata" in output:
            output.metadata = NotebookNode()
        if result and output.output_type == "stream" and result[-1].get("name") == output.name:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


def printed(notebook: NotebookNode) -> str:
    """All that the code cells printed, each output from the start of a line."""
    outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    texts = [o.text for o in outputs if o.output_type == "stream" and o.name == "stdout"]
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)
