"""Importing lightkube-models without lightkube.

The package holds every kind of Kubernetes as generated Python: resources with their verbs, models with their
types and descriptions. Importing it normally needs lightkube, an HTTP client that is not needed here. So its
modules are imported under another package name, together with stubs of the few names of lightkube that they
use.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_ALIAS = "mooring.sandbox.apiserver.kinds._lightkube"
_OURS = frozenset({"scheduling_v1alpha2"})
"""Modules of models and resources that lightkube-models lacks, next to this one."""


class ResourceDef(NamedTuple):
    group: str
    version: str
    kind: str


class ApiInfo(NamedTuple):
    """How a resource or subresource is served; `parent` and `action` are set for subresources only."""

    resource: ResourceDef
    plural: str
    verbs: list[str]
    parent: ResourceDef | None = None
    action: str | None = None


class FieldInfo(NamedTuple):
    """A member whose name in JSON is not valid in Python, such as `continue`."""

    metadata: dict[str, str]
    default: Any = ...


class Global:
    """Base class of cluster-scoped resources."""


class Namespaced:
    """Base class of namespaced resources."""


def _decorated(model: type) -> type:
    return model


def _module(name: str, **members: object) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


@cache
def _root() -> Path:
    """Return the directory of lightkube-models, after preparing its package for import under our name."""
    spec = importlib.util.find_spec("lightkube")
    places = [Path(place) for place in (spec.submodule_search_locations if spec else None) or ()]
    root = next((place for place in places if (place / "models" / "core_v1.py").exists()), None)
    if root is None:
        raise ImportError("the embedded API server needs lightkube-models: pip install lightkube-models")
    _module(_ALIAS, __path__=[str(root)])
    _module(f"{_ALIAS}.core", __path__=[])
    resource = _module(
        f"{_ALIAS}.core.resource",
        ApiInfo=ApiInfo,
        ResourceDef=ResourceDef,
        GlobalResource=Global,
        GlobalSubResource=Global,
        NamespacedResource=Namespaced,
        NamespacedResourceG=Namespaced,
        NamespacedSubResource=Namespaced,
    )
    sys.modules[f"{_ALIAS}.core"].__dict__["resource"] = resource
    _module(f"{_ALIAS}.models._schema", dataclass=_decorated, field=FieldInfo, DictMixin=object)
    return root


def resource_modules() -> list[str]:
    """Return the names of the modules of resources, such as "core_v1"."""
    return [module.name for module in pkgutil.iter_modules([str(_root() / "resources")])]


def resource_module(name: str) -> ModuleType:
    _root()
    return _our_module(name) or importlib.import_module(f"{_ALIAS}.resources.{name}")


def model_module(name: str) -> ModuleType:
    _root()
    return _our_module(name) or importlib.import_module(f"{_ALIAS}.models.{name}")


def _our_module(name: str) -> ModuleType | None:
    return importlib.import_module(f"{__package__}.{name}") if name in _OURS else None


def model_of(resource: type) -> tuple[str, str]:
    """Return the module and the class of the model that a resource's class extends."""
    model = resource.__mro__[2]
    return model.__module__.rpartition(".")[2], model.__name__
