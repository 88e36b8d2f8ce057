"""nodes/proxy: the part of a kubelet's own API that says what is on its node."""

from __future__ import annotations

from typing import Final

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.errors import bad_request, not_found
from mooring.sandbox.apiserver.objects import Tree, decode_record
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TextAnswer, TreeAnswer

KUBELET_PORT: Final = "10250"
_NODE_NAME: Final = 0  # index into the selectable fields of pods


def proxy_node(request: Request) -> Answer:
    """Answer for the kubelet of a node: `pods`, `healthz`, and an empty folder of logs."""
    name, _, port = request.name.partition(":")
    if request.api.record("nodes", name) is None:
        raise not_found("", "nodes", name)
    if port not in ("", KUBELET_PORT):
        why = f"error trying to reach service: nothing listens at port {port} of node {name}"
        raise ApiError(503, "ServiceUnavailable", why)
    path = request.path.rstrip("/")
    if path in ("pods", "runningpods"):
        return TreeAnswer(_pod_list(request, name))
    if path == "healthz":
        return TextAnswer("ok")
    if path == "logs":
        return TextAnswer("<pre>\n</pre>\n")
    raise bad_request(f"the kubelet of a fake node does not serve /{request.path}")


def _pod_list(request: Request, node: str) -> Tree:
    records = request.api.store.table("pods").records.values()
    items = [decode_record(one, "v1", "Pod") for one in records if one.fields[_NODE_NAME] == node]
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
