"""What services use up: ports of nodes and load balancers."""

from __future__ import annotations

import msgspec

from mooring.api.meta import KubeObject, Struct, Value
from mooring.sandbox.quota.amounts import ONE
from mooring.sandbox.quota.kinds import QuotaKind


class ServicePort(Value, frozen=True):
    node_port: int = 0


class ServiceSpec(Struct):
    type: str = "ClusterIP"
    ports: list[ServicePort] = []
    allocate_load_balancer_node_ports: bool | None = None


class Service(KubeObject):
    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)


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
