"""KubeSchedulerConfiguration v1 as typed structs, with the defaults that need no context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from mooring.plugins.args import Duration

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


def seconds(count: int) -> Duration:
    return Duration(count * 1_000_000_000)


class Section(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The base of every part of the configuration."""


class LeaderElection(Section):
    leader_elect: bool = True
    lease_duration: Duration = seconds(15)
    renew_deadline: Duration = seconds(10)
    retry_period: Duration = seconds(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Section):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50
    burst: Int32 = 100


class PluginRef(Section, omit_defaults=True):
    """A plugin by name in an enabled or disabled list. A weight of 0 is an omitted weight."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(Section, omit_defaults=True):
    enabled: list[PluginRef] = []
    disabled: list[PluginRef] = []


class Plugins(Section):
    """Which plugins run at which extension point, before expansion of `multi_point`."""

    pre_enqueue: PluginSet = msgspec.field(default_factory=PluginSet)
    queue_sort: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_filter: PluginSet = msgspec.field(default_factory=PluginSet)
    filter: PluginSet = msgspec.field(default_factory=PluginSet)
    post_filter: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_score: PluginSet = msgspec.field(default_factory=PluginSet)
    score: PluginSet = msgspec.field(default_factory=PluginSet)
    reserve: PluginSet = msgspec.field(default_factory=PluginSet)
    permit: PluginSet = msgspec.field(default_factory=PluginSet)
    pre_bind: PluginSet = msgspec.field(default_factory=PluginSet)
    bind: PluginSet = msgspec.field(default_factory=PluginSet)
    post_bind: PluginSet = msgspec.field(default_factory=PluginSet)
    multi_point: PluginSet = msgspec.field(default_factory=PluginSet)
    placement_generate: PluginSet = msgspec.field(default_factory=PluginSet)
    placement_score: PluginSet = msgspec.field(default_factory=PluginSet)

    def sets(self) -> Iterator[tuple[str, PluginSet]]:
        """The set of every extension point by its configuration name, `multiPoint` among them."""
        for info in msgspec.structs.fields(self):
            yield info.encode_name, getattr(self, info.name)


class PluginConfig(Section):
    """The arguments of one plugin: typed for the in-tree plugins, as in the file for others."""

    name: str = ""
    args: Any = None  # an `Args`, or a plain mapping, or None


class Profile(Section):
    """One scheduler name and its plugins. A percentage of None means the global one."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = msgspec.field(default_factory=Plugins)
    plugin_config: list[PluginConfig] = []


class ExtenderTLSConfig(Section, omit_defaults=True):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderManagedResource(Section, omit_defaults=True):
    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(Section):
    """An HTTP service that filters, scores, preempts or binds on the scheduler's behalf."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: Int64 = 0
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = seconds(5)
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] = []
    ignorable: bool = False


class KubeSchedulerConfiguration(Section):
    """The whole file. The two bind addresses come from older versions; None means the flags decide."""

    parallelism: Int32 = 16
    leader_election: LeaderElection = msgspec.field(default_factory=LeaderElection)
    client_connection: ClientConnection = msgspec.field(default_factory=ClientConnection)
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    healthz_bind_address: str | None = None
    metrics_bind_address: str | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: list[Profile] = []
    extenders: list[Extender] = []
    delay_cache_until_active: bool = False
    feature_gates: dict[str, bool] = {}

    def enables(self, plugin: str) -> bool:
        """Whether a profile enables this plugin, at any extension point."""
        sets = (points for profile in self.profiles for _, points in profile.plugins.sets())
        return any(each.name == plugin for points in sets for each in points.enabled)
