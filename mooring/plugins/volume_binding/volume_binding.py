"""VolumeBinding: a pod goes where its volumes are or can be made, and they are bound before the pod is."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mooring.api import quantity
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from mooring.framework.cycle_state import CycleState, StateKey
from mooring.framework.events import Action, EventHint, Hint, Resource, requeue_on
from mooring.framework.handle import Client, Handle
from mooring.framework.nodes import IntArray, Nodes, Verdicts
from mooring.framework.plugin import Plugin
from mooring.framework.pod import PodInfo
from mooring.framework.status import Status, error, skip, unresolvable
from mooring.plugins.args import VolumeBindingArgs
from mooring.plugins.volume_binding.assumed import Assumed
from mooring.plugins.volume_binding.pod_binding import PodBinding
from mooring.plugins.volume_binding.provisioning import volume_limit
from mooring.plugins.volume_binding.volume_finder import Conflict, Found, PodClaims, VolumeFinder
from mooring.plugins.volumes.claims import (
    CLAIM_KIND,
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    VolumeError,
    claims_of,
    class_of_claim,
    fully_bound,
    not_found,
    ownership_problem,
)
from mooring.plugins.volumes.migration import MIGRATED_PLUGINS
from mooring.runtime.engine_nodes import EngineNodes, engine_nodes
from mooring.runtime.runners import PluginError

# What is read to find volumes, in addition to the nodes, the pod's claims and what is assumed.
_READ = (PersistentVolume, StorageClass, CSINode, CSIDriver, CSIStorageCapacity)


class _Answer(NamedTuple):
    """Where claims can be had, and what that followed from."""

    versions: tuple[int, ...]
    claims: PodClaims
    found: Found
    verdicts: Verdicts | None


class _PodVolumes:
    """One pod's claims and, once asked for, where they can be had; the binding once a node is chosen.

    Preemption's what-if questions share it: no pod's coming or going changes where volumes can be had.
    """

    __slots__ = ("answer", "binding", "claims")

    def __init__(self, claims: PodClaims) -> None:
        self.claims = claims
        self.answer: _Answer | None = None
        self.binding: PodBinding | None = None


_USES = StateKey[tuple[ClaimUse, ...]]("VolumeBinding/uses")
_ANSWER = StateKey[_Answer]("VolumeBinding/answer")


class VolumeBinding(Plugin[VolumeBindingArgs]):
    """Finds, reserves and binds the volumes of a pod's claims."""

    name = "VolumeBinding"

    NODE_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
    NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
    NO_ROOM = "node(s) did not have enough free storage"
    VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
    STATE_KEY = StateKey[_PodVolumes]("VolumeBinding")

    _REASONS: ClassVar[dict[Conflict, str]] = {
        Conflict.NODE_AFFINITY: NODE_AFFINITY,
        Conflict.NO_VOLUME: NO_VOLUME,
        Conflict.NO_ROOM: NO_ROOM,
        Conflict.VOLUME_GONE: VOLUME_GONE,
    }

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._volumes = Assumed(PersistentVolume)
        self._claims = Assumed(PersistentVolumeClaim)
        self._finder = VolumeFinder(self._volumes)
        self._refusals = {  # by the sum of the conflicts
            code: unresolvable(*(reason for conflict, reason in self._REASONS.items() if code & conflict))
            for code in range(1, sum(self._REASONS) + 1)
        }

    # ---- which nodes

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        uses = state.cached(_USES, lambda: claims_of(pod))
        if not uses:
            return skip(shape=True)
        for use in uses:
            problem = self._problem(pod, use)
            if problem is not None:
                return unresolvable(problem)
        claims = self._classify(pod, uses)
        if claims is None:
            return unresolvable(self.UNBOUND_IMMEDIATE)
        state.write(self.STATE_KEY, _PodVolumes(claims))
        return None

    def _problem(self, pod: PodInfo, use: ClaimUse) -> str | None:
        """Return why the pod cannot use a claim on any node, or None."""
        claim = self.handle.listers.get(PersistentVolumeClaim, use.name, pod.namespace)
        if claim is None and use.ephemeral:
            made_by = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            return f'{made_by} "{use.name}"'
        if claim is None:
            return not_found(CLAIM_KIND, use.name)
        if claim.status.phase == "Lost":
            lost = f'bound to non-existent persistentvolume "{claim.spec.volume_name}"'
            return f'persistentvolumeclaim "{claim.name}" {lost}'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        return ownership_problem(pod, claim) if use.ephemeral else None

    def _classify(self, pod: PodInfo, uses: Iterable[ClaimUse]) -> PodClaims | None:
        """Which claims are bound and which are to be; None where one should be bound already."""
        claims = PodClaims([], [])
        overdue = False
        for use in uses:
            claim = self._claims.get(self.handle.listers, use.name, pod.namespace)
            assert claim is not None  # it was there a moment ago
            if fully_bound(claim):
                claims.bound.append(claim)
            elif self._is_delayed(claim) and not claim.spec.volume_name:
                claims.delayed.append(claim)
            else:
                overdue = True
        return None if overdue else claims

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is left unbound until a pod that uses it has a node."""
        name = class_of_claim(claim)
        storage_class = self.handle.listers.get(StorageClass, name) if name else None
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            raise PluginError(self.name, f'VolumeBindingMode not set for StorageClass "{name}"')
        return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts | None:
        view = engine_nodes(nodes)
        answer = self._find(state, view.whole)
        if answer.verdicts is None or view.whole is view:
            return answer.verdicts
        return Verdicts(answer.verdicts.codes[view.rows], answer.verdicts.statuses)

    def _find(self, state: CycleState, nodes: EngineNodes) -> _Answer:
        volumes = state.get(self.STATE_KEY)
        if volumes is None:
            raise PluginError(self.name, "not found")
        if volumes.answer is None:
            volumes.answer = self._look(state, volumes.claims, nodes)
        return volumes.answer

    def _look(self, state: CycleState, claims: PodClaims, nodes: EngineNodes) -> _Answer:
        """Find the volumes, or know that what was found for the last pod of this shape still holds."""
        version = self.handle.listers.version
        versions = (nodes.node_version, self._volumes.revision, *(version(kind) for kind in _READ))
        cached = state.get_cached(_ANSWER)
        if cached is not None and cached.versions == versions and cached.claims.same(claims):
            return cached
        try:
            bindings = self._finder.find(self.handle.listers, claims, nodes)
        except VolumeError as problem:
            raise PluginError(self.name, str(problem)) from problem
        refused = bool(bindings.conflicts.any())
        statuses = self._refusals
        if bindings.failure:
            statuses = {**statuses, int(Conflict.FAILED): error(bindings.failure)}
        verdicts = Verdicts(bindings.conflicts, statuses) if refused else None
        return state.write_cached(_ANSWER, _Answer(versions, claims, bindings, verdicts))

    # ---- scores: only with the gate StorageCapacityScoring, which is off

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return skip(shape=True)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> IntArray:
        return np.zeros(len(nodes), np.int64)

    # ---- the chosen node

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        volumes = state.get(self.STATE_KEY)
        if volumes is None or not volumes.claims.delayed:
            return None
        nodes = self.handle.snapshot.nodes
        row = nodes.index(node_name)
        if row is None:
            return error(not_found("node", node_name))
        decision = self._find(state, engine_nodes(nodes)).found.decision(row)
        volumes.binding = PodBinding(self.handle, self._volumes, self._claims, decision, node_name)
        volumes.binding.assume()
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        volumes = state.get(self.STATE_KEY)
        if volumes is not None and volumes.binding is not None:
            volumes.binding.revert()
            volumes.binding = None

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str
    ) -> Status | Awaitable[Status | None] | None:
        volumes = state.get(self.STATE_KEY)
        if volumes is None or volumes.binding is None or self.handle.client is None:
            return None  # all claims are bound, or there is no cluster to bind them in
        return self._bind(volumes.binding, self.handle.client, pod)

    async def _bind(self, binding: PodBinding, client: Client, pod: PodInfo) -> Status | None:
        try:
            await binding.write(client)
            await binding.wait(client, pod, self.args.bind_timeout_seconds)
        except Exception as failure:  # refused by the API server, or BindingFailed
            return error(f"binding volumes: {failure}", failure)
        return None

    # ---- queueing hints

    def events_to_register(self) -> Iterable[EventHint]:
        changed = Action.ADD | Action.UPDATE
        yield requeue_on(Resource.STORAGE_CLASS, changed, self._after_storage_class_change)
        yield requeue_on(Resource.PERSISTENT_VOLUME_CLAIM, changed, self._after_claim_change)
        yield requeue_on(Resource.PERSISTENT_VOLUME, changed)
        yield requeue_on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        yield requeue_on(Resource.CSI_NODE, changed, self._after_csi_node_change)
        yield requeue_on(Resource.CSI_DRIVER, Action.UPDATE, self._after_csi_driver_update)
        yield requeue_on(Resource.CSI_STORAGE_CAPACITY, changed, self._after_capacity_change)

    def _after_storage_class_change(self, pod: PodInfo, old: StorageClass | None, new: StorageClass) -> Hint:
        return _queue_if(old is None or old.allowed_topologies != new.allowed_topologies)

    def _after_claim_change(self, pod: PodInfo, old: Any, new: PersistentVolumeClaim) -> Hint:
        return _queue_if(
            new.namespace == pod.namespace and any(use.name == new.name for use in claims_of(pod))
        )

    def _after_csi_node_change(self, pod: PodInfo, old: CSINode | None, new: CSINode) -> Hint:
        def migrated(csi_node: CSINode) -> str:
            return csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "")

        return _queue_if(old is None or migrated(old) != migrated(new))

    def _after_csi_driver_update(self, pod: PodInfo, old: CSIDriver, new: CSIDriver) -> Hint:
        """A driver that no longer reports capacity is no longer checked for it."""
        used = any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)
        return _queue_if(used and bool(old.spec.storage_capacity) and not new.spec.storage_capacity)

    def _after_capacity_change(
        self, pod: PodInfo, old: CSIStorageCapacity | None, new: CSIStorageCapacity
    ) -> Hint:
        if old is None:
            return Hint.QUEUE
        before, after = volume_limit(old), volume_limit(new)
        grew = after is not None and (before is None or quantity.to_value(after) > quantity.to_value(before))
        return _queue_if(grew)


def _queue_if(worth_it: bool) -> Hint:
    return Hint.QUEUE if worth_it else Hint.SKIP
