"""Links of the documents, as the site needs them.

In the repository a document links to files. On the site some of these are pages, the module is a reference, pictures
travel along, and everything else stays in the repository, wherever that is hosted.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LINK = re.compile(r"(?P<mark>!?)\[(?P<text>[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\((?P<target>[^()\s]+)\)")
CODE = re.compile(r"(^ *```.*?^ *```$|(?<!`)`[^`\n]+`(?!`))", re.MULTILINE | re.DOTALL)
PICTURES = {".png", ".svg", ".webp", ".gif", ".jpg"}


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change a Markdown text where it is not code."""
    link_with_code = re.compile(rf"{LINK.pattern}|{CODE.pattern}", re.MULTILINE | re.DOTALL)
    return link_with_code.sub(lambda hit: change(hit[0]) if LINK.fullmatch(hit[0]) else hit[0], text)


@dataclass
class Links:
    """What becomes of a link.

    Attributes
    ----------
    root : Path
        The repository.
    pages : dict of str to str
        Files that are pages of the site, and under which name, both relative: ``{"README.md": "index.md"}``.
    modules : dict of str to str
        Files and folders of the module, and the name of their section in the reference.
    repository : str
        Address of the files of the repository, empty if unknown; then files travel along and folders lose their link.
    titles : dict of str to str
        What to call a page where a link calls it by the name of its file.
    files : set of str
        Filled in: files that have to travel along.
    """

    root: Path
    pages: dict[str, str]
    modules: dict[str, str]
    repository: str = ""
    titles: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)

    def moved(self, text: str, place: str) -> str:
        """A document with its links as the site needs them.

        Parameters
        ----------
        text : str
            Markdown.
        place : str
            The file it stands in, relative to the repository.
        """
        return outside_code(text, lambda link: self._moved(LINK.fullmatch(link), place))

    def _moved(self, link: re.Match[str], place: str) -> str:
        target, hash_, fragment = link["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return link[0]
        path = os.path.normpath(os.path.join(os.path.dirname(place), target))
        here = os.path.dirname(self.pages.get(place, place))
        if path in self.pages:
            words = self.titles.get(path, link["text"]) if link["text"] == os.path.basename(path) else link["text"]
            return f"[{words}]({os.path.relpath(self.pages[path], here or '.')}{hash_}{fragment})"
        if path in self.modules:
            return f"[{link['text']}](#{self.modules[path]})"
        if not (self.root / path).exists():
            raise FileNotFoundError(f"{place} links to {target}, which does not exist")
        if link["mark"] or Path(path).suffix in PICTURES:
            self.files.add(path)
            return link[0]
        if self.repository:
            return f"[{link['text']}]({self.repository.rstrip('/')}/{path})"
        if (self.root / path).is_dir():
            return link["text"]
        self.files.add(path)
        return link[0]
