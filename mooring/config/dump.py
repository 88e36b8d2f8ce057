"""The configuration as YAML, everything spelled out, as kube-scheduler's --write-config-to prints it."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from mooring.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from mooring.framework.args import Args
from mooring.plugins.args import Duration

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    def ignore_aliases(self, data: object) -> bool:
        return True


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    """A v1 file that loads back to an equal configuration."""
    return str(yaml.dump(to_object(config), Dumper=_Dumper, allow_unicode=True))


def to_object(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Return the configuration as plain objects, ready for YAML or JSON."""
    body = _tidy(msgspec.to_builtins(config, enc_hook=_hook))
    for profile, shown in zip(config.profiles, body["profiles"], strict=True):
        for entry, item in zip(profile.plugin_config, shown["pluginConfig"], strict=True):
            if isinstance(entry.args, Args):
                kind = f"{entry.name}Args"
                item["args"] = {"apiVersion": API_VERSION, "kind": kind, **item["args"]}
            elif entry.args is not None:
                item["args"] = entry.args  # as the file has it, nulls included
    if not body["featureGates"]:
        del body["featureGates"]  # which kube-scheduler's file does not have
    return {"apiVersion": API_VERSION, "kind": KIND, **body}


def _hook(value: object) -> str:
    if isinstance(value, Duration):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def _tidy(value: Any) -> Any:
    """Without what is not set, and with whole numbers as such, as Go writes them."""
    if isinstance(value, dict):
        return {key: _tidy(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
