"""Groups that start together: with an annotation, all PodGroups of a Workload or none of them."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.api.groups import PodGroup, Workload
from mooring.framework.pod import SCHEDULING_GROUP, GroupKey
from mooring.state.store import ObjectStore


class GroupSets:
    """The PodGroups of each Workload, and which of these start together."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._by_workload: dict[
            tuple[str, str], dict[GroupKey, str]
        ] = {}  # with the names of their templates

    def replace(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """A PodGroup came, changed or went."""
        if old is not None and old.template is not None:
            workload = old.namespace, old.template.workload_name
            groups = self._by_workload.get(workload, {})
            groups.pop(GroupKey(old.namespace, old.name), None)
            if not groups:
                self._by_workload.pop(workload, None)
        if new is not None and new.template is not None:
            groups = self._by_workload.setdefault((new.namespace, new.template.workload_name), {})
            groups[GroupKey(new.namespace, new.name)] = new.template.pod_group_template_name

    def workload(self, key: GroupKey) -> Workload | None:
        """The Workload whose groups start together with this one; None where it starts by itself."""
        if key.api_group != SCHEDULING_GROUP:
            return None
        group = self._store.get(PodGroup, key.name, key.namespace)
        if group is None or group.template is None:
            return None
        workload = self._store.get(Workload, group.template.workload_name, key.namespace)
        return workload if workload is not None and workload.starts_as_one else None

    def together(self, key: GroupKey) -> Sequence[GroupKey]:
        """The groups that start together with this one, itself included, in the order of their templates."""
        workload = self.workload(key) if self._by_workload else None
        if workload is None:
            return (key,)
        groups = self._by_workload[key.namespace, workload.name]
        order = {template.name: i for i, template in enumerate(workload.spec.pod_group_templates)}
        return sorted(groups, key=lambda each: (order.get(groups[each], len(order)), each))

    def missing(self, key: GroupKey) -> list[str]:
        """The templates without which the group does not start, and of which there is no PodGroup yet."""
        workload = self.workload(key)
        if workload is None:
            return []
        existing = set(self._by_workload[key.namespace, workload.name].values())
        return [each.name for each in workload.spec.pod_group_templates if each.name not in existing]
