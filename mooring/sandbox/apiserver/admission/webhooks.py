"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook: what servers elsewhere decide about objects."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from mooring.api.preparing import prepare
from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.admission.attributes import Attributes
from mooring.sandbox.apiserver.admission.expressions import Activation, match_conditions
from mooring.sandbox.apiserver.admission.matching import GROUP, is_exempt, match
from mooring.sandbox.apiserver.admission.mutations import replace_object
from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.calls import Call, Calls, Reply
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.context.write import Reinvocation, Write
from mooring.sandbox.apiserver.errors import bad_request, forbidden, internal
from mooring.sandbox.apiserver.fields.go_text import json_name
from mooring.sandbox.apiserver.kinds.codec import FieldValidation
from mooring.sandbox.apiserver.mirror import Mirror
from mooring.sandbox.apiserver.objects import Tree, encode_json
from mooring.sandbox.apiserver.patches.apply_patch import problem_of
from mooring.sandbox.apiserver.patches.json_patch import DoesNotApplyError, apply_operations

_MUTATING: Final = "MutatingAdmissionWebhook"
_REVIEWS: Final = ("v1", "v1beta1")
_SAFE: Final = ("None", "NoneOnDryRun")
_KIND: Final = "AdmissionReview"
_GROUP: Final = "admission.k8s.io"
_SECONDS: Final = 10


class Webhook(NamedTuple):
    """A webhook of a configuration; `key` is unique, its name need not be."""

    key: str
    tree: Tree

    @property
    def name(self) -> str:
        return str(self.tree["name"])

    @property
    def ignores_failures(self) -> bool:
        return bool(self.tree.get("failurePolicy") == "Ignore")


class Response(NamedTuple):
    """The decision of a webhook."""

    allowed: bool
    status: Tree
    warnings: list[str]
    patch: bytes


class _StatusTypes(msgspec.Struct):
    """The types of a denial's status."""

    code: int | None = None
    message: str | None = None
    reason: str | None = None
    details: Tree | None = None


class _ResponseTypes(msgspec.Struct, rename="camel"):
    """The types that Go reads an answer into."""

    uid: str | None = None
    allowed: bool | None = None
    status: _StatusTypes | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str | None] | None = None
    warnings: list[str | None] | None = None


prepare(_ResponseTypes)


class _CallError(Exception):
    """A webhook gave no valid answer; its failure policy decides."""


def _read(trees: Iterable[Tree]) -> list[Webhook]:
    """Return all webhooks, in the order of their configurations' names."""
    return [
        Webhook(f"{tree['metadata']['name']}/{index}/{webhook['name']}", webhook)
        for tree in sorted(trees, key=lambda tree: str(tree["metadata"]["name"]))
        for index, webhook in enumerate(tree.get("webhooks") or ())
    ]


class _Webhooks(AdmissionPlugin):
    """Base of both plugins."""

    operations = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
    subresources = True

    def __init__(self, plural: str) -> None:
        configurations = f"{plural}webhookconfigurations.{GROUP}"
        self._webhooks = Mirror(configurations, _read)
        self.needs = (configurations,)

    def find(self, write: Write) -> list[Webhook]:
        """Return the webhooks that may have to be called for a write."""
        if write.api.calls is None or is_exempt(write.resource):
            return []
        return self._webhooks.get(write.api.store)


class MutatingAdmissionWebhook(_Webhooks):
    def __init__(self) -> None:
        super().__init__("mutating")

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        webhooks = self.find(write)
        if not webhooks or write.part:
            return
        if write.reinvocation is None:
            write.reinvocation = Reinvocation()
        again = write.reinvocation
        invoked, eligible, last = again.notes.get(_MUTATING, (set(), set(), None))
        if again.running and last is not None and last != obj:
            eligible |= invoked
        name = "" if write.generated_name else write.name
        for webhook in webhooks:
            attributes = Attributes(write, obj, old, name)
            resource = _matched(webhook, attributes)
            if resource is None or (again.running and webhook.key not in eligible):
                continue
            if _mutate(webhook, attributes, resource):
                eligible |= invoked
                invoked.clear()
                again.required = True
            if webhook.tree.get("reinvocationPolicy") == "IfNeeded":
                invoked.add(webhook.key)
        again.notes[_MUTATING] = invoked, eligible, copy.deepcopy(obj)

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        """Call webhooks for a deletion, which they can only deny."""
        if write.operation != "DELETE":
            return
        attributes = Attributes(write, None, obj, write.name)
        for webhook in self.find(write):
            resource = _matched(webhook, attributes)
            if resource is not None:
                _mutate(webhook, attributes, resource)


class ValidatingAdmissionWebhook(_Webhooks):
    def __init__(self) -> None:
        super().__init__("validating")

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        webhooks = self.find(write)
        if not webhooks:
            return
        deleting = write.operation == "DELETE"
        attributes = Attributes(write, None if deleting else obj, obj if deleting else old, write.name)
        relevant = list(_relevant(webhooks, attributes))
        calls = [_call(webhook, attributes, resource) for webhook, resource in relevant]
        failures: list[ApiError] = []
        for (webhook, _), reply in zip(relevant, _calls(write).get(calls), strict=True):
            try:
                response = _response(webhook, reply, mutating=False)
            except _CallError as error:
                if not webhook.ignores_failures:
                    failures.append(_failure(webhook, error))
                continue
            write.warnings += response.warnings
            if not response.allowed:
                failures.append(_denial(webhook, response.status))
        if failures:
            raise failures[0]


def _relevant(webhooks: Iterable[Webhook], attributes: Attributes) -> Iterator[tuple[Webhook, Resource]]:
    for webhook in webhooks:
        resource = _matched(webhook, attributes)
        if resource is not None:
            yield webhook, resource


def _matched(webhook: Webhook, attributes: Attributes) -> Resource | None:
    """Return the resource in the version that a webhook wants, None if it is not about this write."""
    resource = match(attributes, webhook.tree, "rules")
    conditions = webhook.tree.get("matchConditions")
    if resource is None or not conditions:
        return resource
    activation = Activation(attributes, resource, with_namespace=False)
    matched = match_conditions(conditions, activation, webhook.ignores_failures)
    if matched.error:
        own = attributes.write.resource
        raise forbidden(own.group, own.plural, attributes.name, matched.error)
    return resource if matched.matches else None


# ---- asking ---------------------------------------------------------------------------------------


def _calls(write: Write) -> Calls:
    assert write.api.calls is not None
    return write.api.calls


def _call(webhook: Webhook, attributes: Attributes, resource: Resource) -> Call:
    """Return the request to a webhook. Raises 400 if it cannot be called for a dry run."""
    tree = webhook.tree
    if attributes.write.options.dry_run and tree.get("sideEffects") not in _SAFE:
        raise bad_request(f'admission webhook "{webhook.name}" does not support dry run')
    version = next((one for one in tree.get("admissionReviewVersions") or () if one in _REVIEWS), "v1")
    obj, old = attributes.objects_in(resource)
    request = attributes.request(resource)
    options = request.pop("options")
    request = {**request, "object": obj, "oldObject": old, "options": options}
    review = {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request}
    timeout = tree.get("timeoutSeconds") or _SECONDS
    return Call(webhook.name, encode_json(tree["clientConfig"]), timeout, encode_json(review))


def _failure(webhook: Webhook, problem: Exception) -> ApiError:
    return internal(f'failed calling webhook "{webhook.name}": {problem}')


def _denial(webhook: Webhook, status: Tree) -> ApiError:
    by = f'admission webhook "{webhook.name}" denied the request'
    said = status.get("message") or status.get("reason")
    code = status.get("code")
    code = code if isinstance(code, int) and 400 <= code < 600 else 400
    message = f"{by}: {said}" if said else f"{by} without explanation"
    details = status.get("details")
    return ApiError(
        code, status.get("reason") or "", message, details=details if isinstance(details, dict) else {}
    )


def _response(webhook: Webhook, reply: Reply, *, mutating: bool) -> Response:
    """Verify an answer. Raises _CallError."""
    if reply.problem:
        raise _CallError(reply.problem)
    response = reply.tree.get("response")
    if response is None:
        raise _invalid("webhook response was absent")
    try:
        msgspec.convert(response, _ResponseTypes)
    except msgspec.ValidationError as error:
        raise _CallError(f"failed to call webhook: response: {error}") from None
    if str(reply.tree.get("apiVersion", "")).endswith("/v1beta1"):
        patch_type: Any = "JSONPatch"
    else:
        patch_type = _verified(reply, response, mutating=mutating)
    try:
        patch = base64.b64decode(response.get("patch") or "", validate=True)
    except ValueError:
        raise _CallError("failed to call webhook: illegal base64 data in response.patch") from None
    if patch and patch_type != "JSONPatch":
        raise _CallError(f'unsupported patch type "{patch_type}"')
    status = response.get("status")
    warnings = [str(one) for one in response.get("warnings") or ()]
    return Response(
        response.get("allowed") is True, status if isinstance(status, dict) else {}, warnings, patch
    )


def _verified(reply: Reply, response: Tree, *, mutating: bool) -> Any:
    """Verify what version v1 requires of an answer, and return its patch type."""
    if response.get("uid") != reply.uid:
        raise _invalid(f'expected response.uid="{reply.uid}", got "{response.get("uid") or ""}"')
    group, _, version = str(reply.tree.get("apiVersion") or "").rpartition("/")
    kind = f"{group}/{version}, Kind={reply.tree.get('kind') or ''}"
    expected = f"{_GROUP}/v1, Kind={_KIND}"
    if kind != expected:
        raise _invalid(f"expected webhook response of {expected}, got {kind}")
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating and patch:
        raise _invalid("validating webhook may not return response.patch")
    if not mutating and patch_type is not None:
        raise _invalid("validating webhook may not return response.patchType")
    if patch and patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise _invalid('webhook returned invalid response.patchType of ""')
    return patch_type


def _invalid(problem: str) -> _CallError:
    return _CallError(f"received invalid webhook response: {problem}")


# ---- changing -------------------------------------------------------------------------------------


def _mutate(webhook: Webhook, attributes: Attributes, resource: Resource) -> bool:
    """Call a webhook and apply its patch; return whether it changed the object. Raises ApiError."""
    write = attributes.write
    (reply,) = _calls(write).get([_call(webhook, attributes, resource)])
    try:
        response = _response(webhook, reply, mutating=True)
        operations = _operations(response.patch) if response.allowed else []
    except _CallError as error:
        if webhook.ignores_failures:
            return False
        raise _failure(webhook, error) from None
    write.warnings += response.warnings
    if not response.allowed:
        raise _denial(webhook, response.status)
    if not operations:
        return False
    current, _ = attributes.objects_in(resource)
    if current is None or attributes.obj is None:
        raise internal(
            f'admission webhook "{webhook.name}" attempted to modify the object, which is not supported for '
            "this operation"
        )
    changed = _patched(resource, attributes, operations, copy.deepcopy(current))
    if changed == current:
        return False
    replace_object(write, resource, attributes.obj, changed)
    return True


def _operations(patch: bytes) -> list[Tree]:
    if not patch:
        return []
    try:
        operations: Any = msgspec.json.decode(patch)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise _CallError(f"received undecodable patch in webhook response: {problem}") from None
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        problem = f"json: cannot unmarshal {json_name(operations)} into Go value of type jsonpatch.Patch"
        raise _CallError(f"received undecodable patch in webhook response: {problem}")
    return operations


def _patched(resource: Resource, attributes: Attributes, operations: list[Tree], tree: Tree) -> Tree:
    """Return the object after a patch, decoded as one of its kind."""
    part = resource.subresources.get(attributes.subresource)
    codec = resource.codec if part is None else part.codec
    try:
        return codec.sift(apply_operations(operations, tree), FieldValidation.IGNORE).tree
    except DoesNotApplyError as error:
        raise internal(str(error)) from None
    except ApiError as error:
        raise internal(problem_of(error)) from None
