"""Conversion of custom objects by a webhook (`spec.conversion.strategy: Webhook`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.context.calls import Call, Reply, call_webhooks
from mooring.sandbox.apiserver.context.resource import Conversion
from mooring.sandbox.apiserver.custom.pruning import TooManyDefaultsError, fill_in, prune
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.objects import Tree, dig, encode_json

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_REVIEWS: Final = ("v1", "v1beta1")
_SECONDS: Final = 30
_KEPT: Final = ("labels", "annotations")
"""The metadata that a webhook may change."""


class ConversionWebhook(Conversion):
    """Converts between all versions of a kind, from the version that an object names."""

    is_remote = True

    def __init__(self, definition: Tree, storage: str, target: str, schemas: dict[str, Schema]) -> None:
        webhook = definition["spec"]["conversion"]["webhook"]
        self._name: str = definition["metadata"]["name"]
        self._config = encode_json(webhook["clientConfig"])
        self._reviews: list[str] = webhook.get("conversionReviewVersions") or []
        self._schemas = schemas
        self.storage = storage
        self._target = target

    def to_storage(self, tree: Tree) -> None:
        """Convert an object to the stored version, with its defaults: it is read with them."""
        self._replace(tree, self.storage)
        try:
            fill_in(tree, self._schemas[self.storage])
        except TooManyDefaultsError:
            raise _failure(f"conversion webhook for {_gvk(tree)}: too many defaults") from None

    def from_storage(self, tree: Tree) -> None:
        self._replace(tree, self._target)

    def _replace(self, tree: Tree, target: str) -> None:
        (converted,) = self.convert([tree], target)
        if converted is not tree:
            tree.clear()
            tree.update(converted)

    def convert(self, trees: Sequence[Tree], target: str = "") -> list[Tree]:
        """Return objects in a version, by default that of the resource, in one call. Raises ApiError."""
        target = target or self._target
        others = [tree for tree in trees if tree["apiVersion"] != target]
        if not others:
            return list(trees)
        converted = iter(self._call(others, target))
        return [tree if tree["apiVersion"] == target else next(converted) for tree in trees]

    def _call(self, trees: Sequence[Tree], target: str) -> list[Tree]:
        version = next((one for one in self._reviews if one in _REVIEWS), None)
        if version is None:
            raise _failure("no supported conversion review versions")
        request = {"desiredAPIVersion": target, "objects": trees}
        review = {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request}
        call = Call(f"conversion_webhook_for_{self._name}", self._config, _SECONDS, encode_json(review))
        (reply,) = call_webhooks([call])
        about = f"conversion webhook for {_gvk(trees[0])}"
        try:
            objects = _objects(reply, version)
        except ValueError as error:
            raise _failure(f"{about} failed: {error}") from None
        if len(objects) != len(trees):
            raise _failure(f"{about} returned {len(objects)} objects, expected {len(trees)}")
        return [self._checked(about, tree, one, target) for tree, one in zip(trees, objects, strict=True)]

    def _checked(self, about: str, tree: Tree, converted: Any, target: str) -> Tree:
        """Return a converted object with the metadata that it had. Raises ApiError if it is another one."""
        if not isinstance(converted, dict):
            raise _failure(f"{about} returned invalid object at index 0: expected an object")
        version, kind = converted.get("apiVersion") or "", converted.get("kind") or ""
        if version != target:
            why = f"invalid groupVersion (expected {target}, received {version})"
            raise _failure(f"{about} returned invalid object at index 0: {why}")
        if kind != tree["kind"]:
            why = f"invalid kind (expected {tree['kind']}, received {kind})"
            raise _failure(f"{about} returned invalid object at index 0: {why}")
        for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
            before, after = dig(tree, "metadata", name) or "", dig(converted, "metadata", name) or ""
            if before != after:
                raise _failure(
                    f"{about} returned invalid object: must have the same {shown}: {before} != {after}"
                )
        metadata = converted.get("metadata")
        if not isinstance(metadata, dict):
            raise _failure(f"{about} returned invalid metadata: missing metadata in converted object")
        return self._tidied(tree, converted, metadata, target)

    def _tidied(self, tree: Tree, converted: Tree, metadata: Tree, target: str) -> Tree:
        kept = {name: value for name, value in copy.deepcopy(tree["metadata"]).items() if name not in _KEPT}
        changed = {name: metadata[name] for name in _KEPT if metadata.get(name)}
        made = {**converted, "metadata": {**kept, **changed}}
        prune(made, self._schemas[target], resource=True)
        return made


def _objects(reply: Reply, version: str) -> list[Any]:
    """Return the objects of a reply. Raises ValueError if there are none."""
    if reply.problem:
        raise ValueError(reply.problem.removeprefix("failed to call webhook: "))
    response, kind = reply.tree.get("response"), reply.tree.get("kind") or ""
    if kind != _KIND:
        where = f'version "{reply.tree.get("apiVersion") or ""}" in scheme "pkg/util/webhook/client.go:71"'
        raise ValueError(f'no kind "{kind}" is registered for {where}')
    if version == "v1":
        group, _, own = str(reply.tree.get("apiVersion") or "").rpartition("/")
        received, expected = f"{group}/{own}, Kind={kind}", f"{_GROUP}/v1, Kind={_KIND}"
        if received != expected:
            raise ValueError(f"expected webhook response of {expected}, got {received}")
    if not isinstance(response, dict):
        raise ValueError("no response provided")
    if version == "v1" and response.get("uid") != reply.uid:
        raise ValueError(f'expected response.uid="{reply.uid}", got "{response.get("uid") or ""}"')
    status = dig(response, "result", "status") or ""
    if status != "Success":
        message = dig(response, "result", "message")
        raise ValueError(str(message or f"response.result.status was '{status}', not 'Success'"))
    objects = response.get("convertedObjects") or []
    return objects if isinstance(objects, list) else []


def _gvk(tree: Tree) -> str:
    return f"{tree['apiVersion']}, Kind={tree['kind']}"


def _failure(message: str) -> ApiError:
    return ApiError(500, "", message)
