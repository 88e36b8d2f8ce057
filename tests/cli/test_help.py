"""`--help`: kube-scheduler's flags are all there, and every command documents its flags."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from mooring.cli import main

# The flags of kube-scheduler v1.36 by the sections of its help, without --help and --version.
KUBE_SCHEDULER = {
    "Misc flags": "config master write-config-to",
    "Secure serving flags": (
        "bind-address cert-dir disable-http2-serving http2-max-streams-per-connection permit-address-sharing "
        "permit-port-sharing secure-port tls-cert-file tls-cipher-suites tls-curve-preferences "
        "tls-min-version tls-private-key-file tls-sni-cert-key"
    ),
    "Authentication flags": (
        "authentication-kubeconfig authentication-skip-lookup authentication-token-webhook-cache-ttl "
        "authentication-tolerate-lookup-failure client-ca-file requestheader-allowed-names "
        "requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers "
        "requestheader-uid-headers requestheader-username-headers"
    ),
    "Authorization flags": (
        "authorization-always-allow-paths authorization-kubeconfig "
        "authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl"
    ),
    "Deprecated flags": (
        "contention-profiling kube-api-burst kube-api-content-type kube-api-qps kubeconfig "
        "pod-max-in-unschedulable-pods-duration profiling"
    ),
    "Leader election flags": (
        "leader-elect leader-elect-lease-duration leader-elect-renew-deadline leader-elect-resource-lock "
        "leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period"
    ),
    "Feature gate flags": "emulated-version feature-gates min-compatibility-version",
    "Metrics flags": (
        "allow-metric-labels allow-metric-labels-manifest disabled-metrics show-hidden-metrics-for-version"
    ),
    "Logs flags": (
        "log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size "
        "log-text-split-stream logging-format v vmodule"
    ),
}
MOVED = {"kubeconfig": "Misc flags"}  # deprecated there, not here


def commands(
    command: click.Command = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


COMMANDS = dict(commands())


def shown(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(main, [*path, "--help"], prog_name="mooring", terminal_width=110)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("section", KUBE_SCHEDULER)
def test_every_flag_of_kube_scheduler_is_accepted_and_listed_in_its_section(section: str) -> None:
    params = {name: p for p in COMMANDS["scheduler",].params for name in p.opts}
    help_text = shown(("scheduler",))
    for name in KUBE_SCHEDULER[section].split():
        param = params[f"--{name}"]
        assert isinstance(param, click.Option)
        if not param.hidden:
            title = MOVED.get(name, section)
            listed = help_text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
            assert f"--{name} " in listed


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_has_a_help_line_that_starts_with_a_capital(path: tuple[str, ...]) -> None:
    for param in COMMANDS[path].params:
        if isinstance(param, click.Option) and not param.hidden:
            assert param.help
            assert param.help[0].isupper(), param.help


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_first_sentence_of_every_command_fits_on_a_line_of_the_list(path: tuple[str, ...]) -> None:
    assert "..." not in COMMANDS[path].get_short_help_str(limit=110)
    assert shown(path).startswith("Usage: mooring")
