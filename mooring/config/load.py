"""Reading a configuration: text, tree, conversion, decoding, defaults, validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path as FilePath
from typing import Any

from mooring.config.convert import VERSIONS, convert
from mooring.config.decode import decode, describe
from mooring.config.defaulting import apply_defaults
from mooring.config.findings import ConfigError, Place, Places, Report, did_you_mean
from mooring.config.plugin_args import check_type, decode_args
from mooring.config.tree import LocatedMap, locate, parse, places_of
from mooring.config.types import API_VERSION, GROUP, KIND, KubeSchedulerConfiguration
from mooring.config.validate import validate
from mooring.plugins.args import IN_TREE_ARGS


@dataclass(slots=True)
class LoadedConfig:
    """A configuration as v1 with everything filled in, and where it came from."""

    config: KubeSchedulerConfiguration
    warnings: list[str] = field(default_factory=list)
    source: str = ""
    version: str = "v1"  # of the file, before conversion
    places: Places = field(default_factory=Places, repr=False, compare=False)


def load(path: str | PathLike[str]) -> LoadedConfig:
    """The configuration in a file. OSError when it cannot be read, ConfigError when it is wrong."""
    return loads(read_text(path), str(path))


def loads(text: str, source: str = "<config>") -> LoadedConfig:
    """The configuration in YAML or JSON text."""
    return finish(*read(text, source))


def from_object(value: Mapping[str, Any], source: str = "<config>") -> LoadedConfig:
    """The configuration in an object that has been parsed already."""
    report = Report(Places(source))
    return finish(_read_tree(locate(dict(value)), report), report)


def default_config() -> KubeSchedulerConfiguration:
    """What kube-scheduler runs with when it is given no file."""
    return from_object({"apiVersion": API_VERSION, "kind": KIND}).config


def read_text(path: str | PathLike[str]) -> str:
    data = FilePath(path).read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        report = Report(Places(str(path)))
        line = data.count(b"\n", 0, error.start) + 1
        report.add_at(Place(line=line), f"not valid UTF-8: byte 0x{data[error.start]:02x}")
        raise ConfigError(report.findings) from error


def read(text: str, source: str) -> tuple[LoadedConfig | None, Report]:
    """What could be understood of the text, and what is wrong with it."""
    report = Report(Places(source))
    documents = parse(text, report)
    if len(documents) == 1:
        return _read_tree(documents[0], report), report
    if documents:
        _several_documents(documents, report)
    elif not report.findings:
        report.add_at(Place(), f"the file is empty, expected a {KIND}")
    return None, report


def finish(loaded: LoadedConfig | None, report: Report) -> LoadedConfig:
    """The configuration, unless something is wrong with it."""
    report.raise_if_any()
    if loaded is None:
        raise AssertionError("an unreadable configuration has findings")
    return loaded


def check(config: KubeSchedulerConfiguration, source: str) -> None:
    """Raise ConfigError for what is wrong with a configuration that `source` changed after it was loaded."""
    report = Report(Places(source))
    validate(config, report)
    report.raise_if_any()


def _several_documents(documents: list[Any], report: Report) -> None:
    kinds = [doc.get("kind") if isinstance(doc, LocatedMap) else None for doc in documents]
    hint = None
    if KIND in kinds:
        line = documents[kinds.index(KIND)].place.line
        hint = f"the {KIND} starts on line {line}: give it a file of its own"
    report.add_at(Place(), f"found {len(documents)} YAML documents, expected one {KIND}", hint)


def _read_tree(tree: object, report: Report) -> LoadedConfig | None:
    version = _version(tree, report)
    if version is None or not isinstance(tree, LocatedMap):
        return None
    tree.take("apiVersion")
    tree.take("kind")
    convert(tree, version, report)
    report.places = places_of(tree, report.places.file)
    config = decode(tree, KubeSchedulerConfiguration, (), report) or KubeSchedulerConfiguration()
    _type_args(config, version, report)
    apply_defaults(config, tree, report.places)
    report.check_further(lambda later: validate(config, later))
    warnings = [] if version == "v1" else [_deprecation(report.places.file, version)]
    return LoadedConfig(config, warnings, report.places.file, version, report.places)


def _version(tree: object, report: Report) -> str | None:
    """The version of the file, or None after saying why it is none that can be read."""
    if not isinstance(tree, LocatedMap):
        report.add_at(Place(), f"expected a {KIND}, found {describe(tree)}")
        return None
    kind, api_version = tree.get("kind"), tree.get("apiVersion")
    if kind != KIND:
        place = tree.places.get("kind", Place(("kind",)))
        actual = "no kind" if kind is None else f"{api_version}, Kind={kind}"
        report.add_at(place, f"couldn't decode as {KIND}, got {actual}", _kind_hint(tree))
        return None
    group, _, version = str(api_version or "").rpartition("/")
    if group != GROUP or version not in VERSIONS:
        place = tree.places.get("apiVersion", Place(("apiVersion",)))
        message = f'no kind "{KIND}" is registered for version "{api_version or ""}"'
        report.add_at(place, message, f'write apiVersion: "{API_VERSION}"')
        return None
    return version


def _kind_hint(tree: LocatedMap) -> str | None:
    kind, data = tree.get("kind"), tree.get("data")
    if kind == "ConfigMap" and isinstance(data, LocatedMap):
        for key, text in data.items():
            if isinstance(text, str) and KIND in text:
                return f'the ConfigMap holds one under data["{key}"]: save that value as a file of its own'
    if kind == "Policy":
        return "policy files are not supported since Kubernetes 1.23: write a profile with plugins"
    if kind is None:
        return f'write kind: "{KIND}"'
    return did_you_mean(str(kind), [KIND])


def _type_args(config: KubeSchedulerConfiguration, version: str, report: Report) -> None:
    """Decode the arguments of the in-tree plugins; those of other plugins stay as they are."""
    allowed = [API_VERSION] if version == "v1" else [f"{GROUP}/{name}" for name in reversed(VERSIONS)]
    for i, profile in enumerate(config.profiles):
        for j, entry in enumerate(profile.plugin_config):
            args_type = IN_TREE_ARGS.get(entry.name)
            if args_type is None:
                continue
            path = ("profiles", i, "pluginConfig", j, "args")
            if isinstance(entry.args, dict):
                check_type(entry.args, entry.name, allowed, path, report)
            entry.args = decode_args(entry.args, args_type, path, report) or args_type()


def _deprecation(source: str, version: str) -> str:
    changed = "" if version == "v1beta3" else " (score weights left out are those of v1)"
    return f'{source}: apiVersion "{GROUP}/{version}" is deprecated, move to "{API_VERSION}"{changed}'
