"""What changed in profiles, plugin lists and plugin arguments between the versions."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.config.findings import Place, Report
from mooring.config.removed_plugins import REMOVED, SCORING_STRATEGIES
from mooring.config.tree import LocatedList, LocatedMap


def set_arg(profile: LocatedMap, plugin: str, key: str, value: object, place: Place) -> None:
    """Set one argument of a plugin, unless the file already gives it."""
    args = _args_of(profile, plugin, place)
    if key not in args:
        args.put(key, value, place)


def disable(profile: LocatedMap, point: str, plugin: str, place: Place) -> None:
    disabled = profile.child("plugins", place).child(point, place).items_of("disabled", place)
    entry = LocatedMap(place)
    entry.put("name", plugin, place)
    disabled.add(entry, place)


def rename_point(profile: LocatedMap, old: str, new: str) -> None:
    """Move what is listed at extension point `old` to the end of what is listed at `new`."""
    plugins = profile.get("plugins")
    if not isinstance(plugins, LocatedMap) or old not in plugins:
        return
    moved, place = plugins.take(old)
    if plugins.get(new) is None or not isinstance(moved, LocatedMap):
        plugins.put(new, moved, place)
        return
    for key in ("enabled", "disabled"):
        target = plugins.child(new, place).items_of(key, place)
        names = {_name(item) for item, _ in target.maps()}
        for item, where in moved.items_of(key, place).maps():
            if _name(item) not in names:
                target.add(item, where)


def fold_scoring_plugins(profile: LocatedMap, report: Report) -> None:
    """Turn the plugins that scored by allocation before v1beta2 into NodeResourcesFit's strategy.

    NodeResourcesLeastAllocated was a default plugin, so disabling it alone means that no such score
    is wanted, and its arguments count even where it is not listed.
    """
    chosen, place = _take_enabled_strategy(profile, report)
    dropped = _drop(_listed(profile, "score", "disabled"), SCORING_STRATEGIES)
    if chosen is None and "NodeResourcesLeastAllocated" in dropped:
        disable(profile, "score", "NodeResourcesFit", dropped["NodeResourcesLeastAllocated"])
    for plugin in SCORING_STRATEGIES:
        args, where = _take_args(profile, plugin)
        if plugin == (chosen or "NodeResourcesLeastAllocated") and (chosen or args):
            _set_strategy(profile, SCORING_STRATEGIES[plugin], args, place if args is None else where)


def use_most_allocated(profile: LocatedMap, place: Place) -> None:
    _set_strategy(profile, "MostAllocated", None, place)


def list_default_constraints(profile: LocatedMap) -> None:
    """Before defaultingType existed, default constraints were always the listed ones."""
    for entry, _ in _items(profile.get("pluginConfig")).maps():
        args = entry.get("args")
        if entry.get("name") != "PodTopologySpread" or not isinstance(args, LocatedMap):
            continue
        if args.get("defaultConstraints") and not args.get("defaultingType"):
            args.put("defaultingType", "List", args.places["defaultConstraints"])


def refuse_removed(profile: LocatedMap, version: str, report: Report) -> None:
    """Report enabled plugins that no longer exist; forget the disabled ones."""
    plugins = profile.get("plugins")
    if not isinstance(plugins, LocatedMap):
        return
    for point in plugins:
        _drop(_listed(profile, point, "disabled"), REMOVED)
        for name, place in _drop(_listed(profile, point, "enabled"), REMOVED).items():
            message = f'plugin "{name}" of {version} was removed and has no equivalent by that name'
            report.add_at(place, message, REMOVED[name])


def _args_of(profile: LocatedMap, plugin: str, place: Place) -> LocatedMap:
    entries = profile.items_of("pluginConfig", place)
    for entry, _ in entries.maps():
        if entry.get("name") == plugin:
            return entry.child("args", place)
    entry = LocatedMap(place)
    entry.put("name", plugin, place)
    entries.add(entry, place)
    return entry.child("args", place)


def _take_args(profile: LocatedMap, plugin: str) -> tuple[LocatedMap | None, Place]:
    entries = _items(profile.get("pluginConfig"))
    for index, entry in enumerate(entries):
        if isinstance(entry, LocatedMap) and entry.get("name") == plugin:
            args, place = entry.take("args")
            entries.remove_at(index)
            return (args, place) if isinstance(args, LocatedMap) else (None, place)
    return None, profile.place


def _take_enabled_strategy(profile: LocatedMap, report: Report) -> tuple[str | None, Place]:
    """The scoring plugin the profile enables, which becomes NodeResourcesFit in its list."""
    chosen, at = None, profile.place
    for entry, place in _listed(profile, "score", "enabled").maps():
        name = _name(entry)
        if name not in SCORING_STRATEGIES:
            continue
        if chosen is not None:
            message = f'plugins "{chosen}" and "{name}" cannot both be converted'
            hint = "NodeResourcesFit has one scoringStrategy: keep one of them"
            report.add_at(place, message, hint)
            continue
        chosen, at = name, place
        entry.put("name", "NodeResourcesFit", entry.places.get("name", place))
    return chosen, at


def _set_strategy(profile: LocatedMap, strategy: str, args: LocatedMap | None, place: Place) -> None:
    scoring = LocatedMap(place)
    scoring.put("type", strategy, place)
    for key, value in (args or {}).items():
        where = args.places[key] if args else place
        if key == "shape":
            scoring.child("requestedToCapacityRatio", where).put("shape", value, where)
        elif key not in ("apiVersion", "kind"):
            scoring.put(key, value, where)
    set_arg(profile, "NodeResourcesFit", "scoringStrategy", scoring, place)


def _drop(plugins: LocatedList, names: Mapping[str, str]) -> dict[str, Place]:
    """Take the plugins in `names` out of a list; give where they stood."""
    dropped: dict[str, Place] = {}
    for index in range(len(plugins) - 1, -1, -1):
        name = _name(plugins[index])
        if name in names:
            dropped[name] = plugins.places[index]
            plugins.remove_at(index)
    return dropped


def _listed(profile: LocatedMap, point: str, key: str) -> LocatedList:
    """The plugins enabled or disabled at a point; an empty list where the file has none."""
    plugins = profile.get("plugins")
    points = plugins.get(point) if isinstance(plugins, LocatedMap) else None
    return _items(points.get(key) if isinstance(points, LocatedMap) else None)


def _name(entry: object) -> str:
    name = entry.get("name") if isinstance(entry, LocatedMap) else None
    return name if isinstance(name, str) else ""


def _items(value: object) -> LocatedList:
    return value if isinstance(value, LocatedList) else LocatedList()
