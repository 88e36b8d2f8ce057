"""What containers reach of the API server and of kubelets."""

from __future__ import annotations

import asyncio
import json

import yaml

from mooring.api.kinds import PODS
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes

OBJECTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
- {apiGroups: [""], resources: [configmaps], verbs: [create]}
- {apiGroups: [""], resources: [nodes/healthz], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec:
  nodeName: node-1
  containers:
  - name: main
    image: busybox
    command: [sleep, 1d]
    env: [{name: NODE, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]
"""
TOKEN = '-H "Authorization: Bearer $(cat /var/run/secrets/kubernetes.io/serviceaccount/token)"'
API = "https://kubernetes.default.svc"
CODE = "-o /dev/null -w '%{http_code}'"
PODS_PATH = "/api/v1/namespaces/default/pods"


def test_containers_reach_the_control_plane() -> None:
    asyncio.run(_play())


async def _play() -> None:
    cluster = LocalCluster(heartbeats=False)
    await cluster.start()
    try:
        await cluster.nodes.register(make_nodes(1))
        for tree in yaml.safe_load_all(OBJECTS):
            await cluster.applier.apply(tree, "test")
        uid = (await cluster.server.cluster.get(PODS, "client", "default")).uid
        containers = cluster.nodes.containers
        while not containers.is_running(uid, "main"):
            await asyncio.sleep(0.01)

        def run(script: str) -> str:
            outcome = containers.execute(uid, "main", ["sh", "-c", script], None, is_dry=False)
            assert outcome is not None, script
            return "".join(text for _, text in outcome.output)

        listed = json.loads(run(f"curl -sk {TOKEN} {API}{PODS_PATH}"))
        assert [one["metadata"]["name"] for one in listed["items"]] == ["client"]
        assert json.loads(run(f"curl -sk {TOKEN} {API}/version"))["major"] == "1"
        assert json.loads(run(f"curl -sk {TOKEN} {API}/api"))["versions"] == ["v1"]
        body = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"made"}}'
        path = "/api/v1/namespaces/default/configmaps"
        made = f"curl -sk {CODE} -H 'Content-Type: application/json' {TOKEN} -d '{body}' {API}{path}"
        assert run(made) == "201"
        codes = {
            f"{API}{PODS_PATH}/client": "200",
            f"{API}{PODS_PATH}/none": "404",
            f"{API}/api/v1/nodes": "403",
            f"{API}/apis/none.example.com/v1/things": "404",
            "https://$NODE:10250/healthz": "200",
            "https://$NODE:10250/pods": "403",
            "http://$NODE:10250/healthz": "400",
        }
        assert {url: run(f"curl -sk {CODE} {TOKEN} {url}") for url in codes} == codes
        for url in (f"{API}{PODS_PATH}", "https://$NODE:10250/metrics"):
            assert run(f"curl -sk {CODE} {url}") == "401"
        authority = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
        assert run(f"curl -s --cacert {authority} {CODE} {TOKEN} {API}{PODS_PATH}") == "200"
    finally:
        await cluster.stop()
