"""Strategies of ResourceClaims, ResourceClaimTemplates, ResourceSlices and DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.sandbox.apiserver.context.strategy import Strategy
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import Cause, invalid
from mooring.sandbox.apiserver.objects import Tree, dig, set_or_drop
from mooring.sandbox.apiserver.strategies.claim_permissions import claim_permissions
from mooring.sandbox.apiserver.validation.claim_status import device_key, results
from mooring.sandbox.apiserver.validation.device_fields import admin_access


class ResourceClaimStrategy(Strategy):
    """Admin access needs a label of the namespace, and a deallocated device loses its status."""

    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        _check_requests(write, obj, dig(obj, "spec", "devices", "requests") or ())

    def settle_status(self, write: Write, obj: Tree, old: Tree) -> None:
        status = obj.setdefault("status", {})
        after, before = results(status.get("allocation")), results(dig(old, "status", "allocation"))
        causes: list[Cause] = []
        if not any(result.get("adminAccess") for result in before):
            causes += _admin_access(write, "status.allocation.devices.results", after)
        causes += claim_permissions(write, status, old.get("status") or {})
        _check(write, obj, causes)
        deallocated = set(map(device_key, before)).difference(map(device_key, after))
        devices = [one for one in status.get("devices") or () if device_key(one) not in deallocated]
        set_or_drop(status, "devices", devices)


class ResourceClaimTemplateStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        _check_requests(write, obj, dig(obj, "spec", "spec", "devices", "requests") or ())


class DeviceTaintRuleStrategy(Strategy):
    """The taint records since when it has its effect."""

    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        obj["spec"].setdefault("taint", {}).setdefault("timeAdded", write.api.now())

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        taint, before = obj["spec"].setdefault("taint", {}), old["spec"].get("taint") or {}
        changed = taint.get("effect") != before.get("effect")
        if "timeAdded" not in taint or (changed and taint["timeAdded"] == before.get("timeAdded")):
            taint["timeAdded"] = write.api.now()
        super().prepare_update(write, obj, old)


class ResourceSliceStrategy(Strategy):
    """Taints record since when they exist, and driver names should be lowercase."""

    def prepare_create(self, write: Write, obj: Tree) -> None:
        super().prepare_create(write, obj)
        self._settle(write, obj)

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        self._settle(write, obj)
        super().prepare_update(write, obj, old)

    def _settle(self, write: Write, obj: Tree) -> None:
        for device in obj["spec"].get("devices") or ():
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", write.api.now())
        driver = obj["spec"].get("driver", "")
        if driver != driver.lower():
            write.warnings.append(
                f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters'
            )


def _check_requests(write: Write, obj: Tree, requests: Sequence[Tree]) -> None:
    exact = [request.get("exactly") or {} for request in requests]
    _check(write, obj, _admin_access(write, "spec.devices.requests", exact))


def _admin_access(write: Write, path: str, items: Sequence[Tree]) -> list[Cause]:
    return list(admin_access(path, items, write.api.read("namespaces", write.namespace)))


def _check(write: Write, obj: Tree, causes: list[Cause]) -> None:
    if causes:
        raise invalid(write.resource.group, write.resource.kind, obj["metadata"].get("name", ""), causes)
