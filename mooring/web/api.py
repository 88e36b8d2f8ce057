"""The JSON API of the page, version 1. docs/web.md describes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from mooring import __version__
from mooring.api.times import format_time
from mooring.config import to_object
from mooring.core.decision import Decision
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import decisions as explain_pod
from mooring.explain.groups import explain_named_group
from mooring.explain.waiting import find_pod
from mooring.framework.pod import PodInfo
from mooring.serving.messages import Answer, Request, as_json, failure
from mooring.web.columns import cluster_record, is_ready, owner
from mooring.web.decisions import RecentDecisions, row
from mooring.web.manifest import pod_manifest, shown_pod
from mooring.web.queue import queue_record
from mooring.web.records import API, DecisionRows, Meta, NodeRecord, PodRow, PodRows
from mooring.web.source import Source
from mooring.web.stream import Stream, TooManyClientsError
from mooring.web.table import pod_table

MOST_LISTED = 500
MOST_FOUND = 20
NODE_HISTORY = 50
EVENT_STREAM = "text/event-stream"


class NotFoundError(LookupError):
    """There is no such object; the message says which."""


class Api:
    """Answers GET requests from a source.

    `views` are further records by path. `stream_seconds` ends a stream in order, where the server would cut
    it off; the page reconnects.
    """

    def __init__(
        self,
        source: Source,
        decisions: RecentDecisions,
        stream: Stream,
        *,
        features: tuple[str, ...] = (),
        views: Mapping[str, Callable[[], Any]] | None = None,
        stream_seconds: float | None = None,
    ) -> None:
        self._source = source
        self._decisions = decisions
        self._stream = stream
        self._features = features
        self._views = views or {}
        self._stream_seconds = stream_seconds

    async def get(self, path: str, request: Request) -> Answer:
        """Answer a request for a path below "v1/"."""
        try:
            return await self._route(path.split("/"), request)
        except NotFoundError as missing:
            return failure(404, "NotFound", str(missing))
        except ValueError as invalid:
            return failure(400, "BadRequest", str(invalid))

    async def _route(self, parts: list[str], request: Request) -> Answer:
        match parts:
            case ["meta"]:
                return as_json(self._meta())
            case ["events"]:
                return await self._events(request)
            case ["decisions"]:
                return as_json(self._list_decisions(request))
            case ["decisions", seq]:
                return self._decision(seq)
            case [view] if view in self._views:
                return as_json(self._views[view]())
        core = self._source.core
        if core is None:
            return failure(503, "ServiceUnavailable", "no scheduler runs in this cluster")
        log = self._source.decisions
        match parts:
            case ["cluster"]:
                return as_json(await self._ask(lambda: cluster_record(core)))
            case ["nodes", name]:
                return as_json(await self._ask(lambda: self._node(core, name)))
            case ["queue"]:
                state, text, limit = _text(request, "state"), _text(request, "q"), _limit(request)
                record = await self._ask(lambda: queue_record(core, log, state=state, text=text, limit=limit))
                record.status = self._source.status()
                return as_json(record)
            case ["pods"]:
                text = _text(request, "q")
                return as_json(await self._ask(lambda: search(core, text)))
            case ["pods", namespace, name]:
                record = await self._ask(lambda: explain_pod(core, log, namespace, name))
                if record is None:
                    raise NotFoundError(f'pods "{namespace}/{name}" is not known to this scheduler')
                return as_json(record)
            case ["podgroups", namespace, name]:
                group = await self._ask(lambda: explain_named_group(core, namespace, name))
                if group is None:
                    raise NotFoundError(f'podgroups "{namespace}/{name}" is not known to this scheduler')
                return as_json(group)
            case ["config"]:
                return as_json(to_object(self._source.config.config))
            case ["pods", namespace, name, "manifest"]:
                kind, field = _text(request, "kind"), _text(request, "field")
                pod = await self._ask(lambda: _find(core, f"{namespace}/{name}"))
                shown = await self._ask(lambda: shown_pod(core, pod, kind, field))
                return as_json({"manifest": await asyncio.to_thread(pod_manifest, shown)})
            case ["pods", namespace, name, "table"]:
                key = f"{namespace}/{name}"
                return as_json(await self._ask(lambda: pod_table(core, _find(core, key))))
        raise NotFoundError("the server could not find the requested resource")

    async def _ask(self, question: Any) -> Any:
        return await self._source.ask(question)

    def _meta(self) -> Meta:
        core = self._source.core
        return Meta(
            api=API,
            version=__version__,
            epoch=self._stream.epoch,
            mode=self._source.mode,
            now="" if core is None else format_time(core.clock()),
            features=list(self._features),
            status=self._source.status(),
            profiles=[] if core is None else list(core.profiles),
        )

    async def _events(self, request: Request) -> Answer:
        after = request.header(b"last-event-id") or _text(request, "after")
        try:
            events = await self._stream.events(after, seconds=self._stream_seconds)
        except TooManyClientsError:
            return failure(429, "TooManyRequests", "too many open pages; close one and retry")
        return Answer(content_type=EVENT_STREAM, stream=events)

    def _list_decisions(self, request: Request) -> DecisionRows:
        """Return recent decisions that match all of the filters, the latest first."""
        wanted = {name: _text(request, name) for name in ("pod", "node", "plugin", "result", "victim")}
        before, limit = _number(request, "before", 0), _limit(request)
        rows, last = [], 0
        for entry in self._decisions.latest(before):
            decision = entry.decision
            if (
                wanted["pod"] in decision.pod
                and wanted["node"] in (decision.node or decision.tried_node)
                and (not wanted["plugin"] or wanted["plugin"] in decision.unschedulable_plugins)
                and wanted["result"] in decision.result
                and (not wanted["victim"] or _evicts(decision, wanted["victim"]))
            ):
                rows.append(row(entry))
                if len(rows) == limit:
                    last = entry.seq
                    break
        core = self._source.core
        as_of = "" if core is None else format_time(core.clock())
        return DecisionRows(as_of=as_of, decisions=rows, kept=self._decisions.kept, before=last)

    def _decision(self, text: str) -> Answer:
        epoch, _, number = text.rpartition("-")
        if not number.isdecimal() or len(number) > 12:
            raise NotFoundError(f'decisions "{text[:40]}" not found')
        entry = self._decisions.get(int(number)) if epoch in ("", self._stream.epoch) else None
        if entry is None:
            kept = self._decisions.kept
            return failure(410, "Expired", f"this decision is not kept any more; the last {kept} are")
        return as_json({"row": row(entry), "decision": entry.decision})

    def _node(self, core: Scheduler, name: str) -> NodeRecord:
        node = core.cluster.node(name)
        if node is None:
            raise NotFoundError(f'nodes "{name}" not found')
        table, obj = core.cluster.table, node.node
        history = [
            row(entry)
            for entry in self._decisions.latest()
            if name in (entry.decision.node, entry.decision.tried_node)
        ]
        return NodeRecord(
            node=name,
            as_of=format_time(core.clock()),
            ready=is_ready(node),
            cordoned=node.unschedulable,
            labels=dict(node.labels),
            annotations=dict(node.annotations),
            taints=[
                f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}" for t in node.taints
            ],
            conditions=[
                f"{c.type}={c.status} since {c.last_transition_time or '?'}: {c.reason}"
                for c in obj.status.conditions
            ],
            allocatable={**dict.fromkeys(table.resources, 0), **node.allocatable},
            requested={**dict.fromkeys(table.resources, 0), **node.requested},
            pods_allowed=int(node.allowed_pods),
            pods=[pod_row(pod) for pod in node.pods],
            nominated=[pod.key for pod in core.queue.nominator.nominated_for(name)],
            history=history[:NODE_HISTORY],
        )


def _evicts(decision: Decision, key: str) -> bool:
    return decision.post_filter is not None and key in decision.post_filter.victims


def pod_row(pod: PodInfo) -> PodRow:
    return PodRow(
        pod=pod.key,
        node=pod.node_name,
        phase="Terminating" if pod.terminating else pod.status.phase,
        priority=pod.priority,
        owner=owner(pod.shape),
        requests={name: int(amount) for name, amount in pod.shape.used.items() if amount},
    )


def search(core: Scheduler, text: str) -> PodRows:
    """Return pods and nodes whose names contain a text: those that start with it first."""
    pods = [queued.pod for queued in core.queue if text in queued.pod.key]
    pods += [pod for pod in core.cluster.pods() if text in pod.key]
    pods.sort(key=lambda pod: (not pod.name.startswith(text), bool(pod.node_name), pod.key))
    nodes = sorted(
        (name for name in core.cluster.table.names if text in name),
        key=lambda name: (not name.startswith(text), name),
    )
    return PodRows(pods=[pod_row(pod) for pod in pods[:MOST_FOUND]], nodes=nodes[:MOST_FOUND])


def _find(core: Scheduler, key: str) -> PodInfo:
    pod = find_pod(core, key)
    if pod is None:
        raise NotFoundError(f'pods "{key}" is not known to this scheduler')
    return pod


def _text(request: Request, name: str) -> str:
    return request.query.get(name, [""])[0][:253]


def _number(request: Request, name: str, default: int) -> int:
    text = _text(request, name)
    if not text:
        return default
    if not text.isdecimal() or len(text) > 12:
        raise ValueError(f'{name}: "{text[:40]}" is not a number')
    return int(text)


def _limit(request: Request) -> int:
    return min(_number(request, "limit", 100), MOST_LISTED)
