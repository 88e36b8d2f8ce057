"""What services use up: ports of nodes and load balancers."""

from __future__ import annotations

from mooring.api.workloads import Service
from mooring.sandbox.quota.amounts import ONE
from mooring.sandbox.quota.quota_kind import QuotaKind

_PORTS, _BALANCERS = "services.nodeports", "services.loadbalancers"


class Services(QuotaKind[Service]):
    model = Service
    parts = frozenset({""})

    def uses(self, resource: str) -> bool:
        return resource in (self.count, self.name, _PORTS, _BALANCERS)

    def usage(self, obj: Service, now: float) -> dict[str, str]:
        spec = obj.spec
        ports = balancers = 0
        if spec.type in ("NodePort", "LoadBalancer"):
            ports = len(spec.ports)
        if spec.type == "LoadBalancer":
            balancers = 1
            if spec.allocate_load_balancer_node_ports is False:
                ports = sum(port.node_port != 0 for port in spec.ports)
        return {self.count: ONE, self.name: ONE, _PORTS: str(ports), _BALANCERS: str(balancers)}

    def may_need_more(self, old: Service, new: Service, subresource: str) -> bool:
        return True

    def counts_anew(self, old: Service, new: Service, now: float) -> bool:
        return old.spec.type != new.spec.type
