"""ResourceQuota: reject what exceeds the quotas of the namespace.

Usage is added to the status of quotas on admission; a controller recounts what was freed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from mooring.api.decode import strip_nulls
from mooring.api.devices import DeviceClass, ResourceClaim
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.api.preparing import prepare
from mooring.api.quotas import ResourceQuota
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.calls import TooLongError
from mooring.sandbox.apiserver.context.drafting import LARGE
from mooring.sandbox.apiserver.context.namespaces import QUOTAS, has_quota
from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.verbs.updating import change
from mooring.sandbox.quota.amounts import Amounts, beyond, exceeding, format_amounts, only, plus
from mooring.sandbox.quota.quota_kind import QuotaKind
from mooring.sandbox.quota.registry import CLAIMS, PODS, RESOURCE_CLAIMS, SERVICES, quota_kind

_IGNORED: Final = ("events", "events.events.k8s.io")
_DEVICE_CLASSES: Final = "deviceclasses.resource.k8s.io"
_SERVER: Final = User("system:apiserver", ("system:masters",))
_read = msgspec.json.Decoder(ResourceQuota).decode
_read_class = msgspec.json.Decoder(DeviceClass).decode
_read_claim = msgspec.json.Decoder(ResourceClaim).decode
_read_pod = msgspec.json.Decoder(Pod).decode
prepare(KubeObject, CLAIMS.model, SERVICES.model)


class ResourceQuotas(AdmissionPlugin):
    operations = frozenset({"CREATE", "UPDATE"})
    subresources = True
    needs = (QUOTAS,)

    def handles(self, operation: str, storage: str, subresource: bool) -> bool:
        if operation == "UPDATE":
            return storage in (PODS.name, CLAIMS.name, SERVICES.name)
        return operation == "CREATE" and not subresource and storage not in _IGNORED

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if not write.namespace or not has_quota(write.api, write.namespace):
            return
        kind = quota_kind(write.resource.storage, _Stored(write.api))
        if old is not None and write.subresource not in kind.parts:
            return
        new, before = _as(kind, obj), None if old is None else _as(kind, old)
        if before is not None and not kind.may_need_more(before, new, write.subresource):
            return
        for quota, used in _charged(write, kind, new, before):
            if not write.options.dry_run:
                _write_used(write, quota, used)


class _Stored:
    """What the API server holds, for those charges that depend on other objects."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def device_classes(self) -> Iterable[DeviceClass]:
        records = self._api.store.table(_DEVICE_CLASSES).records
        return [_read_class(record.body) for record in records.values()]

    def pod(self, namespace: str, name: str) -> Pod | None:
        record = self._api.record(PODS.name, name, namespace)
        return None if record is None else _read_pod(record.body)

    def resource_claims(self, namespace: str) -> Iterable[ResourceClaim]:
        table = self._api.store.table(RESOURCE_CLAIMS)
        return [_read_claim(table.records[key].body) for key in table.keys(namespace)]


def _as(kind: QuotaKind[Any], tree: Tree) -> KubeObject:
    obj: KubeObject = msgspec.convert(strip_nulls(tree), kind.model)
    return obj


def _charged(
    write: Write, kind: QuotaKind[Any], new: KubeObject, old: KubeObject | None
) -> list[tuple[ResourceQuota, Amounts]]:
    """Return the quotas that an object uses more of, with their usage including it. Raises 403."""
    now = write.api.clock()
    concerned = _concerned(write, kind, new)
    usage = kind.usage(new, now)
    more = usage if old is None else beyond(usage, kind.usage(old, now))
    charged: list[tuple[ResourceQuota, Amounts]] = []
    for quota in concerned:
        counted = old is not None and all(kind.in_scope(scope, old) for scope in quota.scopes)
        needed = only(more if counted else usage, quota.status.hard)
        needed = {name: quantity for name, quantity in needed.items() if quantity != "0"}
        if not needed:
            continue
        used = plus(only(quota.status.used, needed), needed)
        too_much = exceeding(used, quota.status.hard)
        if too_much and write.subresource != "status":
            raise _refusal(
                write,
                f"exceeded quota: {quota.name}, requested: {format_amounts(only(needed, too_much))}, "
                f"used: {format_amounts(only(quota.status.used, too_much))}, "
                f"limited: {format_amounts(only(quota.status.hard, too_much))}",
            )
        charged.append((quota, {**quota.status.used, **used}))
    return charged


def _concerned(write: Write, kind: QuotaKind[Any], obj: KubeObject) -> Sequence[ResourceQuota]:
    """Return the quotas that apply to an object. Raises 403 if it lacks a value they require."""
    concerned = []
    for quota in _quotas(write.api, write.namespace):
        restricted = kind.restricted(quota.status.hard)
        if not restricted or not all(kind.in_scope(scope, obj) for scope in quota.scopes):
            continue
        missing = kind.missing(restricted, obj)
        if missing:
            raise _refusal(write, f"failed quota: {quota.name}: {missing}")
        if any(name not in quota.status.used for name in restricted):
            names = ",".join(sorted(restricted))
            raise _refusal(write, f"status unknown for quota: {quota.name}, resources: {names}")
        concerned.append(quota)
    return concerned


def _quotas(api: Api, namespace: str) -> list[ResourceQuota]:
    """Return the quotas of a namespace. Raises TooLongError if they are large."""
    table = api.store.table(QUOTAS)
    records = [table.records[key] for key in table.keys(namespace)]
    if not api.may_take_long and sum(len(record.tail) for record in records) >= LARGE:
        raise TooLongError
    return [_read(record.body) for record in records]


def _refusal(write: Write, why: str) -> Exception:
    return forbidden(write.resource.group, write.resource.plural, write.name, why)


def _write_used(write: Write, quota: ResourceQuota, used: Amounts) -> None:
    api = write.api
    resource = api.registry.find("", "v1", QUOTAS)
    assert resource is not None
    options = WriteOptions(field_manager="kube-apiserver")
    charge = Write(api, resource, quota.namespace, quota.name, _SERVER, options, "UPDATE", "status")
    change(charge, lambda old: {**old, "status": {**old["status"], "used": dict(used)}})
