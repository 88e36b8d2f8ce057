"""What an extender offers: handlers and plugins behind their paths, and what they need of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from mooring.api.kinds import NODES, PODS, WATCHED, ApiResource
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.objects import Pod
from mooring.client.api_errors import ClusterError
from mooring.client.informers import Sink
from mooring.client.port import Cluster
from mooring.config import LoadedConfig
from mooring.core.intake import kinds_of_plugins
from mooring.extender.serving.handler_verbs import HandlerVerbs, KnownObjects
from mooring.extender.serving.handlers import ExtenderError, Handler
from mooring.extender.serving.loading import LoadingError
from mooring.extender.serving.plugin_profile import make_scheduler
from mooring.extender.serving.plugin_verbs import ServedPlugins
from mooring.extender.serving.questions import Questions
from mooring.extender.serving.verbs import BindVerb, FilterVerb, PreemptVerb, PrioritizeVerb, Verb
from mooring.extender.wire import ExtenderBindingArgs
from mooring.framework.handle import Client
from mooring.framework.pod import PodInfo, Shape
from mooring.runtime.registry import Registry

FILTERING = frozenset({"preFilter", "filter"})
BINDING = frozenset({"preBind", "bind", "postBind"})
PREEMPTING = FILTERING | {"postFilter"}


class Served(msgspec.Struct, kw_only=True):
    """What is to be offered: functions, and plugins by their names in the registry."""

    handlers: Sequence[Handler] = ()
    plugins: Sequence[str] = ()
    registry: Registry = msgspec.field(default_factory=Registry)
    config: LoadedConfig | None = None
    node_cache_capable: bool = False


class Reach(msgspec.Struct):
    """How a cluster is reached, and written to."""

    cluster: Cluster
    client: Client


class Offer:
    """The verbs, and where informers deliver the kinds that these need. Raises LoadingError, ConfigError and
    PluginError."""

    def __init__(self, served: Served, reach: Reach | None) -> None:
        self._reach = reach
        self._questions = Questions()
        self._sinks: list[Sink] = []
        self.resources: Sequence[ApiResource[KubeObject]] = ()
        self.custom: Sequence[ApiResource[KubeObject]] = ()  # kinds that plugins ask for
        if served.node_cache_capable and reach is None:
            raise LoadingError("--node-cache-capable: expected a cluster to watch; give --kubeconfig")
        self.verbs: list[Verb] = [*self._of_handlers(served), *self._of_plugins(served)]
        self._check_paths()
        if reach is not None and all(verb.verb != "bind" for verb in self.verbs):
            self.verbs.append(BindVerb("/bind", "the binder", partial(_bind, reach.client)))

    def apply(self, obj: KubeObject) -> None:
        for sink in self._sinks:
            sink.apply(obj)

    def delete(self, obj: KubeObject) -> None:
        for sink in self._sinks:
            sink.delete(obj)

    def _of_handlers(self, served: Served) -> Iterator[Verb]:
        known_objects = KnownObjects() if served.node_cache_capable and served.handlers else None
        if known_objects is not None:
            self._sinks.append(known_objects)
            preempting = any(handler.verb == "preempt" for handler in served.handlers)
            self.resources = (NODES, PODS) if preempting else (NODES,)  # type: ignore[assignment]
        client = self._reach.client if self._reach is not None else None
        verbs = HandlerVerbs(self._questions, known_objects, client)
        for handler in served.handlers:
            if client is None and "client" in handler.parameters:
                raise LoadingError(
                    f"handler {handler.name} wants a client: expected a cluster; give --kubeconfig"
                )
            yield verbs.verb(handler)

    def _of_plugins(self, served: Served) -> Iterator[Verb]:
        if not served.plugins:
            return
        scheduler, points = make_scheduler(served.plugins, served.registry, served.config)
        plugins = ServedPlugins(scheduler, cached=served.node_cache_capable)
        if self._reach is not None:
            scheduler.client = self._reach.client
        who = f"plugins {', '.join(served.plugins)}"
        offered = False
        if points & FILTERING:
            offered = True
            yield FilterVerb("/filter", who, self._questions, plugins.filter)
        if "score" in points:
            offered = True
            yield PrioritizeVerb("/prioritize", who, self._questions, plugins.prioritize)
        if self._reach is not None and points & BINDING:
            offered = True
            yield BindVerb("/bind", who, partial(_bind_with_plugins, self._reach.cluster, plugins))
        if served.node_cache_capable and points & PREEMPTING:
            offered = True
            yield PreemptVerb("/preempt", who, plugins.preempt)
        if not offered:
            raise LoadingError(
                f"{who}: nothing to offer; expected a pre_filter, filter or score, with --kubeconfig also "
                "pre_bind, bind or post_bind, and with --node-cache-capable post_filter"
            )
        if served.node_cache_capable:
            self._sinks.append(scheduler)
            self.resources, self.custom = WATCHED, kinds_of_plugins(scheduler)

    def _check_paths(self) -> None:
        """Two behind one path are an error."""
        verbs: dict[str, Verb] = {}
        for verb in self.verbs:
            other = verbs.setdefault(verb.path, verb)
            if other is not verb:
                raise LoadingError(
                    f"{verb.path}: found {other.who} and {verb.who}, expected one of them; a handler can "
                    f'have another path: @extender.{verb.verb}("/another")'
                )


async def _bind(client: Client, args: ExtenderBindingArgs, body: bytes) -> None:
    metadata = ObjectMeta(name=args.pod_name, namespace=args.pod_namespace, uid=args.pod_uid)
    pod = Pod(metadata=metadata)
    try:
        await client.bind(PodInfo.of(pod, Shape(pod)), args.node)
    except ClusterError as refusal:
        raise ExtenderError(str(refusal)) from None


async def _bind_with_plugins(
    cluster: Cluster, plugins: ServedPlugins, args: ExtenderBindingArgs, body: bytes
) -> None:
    """Plugins see the whole pod, of which a scheduler sends no more than the name."""
    try:
        pod: Pod = await cluster.get(PODS, args.pod_name, args.pod_namespace)
    except ClusterError as refusal:
        raise ExtenderError(str(refusal)) from None
    if pod.uid != args.pod_uid:
        raise ExtenderError(f'pods "{args.pod_name}" of uid {args.pod_uid} not found')
    await plugins.bind(plugins.scheduler.cluster.info(pod).placed_on(args.node), args.node)
