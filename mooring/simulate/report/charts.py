"""Charts as SVG. Colours are CSS variables of the page, so that they follow its light or dark scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, isfinite, log10
from typing import NamedTuple

import msgspec
import numpy as np

from mooring.simulate.arrivals import FloatArray
from mooring.simulate.units import format_span

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 10, 40
TIME_STEPS = (
    1,
    2,
    5,
    10,
    30,
    60,
    120,
    300,
    600,
    1800,
    3600,
    7200,
    14400,
    21600,
    43200,
    86400,
    172800,
    604800,
)
MOST_POINTS = 400  # of a line; more cannot be seen
MOST_BARS = 2000  # of a Gantt chart


class Line(NamedTuple):
    name: str
    x: FloatArray
    y: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None


class Bar(NamedTuple):
    name: str
    value: float
    half: float = 0.0


class Span(NamedTuple):
    row: int
    start: float
    end: float
    colour: int
    title: str


class Axis(msgspec.Struct):
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    is_time: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = log10(low), log10(high), log10(max(value, self.low))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + (self.end - self.start) * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        if self.is_log:
            first, last = floor(log10(self.low)), ceil(log10(self.high))
            return [10.0**power for power in range(first, last + 1, max(1, (last - first) // 6))]
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        step: float = 10.0 ** floor(log10(span / 4))
        step *= next(factor for factor in (1, 2, 2.5, 5, 10) if span / (step * factor) <= 6)
        if self.is_time:
            step = next((each for each in TIME_STEPS if step <= each), step)
        return [step * i for i in range(ceil(self.low / step), floor(self.high / step) + 1)]


def line_chart(
    lines: Sequence[Line],
    label: str,
    *,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    x_log: bool = False,
    step: bool = True,
    x_label: str = "",
) -> str:
    """Lines with optional bands; `step` draws values that hold until the next one."""
    lines = [line for line in lines if len(line.x)]
    if not lines:
        return ""
    xs = np.concatenate([line.x for line in lines])
    ys = np.concatenate([line.y if line.high is None else line.high for line in lines])
    ys = ys[np.isfinite(ys)]
    low = float(xs[xs > 0].min()) if x_log and (xs > 0).any() else float(xs.min())
    x = Axis(low, float(xs.max()), LEFT, WIDTH - RIGHT, x_log, x_text is format_span)
    if x_log and x.high <= x.low:
        x.high = x.low * 10
    y = Axis(0.0, float(ys.max()) if len(ys) and ys.max() > 0 else 1.0, HEIGHT - BOTTOM, TOP)
    parts = [_axes(x, y, x_text, y_text, x_label)]
    for index, line in enumerate(lines):
        line = _thin(line)
        if line.low is not None and line.high is not None:
            band = [*zip(line.x, line.high, strict=True), *zip(line.x[::-1], line.low[::-1], strict=True)]
            points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in band)
            parts.append(f'<polygon class="c{index % 8} band" points="{points}"/>')
        path = _path(line, x, y, step)
        title = f"<title>{escape(line.name)}</title>"
        parts.append(f'<path class="c{index % 8} line" d="{path}">{title}</path>')
    return _figure(parts, label, [line.name for line in lines])


def _path(line: Line, x: Axis, y: Axis, step: bool) -> str:
    path: list[str] = []
    for a, b in zip(line.x, line.y, strict=True):
        if not isfinite(b):
            continue
        at = f"{x(a):.1f}"
        if not path:
            path.append(f"M{at} {y(b):.1f}")
        else:
            path.append(f"H{at}V{y(b):.1f}" if step else f"L{at} {y(b):.1f}")
    return "".join(path)


def _thin(line: Line) -> Line:
    if len(line.x) <= MOST_POINTS:
        return line
    rows = np.unique(np.linspace(0, len(line.x) - 1, MOST_POINTS).astype(int))
    pick = [None if column is None else column[rows] for column in line[1:]]
    return Line(line.name, *pick)  # type: ignore[arg-type]


def bar_chart(bars: Sequence[Bar], label: str, y_text: Callable[[float], str]) -> str:
    """One bar per name, with the interval as a whisker."""
    if not bars:
        return ""
    top = max(bar.value + bar.half for bar in bars)
    y = Axis(0.0, top if top > 0 else 1.0, HEIGHT - BOTTOM, TOP)
    parts = [_grid(y, y_text)]
    width = (WIDTH - LEFT - RIGHT) / len(bars)
    for index, bar in enumerate(bars):
        left, middle = LEFT + index * width + width * 0.2, LEFT + (index + 0.5) * width
        height = y(0) - y(bar.value)
        title = f"<title>{escape(bar.name)}: {escape(y_text(bar.value))}</title>"
        parts.append(
            f'<rect class="c{index % 8} bar" x="{left:.1f}" y="{y(bar.value):.1f}" '
            f'width="{width * 0.6:.1f}" height="{max(height, 0.5):.1f}">{title}</rect>'
        )
        if bar.half:
            high, low = y(bar.value + bar.half), y(max(bar.value - bar.half, 0.0))
            parts.append(f'<path class="whisker" d="M{middle:.1f} {high:.1f}V{low:.1f}"/>')
        parts.append(_text(middle, HEIGHT - BOTTOM + 16, bar.name, "middle"))
    return _figure(parts, label, [])


def gantt_chart(
    spans: Sequence[Span],
    rows: Sequence[str],
    label: str,
    x_text: Callable[[float], str],
    names: Sequence[str],
) -> str:
    """A row per node; pods stacked within it."""
    if not spans:
        return ""
    height = max(HEIGHT, TOP + BOTTOM + 16 * len(rows))
    x = Axis(min(s.start for s in spans), max(s.end for s in spans), LEFT + 40, WIDTH - RIGHT, is_time=True)
    each = (height - TOP - BOTTOM) / max(len(rows), 1)
    parts = []
    for tick in x.ticks():
        parts.append(f'<path class="grid" d="M{x(tick):.1f} {TOP}V{height - BOTTOM}"/>')
        parts.append(_text(x(tick), height - BOTTOM + 16, x_text(tick), "middle"))
    for i, name in enumerate(rows):
        parts.append(_text(LEFT + 34, TOP + (i + 0.7) * each, name[-14:], "end"))
    lanes: dict[int, list[float]] = {}
    placed = []
    for span in sorted(spans, key=lambda span: span.start)[:MOST_BARS]:
        ends = lanes.setdefault(span.row, [])
        lane = next((i for i, end in enumerate(ends) if end <= span.start), len(ends))
        ends[lane : lane + 1] = [span.end]
        placed.append((span, lane))
    for span, lane in placed:
        tall = each * 0.9 / len(lanes[span.row])
        width = max(x(span.end) - x(span.start), 0.6)
        top = TOP + span.row * each + lane * tall
        parts.append(
            f'<rect class="c{span.colour % 8} pod" x="{x(span.start):.1f}" '
            f'y="{top:.1f}" width="{width:.1f}" height="{max(tall, 0.4):.2f}">'
            f"<title>{escape(span.title)}</title></rect>"
        )
    return _figure(parts, label, names, height)


def _axes(
    x: Axis, y: Axis, x_text: Callable[[float], str], y_text: Callable[[float], str], x_label: str
) -> str:
    parts = [_grid(y, y_text)]
    parts += [
        _text(x(tick), HEIGHT - BOTTOM + 16, x_text(tick), "middle")
        for tick in x.ticks()
        if x.low <= tick <= x.high
    ]
    if x_label:
        parts.append(_text((LEFT + WIDTH) / 2, HEIGHT - 6, x_label, "middle"))
    return "".join(parts)


def _grid(y: Axis, y_text: Callable[[float], str]) -> str:
    parts = []
    for tick in y.ticks():
        parts.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 6, y(tick) + 4, y_text(tick), "end"))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _figure(parts: Sequence[str], label: str, names: Sequence[str], height: float = HEIGHT) -> str:
    legend = "".join(
        f'<span><i class="c{index % 8}"></i>{escape(name)}</span>' for index, name in enumerate(names)
    )
    legend = f'<div class="legend">{legend}</div>' if len(names) > 1 else ""
    drawing = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
    caption = f"<figcaption>{escape(label)}</figcaption>"
    return f"<figure>{caption}{legend}{drawing}{''.join(parts)}</svg></figure>"
