"""What the containers of a pod take variables and files from, read from the cluster and from their node."""

from __future__ import annotations

from mooring.api.kinds import SERVICES
from mooring.api.objects import Pod
from mooring.client.controller import Context
from mooring.sandbox.kubelet.configuration import Configuration
from mooring.sandbox.kubelet.guests import Guest
from mooring.sandbox.kubelet.pod_tokens import IssueToken, request_tokens
from mooring.sandbox.kubelet.service_links import ServiceLinks
from mooring.sandbox.programs.sources import Sources
from mooring.sandbox.programs.specs import PodRun


class PodSources:
    """Reads the sources of pods. Without `issue_token`, they get no tokens."""

    def __init__(self, context: Context, issue_token: IssueToken | None) -> None:
        self._configuration = Configuration(context.cluster)
        self._links = ServiceLinks(context.cache.follow(SERVICES))
        self._issue_token = issue_token

    async def read(self, pod: Pod, guest: Guest, run: PodRun) -> Sources:
        """Read what the containers of a pod take variables and files from."""
        node, address = guest.machine.node, guest.machine.address
        ip = guest.ip or address
        fields = {
            "spec.nodeName": pod.spec.node_name,
            "spec.serviceAccountName": run.spec.service_account_name,
            "status.hostIP": address,
            "status.hostIPs": address,
            "status.podIP": ip,
            "status.podIPs": ip,
        }
        spec = run.spec
        allocatable = None if node is None else node.status.allocatable
        if allocatable is not None and spec.resources is not None:
            allocatable = {**allocatable, **spec.resources.limits}
        own_name = spec.hostname_override or pod.spec.hostname  # that of `spec` may be of another pod
        hostname = pod.spec.node_name if spec.host_network else own_name
        sources = Sources(
            pod.metadata,
            fields=fields,
            allocatable=allocatable,
            capacity=None if node is None else node.status.capacity,
            hostname=hostname,
        )
        if run.has_commands:
            links = self._links.find("" if run.spec.enable_service_links is False else pod.namespace)
            if guest.tokens is None and self._issue_token is not None:
                guest.tokens = request_tokens(self._issue_token, pod, run)
            sources = sources._replace(services=links, tokens=guest.tokens or {})
        return await self._configuration.read(run, sources)
