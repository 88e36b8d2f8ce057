"""`mooring pending`: all pending pods by cause."""

from __future__ import annotations

import click

from mooring.cli.explain import OUTPUTS, open_source, pending_pods, source_flags
from mooring.cli.flags import option
from mooring.cli.output import echo_report, write_data
from mooring.cli.reach import Endpoint
from mooring.explain.causes import list_causes


@click.command()
@option("-n", "--namespace", default="", metavar="NAME", help="Only pods of this namespace (default: all)")
@source_flags
@option("-o", "--output", type=OUTPUTS, default="text", help="Output format")
def pending(
    namespace: str,
    files: tuple[str, ...],
    config_file: str | None,
    plugins: tuple[str, ...],
    kubeconfig: str,
    context: str,
    endpoint: str,
    endpoint_certificate_authority: str,
    insecure_skip_tls_verify: bool,
    output: str,
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
    if files and endpoint:
        raise click.UsageError("-f and --endpoint are mutually exclusive")
    place = Endpoint(endpoint, endpoint_certificate_authority, insecure_skip_tls_verify) if endpoint else None
    source = open_source(files, config_file, plugins, kubeconfig, context, place)
    causes = pending_pods(source, namespace)
    if output != "text":
        write_data(causes, output)
        return
    for line in list_causes(causes):
        echo_report(line)
