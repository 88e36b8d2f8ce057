"""log: nothing runs here, and that is what is said."""

from __future__ import annotations

from mooring.embedded.errors import bad_request
from mooring.embedded.verbs.reading import get
from mooring.embedded.verbs.request import Answer, Request, TextAnswer


def read_log(request: Request) -> Answer:
    """A line that says that there is no log."""
    record = get(request.api, request.resource, request.namespace, request.name)
    if not record.fields[0]:
        raise bad_request(f"pod {request.name} does not have a host assigned")
    return TextAnswer("there are no logs: containers do not run in an embedded cluster\n")
