"""`mooring pending`: all pending pods by cause."""

from __future__ import annotations

from typing import Any

import click

from mooring.cli.explain import OUTPUTS, pending_pods
from mooring.cli.explain_sources import open_source, source_flags
from mooring.cli.flags import option
from mooring.cli.output import echo_report, write_data
from mooring.explain.causes import list_causes


@click.command()
@option("-n", "--namespace", default="", metavar="NAME", help="Only pods of this namespace (default: all)")
@source_flags
@option("-o", "--output", type=OUTPUTS, default="text", help="Output format")
def pending(
    namespace: str,
    output: str,
    **source_options: Any,
) -> None:
    """List all pending pods by cause, the most frequent first, with what would make them fit.

    Workloads that lack pods because their creation was rejected are listed too. Pods are read as
    `mooring explain` reads them.

    \b
    Exit codes:
      0  the pods were listed
      2  invalid usage, configuration or kubeconfig
      3  the cluster or the endpoint is unreachable or rejected the request
    """
    source = open_source(**source_options)
    causes = pending_pods(source, namespace)
    if output != "text":
        write_data(causes, output)
        return
    for line in list_causes(causes):
        echo_report(line)
