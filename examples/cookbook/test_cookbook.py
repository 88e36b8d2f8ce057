"""Each plugin of the cookbook at work, and its contract."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from business_hours import BusinessHours
from carbon_aware import CarbonAware
from cheap_nodes import CheapNodes
from data_locality import DataLocality, Dataset, DatasetStatus
from limit_per_node import LimitPerNode
from load_aware import LoadAware
from one_numa_node import OneNumaNode
from pack_gpus import PackGpus
from reserve_for_team import ReserveForTeam
from spread_by_label import SpreadByLabel
from wait_for_approval import WaitForApproval

from mooring.api.decode import from_dict
from mooring.api.meta import ObjectMeta
from mooring.testing import VirtualClock, check_plugin, make_cluster, make_node, make_pod

GPU = "nvidia.com/gpu"


def scores(cluster, pod, plugin):
    """Return what the plugin scored each node, by name."""
    decision = cluster.decision(pod)
    return dict(zip(decision.feasible, decision.scores[plugin.name].normalized, strict=True))


def test_pack_gpus():
    gpus = {GPU: 4}
    nodes = [make_node("empty", resources=gpus), make_node("half", resources=gpus), make_node("plain")]
    cluster = make_cluster(nodes, plugins=[PackGpus])
    cluster.apply(make_pod("running", requests={GPU: 2}, node_name="half"))
    cluster.apply(make_pod("train", requests={GPU: 1}), make_pod("web"))
    cluster.schedule()
    assert scores(cluster, "train", PackGpus) == {"empty": 0, "half": 50}
    assert scores(cluster, "web", PackGpus) == {"empty": 0, "half": 0, "plain": 100}


def device_object(kind, name, spec):
    metadata = {"name": name, "uid": name, "namespace": "default" if kind == "ResourceClaim" else ""}
    return from_dict({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})


def test_one_numa_node():
    def slice_of(node, *numa):
        devices = [{"name": f"gpu-{i}", "attributes": {"numa": {"int": n}}} for i, n in enumerate(numa)]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": devices}
        return device_object("ResourceSlice", node, spec)

    request = {"name": "gpus", "exactly": {"deviceClassName": "gpu", "count": 2}}
    claim = device_object("ResourceClaim", "gpus", {"devices": {"requests": [request]}})
    cluster = make_cluster([make_node("apart"), make_node("together")], plugins=[OneNumaNode])
    cluster.apply(
        device_object("DeviceClass", "gpu", {}), slice_of("apart", 0, 1), slice_of("together", 1, 1)
    )
    cluster.apply(claim, make_pod("train", resource_claims="gpus"), make_pod("web"))
    cluster.schedule()
    assert scores(cluster, "train", OneNumaNode) == {"apart": 50, "together": 100}
    assert scores(cluster, "web", OneNumaNode) == {"apart": 0, "together": 0}


def test_cheap_nodes():
    price = "example.com/cents-per-hour"
    nodes = [make_node(name, labels={price: cents}) for name, cents in (("spot", "3"), ("big", "12"))]
    cluster = make_cluster([*nodes, make_node("unknown")], plugins=[CheapNodes])
    cluster.apply(make_pod("web"))
    cluster.schedule()
    assert scores(cluster, "web", CheapNodes) == {"spot": 75, "big": 0, "unknown": 0}


def test_spread_by_label():
    rack = "example.com/rack"
    nodes = [make_node(name, labels={rack: name[0]}) for name in ("a-1", "a-2", "b-1")]
    cluster = make_cluster(nodes, plugins=[SpreadByLabel])
    cluster.apply(make_pod("web-1", labels={"app": "web"}, node_name="a-1"))
    cluster.apply(make_pod("web-2", labels={"app": "web"}))
    cluster.schedule()
    assert scores(cluster, "web-2", SpreadByLabel) == {"a-1": 0, "a-2": 0, "b-1": 100}


def test_business_hours():
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)  # a Monday
    cluster = make_cluster([make_node()], plugins=[BusinessHours], clock=VirtualClock(noon.timestamp()))
    cluster.apply(make_pod("report", labels={"run": "off-hours"}), make_pod("web"))
    cluster.schedule()
    assert (cluster.node_of("report"), cluster.node_of("web")) == ("", "node")
    cluster.advance(6 * 3600 - 10)
    assert cluster.node_of("report") == ""
    cluster.advance(20)
    assert cluster.node_of("report") == "node"


@pytest.mark.mooring_cluster(nodes=2, plugins=[WaitForApproval])
def test_wait_for_approval(mooring_cluster):
    held = {"approval": "required"}
    mooring_cluster.apply(make_pod("yes", labels=held), make_pod("no", labels=held), make_pod("web"))
    mooring_cluster.advance(5)
    assert mooring_cluster.node_of("web")
    assert not mooring_cluster.node_of("yes")
    for name, answer in (("yes", "true"), ("no", "too large")):
        patch = {"metadata": {"annotations": {"example.com/approved": answer}}}
        mooring_cluster.patch(f"pod/{name}", patch)
    mooring_cluster.advance(1)
    assert mooring_cluster.node_of("yes")
    assert not mooring_cluster.node_of("no")
    assert "not approved: too large" in mooring_cluster.decision("no").message


def test_data_locality():
    cluster = make_cluster([make_node("a"), make_node("b")], plugins=[DataLocality])
    cluster.apply(make_pod("train", labels={"dataset": "images"}))
    cluster.schedule()
    assert "dataset images does not exist" in cluster.decision("train").message
    metadata = ObjectMeta(name="images", namespace="default")
    cluster.apply(Dataset(metadata=metadata, status=DatasetStatus(nodes=["b"])))
    cluster.advance(10)
    assert scores(cluster, "train", DataLocality) == {"a": 0, "b": 100}


def test_reserve_for_team():
    cluster = make_cluster(
        [make_node("ml", labels={"team": "ml"}), make_node("any")], plugins=[ReserveForTeam]
    )
    cluster.apply(make_pod("train", labels={"team": "ml"}), make_pod("web"))
    cluster.schedule()
    assert scores(cluster, "train", ReserveForTeam) == {"ml": 100, "any": 0}
    assert cluster.decision("web").feasible == ["any"]


def test_limit_per_node():
    cluster = make_cluster([make_node("a")], plugins=[LimitPerNode], args={"LimitPerNode": {"most": 2}})
    for name in ("db-1", "db-2", "db-3"):
        cluster.apply(make_pod(name, labels={"app": "db"}))
    cluster.schedule()
    assert "1 node(s) had 2 pods with the same app" in cluster.decision("db-3").message
    cluster.delete(cluster.pod("db-1"))
    cluster.advance(10)
    assert cluster.node_of("db-3") == "a"


@pytest.fixture
def serve():
    """Serve JSON on loopback; returns the address."""
    servers = []

    def start(body):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *args):
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_carbon_aware(serve):
    region = "topology.kubernetes.io/region"
    nodes = [make_node(name, labels={region: name}) for name in ("north", "south", "east")]
    url = serve({"north": 25, "south": 400})
    cluster = make_cluster(nodes, plugins=[CarbonAware], args={"CarbonAware": {"url": url}})
    cluster.plugin(CarbonAware).refresh()
    cluster.apply(make_pod("batch"))
    cluster.schedule()
    assert scores(cluster, "batch", CarbonAware) == {"north": 98, "south": 60, "east": 0}


def test_load_aware(serve):
    rows = [
        {"metric": {"node": "busy"}, "value": [0, "93.5"]},
        {"metric": {"node": "idle"}, "value": [0, "4"]},
    ]
    url = serve({"data": {"result": rows}})
    nodes = [make_node("busy"), make_node("idle"), make_node("new")]
    cluster = make_cluster(nodes, plugins=[LoadAware], args={"LoadAware": {"prometheus": url}})
    cluster.plugin(LoadAware).refresh()
    cluster.apply(make_pod("web"))
    cluster.schedule()
    assert scores(cluster, "web", LoadAware) == {"busy": 7, "idle": 96, "new": 50}


UNREACHABLE = "http://127.0.0.1:1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        (PackGpus, {}),
        (CheapNodes, {"label": "topology.kubernetes.io/zone"}),
        (SpreadByLabel, {"nodeLabel": "topology.kubernetes.io/zone"}),
        (BusinessHours, {}),
        (WaitForApproval, {}),
        (DataLocality, {}),
        (CarbonAware, {"url": UNREACHABLE}),
        (ReserveForTeam, {}),
        (LimitPerNode, {"most": 2}),
        (LoadAware, {"prometheus": UNREACHABLE}),
    ],
)
def test_they_keep_the_contract(plugin, args):
    pods = [
        make_pod("train", requests={GPU: 1}, labels={"app": "db", "team": "ml", "dataset": "images"}),
        make_pod("held", labels={"approval": "required", "run": "off-hours"}),
    ]
    nodes = [make_node("gpu", resources={GPU: 4}, labels={"team": "ml"})]
    check_plugin(plugin, args, nodes=nodes, pods=pods)
