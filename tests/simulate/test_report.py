"""Reports and exports of runs."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mooring.cli.simulate import simulate
from mooring.simulate.report.charts import Axis, Line, line_chart
from mooring.simulate.report.images import heat_map
from mooring.simulate.units import format_span
from tests.simulate.test_command import PACKED, SCENARIO
from tests.simulate.test_scenario import NODE, POD

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for name, text in (("node", NODE), ("pod", POD), ("packed", PACKED), ("scenario", SCENARIO)):
        (folder / f"{name}.yaml").write_text(text)
    result = invoke(str(folder / "scenario.yaml"), "--out", str(folder / "runs"))
    assert result.exit_code == 0, result.output
    return folder / "runs"


def invoke(*args: str) -> Result:
    return CliRunner().invoke(simulate, list(args))


class Page(HTMLParser):
    """Checks that tags are closed, and collects them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self._open: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def test_the_page_is_one_file_without_scripts(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = invoke("report", str(runs), "-o", str(out), "--title", EVIL)
    assert result.exit_code == 0, result.output
    text = out.read_text()
    page = Page(text)
    assert "script" not in page.tags
    assert EVIL not in text
    assert "Content-Security-Policy" in text
    assert all(link.startswith("data:image/png") for link in page.links)
    assert not re.search(r"https?://", text)
    assert page.tags.count("svg") >= 6
    assert page.tags.count("img") == 2  # a heat map of each policy
    assert len(text) < 3_000_000
    for label in ("Pending pods over time", "Allocated cpu over time", "Share of pods bound within a time"):
        assert label in text
    for chart in re.findall(r"<svg.*?</svg>", text):
        assert len(re.findall(r"<(?:rect|path|text|polygon)", chart)) <= 5000


def test_numbers_of_the_page_are_those_of_the_runs(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    invoke("report", str(runs / "default" / "seed-1"), "-o", str(out))
    record = json.loads((runs / "default" / "seed-1" / "run.json").read_text())
    assert f"<td>bound</td><td>{record['metrics']['bound']:,.0f}</td>" in out.read_text()


def test_a_trace_has_nodes_and_pods(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    run = runs / "default" / "seed-1"
    assert invoke("export", str(run), "-o", str(out)).exit_code == 0
    events = json.loads(out.read_text())["traceEvents"]
    assert {e["args"]["name"] for e in events if e["ph"] == "M"} == {"n-0", "n-1", "n-2"}
    slices = [e for e in events if e["ph"] == "X"]
    assert len(slices) == json.loads((run / "run.json").read_text())["metrics"]["bound"]
    busy: dict[tuple[int, int], float] = {}
    for each in slices:  # slices of one thread must not overlap
        assert each["ts"] >= busy.get((each["pid"], each["tid"]), 0.0)
        busy[each["pid"], each["tid"]] = each["ts"] + each["dur"]


def test_parquet(runs: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'mooring[parquet]'")
    out = tmp_path / "pods.parquet"
    assert invoke("export", str(runs), "-o", str(out)).exit_code == 0
    table = parquet.read_table(out)
    assert set(table.column("policy").to_pylist()) == {"default", "packed"}
    assert {"namespace", "name", "created", "bound", "node", "outcome"} <= set(table.column_names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "nowhere"], "nowhere: no runs\n  hint: "),
        (["export", "RUNS", "-o", "trace.json"], "a trace shows one run, found 4"),
        (["export", "RUNS", "-o", "pods.xls"], "expected a name that ends with .json, .parquet or .svg"),
    ],
)
def test_wrong_arguments(runs: Path, arguments: list[str], message: str) -> None:
    result = invoke(*(str(runs) if each == "RUNS" else each for each in arguments))
    assert result.exit_code == 2
    assert message in result.output


def test_ticks_of_times_are_round() -> None:
    assert Axis(0, 21600, 0, 1, is_time=True).ticks() == [0, 7200, 14400, 21600]


def test_lines_are_thinned_and_escaped() -> None:
    x = np.arange(10_000.0)
    chart = line_chart([Line("<b>", x, x)], "a & b", x_text=format_span, y_text=str)
    assert chart.count("V") <= 401
    assert "&lt;b&gt;" in chart
    assert "a &amp; b" in chart


def test_heat_map_is_a_png() -> None:
    assert heat_map(np.zeros((2, 3))).startswith("data:image/png;base64,iVBOR")


def test_pending_pods_are_exported_as_a_picture(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "pending.svg"
    result = invoke("export", str(runs), "-o", str(out))
    assert result.exit_code == 0, result.output
    tree = ElementTree.parse(out).getroot()
    texts = {element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Pending pods over time", "default", "packed"} <= texts
    paths = tree.iter("{http://www.w3.org/2000/svg}path")
    assert len([path for path in paths if "line" in path.get("class", "")]) == 2
