"""The words that STYLE.md rules out are in no help text, page or docstring.

Pages that are not done have a ceiling, which may only be lowered.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_help import COMMANDS, shown

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md")
    for path in ROOT.glob(pattern)
    if path.parent.name != "reference"  # generated from docstrings
)
PACKAGE = ROOT / "mooring"

ALLOWED: tuple[str, ...] = ()  # phrases of Kubernetes that contain such a word
PAGE_CEILINGS: dict[str, int] = {}


def avoided() -> re.Pattern[str]:
    """The first column of the table in STYLE.md."""
    table = (ROOT / "STYLE.md").read_text().partition("| Avoid |")[2]
    cells = re.findall(r"^\| ([^|-][^|]*) \|", table, flags=re.MULTILINE)
    phrases = [phrase.strip() for cell in cells for phrase in re.split(r";|, (?!but|and)", cell)]
    assert len(phrases) > 50
    return re.compile(r"\b(?:" + "|".join(map(re.escape, phrases)) + r")\b", re.IGNORECASE)


AVOIDED = avoided()


def hits(text: str) -> list[str]:
    for phrase in ALLOWED:
        text = text.replace(phrase, "")
    return [re.sub(r"\s+", " ", hit) for hit in AVOIDED.findall(re.sub(r"\s+", " ", text))]


def docstrings() -> Iterator[tuple[Path, str]]:
    """Docstrings of modules, classes and functions, and strings below a class's fields."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for statement in statements(ast.parse(path.read_text())):
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield path, text


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node; walking over their expressions as well takes seconds."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        below = getattr(node, part, ())
        for one in below if isinstance(below, list) else ():
            yield one
            yield from statements(one)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help(path: tuple[str, ...]) -> None:
    assert hits(shown(path)) == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_pages(page: Path) -> None:
    assert len(found := hits((ROOT / page).read_text())) <= PAGE_CEILINGS.get(str(page), 0), found


def test_docstrings() -> None:
    places = []
    for path, text in docstrings():
        words = hits(text) + ["The same"] * text.startswith("The same")
        if words:
            places.append(f"{path.relative_to(ROOT)}: {', '.join(words)}: {text.splitlines()[0]}")
    assert not places, "\n".join(places)
