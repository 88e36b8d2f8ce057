"""Filling in what the file leaves open, so that the result says everything the scheduler will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.config.default_plugins import merge_multi_point
from mooring.config.findings import Path, Places
from mooring.config.types import (
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginConfig,
    Profile,
    Section,
)
from mooring.plugins.args import IN_TREE_ARGS, Duration

DEFAULT_SCHEDULER_NAME = "default-scheduler"


def apply_defaults(config: KubeSchedulerConfiguration, raw: Mapping[str, Any], places: Places) -> None:
    """Complete `config`, decoded from `raw`; `places` is kept in step where values move."""
    if raw.get("enableContentionProfiling") is None:
        config.enable_contention_profiling = config.enable_profiling
    # In these, zero values are the same as absent ones.
    _replace_zeros(config.client_connection, ClientConnection(), "content_type", "qps", "burst")
    _replace_zeros(config.leader_election, LeaderElection(), "resource_lock", "resource_name")
    _replace_zeros(config.leader_election, LeaderElection(), "resource_namespace", "lease_duration")
    _replace_zeros(config.leader_election, LeaderElection(), "renew_deadline", "retry_period")
    for extender in config.extenders:
        _replace_zeros(extender, Extender(), "http_timeout")

    config.profiles = config.profiles or [Profile()]
    if len(config.profiles) == 1:
        only = config.profiles[0]
        only.scheduler_name = only.scheduler_name or DEFAULT_SCHEDULER_NAME
    for index, profile in enumerate(config.profiles):
        _merge_plugins(profile, ("profiles", index, "plugins", "multiPoint", "enabled"), places)
        _append_default_args(profile)


def _replace_zeros(section: Section, defaults: Section, *names: str) -> None:
    for name in names:
        if getattr(section, name) in (0, "", Duration(0)):
            setattr(section, name, getattr(defaults, name))


def _merge_plugins(profile: Profile, path: Path, places: Places) -> None:
    profile.plugins.multi_point, origins = merge_multi_point(profile.plugins.multi_point)
    moved = {origin: index for index, origin in enumerate(origins)}
    below = [key for key in places.by_path if key[: len(path)] == path and len(key) > len(path)]
    nested = {key: places.by_path.pop(key) for key in below}
    for key, place in nested.items():
        origin, *rest = key[len(path) :]
        if isinstance(origin, int) and origin in moved:  # it is not where the list could not be decoded
            places.by_path[*path, moved[origin], *rest] = place


def _append_default_args(profile: Profile) -> None:
    """Give every enabled in-tree plugin its default arguments, as kube-scheduler prints them."""
    configured = {entry.name for entry in profile.plugin_config}
    enabled = {plugin.name for _, points in profile.plugins.sets() for plugin in points.enabled}
    for name in sorted(enabled & IN_TREE_ARGS.keys() - configured):
        profile.plugin_config.append(PluginConfig(name=name, args=IN_TREE_ARGS[name]()))
