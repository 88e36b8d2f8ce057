"""Routing of requests to the functions that answer them."""

from __future__ import annotations

from collections.abc import Callable, Generator

import msgspec

from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.errors import bad_request, method_not_allowed
from mooring.sandbox.apiserver.kinds.types import object_type
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.resource_metrics import METRICS
from mooring.sandbox.apiserver.reviews import REVIEWS
from mooring.sandbox.apiserver.subresources.handlers import SUBRESOURCES
from mooring.sandbox.apiserver.verbs.body import JSON, read_object, to_json
from mooring.sandbox.apiserver.verbs.creating import create
from mooring.sandbox.apiserver.verbs.deleting import Deleted, delete, delete_each
from mooring.sandbox.apiserver.verbs.options import delete_options, list_options
from mooring.sandbox.apiserver.verbs.patching import patch
from mooring.sandbox.apiserver.verbs.reading import get, list_objects, reached_version
from mooring.sandbox.apiserver.verbs.replicas import read_replica
from mooring.sandbox.apiserver.verbs.request import (
    Answer,
    ListAnswer,
    ObjectAnswer,
    Request,
    TreeAnswer,
    WatchAnswer,
)
from mooring.sandbox.apiserver.verbs.updating import update
from mooring.sandbox.apiserver.verbs.watching import watch_objects

_DELETE_OPTIONS = object_type("meta_v1", "DeleteOptions")
_NOT_STORED = {**REVIEWS, **METRICS}


def handle(request: Request) -> Answer:
    """Answer a request. Raises ApiError. Nothing awaits here, so writes are atomic."""
    if request.subresource is not None:
        return _handle_subresource(request)
    if request.verb not in request.resource.verbs:
        raise method_not_allowed()
    own = _NOT_STORED.get(request.resource.storage)
    if own is not None:
        return own(request)
    return _VERBS[request.verb](request)


def _handle_subresource(request: Request) -> Answer:
    subresource = request.subresource
    assert subresource is not None
    if request.verb not in (*subresource.verbs, "options"):
        raise method_not_allowed()
    own = SUBRESOURCES.get((request.resource.storage, subresource.name)) or SUBRESOURCES.get(
        ("*", subresource.name)
    )
    handler = own.get(request.verb) if own is not None else None
    if handler is not None:
        return handler(request)
    if subresource.kind.kind != request.resource.kind:
        raise method_not_allowed()
    return _VERBS[request.verb](request)  # status and the like: the same verbs on part of the object


def _get(request: Request) -> Answer:
    reached_version(request.api, (request.params.get("resourceVersion") or [""])[0])
    record = get(request.api, request.resource, request.namespace, request.name)
    return ObjectAnswer(record, request.resource)


def _list(request: Request) -> Answer:
    options = list_options(request.params)
    listing = list_objects(request.api, request.resource, request.namespace, options)
    return ListAnswer(listing, request.resource)


def _watch(request: Request) -> Answer:
    options = list_options({**request.params, "watch": ["true"]})
    if request.name:  # watching one object is watching the list with a field selector
        fields = ",".join(filter(None, (options.field_selector, f"metadata.name={request.name}")))
        options = msgspec.structs.replace(options, field_selector=fields)
    watching = watch_objects(request.api, request.resource, request.namespace, options)
    return WatchAnswer(watching, request.resource)


def _create(request: Request) -> Answer:
    write = request.write("CREATE")
    resource = request.resource
    body = to_json(request.body, request.content_type, resource.kind, resource.codec.type)
    replica = read_replica(write, body)
    record = None if replica is None else replica.create()
    if record is None:
        record = create(write, read_object(write, body, JSON, resource.codec, resource.gvk))
        if replica is not None:
            replica.remember(record)
    return ObjectAnswer(record, resource, 201, write.warnings)


def _update(request: Request) -> Answer:
    write = request.write("UPDATE")
    resource = request.resource
    obj = read_object(write, request.body, request.content_type, request.codec, resource.gvk)
    record, created = update(write, obj)
    return ObjectAnswer(record, resource, 201 if created else 200, write.warnings)


def _delete_body(request: Request) -> Tree | None:
    """Return the DeleteOptions in the body of a delete, if any."""
    if not request.body:
        return None
    try:
        body = msgspec.json.decode(
            to_json(request.body, request.content_type, "DeleteOptions", _DELETE_OPTIONS)
        )
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(body, dict):
        raise bad_request("couldn't get version/kind; json parse error: expected an object")
    return body


def _delete(request: Request) -> Answer:
    options = delete_options(request.params, _delete_body(request))
    write = request.write("DELETE", WriteOptions(dry_run=options.dry_run))
    deleted = delete(write, options)
    if not deleted.gone or request.resource.strategy.traits.return_deleted:
        hurried = not deleted.gone and options.orphan_dependents is False
        return ObjectAnswer(deleted.record, request.resource, 202 if hurried else 200)
    return TreeAnswer(_deleted_status(request, deleted))


def _deleted_status(request: Request, deleted: Deleted) -> Tree:
    resource = request.resource
    details = {
        "name": request.name,
        "group": resource.group,
        "kind": resource.plural,
        "uid": deleted.uid,
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }


def begin_deletion(request: Request) -> tuple[ListAnswer, Generator[None, None, None]]:
    """Return the objects that deletecollection deletes, and the deletions, one per step. Raises ApiError."""
    options = delete_options(request.params, _delete_body(request))
    write = request.write("DELETE", WriteOptions(dry_run=options.dry_run))
    selection = list_options(request.params)
    listing = list_objects(request.api, request.resource, request.namespace, selection)
    return ListAnswer(listing, request.resource), delete_each(write, options, listing)


def _delete_collection(request: Request) -> Answer:
    answer, deletions = begin_deletion(request)
    for _ in deletions:
        pass
    return answer


_VERBS: dict[str, Callable[[Request], Answer]] = {
    "get": _get,
    "list": _list,
    "watch": _watch,
    "create": _create,
    "update": _update,
    "patch": patch,
    "delete": _delete,
    "deletecollection": _delete_collection,
}
