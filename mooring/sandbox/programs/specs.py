"""The part of a pod that says what its containers do. The scheduler does not read it."""

from __future__ import annotations

import msgspec

from mooring.api.meta import KubeObject, Struct


class FieldRef(Struct):
    field_path: str = ""


class KeyRef(Struct):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class EnvVarSource(Struct):
    field_ref: FieldRef | None = None
    config_map_key_ref: KeyRef | None = None
    secret_key_ref: KeyRef | None = None


class EnvVar(Struct):
    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvFrom(Struct):
    config_map_ref: KeyRef | None = None
    secret_ref: KeyRef | None = None


class ExecAction(Struct):
    command: list[str] = []


class SleepAction(Struct):
    seconds: int = 0


class Probe(Struct):
    exec: ExecAction | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    failure_threshold: int = 3


class Handler(Struct):
    exec: ExecAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Struct):
    pre_stop: Handler | None = None


class ContainerSpec(Struct):
    name: str = ""
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    stdin: bool = False
    env: list[EnvVar] = []
    env_from: list[EnvFrom] = []
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"

    @property
    def is_configured(self) -> bool:
        """Whether its variables come from ConfigMaps or Secrets."""
        return bool(self.env_from) or any(
            one.value_from is not None
            and (one.value_from.config_map_key_ref is not None or one.value_from.secret_key_ref is not None)
            for one in self.env
        )

    @property
    def is_plain(self) -> bool:
        """Whether nothing but its image says what it does."""
        return not (self.command or self.args or self.readiness_probe or self.lifecycle or self.is_configured)


class ConfigMapVolume(Struct):
    name: str = ""
    optional: bool | None = None


class SecretVolume(Struct):
    secret_name: str = ""
    optional: bool | None = None


class VolumeSpec(Struct):
    name: str = ""
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None


class RunSpec(Struct):
    containers: list[ContainerSpec] = []
    init_containers: list[ContainerSpec] = []
    ephemeral_containers: list[ContainerSpec] = []
    volumes: list[VolumeSpec] = []


class PodRun(KubeObject):
    """A pod as its containers see it."""

    spec: RunSpec = msgspec.field(default_factory=RunSpec)


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
