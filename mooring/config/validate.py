"""Validation of a defaulted configuration, in kube-scheduler's words."""

from __future__ import annotations

from mooring.config.feature_gates import FeatureGateError, FeatureGates
from mooring.config.findings import Path, Report
from mooring.config.removed_plugins import REMOVED, VOLUME_LIMITS
from mooring.config.types import API_VERSION, KubeSchedulerConfiguration, LeaderElection, Profile
from mooring.config.validate_extenders import validate_extenders


def validate(config: KubeSchedulerConfiguration, report: Report) -> None:
    """Report everything that is wrong with the values."""
    if config.parallelism <= 0:
        message = "should be an integer value greater than zero"
        report.invalid(("parallelism",), config.parallelism, message)
    _leader_election(config.leader_election, report)
    if config.client_connection.burst < 0:
        burst = config.client_connection.burst
        report.invalid(("clientConnection", "burst"), burst, "must be non-negative")
    for name, address in (
        ("healthzBindAddress", config.healthz_bind_address),
        ("metricsBindAddress", config.metrics_bind_address),
    ):
        _bind_address((name,), address, report)
    _percentage(("percentageOfNodesToScore",), config.percentage_of_nodes_to_score, report)
    initial, maximum = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        report.invalid(("podInitialBackoffSeconds",), initial, "must be greater than 0")
    if maximum < initial:
        message = "must be greater than or equal to PodInitialBackoffSeconds"
        report.invalid(("podMaxBackoffSeconds",), maximum, message)
    _profiles(config.profiles, report)
    validate_extenders(config.extenders, report)
    try:
        FeatureGates(config.feature_gates)
    except FeatureGateError as problem:
        report.add(("featureGates",), str(problem))


def _leader_election(election: LeaderElection, report: Report) -> None:
    if not election.leader_elect:
        return
    path: Path = ("leaderElection",)
    lease, renew = election.lease_duration, election.renew_deadline
    for name, duration in (
        ("leaseDuration", lease),
        ("renewDeadline", renew),
        ("retryPeriod", election.retry_period),
    ):
        if duration.nanoseconds <= 0:
            report.invalid((*path, name), str(duration), "must be greater than zero")
    if lease <= renew:
        report.invalid((*path, "leaseDuration"), str(lease), "must be greater than `RenewDeadline`")
    if not election.resource_lock:
        report.add((*path, "resourceLock"), "Required value: resourceLock is required")
    elif election.resource_lock != "leases":
        message = 'resourceLock value must be "leases"'
        report.invalid((*path, "resourceLock"), election.resource_lock, message)
    for name, value in (
        ("resourceName", election.resource_name),
        ("resourceNamespace", election.resource_namespace),
    ):
        if not value:
            report.add((*path, name), f"Required value: {name} is required")


def _bind_address(path: Path, address: str | None, report: Report) -> None:
    if address in (None, "", "0"):
        return
    host, colon, port = str(address).rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not host.startswith("[")):
        report.invalid(path, address, "must be an address and port, such as 0.0.0.0:10251")


def _percentage(path: Path, percentage: int | None, report: Report) -> None:
    if percentage is not None and not 0 <= percentage <= 100:
        report.invalid(path, percentage, "not in valid range [0-100]")


def _profiles(profiles: list[Profile], report: Report) -> None:
    if not profiles:
        report.add(("profiles",), "Required value")
        return
    seen: set[str] = set()
    for index, profile in enumerate(profiles):
        path: Path = ("profiles", index)
        name = profile.scheduler_name
        if not name:
            hint = "with several profiles each needs its own schedulerName"
            report.add((*path, "schedulerName"), "Required value", hint)
        elif name in seen:
            report.add((*path, "schedulerName"), f'Duplicate value: "{name}"')
        seen.add(name)
        _percentage((*path, "percentageOfNodesToScore"), profile.percentage_of_nodes_to_score, report)
        _plugin_names(profile, path, report)
    _common_queue_sort(profiles, report)


def _plugin_names(profile: Profile, path: Path, report: Report) -> None:
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        where = (*path, "pluginConfig", index)
        if not entry.name:
            report.add((*where, "name"), "Required value")
        elif entry.name in seen:
            report.add(where, f'Duplicate value: "{entry.name}"')
        elif entry.name in VOLUME_LIMITS:
            _no_longer_valid(where, entry.name, report)
        seen.add(entry.name)
    for point, plugins in profile.plugins.sets():
        for index, plugin in enumerate(plugins.enabled):
            where = (*path, "plugins", point, "enabled", index)
            if not plugin.name:
                report.add((*where, "name"), "Required value")
            elif plugin.name in VOLUME_LIMITS and point != "multiPoint":
                _no_longer_valid(where, plugin.name, report)


def _no_longer_valid(path: Path, name: str, report: Report) -> None:
    message = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    report.invalid(path, name, message, REMOVED[name])


def _common_queue_sort(profiles: list[Profile], report: Report) -> None:
    """All profiles share one queue, so they must sort it in the same way."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        path: Path = ("profiles", 0, "plugins", "queueSort", "enabled")
        report.invalid(path, len(first.enabled), "only one queue sort plugin can be enabled")
    name = first.enabled[0].name if first.enabled else ""
    args = [entry.args for entry in profiles[0].plugin_config if entry.name == name]
    for index, profile in enumerate(profiles[1:], start=1):
        sort = profile.plugins.queue_sort
        if sort != first:
            names = [plugin.name for plugin in sort.enabled]
            path = ("profiles", index, "plugins", "queueSort")
            report.invalid(path, names, "must be the same for all profiles")
        for at, entry in enumerate(profile.plugin_config):
            if name and entry.name == name and [entry.args] != args:
                path = ("profiles", index, "pluginConfig", at, "args")
                report.add(path, "queueSort must be the same for all profiles")
