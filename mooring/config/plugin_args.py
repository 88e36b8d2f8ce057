"""Decoding of `pluginConfig[].args` into the types that plugins declare."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import msgspec

from mooring.config.decode import decode
from mooring.config.findings import Path, Report, parse_path
from mooring.framework.args import Args


def decode_args(raw: object, args_type: type[Args], path: Path, report: Report) -> Args | None:
    """`raw` as typed, defaulted and validated arguments; None once its problems are reported.

    Files may repeat apiVersion and kind inside args; they say nothing that the plugin's name does not.
    """
    body = {} if raw is None else raw
    if isinstance(body, dict):
        own = {info.encode_name for info in msgspec.structs.fields(args_type)}
        body = {key: value for key, value in body.items() if key in own or key not in ("apiVersion", "kind")}
    before = len(report.findings)
    args = decode(body, args_type, path, report)
    if args is not None:
        report.check_further(partial(_report_problems, args, path))
    return args if len(report.findings) == before else None


def _report_problems(args: Args, path: Path, report: Report) -> None:
    """Report what the arguments' own validation finds."""
    for problem in args.problems():
        where = path + parse_path(problem.field)
        if problem.value is None:
            report.add(where, problem.message)
        else:
            report.invalid(where, problem.value, problem.message)


def check_type(
    raw: dict[str, Any], plugin: str, versions: Collection[str], path: Path, report: Report
) -> None:
    """Check the apiVersion and kind that args of an in-tree plugin may carry."""
    kind, version = f"{plugin}Args", raw.get("apiVersion")
    if raw.get("kind") not in (None, "", kind):
        actual = raw["kind"]
        report.add((*path, "kind"), f"args for plugin {plugin} were not of type {kind}, got {actual}")
    if version not in (None, "", *versions):
        message = f'no kind "{kind}" is registered for version "{version}"'
        report.add((*path, "apiVersion"), message, f'write "{next(iter(versions))}", or leave it out')
