"""docs/deploy.md in its parts. A block after `<!-- file: NAME -->` is that file, whole; the commands of one
after `<!-- run -->` need nothing but an API server."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.deploy.manifests import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text()
_BLOCK = re.compile(r"(?:<!-- (file: \S+|run) -->\n)?```(\w+)\n(.*?)```", re.DOTALL)


class Block(NamedTuple):
    mark: str
    language: str
    text: str

    @property
    def file(self) -> str:
        return self.mark.removeprefix("file: ") if self.mark.startswith("file: ") else ""


BLOCKS = [Block(match[1] or "", match[2], match[3]) for match in _BLOCK.finditer(PAGE)]


def commands(*, runnable: bool = True) -> list[str]:
    """The commands of the page: only those that need nothing but an API server, or all."""
    return [
        line.removeprefix("$ ")
        for block in BLOCKS
        if block.language == "console" and (block.mark == "run" or not runnable)
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]


def table(heading: str) -> list[list[str]]:
    """The rows of the table whose heading begins so, without the heading."""
    rows = PAGE[PAGE.index(heading) :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
