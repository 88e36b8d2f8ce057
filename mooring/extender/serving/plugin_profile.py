"""The profile that an extender serves: the given plugins, and nothing that the scheduler does itself."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from mooring.config import LoadedConfig, PluginRef, Plugins, PluginSet, Profile, default_config
from mooring.core.scheduler import Scheduler
from mooring.runtime.registry import Registry

PROFILE = "mooring extender"
"""No pod can have a scheduler of this name, so that none is ever queued here."""


def make_scheduler(
    names: Sequence[str], registry: Registry, config: LoadedConfig | None = None
) -> tuple[Scheduler, frozenset[str]]:
    """A scheduler's core to keep the cluster's state and to run these plugins, and the extension points that
    they have. Arguments and weights are those of the first profile in the configuration that names one of
    them. Raises ConfigError and PluginError."""
    loaded = config or LoadedConfig(default_config())
    profiles = loaded.config.profiles
    chosen = next((each for each in profiles if mentions(each, names)), profiles[0])
    weights = {ref.name: ref.weight for ref in _refs(chosen)}
    refs = [PluginRef(name=name, weight=weights.get(name, 0)) for name in names]
    for i, profile in enumerate(profiles):  # all stay where they are: complaints name the file's lines
        served = profile is chosen
        profile.plugins = _plugins(refs if served else [], registry)
        profile.scheduler_name = PROFILE if served else f"{PROFILE} {i}"
    scheduler = Scheduler(loaded, clock=time.time, pick=random.Random().randrange, registry=registry)
    points = frozenset(point for name in names for point in registry[name].extension_points)
    return scheduler, points


def mentions(profile: Profile, names: Sequence[str]) -> bool:
    """Return whether the profile enables one of the plugins or has arguments for it."""
    mentioned = [entry.name for entry in profile.plugin_config] + [ref.name for ref in _refs(profile)]
    return any(name in mentioned for name in names)


def _refs(profile: Profile) -> list[PluginRef]:
    """The more special ones last, so that they count."""
    return [*profile.plugins.multi_point.enabled, *profile.plugins.score.enabled]


def _plugins(refs: list[PluginRef], registry: Registry) -> Plugins:
    """The plugins, and what no profile can do without."""
    points = {point for ref in refs for point in registry[ref.name].extension_points}
    queue_sort = [] if "queueSort" in points else [PluginRef(name="PrioritySort")]
    return Plugins(
        multi_point=PluginSet(enabled=refs),
        queue_sort=PluginSet(enabled=queue_sort),
        bind=PluginSet(enabled=_binders(refs, registry)),
    )


def _binders(refs: list[PluginRef], registry: Registry) -> list[PluginRef]:
    """Those that bind, and last the one that always does."""
    own = [ref for ref in refs if "bind" in registry[ref.name].extension_points]
    default = PluginRef(name="DefaultBinder")
    return own if any(ref.name == default.name for ref in own) else [*own, default]
