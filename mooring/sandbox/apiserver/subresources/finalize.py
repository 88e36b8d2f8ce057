"""finalize: remove the finalizers of a namespace whose content is deleted."""

from __future__ import annotations

from mooring.sandbox.apiserver.objects import Tree, dig, set_or_drop
from mooring.sandbox.apiserver.verbs.body import read_object
from mooring.sandbox.apiserver.verbs.request import Answer, ObjectAnswer, Request
from mooring.sandbox.apiserver.verbs.updating import change


def finalize(request: Request) -> Answer:
    """Set the finalizers in the spec of a namespace; without any, a deleted namespace is removed."""
    write = request.write("UPDATE")
    resource = request.resource
    sent = read_object(write, request.body, request.content_type, resource.codec, resource.gvk)

    def produce(old: Tree) -> Tree:
        set_or_drop(old.setdefault("spec", {}), "finalizers", dig(sent, "spec", "finalizers"))
        version = dig(sent, "metadata", "resourceVersion")
        if version:
            old["metadata"]["resourceVersion"] = version
        return old

    return ObjectAnswer(change(write, produce), resource, 200, write.warnings)
