"""One HTTP extender, as the core asks it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import Raw

from mooring.client.refusals import UNREADABLE
from mooring.config import Extender as Settings
from mooring.config.urls import without_password
from mooring.extender import wire
from mooring.extender.calling.connections import Connections, ExchangeError
from mooring.extender.calling.originals import Originals
from mooring.extender.calling.rolls import Roll, Rolls
from mooring.framework.nodes import IntArray
from mooring.framework.pod import PodInfo
from mooring.runtime.engine_nodes import EngineNodes
from mooring.runtime.extender import SCALE, ExtenderCallError, Filtered, PodsOn, VictimsOnNode

log = logging.getLogger("mooring.extender")

T = TypeVar("T")

HIGHEST = 1 << 56  # of a weighted score: those of many extenders still add up in 64 bits
SNIPPET = 80  # bytes of an invalid answer that are quoted


class _Name(msgspec.Struct):
    name: str


class _NamedNode(msgspec.Struct):
    metadata: _Name


class _NamedNodes(msgspec.Struct):
    items: list[_NamedNode] | None = None


class _FilterResult(wire.Message, frozen=True):
    """An ExtenderFilterResult whose node names are decoded only if they are not all that were sent."""

    nodes: Raw = wire.NULL
    node_names: Raw = wire.NULL
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class HttpExtender:
    """Calls one extender. Its failures are logged once for each verb until it responds again.

    `binds=False` leaves binding to the plugins, whatever is configured; callers with an event loop pass
    `in_threads`.
    """

    def __init__(
        self,
        settings: Settings,
        connections: Connections,
        originals: Originals,
        rolls: Rolls,
        *,
        binds: bool = True,
        in_threads: bool = False,
    ) -> None:
        self.name = without_password(settings.url_prefix)
        self.weight = settings.weight
        self.ignorable = settings.ignorable
        self.filters = bool(settings.filter_verb)
        self.prioritizes = bool(settings.prioritize_verb)
        self.preempts = bool(settings.preempt_verb)
        self.binds = bool(settings.bind_verb) and binds
        self._settings = settings
        self._timeout = settings.http_timeout.seconds
        self._managed = frozenset(resource.name for resource in settings.managed_resources)
        self._connections = connections
        self._originals = originals
        self._rolls = rolls
        self._in_threads = in_threads
        self._failing: set[str] = set()

    def is_interested(self, pod: PodInfo) -> bool:
        """Whether a container requests or limits a resource that the extender manages, if it manages any."""
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint(amounts)
            for container in (*pod.spec.containers, *pod.spec.init_containers)
            for amounts in (container.resources.requests, container.resources.limits)
        )

    # ---- verbs

    def filter(self, pod: PodInfo, nodes: EngineNodes) -> Filtered:
        with self._logged(verb := self._settings.filter_verb):
            roll = self._rolls.of(nodes)
            data = self._post(verb, self._args(pod, roll))
            last = roll.last_filtered.get(self)
            if last is not None and last[0] == data:
                return last[1]
            result = self._read(verb, data, _FilterResult)
            if result.error:
                raise ExtenderCallError(self.name, result.error)
            passed = self._passed(roll, result)
            failed, unresolvable = result.failed_nodes or {}, result.failed_and_unresolvable_nodes or {}
            filtered = Filtered(roll.rows[passed], failed, unresolvable)
            roll.last_filtered[self] = (data, filtered)
            return filtered

    def prioritize(self, pod: PodInfo, nodes: EngineNodes) -> IntArray:
        """Return the scores by row. Scores of nodes that were not in the request are ignored."""
        with self._logged(verb := self._settings.prioritize_verb):
            roll = self._rolls.of(nodes)
            data = self._post(verb, self._args(pod, roll))
            last = roll.last_scores.get(self)
            if last is not None and last[0] == data:
                return last[1]
            scores = _by_position(roll, self._read(verb, data, wire.HostPriorityList))
            limit = HIGHEST // (self.weight * SCALE)
            if scores and (max(scores) > limit or min(scores) < -limit):
                node_name, score = max(zip(roll.names, scores, strict=True), key=lambda each: abs(each[1]))
                raise ExtenderCallError(
                    self.name,
                    f'extender "{self.name}" gave node "{node_name}" the score {score}; '
                    f"expected {wire.MIN_EXTENDER_PRIORITY} to {wire.MAX_EXTENDER_PRIORITY}, "
                    f"and no more than {limit}",
                )
            array = np.array(scores, np.int64)
            roll.last_scores[self] = (data, array)
            return array

    def process_preemption(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode], pods_on: PodsOn
    ) -> Mapping[str, VictimsOnNode]:
        with self._logged(verb := self._settings.preempt_verb):
            args = self._preemption_args(pod, victims)
            result = self._read(verb, self._post(verb, [wire.write(args)]), wire.ExtenderPreemptionResult)
            answer = result.node_name_to_meta_victims or {}
            return {
                name: self._victims(name, meta, pods_on)
                for name, meta in answer.items()
                if meta.pods or not self.ignorable
            }

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        if self._in_threads:
            await asyncio.to_thread(self._bind, pod, node_name)
        else:
            self._bind(pod, node_name)

    def _bind(self, pod: PodInfo, node_name: str) -> None:
        with self._logged(verb := self._settings.bind_verb):
            args = wire.ExtenderBindingArgs(pod.name, pod.namespace, pod.uid, node_name)
            data = self._post(verb, [wire.write(args)], again=False)
            result = self._read(verb, data, wire.ExtenderBindingResult)
            if result.error:
                raise ExtenderCallError(self.name, result.error)

    def close(self) -> None:
        """Close the connections that are kept."""
        self._connections.close()

    # ---- requests

    def _args(self, pod: PodInfo, roll: Roll) -> Sequence[bytes]:
        """ExtenderArgs, in pieces: the nodes of a large cluster are not to be copied again for each pod."""
        whole = self._originals.of(pod.pod)
        if self._settings.node_cache_capable:
            return [b'{"Pod":', whole, b',"Nodes":null,"NodeNames":', roll.encoded_names, b"}"]
        return [b'{"Pod":', whole, b',"Nodes":', roll.node_list, b',"NodeNames":null}']

    def _preemption_args(
        self, pod: PodInfo, victims: Mapping[str, VictimsOnNode]
    ) -> wire.ExtenderPreemptionArgs:
        whole = Raw(self._originals.of(pod.pod))
        if self._settings.node_cache_capable:
            meta = {
                name: wire.MetaVictims([wire.MetaPod(p.uid) for p in on.pods], on.pdb_violations)
                for name, on in victims.items()
            }
            return wire.ExtenderPreemptionArgs(whole, node_name_to_meta_victims=meta)
        full = {
            name: wire.Victims([Raw(self._originals.of(p.pod)) for p in on.pods], on.pdb_violations)
            for name, on in victims.items()
        }
        return wire.ExtenderPreemptionArgs(whole, node_name_to_victims=full)

    def _post(self, verb: str, body: Sequence[bytes], *, again: bool = True) -> bytes:
        url = f"{self.name.rstrip('/')}/{verb}"
        try:
            status, data = self._connections.post(verb, body, self._timeout, again=again)
        except ExchangeError as failure:
            raise ExtenderCallError(self.name, f'Post "{url}": {failure}') from None
        if status != 200:
            raise ExtenderCallError(self.name, f"failed {verb} with extender at URL {url}, code {status}")
        return data

    def _read(self, verb: str, data: bytes, answer: type[T]) -> T:
        try:
            return wire.read(data, answer)
        except UNREADABLE as error:
            raise self._invalid_answer(verb, f"{error}; it starts with {data[:SNIPPET]!r}") from None

    # ---- answers

    def _passed(self, roll: Roll, result: _FilterResult) -> IntArray:
        """The nodes that pass. Of one that is returned whole only the name counts: the node is ours."""
        verb = self._settings.filter_verb
        by_name = self._settings.node_cache_capable and not wire.is_null(result.node_names)
        encoded = result.node_names if by_name else result.nodes
        if wire.is_null(encoded):
            return np.zeros(0, np.int64)
        sent = roll.encoded_names if self._settings.node_cache_capable else roll.node_list
        if encoded == Raw(sent):
            return np.arange(len(roll.names))
        try:
            if by_name:
                names = msgspec.json.decode(encoded, type=list[str])
            else:
                nodes = msgspec.json.decode(encoded, type=_NamedNodes).items or []
                names = [node.metadata.name for node in nodes]
        except UNREADABLE as error:
            raise self._invalid_answer(verb, f"{'NodeNames' if by_name else 'Nodes'}: {error}") from None
        return self._positions(roll, names)

    def _positions(self, roll: Roll, names: list[str]) -> IntArray:
        try:
            return np.unique(np.array([roll.positions[name] for name in names], np.int64))
        except KeyError as unknown:
            raise ExtenderCallError(
                self.name,
                f'extender "{self.name}" claims a filtered node "{unknown.args[0]}" '
                "which is not found in the input node list",
            ) from None

    def _victims(self, node_name: str, meta: wire.MetaVictims, pods_on: PodsOn) -> VictimsOnNode:
        if not meta.pods:
            raise ExtenderCallError(self.name, f'expected at least one victim pod on node "{node_name}"')
        pods = pods_on(node_name)
        if pods is None:
            raise ExtenderCallError(self.name, f'nodeinfo not found for node name "{node_name}"')
        by_uid = {pod.uid: pod for pod in pods}
        for victim in meta.pods:
            if victim.uid not in by_uid:
                raise ExtenderCallError(
                    self.name,
                    f"extender: {self.name} claims to preempt pod (UID: {victim.uid}) on node: {node_name}, "
                    "but the pod is not found on that node",
                )
        return VictimsOnNode([by_uid[victim.uid] for victim in meta.pods], meta.num_pdb_violations)

    def _invalid_answer(self, verb: str, what: str) -> ExtenderCallError:
        return ExtenderCallError(
            self.name, f'extender "{self.name}" answered {verb} with an invalid body: {what}'
        )

    # ---- failures

    @contextmanager
    def _logged(self, verb: str) -> Iterator[None]:
        """Log the start and the end of a failure, once for all pods that it affects."""
        try:
            yield
        except ExtenderCallError as failure:
            if verb not in self._failing:
                self._failing.add(verb)
                what = "pods are scheduled without it" if self.ignorable else "pods are retried"
                log.warning("extender %s: %s: %s; %s until it answers", self.name, verb, failure, what)
            raise
        if verb in self._failing:
            self._failing.discard(verb)
            log.info("extender %s: %s: answers again", self.name, verb)


def _by_position(roll: Roll, priorities: wire.HostPriorityList) -> list[int]:
    """The scores in the order of the nodes, 0 where there is none; those of one node add up."""
    if [each.host for each in priorities] == roll.names:
        return [each.score for each in priorities]
    scores = [0] * len(roll.names)
    for each in priorities:
        position = roll.positions.get(each.host)
        if position is not None:
            scores[position] += each.score
    return scores
