"""A KubeSchedulerConfiguration that enables plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mooring.config.types import API_VERSION, KIND
from mooring.framework.args import Args
from mooring.framework.plugin import Plugin

PluginArgs = Mapping[str, Any] | Args

_NEEDED = ("PrioritySort", "DefaultBinder")


def config_with(
    plugins: Iterable[type[Plugin]],
    args: Mapping[str, PluginArgs] | None = None,
    *,
    defaults: bool = True,
) -> dict[str, Any]:
    """One profile that runs the plugins at every extension point they implement, after the default ones.

    A queue sort takes the place of the default one, since there can be only one; a binder is asked before
    the default one. `args` are by plugin name. With `defaults=False` there are no plugins but these and
    the two that no profile can do without: PrioritySort and DefaultBinder.
    """
    chosen = [cls for cls in dict.fromkeys(plugins) if cls.name not in _NEEDED]
    enabled = [{"name": cls.name} for cls in chosen]
    multi_point: dict[str, Any] = {"enabled": enabled}
    if not defaults:
        needed = [{"name": name} for name in _NEEDED]
        multi_point = {"disabled": [{"name": "*"}], "enabled": [*needed, *enabled]}
    points: dict[str, Any] = {"multiPoint": multi_point}
    sorting = [{"name": cls.name} for cls in chosen if "queueSort" in cls.extension_points]
    if sorting:
        points["queueSort"] = {"disabled": [{"name": "*"}], "enabled": sorting}
    binding = [{"name": cls.name} for cls in chosen if "bind" in cls.extension_points]
    if binding:
        points["bind"] = {"enabled": [*binding, {"name": "DefaultBinder"}]}
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": points,
        "pluginConfig": [
            {"name": name, "args": _plain(plugin_args)} for name, plugin_args in (args or {}).items()
        ],
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}


def _plain(args: PluginArgs) -> Any:
    return msgspec.to_builtins(args, enc_hook=str) if isinstance(args, Args) else dict(args)
