"""NamespaceLifecycle: reject creates in namespaces that do not exist or are terminating."""

from __future__ import annotations

from typing import Final

from mooring.sandbox.apiserver.context.admission import AdmissionPlugin
from mooring.sandbox.apiserver.context.namespaces import is_terminating
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.errors import forbidden, not_found
from mooring.sandbox.apiserver.objects import Tree

IMMORTAL: Final = ("default", "kube-system", "kube-public")


class NamespaceLifecycle(AdmissionPlugin):
    operations = frozenset({"CREATE", "DELETE"})

    def admit(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.operation != "CREATE" or not write.namespace:
            return
        resource = write.resource
        terminating = is_terminating(write.api, write.namespace)
        if terminating is None:
            raise not_found("", "namespaces", write.namespace)
        if terminating:
            error = forbidden(
                resource.group,
                resource.plural,
                write.name,
                f"unable to create new content in namespace {write.namespace} because it is being terminated",
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {write.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            error.details["causes"] = [cause]
            raise error

    def validate(self, write: Write, obj: Tree, old: Tree | None) -> None:
        if write.operation == "DELETE" and write.resource.storage == "namespaces" and write.name in IMMORTAL:
            raise forbidden("", "namespaces", write.name, "this namespace may not be deleted")
