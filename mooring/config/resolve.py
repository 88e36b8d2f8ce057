"""From a configuration and the registered plugins to what each profile runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike

import msgspec

from mooring.config.default_plugins import with_gated_plugins
from mooring.config.expand import Expansion, PluginClass, Registry
from mooring.config.feature_gates import FeatureGateError, FeatureGates
from mooring.config.findings import Path, Places, Report, did_you_mean
from mooring.config.load import LoadedConfig, finish, read, read_text
from mooring.config.plugin_args import decode_args
from mooring.config.types import KubeSchedulerConfiguration, PluginConfig, Profile
from mooring.framework.args import Args
from mooring.plugins.args import NodeResourcesFitArgs


@dataclass(slots=True)
class ResolvedProfile:
    """One profile, ready to be built.

    `points` has the plugins of every extension point in the order in which they run, `weights` and
    `placement_weights` those of its score and placement score plugins. `args` has an entry for each enabled
    plugin; plugins that declare no type of arguments find theirs in `raw_args` as the file gives them.
    `percentage_of_nodes_to_score` is None where the global one holds.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    points: dict[str, tuple[str, ...]]
    weights: dict[str, int]
    placement_weights: dict[str, int] = field(default_factory=dict)
    args: dict[str, Args | None] = field(default_factory=dict)
    raw_args: dict[str, object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def resolve(config: KubeSchedulerConfiguration | LoadedConfig, registry: Registry) -> list[ResolvedProfile]:
    """The profiles of a configuration as the registry's plugins make them; ConfigError where they cannot.

    Problems name the file and line if `config` is what `load` returned.
    """
    loaded = config if isinstance(config, LoadedConfig) else LoadedConfig(config)
    report = Report(loaded.places)
    resolved = _resolve(loaded.config, registry, report)
    report.raise_if_any()
    return resolved


def load_and_resolve(
    path: str | PathLike[str], registry: Registry
) -> tuple[LoadedConfig, list[ResolvedProfile]]:
    """Load a file and resolve its profiles, reporting the problems of both at once."""
    return loads_and_resolve(read_text(path), registry, str(path))


def loads_and_resolve(
    text: str, registry: Registry, source: str = "<config>"
) -> tuple[LoadedConfig, list[ResolvedProfile]]:
    """Load and resolve a configuration from text."""
    loaded, report = read(text, source)
    resolved: list[ResolvedProfile] = []
    if loaded is not None:
        config = loaded.config
        report.check_further(lambda later: resolved.extend(_resolve(config, registry, later)))
        report.check_further(lambda later: _check_unused_args(config, resolved, registry, later))
    return finish(loaded, report), resolved


def _resolve(config: KubeSchedulerConfiguration, registry: Registry, report: Report) -> list[ResolvedProfile]:
    gates = _gates(config)
    resolved = [_profile(i, profile, gates, registry, report) for i, profile in enumerate(config.profiles)]
    _common_queue_sort(resolved, report)
    _ignore_managed_resources(config, resolved, report)
    return resolved


def _gates(config: KubeSchedulerConfiguration) -> FeatureGates:
    try:
        return FeatureGates(config.feature_gates)
    except FeatureGateError:  # reported by validation
        return FeatureGates()


def _profile(
    index: int, profile: Profile, gates: FeatureGates, registry: Registry, report: Report
) -> ResolvedProfile:
    path: Path = ("profiles", index)
    multi_point = with_gated_plugins(profile.plugins.multi_point, gates)
    plugins = msgspec.structs.replace(profile.plugins, multi_point=multi_point)
    expansion = Expansion(plugins, registry, (*path, "plugins"), report)
    points = expansion.points()
    resolved = ResolvedProfile(
        scheduler_name=profile.scheduler_name,
        percentage_of_nodes_to_score=profile.percentage_of_nodes_to_score,
        points=points,
        weights=expansion.weights("score", points["score"]),
        placement_weights=expansion.weights("placementScore", points["placementScore"]),
    )
    _required_points(resolved, (*path, "plugins"), report)
    _args(resolved, profile, registry, (*path, "pluginConfig"), report)
    resolved.warnings += _warnings(profile, registry, path, report.places)
    resolved.warnings += _negative_weights(resolved, (*path, "plugins", "score"), report.places)
    return resolved


def _required_points(profile: ResolvedProfile, path: Path, report: Report) -> None:
    """Each profile has one queue sort and a way to bind. Lists that are wrong already say enough."""
    name = f'profile with scheduler name "{profile.scheduler_name}"'
    sorts = profile.points["queueSort"]
    if len(sorts) != 1 and not report.has_below((*path, "queueSort")):
        message = f"only one queue sort plugin required for {name}, but got {len(sorts)}"
        hint = f"enabled are {', '.join(sorts)}: disable all but one" if sorts else "enable PrioritySort"
        report.add((*path, "queueSort"), message, hint)
    if not profile.points["bind"] and not report.has_below((*path, "bind")):
        report.add((*path, "bind"), f"at least one bind plugin is needed for {name}", "enable DefaultBinder")
    if len(profile.points["placementGenerate"]) > 1:
        message = f"at most one placement generate plugin is allowed for {name}"
        report.add((*path, "placementGenerate"), message)


def _args(
    resolved: ResolvedProfile, profile: Profile, registry: Registry, path: Path, report: Report
) -> None:
    entries = {entry.name: (index, entry) for index, entry in enumerate(profile.plugin_config)}
    for name in dict.fromkeys(name for names in resolved.points.values() for name in names):
        index, entry = entries.get(name, (len(entries), PluginConfig(name=name)))
        args = _typed(entry, registry[name], (*path, index, "args"), report)
        resolved.args[name] = args
        if args is None and entry.args is not None:
            resolved.raw_args[name] = entry.args


def _check_unused_args(
    config: KubeSchedulerConfiguration, resolved: list[ResolvedProfile], registry: Registry, report: Report
) -> None:
    """Check the arguments of registered plugins that their profile does not enable. A scheduler ignores them,
    so this is for those who check a file before it is used."""
    for index, (profile, result) in enumerate(zip(config.profiles, resolved, strict=True)):
        for position, entry in enumerate(profile.plugin_config):
            if entry.name in registry and entry.name not in result.args:
                path: Path = ("profiles", index, "pluginConfig", position)
                _typed(entry, registry[entry.name], (*path, "args"), report)
                finding = Report(report.places)
                finding.add(
                    path, f'args of plugin "{entry.name}" have no effect: the profile does not enable it'
                )
                result.warnings.append(str(finding.findings[0]))


def _typed(entry: PluginConfig, plugin: PluginClass, path: Path, report: Report) -> Args | None:
    if plugin.args_type is None:
        return entry.args if isinstance(entry.args, Args) else None
    if isinstance(entry.args, plugin.args_type):
        return entry.args
    # A plugin registered under an in-tree name may declare arguments of its own.
    raw = msgspec.to_builtins(entry.args, enc_hook=str) if isinstance(entry.args, Args) else entry.args
    return decode_args(raw, plugin.args_type, path, report)


def _common_queue_sort(profiles: list[ResolvedProfile], report: Report) -> None:
    """All profiles share one queue."""
    if not profiles or len(profiles[0].points["queueSort"]) != 1:
        return
    first = profiles[0].points["queueSort"][0]
    for index, profile in enumerate(profiles[1:], start=1):
        path: Path = ("profiles", index, "plugins", "queueSort")
        if len(profile.points["queueSort"]) != 1:
            continue
        name = profile.points["queueSort"][0]
        if name != first:
            message = f'different queue sort plugins for profile "{profile.scheduler_name}"'
            report.add(path, f'{message}: "{name}", first: "{first}"')
        elif (profile.args[name], profile.raw_args.get(name)) != (
            profiles[0].args[first],
            profiles[0].raw_args.get(first),
        ):
            report.add(path, f'different queue sort plugin args for profile "{profile.scheduler_name}"')


def _ignore_managed_resources(
    config: KubeSchedulerConfiguration, profiles: list[ResolvedProfile], report: Report
) -> None:
    """Resources that extenders manage alone are left out of NodeResourcesFit, instead of its own list."""
    ignored = [
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    for index, (profile, resolved) in enumerate(zip(config.profiles, profiles, strict=True)):
        if not ignored:
            return
        if all(entry.name != "NodeResourcesFit" for entry in profile.plugin_config):
            message = "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
            report.add(("profiles", index, "pluginConfig"), message)
        args = resolved.args.get("NodeResourcesFit")
        if isinstance(args, NodeResourcesFitArgs):
            resolved.args["NodeResourcesFit"] = msgspec.structs.replace(args, ignored_resources=ignored)


def _negative_weights(profile: ResolvedProfile, path: Path, places: Places) -> Iterator[str]:
    """Weights that kube-scheduler accepts, but that invert what a plugin means."""
    for name, weight in profile.weights.items():
        if weight < 0:
            later = Report(places)
            later.add(
                path, f'plugin "{name}" has weight {weight}: a node that it scores high gets a low total'
            )
            yield str(later.findings[0])


def _warnings(profile: Profile, registry: Registry, path: Path, places: Places) -> Iterator[str]:
    """Names that have no effect because no such plugin is registered: allowed, but probably mistyped."""

    def warning(where: Path, text: str, name: str) -> str:
        later = Report(places)
        later.add(where, text, did_you_mean(name, registry))
        return str(later.findings[0])

    for point, plugins in profile.plugins.sets():
        for index, plugin in enumerate(plugins.disabled):
            if plugin.name != "*" and plugin.name not in registry:
                where = (*path, "plugins", point, "disabled", index)
                yield warning(where, f'unknown plugin "{plugin.name}" has no effect', plugin.name)
    for index, entry in enumerate(profile.plugin_config):
        if entry.name not in registry:
            text = f'args of unknown plugin "{entry.name}" have no effect'
            yield warning((*path, "pluginConfig", index), text, entry.name)
