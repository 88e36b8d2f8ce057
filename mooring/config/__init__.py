"""KubeSchedulerConfiguration: read, convert, default, validate, and resolve against the plugins.

`load` gives a complete v1 configuration, `resolve` what its profiles run, `to_yaml` the file that says
the same. Everything that is wrong with a file is raised together as one `ConfigError`.
"""

from mooring.config.default_plugins import DEFAULT_MULTI_POINT
from mooring.config.dump import to_object, to_yaml
from mooring.config.expand import PluginClass, Registry
from mooring.config.feature_gates import FeatureGateError, FeatureGates, parse_feature_gates
from mooring.config.findings import ConfigError, Finding
from mooring.config.load import LoadedConfig, check, default_config, from_object, load, loads
from mooring.config.resolve import ResolvedProfile, load_and_resolve, loads_and_resolve, resolve
from mooring.config.types import (
    ClientConnection,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
    Profile,
)
from mooring.plugins.args import Duration

__all__ = [
    "DEFAULT_MULTI_POINT",
    "ClientConnection",
    "ConfigError",
    "Duration",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGateError",
    "FeatureGates",
    "Finding",
    "KubeSchedulerConfiguration",
    "LeaderElection",
    "LoadedConfig",
    "PluginClass",
    "PluginConfig",
    "PluginRef",
    "PluginSet",
    "Plugins",
    "Profile",
    "Registry",
    "ResolvedProfile",
    "check",
    "default_config",
    "from_object",
    "load",
    "load_and_resolve",
    "loads",
    "loads_and_resolve",
    "parse_feature_gates",
    "resolve",
    "to_object",
    "to_yaml",
]
