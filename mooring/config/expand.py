"""Expansion of MultiPoint: which plugins of a profile run at which extension point, in which order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mooring.config.findings import Path, Report, did_you_mean
from mooring.config.removed_plugins import REMOVED
from mooring.config.types import Plugins, PluginSet
from mooring.framework.args import Args
from mooring.framework.extension_points import EXTENSION_POINTS

MAX_NODE_SCORE = 100
MAX_TOTAL_SCORE = 2**63 - 1


NOT_REGISTERED = "if it is yours, register it: --plugin MODULE:CLASS, or a mooring.plugins entry point"


class PluginClass(Protocol):
    """What configuration has to know about a registered plugin."""

    @property
    def name(self) -> str: ...
    @property
    def extension_points(self) -> frozenset[str]: ...
    @property
    def args_type(self) -> type[Args] | None: ...


Registry = Mapping[str, PluginClass]


class Expansion:
    """Expands the plugins of one profile against a registry, reporting what cannot be."""

    def __init__(self, plugins: Plugins, registry: Registry, path: Path, report: Report) -> None:
        self.plugins = plugins
        self.registry = registry
        self.path = path
        self.report = report

    def points(self) -> dict[str, tuple[str, ...]]:
        """The effective plugins of every extension point, in the order in which they run."""
        for index, plugin in enumerate(self.plugins.multi_point.enabled):
            if plugin.name not in self.registry:
                self._unknown(("multiPoint", "enabled", index), plugin.name)
        return {
            point: tuple(self._point(point, chosen))
            for point, chosen in self.plugins.sets()
            if point != "multiPoint"
        }

    def weights(self, point: str, names: tuple[str, ...]) -> dict[str, int]:
        """The weight of each plugin that scores nodes or placements: what its point says, else MultiPoint;
        none means 1."""
        own = self.plugins.score if point == "score" else self.plugins.placement_score
        explicit: dict[str, int] = {}
        for plugin in (*own.enabled, *self.plugins.multi_point.enabled):
            registered = self.registry.get(plugin.name)
            if registered is not None and point in registered.extension_points:
                explicit.setdefault(plugin.name, plugin.weight or 1)
        self._check_overflow(explicit)
        return {name: explicit[name] for name in names}

    def _check_overflow(self, weights: dict[str, int]) -> None:
        """Reject what kube-scheduler takes for an overflow: also a total that is negative before the last
        plugin, because it subtracts the total from the largest integer."""
        total = 0
        for name, weight in weights.items():
            if total < 0 or weight * MAX_NODE_SCORE > MAX_TOTAL_SCORE - total:
                hint = f"the weights before {name} are negative in total; list negative ones last"
                message = "total score of Score plugins could overflow"
                self._add(("score",), message, hint if total < 0 else None)
                return
            total += weight * MAX_NODE_SCORE

    def _point(self, point: str, chosen: PluginSet) -> list[str]:
        """First what both the point and MultiPoint list, then what MultiPoint adds, then the rest."""
        listed = self._listed(point, chosen)
        disabled = {plugin.name for plugin in chosen.disabled}
        if "*" in disabled:
            return listed
        overrides: set[str] = set()
        added: list[str] = []
        for index, plugin in enumerate(self.plugins.multi_point.enabled):
            name = plugin.name
            registered = self.registry.get(name)
            if registered is None or point not in registered.extension_points or name in disabled:
                continue
            if name in listed:
                overrides.add(name)
            elif name in added:
                self._duplicate(("multiPoint", "enabled", index), point, name)
            else:
                added.append(name)
        first = [name for name in listed if name in overrides]
        return first + added + [name for name in listed if name not in overrides]

    def _listed(self, point: str, chosen: PluginSet) -> list[str]:
        names: list[str] = []
        for index, plugin in enumerate(chosen.enabled):
            path = (point, "enabled", index)
            registered = self.registry.get(plugin.name)
            if registered is None:
                self._unknown(path, plugin.name)
            elif point not in registered.extension_points:
                has = ", ".join(sorted(registered.extension_points)) or "no extension point"
                message = f'plugin "{plugin.name}" does not extend {interface(point)} plugin'
                self._add(path, message, f"it implements {has}")
            elif plugin.name in names:
                self._duplicate(path, point, plugin.name)
            else:
                names.append(plugin.name)
        return names

    def _unknown(self, path: Path, name: str) -> None:
        if name:  # an empty name is refused by validation
            hint = REMOVED.get(name) or did_you_mean(name, self.registry) or NOT_REGISTERED
            self._add(path, f'unknown plugin "{name}"', hint)

    def _duplicate(self, path: Path, point: str, name: str) -> None:
        self._add(path, f'plugin "{name}" already registered as "{interface(point)}"')

    def _add(self, path: Path, message: str, hint: str | None = None) -> None:
        self.report.add((*self.path, *path), message, hint)


def interface(point: str) -> str:
    """The name kube-scheduler's messages have for an extension point: "PreFilterPlugin"."""
    extension_point = EXTENSION_POINTS.get(point)
    return f"{extension_point.interface if extension_point else point[:1].upper() + point[1:]}Plugin"
