"""The style of the page: light, dark and printed."""

from __future__ import annotations

from collections.abc import Sequence

_LIGHT = ("#2869b0", "#d1602b", "#2b8a57", "#8b4fa8", "#b08a00", "#c23b63", "#168a96", "#7a7f87")
_DARK = ("#6aa9ee", "#f0935f", "#62c48f", "#c493dd", "#e0bf4a", "#ee7f9f", "#5fc6d1", "#a9afb8")


def _scheme(names: str, colours: Sequence[str]) -> str:
    return f":root{{{names};" + ";".join(f"--c{i}:{colour}" for i, colour in enumerate(colours)) + "}"


_SCHEMES = (
    _scheme("--ink:#1b2330;--soft:#5b6675;--line:#d9dee5;--page:#fff", _LIGHT),
    "@media(prefers-color-scheme:dark){",
    _scheme("--ink:#e4e9f0;--soft:#9aa6b5;--line:#333d4a;--page:#12171e", _DARK),
    "}@media print{",
    _scheme("--ink:#000;--soft:#444;--line:#ccc;--page:#fff", _LIGHT),
    "}",
)
_RULES = """
:root { color-scheme: light dark }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 24px; max-width: 1400px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 24px; margin: 0 }
h2 { font-size: 18px; margin: 32px 0 8px }
p, small { color: var(--soft) }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 520px), 1fr)); gap: 20px }
figure { margin: 0; min-width: 0; break-inside: avoid; overflow-x: auto }
figcaption { font-weight: 600; margin-bottom: 4px }
svg { width: 100%; height: auto; display: block }
svg text { font-size: 11px; fill: var(--soft) }
.grid { stroke: var(--line) }
.band { stroke: none; opacity: .18 }
.pod { stroke: var(--page); stroke-width: .4 }
.whisker { stroke: var(--ink); stroke-width: 1.5 }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 13px }
.legend i { display: inline-block; width: 11px; height: 11px; margin-right: 5px; border-radius: 2px }
.heat { width: 100%; height: 260px; image-rendering: pixelated; border: 1px solid var(--line) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
td, th { padding: 3px 10px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
td:first-child, th:first-child { text-align: left }
@media print { main { grid-template-columns: 1fr 1fr } .scroll { overflow: visible } }
"""
_COLOURS = "".join(
    f".c{i}{{fill:var(--c{i})}}.line.c{i}{{fill:none;stroke:var(--c{i});stroke-width:1.8}}" for i in range(8)
)
_MARKS = "".join(f"i.c{i}{{background:var(--c{i});print-color-adjust:exact}}" for i in range(8))
STYLE = "".join(_SCHEMES) + _RULES + _COLOURS + _MARKS
PICTURE_STYLE = (
    "".join(_SCHEMES)
    + "text{font:11px system-ui,sans-serif;fill:var(--soft)}"
    + ".title{font-size:13px;font-weight:600;fill:var(--ink)}"
    + ".grid{stroke:var(--line)}.band{stroke:none;opacity:.18}"
    + _COLOURS
)
"""Of a chart that is a file of its own."""
