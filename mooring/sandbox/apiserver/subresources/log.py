"""log, attach, exec and portforward: nothing runs here, and the answers say so."""

from __future__ import annotations

from mooring.sandbox.apiserver.errors import bad_request
from mooring.sandbox.apiserver.verbs.reading import get
from mooring.sandbox.apiserver.verbs.request import Answer, Request, TextAnswer

_NODE_NAME = 0  # index into the selectable fields of pods


def read_log(request: Request) -> Answer:
    """Return a line that says that there is no log; empty for a pod without a node."""
    record = get(request.api, request.resource, request.namespace, request.name)
    assigned = record.fields[_NODE_NAME]
    return TextAnswer("there are no logs: containers do not run in an embedded cluster\n" if assigned else "")


def connect(request: Request) -> Answer:
    """Reject: there is no container to connect to."""
    record = get(request.api, request.resource, request.namespace, request.name)
    if not record.fields[_NODE_NAME]:
        raise bad_request(f"pod {request.name} does not have a host assigned")
    raise bad_request(
        f"nothing to connect to in pod {request.name}: containers do not run in an embedded cluster"
    )
