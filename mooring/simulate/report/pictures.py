"""A chart as an SVG file of its own, for documents."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from mooring.simulate.report import sections
from mooring.simulate.report.style import PICTURE_STYLE
from mooring.simulate.running import RunRecord
from mooring.simulate.tables import Tables

HEAD = 44  # room for title and legend


def pending_picture(runs: Sequence[tuple[RunRecord, Tables]]) -> str:
    """Pending pods over time, one line per policy."""
    policies = dict.fromkeys(record.policy for record, _ in runs)
    tables = {name: [t for record, t in runs if record.policy == name] for name in policies}
    return picture(next(sections.pending(tables)))


def picture(figure: str) -> str:
    """A figure of the page as a file. Raises ValueError if it has no drawing."""
    tree = ElementTree.fromstring(figure) if figure else None
    drawing = None if tree is None else tree.find("svg")
    if tree is None or drawing is None:
        raise ValueError("no pod arrived: there is nothing to draw")
    _, _, width, height = map(float, drawing.attrib["viewBox"].split())
    size = f'viewBox="0 0 {width:.0f} {height + HEAD:.0f}" width="{width:.0f}" height="{height + HEAD:.0f}"'
    title = tree.findtext("figcaption") or ""
    legend, x = "", 8.0
    for item in tree.iterfind(".//span"):
        (mark,), name = list(item), "".join(item.itertext())
        legend += f'<rect class="{mark.attrib["class"]}" x="{x:.0f}" y="26" width="10" height="10"/>'
        legend += f'<text x="{x + 14:.0f}" y="35">{_escape(name)}</text>'
        x += 34 + 7 * len(name)
    body = "".join(ElementTree.tostring(part, "unicode") for part in drawing)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{PICTURE_STYLE}</style>'
        '<rect width="100%" height="100%" fill="var(--page)"/>'
        f'<text class="title" x="8" y="17">{_escape(title)}</text>{legend}'
        f'<g transform="translate(0 {HEAD})">{body}</g></svg>\n'
    )


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
