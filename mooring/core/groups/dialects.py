"""The two kinds of PodGroups: Kubernetes' own, and that of scheduler-plugins' Coscheduling.

Both become groups of one form, which one planner schedules. They differ in how pods name their group and in
the plugin that says whether the quorum is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import msgspec

from mooring.api import coscheduling, groups
from mooring.api.coscheduling import POD_GROUP_LABEL
from mooring.api.kinds import COSCHEDULING_POD_GROUPS, POD_GROUPS, ApiResource
from mooring.api.objects import Pod
from mooring.framework.pod import COSCHEDULING_GROUP, SCHEDULING_GROUP, GroupKey
from mooring.plugins.args import GroupArgs
from mooring.runtime.profile import Profile

AnyPodGroup = groups.PodGroup | coscheduling.PodGroup


class Dialect(msgspec.Struct, frozen=True):
    """A kind of PodGroup, and the plugin for it."""

    resource: ApiResource[Any]
    plugin: str


DIALECTS = {
    SCHEDULING_GROUP: Dialect(POD_GROUPS, "GangScheduling"),
    COSCHEDULING_GROUP: Dialect(COSCHEDULING_POD_GROUPS, "Coscheduling"),
}
QUORUM_PLUGINS = frozenset(dialect.plugin for dialect in DIALECTS.values())


def native_group(pod: Pod) -> GroupKey | None:
    """The PodGroup that spec.schedulingGroup names."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return None
    return GroupKey(pod.metadata.namespace, group.pod_group_name)


def labelled_group(pod: Pod) -> GroupKey | None:
    """The PodGroup that the label of scheduler-plugins names."""
    name = pod.metadata.labels.get(POD_GROUP_LABEL)
    return GroupKey(pod.metadata.namespace, name, COSCHEDULING_GROUP) if name else None


def group_reader(native: bool, coscheduling: Set[str]) -> Callable[[Pod], GroupKey | None] | None:
    """Return what reads the group of a pod; None where groups mean nothing.

    `native` is whether schedulingGroup counts, `coscheduling` the profiles for whose pods the label does. Of
    a pod with both, schedulingGroup counts.
    """
    if not coscheduling:
        return native_group if native else None

    def read(pod: Pod) -> GroupKey | None:
        group = native_group(pod) if native else None
        if group is None and (pod.spec.node_name or pod.spec.scheduler_name in coscheduling):
            group = labelled_group(pod)
        return group

    return read


def group_args(profile: Profile, key: GroupKey) -> GroupArgs:
    """The arguments of the plugin for a group; the defaults where the profile does not have it."""
    plugin = profile.plugins.get(DIALECTS[key.api_group].plugin)
    return GroupArgs() if plugin is None else plugin.args
