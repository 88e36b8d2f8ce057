"""From configuration and registered plugins to profiles that run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mooring.config.resolve import ResolvedProfile
from mooring.core.handle import ProfileHandle
from mooring.framework.plugin import Plugin
from mooring.plugins import IN_TREE
from mooring.runtime.observer import Observer
from mooring.runtime.profile import Profile, instantiate
from mooring.runtime.registry import Registry
from mooring.runtime.stopwatch import Stopwatch

if TYPE_CHECKING:
    from mooring.core.scheduler import Scheduler


def registry_with(plugins: Iterable[type[Plugin]] = ()) -> Registry:
    """The default plugins, what the decorator collected, and the given classes."""
    registry = Registry(IN_TREE)
    registry.register_decorated()
    for cls in plugins:
        registry.register(cls)
    return registry


def build_profile(
    resolved: ResolvedProfile,
    registry: Registry,
    scheduler: Scheduler,
    reuse: bool,
    observer: Observer | None = None,
) -> Profile:
    """Make a profile's plugins and bind them to their extension points."""
    handle = ProfileHandle(scheduler, resolved.scheduler_name)
    names = dict.fromkeys(name for plugins in resolved.points.values() for name in plugins)
    plugins = {}
    for name in names:
        args: object = resolved.args.get(name) or resolved.raw_args.get(name)
        plugins[name] = instantiate(registry[name], args, handle)
    handle.profile = Profile(
        resolved.scheduler_name,
        plugins,
        resolved.points,
        resolved.weights,
        resolved.percentage_of_nodes_to_score,
        reuse,
        None if observer is None else Stopwatch(observer, resolved.scheduler_name),
        resolved.placement_weights,
    )
    return handle.profile
