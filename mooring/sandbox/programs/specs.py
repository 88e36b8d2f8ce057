"""The part of a pod that says what its containers do. The scheduler does not read it."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.meta import KubeObject, Quantity, Struct


class FieldRef(Struct):
    field_path: str = ""


class KeyRef(Struct):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class ResourceFieldRef(Struct):
    container_name: str = ""
    resource: str = ""
    divisor: Quantity = "0"


class FileKeyRef(Struct):
    """A key of a file in a volume."""

    volume_name: str = ""
    path: str = ""
    key: str = ""
    optional: bool | None = None


class EnvVarSource(Struct):
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None
    file_key_ref: FileKeyRef | None = None


class EnvVar(Struct):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvFrom(Struct):
    prefix: str = ""
    config_map_ref: KeyRef | None = None
    secret_ref: KeyRef | None = None


class ResizePolicy(Struct):
    resource_name: str = ""
    restart_policy: str = ""


class ExecAction(Struct):
    command: list[str] = []


class SleepAction(Struct):
    seconds: int = 0


class HttpHeader(Struct):
    name: str = ""
    value: str = ""


class HttpGetAction(Struct):
    host: str = ""
    http_headers: list[HttpHeader] = []
    path: str = "/"
    port: int | str = 0
    scheme: str = "HTTP"


class PortAction(Struct):
    """A connection to a port, by TCP or gRPC."""

    port: int | str = 0


class Probe(Struct):
    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: PortAction | None = None
    grpc: PortAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3


class Handler(Struct):
    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Struct):
    post_start: Handler | None = None
    pre_stop: Handler | None = None


class VolumeMount(Struct):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class Sysctl(Struct):
    name: str = ""
    value: str = ""


class PodOS(Struct):
    name: str = ""


class Capabilities(Struct):
    add: list[str] = []
    drop: list[str] = []


class SeccompProfile(Struct):
    type: str = ""


class SecurityContext(Struct):
    """Of a container or of a pod."""

    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities = msgspec.field(default_factory=Capabilities)
    seccomp_profile: SeccompProfile | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    fs_group: int | None = None
    supplemental_groups: list[int] = []
    supplemental_groups_policy: str = ""
    sysctls: list[Sysctl] = []


class Resources(Struct):
    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}


class ExitCodes(Struct):
    operator: str = ""
    values: list[int] = []


RESTART_ALL: Final = "RestartAllContainers"


class RestartRule(Struct):
    action: str = ""
    exit_codes: ExitCodes | None = None


class PortSpec(Struct):
    name: str = ""
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerSpec(Struct):
    name: str = ""
    image: str = ""
    image_pull_policy: str = ""
    ports: list[PortSpec] = []
    command: list[str] = []
    args: list[str] = []
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    env: list[EnvVar] = []
    env_from: list[EnvFrom] = []
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] = []
    resize_policy: list[ResizePolicy] = []
    working_dir: str = ""
    volume_mounts: list[VolumeMount] = []
    security_context: SecurityContext | None = None
    resources: Resources = msgspec.field(default_factory=Resources)
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"

    @property
    def file_keys(self) -> list[FileKeyRef]:
        """The keys of files that its variables come from."""
        sources = (one.value_from for one in self.env if one.value_from is not None)
        return [one.file_key_ref for one in sources if one.file_key_ref is not None]

    @property
    def is_configured(self) -> bool:
        """Whether its variables come from ConfigMaps or Secrets."""
        return bool(self.env_from) or any(
            one.value_from is not None
            and (one.value_from.config_map_key_ref is not None or one.value_from.secret_key_ref is not None)
            for one in self.env
        )

    def is_restarted(self, exit_code: int, pod_policy: str) -> bool:
        """Whether it is started again after an exit: by the first rule that matches, or by a policy."""
        if action := self._restart_action(exit_code):
            return action == "Restart"
        policy = self.restart_policy or pod_policy
        return policy == "Always" or (policy == "OnFailure" and exit_code != 0)

    def restarts_pod(self, exit_code: int) -> bool:
        """Whether all containers of the pod are started again after an exit."""
        return self._restart_action(exit_code) == RESTART_ALL

    def _restart_action(self, exit_code: int) -> str:
        """Return the action of the first rule that matches an exit, or ""."""
        for rule in self.restart_policy_rules:
            codes = rule.exit_codes
            if codes is not None and (exit_code in codes.values) == (codes.operator == "In"):
                return rule.action
        return ""

    @property
    def is_probed(self) -> bool:
        return bool(self.readiness_probe or self.liveness_probe or self.startup_probe)


class KeyToPath(Struct):
    key: str = ""
    path: str = ""
    mode: int | None = None


class ConfigMapVolume(Struct):
    name: str = ""
    items: list[KeyToPath] = []
    default_mode: int | None = None
    optional: bool | None = None


class SecretVolume(Struct):
    secret_name: str = ""
    items: list[KeyToPath] = []
    default_mode: int | None = None
    optional: bool | None = None


class DownwardItem(Struct):
    path: str = ""
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    mode: int | None = None


class DownwardVolume(Struct):
    items: list[DownwardItem] = []
    default_mode: int | None = None


class ProjectedSecret(Struct):
    name: str = ""
    items: list[KeyToPath] = []
    optional: bool | None = None


class ProjectedToken(Struct):
    path: str = ""
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(Struct):
    """One source of a projected volume. Sources of other kinds are all None."""

    config_map: ConfigMapVolume | None = None
    secret: ProjectedSecret | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    service_account_token: ProjectedToken | None = None


class ProjectedVolume(Struct):
    sources: list[Projection] = []
    default_mode: int | None = None


class EmptyDir(Struct):
    medium: str = ""
    size_limit: Quantity | None = None


class HostPath(Struct):
    path: str = ""
    type: str = ""


class ClaimVolume(Struct):
    read_only: bool = False


class ImageSource(Struct):
    reference: str = ""
    pull_policy: str = ""


class VolumeSpec(Struct):
    name: str = ""
    image: ImageSource | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedVolume | None = None
    empty_dir: EmptyDir | None = None
    persistent_volume_claim: ClaimVolume | None = None

    @property
    def is_read_only_claim(self) -> bool:
        return self.persistent_volume_claim is not None and self.persistent_volume_claim.read_only


class HostAlias(Struct):
    ip: str = ""
    hostnames: list[str] = []


class DnsOption(Struct):
    name: str = ""
    value: str | None = None


class DnsConfig(Struct):
    nameservers: list[str] = []
    searches: list[str] = []
    options: list[DnsOption] = []


class RunSpec(Struct):
    containers: list[ContainerSpec] = []
    init_containers: list[ContainerSpec] = []
    ephemeral_containers: list[ContainerSpec] = []
    volumes: list[VolumeSpec] = []
    security_context: SecurityContext | None = None
    resources: Resources | None = None
    service_account_name: str = ""
    enable_service_links: bool | None = None
    host_network: bool = False
    host_users: bool | None = None
    os: PodOS | None = None
    hostname: str = ""
    hostname_override: str | None = None
    subdomain: str = ""
    host_aliases: list[HostAlias] = []
    dns_policy: str = ""
    dns_config: DnsConfig | None = None


class PodRun(KubeObject):
    """A pod as its containers see it."""

    spec: RunSpec = msgspec.field(default_factory=RunSpec)

    @property
    def may_restart_all(self) -> bool:
        """Whether the exit of a container may have all containers started again."""
        everything = (*self.spec.init_containers, *self.spec.containers)
        return any(rule.action == RESTART_ALL for one in everything for rule in one.restart_policy_rules)

    @property
    def has_commands(self) -> bool:
        """Whether a container may do something that is known."""
        spec = self.spec
        everything = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
        return any(one.command or one.args for one in everything)


class Started(Struct):
    started_at: str | None = None
    finished_at: str | None = None


class Waiting(Struct):
    reason: str = ""


class State(Struct):
    running: Started | None = None
    terminated: Started | None = None
    waiting: Waiting | None = None


class RunStatus(Struct):
    """What is known of a container's last run."""

    name: str = ""
    state: State = msgspec.field(default_factory=State)
    last_state: State = msgspec.field(default_factory=State)


class RunStatuses(Struct):
    container_statuses: list[RunStatus] = []
    init_container_statuses: list[RunStatus] = []
    ephemeral_container_statuses: list[RunStatus] = []


class LoggedPod(PodRun):
    """A pod as its log is read."""

    status: RunStatuses = msgspec.field(default_factory=RunStatuses)
