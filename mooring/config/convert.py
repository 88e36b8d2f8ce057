"""Older versions of KubeSchedulerConfiguration, brought to v1 one version at a time.

Conversion works on the tree before it is decoded, so that a problem found later still names the field
and line the user wrote.
"""

from __future__ import annotations

from mooring.config.convert_plugins import (
    disable,
    fold_scoring_plugins,
    list_default_constraints,
    refuse_removed,
    rename_point,
    set_arg,
    use_most_allocated,
)
from mooring.config.findings import Place, Report
from mooring.config.tree import LocatedList, LocatedMap
from mooring.plugins.args import Duration

VERSIONS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1")
_OLD_LOCKS = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")


def convert(tree: LocatedMap, version: str, report: Report) -> None:
    """Rewrite `tree` from `version` to v1."""
    if version == "v1":
        return
    if version == "v1alpha1":
        _flat_to_profile(tree, report)
    if version in ("v1alpha1", "v1alpha2"):
        _global_to_profiles(tree, report)
        _legacy_extenders(tree)
    profiles = tree.get("profiles")
    for profile, _ in profiles.maps() if isinstance(profiles, LocatedList) else ():
        if version in ("v1alpha1", "v1alpha2"):
            rename_point(profile, "unreserve", "reserve")
        if version in ("v1alpha1", "v1alpha2", "v1beta1"):
            fold_scoring_plugins(profile, report)
            list_default_constraints(profile)
        refuse_removed(profile, version, report)
    election = tree.get("leaderElection")
    if isinstance(election, LocatedMap) and election.get("resourceLock") in _OLD_LOCKS:
        election.put("resourceLock", "leases", election.places["resourceLock"])


def _profiles(tree: LocatedMap) -> list[LocatedMap]:
    """The profiles; one is made when the file has none."""
    profiles = tree.items_of("profiles", tree.place)
    if not profiles:
        profiles.add(LocatedMap(tree.place), tree.place)
    return [profile for profile, _ in profiles.maps()]


def _flat_to_profile(tree: LocatedMap, report: Report) -> None:
    """v1alpha1 described one scheduler at the top level, and called preScore postFilter."""
    if "profiles" in tree:
        _, place = tree.take("profiles")
        hint = "v1alpha1 has schedulerName, plugins and pluginConfig at the top level"
        report.add_at(place, 'unknown field "profiles" in v1alpha1', hint)
    (profile,) = _profiles(tree)
    for key in ("schedulerName", "plugins", "pluginConfig"):
        if key in tree:
            profile.put(key, *tree.take(key))
    rename_point(profile, "postFilter", "preScore")
    if "hardPodAffinitySymmetricWeight" in tree:
        weight, place = tree.take("hardPodAffinitySymmetricWeight")
        set_arg(profile, "InterPodAffinity", "hardPodAffinityWeight", weight, place)
    election = tree.get("leaderElection")
    if isinstance(election, LocatedMap):
        for old, new in (("lockObjectName", "resourceName"), ("lockObjectNamespace", "resourceNamespace")):
            if old in election and new not in election:
                election.put(new, *election.take(old))


def _global_to_profiles(tree: LocatedMap, report: Report) -> None:
    """Settings of the whole scheduler that became a matter of plugins."""
    if not tree.keys() & {"disablePreemption", "bindTimeoutSeconds", "algorithmSource"}:
        return
    profiles = _profiles(tree)
    if "disablePreemption" in tree:
        disabled, place = tree.take("disablePreemption")
        if not isinstance(disabled, bool | None):
            report.add_at(place, f"expected true or false, found {disabled!r}")
        for profile in profiles if disabled is True else ():
            disable(profile, "postFilter", "DefaultPreemption", place)
    if "bindTimeoutSeconds" in tree:
        timeout, place = tree.take("bindTimeoutSeconds")
        for profile in profiles if timeout is not None else ():
            set_arg(profile, "VolumeBinding", "bindTimeoutSeconds", timeout, place)
    if "algorithmSource" in tree:
        _algorithm_source(profiles, *tree.take("algorithmSource"), report)


def _algorithm_source(profiles: list[LocatedMap], source: object, place: Place, report: Report) -> None:
    if source is None:
        return
    if not isinstance(source, LocatedMap) or source.keys() - {"provider", "policy"}:
        report.add_at(place, "expected a mapping with provider")
        return
    if source.get("policy") is not None:
        hint = "list its predicates and priorities as plugins of a profile"
        report.add_at(source.places["policy"], "policies are not supported since Kubernetes 1.23", hint)
    provider = source.get("provider")
    if provider == "ClusterAutoscalerProvider":
        for profile in profiles:
            use_most_allocated(profile, source.places["provider"])
    elif provider not in (None, "", "DefaultProvider"):
        message = f'Unsupported value: "{provider}": supported values: '
        names = '"DefaultProvider", "ClusterAutoscalerProvider"'
        report.add_at(source.places["provider"], message + names)


def _legacy_extenders(tree: LocatedMap) -> None:
    """Extenders were written as in policy files: enableHttps, and the timeout in nanoseconds."""
    extenders = tree.get("extenders")
    for extender, _ in extenders.maps() if isinstance(extenders, LocatedList) else ():
        if "enableHttps" in extender:
            extender.put("enableHTTPS", *extender.take("enableHttps"))
        timeout = extender.get("httpTimeout")
        if isinstance(timeout, int):
            extender.put("httpTimeout", str(Duration(timeout)), extender.places["httpTimeout"])
