"""`mooring simulate report` and `export`: runs as a page, and for other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from mooring.cli.flags import option
from mooring.simulate.report.exports import chrome_trace, write_parquet
from mooring.simulate.report.page import report_page
from mooring.simulate.report.pictures import pending_picture
from mooring.simulate.running import RunRecord, read_run, runs_in
from mooring.simulate.tables import Tables

INVALID = 2


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@option("-o", "--out", default="report.html", metavar="FILE", help="File to write")
@option("--title", default="", help="Title of the page (default: the name of the scenario)")
@option("--load-axis", default="", metavar="RESOURCE", help="Resource that load is measured by")
def report(runs: tuple[str, ...], out: str, title: str, load_axis: str) -> None:
    """Write one HTML page about runs: summary, differences and charts.

    RUNS are directories of runs. The page needs no network and has no scripts.
    """
    try:
        page = report_page(_read(runs), title, load_axis)
        Path(out).write_text(page, encoding="utf-8")
    except OSError as error:
        _fail(f"{error.filename or out}: {error.strerror}")
    except ValueError as error:
        _fail(str(error))
    click.echo(f"{out}: {len(page) / 1024:.0f} KiB")


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUNS...")
@option(
    "-o",
    "--out",
    required=True,
    metavar="FILE",
    help="File to write: .json (Chrome trace), .parquet or .svg (required)",
)
def export(runs: tuple[str, ...], out: str) -> None:
    """Export runs for other programs.

    .json is one run as a Chrome trace (chrome://tracing, Perfetto), .parquet has the pods of all runs, .svg
    shows pending pods over time, by policy.
    """
    try:
        tables = _read(runs)
        if out.endswith(".parquet"):
            write_parquet(tables, Path(out))
        elif out.endswith(".json"):
            if len(tables) != 1:
                _fail(
                    f"a trace shows one run, found {len(tables)}\n  hint: name the directory of one, seed-N"
                )
            Path(out).write_bytes(chrome_trace(tables[0][1]))
        elif out.endswith(".svg"):
            Path(out).write_text(pending_picture(tables), encoding="utf-8")
        else:
            _fail(f"{out}: expected a name that ends with .json, .parquet or .svg")
    except ImportError:
        _fail("parquet needs pyarrow\n  hint: pip install 'mooring[parquet]'")
    except OSError as error:
        _fail(f"{error.filename or out}: {error.strerror}")
    except ValueError as error:
        _fail(str(error))


def _read(paths: tuple[str, ...]) -> list[tuple[RunRecord, Tables]]:
    folders = [folder for path in paths for folder in runs_in(Path(path))]
    if not folders:
        raise ValueError(f"{', '.join(paths)}: no runs\n  hint: mooring simulate FILE makes them")
    return [read_run(folder) for folder in folders]


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(INVALID)
